//! The Python package: its environment, its wheel, its tests.
//!
//! `cargo xtask python` does all of it. Among all checks the environment is installed where the variable `CI` is set,
//! and the tests run elsewhere if it is there already.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs};

use highwater_pack::fingerprint;

use crate::place;
use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::{progress, toolchain};

/// `PyTorch` without CUDA's libraries, which are 5 GB.
const CPU: &str = "https://download.pytorch.org/whl/cpu";

/// The files that say what is installed.
const REQUIREMENTS: [&str; 2] = ["torch.txt", "requirements.txt"];

/// Builds the wheel and tests it.
///
/// # Errors
/// The environment cannot be installed, the wheel cannot be built, or a check fails.
pub(crate) fn test(installs: bool) -> Result<()> {
    let Some(environment) = ready(installs)? else {
        progress::say("left out: Python's environment, which `cargo xtask python` installs");
        return Ok(());
    };
    let wheel = build(&environment)?;
    let install = ["install", "--quiet", "--force-reinstall", "--no-deps"];
    run(pip(&environment).args(install).arg(&wheel))?;
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
    if !installs || place()?.join("installed").is_file() {
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
    ready(true).map(drop)
}

/// Where Python finds all that the tests need.
fn ready(installs: bool) -> Result<Option<PathBuf>> {
    let environment = place()?;
    // The last that an installation writes.
    let installed = environment.join("installed");
    if installed.is_file() {
        return Ok(Some(environment));
    }
    if !installs {
        return Ok(None);
    }
    progress::say(format_args!("installing Python's environment in {}", environment.display()));
    place::gone(fs::remove_dir_all(&environment)).during("clearing an environment up")?;
    let recent = "import sys; sys.exit('Python 3.10 or later is needed' if sys.version_info < (3, 10) else 0)";
    output_of(command("python3").args(["-c", recent]))?;
    run(command("python3").args(["-m", "venv"]).arg(&environment))?;
    let install = |file: &str| {
        let mut pip = pip(&environment);
        pip.args(["install", "--quiet", "--requirement"]).arg(folder().join(file));
        pip
    };
    let [torch, rest] = REQUIREMENTS;
    let quick = ["--index-url", CPU, "--retries", "0", "--timeout", "15"];
    if output_of(install(torch).args(quick)).is_err() {
        run(&mut install(torch))?;
    }
    run(&mut install(rest))?;
    fs::write(&installed, "").during("noting that the environment is installed")?;
    Ok(Some(environment))
}

/// The wheel, built as the native tests are, so that nothing is compiled twice; with lints.
fn build(environment: &Path) -> Result<PathBuf> {
    let wheels = place::root().join("target/wheels");
    place::gone(fs::remove_dir_all(&wheels)).during("clearing wheels up")?;
    let mut maturin = command(environment.join("bin/maturin"));
    maturin.args(["build", "--quiet", "--locked", "--profile", "dev", "--interpreter"]);
    maturin.arg(environment.join("bin/python")).arg("--out").arg(&wheels);
    run(maturin.current_dir(folder()).envs(toolchain::CLIPPY))?;
    let built = place::files(&wheels).during("looking for the wheel")?;
    built.into_iter().next().ok_or_else(|| Failure::new("maturin built no wheel"))
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
