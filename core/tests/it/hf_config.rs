//! Hugging Face configurations, against transformers' own classes in PyTorch.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::formats::Fidelity;
use highwater_core::{Config, Error, Model};
use proptest::prelude::*;

use crate::fixtures;
use crate::runs::{self, Run, table};

fn text(name: &str) -> String {
    String::from_utf8(fixtures::read(&format!("hf_config/{name}.json"))).unwrap()
}

fn open(text: &str) -> Result<Model, Error> {
    highwater_core::open(&mut text.as_bytes(), "config.json")
}

/// A configuration with one more key.
fn with(name: &str, key: &str, value: &str) -> String {
    text(name).replacen('{', &format!("{{\"{key}\": \"{value}\","), 1)
}

/// Every family that was recorded, with what is predicted for it.
#[test]
fn peaks_are_those_of_transformers() {
    let mut page = String::new();
    let (mut exact, mut count, mut worst) = (0, 0, 0);
    let tables = ["truth", "eager"].map(|name| (name, table(&format!("hf_config/{name}.csv"))));
    for (name, cells) in
        tables.iter().flat_map(|(name, rows)| rows.iter().map(move |row| (*name, row)))
    {
        let eager = name == "eager";
        let config_text = if eager {
            with(&cells["model"], "_attn_implementation", "eager")
        } else {
            text(&cells["model"])
        };
        let model = open(&config_text).unwrap();
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let config = Run::of(cells).configuration_over(&model, &defaults).unwrap();
        let report = model.estimate(&config).unwrap();
        assert_eq!(report.model.parameters.to_string(), cells["parameters"], "{}", cells["model"]);
        assert!(!report.lower_bound, "{}", cells["model"]);
        let truth = |what: &str| -> u64 {
            (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max().unwrap()
        };
        let allocated = runs::error(report.peak.allocated.0, truth("allocated"));
        let reserved = runs::error(report.peak.reserved.0, truth("reserved"));
        exact += usize::from(report.peak.allocated.0 == truth("allocated"));
        worst = worst.max(allocated.abs());
        count += 1;
        let settings = if eager { "(attention spelled out)" } else { &cells["settings"] };
        writeln!(
            page,
            "{:<17} {:>2} {:>4} {settings:<26} {:>12} {allocated:>4} {:>12} {reserved:>4}",
            cells["model"],
            cells["batch"],
            cells["seq"],
            truth("allocated"),
            truth("reserved"),
        )
        .unwrap();
    }
    let head = "Configurations: batch, length, settings, true allocated and reserved bytes, and the\n\
                errors of ours in hundredths of a percent.\n";
    expect_file!["../../../tests/fixtures/hf_config/errors.txt"]
        .assert_eq(&format!("{head}\n{page}"));
    assert!(4 * exact >= 3 * count, "{exact} of {count} to the byte");
    assert!(worst <= 100, "{worst} hundredths of a percent");
}

#[test]
fn a_configuration_suggests_settings() {
    let model = open(&with("gpt2", "torch_dtype", "bfloat16")).unwrap();
    assert_eq!(model.recognised().fidelity, Fidelity::Template);
    assert_eq!(model.recognised().format, "Hugging Face configuration");
    assert_eq!(model.defaults().precision.to_string(), "bf16");
    assert_eq!(model.defaults().loss.to_string(), "causal-lm");
    let dims: Vec<_> = model.open_dims().into_iter().map(|dim| (dim.name, dim.default)).collect();
    assert_eq!(dims, [("batch".to_owned(), 8), ("seq".to_owned(), 512)]);
}

/// Names of today and of older configurations, `architectures` alone, and heads.
#[test]
fn families_are_found() {
    let parameters = |text: &str| {
        let model = open(text).unwrap();
        let config = Config { loss: model.defaults().loss, ..Config::default() };
        model.estimate(&config).unwrap().model.parameters
    };
    let small = r#""n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 100"#;
    let same =
        r#""hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100"#;
    let expected = parameters(&format!(r#"{{"model_type": "gpt2", {small}}}"#));
    assert_eq!(parameters(&format!(r#"{{"model_type": "gpt2", {same}}}"#)), expected);
    assert_eq!(
        parameters(&format!(r#"{{"architectures": ["GPT2LMHeadModel"], {small}}}"#)),
        expected
    );
    let bert = r#""model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2"#;
    for (class, head) in
        [("BertModel", 64 * 65), ("BertForSequenceClassification", 64 * 65 + 2 * 65)]
    {
        let body =
            parameters(&format!(r#"{{"architectures": ["BertForTokenClassification"], {bert}}}"#))
                - 2 * 65;
        assert_eq!(
            parameters(&format!(r#"{{"architectures": ["{class}"], {bert}}}"#)),
            body + head,
            "{class}"
        );
    }
}

#[test]
fn what_is_not_known_is_refused() {
    for (text, expected) in [
        (
            r#"{"model_type": "mamba", "state_size": 16}"#,
            "`mamba`, whose operators are not known here",
        ),
        (
            r#"{"model_type": "stablelm", "rms_norm_eps": 1, "hidden_act": "silu", "num_key_value_heads": 8}"#,
            "llama is the nearest",
        ),
        (r#"{"model_type": "gpt2", "n_embd": 768, "n_head": 7}"#, "7 does not divide 768"),
        (r#"{"model_type": "gpt2", "n_embd": 768, "n_layer": 100000}"#, "more than 1024"),
        (r#"{"model_type": "gpt2", "n_embd": "wide"}"#, "`n_embd` is the text `wide`"),
        (
            r#"{"model_type": "gpt2", "n_embd": 768, "activation_function": "snake"}"#,
            "known are gelu",
        ),
        (r#"{"model_type": "llama", "layers": 12}"#, "states no width"),
        (
            r#"{"model_type": "bert", "hidden_size": 64, "architectures": ["BertForNextSentencePrediction"]}"#,
            "head",
        ),
        (
            r#"{"model_type": "bert", "hidden_size": 64, "_attn_implementation": "flex_attention"}"#,
            "known are eager",
        ),
    ] {
        let error = open(text).map(|_| ()).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands for a number: an answer or a refusal.
    #[test]
    fn any_number_is_answered(which in 0_usize..8, key in 0_usize..6, value in -1_i64..5000) {
        let family = ["gpt2", "llama", "bert", "vit", "t5", "gpt_neox", "gemma3_text", "albert"][which];
        let keys = ["hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "intermediate_size"];
        let text = format!(r#"{{"model_type": "{family}", "num_hidden_layers": 1, "d_model": 64, "{}": {value}}}"#, keys[key]);
        if let Ok(model) = open(&text) {
            let config = Config { loss: model.defaults().loss, ..Config::default() };
            let _answer = model.estimate(&config);
        }
    }
}
