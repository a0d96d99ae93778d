//! The short run: a few thousand executions per target, always the same, and every case that was found.
#![expect(clippy::print_stderr, reason = "a test shows how much it ran")]

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use highwater_fuzz::campaign::{self, Extent};
use highwater_fuzz::check;
use highwater_fuzz::seeds;
use highwater_fuzz::targets::{TARGETS, Target};

/// How long one execution may take here: without optimisation, next to other tests.
const LIMIT: Duration = Duration::from_secs(30);

/// One test, since the memory of the process is measured.
#[test]
fn targets_stay_within_bounds() {
    let mut faults = Vec::new();
    for target in &TARGETS {
        faults.extend(found_cases(target));
        let extent =
            Extent { seed: 0x0816, executions: executions(target), time: None, limit: LIMIT };
        let summary = campaign::run(target, extent, |_| {});
        eprintln!(
            "{}: {} executions, {} refused, {} outcomes",
            target.name, summary.executions, summary.refused, summary.outcomes
        );
        assert!(summary.refused < summary.executions, "{}: all is refused", target.name);
        faults.extend(
            summary.found.values().map(|found| format!("{}: {}", target.name, found.fault)),
        );
    }
    faults.extend(robustness());
    faults.extend(string_bomb());
    assert!(faults.is_empty(), "{faults:#?}\n`cargo xtask fuzz` keeps the inputs");
}

/// COUNT: about a second of each.
fn executions(target: &Target) -> u64 {
    match target.name {
        "message" | "archive" | "pickle" => 1500,
        "config" | "printed" | "summary" | "trace" => 60,
        _ => 400,
    }
}

/// Inputs that once went wrong.
fn found_cases(target: &Target) -> Vec<String> {
    let folder = format!("fuzz/{}", target.name);
    cases(target, &folder, "")
}

/// Files that were answered wrongly, slowly or not at all.
fn robustness() -> Vec<String> {
    let named = |name: &str| TARGETS.iter().find(|target| target.name == name);
    let all = [
        ("onnx", ".onnx"),
        ("config", ".json"),
        ("spec", ".yaml"),
        ("printed", ".txt"),
        // The target of which inputs are whole files.
        ("archive", ".safetensors"),
    ];
    let models = all.into_iter().filter_map(|(name, ending)| Some((named(name)?, ending)));
    models.flat_map(|(target, ending)| cases(target, "robustness", ending)).collect()
}

/// A trace whose only text is 100 MiB long and packs to 100 kB: what it unpacks to must not be kept.
fn string_bomb() -> Option<String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"{\"traceEvents\":[{\"name\":\"").expect("memory takes all");
    for _ in 0..100 {
        packed.write_all(&vec![b'a'; 1 << 20]).expect("memory takes all");
    }
    let input = packed.finish().expect("memory takes all");
    let target = TARGETS.iter().find(|target| target.name == "trace")?;
    let fault = check::check(target, &input, LIMIT).fault?;
    Some(format!("a long text {fault}"))
}

fn cases(target: &Target, folder: &str, ending: &str) -> Vec<String> {
    let path = seeds::fixtures().join(folder);
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    names.sort();
    let check = |name: &String| {
        let input = seeds::read(&format!("{folder}/{name}"));
        let fault = check::check_twice(target, &input, LIMIT).fault?;
        Some(format!("{folder}/{name} {fault}"))
    };
    names.iter().filter_map(check).collect()
}
