//! The size of the page when it is sent, and its limits.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::place;
use crate::process::{Failure, Result, While as _};

/// SIZE: the most that may travel before the first answer for an example, in bytes: what a line of
/// 4 Mbit/s carries in less than half of the 4 s that the answer may take. `docs/page.md` has the whole
/// budget.
const PROGRAM_GZIP: usize = 980_000;

/// Files that the first answer does not wait for.
struct Later {
    what: &'static str,
    /// Beginnings of their names.
    files: &'static [&'static str],
    /// SIZE: all of them, compressed.
    budget: usize,
}

const LATER: [Later; 11] = [
    // It must be there when somebody writes a model.
    Later { what: "the readers behind it", files: &["highwater-reader"], budget: 470_000 },
    // Also what keeps the page.
    Later {
        what: "what is fetched when asked for",
        files: &["highwater-export", "export.js", "sw.js"],
        budget: 145_000,
    },
    Later { what: "what cuDNN chooses elsewhere", files: &["choices-"], budget: 200_000 },
    Later { what: "the formulas of operators", files: &["formulas-"], budget: 22_000 },
    Later { what: "the models by name", files: &["models-"], budget: 16_000 },
    Later { what: "the families of models", files: &["families-"], budget: 60_000 },
    Later { what: "what computes times", files: &["highwater-time"], budget: 500_000 },
    Later { what: "other estimators", files: &["highwater-compare"], budget: 90_000 },
    Later {
        what: "weights of learned estimators",
        files: &["schedtune-", "gpumemnet-", "dnnperf-"],
        budget: 110_000,
    },
    Later { what: "what reads memory snapshots", files: &["highwater-recorded"], budget: 135_000 },
    Later { what: "what reads profiler traces", files: &["highwater-profiled"], budget: 275_000 },
];

/// Prints what each file of the program weighs, and refuses more than the budgets.
///
/// # Errors
/// `dist/` cannot be read, or WebAssembly and script together are too heavy.
pub(crate) fn weigh() -> Result<()> {
    let (mut first, mut later) = (0, [0; LATER.len()]);
    println!("{:>10} {:>10}  file of dist/", "raw", "gzip");
    for name in program_files(&place::dist())? {
        let bytes = fs::read(place::dist().join(&name)).during(format_args!("reading {name}"))?;
        let gzip = gzip_size(&bytes).during(format_args!("compressing {name}"))?;
        println!("{:>10} {gzip:>10}  {name}", bytes.len());
        let waits = |later: &Later| later.files.iter().any(|file| name.starts_with(file));
        match LATER.iter().position(waits) {
            Some(kind) => later[kind] += gzip,
            None => first += gzip,
        }
    }
    let example = largest_example(&place::dist())?;
    println!("{:>10} {example:>10}  the largest example", "");
    within("all that comes before the first answer", first + example, PROGRAM_GZIP)?;
    LATER.iter().zip(later).try_for_each(|(kind, gzip)| within(kind.what, gzip, kind.budget))
}

/// Prints a sum, and refuses it beyond its budget.
fn within(what: &str, gzip: usize, budget: usize) -> Result<()> {
    println!("{:>10} {gzip:>10}  {what}, of at most {budget}", "");
    if gzip <= budget {
        return Ok(());
    }
    let over = gzip - budget;
    Err(Failure::new(format!(
        "{what} is {over} bytes over its budget: look at what was added to it"
    )))
}

/// SIZE: what the heaviest example weighs, compressed.
fn largest_example(folder: &Path) -> Result<usize> {
    let folder = folder.join("examples");
    let mut largest = 0;
    for entry in fs::read_dir(&folder).during("listing the examples")? {
        let path = entry.during("listing the examples")?.path();
        let bytes = fs::read(&path).during(format_args!("reading {}", path.display()))?;
        largest = largest.max(gzip_size(&bytes).during("compressing an example")?);
    }
    Ok(largest)
}

/// Endings of files that a page is made of.
const PROGRAM: [&str; 6] = ["wasm", "js", "css", "html", "bin", "woff2"];

/// The names of the page, and of the WebAssembly, script, style, font and table files of a folder, sorted.
fn program_files(folder: &Path) -> Result<Vec<String>> {
    let files = place::files(folder).during("listing dist/ (build the page first)")?;
    let names = files.iter().filter_map(|file| file.strip_prefix(folder).ok());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    Ok(names.filter(|name| PROGRAM.iter().any(|ending| has_extension(name, ending))).collect())
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

pub(crate) fn gzip_size(bytes: &[u8]) -> std::io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
