//! Servers: ours against what their logs state.
//!
//! `tests/fixtures/serving/errors.txt` is the table, reviewed like code; `UPDATE_EXPECT=1 cargo test` rewrites it.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "printed alone"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::serving::{
    Engine, Fit, Format, KvType, Release, Row, Served, Serving, Share, Weights, answer, header,
    smallest_change, tokens,
};
use highwater_core::{Bytes, device};

use crate::fixtures;

const GIB: f64 = (1_u64 << 30) as f64;

/// A logged start: cells by the names of their columns.
type Log<'a> = BTreeMap<&'a str, &'a str>;

fn logs(text: &str) -> Vec<Log<'_>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| head.iter().copied().zip(line.split(',')).collect()).collect()
}

fn number(log: &Log<'_>, column: &str) -> Option<f64> {
    log[column].parse().ok()
}

fn settings(log: &Log<'_>) -> Serving {
    Serving {
        engine: if log["engine"] == "sglang" { Engine::Sglang } else { Engine::Vllm },
        context: tokens(log["context"]).unwrap(),
        utilization: Some(Share::parse(log["utilization"]).unwrap()),
        kv_type: KvType::parse(log["kv_type"]).unwrap_or_default(),
        weights: Format::parse(log["weights"]).map(Weights::of),
        tp: log["tp"].parse().unwrap(),
        vllm: Release::parse(log["version"]).unwrap_or_default(),
        sampler: log["sampler"].parse().ok(),
        block: log["block"].parse().ok(),
        ..Serving::default()
    }
}

fn ours(log: &Log<'_>) -> Row {
    let model = Served::named(log["model"]).unwrap().unwrap_or_else(|| panic!("{log:?}"));
    let device = device::find(log["device"]).unwrap();
    answer(&model, &settings(log), &[device]).unwrap().rows.remove(0)
}

fn gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / GIB
}

/// The caches of simple calculators, in GiB, from the weights that we count.
fn calculators(log: &Log<'_>, row: &Row) -> [f64; 3] {
    let share = number(log, "utilization").unwrap();
    let nominal = device::find(log["device"]).unwrap().nameplate;
    let nominal: f64 = nominal.split(' ').next().unwrap().parse().unwrap();
    let (weights, budget) = (gib(row.weights), gib(row.total) * share);
    // llm-d-planner's constants for activations, by architecture and kind.
    let activation = match log["model"] {
        name if name.starts_with("llama") => 4.8,
        name if name.starts_with("codellama") => 4.8,
        name if name.contains("-a3b") || name.contains("-a22b") => 8.0,
        name if name.starts_with("qwen") => 5.6,
        name if ["mixtral", "gpt-oss", "deepseek"].iter().any(|start| name.starts_with(start)) => {
            8.0
        }
        _ => 5.5,
    };
    let non_torch = if log["tp"] == "1" { 0.15 } else { 0.6 };
    [budget - 1.2 * weights, budget - weights, nominal * share - weights - activation - non_torch]
}

/// Per cent, and the median of their sizes.
fn median(errors: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes[sizes.len() / 2]
}

#[test]
fn caches_are_as_near_to_logs_as_the_table_says() {
    let text = String::from_utf8(fixtures::read("serving/logs.csv")).unwrap();
    let logs = logs(&text);
    assert!(logs.len() >= 30);
    let mut page = "Servers, ours / logged: weights, peak of the profile run and cache in GiB, tokens of the cache; \
                    errors in per cent.\n`cargo test -p highwater-core --test it serving` makes this table.\n\n"
        .to_owned();
    let names = ["weights", "work", "cache", "tokens"];
    let mut errors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for log in &logs {
        let row = ours(log);
        write!(
            page,
            "{:<16} {:<9} tp {} {:<7}{:<5} {:<10}",
            log["model"], log["device"], log["tp"], log["engine"], log["version"], log["weights"]
        )
        .unwrap();
        let values = [
            (number(log, "weights_gib"), gib(row.weights)),
            (number(log, "activation_gib"), gib(row.activations)),
            (number(log, "kv_gib"), gib(row.cache)),
            (number(log, "kv_tokens"), row.tokens as f64),
        ];
        for (name, (logged, ours)) in names.into_iter().zip(values) {
            let Some(logged) = logged else {
                write!(page, " {:>27}", "-").unwrap();
                continue;
            };
            let error = (ours / logged - 1.0) * 100.0;
            errors.entry(name).or_default().push(error);
            let digits = if name == "tokens" { 0 } else { 2 };
            write!(page, " {ours:>9.digits$} {logged:>9.digits$} {error:>+7.2}").unwrap();
        }
        if let Some(logged) = number(log, "kv_gib") {
            for (name, theirs) in
                ["× 1.2", "hf-mem", "llm-d"].into_iter().zip(calculators(log, &row))
            {
                errors.entry(name).or_default().push((theirs / logged - 1.0) * 100.0);
            }
        }
        page.push('\n');
    }
    page.push('\n');
    for name in names.into_iter().chain(["× 1.2", "hf-mem", "llm-d"]) {
        let of = &errors[name];
        let worst = of.iter().fold(0.0_f64, |worst, error| worst.max(error.abs()));
        writeln!(
            page,
            "{name:<8} {:>3} logs, median error {:.2} %, worst {worst:.1} %",
            of.len(),
            median(of)
        )
        .unwrap();
    }
    expect_file!["../../../tests/fixtures/serving/errors.txt"].assert_eq(&page);
    assert!(median(&errors["tokens"]) <= 3.0);
    assert!(median(&errors["cache"]) <= 3.0);
    assert!(median(&errors["weights"]) <= 1.0);
    let document = String::from_utf8(fixtures::read("../../docs/inference.md")).unwrap();
    for (name, label) in [
        ("weights", "weights"),
        ("work", "peak of the profile run"),
        ("cache", "cache"),
        ("tokens", "tokens of the cache"),
        ("× 1.2", "weights × 1.2"),
        ("hf-mem", "weights alone, as hf-mem counts them"),
        ("llm-d", "llm-d-planner's constants"),
    ] {
        let line = format!("| {label} | {} | {:.2} % |", errors[name].len(), median(&errors[name]));
        assert!(document.contains(&line), "docs/inference.md lacks: {line}");
    }
}

fn serving(context: u64) -> Serving {
    Serving { context, tp: 1, ..Serving::default() }
}

#[track_caller]
fn refused(name: &str, settings: &Serving, expected: &str) {
    let answer = Served::named(name).and_then(|model| answer(&model.unwrap(), settings, &[]));
    let message = answer.map(|_| ()).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

#[test]
fn what_no_server_runs_is_refused() {
    refused("bert-base-uncased", &serving(512), "no decoder");
    refused("t5-small", &serving(512), "an encoder and a decoder");
    refused("llama-3.1-8b", &serving(1 << 20), "longer than the model's 131,072 positions");
    refused("llama-3.1-8b", &Serving { tp: 3, ..serving(512) }, "3 GPUs do not divide");
    refused("llama-3.1-8b", &Serving { tp: 0, ..serving(512) }, "0 GPUs do not divide");
}

#[test]
fn what_does_not_fit_has_a_smallest_change() {
    let model = Served::named("Qwen/Qwen2.5-32B-Instruct-AWQ").unwrap().unwrap();
    let gpu = device::find("rtx-4090").unwrap();
    let settings = serving(16_384);
    let row = answer(&model, &settings, &[gpu]).unwrap().rows.remove(0);
    assert_eq!(row.fit, Fit::CacheTooSmall);
    let (flag, changed) = smallest_change(&model, &settings, gpu).unwrap();
    assert!(flag.starts_with("--") && changed.fit == Fit::Serves, "{flag}");
    let large = Served::named("llama-3.1-70b").unwrap().unwrap();
    let row = answer(&large, &settings, &[gpu]).unwrap().rows.remove(0);
    assert_eq!((row.fit, row.tokens), (Fit::NoCache, 0));
    let volta = device::find("v100-16gb").unwrap();
    let row = answer(&model, &settings, &[volta]).unwrap().rows.remove(0);
    assert_eq!(row.fit, Fit::Unsupported);
}

/// All models of the catalogue that servers run, on all GPUs and engines.
#[test]
fn every_decoder_of_the_catalogue_is_answered() {
    let devices: Vec<_> = device::all().iter().collect();
    let mut count = 0;
    for entry in highwater_core::formats::catalogue::entries() {
        let Ok(Some(model)) = Served::named(entry.id) else { continue };
        for engine in Engine::ALL.iter().copied() {
            let settings = Serving { engine, ..serving(512) };
            let answer = answer(&model, &settings, &devices).unwrap();
            assert!(answer.bytes_per_token.0 > 0, "{}", entry.id);
        }
        count += 1;
    }
    assert!(count > 120, "{count}");
}

#[test]
fn a_configuration_states_its_quantisation() {
    let text = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
        "hidden_size": 2048,
        "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
        "max_position_embeddings": 2048, "dtype": "float16",
        "quantization_config": {"quant_method": "METHOD", "bits": 4, "group_size": 128}}"#;
    let model = Served::read(&text.replace("METHOD", "awq"), "tiny").unwrap();
    assert_eq!(model.weights.format, Format::Awq);
    let message = Served::read(&text.replace("METHOD", "aqlm"), "tiny").unwrap_err().to_string();
    assert!(message.contains("`aqlm`, which is unknown here"), "{message}");
    assert!(Served::read("no json", "x").is_err());
}

/// A file with a text, a list and a tensor of each of two types.
#[test]
fn the_header_of_a_gguf_file_is_read() {
    fn text(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(2_u64.to_le_bytes());
    bytes.extend(6_u64.to_le_bytes());
    text(&mut bytes, "general.architecture");
    bytes.extend(8_u32.to_le_bytes());
    text(&mut bytes, "llama");
    for (key, value) in [
        ("block_count", 2_u32),
        ("attention.head_count", 8),
        ("embedding_length", 512),
        ("context_length", 4096),
    ] {
        text(&mut bytes, &format!("llama.{key}"));
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    text(&mut bytes, "tokenizer.ggml.tokens");
    bytes.extend(9_u32.to_le_bytes());
    bytes.extend(8_u32.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    text(&mut bytes, "a");
    for (name, kind) in [("blk.0.attn_q.weight", 2_u32), ("token_embd.weight", 1)] {
        text(&mut bytes, name);
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend(512_u64.to_le_bytes());
        bytes.extend(512_u64.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
    }
    for end in 0..bytes.len() {
        assert!(header(&mut &bytes[..end]).is_err(), "{end} bytes");
    }
    let header = header(&mut bytes.as_slice()).unwrap();
    assert_eq!(header.tensors[0].size, Bytes(512 * 512 / 32 * 18));
    let model = Served::gguf(header, "tiny").unwrap();
    let gpu = device::find("t4").unwrap();
    let of = |gpu_layers| {
        let settings = Serving { engine: Engine::LlamaCpp, gpu_layers, ..serving(4096) };
        answer(&model, &settings, &[gpu]).unwrap().rows.remove(0)
    };
    assert_eq!(of(None).weights, Bytes(512 * 512 / 32 * 18));
    assert_eq!(of(Some(1)).weights, Bytes::ZERO);
    assert!(answer(&model, &serving(4096), &[gpu]).is_err());
}
