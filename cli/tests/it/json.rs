//! `--json`: its keys are a promise to scripts.

use serde_json::Value;

use crate::run::{highwater, model};

fn estimate(arguments: &[&str]) -> Value {
    let model = model("train/alexnet");
    let outcome = highwater(&[&["estimate", &model, "--json"], arguments].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn in_order<const N: usize>(mut keys: [&str; N]) -> Vec<&str> {
    keys.sort_unstable();
    keys.to_vec()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn keys_are_those_of_the_contract() {
    let json = estimate(&[]);
    let at = |pointer: &str| keys(json.pointer(pointer).unwrap());
    assert_eq!(
        at(""),
        in_order([
            "headline",
            "model",
            "config",
            "peak",
            "without_workspaces",
            "iterations",
            "at_peak",
            "certainty",
            "devices",
            "require",
            "lower_bound",
            "uncertain",
            "diagnostics",
            "step_time"
        ])
    );
    assert_eq!(
        at("/model"),
        in_order(["name", "format", "fidelity", "parameters", "parameter_bytes", "buffer_bytes"])
    );
    assert_eq!(
        at("/config"),
        in_order([
            "dims",
            "workload",
            "gpus",
            "mesh",
            "data_parallel",
            "rank",
            "schedule",
            "micro_batches",
            "bucket_cap",
            "bucket_view",
            "find_unused",
            "no_sync",
            "reshard",
            "param_type",
            "reduce_type",
            "cpu_offload",
            "use_orig_params",
            "precision",
            "memory_format",
            "optimizer",
            "optimizer_impl",
            "weight_decay",
            "optimizer_in_backward",
            "compile",
            "clip_grad_norm",
            "ema",
            "zero_grad",
            "loop",
            "batches",
            "keep_outputs",
            "evaluation",
            "objective",
            "checkpoint",
            "checkpoint_reentry",
            "checkpoint_offload",
            "new_tokens",
            "accumulate",
            "freeze",
            "lora",
            "lora_rank",
            "lora_dropout",
            "lora_model_type",
            "dora",
            "modules_to_save",
            "input_require_grads",
            "quantize",
            "double_quantize",
            "compute_type",
            "task",
            "loss",
            "loss_kernel",
            "loss_chunk",
            "kernels",
            "attention",
            "pytorch",
            "transformers",
            "dropout",
            "in_place",
            "recover",
            "device",
            "capacity",
            "other_processes",
            "context",
            "cudnn",
            "tf32",
            "module_loading",
            "allowed",
            "alloc_conf",
            "iterations"
        ])
    );
    assert_eq!(
        at("/peak"),
        in_order([
            "requested",
            "allocated",
            "reserved",
            "process",
            "phase",
            "iteration",
            "operator",
            "module"
        ])
    );
    assert_eq!(at("/without_workspaces"), in_order(["allocated", "reserved"]));
    assert_eq!(at("/iterations/0"), in_order(["requested", "allocated", "reserved"]));
    assert_eq!(
        at("/at_peak"),
        in_order([
            "parameter",
            "buffer",
            "input",
            "activation",
            "temporary",
            "workspace",
            "gradient",
            "optimizer_state",
            "cache",
            "communication"
        ])
    );
    assert_eq!(
        at("/devices/0"),
        in_order([
            "id",
            "name",
            "capacity",
            "capacity_from",
            "need",
            "context",
            "context_high",
            "context_from",
            "other_processes",
            "allowed",
            "interval",
            "chance",
            "verdict",
            "passes",
            "max_batch_likely",
            "max_batch",
            "max_batch_with_flush",
            "step_time"
        ])
    );
    assert_eq!(at("/step_time"), in_order(["picoseconds", "interval_picoseconds"]));
    assert_eq!(at("/diagnostics/0"), in_order(["severity", "code", "message", "node"]));
}

#[test]
fn numbers_agree_with_each_other() {
    let json = estimate(&["--dim", "batch=64"]);
    let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_u64).unwrap();
    let categories = json["at_peak"].as_object().unwrap();
    let sum: u64 = categories.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(sum, number("/peak/requested"));
    assert!(number("/peak/requested") <= number("/peak/allocated"));
    assert!(number("/peak/allocated") <= number("/peak/reserved"));
    assert!(number("/peak/reserved") < number("/peak/process"));
    assert_eq!(number("/model/parameters"), 61_100_840);
    assert_eq!(number("/model/parameter_bytes"), 4 * 61_100_840);

    let iterations = json["iterations"].as_array().unwrap();
    assert_eq!(iterations.len(), 3);
    let largest = |key: &str| iterations.iter().map(|one| one[key].as_u64().unwrap()).max();
    assert_eq!(largest("allocated"), Some(number("/peak/allocated")));
    assert_eq!(largest("reserved"), Some(number("/peak/reserved")));
}

#[test]
fn devices_are_judged_by_what_they_have() {
    let json = estimate(&["--dim", "batch=64"]);
    let mut same = false;
    for device in json["devices"].as_array().unwrap() {
        let number = |key: &str| device[key].as_u64().unwrap();
        let (need, capacity) = (number("need"), number("capacity"));
        let expected: &[&str] = match number("chance") {
            95.. => &["fits"],
            50.. => &["likely-fits"],
            5.. => &["fits-after-flush", "likely-does-not-fit"],
            _ => &["fits-after-flush", "does-not-fit"],
        };
        let interval = |end: &str| device["interval"][end].as_u64().unwrap();
        assert!(interval("low") < need && need < interval("high"), "{device}");
        assert!(expected.contains(&device["verdict"].as_str().unwrap()), "{device}");
        let fits = !device["verdict"].as_str().unwrap().ends_with("does-not-fit");
        let [likely, roomy, flushing] = ["max_batch_likely", "max_batch", "max_batch_with_flush"]
            .map(|key| device[key].as_u64().unwrap());
        assert!(likely <= roomy && roomy <= flushing, "{device}");
        assert_eq!(likely >= 64, number("chance") >= 90, "{device}");
        assert_eq!(roomy >= 64, need <= capacity, "{device}");
        assert_eq!(flushing >= 64, fits, "{device}");
        same |= device["id"] == json["config"]["device"] && need == json["peak"]["process"];
    }
    assert!(same, "the configured device needs the process peak");
}

/// The times are those of `highwater time`, on the chosen GPU and on all others.
#[test]
fn steps_have_their_times() {
    let settings = ["--batch", "8", "--device", "t4"];
    let json = estimate(&[&["--no-max-batch"], settings.as_slice()].concat());
    let model = model("train/alexnet");
    let timed = highwater(&[["time", &model, "--json"].as_slice(), &settings].concat());
    let timed: Value = serde_json::from_str(&timed.stdout).unwrap();
    let same = |found: &Value, expected: &Value| {
        for key in ["picoseconds", "interval_picoseconds"] {
            assert_eq!(found[key], expected[key], "{expected}");
        }
    };
    same(&json["step_time"], &timed["step"]);
    for device in json["devices"].as_array().unwrap() {
        // The usual form of a board comes first in the list of devices, and others of it have other times.
        let forms = timed["devices"].as_array().unwrap().iter();
        let mut forms = forms.filter(|other| other["device"] == device["id"]);
        assert!(forms.any(|form| form["picoseconds"] == device["step_time"]["picoseconds"]));
    }
    let flags = "--workload generation --seq 16 --json --devices t4 --no-max-batch";
    let generated = ["estimate", "gpt2"].into_iter().chain(flags.split(' '));
    let generated = highwater(&generated.collect::<Vec<_>>()).stdout;
    let generated: Value = serde_json::from_str(&generated).unwrap();
    assert_eq!(generated.get("step_time"), None, "generation has no step");
}

#[test]
fn every_setting_is_told_also_defaults() {
    let json = estimate(&["--optimizer", "sgd-momentum", "--device", "t4"]);
    let config = format!("{:#}\n", json["config"]);
    expect_test::expect_file!["config.json"].assert_eq(&config);
}

#[test]
fn the_same_question_gets_the_same_bytes() {
    let ask = || highwater(&["estimate", &model("train/squeezenet1_1"), "--json"]).stdout;
    assert_eq!(ask(), ask());
}
