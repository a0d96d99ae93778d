//! `highwater advise`.

use expect_test::expect_file;
use serde_json::Value;

use crate::run::{highwater, model};

/// A step of `AlexNet` that no small card holds.
const LARGE: &[&str] = &["--dim", "batch=6000", "--fit", "t4"];

#[test]
fn advice_on_one_model() {
    let outcome = highwater(&[&["advise", &model("train/alexnet")], LARGE].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expect_file!["advice.txt"].assert_eq(&outcome.stdout);
}

#[test]
fn what_fits_is_left_as_it_is() {
    let outcome = highwater(&["advise", &model("train/alexnet"), "--device", "t4"]);
    assert!(outcome.stdout.contains("It fits on a T4 without changes."), "{}", outcome.stdout);
}

#[test]
fn json_has_levers_and_a_plan() {
    let alexnet = model("train/alexnet");
    let outcome = highwater(&[&["advise", &alexnet, "--json"], LARGE].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let at = |pointer: &str| json.pointer(pointer).unwrap();
    let keys = |pointer: &str| {
        let mut keys: Vec<_> = at(pointer).as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(keys(""), "autopsy config device levers model peak plan");
    assert_eq!(keys("/autopsy"), "groups next others scores total");
    assert_eq!(keys("/autopsy/groups/0"), "bytes count module operator tensor why");
    assert_eq!(
        keys("/levers/0"),
        "allocated code cost id iteration module need operator phase reserved saved title verdict"
    );
    assert_eq!(keys("/plan"), "config fits steps tried");
    assert_eq!(at("/device/verdict"), "does-not-fit");
    assert_eq!(at("/plan/fits"), true);
    // What the plan leads to is what an estimate of its settings says.
    let config = at("/plan/config");
    let dim = format!("batch={}", config["dims"]["batch"]);
    let setting = |name: &str| config[name].as_str().unwrap().to_owned();
    let (precision, accumulate) = (setting("precision"), config["accumulate"].to_string());
    let alloc_conf = setting("alloc_conf");
    let arguments = [
        "estimate",
        &alexnet,
        "--json",
        "--device",
        "t4",
        "--dim",
        &dim,
        "--precision",
        &precision,
        "--accumulate",
        &accumulate,
        "--alloc-conf",
        &alloc_conf,
    ];
    let estimate: Value = serde_json::from_str(&highwater(&arguments).stdout).unwrap();
    let last = at("/plan/steps").as_array().unwrap().last().unwrap();
    assert_eq!(estimate["peak"]["reserved"], last["reserved"]);
}

/// What runs only with flushes is not called a run that fits, and a change that costs time states how much.
#[test]
fn a_run_that_flushes_and_what_recomputing_costs() {
    let outcome = highwater(&["advise", "resnet50", "--batch", "900"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let end = "Without changes it fits on an A100 80 GB only if PyTorch flushes its cache every step (slow).";
    assert!(outcome.stdout.contains(end), "{}", outcome.stdout);
    let recomputed =
        outcome.stdout.lines().find(|line| line.contains("checkpointing, every block"));
    let picoseconds = |more: &[&str]| {
        let asked = [&["time", "resnet50", "--batch", "900", "--json"][..], more].concat();
        let json: Value = serde_json::from_str(&highwater(&asked).stdout).expect("it is JSON");
        json["step"]["picoseconds"].as_u64().expect("it is a number")
    };
    let (now, then) = (picoseconds(&[]), picoseconds(&["--checkpoint", "blocks"]));
    let percent = ((then - now) * 200 + now) / (2 * now);
    let costs = format!("+{percent} % time for each sample");
    assert!(recomputed.is_some_and(|line| line.contains(&costs)), "{costs}: {recomputed:?}");
}
