//! When the sources of the page change.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::place;
use crate::process::{Result, While as _};

/// Files and folders that the page is made of.
const SOURCES: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "Trunk.toml",
    "app",
    "core/Cargo.toml",
    "core/build",
    "core/src",
    "draw/Cargo.toml",
    "draw/src",
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
    let mut state = (0, None);
    for source in SOURCES {
        look(&place::root().join(source), &mut state)?;
    }
    Ok(state)
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

fn look(path: &Path, (count, last): &mut State) -> Result<()> {
    let doing = format!("looking at {}", path.display());
    // An editor may replace a file at this moment.
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    if found.is_dir() {
        for entry in fs::read_dir(path).during(&doing)? {
            let path = entry.during(&doing)?.path();
            let mut below = (*count, *last);
            look(&path, &mut below)?;
            (*count, *last) = below;
        }
    } else {
        *count += 1;
        *last = (*last).max(Some(found.modified().during(&doing)?));
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
