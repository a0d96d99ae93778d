//! Models through `torch.compile`, against Inductor on PyTorch's own allocator.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::formats::catalogue;
use highwater_core::{Config, Model, config::Compile};

use crate::fixtures;
use crate::runs::{self, Cells, Run, median, percent, table};

/// COUNT: hundredths of a percent that a compiled peak may be off; a model that runs as it is has none.
const WORST: i64 = 300;

/// Models that the catalogue lacks: few layers, because Inductor takes long.
const OWN: &[(&str, &str)] = &[
    (
        "gpt2_4",
        r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 768}"#,
    ),
    (
        "bert_4",
        r#"{"model_type": "bert", "architectures": ["BertForMaskedLM"], "num_hidden_layers": 4, "hidden_size": 768}"#,
    ),
    (
        "llama_4",
        r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4,
            "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 2816, "vocab_size": 32000}"#,
    ),
    (
        "qwen3_4",
        r#"{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4,
            "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
            "vocab_size": 151936, "tie_word_embeddings": true}"#,
    ),
];

/// A perceptron of six layers.
const PERCEPTRON: &str = r#"
input: [N, 3072]
layers:
  - linear: 4096
  - gelu
  - dropout: 0.1
  - repeat: 4
    block: [{linear: 4096}, gelu, {dropout: 0.1}]
  - linear: 10
"#;

/// Names of the catalogue for models of the oracle's zoo.
const NAMES: &[(&str, &str)] =
    &[("distilbert", "distilbert-base-uncased"), ("qwen2_0_5b", "qwen2-0.5b")];

fn open(name: &str) -> Model {
    let own = OWN.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
    let known = NAMES.iter().find(|(zoo, _)| *zoo == name);
    let listed = known.map_or_else(|| name.replace('_', "-"), |(_, name)| (*name).to_owned());
    let listed = || Some(catalogue::find(&listed)?.configuration());
    let text = own.or_else(listed).map(String::into_bytes);
    let (bytes, file) = match text {
        Some(text) => (text, "config.json"),
        None if name == "perceptron" => (PERCEPTRON.into(), "perceptron.yaml"),
        None => (fixtures::unpack_or_read(&format!("zoo/train/{name}.onnx.gz")), "model.onnx"),
    };
    highwater_core::open(&mut bytes.as_slice(), file)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn peaks_are_those_of_inductor() {
    let mut page = "Batch, length and settings; the true peak of requested bytes in the third iteration, and of \
                    reserved bytes, each\nwith the error of ours (`=`: to the byte).\n"
        .to_owned();
    for (title, name) in [
        ("Runs by which rules were chosen", "compiled/truth.csv"),
        ("Runs that were first compared when nothing was changed any more", "compiled/unseen.csv"),
    ] {
        let (mut lines, mut off) = (String::new(), [Vec::new(), Vec::new()]);
        for cells in &table(name) {
            let is_other = |word: &str| cells["settings"].contains(word);
            if ["aot_eager", "--compile-mode"].into_iter().any(is_other) {
                continue;
            }
            compare(cells, &mut lines, &mut off);
        }
        let [requested, reserved] = off.map(|mut errors: Vec<u64>| {
            errors.sort_unstable();
            let worst = errors.last().copied().unwrap_or_default();
            format!("median {}, worst {}", percent(median(&errors)), percent(worst))
        });
        writeln!(
            page,
            "\n{title}; compiled, requested: {requested}; reserved: {reserved}\n\n{lines}"
        )
        .unwrap();
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    expect_file!["../../../tests/fixtures/compiled/errors.txt"].assert_eq(&page);
}

/// Adds a run's line, and how far its peaks are off if it is compiled.
fn compare(cells: &Cells, lines: &mut String, off: &mut [Vec<u64>; 2]) {
    let model = open(&cells["model"]);
    let defaults = Config { loss: model.defaults().loss, ..Config::default() };
    let run = Run::of(cells);
    let config = run.configuration_over(&model, &defaults).unwrap();
    let report = model.estimate(&config).unwrap();
    let truth = |what: &str| -> u64 { cells[&format!("{what}_3")].parse().unwrap() };
    let ours = [report.peak.requested.0, report.peak.reserved.0];
    let [requested, reserved] = [truth("requested"), truth("reserved")];
    let Run { model, batch, seq, settings } = &run;
    writeln!(
        lines,
        "{model} {batch} {} {settings}\n    {requested} {}, {reserved} {}",
        seq.unwrap_or_default(),
        runs::signed(ours[0], requested),
        runs::signed(ours[1], reserved),
    )
    .unwrap();
    let errors = [runs::error(ours[0], requested), runs::error(ours[1], reserved)];
    if config.compile == Compile::None {
        assert_eq!(ours[0], requested, "{run:?}");
        return;
    }
    assert!(errors[0].abs() <= WORST, "{run:?}: {} of {requested}", ours[0]);
    for (list, error) in off.iter_mut().zip(errors) {
        list.push(error.unsigned_abs());
    }
}
