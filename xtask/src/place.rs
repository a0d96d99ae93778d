//! Paths of the checkout, and of the cache that outlives it.

use std::env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::process::{Failure, Result};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map_or_else(|| xtask.to_owned(), Path::to_owned)
}

/// The built page.
pub(crate) fn dist() -> PathBuf {
    root().join("dist")
}

/// What a command printed that ran beside other checks.
pub(crate) fn log(name: &str) -> PathBuf {
    root().join("target").join(format!("{name}.log"))
}

/// Where a run of all checks that passed leaves the commit that it passed on.
pub(crate) fn tested() -> PathBuf {
    root().join("target").join("tested")
}

/// The browser tests.
pub(crate) fn e2e() -> PathBuf {
    root().join("tests").join("e2e")
}

/// Where cargo builds for the browser: apart from native builds, whose compiler may be another.
pub(crate) fn wasm_target() -> PathBuf {
    root().join("target").join("wasm")
}

/// Where the page's tool is compiled: apart, because cargo locks a folder while it builds in it.
pub(crate) fn bindgen_target() -> PathBuf {
    root().join("target").join("bindgen")
}

/// Where cargo builds for this machine.
pub(crate) fn native_target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR");
    root().join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// What is installed once and kept: `$XDG_CACHE_HOME/highwater`, else `~/.cache/highwater`.
///
/// # Errors
/// Neither variable is set.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match (env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => Path::new(&home).join(".cache"),
        _ => return Err(Failure::new("no place for tools: set HOME or XDG_CACHE_HOME")),
    };
    Ok(base.join("highwater"))
}

/// The outcome of removing something, which is no error where there was nothing to remove.
///
/// # Errors
/// It is still there.
pub(crate) fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// The first of these programs on `PATH`.
pub(crate) fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    let candidates = names.iter().flat_map(|name| directories.iter().map(move |d| d.join(name)));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// The files of a folder and of those in it, sorted.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
