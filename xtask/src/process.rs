//! Runs other programs, with readable errors.

use std::ffi::OsStr;
use std::fmt;
use std::process::{Command, Stdio};

use crate::place;

/// What went wrong, where, and what to do, in a sentence for whoever typed the command.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// A result whose error is meant to be read.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that says this.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names what was being done when an error of the system came.
pub(crate) trait While<T> {
    /// `reading dist/index.html: No such file or directory`.
    ///
    /// # Errors
    /// Those of `self`, with the doing named.
    fn during(self, doing: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn during(self, doing: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{doing}: {error}")))
    }
}

/// A program started in the root of the checkout, with nothing to read.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(place::root()).stdin(Stdio::null());
    command
}

/// Runs a program, its output shown.
///
/// # Errors
/// The program is not there, or ends badly.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().during(format_args!("starting {}", line_of(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure(format!("`{}` ended with {status}", line_of(command))))
}

/// What a program prints, trimmed.
///
/// # Errors
/// The program is not there, or ends badly; then what it complained of is in the message.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().during(format_args!("starting {}", line_of(command)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Failure(format!(
        "`{}` ended with {}: {}",
        line_of(command),
        output.status,
        complaint.trim()
    )))
}

/// The command as one would type it.
pub(crate) fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
