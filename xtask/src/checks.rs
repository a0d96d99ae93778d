//! All checks that a change must pass.

use std::fs::{self, File};
use std::process::Child;
use std::time::Instant;
use std::{env, io};

use crate::place;
use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::{progress, python, schedulers, toolchain, tools};

/// A part of the checks: its name and what it does.
type Part = (&'static str, fn() -> Result<()>);
/// How a part went: its name, the seconds that it took, and what it found.
type Outcome = (&'static str, f64, Result<()>);

/// The versions of cargo-deny that `deny.toml` is for.
const DENY: &str = "0.20.";

const NATIVE: &[Part] = &[
    ("format", format),
    ("dependencies", check_dependencies),
    ("lints and tests, native", test_native),
    ("schedulers", test_schedulers),
];

/// Runs every part, also after one has failed, and tells at the end how each went. The page is built while the native
/// checks run, because each of the two leaves a core idle for much of its time.
///
/// A run of all parts that passes writes the commit to `target/tested`, if the files are those of the commit.
///
/// # Errors
/// At least one part failed.
pub(crate) fn run_all(quick: bool) -> Result<()> {
    let commit = committed()?;
    let tested = place::tested();
    place::gone(fs::remove_file(&tested)).during("forgetting the commit that was tested before")?;
    let page = if quick { None } else { Some(begin_page()?) };
    let environment = if quick { None } else { python::begin(schedulers::in_checks())? };
    let parts = NATIVE.iter().map(|&(name, part)| run_part(name, part));
    let mut outcomes: Vec<_> = parts.collect();
    if !quick {
        outcomes.push(run_part("the Python package", || test_python(environment)));
    }
    if let Some(page) = page {
        outcomes.push(run_part("the page, linted, built and weighed", || finish_page(page)));
        outcomes.push(run_part("tests, browser", test_browser));
    }
    println!();
    for (name, seconds, result) in &outcomes {
        match result {
            Ok(()) => println!("ok      {seconds:>6.1} s  {name}"),
            Err(failure) => println!("FAILED  {seconds:>6.1} s  {name}: {failure}"),
        }
    }
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|(_, _, result)| result.is_err())
        .map(|(name, _, _)| *name)
        .collect();
    if !failed.is_empty() {
        return Err(Failure::new(format!("failed: {}", failed.join("; "))));
    }
    match commit {
        Some(commit) if !quick && committed()?.as_ref() == Some(&commit) => {
            fs::write(&tested, &commit).during(format_args!("writing {}", tested.display()))?;
            println!("all checks passed on {}", commit.trim_end());
        }
        _ => println!("all of these checks passed"),
    }
    Ok(())
}

/// The commit whose files these are; nothing where one was changed since.
fn committed() -> Result<Option<String>> {
    let git = |arguments: &str| {
        let mut git = command("git");
        output_of(git.args(["-c", "safe.directory=*"]).args(arguments.split(' ')))
    };
    let changes = git("status --porcelain --untracked-files=no")?;
    Ok(if changes.is_empty() { Some(git("rev-parse HEAD")?) } else { None })
}

fn run_part(name: &'static str, part: impl FnOnce() -> Result<()>) -> Outcome {
    println!("\n== {name}");
    let begun = Instant::now();
    let result = part();
    if let Err(failure) = &result {
        println!("FAILED: {failure}");
    }
    (name, begun.elapsed().as_secs_f64(), result)
}

fn format() -> Result<()> {
    run(command("cargo").args(["fmt", "--all", "--check"]))
}

/// Licences, bans and sources of `deny.toml`. Nothing installs cargo-deny: compiling it takes longer than all
/// other checks.
fn check_dependencies() -> Result<()> {
    if !tools::has("cargo-deny", DENY) {
        progress::say(format_args!(
            "left out: no cargo-deny {DENY}* on PATH; `cargo install --locked cargo-deny` installs it"
        ));
        return Ok(());
    }
    let checked = ["licenses", "bans", "sources"];
    run(command("cargo-deny").args(["--offline", "--locked", "check"]).args(checked))
}

/// Among the tests, those of this crate look at the tree itself: see [`crate::tidy`].
fn test_native() -> Result<()> {
    run(command("cargo")
        .args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .envs(toolchain::CLIPPY))
}

/// With the program that the tests before have built.
fn test_schedulers() -> Result<()> {
    schedulers::test(schedulers::in_checks())
}

/// Waits for the environment, where it is being installed.
fn test_python(environment: Option<Child>) -> Result<()> {
    if let Some(mut installing) = environment {
        // What failed is said again by the tests.
        installing.wait().during("waiting for Python's environment")?;
    }
    python::test(schedulers::in_checks())
}

/// Begins to build the page, in a process of its own that prints into a file.
fn begin_page() -> Result<Child> {
    let log = place::page_log();
    let doing = format!("writing {}", log.display());
    let file = File::create(&log).during(&doing)?;
    let program = env::current_exe().during("looking for this program")?;
    let mut build = command(program);
    build.args(["build", "--linted"]).stdout(file.try_clone().during(&doing)?).stderr(file);
    build.spawn().during("beginning to build the page")
}

/// Waits for the page, and shows what its build printed.
fn finish_page(mut build: Child) -> Result<()> {
    let status = build.wait().during("waiting for the page")?;
    let mut log = File::open(place::page_log()).during("reading what the page's build printed")?;
    io::copy(&mut log, &mut io::stdout()).during("showing what the page's build printed")?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("the build ended with {status}")))
    }
}

fn test_browser() -> Result<()> {
    tools::node()?;
    progress::say("installing the test driver of tests/e2e/package-lock.json");
    run(command("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place::e2e()))?;
    let chromium = tools::chromium()?;
    let mut tests = command("npm");
    tests.args(["test", "--silent"]).current_dir(place::e2e());
    run(tests.env("CHROMIUM", chromium))
}
