//! `highwater replay`, and the snapshots that `estimate` writes.

use expect_test::{expect, expect_file};
use serde_json::Value;

use crate::run::{file, highwater, model};

/// Writes the snapshot of a simulated run; its path.
fn written(name: &str) -> String {
    let path = file(name, b"").to_string_lossy().into_owned();
    let model = model("train/alexnet");
    let outcome = highwater(&["estimate", &model, "--dim", "batch=64", "--snapshot", &path]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("it needs"), "the report is printed too");
    path
}

#[test]
fn a_snapshot_is_explained() {
    let outcome = highwater(&["replay", &written("alexnet.pickle")]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expect_file!["replay.txt"].assert_eq(&outcome.stdout);
}

#[test]
fn json_has_moments_and_replays() {
    let path = written("alexnet-json.pickle");
    let asked = ["replay", &path, "--json", "--alloc-conf", "max_split_size_mb:64"];
    let outcome = highwater(&asked);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let keys = |pointer: &str| {
        let object = json.pointer(pointer).unwrap().as_object().unwrap();
        object.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys(""),
        "alloc_conf before diagnostics end entries gpu name peak replays reserved_peak"
    );
    assert_eq!(
        keys("/peak"),
        "allocated blocks entry fragmentation live origins requested reserved segments"
    );
    assert_eq!(keys("/peak/fragmentation"), "by_size holes largest unused whole_segments");
    let outcomes = json["replays"]["outcomes"].as_array().unwrap();
    assert_eq!(outcomes.len(), 2);
    assert_eq!(outcomes[0]["reserved"], json["reserved_peak"]["reserved"]);
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let hostile = file("hostile.pickle", b"\x80\x04cos\nsystem\n.").to_string_lossy().into_owned();
    let outcome = highwater(&["replay", &hostile]);
    assert_eq!(outcome.status, Some(2));
    assert!(
        outcome.stderr.contains("hostile.pickle: byte 2: the opcode GLOBAL"),
        "{}",
        outcome.stderr
    );
    let path = written("alexnet-gpu.pickle");
    let outcome = highwater(&["replay", &path, "--gpu", "3"]);
    assert!(
        outcome.stderr.contains("there is no GPU 3 in this snapshot of 1"),
        "{}",
        outcome.stderr
    );
    let outcome = highwater(&["replay", &path, "--alloc-conf", "max_split_size_mb:1"]);
    assert!(outcome.stderr.contains("it must be at least 20"), "{}", outcome.stderr);
    let outcome = highwater(&["estimate", &model("train/alexnet"), "--snapshot", "-"]);
    assert!(outcome.stderr.contains("name a file, such as out.pickle"), "{}", outcome.stderr);
}

/// Path of a recorded trace.
fn trace(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/profiles");
    format!("{root}/{name}.json.gz")
}

#[test]
fn a_trace_from_the_cpu_is_replayed_on_a_gpu() {
    let outcome = highwater(&["replay", &trace("resnet18_8_sgd_128")]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expect_file!["profile.txt"].assert_eq(&outcome.stdout);
    let outcome = highwater(&["replay", &trace("mlp_512_sgd"), "--json", "--device", "t4"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let [ours, xmem] = json["predictions"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!((&ours["rules"], &xmem["rules"]), (&"highwater".into(), &"xmem".into()));
    assert_eq!((&json["device"], &json["steps"]), (&"t4".into(), &3.into()));
    let cut = file("cut.json", b"{\"traceEvents\": [{\"name\": \"").to_string_lossy().into_owned();
    let outcome = highwater(&["replay", &cut]);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("the trace ends in the middle"), "{}", outcome.stderr);
}

/// With its own recording, and with a trace of something else; `--beside` is what the flag was called.
#[test]
fn an_estimate_is_compared_with_what_was_recorded() {
    let path = written("alexnet-beside.pickle");
    let model = model("train/alexnet");
    let asked = ["estimate", &model, "--dim", "batch=64", "--compare", &path];
    let outcome = highwater(&asked);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let compared = outcome.stdout.split("\n\n").find(|part| part.starts_with("Compared")).unwrap();
    expect![[r#"
        Compared with a memory snapshot
                              estimate  alexnet-beside.pickle
          allocated           1.18 GiB               1.18 GiB  =
          reserved            1.46 GiB               1.46 GiB  =
          set-up            270.21 MiB             270.21 MiB  =
          1 forward         466.88 MiB             466.88 MiB  =
          1 backward        735.41 MiB             735.41 MiB  =
          1 optimizer step    1.18 GiB               1.18 GiB  =
          2 forward         934.60 MiB             934.60 MiB  =
          2 backward          1.17 GiB               1.17 GiB  =
          2 optimizer step    1.18 GiB               1.18 GiB  =
          3 forward         934.60 MiB             934.60 MiB  =
          3 backward          1.17 GiB               1.17 GiB  =
          3 optimizer step    1.18 GiB               1.18 GiB  ="#]]
    .assert_eq(compared);
    let outcome = highwater(&[asked.as_slice(), &["--json"]].concat());
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["compared"]["peak"]["allocated"], json["peak"]["allocated"]);
    assert_eq!(json["compared"]["phases"].as_array().unwrap().len(), 10);

    let profiles = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/profiles");
    let trace = format!("{profiles}/resnet18_8_sgd_128.json.gz");
    let outcome = highwater(&["estimate", &model, "--compare", &trace]);
    assert!(outcome.stdout.contains("by xMem's rules"), "{}", outcome.stdout);
    let outcome = highwater(&["estimate", &model, "--beside", &model]);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("this is no pickle"), "{}", outcome.stderr);
}
