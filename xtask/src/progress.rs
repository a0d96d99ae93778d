//! The current step of a build, on the terminal and on the waiting page.

use std::fmt;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// COUNT: the widest line that is drawn over and over, in characters.
const WIDTH: usize = 78;

/// Where the command is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The step, such as `compiling the page`.
    pub(crate) step: String,
    /// A part of it, such as the packages that are compiled.
    pub(crate) part: String,
    /// How much of all steps is done, in percent.
    pub(crate) percent: u32,
    /// Whether the page can be looked at.
    pub(crate) is_ready: bool,
    /// Why there is no page.
    pub(crate) failure: Option<String>,
    /// What compilers wrote since the build began.
    pub(crate) log: String,
}

/// The progress, and what it takes to go on from there.
struct State {
    shown: Progress,
    /// The share of the step in all of them, in percent.
    share: Range<u32>,
    /// Whether the last line of the terminal is drawn over.
    has_open_line: bool,
}

static NOW: Mutex<State> = Mutex::new(State {
    shown: Progress {
        step: String::new(),
        part: String::new(),
        percent: 0,
        is_ready: false,
        failure: None,
        log: String::new(),
    },
    share: 0..0,
    has_open_line: false,
});

fn lock() -> MutexGuard<'static, State> {
    // A thread that panicked left a state that can be shown.
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the command is now.
pub(crate) fn now() -> Progress {
    lock().shown.clone()
}

/// A build of the page begins.
pub(crate) fn begin() {
    let mut now = lock();
    now.close_line();
    now.shown = Progress::default();
}

/// A step of a build begins, which takes this share of the whole, in percent.
pub(crate) fn step(share: Range<u32>, step: impl fmt::Display) {
    let mut now = lock();
    now.shown.percent = share.start;
    now.share = share;
    now.say(step);
}

/// Says what is being done, if it has no share of its own.
pub(crate) fn say(step: impl fmt::Display) {
    lock().say(step);
}

/// How far the step is: `done` of `all` parts, and which is being done.
pub(crate) fn part(done: u32, all: u32, part: &str) {
    let mut now = lock();
    let before = now.shown.percent;
    now.shown.percent = percent(&now.share, done, all);
    part.clone_into(&mut now.shown.part);
    let line = now.shown.line();
    if stdout().is_terminal() {
        let line: String = line.chars().take(WIDTH).collect();
        print!("\r\x1b[K{line}");
        now.has_open_line = true;
        // A terminal that is gone shows nothing.
        drop(stdout().flush());
    } else if now.shown.percent / 10 > before / 10 {
        println!("{line}");
    }
}

/// A line that a compiler wrote.
pub(crate) fn output(line: &str) {
    let mut now = lock();
    now.close_line();
    eprintln!("{line}");
    now.shown.log.push_str(line);
    now.shown.log.push('\n');
}

/// The build has ended.
pub(crate) fn end(failure: Option<String>) {
    let mut now = lock();
    now.close_line();
    now.shown.is_ready = failure.is_none();
    now.shown.failure = failure;
}

/// The percentage of all steps when `done` of `all` parts of one with a share are done.
fn percent(share: &Range<u32>, done: u32, all: u32) -> u32 {
    share.start + share.end.saturating_sub(share.start) * done.min(all) / all.max(1)
}

impl Progress {
    /// `> compiling the page: 40 %, tachys`.
    fn line(&self) -> String {
        let comma = if self.part.is_empty() { "" } else { ", " };
        format!("> {}: {} %{comma}{}", self.step, self.percent, self.part)
    }
}

impl State {
    fn say(&mut self, step: impl fmt::Display) {
        self.close_line();
        self.shown.step = step.to_string();
        self.shown.part.clear();
        if stdout().is_terminal() {
            println!("\x1b[1;36m>\x1b[0m {step}");
        } else {
            println!("> {step}");
        }
    }

    fn close_line(&mut self) {
        if self.has_open_line {
            println!();
        }
        self.has_open_line = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, percent};

    #[test]
    fn a_step_has_its_share_of_the_whole() {
        let cases = [
            (20..95, 0, 300, 20),
            (20..95, 150, 300, 57),
            (20..95, 301, 300, 95),
            (0..15, 1, 0, 0),
            (5..5, 1, 2, 5),
        ];
        for (share, done, all, expected) in cases {
            assert_eq!(percent(&share, done, all), expected, "{done} of {all} in {share:?}");
        }
    }

    #[test]
    fn a_line_names_what_is_done() {
        let mut progress =
            Progress { step: "compiling".to_owned(), percent: 40, ..Progress::default() };
        assert_eq!(progress.line(), "> compiling: 40 %");
        progress.part = "tachys".to_owned();
        assert_eq!(progress.line(), "> compiling: 40 %, tachys");
    }
}
