//! Notices changes of the page's sources.

use std::fs;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::place;
use crate::process::{Result, While as _};

/// Files and folders that the page is made of.
const SOURCES: &[&str] = &[
    "Cargo.lock",
    "ARCHITECTURE.md",
    "Cargo.toml",
    "app",
    "core/Cargo.toml",
    "core/base",
    "core/build.rs",
    "core/engine",
    "core/formats",
    "core/pack",
    "core/src",
    "draw/Cargo.toml",
    "draw/src",
    "docs",
    "index.html",
    "public",
    "styles",
];

/// What is compared: how many files there are, and when the last one changed.
type State = (usize, Option<SystemTime>);

/// The present state of the sources.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn sources() -> Result<State> {
    let (mut count, mut last) = (0, None);
    for source in SOURCES {
        let doing = format!("looking for changes of {source}");
        let path = place::root().join(source);
        let files = if path.is_dir() { place::files(&path).during(doing)? } else { vec![path] };
        count += files.len();
        // An editor may replace a file at this moment.
        let times = files.iter().filter_map(|file| fs::metadata(file).ok()?.modified().ok());
        last = last.max(times.max());
    }
    Ok((count, last))
}

/// Returns when the sources are no longer in a state.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn wait_for_change(state: State) -> Result<()> {
    while sources()? == state {
        thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SOURCES, sources};
    use crate::place;

    #[test]
    fn every_source_is_there() {
        for source in SOURCES {
            assert!(place::root().join(source).exists(), "{source}");
        }
        let (count, last) = sources().expect("the sources");
        assert!(count > SOURCES.len() && last.is_some());
    }
}
