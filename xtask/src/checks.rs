//! All checks that a change must pass.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use std::{env, io};

use crate::place;
use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::{progress, python, schedulers, toolchain, tools};

/// How a part went: its name, the seconds that it took, and what it found.
type Outcome = (&'static str, f64, Result<()>);

/// The versions of cargo-deny that `deny.toml` is for.
const DENY: &str = "0.20.";

/// Runs every part, also after one has failed, and tells at the end how each went.
///
/// Two cores are kept busy: the page is built while the native checks run, because the end of each of the two leaves
/// a core idle, and schedulers, whose tests mostly wait, run beside the Python package's.
///
/// A run of all parts that passes writes the commit to `target/tested`, if the files are those of the commit.
///
/// # Errors
/// At least one part failed.
pub(crate) fn run_all(quick: bool) -> Result<()> {
    let commit = committed()?;
    let tested = place::tested();
    place::gone(fs::remove_file(&tested)).during("forgetting the commit that was tested before")?;
    let installs = schedulers::in_checks();
    let page = if quick { None } else { Some(Aside::begin(&["build", "--linted"])?) };
    let environment = if quick { None } else { python::begin(installs)? };
    let has_wheel = !quick && python::is_wanted(installs)?;
    let mut outcomes = vec![
        run_part("format", format),
        run_part("dependencies", check_dependencies),
        run_part("lints, native", || build_native(has_wheel)),
        run_part("tests, native", test_native),
    ];
    let schedulers = if installs { &["schedulers"][..] } else { &["schedulers", "--kept"] };
    let schedulers = Aside::begin(schedulers)?;
    if !quick {
        outcomes.push(run_part("the Python package", || test_python(environment)));
    }
    outcomes.push(schedulers.finish("schedulers"));
    if let Some(page) = page {
        outcomes.push(page.finish("the page, linted, built and weighed"));
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

/// A command of this program that runs beside others, and prints into a file.
struct Aside {
    log: PathBuf,
    /// Whether it ended well, and after how many seconds.
    ending: JoinHandle<(Result<()>, f64)>,
}

impl Aside {
    fn begin(arguments: &[&str]) -> Result<Self> {
        let log = place::log(arguments.first().unwrap_or(&"xtask"));
        let doing = format!("writing {}", log.display());
        let file = File::create(&log).during(&doing)?;
        let program = env::current_exe().during("looking for this program")?;
        let mut aside = command(program);
        aside.args(arguments).stdout(file.try_clone().during(&doing)?).stderr(file);
        let begun = Instant::now();
        let ending = thread::spawn(move || (run(&mut aside), begun.elapsed().as_secs_f64()));
        Ok(Self { log, ending })
    }

    /// Waits for it, and shows what it printed.
    fn finish(self, name: &'static str) -> Outcome {
        println!("\n== {name}");
        let panicked = |_panic| (Err(Failure::new("waiting for it failed")), 0.0);
        let (result, seconds) = self.ending.join().unwrap_or_else(panicked);
        let log = File::open(&self.log);
        let shown = log.and_then(|mut log| io::copy(&mut log, &mut io::stdout())).map(drop);
        let shown = shown.during(format_args!("showing {}", self.log.display()));
        let result = result.and(shown);
        if let Err(failure) = &result {
            println!("FAILED: {failure}");
        }
        (name, seconds, result)
    }
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

/// All packages but the page's tool, which [`crate::bindgen`] compiles in a folder of its own.
const NATIVE: [&str; 4] = ["--workspace", "--exclude", "highwater-bindgen", "--locked"];

/// Compiles all that native tests need, by clippy. The library of the Python package is among it where that is tested:
/// by itself it would need other features of dependencies, and all of them would be compiled once more.
fn build_native(has_wheel: bool) -> Result<()> {
    let mut build = command("cargo");
    build.arg("build").args(NATIVE).args(["--tests", "--examples"]);
    if has_wheel {
        build.arg("--lib");
    }
    run(build.envs(toolchain::CLIPPY))
}

/// Among the tests, those of this crate look at the tree itself: see [`crate::tidy`].
fn test_native() -> Result<()> {
    run(command("cargo").arg("test").args(NATIVE).arg("--no-fail-fast").envs(toolchain::CLIPPY))
}

/// Waits for the environment, where it is being installed.
fn test_python(environment: Option<Child>) -> Result<()> {
    if let Some(mut installing) = environment {
        // What failed is said again by the tests.
        installing.wait().during("waiting for Python's environment")?;
    }
    python::test_built(schedulers::in_checks())
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
