//! Runs the examples for schedulers with the real ones, on this machine.
//!
//! `cargo xtask schedulers` installs them. Among all checks they are installed where the variable `CI` is set, and run
//! elsewhere if they are there already.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::place::{self, find_program};
use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::{progress, tools};

/// Debian's packages of Slurm.
const SLURM: &[&str] = &["slurmctld", "slurmd", "slurm-client", "lua-socket"];

/// Runs each test whose scheduler is there or can be installed, with the `highwater` that cargo built for its tests.
///
/// # Errors
/// A test fails, its scheduler cannot be installed, or there is no such program.
pub(crate) fn test(installs: bool) -> Result<()> {
    let program = program();
    if !program.is_file() {
        let missing = format!("no {}: `cargo build -p highwater` makes it", program.display());
        return Err(Failure::new(missing));
    }
    test_slurm(&program, installs)?;
    test_ray(&program, installs)
}

/// Whether a run of all checks installs schedulers.
pub(crate) fn in_checks() -> bool {
    env::var_os("CI").is_some()
}

fn test_slurm(program: &Path, installs: bool) -> Result<()> {
    if output_of(command("id").arg("-u")).is_ok_and(|user| user != "0") {
        left_out("Slurm, whose test needs root");
        return Ok(());
    }
    let is_there = || find_program(&["slurmctld"]).is_some() && find_program(&["slurmd"]).is_some();
    if !is_there() {
        if !installs {
            left_out("Slurm, which `cargo xtask schedulers` installs");
            return Ok(());
        }
        tools::apt_install(SLURM)?;
    }
    run(command(place::root().join("examples/slurm/test.sh")).arg(program))
}

fn test_ray(program: &Path, installs: bool) -> Result<()> {
    let requirements = place::root().join("examples/ray/requirements.txt");
    let wanted = fs::read_to_string(&requirements).during("reading what Ray's test needs")?;
    let environment = place::cache()?.join(wanted.trim().replace("==", "-"));
    let python = environment.join("bin/python");
    // The last that an installation writes.
    let installed = environment.join("installed");
    if !installed.is_file() {
        if !installs {
            left_out("Ray, which `cargo xtask schedulers` installs in ~/.cache/highwater");
            return Ok(());
        }
        progress::say(format_args!("installing {} in {}", wanted.trim(), environment.display()));
        run(command("python3").args(["-m", "venv"]).arg(&environment))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        run(command(&python).args(pip).arg(&requirements))?;
        fs::write(&installed, &wanted).during("noting that Ray is installed")?;
    }
    run(command(&python).arg("examples/ray/test.py").arg(program))
}

fn left_out(what: &str) {
    progress::say(format_args!("left out: {what}"));
}

/// Where cargo builds `highwater` for its tests.
fn program() -> PathBuf {
    place::native_target().join("debug").join("highwater")
}
