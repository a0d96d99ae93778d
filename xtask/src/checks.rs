//! All checks that a change must pass.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::place;
use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::program::Flavour;
use crate::progress;
use crate::{page, toolchain, tools, weight};

/// A part of the checks: its name and what it does.
type Part = (&'static str, fn() -> Result<()>);

/// The versions of cargo-deny that `deny.toml` is for.
const DENY: &str = "0.20.";

const NATIVE: &[Part] = &[
    ("format", format),
    ("dependencies", check_dependencies),
    ("lints and tests, native", test_native),
];

const BROWSER: &[Part] = &[
    ("the page, linted and built quickly", build_quickly),
    ("tests, browser", test_browser),
    ("the page as people get it, built and weighed", build_page),
    ("tests, as people get it", test_as_served),
];

/// Runs every part, also after one has failed, and tells at the end how each went.
///
/// A run of all parts that passes writes the commit to `target/tested`, if the files are those of the commit.
///
/// # Errors
/// At least one part failed.
pub(crate) fn run_all(quick: bool) -> Result<()> {
    let commit = committed()?;
    let tested = place::tested();
    place::gone(fs::remove_file(&tested)).during("forgetting the commit that was tested before")?;
    let browser = if quick { &[] } else { BROWSER };
    let outcomes: Vec<_> = NATIVE.iter().chain(browser).map(run_part).collect();
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

fn run_part((name, part): &Part) -> (&'static str, f64, Result<()>) {
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

fn build_quickly() -> Result<()> {
    page::build(Flavour::Linted, &place::quick_page())
}

fn build_page() -> Result<()> {
    page::build(Flavour::Small, &place::dist())?;
    weight::weigh()
}

fn test_browser() -> Result<()> {
    tools::node()?;
    progress::say("installing the test driver of tests/e2e/package-lock.json");
    run(command("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place::e2e()))?;
    run_browser_tests(&place::quick_page(), "--quick")
}

/// What only the page as people get it does, and that it answers.
fn test_as_served() -> Result<()> {
    run_browser_tests(&place::dist(), "offline.test.js")
}

/// Runs browser tests on the page in a folder.
fn run_browser_tests(page: &Path, which: &str) -> Result<()> {
    let chromium = tools::chromium()?;
    let mut tests = command("npm");
    tests.args(["test", "--silent", "--", which]).current_dir(place::e2e());
    run(tests.env("CHROMIUM", chromium).env("DIST", page))
}
