//! Finds a browser and Node, and installs them only if they are missing.

use std::path::PathBuf;

use crate::place::find_program;
use crate::process::{Failure, Result, command, output_of, run};
use crate::progress;

/// Whether a program is on `PATH`, of a version that begins so.
pub(crate) fn has(program: &str, version: &str) -> bool {
    let said = output_of(command(program).arg("--version"));
    said.is_ok_and(|said| said.split_whitespace().any(|word| word.starts_with(version)))
}

/// A Chromium to test the page in.
///
/// # Errors
/// There is none and Debian's cannot be installed.
pub(crate) fn chromium() -> Result<PathBuf> {
    ensure_program(&["chromium", "chromium-browser", "google-chrome"], &["chromium"])
}

/// Node, with npm, to run the browser tests.
///
/// # Errors
/// There is none and Debian's cannot be installed.
pub(crate) fn node() -> Result<()> {
    ensure_program(&["node"], &["nodejs"])?;
    ensure_program(&["npm"], &["npm"])?;
    Ok(())
}

fn ensure_program(names: &[&str], packages: &[&str]) -> Result<PathBuf> {
    if let Some(found) = find_program(names) {
        return Ok(found);
    }
    apt_install(packages)?;
    find_program(names).ok_or_else(|| {
        Failure::new(format!("no {} on PATH; install one by hand", names.join(" or ")))
    })
}

/// Installs Debian packages, where that is possible.
///
/// # Errors
/// This is no Debian, or not its administrator; the message is what to type.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    progress::say(format_args!("installing {} with apt-get", packages.join(" ")));
    let apt = |arguments: &[&str]| {
        run(command("apt-get").arg("-qq").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let install: Vec<&str> = ["install", "--yes", "--no-install-recommends"]
        .into_iter()
        .chain(packages.iter().copied())
        .collect();
    apt(&["update"]).and_then(|()| apt(&install)).map_err(|failure| {
        Failure::new(format!(
            "{failure}; install these by hand and try again: apt-get install {}",
            packages.join(" ")
        ))
    })
}
