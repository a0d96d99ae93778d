//! For hosts other than `cargo xtask serve`: their headers for caches, and compressed files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;

use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::process::{Failure, Result, While as _};
use crate::site::{self, Files};
use crate::{place, progress};

/// The file of headers that Netlify and Cloudflare Pages read. They serve no file of this name.
const HEADERS: &str = "_headers";

/// Endings of files that compression makes smaller.
const TEXTS: [&str; 12] =
    ["bin", "css", "csv", "html", "js", "json", "md", "onnx", "svg", "txt", "wasm", "webmanifest"];

/// SIZE: of smaller files, compression saves less than a host spends on looking for them.
const COMPRESSED_MIN: usize = 256;

/// Adds the headers for caches: a browser keeps what has a fingerprint in its name. It asks for all else again, which
/// is what these hosts state for files without a rule.
pub(crate) fn add_headers(files: &mut Files) {
    let mut text = String::from("/*\n  X-Content-Type-Options: nosniff\n");
    for pattern in patterns(files.keys().map(String::as_str)) {
        let pattern = format!("/{pattern}\n  Cache-Control: public, max-age=31536000, immutable\n");
        text.push_str(&pattern);
    }
    files.insert(HEADERS.to_owned(), text.into_bytes());
}

/// Patterns for all names with a fingerprint, and for no other.
fn patterns<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let (hashed, others): (Vec<&str>, Vec<&str>) = names.partition(|name| site::is_hashed(name));
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in hashed {
        groups.entry(name.split_once('-').map_or(name, |(first, _)| first)).or_default().push(name);
    }
    let of_group = |(first, names): (&str, Vec<&str>)| {
        let begin = format!("{first}-");
        if others.iter().any(|other| other.starts_with(&begin)) {
            return names.into_iter().map(str::to_owned).collect();
        }
        vec![format!("{begin}*")]
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// Whether a file of `dist/` is one that only hosts read: a page never asks for it by this name.
pub(crate) fn is_for_hosts(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    name == HEADERS || matches!(ending, Some("br" | "gz"))
}

/// Writes each text of `dist/` compressed next to it, as `NAME.br` and `NAME.gz`.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn compress() -> Result<()> {
    progress::say("compressing the page's files");
    let folder = place::dist();
    let files = place::files(&folder).during("listing dist/ (build the page first)")?;
    let texts: Vec<PathBuf> = files.into_iter().filter(|file| is_text(file)).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let parts = texts.chunks(texts.len().div_ceil(threads).max(1));
    let outcome: Result<Vec<()>> = thread::scope(|scope| {
        let workers: Vec<_> = parts
            .map(|part| scope.spawn(|| part.iter().try_for_each(|file| compress_file(file))))
            .collect();
        let joined = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_panic| Err(Failure::new("compressing panicked")))
        });
        joined.collect()
    });
    outcome.map(drop)
}

fn is_text(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    TEXTS.contains(&ending)
}

fn compress_file(file: &Path) -> Result<()> {
    let doing = format!("compressing {}", file.display());
    let bytes = fs::read(file).during(&doing)?;
    if bytes.len() < COMPRESSED_MIN {
        return Ok(());
    }
    for (ending, packed) in [(".br", brotli(&bytes)), (".gz", gzip(&bytes))] {
        let mut name = OsString::from(file);
        name.push(ending);
        fs::write(name, packed.during(&doing)?).during(&doing)?;
    }
    Ok(())
}

fn brotli(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let parameters = BrotliEncoderParams { quality: 11, lgwin: 24, ..Default::default() };
    let mut packed = Vec::new();
    brotli::BrotliCompress(&mut &*bytes, &mut packed, &parameters)?;
    Ok(packed)
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::{HEADERS, add_headers, brotli, gzip, is_for_hosts, patterns};
    use crate::site::Files;

    #[test]
    fn patterns_are_for_names_with_a_fingerprint_alone() {
        let names = [
            "boot.js",
            "choices-7.5-9697100c.bin",
            "docs-00c0ffee.css",
            "docs/sharing.html",
            "highwater-app-3aa37c98.js",
            "highwater-app-3aa37c98_bg.wasm",
            "icon-192.png",
            "icon-e40c292c.svg",
        ];
        let found: Vec<_> = patterns(names.into_iter()).into_iter().collect();
        assert_eq!(found, ["choices-*", "docs-*", "highwater-*", "icon-e40c292c.svg"]);
    }

    #[test]
    fn headers_are_a_file() {
        let mut files = Files::from([("a-e40c292c.css".to_owned(), Vec::new())]);
        add_headers(&mut files);
        let expected = "/*\n  X-Content-Type-Options: nosniff\n\
            /a-*\n  Cache-Control: public, max-age=31536000, immutable\n";
        assert_eq!(files[HEADERS], expected.as_bytes());
        assert!(is_for_hosts(HEADERS) && is_for_hosts("docs/a.html.br"));
        assert!(!is_for_hosts("docs/a.html"));
    }

    #[test]
    fn compressed_files_can_be_unpacked() {
        let text = "high water ".repeat(99);
        let mut unpacked = String::new();
        let packed = gzip(text.as_bytes()).expect("gzip");
        GzDecoder::new(&*packed).read_to_string(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, text);
        unpacked.clear();
        let packed = brotli(text.as_bytes()).expect("Brotli");
        let mut decoder = brotli::Decompressor::new(&*packed, 4096);
        decoder.read_to_string(&mut unpacked).expect("Brotli");
        assert_eq!(unpacked, text);
    }
}
