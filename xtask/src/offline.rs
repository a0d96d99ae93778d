//! What the page needs when there is no network: the list of its files, written into the worker that
//! keeps them.

use std::fs;
use std::path::Path;

use crate::page::pack::fingerprint;
use crate::process::{Failure, Result, While as _};

/// The worker, which lists itself nowhere: a browser fetches it by rules of its own.
const WORKER: &str = "sw.js";
/// The line of it that the list replaces.
const EMPTY: &str = "const FILES = {};";

/// Writes the files of a built page and their fingerprints into its worker; none, if the page is not
/// to be kept.
///
/// # Errors
/// A file cannot be read, or the worker is not the one that this was written for.
pub(crate) fn prepare(folder: &Path, kept: bool) -> Result<()> {
    let path = folder.join(WORKER);
    let worker = fs::read_to_string(&path).during("reading the worker that keeps the page")?;
    if !worker.contains(EMPTY) {
        return Err(Failure::new(format!("{WORKER} has no line `{EMPTY}`")));
    }
    let mut files = Vec::new();
    if kept {
        list(folder, "", &mut files)?;
        files.sort();
    }
    let entries: Vec<_> =
        files.iter().map(|(name, mark)| format!("  \"{name}\": \"{mark:x}\",\n")).collect();
    let listed = format!("const FILES = {{\n{}}};", entries.concat());
    fs::write(&path, worker.replacen(EMPTY, &listed, 1)).during("writing the list of files")
}

fn list(folder: &Path, prefix: &str, files: &mut Vec<(String, u32)>) -> Result<()> {
    let doing = format!("listing {}", folder.display());
    for entry in fs::read_dir(folder).during(&doing)? {
        let entry = entry.during(&doing)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            list(&entry.path(), &format!("{name}/"), files)?;
        } else if name != WORKER && !name.starts_with('.') {
            let bytes = fs::read(entry.path()).during(format_args!("reading {name}"))?;
            files.push((name, fingerprint(&bytes)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::page::pack::fingerprint;

    #[test]
    fn fingerprints_are_those_of_fnv() {
        for (text, expected) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fingerprint(text.as_bytes()), expected, "{text}");
        }
    }
}
