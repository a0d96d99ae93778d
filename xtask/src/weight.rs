//! The size of the page when it is sent, and its limits.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::place;
use crate::process::{Failure, Result, While as _};

/// SIZE: from how many bytes before the first answer for an example the build warns. `docs/page.md` has the budget.
const WARNED: usize = 1_200_000;
/// SIZE: how many it refuses.
const REFUSED: usize = 1_300_000;

/// How the names of the documentation's files begin.
const DOCS: &str = "docs";

/// Beginnings of the names of files that the first answer does not wait for: parts of the program, texts and tables,
/// and what keeps the page.
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

/// Prints what each file of the program weighs, and refuses more than the budget.
///
/// # Errors
/// `dist/` cannot be read, or too much comes before the first answer.
pub(crate) fn weigh() -> Result<()> {
    let (mut first, mut later) = (0, 0);
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
        let is_later = LATER.iter().any(|begin| name.starts_with(begin));
        *(if is_later { &mut later } else { &mut first }) += gzip;
    }
    println!(
        "{docs_raw:>10} {docs:>10}  the pages of the documentation, with the texts for search"
    );
    let example = largest_example(&place::dist())?;
    println!("{:>10} {example:>10}  the largest example", "");
    let first = first + example;
    println!(
        "{:>10} {first:>10}  all that comes before the first answer, of at most {REFUSED}",
        ""
    );
    println!("{:>10} {later:>10}  all that comes later", "");
    match first {
        REFUSED.. => Err(Failure::new(format!(
            "{first} bytes come before the first answer, of at most {REFUSED}: look at what was added"
        ))),
        WARNED.. => {
            println!(
                "warning: {first} bytes come before the first answer; the build refuses {REFUSED}"
            );
            Ok(())
        }
        _ => Ok(()),
    }
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
