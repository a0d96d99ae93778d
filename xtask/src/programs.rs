//! The programs of the page: compiled for the browser, with the scripts that load them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::thread;

use crate::manifest::Program;
use crate::process::{Failure, Result, While as _, command, run};
use crate::progress;
use crate::toolchain::{TARGET, WasmToolchain};
use crate::{cargo, place};

/// The package that writes a program's script.
const BINDGEN: &str = "highwater-bindgen";

/// COUNT: the libraries of this project that programs are made of: `core`, `draw`, `app`.
const LIBRARIES: u32 = 3;

/// How programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Small: what people get.
    Small,
    /// Quick to build: for work on the page.
    Quick,
}

impl Flavour {
    /// The profile of cargo for a program.
    fn profile(self, program: &Program) -> &str {
        match self {
            Self::Small => &program.small,
            Self::Quick => &program.quick,
        }
    }
}

/// A program that a browser can load.
pub(crate) struct Loadable {
    /// Its WebAssembly.
    pub(crate) wasm: Vec<u8>,
    /// The module that loads it, which has to be given the address of the WebAssembly.
    pub(crate) script: String,
}

/// Compiles programs; gives them by their names.
///
/// # Errors
/// One does not compile, or the tool that writes the scripts does not.
pub(crate) fn build(
    toolchain: &WasmToolchain,
    programs: &[&Program],
    flavour: Flavour,
) -> Result<BTreeMap<String, Loadable>> {
    progress::step(20..95, "compiling the page");
    // The compilers of both may differ, so their targets are apart, and both builds run at once.
    let tool = thread::spawn(|| {
        run(command("cargo").args(["build", "--quiet", "--locked", "--package", BINDGEN]))
    });
    let compiled = compile(toolchain, programs, flavour);
    if !tool.is_finished() {
        progress::step(95..96, "compiling wasm-bindgen, which writes the scripts of programs");
    }
    let tool = tool.join().map_err(|_panic| Failure::new("the build of wasm-bindgen panicked"))?;
    compiled.and(tool)?;
    progress::step(96..99, "writing the scripts of programs");
    bind(programs, flavour)?;
    let loadable = |program: &&Program| {
        let name = &program.binary;
        let folder = scripts(flavour.profile(program));
        let doing = format!("reading what wasm-bindgen wrote for {name}");
        let wasm = fs::read(folder.join(format!("{name}_bg.wasm"))).during(&doing)?;
        let script = fs::read_to_string(folder.join(format!("{name}.js"))).during(&doing)?;
        Ok((name.clone(), Loadable { wasm, script }))
    };
    programs.iter().map(loadable).collect()
}

/// Calls cargo once for all programs of a package and a profile.
fn compile(toolchain: &WasmToolchain, programs: &[&Program], flavour: Flavour) -> Result<()> {
    let mut calls = BTreeMap::<_, Vec<_>>::new();
    for program in programs {
        let call = (program.manifest.as_str(), flavour.profile(program));
        calls.entry(call).or_default().push(program.binary.as_str());
    }
    for ((manifest, profile), binaries) in calls {
        let mut cargo = command("cargo");
        cargo.args(["build", "--locked", "--target", TARGET, "--profile", profile]);
        cargo.args(["--manifest-path", manifest]);
        cargo.args(binaries.iter().flat_map(|binary| ["--bin", binary]));
        let own = LIBRARIES + u32::try_from(binaries.len()).unwrap_or_default();
        cargo::build(toolchain.apply(&mut cargo), own)?;
    }
    Ok(())
}

/// Writes the scripts of all programs.
fn bind(programs: &[&Program], flavour: Flavour) -> Result<()> {
    let profiles: BTreeSet<_> = programs.iter().map(|program| flavour.profile(program)).collect();
    for profile in profiles {
        let of_profile = programs.iter().filter(|program| flavour.profile(program) == profile);
        let mut tool = command("cargo");
        tool.args(["run", "--quiet", "--locked", "--package", BINDGEN, "--"]);
        tool.arg(scripts(profile));
        tool.args(
            of_profile.map(|program| compiled(profile).join(format!("{}.wasm", program.binary))),
        );
        run(&mut tool)?;
    }
    Ok(())
}

/// Where cargo leaves programs.
fn compiled(profile: &str) -> PathBuf {
    // Cargo has this one name for its folder that is not the profile's.
    let folder = if profile == "dev" { "debug" } else { profile };
    place::wasm_target().join(TARGET).join(folder)
}

/// Where programs and their scripts are written.
fn scripts(profile: &str) -> PathBuf {
    place::wasm_target().join("wasm-bindgen").join(profile)
}

#[cfg(test)]
mod tests {
    use crate::place::locked_version;

    #[test]
    fn scripts_are_written_by_the_version_that_the_page_uses() {
        let version = |package| locked_version(package).expect("a package of Cargo.lock");
        assert_eq!(version("wasm-bindgen"), version("wasm-bindgen-cli-support"));
    }
}
