//! Hugging Face configurations, against transformers' own classes in PyTorch.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::config::{Attention, Checkpoint};
use highwater_core::formats::Fidelity;
use highwater_core::formats::catalogue::{self, Entry};
use highwater_core::{Config, Error, Model};
use proptest::prelude::*;

use crate::fixtures;
use crate::runs::{self, Run, table};

/// A configuration of the fixtures, or that of an entry of torchvision's in the catalogue, by its exact name.
fn text(name: &str) -> String {
    let is_network = |entry: &Entry| entry.id == name && entry.family().starts_with("torchvision.");
    let entry = catalogue::find(name).filter(is_network);
    if let Some(entry) = entry {
        return entry.configuration();
    }
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
fn peaks_are_those_of_the_libraries() {
    let mut page = String::new();
    let (mut exact, mut count, mut worst) = (0, 0, 0);
    for cells in &table("hf_config/truth.csv") {
        let model = open(&text(&cells["model"])).unwrap();
        let suggested = model.defaults();
        let defaults =
            Config { loss: suggested.loss, freeze: suggested.freeze.clone(), ..Config::default() };
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
        writeln!(
            page,
            "{:<18} {:>2} {:>4} {:<38} {:>12} {allocated:>4} {:>12} {reserved:>4}",
            cells["model"],
            cells["batch"],
            cells["seq"],
            cells["settings"],
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

/// Modules of torchvision's networks have the names that torchvision gives them, in lists and outside.
#[test]
fn networks_have_the_names_of_torchvision() {
    for (network, expected) in [
        ("resnet50", "layer4.0.downsample.1.bias"),
        ("vgg16-bn", "features.41.weight"),
        ("mobilenet-v2", "features.18.0.weight"),
        ("mobilenet-v3-small", "features.1.block.1.fc2.bias"),
        ("efficientnet-b0", "features.7.0.block.3.0.weight"),
        ("densenet121", "features.denseblock4.denselayer16.conv2.weight"),
        ("shufflenet-v2-x1-0", "stage4.3.branch2.6.weight"),
        ("mnasnet1-0", "layers.13.0.layers.7.weight"),
        ("regnet-y-400mf", "trunk_output.block4.block4-5.f.se.fc1.weight"),
        ("convnext-tiny", "features.7.2.layer_scale"),
        ("inception-v3", "Mixed_7c.branch3x3dbl_3b.conv.weight"),
    ] {
        let model = open(&text(network)).unwrap();
        let members = &model.graph().members;
        assert!(members.iter().any(|(name, _)| name == expected), "{network}: {expected}");
    }
}

/// A class of diffusers has one head, and states it by its norm.
fn runs_in_diffusers(class: &str) {
    let norm = if class == "Transformer2DModel" { r#""norm_type": "ada_norm_zero", "# } else { "" };
    let sizes =
        r#""block_out_channels": [32, 64, 64, 64], "attention_head_dim": 8, "sample_size": 16"#;
    let text = format!(r#"{{"_class_name": "{class}", {norm}{sizes}}}"#);
    assert!(open(&text).unwrap().trace(&Config::default()).is_ok(), "{class}");
}

/// A file of a family that breaks the grammar, or runs into a mistake, is told by its name and line.
#[test]
fn every_family_runs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/formats/src/formats/hf_config/families");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let head = text.lines().find_map(|line| line.strip_prefix("family(\"")?.split_once('"'));
        let Some((family, rest)) = head else { continue };
        if family.ends_with("2DModel") {
            runs_in_diffusers(family);
            count += 1;
            continue;
        }
        // The only class of a family of torchvision's, whose settings all have defaults.
        let own = rest.split_once("model=\"").and_then(|(_, rest)| rest.split('"').next());
        let sizes = r#""hidden_size": 64, "d_model": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 64, "vocab_size": 100, "rotary_dim": 8, "head_dim": 16, "d_kv": 16, "encoder_attention_heads": 4,
            "num_key_value_heads": 4, "relative_attention": true, "pos_att_type": "c2p|p2c", "conv_kernel_size": 3,
            "decoder_attention_heads": 4, "embed_dim": 24, "hidden_sizes": [16, 32], "depths": [1, 2],
            "num_heads": [3, 6], "text_config": {}, "vision_config": {}"#;
        let sizes = if family == "swin" { sizes } else { &sizes.replace("[3, 6]", "4") };
        let heads = match family {
            "swin" => "",
            "segformer" => r#""num_encoder_blocks": 2, "num_attention_heads": [1, 2],"#,
            _ => r#""num_attention_heads": 4,"#,
        };
        let sizes = &sizes.replace(r#""num_attention_heads": 4,"#, heads);
        let sizes = if own.is_some() { r#""num_classes": 10"# } else { sizes };
        // Classes are called after their family: `Gemma3ForCausalLM` is of `gemma3_text`.
        let class_name = family.replace(['_', '-'], "");
        let stem = ["model", "text"].iter().find_map(|end| class_name.strip_suffix(end));
        let stem = stem.unwrap_or(&class_name).replacen("clip", "CLIP", 1);
        let mut answered = 0;
        count += 1;
        for attention in ["sdpa", "eager"] {
            for class in [
                "",
                "Model",
                "ModelWithProjection",
                "ForCausalLM",
                "ForMaskedLM",
                "ForConditionalGeneration",
                "ForSequenceClassification",
                "ForTokenClassification",
                "ForQuestionAnswering",
                "ForImageClassification",
                "ForSemanticSegmentation",
            ] {
                let class = match own {
                    Some(own) if class.is_empty() => own.to_owned(),
                    _ => format!("{stem}{class}"),
                };
                let text = format!(
                    r#"{{"model_type": "{family}", "architectures": ["{class}"], "_attn_implementation": "{attention}", {sizes}}}"#
                );
                match open(&text) {
                    Ok(model) => {
                        answered += 1;
                        assert!(model.trace(&Config::default()).is_ok(), "{family} {class}");
                    }
                    // A head that the family has not is refused, and that is all.
                    Err(error) => assert!(
                        error.to_string().contains("architectures"),
                        "{family} {class}: {error}"
                    ),
                }
            }
        }
        assert!(answered >= 2, "{family}: {answered} answered");
    }
    assert_eq!(count, 92);
}

/// An attention that is asked for goes before that of the file, and is said where it cannot be.
#[test]
fn attention_is_a_setting() {
    let small =
        r#""hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100"#;
    let peak = |text: &str, attention| {
        let model = open(text).unwrap();
        let config = Config { attention, loss: model.defaults().loss, ..Config::default() };
        let report = model.estimate(&config).unwrap();
        let codes: Vec<_> =
            report.diagnostics.iter().map(|diagnostic| diagnostic.code.clone()).collect();
        (report.peak.allocated, codes)
    };
    let plain = format!(r#"{{"model_type": "gpt2", {small}}}"#);
    let eager = format!(r#"{{"model_type": "gpt2", "_attn_implementation": "eager", {small}}}"#);
    let (fused, _) = peak(&plain, Attention::Auto);
    let (spelled, _) = peak(&eager, Attention::Auto);
    assert!(spelled > fused);
    assert_eq!(peak(&plain, Attention::Eager).0, spelled);
    assert_eq!(peak(&eager, Attention::Sdpa).0, fused);
    let said = |(_, codes): (_, Vec<String>), code: &str| codes.iter().any(|said| said == code);
    assert!(said(peak(&plain, Attention::Flash), "attention-setting"));
    let bloom = format!(r#"{{"model_type": "bloom", {small}}}"#);
    assert!(said(peak(&bloom, Attention::Sdpa), "attention-setting"));
    assert!(!said(peak(&bloom, Attention::Auto), "attention-setting"));
}

/// transformers' own classes of some families refuse to checkpoint their blocks.
#[test]
fn checkpoints_that_transformers_refuses_are_reported() {
    for (family, is_refused) in [("convnext", true), ("resnet", true), ("swin", false)] {
        let model = open(&format!(
            r#"{{"model_type": "{family}", "hidden_sizes": [16, 32, 64, 128], "embed_dim": 24}}"#
        ));
        let model = model.unwrap();
        let said = |checkpoint| {
            let config = Config { checkpoint, ..model.defaults().clone() };
            let found = model.estimate(&config).unwrap().diagnostics;
            found.iter().any(|one| one.code == "checkpoint-setting")
        };
        assert_eq!(said(Checkpoint::Blocks), is_refused, "{family}");
        assert!(!said(Checkpoint::None), "{family}");
    }
}

/// Of a model for pictures and text, the part for text is estimated, and that is said.
#[test]
fn the_part_for_text_is_estimated() {
    let part = r#"{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "vocab_size": 100}"#;
    let whole = format!(
        r#"{{"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": {part}}}"#
    );
    let peak = |text: &str| {
        let model = open(text).unwrap();
        let config = Config { loss: model.defaults().loss, ..Config::default() };
        let report = model.estimate(&config).unwrap();
        (report.peak.allocated, report.lower_bound)
    };
    assert_eq!(peak(part), (peak(&whole).0, false));
    assert!(peak(&whole).1);
}

#[test]
fn what_is_not_known_is_refused() {
    for (text, expected) in [
        (
            r#"{"model_type": "mamba", "state_size": 16}"#,
            "`mamba`, whose operators are not supported",
        ),
        (
            r#"{"model_type": "internlm", "rms_norm_eps": 1, "hidden_act": "silu", "num_key_value_heads": 8}"#,
            "its keys are most like those of llama, whose operators are not its own",
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
            r#"{"model_type": "llava", "text_config": {"model_type": "mamba", "hidden_size": 64}}"#,
            "neither of which is known",
        ),
        (
            r#"{"model_type": "torchvision.resnet", "architectures": ["VGG"]}"#,
            "no class of the family `torchvision.resnet` in torchvision",
        ),
        (
            r#"{"model_type": "torchvision.resnet", "layers": [3, 4]}"#,
            "for each of the four stages",
        ),
        (r#"{"model_type": "torchvision.vgg", "convolutions": [1, 1, 1, 1, 9]}"#, "at most 8"),
        (
            r#"{"model_type": "mixtral", "hidden_size": 64, "num_local_experts": 1}"#,
            "fewer experts",
        ),
        // Layers of another kind, under the name of a family that does not have them.
        (
            r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "mamba_d_state": 16}"#,
            "no state-space layers here",
        ),
        (
            r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "conv_L_cache": 3}"#,
            "no layers of short convolutions here",
        ),
        (
            r#"{"model_type": "qwen3", "hidden_size": 64, "linear_num_value_heads": 4}"#,
            "no linear attention here",
        ),
        (
            r#"{"model_type": "mixtral", "hidden_size": 64, "layers_block_type": ["attention", "mamba"]}"#,
            "layers of one kind here",
        ),
        (
            r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "layer_types": ["full_attention", "conv"]}"#,
            "layers of the kind `conv` are not supported",
        ),
        (
            r#"{"model_type": "olmo3", "hidden_size": 64, "num_attention_heads": 2, "layer_types": ["full_attention"]}"#,
            "more layers than kinds",
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

/// Every key is read, without effect, a warning, or a refusal.
#[test]
fn no_key_is_dropped_in_silence() {
    let small = r#""model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2"#;
    let diagnostics = |text: &str| {
        let model = open(text).unwrap();
        let config = Config { loss: model.defaults().loss, ..Config::default() };
        let found = model.estimate(&config).unwrap().diagnostics;
        let said = found.iter().map(|found| format!("{} {}", found.severity.name(), found.message));
        said.collect::<Vec<_>>().join("\n")
    };
    for (key, expected) in [
        (
            r#""rope_theta": 1e6, "bos_token_id": 1, "transformers_version": "5.23""#,
            "info keys without effect on memory are ignored: rope_theta, bos_token_id, transformers_version",
        ),
        (
            r#""num_key_value_head": 1"#,
            "warning `num_key_value_head` of the configuration is unknown for this family, and ignored; did you mean `num_key_value_heads`?",
        ),
        (r#""loop_count": 8"#, "warning `loop_count` of the configuration is unknown"),
        (r#""loop_count": 0"#, "info keys without effect on memory are ignored: loop_count"),
        (
            r#""auto_map": {"AutoModel": "x.LlamaModel"}"#,
            "warning `auto_map` of the configuration is not followed",
        ),
        (r#""output_attentions": true"#, "warning `output_attentions`"),
        (r#""num_experts": 0"#, "info keys without effect"),
        (r#""mamba_d_state": 0"#, "info keys without effect"),
        (r#""layer_types": ["full_attention", "sliding_attention"]"#, "info keys without effect"),
    ] {
        let said = diagnostics(&format!("{{{small}, {key}}}"));
        assert!(said.contains(expected), "{key}: {said}");
    }
    let plain = diagnostics(&format!("{{{small}}}"));
    assert!(!plain.contains("ignored"), "{plain}");
    for (file, expected) in [
        ("c1b_moe_64x_remote_code", "`LlamaMoEForCausalLM` is no class of the family `llama`"),
        ("c5_llama_typo", "`n_routed_experts` is"),
        ("c6_llama_vision", "`vision_config` is"),
        ("c7_llama_loop", "`num_nextn_predict_layers` is"),
        ("b23_quant", "`quantization_config` is"),
    ] {
        let text = fixtures::read(&format!("robustness/{file}.json"));
        let error =
            open(&String::from_utf8(text).unwrap()).map(|_| ()).expect_err(file).to_string();
        assert!(error.contains(expected), "{file}: {error}");
    }
}

/// Keys of the recorded configurations are all known.
#[test]
fn recorded_configurations_have_no_unread_keys() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hf_config");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let model = open(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let unread = model.graph().diagnostics.iter().find(|found| found.code == "unread-key");
        assert_eq!(unread, None, "{}", path.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands for a number: an answer or a refusal.
    #[test]
    fn any_number_is_answered(which in 0_usize..12, key in 0_usize..6, value in -1_i64..5000) {
        let family = ["gpt2", "llama", "bert", "vit", "t5", "gpt_neox", "gemma3_text", "albert", "falcon", "bloom", "gptj", "mixtral"][which];
        let keys = ["hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "intermediate_size"];
        let text = format!(r#"{{"model_type": "{family}", "num_hidden_layers": 1, "d_model": 64, "{}": {value}}}"#, keys[key]);
        if let Ok(model) = open(&text) {
            let config = Config { loss: model.defaults().loss, ..Config::default() };
            let _answer = model.estimate(&config);
        }
    }
}
