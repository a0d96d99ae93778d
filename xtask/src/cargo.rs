//! Runs cargo's builds and shows their progress.

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::process::{Failure, Result, While as _, line_of};
use crate::progress;

/// What cargo reports of a package, in the first word of a line; the progress has it already.
const REPORTS: &[&str] = &[
    "Blocking",
    "Compiling",
    "Downloaded",
    "Downloading",
    "Finished",
    "Fresh",
    "Locking",
    "Updating",
];

/// COUNT: how many units of a dependency take as long as one of our own, about.
const OWN_WEIGHT: u32 = 12;

/// Runs a build by cargo. Its counter is the progress of the step; what compilers write is shown.
///
/// The last units are `own` ones: larger than those of dependencies, and at the end, because they need those.
///
/// # Errors
/// Cargo is missing, or the build fails.
pub(crate) fn build(cargo: &mut Command, own: u32) -> Result<()> {
    // Cargo draws its counter only on a terminal, unless it is told otherwise and how wide that is.
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "200");
    cargo.env("CARGO_TERM_COLOR", "never").stderr(Stdio::piped());
    let doing = format!("running {}", line_of(cargo));
    let mut child = cargo.spawn().during(&doing)?;
    let mut written = child.stderr.take().ok_or_else(|| Failure::new(&*doing))?;
    let (mut line, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let length = written.read(&mut buffer).during(&doing)?;
        for &byte in &buffer[..length] {
            if matches!(byte, b'\r' | b'\n') {
                show(&String::from_utf8_lossy(&line), own);
                line.clear();
            } else {
                line.push(byte);
            }
        }
        if length == 0 {
            break;
        }
    }
    show(&String::from_utf8_lossy(&line), own);
    let status = child.wait().during(&doing)?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("`{}` ended with {status}", line_of(cargo))))
}

/// What a line of cargo's means.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    /// Packages built, packages to build, and those in work.
    Counter(u32, u32, &'a str),
    /// Another cargo builds in the same folder.
    Waiting,
    /// Nothing that is not known already.
    Report,
    /// What a compiler wrote.
    Output(&'a str),
}

/// Units done and units to do, by what they weigh.
fn weighed(done: u32, all: u32, own: u32) -> (u32, u32) {
    let begin = all.saturating_sub(own);
    let weight = |units: u32| units + units.saturating_sub(begin) * (OWN_WEIGHT - 1);
    (weight(done), weight(all))
}

fn show(line: &str, own: u32) {
    match read(line) {
        Line::Counter(done, all, packages) => {
            let (done, all) = weighed(done, all, own);
            progress::part(done, all, packages);
        }
        Line::Waiting => progress::part(0, 1, "after another build in target/"),
        Line::Report => {}
        Line::Output(line) => progress::output(line),
    }
}

fn read(line: &str) -> Line<'_> {
    let line = line.trim_start_matches("\x1b[K").trim_end();
    let words = line.trim_start();
    if let Some((_, counter)) =
        words.strip_prefix("Building [").and_then(|rest| rest.split_once("] "))
    {
        let (count, packages) = counter.split_once(": ").unwrap_or((counter, ""));
        if let Some((done, all)) = count.split_once('/')
            && let (Ok(done), Ok(all)) = (done.parse(), all.parse())
        {
            return Line::Counter(done, all, packages);
        }
    }
    let is_indented = line.starts_with(' ');
    let first = words.split(' ').next().unwrap_or_default();
    match first {
        "" => Line::Report,
        "Blocking" if is_indented && !words.ends_with("package cache") => Line::Waiting,
        _ if is_indented && REPORTS.contains(&first) => Line::Report,
        _ => Line::Output(line),
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, read, weighed};

    #[test]
    fn own_units_weigh_more() {
        let cases = [
            ((0, 108, 8), (0, 196)),
            ((100, 108, 8), (100, 196)),
            ((101, 108, 8), (112, 196)),
            ((108, 108, 8), (196, 196)),
            ((1, 2, 8), (12, 24)),
            ((5, 10, 0), (5, 10)),
        ];
        for ((done, all, own), expected) in cases {
            assert_eq!(weighed(done, all, own), expected, "{done} of {all}, {own} of them own");
        }
    }

    #[test]
    fn lines_of_cargo_are_read() {
        let cases = [
            (
                "    Building [=>    ] 5/68: quote(build), syn   ",
                Line::Counter(5, 68, "quote(build), syn"),
            ),
            ("    Building [====> ] 67/68", Line::Counter(67, 68, "")),
            ("   Compiling syn v2.0.119", Line::Report),
            ("    Finished `dev` profile", Line::Report),
            (" Downloading 2 crates, remaining bytes: 1.2MiB", Line::Report),
            ("      ", Line::Report),
            ("    Blocking waiting for file lock on build directory", Line::Waiting),
            ("    Blocking waiting for file lock on package cache", Line::Report),
            ("error[E0425]: cannot find value", Line::Output("error[E0425]: cannot find value")),
            ("  --> app/src/lib.rs:3:1", Line::Output("  --> app/src/lib.rs:3:1")),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line), expected, "{line:?}");
        }
    }
}
