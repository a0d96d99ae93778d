//! A line on stderr that shows how far a long computation is, and goes away with its end.

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is over before that shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts what is done. It shows nothing where stderr is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// What shows the line later; it ends when the sender does.
    shower: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Of a number of things, by the text of the line: `asking {len} GPUs: {pos} of {len}`.
    pub(crate) fn of(line: &'static str, all: usize) -> Self {
        Self::start(line, u64::try_from(all).ok())
    }

    /// Of things whose number nobody knows yet: `{pos} jobs answered`.
    pub(crate) fn of_unknown(line: &'static str) -> Self {
        Self::start(line, None)
    }

    /// One that never shows anything.
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), shower: None }
    }

    fn start(line: &'static str, all: Option<u64>) -> Self {
        if !io::stderr().is_terminal() {
            return Self::hidden();
        }
        let style = ProgressStyle::with_template(line);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar =
            ProgressBar::with_draw_target(all, ProgressDrawTarget::hidden()).with_style(style);
        let (ends, end) = mpsc::channel();
        let shown = bar.clone();
        let later = thread::spawn(move || {
            if end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.tick();
            }
        });
        Self { bar, shower: Some((ends, later)) }
    }

    /// One more is done.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((ends, later)) = self.shower.take() {
            drop(ends);
            later.join().ok();
        }
        self.bar.finish_and_clear();
    }
}
