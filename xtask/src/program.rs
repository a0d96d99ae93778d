//! The program of the page: compiled for the browser, split, with the scripts that load it.

use std::fs;
use std::path::Path;
use std::thread;

use highwater_pack::fingerprint;

use crate::manifest::Program;
use crate::process::{Failure, Result, While as _, command, run};
use crate::progress;
use crate::site::Files;
use crate::toolchain::{CLIPPY, TARGET, WasmToolchain};
use crate::{bindgen, cargo, place};

/// COUNT: what cargo compiles of this project at the end: the four crates of `core`, `draw`, `app` and its binary.
const OWN: u32 = 7;

/// How the program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Small: what people get.
    Small,
    /// Likewise, and clippy compiles our crates where it can: for tests.
    Linted,
    /// Quick to build: for work on the page.
    Quick,
}

/// A program that a browser can load.
pub(crate) struct Loadable {
    /// Its name and a fingerprint: `NAME-MARK.js` starts `NAME-MARK_bg.wasm`, and imports `highwater-parts-MARK.js`.
    pub(crate) name: String,
    /// The fingerprint.
    pub(crate) mark: String,
    /// All its files.
    pub(crate) files: Files,
}

/// Compiles the program.
///
/// # Errors
/// It does not compile, or the tool that writes its scripts does not.
pub(crate) fn build(
    toolchain: &WasmToolchain,
    program: &Program,
    flavour: Flavour,
) -> Result<Loadable> {
    progress::step(20..93, "compiling the page");
    let tool = thread::spawn(move || bindgen::ensure(flavour == Flavour::Linted));
    let profile = match flavour {
        Flavour::Small | Flavour::Linted => &program.small,
        Flavour::Quick => &program.quick,
    };
    let mut cargo = command("cargo");
    cargo.args(["build", "--locked", "--target", TARGET, "--profile", profile]);
    cargo.args(["--manifest-path", &program.manifest, "--bin", &program.binary]);
    // Clippy can only read a library that its own compiler built.
    if flavour == Flavour::Linted && toolchain.is_default() {
        cargo.envs(CLIPPY);
    }
    let compiled = cargo::build(toolchain.apply(&mut cargo), OWN);
    if !tool.is_finished() {
        progress::step(93..95, "compiling wasm-bindgen, which writes the scripts");
    }
    let tool = tool.join().map_err(|_panic| Failure::new("the build of wasm-bindgen panicked"))?;
    let tool = compiled.and(tool)?;
    progress::step(95..99, "splitting the program");
    split(&tool, program, profile)
}

/// Splits the compiled program by a tool, and reads what a browser gets of it.
fn split(tool: &Path, program: &Program, profile: &str) -> Result<Loadable> {
    let wasm = place::wasm_target();
    // Cargo has this one name for its folder that is not the profile's.
    let folder = if profile == "dev" { "debug" } else { profile };
    let compiled = wasm.join(TARGET).join(folder).join(format!("{}.wasm", program.binary));
    let bytes = fs::read(&compiled).during(format_args!("reading {}", compiled.display()))?;
    let mark = format!("{:08x}", fingerprint(&bytes));
    let folder = wasm.join("wasm-bindgen").join(profile);
    let doing = format!("clearing {}", folder.display());
    place::gone(fs::remove_dir_all(&folder)).during(&doing)?;
    fs::create_dir_all(&folder).during(&doing)?;
    run(command(tool).arg(&folder).arg(&mark).arg(compiled))?;
    let mut files = Files::new();
    for file in place::files(&folder).during(format_args!("listing {}", folder.display()))? {
        let bytes = fs::read(&file).during(format_args!("reading {}", file.display()))?;
        let name = file.file_name().unwrap_or_default();
        files.insert(name.to_string_lossy().into_owned(), bytes);
    }
    Ok(Loadable { name: format!("{}-{mark}", program.binary), mark, files })
}
