//! The answer in forms for others to read.

use std::path::PathBuf;

use expect_test::expect_file;
use serde_json::Value;

use crate::run::{Outcome, contents, file, highwater, model};

fn estimate(arguments: &[&str]) -> Outcome {
    let model = model("train/alexnet");
    highwater(&[&["estimate", &model, "--dim", "batch=64"], arguments].concat())
}

#[test]
fn a_report_in_markdown_reads_well() {
    let outcome = estimate(&["--markdown", "-", "--optimizer", "sgd"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expect_file!["report.md"].assert_eq(&outcome.stdout);
}

#[test]
fn tables_have_a_name_for_every_column() {
    for (table, columns) in [
        ("timeline", "event,iteration,phase,operator,module,allocated,reserved,parameter,"),
        ("tensors", "bytes,category,name,module,operator,type,born,dies\n"),
        (
            "devices",
            "id,name,verdict,need,capacity,context,other_processes,max_batch_likely,max_batch,max_batch_with_flush\n",
        ),
    ] {
        let outcome = estimate(&["--csv", &format!("{table}=-")]);
        assert!(outcome.stdout.starts_with(columns), "{}", outcome.stdout);
        assert!(outcome.stdout.lines().count() > 10, "{table}");
    }
    let refused = estimate(&["--csv", "segments=-"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("choose timeline, tensors or devices"), "{}", refused.stderr);
}

#[test]
fn a_picture_has_the_timeline_and_its_labels() {
    let outcome = estimate(&["--picture", "-"]);
    let picture = outcome.stdout;
    assert!(picture.starts_with("<svg width=\"1200\" height=\"720\""), "{picture}");
    assert!(picture.ends_with("</svg>\n"), "{picture}");
    for label in [
        "alexnet at batch 64 fits on ",
        "optimizer state",
        "reserved",
        "backward",
        "GiB",
        "cached",
        "Highwater",
        "Tesla V100 16 GB",
        "usable",
    ] {
        assert!(picture.contains(label), "{label}");
    }
}

#[test]
fn a_trace_is_what_perfetto_reads() {
    let path = file("alexnet.trace.json", b"");
    let outcome = estimate(&["--trace", &path.to_string_lossy()]);
    assert!(outcome.stdout.contains("it needs"), "the report is printed too");
    let text = std::fs::read_to_string(path).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |kind: &str, name: &str| {
        events.iter().filter(|event| event["ph"] == kind && event["name"] == name).count()
    };
    assert_eq!(of("X", "backward, iteration 3"), 1);
    assert!(of("X", "aten::convolution") >= 5);
    assert!(of("C", "allocated") > 100 && of("C", "by category") > 100);
    let highest = events.iter().filter_map(|event| event["args"]["bytes"].as_u64()).max();
    let peak: Value = serde_json::from_str(&estimate(&["--json"]).stdout).unwrap();
    assert_eq!(highest, peak["peak"]["reserved"].as_u64());
}

#[test]
fn a_file_is_replaced_only_by_its_like() {
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    let forms = [
        ("--markdown", "", "out.md"),
        ("--trace", "", "out.trace.json"),
        ("--picture", "", "out.svg"),
        ("--csv", "tensors=", "out.csv"),
    ];
    for (flag, table, name) in forms {
        let path = file(name, b"notes of mine, which are long enough to be kept");
        let target = format!("{table}{}", path.display());
        let write = |more: &[&str]| estimate(&[&["--devices", "t4", flag, &target], more].concat());
        let refused = write(&["--no-max-batch"]);
        assert_eq!(refused.status, Some(2));
        assert!(refused.stderr.contains("holds something else; --force"), "{}", refused.stderr);
        assert!(read(&path).starts_with("notes of mine"), "{flag}");
        assert_eq!(write(&["--no-max-batch", "--force"]).status, Some(0));
        let first = read(&path);
        assert_eq!(write(&["--no-max-batch", "--optimizer", "sgd"]).status, Some(0));
        assert_ne!(read(&path), first, "{flag}");
    }
}

#[test]
fn a_model_is_never_written_over() {
    let model = file("read.onnx", &contents("train/alexnet"));
    let path = model.to_string_lossy();
    for flag in ["--markdown", "--snapshot"] {
        let outcome = highwater(&["estimate", &path, flag, &path, "--force", "--no-max-batch"]);
        assert_eq!(outcome.status, Some(2));
        assert!(outcome.stderr.contains("this file is read"), "{}", outcome.stderr);
    }
    assert_eq!(std::fs::metadata(&model).unwrap().len(), contents("train/alexnet").len() as u64);
}

#[test]
fn a_folder_cannot_be_written_to() {
    let outcome = estimate(&["--markdown", env!("CARGO_TARGET_TMPDIR")]);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("cannot write"), "{}", outcome.stderr);
}
