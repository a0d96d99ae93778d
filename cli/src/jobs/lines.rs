//! A job in each line, an answer in each line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use serde_json::Value;

use super::answer::{Failure, Reply};
use super::engine::Engine;
use super::files::Files;
use super::pool::{Pool, threads};
use crate::progress::Progress;

/// SIZE: bytes of a line.
pub(crate) const LINE_MAX: usize = 4 << 20;

/// COUNT: lines in flight for each thread.
const AHEAD: usize = 16;

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Without its end.
    Text(Vec<u8>),
    /// One of more than [`LINE_MAX`] bytes, which were skipped.
    TooLong,
}

/// Answers the jobs of a file, or of standard input for `-`, in their order. An answer is written as soon as those
/// before it are.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn answer_lines(file: &Path) -> Result<(), String> {
    let shown = file.display().to_string();
    let input: Box<dyn BufRead + Send> = if file.as_os_str() == "-" {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let file = File::open(file).map_err(|error| format!("{shown}: cannot read: {error}"))?;
        Box::new(BufReader::new(file))
    };
    let threads = threads();
    let engine = Arc::new(Engine::new(Files::Any));
    let pool = Pool::start(&engine, threads)
        .map_err(|error| format!("cannot start {threads} threads: {error}"))?;
    let (give, answers) = mpsc::sync_channel(threads.saturating_mul(AHEAD));
    // A thread of its own: it may wait for input for ever after nobody reads the answers.
    let reader = thread::spawn(move || read(input, &pool, &give));
    if write(&answers).is_err() {
        return Ok(());
    }
    match reader.join() {
        Ok(Err(error)) => Err(format!("{shown}: cannot read: {error}")),
        _ => Ok(()),
    }
}

/// Reads lines until they end or nobody wants answers.
fn read(
    mut input: Box<dyn BufRead + Send>,
    pool: &Pool,
    answers: &SyncSender<Receiver<String>>,
) -> io::Result<()> {
    while let Some(line) = next(&mut *input)? {
        let (send, answer) = mpsc::sync_channel(1);
        // Waits where there are too many in flight.
        if answers.send(answer).is_err() {
            break;
        }
        pool.give(move |engine, worker| {
            let reply = match line {
                Line::Text(text) => engine.answer(&text, worker),
                Line::TooLong => Reply::of(Value::Null, Err(too_long())),
            };
            // Nobody may wait any more.
            send.send(reply.line()).ok();
        });
    }
    Ok(())
}

/// Writes answers; whoever asks line by line waits for each.
fn write(answers: &Receiver<Receiver<String>>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    // Answers on a terminal show by themselves how far they are.
    let progress = if stdout.is_terminal() {
        Progress::hidden()
    } else {
        Progress::of_unknown("{pos} jobs answered")
    };
    for answer in answers {
        let Ok(line) = answer.recv() else { continue };
        writeln!(stdout, "{line}")?;
        stdout.flush()?;
        progress.advance();
    }
    Ok(())
}

/// The next line that is not blank.
fn next(input: &mut dyn BufRead) -> io::Result<Option<Line>> {
    loop {
        let mut text = Vec::new();
        let most = u64::try_from(LINE_MAX).unwrap_or(u64::MAX).saturating_add(1);
        if input.take(most).read_until(b'\n', &mut text)? == 0 {
            return Ok(None);
        }
        if text.last() == Some(&b'\n') {
            text.pop();
        } else if text.len() > LINE_MAX {
            skip_line(input)?;
            return Ok(Some(Line::TooLong));
        }
        if !text.trim_ascii().is_empty() {
            return Ok(Some(Line::Text(text)));
        }
    }
}

fn skip_line(input: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (used, is_over) = match end {
            Some(end) => (end + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(used);
        if is_over {
            return Ok(());
        }
    }
}

fn too_long() -> Failure {
    let message = format!(
        "this line has more than {LINE_MAX} bytes; give the model's name, or a file, instead of its contents"
    );
    Failure::new("too-long", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_whole() {
        let mut text = vec![b'a'; LINE_MAX];
        text.push(b'\n');
        text.extend(vec![b'b'; 3 * LINE_MAX]);
        text.extend(b"\n\n  \nc");
        let mut input = BufReader::with_capacity(1000, &*text);
        let mut next = || next(&mut input).unwrap();
        assert_eq!(next(), Some(Line::Text(vec![b'a'; LINE_MAX])));
        assert_eq!(next(), Some(Line::TooLong));
        assert_eq!(next(), Some(Line::Text(b"c".to_vec())));
        assert_eq!(next(), None);
    }
}
