//! The long run: `cargo xtask fuzz`. Prints a row per target, and keeps the inputs that went wrong.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks on its terminal")]

use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use highwater_fuzz::campaign::{self, Extent, Summary};
use highwater_fuzz::check;
use highwater_fuzz::targets::{TARGETS, Target};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long an execution may take, in seconds.
const LIMIT: u64 = 5;
/// When an execution that does not end is given up, in seconds.
const GIVEN_UP: u64 = 60;
/// SIZE: of the stack, in bytes: that of the page's program.
const STACK: usize = 1 << 20;

/// When the execution that runs now began, in seconds since 1970.
static BEGAN: AtomicU64 = AtomicU64::new(u64::MAX);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Targets recurse into what they read, as they do on the page.
    let campaigns = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || perform(&arguments).map_err(|error| error.to_string()));
    match campaigns.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(true))) => ExitCode::SUCCESS,
        Ok(Ok(Err(error))) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::FAILURE,
    }
}

/// `MINUTES SEED [TARGET]...`, or `check TARGET FILE...`; whether nothing was found.
fn perform(arguments: &[String]) -> Result<bool> {
    match arguments {
        [command, name, files @ ..] if command == "check" => replay(target(name)?, files),
        [minutes, seed, names @ ..] => {
            let mut targets = Vec::new();
            for name in names {
                targets.push(*target(name)?);
            }
            if targets.is_empty() {
                targets.extend(TARGETS);
            }
            campaigns(&targets, minutes.parse()?, seed.parse()?)
        }
        _ => Err("usage: MINUTES SEED [TARGET]..., or check TARGET FILE...".into()),
    }
}

fn target(name: &str) -> Result<&'static Target> {
    TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("there is no target `{name}`; targets are {}", names.join(", ")).into()
    })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz-found")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn replay(target: &Target, files: &[String]) -> Result<bool> {
    let mut is_good = true;
    for file in files {
        let execution = check::check_twice(target, &fs::read(file)?, Duration::from_secs(LIMIT));
        is_good &= execution.fault.is_none();
        let fault = execution.fault.map(|fault| fault.to_string()).unwrap_or_default();
        let outcome = execution.outcome.unwrap_or_default();
        let (time, peak) = (execution.time.as_secs_f64(), execution.peak >> 10);
        println!("{file}: {time:.4} s, {peak} KiB {fault}\n{:?} {}", outcome.stage, outcome.answer);
    }
    Ok(is_good)
}

/// Runs the targets one after the other, each for its share of the time.
fn campaigns(targets: &[Target], minutes: f64, seed: u64) -> Result<bool> {
    fs::create_dir_all(folder())?;
    std::thread::spawn(watch);
    let share =
        Duration::from_secs_f64(minutes * 60.).div_f64(f64::from(u32::try_from(targets.len())?));
    println!(
        "{:<12} {:>10} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7}",
        "target", "executions", "refused", "answered", "outcomes", "slowest", "peak", "faults"
    );
    let mut total = (0, 0);
    for target in targets {
        let current = File::create(folder().join(format!("{}.current", target.name)))?;
        let extent = Extent {
            seed,
            executions: u64::MAX,
            time: Some(share),
            limit: Duration::from_secs(LIMIT),
        };
        let summary = campaign::run(target, extent, |input| {
            BEGAN.store(now(), Ordering::Relaxed);
            // What runs is there to be read where the process is killed, or its stack is too small.
            let written = current.write_all_at(input, 0);
            let size = u64::try_from(input.len()).unwrap_or(0);
            if written.and_then(|()| current.set_len(size)).is_err() {
                eprintln!("the current input cannot be written");
            }
        });
        BEGAN.store(u64::MAX, Ordering::Relaxed);
        total = (total.0 + summary.executions, total.1 + summary.found.len());
        print(target, &summary);
        keep(target, &summary)?;
    }
    println!(
        "{} executions, {} kinds of faults; inputs are in target/fuzz-found",
        total.0, total.1
    );
    Ok(total.1 == 0)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    reason = "a share for people to read"
)]
fn print(target: &Target, summary: &Summary) {
    let share =
        |part: u64| format!("{:.0} %", 100. * part as f64 / summary.executions.max(1) as f64);
    println!(
        "{:<12} {:>10} {:>8} {:>8} {:>9} {:>7.3} s {:>5} MiB {:>7}",
        target.name,
        summary.executions,
        share(summary.refused),
        share(summary.answered),
        summary.outcomes,
        summary.slowest.0.as_secs_f64(),
        summary.largest.0 >> 20,
        summary.found.len()
    );
    for found in summary.found.values() {
        println!("  {} bytes: {}", found.input.len(), found.fault);
    }
}

fn keep(target: &Target, summary: &Summary) -> Result<()> {
    let write = |kind: &str, input: &[u8]| {
        fs::write(folder().join(format!("{}-{kind}", target.name)), input)
    };
    write("slowest", &summary.slowest.1)?;
    write("largest", &summary.largest.2)?;
    for (key, found) in &summary.found {
        write(key, &found.input)?;
    }
    Ok(())
}

/// Ends the process where an execution does not end.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let began = BEGAN.load(Ordering::Relaxed);
        if now().saturating_sub(began) > GIVEN_UP {
            eprintln!(
                "an execution does not end: its input is in target/fuzz-found/TARGET.current"
            );
            std::process::exit(2);
        }
    }
}
