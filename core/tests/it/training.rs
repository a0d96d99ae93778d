//! What trains has a backward pass, gradients and optimizer state, whatever the format and whatever is
//! adapted; where nothing is trained, the settings are refused.

use std::num::NonZeroU64;

use highwater_core::error::ErrorKind;
use highwater_core::trace::{Category, Event, Phase, Trace};
use highwater_core::{Bytes, Config, Model};

use crate::fixtures;

/// Folders of fixtures, one or more for each format, and how their files are named.
const FORMATS: &[(&str, &str)] = &[
    ("zoo/train", ".onnx.gz"),
    ("zoo/eval", ".onnx.gz"),
    ("zoo/dynamo", ".onnx.gz"),
    ("zoo/outside", ".onnx.gz"),
    ("zoo/pt2", ".pt2.gz"),
    ("models/text", ".onnxtxt"),
    ("hf_config", ".json"),
    ("safetensors", ".json.gz"),
    ("printed", ".txt"),
    ("summary", ".txt"),
    ("keras", ".json"),
    ("spec", ".yaml"),
];

/// Fixtures that are no models.
const NO_MODELS: &[&str] = &["printed/runs.txt", "hf_config/errors.txt", "keras/translator.json"];

/// Every model of a folder that opens: its name, and what is in it.
fn models(folder: &str, ending: &str) -> Vec<(String, Model)> {
    let names = fixtures::names(folder).into_iter().filter(|name| name.ends_with(ending));
    let names = names.filter(|name| !NO_MODELS.contains(&name.as_str()));
    let opened = names.map(|name| {
        let bytes = fixtures::unpack_or_read(&name);
        let bytes = if folder == "safetensors" { weights(&bytes) } else { bytes };
        let model = highwater_core::open(&mut bytes.as_slice(), &name);
        let model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, model)
    });
    opened.collect()
}

/// A safetensors file with this header.
fn weights(header: &[u8]) -> Vec<u8> {
    let length = u64::try_from(header.len()).unwrap();
    [&length.to_le_bytes(), header].concat()
}

/// SUM: what of a category is alive when the run ends.
fn left(trace: &Trace, category: Category) -> Bytes {
    let mut left = 0;
    for event in &trace.events {
        let storage = &trace.storages[event.storage().index()];
        match event {
            _ if storage.category != category => {}
            Event::Alloc(_) => left += storage.requested.0,
            Event::Free(_) => left -= storage.requested.0,
        }
    }
    Bytes(left)
}

/// COUNT: calls to the allocator in the backward pass of the last iteration.
fn backward_calls(trace: &Trace) -> usize {
    let begin = |mark: usize| trace.phases.get(mark).map_or(trace.events.len(), |mark| mark.event);
    let is_backward = |mark: &usize| {
        trace.phases[*mark].phase == Phase::Backward && trace.phases[*mark].iteration == 3
    };
    let marks = (0..trace.phases.len()).filter(is_backward);
    marks.map(|mark| begin(mark + 1) - begin(mark)).sum()
}

/// Gradients are left when a run ends, and `AdamW` keeps two tensors as large as each parameter that
/// has one; a gradient may lie in a larger storage.
#[track_caller]
fn assert_trains(name: &str, what: &str, trace: &Trace) {
    let [gradients, state] = [Category::Gradient, Category::OptimizerState].map(|c| left(trace, c));
    assert!(backward_calls(trace) > 0, "{name}, {what}: no backward");
    assert!(gradients > Bytes::ZERO, "{name}, {what}: no gradients");
    let expected = gradients..=gradients.times(2);
    assert!(
        expected.contains(&state),
        "{name}, {what}: {state} of state, {gradients} of gradients"
    );
}

/// One folder: plain training, adapters in every linear layer, and everything frozen.
fn check(folder: &str, ending: &str) {
    let models = models(folder, ending);
    assert!(!models.is_empty(), "{folder} has no model that ends in {ending}");
    let mut adapted = 0;
    for (name, model) in models {
        let plain = Config { loss: model.defaults().loss, ..Config::default() };
        assert_trains(&name, "plain", &model.trace(&plain).unwrap());
        let lora = vec!["*".to_owned()];
        let lora = Config { lora, lora_rank: NonZeroU64::MIN, ..plain.clone() };
        match model.trace(&lora) {
            Ok(trace) => {
                adapted += 1;
                assert_trains(&name, "LoRA", &trace);
                let all = left(&model.trace(&plain).unwrap(), Category::Gradient);
                assert!(left(&trace, Category::Gradient) < all, "{name}: adapters are small");
            }
            Err(error) => {
                assert_eq!(error.setting(), Some("lora"), "{name}: {error}");
                assert!(
                    error.to_string().contains("`*` matches no linear layer"),
                    "{name}: {error}"
                );
            }
        }
        let frozen = Config { freeze: vec!["*".to_owned()], ..plain };
        let error = model.trace(&frozen).map(|_| ()).expect_err(&name);
        assert_eq!(
            (error.kind(), error.setting()),
            (ErrorKind::BadConfig, Some("freeze")),
            "{name}"
        );
    }
    assert!(adapted > 0, "{folder}: no model has a linear layer");
}

#[test]
fn what_trains_has_gradients_and_optimizer_state() {
    std::thread::scope(|scope| {
        for half in [&FORMATS[..3], &FORMATS[3..]] {
            scope.spawn(|| half.iter().for_each(|(folder, ending)| check(folder, ending)));
        }
    });
}

/// `target_modules` of language models, by family: the layers that `peft` adapts by default.
#[test]
fn adapters_of_language_models_are_trained() {
    for (name, target, layers) in [
        ("hf_config/llama_1b.json", "q_proj", 16),
        ("hf_config/gpt2.json", "c_attn", 12),
        ("hf_config/bert_base.json", "query", 12),
        ("hf_config/pythia_160m.json", "query_key_value", 12),
        ("zoo/dynamo/gpt2.onnx.gz", "c_attn", 12),
        ("zoo/dynamo/llama_1b.onnx.gz", "q_proj", 16),
        ("zoo/train/llama_1b.onnx.gz", "q_proj", 16),
        ("zoo/eval/llama_1b.onnx.gz", "q_proj", 16),
        ("zoo/pt2/llama_1b.pt2.gz", "q_proj", 16),
        ("zoo/pt2/gpt2.pt2.gz", "c_attn", 12),
    ] {
        let bytes = fixtures::unpack_or_read(name);
        let model = highwater_core::open(&mut bytes.as_slice(), name).unwrap();
        let lora = vec![target.to_owned()];
        let config = Config { lora, loss: model.defaults().loss, ..Config::default() };
        let report = model.estimate(&config).unwrap();
        let about = report.diagnostics.iter().find(|diagnostic| diagnostic.code == "lora").unwrap();
        assert!(
            about.message.to_string().starts_with(&format!("{layers} linear layers")),
            "{name}: {about}"
        );
        assert_trains(name, target, &model.trace(&config).unwrap());
    }
}

/// Every kind of adapter and of weights below them, on models whose layers differ: what is left of gradients and of the
/// optimizer's state when the run ends.
#[test]
fn every_adapter_trains() {
    let settings: &[&[(&str, &str)]] = &[
        &[("lora-dropout", "true")],
        &[("lora-model-type", "true"), ("precision", "bf16")],
        &[("dora", "true")],
        &[("dora", "true"), ("lora-dropout", "true"), ("precision", "amp-bf16")],
        &[("input-require-grads", "true"), ("checkpoint", "blocks")],
        &[("quantize", "nf4"), ("precision", "bf16")],
        &[("quantize", "fp4"), ("double-quantize", "true"), ("compute-type", "bf16")],
        &[("quantize", "int8"), ("precision", "fp16"), ("checkpoint", "blocks")],
        &[("quantize", "nf4"), ("dora", "true"), ("lora-dropout", "true")],
    ];
    for name in ["hf_config/gpt2.json", "hf_config/t5_small.json", "zoo/eval/llama_1b.onnx.gz"] {
        let bytes = fixtures::unpack_or_read(name);
        let model = highwater_core::open(&mut bytes.as_slice(), name).unwrap();
        for settings in settings {
            let loss = model.defaults().loss;
            let mut config =
                Config { lora: vec!["all-linear".to_owned()], loss, ..Config::default() };
            settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
            let trace = model.trace(&config).unwrap();
            if config.input_require_grads {
                // The embeddings' result has a gradient too, and no state.
                assert!(
                    backward_calls(&trace) > 0
                        && left(&trace, Category::OptimizerState) > Bytes::ZERO
                );
            } else {
                assert_trains(name, &format!("{settings:?}"), &trace);
            }
        }
    }
}

/// Names that nothing has, and heads that the loss does not see.
#[test]
fn settings_that_train_nothing_are_refused() {
    let bytes = fixtures::read("hf_config/gpt2.json");
    let model = highwater_core::open(&mut bytes.as_slice(), "config.json").unwrap();
    for (lora, freeze, setting) in [
        (vec!["q_proj"], vec![], "lora"),
        (vec!["c_attn", "q_proj"], vec![], "lora"),
        (vec![], vec!["transformer.wte", "transformer.wpee"], "freeze"),
        (vec!["c_attn"], vec!["*"], "freeze"),
        (vec![], vec!["transformer", "lm_head"], "freeze"),
    ] {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let config = Config { lora: texts(&lora), freeze: texts(&freeze), ..Config::default() };
        let error = model.estimate(&config).map(|_| ()).expect_err(setting);
        assert_eq!(
            (error.kind(), error.setting()),
            (ErrorKind::BadConfig, Some(setting)),
            "{error}"
        );
        let missing =
            lora.iter().chain(&freeze).find(|name| matches!(**name, "q_proj" | "transformer.wpee"));
        assert!(
            missing.is_none_or(|name| error.to_string().contains(&format!("`{name}`"))),
            "{error}"
        );
    }
}

/// A setting that means nothing to a model is blamed by name, so that it can be taken back.
#[test]
fn what_is_refused_names_the_setting() {
    let bytes = fixtures::read("models/train/alexnet.onnx");
    let model = highwater_core::open(&mut bytes.as_slice(), "alexnet.onnx").unwrap();
    for (setting, value, with) in [
        ("loss", "causal-lm", None),
        ("optimizer-impl", "fused", Some(("optimizer", "rprop"))),
        ("weight-decay", "true", Some(("optimizer", "rprop"))),
        ("accumulate", "100000", None),
        ("alloc-conf", "colour:red", None),
        ("lora", "q_proj", None),
        ("quantize", "nf4", None),
        ("modules-to-save", "lm_head", Some(("lora", "*"))),
        ("input-require-grads", "true", Some(("lora", "*"))),
    ] {
        let mut config = Config::default();
        for (name, value) in [(setting, value)].into_iter().chain(with) {
            config.set(name, value).unwrap();
        }
        let error = model.estimate(&config).map(|_| ()).expect_err(setting);
        assert_eq!(error.setting(), Some(setting), "{error}");
    }
}
