//! `pack`: jobs on GPUs that they share.

use serde_json::{Value, json};

use crate::run::{file, highwater};

fn pack(name: &str, jobs: &[Value], gpus: &str, flags: &[&str]) -> Value {
    let lines: Vec<String> = jobs.iter().map(Value::to_string).collect();
    let jobs = file(&format!("{name}.jsonl"), lines.join("\n").as_bytes());
    let gpus = file(&format!("{name}.yaml"), gpus.as_bytes());
    let paths = [jobs.to_str().unwrap(), "--gpus", gpus.to_str().unwrap(), "--json"];
    let outcome = highwater(&[&["pack"], &paths[..], flags].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn job(id: &str, batch: u64, duration: u64) -> Value {
    json!({ "id": id, "model": "resnet18", "batch": batch, "duration": duration })
}

/// Where each job went, and when, in seconds.
fn placed(answer: &Value) -> Vec<(String, String, u64)> {
    let text = |placed: &Value, key: &str| placed[key].as_str().unwrap_or("none").to_owned();
    let placed = answer["placed"].as_array().unwrap().iter();
    placed
        .map(|one| (text(one, "id"), text(one, "gpu"), one["at"].as_u64().unwrap() / 1000))
        .collect()
}

#[test]
fn jobs_share_a_gpu_or_wait() {
    let jobs = [job("a", 32, 100), job("b", 32, 100)];
    let gpus = "gpus:\n- {device: t4, node: one}";
    let on = |id: &str, at: u64| (id.to_owned(), "t4 1 of one".to_owned(), at);
    let shared = pack("shared", &jobs, gpus, &[]);
    assert_eq!(placed(&shared), [on("a", 0), on("b", 0)]);
    assert_eq!(shared["placed"][1]["with"], json!(["a"]));
    assert!(shared["placed"][1]["ends"].as_u64().unwrap() > 110_000);
    let alone = pack("alone", &jobs, gpus, &["--policy", "exclusive"]);
    assert_eq!(placed(&alone), [on("a", 0), on("b", 100)]);
    let rules = shared["policies"].as_array().unwrap();
    assert_eq!(rules.len(), 5);
    assert_eq!(
        (&rules[0]["policy"], &rules[0]["mean_wait"]),
        (&json!("exclusive"), &json!(50_000))
    );
}

/// A bad line is answered as an error, a job that no GPU can hold is named, and the others are placed.
#[test]
fn bad_jobs_do_not_stop_the_others() {
    let jobs = [
        json!({ "id": 1, "model": "resnet18", "batch": 32, "steps": 1000 }),
        json!({ "id": 2, "model": "no-such-model" }),
        json!({ "id": 3, "model": "resnet18", "duration": "long" }),
        json!({ "id": 4, "model": "resnet18", "batch": 1_000_000 }),
        json!([5]),
    ];
    let answer = pack("bad", &jobs, "- t4", &["--sharing", "mps"]);
    let errors = answer["errors"].as_array().unwrap();
    let ids: Vec<&Value> = errors.iter().map(|error| &error["id"]).collect();
    assert_eq!(ids, [&json!(2), &json!(3), &Value::Null]);
    let reasons: Vec<_> =
        answer["placed"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["alone", "too-large"]);
    assert_eq!(answer["policies"][2]["never_run"], 1);
}

#[test]
fn bad_lists_of_gpus_are_refused() {
    let jobs = file("none.jsonl", b"");
    let gpus = file("none.yaml", b"- {device: t5000}");
    let outcome = highwater(&["pack", jobs.to_str().unwrap(), "--gpus", gpus.to_str().unwrap()]);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("t5000"), "{}", outcome.stderr);
    let rule = highwater(&["pack", "a", "--gpus", "b", "--policy", "random"]);
    assert!(rule.stderr.contains("the rules are exclusive, first-fit"), "{}", rule.stderr);
}
