//! The Python package: its environment, its wheel, its tests.
//!
//! `cargo xtask python` does all of it: it builds the wheel that people get, and installs what the tests need after
//! that. Among all checks the environment is installed where the variable `CI` is set, and the tests run elsewhere if
//! it is there already; the wheel is made of the library that cargo built with the tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs};

use highwater_pack::fingerprint;

use crate::place;
use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::progress;

/// `PyTorch` without CUDA's libraries, which are 5 GB.
const CPU: &str = "https://download.pytorch.org/whl/cpu";

/// The files that say what is installed.
const REQUIREMENTS: [&str; 2] = ["torch.txt", "requirements.txt"];

/// What builds wheels.
const MATURIN: &str = "maturin";

/// Builds the wheel that people get, and tests it.
///
/// # Errors
/// The environment cannot be installed, the wheel cannot be built, or a check fails.
pub(crate) fn build_and_test() -> Result<()> {
    let environment = begun()?;
    let wheel = build(&environment)?;
    finished(&environment)?;
    test(&environment, &wheel)
}

/// Tests a wheel with the library that cargo has built for the tests of the workspace.
///
/// # Errors
/// The environment cannot be installed, the wheel cannot be packed, or a check fails.
pub(crate) fn test_built(installs: bool) -> Result<()> {
    let environment = place()?;
    if installs {
        prepare()?;
    } else if !is_finished(&environment) {
        progress::say("left out: Python's environment, which `cargo xtask python` installs");
        return Ok(());
    }
    let wheel = pack(&environment)?;
    test(&environment, &wheel)
}

fn test(environment: &Path, wheel: &Path) -> Result<()> {
    let install = ["install", "--quiet", "--force-reinstall", "--no-deps"];
    run(pip(environment).args(install).arg(wheel))?;
    let tool = |name: &str| {
        let mut tool = command(environment.join("bin").join(name));
        tool.current_dir(folder());
        tool
    };
    run(tool("ruff").args(["check", "--quiet"]))?;
    run(tool("ruff").args(["format", "--quiet", "--check"]))?;
    run(&mut tool("mypy"))?;
    // Away from the sources, so that it is the wheel that is imported.
    let mut tests = command(environment.join("bin/python"));
    tests.args([
        "-P",
        "-m",
        "pytest",
        "--quiet",
        "--import-mode=append",
        "-n2",
        "-p",
        "no:cacheprovider",
    ]);
    run(tests.arg(folder().join("tests")))
}

/// Installs the environment while something else runs; nothing where it is there, or where that is not wanted.
///
/// # Errors
/// The installation cannot be started.
pub(crate) fn begin(installs: bool) -> Result<Option<Child>> {
    if !installs || is_finished(&place()?) {
        return Ok(None);
    }
    let program = env::current_exe().during("looking for this program")?;
    command(program)
        .args(["python", "--prepare"])
        .spawn()
        .during("installing Python's environment")
        .map(Some)
}

/// Installs the environment.
///
/// # Errors
/// It cannot be installed.
pub(crate) fn prepare() -> Result<()> {
    finished(&begun()?)
}

/// Whether the tests have their environment, or will have it.
///
/// # Errors
/// There is no place for it.
pub(crate) fn is_wanted(installs: bool) -> Result<bool> {
    Ok(installs || is_finished(&place()?))
}

/// Whether an environment has all that the tests need.
fn is_finished(environment: &Path) -> bool {
    installed(environment).is_file()
}

/// The last file that an installation writes.
fn installed(environment: &Path) -> PathBuf {
    environment.join("installed")
}

/// An environment that can build a wheel.
fn begun() -> Result<PathBuf> {
    let environment = place()?;
    // The last that this writes.
    if environment.join("bin").join(MATURIN).is_file() {
        return Ok(environment);
    }
    progress::say(format_args!("installing Python's environment in {}", environment.display()));
    place::gone(fs::remove_dir_all(&environment)).during("clearing an environment up")?;
    let recent = "import sys; sys.exit('Python 3.10 or later is needed' if sys.version_info < (3, 10) else 0)";
    output_of(command("python3").args(["-c", recent]))?;
    run(command("python3").args(["-m", "venv"]).arg(&environment))?;
    let [_, rest] = REQUIREMENTS;
    let wanted = fs::read_to_string(folder().join(rest)).during(format_args!("reading {rest}"))?;
    let maturin = wanted.lines().find(|line| line.starts_with(MATURIN));
    let maturin = maturin.ok_or_else(|| Failure::new(format!("python/{rest} has no {MATURIN}")))?;
    run(pip(&environment).args(["install", "--quiet", maturin]))?;
    Ok(environment)
}

/// Installs what tests need, which is gigabytes.
fn finished(environment: &Path) -> Result<()> {
    if is_finished(environment) {
        return Ok(());
    }
    progress::say("installing PyTorch and what else the tests need");
    let install = |file: &str| {
        let mut pip = pip(environment);
        pip.args(["install", "--quiet", "--requirement"]).arg(folder().join(file));
        pip
    };
    let [torch, rest] = REQUIREMENTS;
    let quick = ["--index-url", CPU, "--retries", "0", "--timeout", "15"];
    if output_of(install(torch).args(quick)).is_err() {
        run(&mut install(torch))?;
    }
    run(&mut install(rest))?;
    fs::write(installed(environment), "").during("noting that the environment is installed")
}

/// The wheel that people get.
fn build(environment: &Path) -> Result<PathBuf> {
    let wheels = wheels()?;
    let mut maturin = maturin(environment);
    maturin.args(["build", "--quiet", "--locked", "--release", "--interpreter"]);
    run(maturin.arg(environment.join("bin/python")).arg("--out").arg(&wheels))?;
    let built = place::files(&wheels).during("looking for the wheel")?;
    built.into_iter().next().ok_or_else(|| Failure::new("maturin built no wheel"))
}

/// A wheel of what cargo has built. maturin would have it built once more: for this package alone, features of
/// dependencies are others than for the workspace. Its description of the package is the same.
fn pack(environment: &Path) -> Result<PathBuf> {
    let wheels = wheels()?;
    let tree = wheels.join("tree");
    let package = tree.join("highwater");
    let mut maturin = maturin(environment);
    maturin.args(["pep517", "write-dist-info", "--interpreter"]);
    maturin.arg(environment.join("bin/python")).arg("--metadata-directory").arg(&tree);
    let said = output_of(&mut maturin)?;
    let described = said.lines().last().unwrap_or_default();
    let doing = "packing a wheel";
    let text = fs::read_to_string(tree.join(described).join("WHEEL")).during(doing)?;
    let tag = text.lines().find_map(|line| line.strip_prefix("Tag: "));
    let tag = tag.ok_or_else(|| Failure::new("maturin's WHEEL has no tag"))?;
    let library = format!("{}_native{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let library = place::native_target().join("debug").join(library);
    fs::create_dir_all(&package).during(doing)?;
    fs::copy(&library, package.join("_native.abi3.so"))
        .during(format_args!("copying {}", library.display()))?;
    let sources = folder().join("highwater");
    for file in place::files(&sources).during(doing)? {
        let name = file.strip_prefix(&sources).during(doing)?;
        // Not what Python or maturin made there, and not a page that was copied there.
        if !name.starts_with("page")
            && name.extension().is_some_and(|end| end != "pyc" && end != "so")
        {
            let copy = package.join(name);
            fs::create_dir_all(copy.parent().unwrap_or(&package)).during(doing)?;
            fs::copy(&file, copy).during(doing)?;
        }
    }
    let mut record = Vec::new();
    for file in place::files(&tree).during(doing)? {
        record.push(format!("{},,\n", file.strip_prefix(&tree).during(doing)?.display()));
    }
    record.push(format!("{described}/RECORD,,\n"));
    fs::write(tree.join(described).join("RECORD"), record.concat()).during(doing)?;
    let name = described.trim_end_matches(".dist-info");
    let wheel = wheels.join(format!("{name}-{tag}.whl"));
    let mut zip = command(environment.join("bin/python"));
    zip.args(["-m", "zipfile", "-c"]).arg(&wheel).args(["highwater", described]);
    run(zip.current_dir(&tree))?;
    fs::remove_dir_all(tree).during(doing)?;
    Ok(wheel)
}

/// An empty folder for wheels.
fn wheels() -> Result<PathBuf> {
    let wheels = place::root().join("target/wheels");
    place::gone(fs::remove_dir_all(&wheels)).during("clearing wheels up")?;
    fs::create_dir_all(&wheels).during("making a folder for wheels")?;
    Ok(wheels)
}

fn maturin(environment: &Path) -> Command {
    let mut maturin = command(environment.join("bin").join(MATURIN));
    maturin.current_dir(folder());
    maturin
}

fn pip(environment: &Path) -> Command {
    let mut pip = command(environment.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check"]);
    pip
}

fn folder() -> PathBuf {
    place::root().join("python")
}

/// An environment for each list of what is needed.
fn place() -> Result<PathBuf> {
    let mut wanted = Vec::new();
    for file in REQUIREMENTS {
        wanted.extend(fs::read(folder().join(file)).during(format_args!("reading {file}"))?);
    }
    Ok(place::cache()?.join(format!("python-{:08x}", fingerprint(&wanted))))
}
