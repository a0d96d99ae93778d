//! `highwater capacity`: tokens and requests of a server.

use serde_json::Value;

use crate::run::{file, highwater};

#[test]
fn one_command_answers_for_a_gpu() {
    let outcome = highwater(&[
        "capacity",
        "Qwen/Qwen2.5-32B-Instruct-AWQ",
        "--context",
        "16k",
        "--device",
        "rtx-4090",
        "--utilization",
        "0.98",
    ]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let first = outcome.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("On GeForce RTX 4090 (24 GB), vLLM 0.19 serves Qwen2.5 32B"),
        "{first}"
    );
    assert!(first.ends_with("1 request of 16,384 tokens at once."), "{first}");
}

#[test]
fn every_gpu_has_a_line() {
    let outcome = highwater(&["capacity", "llama-3.1-8b", "--context", "8k"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let mut lines = outcome.stdout.lines();
    assert!(
        lines.next().unwrap().contains("requests of 8,192 tokens fit on"),
        "{}",
        outcome.stdout
    );
    assert!(lines.any(|line| line.contains("H100") && line.contains("GiB")));
}

#[test]
fn json_has_bytes_as_integers() {
    let outcome =
        highwater(&["capacity", "gpt-oss-20b", "--context", "16k", "--engine", "sglang", "--json"]);
    let json: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
    assert_eq!(json["weights"], "mxfp4");
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["cache"].is_u64() && row["tokens"].is_u64()));
    assert!(rows.iter().any(|row| row["fit"] == "serves"));
}

#[test]
fn bad_input_is_refused() {
    for (arguments, expected) in [
        (vec!["bert-base-uncased", "--context", "512"], "has no decoder"),
        (vec!["llama-3.1-8b", "--context", "1m"], "longer than the model's 131,072 positions"),
        (vec!["llama-3.1-8b", "--context", "8k", "--tp", "5"], "do not divide"),
        (vec!["llama-3.1-8b", "--context", "-1"], "write a number of tokens from 1"),
        (vec!["llama-3.1-8b", "--context", "8k", "--utilization", "1.5"], "write a fraction"),
        (vec!["llama-3.1-8b", "--context", "8k", "--weights", "int3"], "choose one of bf16"),
        (vec!["llama-3.1-8b", "--context", "8k", "--vllm", "0.5"], "from 0.8 on"),
        (vec!["lama-3.1-8b", "--context", "8k"], "the nearest names are"),
        (vec!["llama-3.1-8b"], "--context"),
    ] {
        let outcome = highwater(&[vec!["capacity"], arguments].concat());
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn files_are_read() {
    let config = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
        "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
        "num_key_value_heads": 4, "max_position_embeddings": 2048, "dtype": "float16",
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}"#;
    let path = file("capacity.json", config.as_bytes());
    let outcome =
        highwater(&["capacity", &path.to_string_lossy(), "--context", "2k", "--device", "t4"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("gptq"), "{}", outcome.stdout);
    let path = file("capacity.gguf", b"GGUF\x09\0\0\0");
    let outcome = highwater(&["capacity", &path.to_string_lossy(), "--context", "2k"]);
    assert!(outcome.stderr.contains("GGUF 9 is unknown"), "{}", outcome.stderr);
    // The content tells, not the name.
    let path = file("capacity", b"GGUF\x09\0\0\0");
    let outcome = highwater(&["capacity", &path.to_string_lossy(), "--context", "2k"]);
    assert!(outcome.stderr.contains("GGUF 9 is unknown"), "{}", outcome.stderr);
}
