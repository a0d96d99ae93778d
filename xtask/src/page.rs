//! The static page in `dist/`, and what it weighs.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

#[path = "../../core/build/pack.rs"]
pub(crate) mod pack;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::place;
use crate::process::{Failure, Result, While as _, command, progress, run};
use crate::{offline, shrink, toolchain, tools};

/// SIZE: the most that may travel before the first answer for an example, in bytes: what a line of
/// 4 Mbit/s carries in less than half of the 4 s that the answer may take. `docs/page.md` has the whole
/// budget.
const BUDGET_GZIP: usize = 950_000;
/// Files of the program that reads what is not ONNX, which the page does not wait for.
const READER: &str = "highwater-reader";
/// SIZE: its program, compressed, which must be there when somebody writes a model.
const READER_GZIP: usize = 440_000;

/// Files of what is fetched only when somebody saves an answer, and of what keeps the page.
const ON_DEMAND: [&str; 3] = ["highwater-export", "export.js", "sw.js"];
/// SIZE: all of these, compressed.
const ON_DEMAND_GZIP: usize = 120_000;

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

/// How the page is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Small: what people get.
    Release,
    /// Quick to build: for work on the page.
    Dev,
}

/// Builds the page into `dist/`, setting up what is missing first.
///
/// # Errors
/// The set-up or the build fails.
pub(crate) fn build(flavour: Flavour) -> Result<()> {
    let toolchain = toolchain::ensure()?;
    let path = tools::path_for_trunk()?;
    progress("fetching the dependencies of Cargo.lock");
    run(command("cargo").args(["fetch", "--quiet", "--locked"]))?;
    progress("building the page (minutes the first time, seconds later)");
    let begun = Instant::now();
    let mut trunk = command("trunk");
    // Offline, so that Trunk never downloads a tool of its own choice.
    trunk.args(["build", "--offline", "--locked"]).env("PATH", path);
    // Trunk reads NO_COLOR as a flag of its own and stops at its usual value, 1.
    trunk.env_remove("NO_COLOR");
    trunk.args(match flavour {
        // Each program says its profile in index.html.
        Flavour::Release => ["--release"].as_slice(),
        Flavour::Dev => ["--cargo-profile=dev"].as_slice(),
    });
    run(toolchain.apply(&mut trunk))?;
    if flavour == Flavour::Release {
        shrink::shrink(&place::dist())?;
    }
    write_choices(&place::dist())?;
    // A page that changes all the time is not kept: reloading must show what was built.
    offline::prepare(&place::dist(), flavour == Flavour::Release)?;
    progress(format_args!("the page is in dist/ after {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

/// Writes the choices of cuDNN that the programs fetch.
fn write_choices(folder: &Path) -> Result<()> {
    let doing = "packing cuDNN's choices";
    let source = place::root().join("core/src/aten/conv/workspace/choices");
    let parts = pack::parts(&source).map_err(|error| Failure::new(format!("{doing}: {error}")))?;
    for part in parts {
        fs::write(folder.join(part.file), part.bytes).during(doing)?;
    }
    Ok(())
}

/// Prints what each file of the program weighs, and refuses more than the budgets.
///
/// # Errors
/// `dist/` cannot be read, or WebAssembly and script together are too heavy.
pub(crate) fn weigh() -> Result<()> {
    let (mut program_gzip, mut reader_gzip) = (0, 0);
    let (mut on_demand_gzip, mut recorded_gzip, mut profiled_gzip) = (0, 0, 0);
    let mut choices_gzip = 0;
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
        } else if ON_DEMAND.iter().any(|file| name.starts_with(file)) {
            on_demand_gzip += gzip;
        } else {
            program_gzip += gzip;
        }
    }
    let example = largest_example(&place::dist())?;
    println!("{:>10} {example:>10}  the largest example", "");
    within("all that comes before the first answer", program_gzip + example, BUDGET_GZIP)?;
    within("the readers behind it", reader_gzip, READER_GZIP)?;
    within("what is fetched when asked for", on_demand_gzip, ON_DEMAND_GZIP)?;
    within("what cuDNN chooses elsewhere", choices_gzip, CHOICES_GZIP)?;
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

/// The names of the page, and of the WebAssembly, script, style and table files at the top of a folder, sorted.
fn program_files(folder: &Path) -> Result<Vec<String>> {
    let doing = format!("listing {} (build the page first)", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).during(&doing)? {
        let name = entry.during(&doing)?.file_name().to_string_lossy().into_owned();
        if ["wasm", "js", "css", "html", "bin"]
            .iter()
            .any(|extension| has_extension(&name, extension))
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

fn gzip_size(bytes: &[u8]) -> std::io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
