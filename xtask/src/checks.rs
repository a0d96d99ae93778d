//! All checks that a change must pass.

use std::time::Instant;

use crate::place;
use crate::process::{Failure, Result, command, run};
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
    ("lints, native", lint_native),
    ("tests, native", test_native),
];

const BROWSER: &[Part] = &[
    ("the page, built and weighed", build_page),
    ("lints, WebAssembly", lint_wasm),
    ("tests, browser", test_browser),
];

/// Runs every part, also after one has failed, and tells at the end how each went.
///
/// # Errors
/// At least one part failed.
pub(crate) fn run_all(quick: bool) -> Result<()> {
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
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("failed: {}", failed.join("; "))))
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

fn lint_native() -> Result<()> {
    run(command("cargo")
        .args(["clippy", "--workspace", "--all-targets", "--locked"])
        .args(["--", "-D", "warnings"]))
}

/// Among them, those of this crate look at the tree itself: see [`crate::tidy`].
fn test_native() -> Result<()> {
    run(command("cargo").args(["test", "--workspace", "--locked", "--no-fail-fast"]))
}

fn build_page() -> Result<()> {
    page::build(Flavour::Small)?;
    weight::weigh()
}

/// Clippy can only read a library that its own compiler built; where the compiler for the browser
/// is another one, the native lints, which cover the app as well, must do.
fn lint_wasm() -> Result<()> {
    let toolchain = toolchain::ensure()?;
    if !toolchain.is_default() {
        progress::say("left out: the compiler on PATH has no WebAssembly library to lint against");
        return Ok(());
    }
    let mut clippy = command("cargo");
    clippy.args(["clippy", "--package", "highwater-app", "--locked"]).args([
        "--target",
        toolchain::TARGET,
        "--",
        "-D",
        "warnings",
    ]);
    run(toolchain.apply(&mut clippy))
}

fn test_browser() -> Result<()> {
    let chromium = tools::chromium()?;
    tools::node()?;
    let e2e = place::e2e();
    progress::say("installing the test driver of tests/e2e/package-lock.json");
    run(command("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&e2e))?;
    run(command("npm").args(["test", "--silent"]).current_dir(&e2e).env("CHROMIUM", chromium))
}
