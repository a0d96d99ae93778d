//! `highwater`: estimates from a shell or a scheduler.
//!
//! Reads arguments and a file, asks `highwater-core`, prints. The wire format of `--json` is this
//! crate's; everything that is computed is the core's.
//!
//! Exit status: 0 the estimate was made, 1 it does not fit where `--require` asked that it must,
//! 2 bad use or input.

mod answer;
mod args;
mod catalogue;
mod explain;
mod file;
mod json;
mod table;
mod text;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use highwater_core::Error;

use crate::answer::Answer;
use crate::args::{Arguments, Command, Estimate};
use crate::file::FileSource;

/// The model does not fit on a required device.
const DOES_NOT_FIT: u8 = 1;
/// Bad use or input; clap exits with the same.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let (output, status) = match Arguments::parse().command {
        Command::Estimate(arguments) => match estimate(&arguments) {
            Ok(outcome) => outcome,
            Err(message) => return complain(&message, BAD_INPUT),
        },
        Command::Explain(arguments) => match explain::explain(&arguments) {
            Ok(output) => (output, ExitCode::SUCCESS),
            Err(message) => return complain(&message, BAD_INPUT),
        },
        Command::Operators => (catalogue::operators(), ExitCode::SUCCESS),
        Command::Devices => (catalogue::devices(), ExitCode::SUCCESS),
    };
    match anstream::stdout().write_all(output.as_bytes()) {
        // Whoever reads has read enough: `highwater operators | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => status,
        Err(error) => complain(&format!("cannot write the answer: {error}"), BAD_INPUT),
        Ok(()) => status,
    }
}

/// What to print, and how to exit.
fn estimate(arguments: &Estimate) -> Result<(String, ExitCode), String> {
    let answer = answer(arguments).map_err(|error| locate(&arguments.model, &error))?;
    let mut status = ExitCode::SUCCESS;
    for device in &answer.devices {
        let required = arguments.require.contains(&device.verdict.id);
        if required && !device.verdict.verdict.survives() {
            status = complain(&text::refusal(device), DOES_NOT_FIT);
        }
    }
    let output = if arguments.json {
        json::render(&answer).map_err(|error| format!("cannot write JSON: {error}"))?
    } else {
        text::render(&answer)
    };
    Ok((output, status))
}

fn answer(arguments: &Estimate) -> Result<Answer, Error> {
    let mut source = FileSource::open(&arguments.model)?;
    let model = highwater_core::open(&mut source, &arguments.model.to_string_lossy())?;
    let file_name = arguments.model.file_name().unwrap_or(arguments.model.as_os_str());
    Answer::of(&model, &file_name.to_string_lossy(), &arguments.config())
}

/// An error and the file it is about, which it may name already.
fn locate(path: &Path, error: &Error) -> String {
    let path = path.to_string_lossy();
    let message = error.to_string();
    if message.starts_with(&*path) { message } else { format!("{path}: {message}") }
}

/// Says on stderr what is wrong. A closed stderr leaves the exit status to tell.
fn complain(message: &str, status: u8) -> ExitCode {
    writeln!(anstream::stderr(), "{}error:{:#} {message}", text::BAD, text::BAD).ok();
    ExitCode::from(status)
}
