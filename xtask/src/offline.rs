//! Writes the list of files for visits without a network into the worker that keeps them.

use highwater_pack::fingerprint;

use crate::process::{Failure, Result, While as _};
use crate::site::Files;

/// The worker, which lists itself nowhere: a browser fetches it by rules of its own.
const WORKER: &str = "sw.js";
/// The line of it that the list replaces.
const EMPTY: &str = "const FILES = {};";

/// Endings of files that are not kept: they are for other programs, and large.
const NOT_KEPT: &str = ".csv";

/// Writes the files of a page and their fingerprints into its worker; none, if the page is not to be kept.
///
/// # Errors
/// The worker is not the one that this was written for.
pub(crate) fn prepare(files: &mut Files, kept: bool) -> Result<()> {
    let worker = files.get(WORKER).cloned().unwrap_or_default();
    let worker = String::from_utf8(worker).during(format_args!("reading {WORKER}"))?;
    if !worker.contains(EMPTY) {
        return Err(Failure::new(format!("{WORKER} has no line `{EMPTY}`")));
    }
    let listed =
        files.iter().filter(|(name, _)| kept && *name != WORKER && !name.ends_with(NOT_KEPT));
    let entries: Vec<_> = listed
        .map(|(name, bytes)| format!("  \"{name}\": \"{:x}\",\n", fingerprint(bytes)))
        .collect();
    let listed = format!("const FILES = {{\n{}}};", entries.concat());
    files.insert(WORKER.to_owned(), worker.replacen(EMPTY, &listed, 1).into_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use highwater_pack::fingerprint;

    use super::{EMPTY, WORKER, prepare};
    use crate::site::Files;

    #[test]
    fn the_worker_lists_what_is_kept() {
        for (kept, expected) in [
            (true, "const FILES = {\n  \"a.js\": \"e40c292c\",\n};"),
            (false, "const FILES = {\n};"),
        ] {
            let mut files = Files::from([
                ("a.js".to_owned(), b"a".to_vec()),
                ("docs/b.csv".to_owned(), b"b".to_vec()),
                (WORKER.to_owned(), EMPTY.as_bytes().to_vec()),
            ]);
            prepare(&mut files, kept).expect("the worker has the line");
            assert_eq!(files[WORKER], expected.as_bytes(), "kept: {kept}");
        }
    }

    #[test]
    fn fingerprints_are_those_of_fnv() {
        for (text, expected) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fingerprint(text.as_bytes()), expected, "{text}");
        }
    }
}
