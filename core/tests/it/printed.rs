//! Models as text: prints, tables of torchinfo and torchsummary, and Keras. What is read of them, what is
//! refused and how, and how near the answer is to PyTorch's for the model that was printed.

use std::fmt::Write as _;

use expect_test::{Expect, expect, expect_file};
use highwater_core::formats::{self, spec};
use highwater_core::{Config, Model};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::fixtures;
use crate::runs::{Run, signed, table};

/// `print(model)` of models of the zoo: `tests/fixtures/printed/NAME.txt`.
const PRINTS: &[&str] = &[
    "alexnet",
    "bert_base",
    "convnext_tiny",
    "deit_small",
    "densenet121",
    "distilbert",
    "efficientnet_b0",
    "googlenet",
    "gpt2",
    "inception_v3",
    "llama_1b",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "opt_125m",
    "pythia_160m",
    "qwen2_0_5b",
    "qwen3_0_6b",
    "regnet_y_400mf",
    "resnet50",
    "roberta_base",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "swin_t",
    "vgg16",
    "vit_b_16",
];

/// `summary(model, …)` of them: `tests/fixtures/summary/NAME.txt`.
const SUMMARIES: &[&str] = &[
    "alexnet.torchinfo",
    "alexnet.torchsummary",
    "mobilenet_v2.torchinfo",
    "resnet18.torchinfo",
    "resnet50.torchinfo",
    "resnet50.torchsummary",
    "vgg16.torchinfo",
    "vgg16.torchsummary",
];

fn open(text: &[u8]) -> Result<Model, String> {
    let mut text = text;
    highwater_core::open(&mut text, "model.txt").map_err(|error| error.to_string())
}

/// Parameters, and the peak of the second iteration with AdamW, against PyTorch's own.
fn compared(folder: &str, names: &[&str]) -> String {
    let truth = table("oracle/results.csv");
    let mut lines = format!(
        "{:<24}{:>6}{:>14}{:>10}{:>12}  grade\n",
        "model", "batch", "parameters", "read", "allocated"
    );
    for name in names {
        let text = fixtures::read(&format!("{folder}/{name}.txt"));
        let model = match open(&text) {
            Ok(model) => model,
            Err(error) => {
                writeln!(lines, "{name:<24}{error}").unwrap();
                continue;
            }
        };
        let known = name.split('.').next().unwrap();
        let is_run = |cells: &&_| {
            let cells: &crate::runs::Cells = cells;
            cells["model"] == known && cells["settings"].is_empty()
        };
        let cells = truth.iter().find(is_run).unwrap();
        let config = Run::of(cells).configuration_over(&model, &Config::default()).unwrap();
        let report = model.estimate(&config).unwrap();
        let parameters: u64 = cells["parameters"].parse().unwrap();
        let allocated: u64 = cells["allocated_2"].parse().unwrap();
        writeln!(
            lines,
            "{name:<24}{:>6}{parameters:>14}{:>10}{:>12}  {}",
            cells["batch"],
            signed(report.model.parameters, parameters),
            signed(report.iterations[1].allocated.0, allocated),
            model.recognised().fidelity.name(),
        )
        .unwrap();
        let again = spec::read(&model.spec().unwrap().to_string()).and_then(|spec| spec.lower());
        assert!(again.is_ok(), "{name}: {again:?}");
    }
    lines
}

#[test]
fn prints_are_near_the_models_that_they_were_made_of() {
    expect_file!["printed.txt"].assert_eq(&compared("printed", PRINTS));
}

#[test]
fn tables_are_near_the_models_that_they_were_made_of() {
    expect_file!["summary.txt"].assert_eq(&compared("summary", SUMMARIES));
}

/// What is read of a text: its format, its spec, and what had to be assumed.
fn shown(text: &str) -> String {
    match formats::open(&mut text.as_bytes(), "model.txt") {
        Err(error) => format!("{error}\n"),
        Ok(opened) => {
            let mut shown = format!("# {}\n{}", opened.recognised.format, opened.spec.unwrap());
            for diagnostic in &opened.graph.diagnostics {
                writeln!(shown, "{diagnostic}").unwrap();
            }
            shown
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `expect!` makes it")]
fn check(text: &str, expected: Expect) {
    expected.assert_eq(&shown(text));
}

/// What is not known is taken in order, and where it flattens and pools follows from sizes.
#[test]
fn unknown_classes_are_taken_in_order() {
    check(
        "Python 3.11
>>> print(net)
DataParallel(
(module): Net(
(conv1): Conv2d(3, 6, kernel_size=(5, 5), stride=(1, 1)), 456 params
(pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
(conv2): Conv2d(6, 16, kernel_size=(5, 5), stride=(1, 1))
(blocks): ModuleList(
(0-1): 2 x Sequential( (0): Conv2d(16, 16, kernel_size=(1, 1), stride=(1, 1), bias=False) (1): ReLU() )
)
(fc1): Linear(in_features=400, out_features=120, bias=True)
(fc2): Linear(in_features=120, out_features=10, bias=True)
))
>>> ",
        expect![[]],
    );
}

#[test]
fn what_does_not_fit_is_said() {
    check(
        "Odd(
  (a): Linear(in_features=8, out_features=16, bias=True)
  (b): Linear(in_features=32, out_features=4, bias=False)
  (c): MyLayer()
  (rnn): LSTM(4, 8, batch_first=True)
)",
        expect![[]],
    );
}

#[test]
fn texts_that_break_off_are_told_with_their_line() {
    check("Net(\n  (a): ReLU()\n  (b): Sequential(\n    (0): Linear(", expect![[]]);
    check("Net(\n  (a): Linear(in_features=2, out_features=3)\n  (b): \n)", expect![[]]);
    check("Net(\n  (a): Linear(in_features=2, out_features=-3)\n)", expect![[]]);
    check("Net(\n  (a): ReLU()\n)", expect![[]]);
}

#[test]
fn keras_is_read_as_pytorch_would_run_it() {
    for (name, expected) in [("mnist_keras2", expect![[]]), ("residual_keras3", expect![[]])] {
        check(&String::from_utf8(fixtures::read(&format!("keras/{name}.json"))).unwrap(), expected);
    }
}

#[test]
fn keras_layers_that_are_not_known_are_named() {
    let model = |layer: &str| {
        format!(
            "{{\"class_name\": \"Sequential\", \"config\": {{\"name\": \"s\", \"layers\": [\n\
             {{\"class_name\": \"InputLayer\", \"config\": {{\"batch_shape\": [null, 8, 8, 3]}}}},\n\
             {layer}]}}}}"
        )
    };
    check(
        &model("{\"class_name\": \"Lambda\", \"config\": {\"name\": \"l\", \"function\": \"x\"}}"),
        expect![[]],
    );
    check(&model("{\"class_name\": \"Mystery\", \"config\": {\"name\": \"m\"}}"), expect![[]]);
    check(
        &model("{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": 0}}"),
        expect![[]],
    );
}

/// Nothing in a text makes the reader panic, and what it reads can be estimated or is refused.
#[test]
fn damaged_texts_are_read_or_refused() {
    let texts: Vec<String> = [
        "printed/resnet50.txt",
        "printed/gpt2.txt",
        "printed/densenet121.txt",
        "summary/resnet50.torchsummary.txt",
        "summary/mobilenet_v2.torchinfo.txt",
        "keras/mnist_keras2.json",
        "keras/residual_keras3.json",
    ]
    .iter()
    .map(|name| {
        let text = String::from_utf8(fixtures::read(name)).unwrap();
        text.chars().take(6000).collect()
    })
    .collect();
    let config = ProptestConfig {
        cases: 150,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let damage = (
        0..texts.len(),
        prop::collection::vec(
            (any::<prop::sample::Index>(), "[0-9(){},:\\[\\] a-zA-Z_=\"\\n-]{0,3}"),
            1..6,
        ),
    );
    proptest!(config, |((which, changes) in damage)| {
        let mut text: Vec<char> = texts[which].chars().collect();
        for (at, new) in changes {
            let at = at.index(text.len());
            let until = (at + 2).min(text.len());
            text.splice(at..until, new.chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(opened) = formats::open(&mut text.as_bytes(), "") {
            prop_assert!(!opened.graph.nodes.is_empty());
        }
    });
}

/// Depth and size are bounded.
#[test]
fn absurd_texts_are_refused() {
    let deep = "Net(\n".to_owned() + &"(a): Sequential(".repeat(5000);
    assert!(open(deep.as_bytes()).is_err());
    let many = "Net(\n".to_owned() + &"(a): ReLU()\n".repeat(80_000) + ")";
    assert!(open(many.as_bytes()).is_err());
    let count = "Net(\n(0-9): 999999999999 x Linear(in_features=2, out_features=2)\n)";
    assert!(open(count.as_bytes()).is_err());
}
