//! `estimate --jsonl`: a job in each line, an answer in each line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::run::{file, highwater, model};

/// The answers to some lines.
fn ask_lines(name: &str, lines: &str) -> Vec<Value> {
    let path = file(name, lines.as_bytes());
    let outcome = highwater(&["estimate", "--jsonl", path.to_str().unwrap()]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The answers to some jobs.
fn ask(name: &str, jobs: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = jobs.iter().map(Value::to_string).collect();
    ask_lines(name, &lines.join("\n"))
}

fn error(answer: &Value) -> (&str, &str, Option<&str>) {
    let text = |key: &str| answer["error"][key].as_str();
    (text("kind").unwrap(), text("message").unwrap(), text("at"))
}

#[test]
fn answers_are_those_of_estimate() {
    let path = model("train/alexnet");
    let job = json!({
        "id": "a", "model": path, "batch": 64, "devices": ["t4", "rtx-3090"], "largest": true,
        "settings": { "device": "t4", "optimizer": "adam" },
    });
    let answer = ask("same.jsonl", &[job]).remove(0);
    let arguments = ["--batch", "64", "--device", "t4", "--optimizer", "adam", "--json"];
    let whole =
        highwater(&[&["estimate", &path, "--devices", "rtx-3090"], &arguments[..]].concat());
    let whole: Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!(answer["id"], "a");
    assert_eq!(answer["model"], whole["model"]["name"]);
    for key in ["config", "peak", "lower_bound", "uncertain"] {
        assert_eq!(answer[key], whole[key], "{key}");
    }
    let devices = answer["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    for device in devices {
        let same = |other: &&Value| other["id"] == device["id"];
        let other = whole["devices"].as_array().unwrap().iter().find(same).unwrap();
        for key in ["capacity", "need", "context", "interval", "chance", "verdict"] {
            assert_eq!(device[key], other[key], "{key} of {}", device["id"]);
        }
        let largest = &device["largest"];
        assert_eq!(largest["likely"], other["max_batch_likely"]);
        assert_eq!(largest["expected"], other["max_batch"]);
        assert_eq!(largest["with_flush"], other["max_batch_with_flush"]);
        let high = device["interval"]["high"].as_u64().unwrap();
        assert_eq!(device["requests"]["memory_mib"], high.div_ceil(1 << 20));
        assert_eq!(device["requests"]["shards"], high.div_ceil(1 << 30));
    }
}

#[test]
fn a_bad_line_is_answered_by_its_error_and_the_others_are_answered() {
    let lines = r#"{"id": 1, "model": "resnet18", "batch": 2}
{"id": 2, "model": "resnet18"
[3]

{"id": 4, "modle": "resnet18"}
{"id": {"of": [5]}, "batch": 2}
{"id": 6, "model": "resnet18", "devices": ["t44"]}
{"id": 7, "model": "resnet18", "settings": {"optimiser": "adam"}}
{"id": 8, "model": "resnet18", "settings": {"optimizer": "adom"}}
{"id": 9, "model": "resnet18", "settings": {"compile": 9}}
{"id": 10, "model": "resnet18", "batch": -1}
{"id": 11, "model": "resnet18", "batch": 2, "dims": {"batch": 3}}
{"id": 12, "model": "no-such-model"}
{"id": 13, "model": "resnet18", "batch": 2}
"#;
    let answers = ask_lines("bad.jsonl", lines);
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    let of = json!({ "of": [5] });
    let null = Value::Null;
    let numbers: Vec<Value> = (1..=13).map(Value::from).collect();
    let mut expected: Vec<&Value> = numbers.iter().collect();
    (expected[1], expected[2], expected[4]) = (&null, &null, &of);
    assert_eq!(ids, expected);
    let (first, last) = (answers.first().unwrap(), answers.last().unwrap());
    assert!(first["error"].is_null() && first["peak"] == last["peak"], "{first}");
    let errors: Vec<_> = answers[1..12].iter().map(error).collect();
    let kinds: Vec<_> = errors.iter().map(|(kind, _, at)| (*kind, *at)).collect();
    assert_eq!(
        kinds,
        [
            ("bad-json", None),
            ("bad-job", None),
            ("unknown-key", Some("modle")),
            ("bad-job", Some("model")),
            ("bad-config", Some("devices")),
            ("unknown-key", Some("settings.optimiser")),
            ("bad-config", Some("settings.optimizer")),
            ("bad-config", Some("settings.compile")),
            ("bad-job", Some("batch")),
            ("bad-job", Some("batch")),
            ("wrong-format", Some("model")),
        ]
    );
    for (at, part) in [(2, "did you mean `model`?"), (5, "did you mean `optimizer`?"), (6, "adamw")]
    {
        assert!(errors[at].1.contains(part), "{}", errors[at].1);
    }
}

#[test]
fn the_config_of_an_answer_can_be_sent_back() {
    let settings = json!({
        "device": "t4", "optimizer": "adamw", "precision": "bf16", "checkpoint": "blocks", "gpus": 2,
        "other_processes": 1 << 30, "context": "300 MiB", "alloc_conf": "expandable_segments:True",
        "freeze": ["transformer.wte", "transformer.h.0"], "accumulate": 2, "ema": true,
    });
    let job = json!({ "model": "gpt2", "batch": 2, "seq": 64, "settings": settings });
    let first = ask("first.jsonl", &[job]).remove(0);
    assert!(first["error"].is_null(), "{first}");
    let back = json!({ "model": "gpt2", "settings": first["config"] });
    let second = ask("second.jsonl", &[back]).remove(0);
    assert_eq!(first, second);
}

/// How many iterations ran is in an answer's `config`; other numbers cannot be asked for.
#[test]
fn only_the_iterations_that_run_can_be_asked_for() {
    let of = |workload: &str, iterations: Value| {
        let settings = json!({ "workload": workload, "iterations": iterations });
        json!({ "model": "gpt2", "batch": 1, "seq": 16, "settings": settings })
    };
    let mut jobs: Vec<Value> = [("training", 3), ("inference", 3), ("generation", 1)]
        .map(|(name, n)| of(name, json!(n)))
        .into();
    jobs.extend(
        [json!(1), json!(100), json!("3"), json!(null), json!(3.0)].map(|n| of("training", n)),
    );
    let answers = ask("iterations.jsonl", &jobs);
    for (answer, run) in answers.iter().zip([3, 3, 1]) {
        assert_eq!(answer["config"]["iterations"], run, "{answer}");
    }
    for answer in &answers[3..] {
        let (kind, message, at) = error(answer);
        assert_eq!((kind, at), ("bad-config", Some("settings.iterations")), "{answer}");
        assert!(message.contains("and 3 are simulated; leave it out"), "{message}");
    }
}

#[test]
fn models_may_be_given_as_objects_and_by_recipes() {
    let config = json!({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_head": 2, "n_embd": 64,
        "vocab_size": 1000, "n_positions": 128,
    });
    let trainer = json!({ "model_name_or_path": "gpt2", "per_device_train_batch_size": 2, "max_seq_length": 64 });
    let yaml = "base_model: gpt2\nmicro_batch_size: 2\nsequence_len: 64\n";
    let answers = ask(
        "sources.jsonl",
        &[
            json!({ "model": config, "batch": 2 }),
            json!({ "recipe": trainer }),
            json!({ "recipe": yaml }),
            json!({ "recipe": trainer, "model": config }),
            json!({ "recipe": "no recipe", "model": config }),
        ],
    );
    let peak = |answer: &Value| answer["peak"]["reserved"].as_u64().unwrap_or_default();
    let peaks: Vec<u64> = answers.iter().map(peak).collect();
    assert!(peaks[0] > 0 && peaks[1] > 0 && peaks[2] > 0 && peaks[3] > 0, "{peaks:?}");
    assert!(peaks[3] < peaks[1], "{peaks:?}");
    assert_eq!(error(&answers[4]).0, "bad-job");
    assert_eq!(answers[2]["config"]["dims"]["batch"], 2);
}

#[test]
fn times_are_those_of_time() {
    let job = json!({ "model": "resnet18", "batch": 8, "devices": ["t4"], "time": true });
    let answer = ask("time.jsonl", &[job]).remove(0);
    let arguments = ["time", "resnet18", "--batch", "8", "--device", "t4", "--json"];
    let whole: Value = serde_json::from_str(&highwater(&arguments).stdout).unwrap();
    let (time, step) = (&answer["devices"][0]["time"], &whole["step"]);
    for key in ["picoseconds", "interval_picoseconds", "samples", "tokens", "bound", "utilisation"]
    {
        assert_eq!(time[key], step[key], "{key}");
    }
}

/// A scheduler keeps the program running, and waits for each answer before it asks again.
#[test]
fn an_answer_comes_before_the_next_line() {
    let program = env!("CARGO_BIN_EXE_highwater");
    let mut command = Command::new(program);
    command.args(["estimate", "--jsonl"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for id in 0..3 {
        writeln!(stdin, "{}", json!({ "id": id, "model": "resnet18", "batch": 2 })).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["id"], id);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_long_file_keeps_its_order() {
    let jobs: Vec<Value> = (0..200)
        .map(|id| json!({ "id": id, "model": if id % 3 == 0 { "resnet18" } else { "?" }, "batch": 1 }))
        .collect();
    let answers = ask("long.jsonl", &jobs);
    let ids: Vec<u64> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..200).collect::<Vec<u64>>());
}

#[test]
fn words_are_the_same_job() {
    let words = "model=resnet18 batch=4 optimizer=adamw clip_grad_norm=on accumulate=2 ema=true \
                 freeze=conv1,bn1 pytorch=2.11";
    let settings = json!({
        "optimizer": "adamw", "clip_grad_norm": "on", "accumulate": 2, "ema": true,
        "freeze": ["conv1", "bn1"], "pytorch": "2.11",
    });
    let same = json!({ "model": "resnet18", "batch": 4, "settings": settings });
    let jobs = [
        same.clone(),
        json!({ "words": words }),
        json!({ "words": same.to_string() }),
        json!({ "model": "resnet18", "words": words }),
        json!({ "words": "resnet18" }),
        json!({ "words": "model=resnet18 batch=many" }),
        json!({ "words": "model=resnet18 model=resnet50" }),
        json!({ "words": "{" }),
        json!({ "words": 5 }),
        json!({ "words": null }),
        json!({ "model": "resnet18", "batch": 4, "settings": settings, "words": null }),
    ];
    let answers = ask("words.jsonl", &jobs);
    assert_eq!(answers[0]["config"]["accumulate"], 2, "{}", answers[0]);
    let sentence = answers[0]["devices"][0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("resnet18 at batch 4 fits on an A100"), "{sentence}");
    assert_eq!(answers[1], answers[0]);
    assert_eq!(answers[2], answers[0]);
    assert_eq!(answers[10], answers[0]);
    let places: Vec<_> = answers[3..10].iter().map(|answer| error(answer).2.unwrap()).collect();
    assert_eq!(places, ["words", "words", "batch", "words", "words", "words", "model"]);
}
