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
/// Files of the program that reads what is not ONNX, which the page does not wait for.
const READER: &str = "highwater-reader";
/// SIZE: its program, compressed, which must be there when somebody writes a model.
const READER_GZIP: usize = 440_000;

/// Files of what is fetched only when somebody saves an answer, and of what keeps the page.
const ON_DEMAND: [&str; 3] = ["highwater-export", "export.js", "sw.js"];
/// SIZE: all of these, compressed.
const ON_DEMAND_GZIP: usize = 140_000;

/// Files of the program that reads memory snapshots, fetched when somebody drops one.
const RECORDED: &str = "highwater-recorded";
/// SIZE: its program, compressed.
const RECORDED_GZIP: usize = 135_000;

/// Files of the program that reads profiler traces, fetched when somebody drops one.
const PROFILED: &str = "highwater-profiled";
/// SIZE: its program, compressed.
const PROFILED_GZIP: usize = 275_000;

/// Files of what a run fetches that needs more of cuDNN's choices than the program carries.
const CHOICES: &str = "choices-";
/// SIZE: it, compressed.
const CHOICES_GZIP: usize = 200_000;

/// The file of the formulas of operators, fetched when a run needs one.
const FORMULAS: &str = "formulas-";
/// SIZE: it, compressed.
const FORMULAS_GZIP: usize = 20_000;

/// Prints what each file of the program weighs, and refuses more than the budgets.
///
/// # Errors
/// `dist/` cannot be read, or WebAssembly and script together are too heavy.
pub(crate) fn weigh() -> Result<()> {
    let (mut program_gzip, mut reader_gzip) = (0, 0);
    let (mut on_demand_gzip, mut recorded_gzip, mut profiled_gzip) = (0, 0, 0);
    let (mut choices_gzip, mut formulas_gzip) = (0, 0);
    println!("{:>10} {:>10}  file of dist/", "raw", "gzip");
    for name in program_files(&place::dist())? {
        let bytes = fs::read(place::dist().join(&name)).during(format_args!("reading {name}"))?;
        let gzip = gzip_size(&bytes).during(format_args!("compressing {name}"))?;
        println!("{:>10} {gzip:>10}  {name}", bytes.len());
        if name.starts_with(READER) {
            reader_gzip += gzip;
        } else if name.starts_with(RECORDED) {
            recorded_gzip += gzip;
        } else if name.starts_with(PROFILED) {
            profiled_gzip += gzip;
        } else if name.starts_with(CHOICES) {
            choices_gzip += gzip;
        } else if name.starts_with(FORMULAS) {
            formulas_gzip += gzip;
        } else if ON_DEMAND.iter().any(|file| name.starts_with(file)) {
            on_demand_gzip += gzip;
        } else {
            program_gzip += gzip;
        }
    }
    let example = largest_example(&place::dist())?;
    println!("{:>10} {example:>10}  the largest example", "");
    within("all that comes before the first answer", program_gzip + example, PROGRAM_GZIP)?;
    within("the readers behind it", reader_gzip, READER_GZIP)?;
    within("what is fetched when asked for", on_demand_gzip, ON_DEMAND_GZIP)?;
    within("what cuDNN chooses elsewhere", choices_gzip, CHOICES_GZIP)?;
    within("the formulas of operators", formulas_gzip, FORMULAS_GZIP)?;
    within("what reads memory snapshots", recorded_gzip, RECORDED_GZIP)?;
    within("what reads profiler traces", profiled_gzip, PROFILED_GZIP)
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

fn gzip_size(bytes: &[u8]) -> std::io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
