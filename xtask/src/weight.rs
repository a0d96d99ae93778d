//! The size of the page when it is sent, and its limits.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::place;
use crate::process::{Failure, Result, While as _};

/// SIZE: from how many bytes before the first answer the build warns, and how many it refuses. `docs/page.md` has the
/// budget.
const FIRST: Budget = Budget { of: "before the first answer", warned: 660_000, refused: 700_000 };
/// SIZE: likewise before the worker answers.
const BOTH: Budget =
    Budget { of: "before the worker answers", warned: 1_250_000, refused: 1_300_000 };

/// How the names of the documentation's files begin.
const DOCS: &str = "docs";

/// Beginnings of the names of files that the worker needs to answer, and the page does not.
const WORKER: &[&str] = &["highwater-desk-"];

/// Beginnings of the names of files that neither needs for an answer: parts of the program, texts and tables, and what
/// keeps the page.
const LATER: [&str; 19] = [
    "choices-",
    "dnnperf-",
    DOCS,
    "families-",
    "formulas-",
    "gpumemnet-",
    "highwater-compare-",
    "highwater-export-",
    "highwater-message-",
    "highwater-profiled-",
    "highwater-ranks-",
    "highwater-reader-",
    "highwater-recorded-",
    "highwater-sections-",
    "highwater-shared-",
    "highwater-time-",
    "models-",
    "schedtune-",
    "sw.js",
];

/// SIZE: how much may come before something.
struct Budget {
    of: &'static str,
    warned: usize,
    refused: usize,
}

impl Budget {
    /// Prints what comes, and refuses too much.
    fn check(&self, bytes: usize) -> Result<()> {
        let Self { of, warned, refused } = self;
        println!("{:>10} {bytes:>10}  all that comes {of}, of at most {refused}", "");
        if bytes >= *refused {
            return Err(Failure::new(format!(
                "{bytes} bytes come {of}, of at most {refused}: look at what was added"
            )));
        }
        if bytes >= *warned {
            println!("warning: {bytes} bytes come {of}; the build refuses {refused}");
        }
        Ok(())
    }
}

/// Prints what each file of the program weighs, and refuses more than the budget.
///
/// # Errors
/// `dist/` cannot be read, or too much comes before an answer.
pub(crate) fn weigh() -> Result<()> {
    let (mut first, mut worker, mut later) = (0, 0, 0);
    let (mut docs, mut docs_raw) = (0, 0);
    println!("{:>10} {:>10}  file of dist/", "raw", "gzip");
    for name in program_files(&place::dist())? {
        let bytes = fs::read(place::dist().join(&name)).during(format_args!("reading {name}"))?;
        let gzip = gzip_size(&bytes).during(format_args!("compressing {name}"))?;
        if name.starts_with(DOCS) {
            docs += gzip;
            docs_raw += bytes.len();
        } else {
            println!("{:>10} {gzip:>10}  {name}", bytes.len());
        }
        let begins = |with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
        let sum = if begins(&LATER) {
            &mut later
        } else if begins(WORKER) {
            &mut worker
        } else {
            &mut first
        };
        *sum += gzip;
    }
    println!(
        "{docs_raw:>10} {docs:>10}  the pages of the documentation, with the texts for search"
    );
    let example = largest_example(&place::dist())?;
    println!("{:>10} {example:>10}  the largest example with its answer", "");
    let checked = FIRST.check(first + example);
    let both = BOTH.check(first + example + worker);
    println!("{:>10} {later:>10}  all that comes later", "");
    checked.and(both)
}

/// SIZE: what the heaviest example weighs, compressed, with its answer.
fn largest_example(folder: &Path) -> Result<usize> {
    let folder = folder.join("examples");
    let mut sizes = BTreeMap::new();
    for entry in fs::read_dir(&folder).during("listing the examples")? {
        let path = entry.during("listing the examples")?.path();
        let bytes = fs::read(&path).during(format_args!("reading {}", path.display()))?;
        let size = gzip_size(&bytes).during("compressing an example")?;
        *sizes.entry(path.file_stem().map(ToOwned::to_owned)).or_insert(0) += size;
    }
    Ok(sizes.into_values().max().unwrap_or_default())
}

/// Endings of files that a page is made of.
const PROGRAM: [&str; 6] = ["wasm", "js", "css", "html", "bin", "woff2"];

/// The names of the page, and of the WebAssembly, script, style, font and table files of a folder, sorted.
fn program_files(folder: &Path) -> Result<Vec<String>> {
    let files = place::files(folder).during("listing dist/ (build the page first)")?;
    let names = files.iter().filter_map(|file| file.strip_prefix(folder).ok());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let counts = |name: &String| {
        // What its search looks through counts too.
        name.starts_with(&format!("{DOCS}-")) || PROGRAM.iter().any(|end| has_extension(name, end))
    };
    Ok(names.filter(counts).collect())
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

pub(crate) fn gzip_size(bytes: &[u8]) -> std::io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
