//! Layer specs: what they say, what is refused and how, and PyTorch's memory for the modules that
//! they stand for.

use std::collections::BTreeMap;

use expect_test::expect_file;
use highwater_core::diagnostic::Diagnostics;
use highwater_core::formats::spec::{self, Body, Input, Join, Layer, Module, Spec, kinds};
use highwater_core::formats::{self, Fidelity};
use highwater_core::graph::Dim;
use highwater_core::trace::{Event, Trace};
use highwater_core::{Config, Error, Model, infer};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::fixtures;
use crate::runs::{Run, table};

/// Specs of which `spec/truth.csv` has runs.
fn model(name: &str) -> Model {
    let text = fixtures::read(&format!("spec/{name}.yaml"));
    highwater_core::open(&mut text.as_slice(), name).unwrap()
}

fn read(text: &str) -> Result<Spec, Error> {
    spec::read(text).and_then(|spec| spec.lower().map(|_| spec))
}

/// Every peak of every iteration is PyTorch's to the byte. Where convolutions take a workspace, which
/// is predicted and not known, what is requested beside them is.
#[test]
fn peaks_are_those_of_the_modules_written_by_hand() {
    let without: BTreeMap<(String, String, String), Vec<u64>> = table("spec/workspaces.csv")
        .into_iter()
        .map(|cells| {
            let key = (cells["model"].clone(), cells["batch"].clone(), cells["settings"].clone());
            (key, (1..=3).map(|n| cells[&format!("requested_{n}")].parse().unwrap()).collect())
        })
        .collect();
    let rows = table("spec/truth.csv");
    assert!(rows.len() >= 16, "{} rows", rows.len());
    for cells in rows {
        let name = format!("{} {} {}", cells["model"], cells["batch"], cells["settings"]);
        let model = model(&cells["model"]);
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let config = Run::of(&cells).configuration_over(&model, &defaults).unwrap();
        let key = (cells["model"].clone(), cells["batch"].clone(), cells["settings"].clone());
        if let Some(truth) = without.get(&key) {
            assert_eq!(
                requested_beside_workspaces(&model.trace(&config).unwrap()),
                *truth,
                "{name}"
            );
            continue;
        }
        let report = model.estimate(&config).unwrap();
        let ours = report.iterations.iter().enumerate().flat_map(|(index, peaks)| {
            let n = index + 1;
            [
                ("requested", peaks.requested),
                ("allocated", peaks.allocated),
                ("reserved", peaks.reserved),
            ]
            .map(|(what, bytes)| (format!("{what}_{n}"), bytes.0.to_string()))
        });
        for (what, bytes) in ours {
            assert_eq!(bytes, cells[&what], "{name}: {what}");
        }
        assert_eq!(report.model.parameters.to_string(), cells["parameters"], "{name}");
        assert!(!report.lower_bound, "{name}");
    }
}

/// Peaks of the iterations, workspaces of convolutions left out.
fn requested_beside_workspaces(trace: &Trace) -> Vec<u64> {
    let trace = trace.without(|storage| trace.is_convolution_workspace(storage));
    let (mut current, mut peaks) = (0, vec![0; 4]);
    for (index, event) in trace.events.iter().enumerate() {
        match event {
            Event::Alloc(id) => current += trace.storages[id.index()].requested.0,
            Event::Free(id) => current -= trace.storages[id.index()].requested.0,
        }
        let iteration = trace.phase_at(index).map_or(0, |mark| mark.iteration);
        peaks[iteration] = peaks[iteration].max(current);
    }
    peaks.split_off(1)
}

#[test]
fn short_and_long_names_are_one_language() {
    let short = "
input: [N, 3, 32, 32]
layers:
  - conv2d: {out: 8, k: 3, s: 2, p: 1, bias: false}
  - batchnorm
  - relu: {inplace: true}
  - flatten
  - linear: 10
train: {optimizer: sgd, loss: cross_entropy}";
    let long = r#"{
  "inputs": {"x": {"shape": ["N", 3, 32, 32], "dtype": "float32"}},
  "layers": [
    {"nn.Conv2d": {"out_channels": 8, "kernel_size": [3, 3], "stride": 2, "padding": [1, 1], "bias": false}},
    "BatchNorm2d",
    {"ReLU": {"inplace": true}},
    {"Flatten": {"start_dim": 1}},
    {"Linear": {"out_features": 10}}
  ],
  "loss": "cross-entropy",
  "train": {"optimizer": "sgd"}
}"#;
    let toml = r#"
# The same once more.
layers = [
  {conv2d = {out = 8, k = 3, s = 2, p = 1, bias = false}},
  "batch_norm2d",
  {relu.inplace = true},
  "flatten",
  {linear = 10},
]

[input]
x = ["N", 3, 32, 32]

[train]
optimizer = "sgd"
loss = "cross-entropy"
"#;
    let lowered = |text: &str| {
        let opened = formats::open(&mut text.as_bytes(), "").unwrap();
        assert_eq!(opened.recognised.fidelity, Fidelity::ExactGraph);
        assert_eq!(opened.recognised.format, "layer spec");
        (format!("{:?}", opened.graph), opened.defaults)
    };
    let expected = lowered(short);
    assert_eq!(lowered(long), expected);
    assert_eq!(lowered(toml), expected);
}

#[test]
fn what_is_written_is_read_again() {
    for name in ["mlp", "resnet", "unet", "gpt", "llama", "vit", "inception", "eager"] {
        let model = model(name);
        let text = fixtures::read(&format!("spec/{name}.yaml"));
        let spec = spec::read(std::str::from_utf8(&text).unwrap()).unwrap();
        assert_eq!(model.spec(), Some(spec.to_string().as_str()));
        let again = spec::read(&spec.to_string()).unwrap_or_else(|e| panic!("{name}: {e}\n{spec}"));
        assert_eq!(again.train, spec.train, "{name}");
        assert_eq!(format!("{:?}", again.lower()), format!("{:?}", spec.lower()), "{name}\n{spec}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of mistakes")]
fn mistakes_are_told_with_their_place() {
    let body = |layers: &str| format!("input: [N, 3, 32, 32]\nlayers:\n{layers}");
    for (text, expected) in [
        (body("  - conv2d: {out: 8, k: 3\n"), "line 4, column 1: the text breaks off as YAML"),
        (
            body("  - convd: 8"),
            "line 3, column 5: there is no layer `convd`; did you mean `conv1d`?",
        ),
        (
            body("  - conv2d: {outs: 8, k: 3}"),
            "line 3, column 14: `conv2d` has no argument `outs`: it takes out_channels",
        ),
        (
            body("  - conv2d: {in_channels: 3}"),
            "sizes of what comes in follow from the layer before",
        ),
        (
            body("  - conv2d: 8"),
            "line 3, column 5: `conv2d` needs `kernel_size`: size of the window",
        ),
        (
            body("  - conv2d: {out: 8, k: 64}"),
            "line 3, column 5: a window of 64 does not fit into [?, 3, 32, 32]",
        ),
        (
            body("  - conv2d: {out: many, k: 3}"),
            "line 3, column 19: `out_channels` is a whole number from 1, not the text `many`",
        ),
        (
            body("  - linear: 0"),
            "line 3, column 13: `out_features` is a whole number from 1, not the number 0",
        ),
        (body("  - relu: 3"), "line 3, column 11: `inplace` is true or false, not the number 3"),
        (
            body("  - flatten\n  - conv2d: [8, 3]"),
            "line 4, column 5: `conv2d` reads [N, C, H, W], and what comes in is [?, 3072]",
        ),
        (
            body("  - conv2d: {out: 8, k: 3}\n    relu:"),
            "line 4, column 5: `conv2d` and `relu` stand in one entry; begin each layer with a `-`",
        ),
        (
            body("  - conv2d:\n    out: 8"),
            "line 4, column 5: `out` belongs into the layer: `conv2d: {out_channels: …}`",
        ),
        (
            body("  - residual: [conv2d: [8, 3]]"),
            "do not fit each other; give the residual a `shortcut`",
        ),
        (
            body("  - repeat: 2"),
            "line 3, column 5: `repeat` needs a `block`: the layers that repeat",
        ),
        (
            body("  - repeat: 2000000\n    block: [relu]"),
            "the spec expands to more than 100000 layers",
        ),
        (
            body("  - repeat: 4000000000\n    block: []"),
            "the spec expands to more than 100000 layers",
        ),
        (body("  - concat: skip"), "line 3, column 5: nothing before this is called `skip`"),
        (body("  - {name: stem, relu: }\n  - concat: stm"), "`stm`; did you mean `stem`?"),
        (
            body("  - {name: a, relu: }\n  - {name: a, relu: }"),
            "line 4, column 15: two layers are called `a`",
        ),
        (body("  - &a relu\n  - *a"), "line 4, column 5: aliases (`*name`) are not read here"),
        (
            body("  - attention: 4"),
            "`attention` reads a sequence [N, L, C], and what comes in is [?, 3, 32, 32]",
        ),
        (body("  - linear: 4\n    dim: 3"), "`linear` and `dim` stand in one entry"),
        ("layers: [relu]".to_owned(), "the spec has no input; write `input: [N, 3, 224, 224]`"),
        ("input: [N, 8]\nlayers: []".to_owned(), "the spec has no layers"),
        ("input: [N, 8]\nlayers: [identity]".to_owned(), "no layer of the spec computes anything"),
        (
            "input: [N, 3, H, W]\nlayers: [flatten, linear: 10]".to_owned(),
            "line 2, column 19: the number of features that come in is unknown, because it follows from an open dimension",
        ),
        (
            "input: [N, 8]\nlayer: [relu]\nlayers: []".to_owned(),
            "line 2, column 1: a spec has no key `layer`; did you mean `layers`?",
        ),
        (
            "input: [N, 8]\nlayers: [relu]\ntrain: {optimiser: adam}".to_owned(),
            "line 3, column 9: `train` has no setting `optimiser`; did you mean `optimizer`?",
        ),
        (
            "input: [N, 8]\nlayers: [relu]\ntrain: {optimizer: adamm}".to_owned(),
            "line 3, column 20: `optimizer`: `adamm` is none of sgd",
        ),
        (
            "input: [N, 8]\nlayers: [relu]\nlayers: [relu]".to_owned(),
            "line 3, column 1: the key `layers` appears a second time",
        ),
        (
            "highwater: 2\ninput: [N, 8]\nlayers: [relu]".to_owned(),
            "line 1, column 12: the number 2 is no version of the language; write 1",
        ),
        ("{\"input\": [8, 8], \"layers\": [\"relu\",}".to_owned(), "line 1, column"),
        (
            "input = [8, 8]\nlayers = [{linear = }]".to_owned(),
            "line 2, column 21: `` is no value; texts need quotes",
        ),
        (
            "input = [8, 8]\nlayers = [relu]".to_owned(),
            "line 2, column 11: `relu` is no value; texts need quotes",
        ),
        (format!("layers: {}", "[".repeat(100)), "deep in each other"),
        (format!("layers = {}", "{a.b.c.d.e.f.g = ".repeat(10)), "deep"),
        (format!("[{}b]\n{0}c = 1", "a.".repeat(30)), "line 2, column 35: the key lies too deep"),
        (format!("layers: {}", "[".repeat(300)), "recursion limit exceeded"),
    ] {
        let error = read(&text).expect_err(&text).to_string();
        assert!(error.contains(expected), "{text}\n{error}\nwanted {expected}");
    }
}

#[test]
fn what_is_no_spec_is_refused_as_before() {
    for text in [
        "{\"model_type\": \"llama\", \"layers\": 12}",
        "{\"config\": {\"layers\": []}}",
        "Some text about layers: and more.",
        "the layers\nlayers",
    ] {
        let error = formats::open(&mut text.as_bytes(), "it").unwrap_err();
        assert_eq!(error.kind(), highwater_core::ErrorKind::WrongFormat, "{text}: {error}");
    }
}

#[test]
fn a_version_that_may_be_another_is_refused() {
    let read = |version: &str| {
        let text = format!("input: [N, 8]\nlayers: [relu]\ntrain: {{pytorch: {version}}}");
        let model = highwater_core::open(&mut text.as_bytes(), "");
        model.map(|model| model.defaults().pytorch.to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(read("2.9"), Ok("2.9".to_owned()));
    assert_eq!(read("\"2.10\""), Ok("2.10".to_owned()));
    assert_eq!(read("2023"), Ok("2.0".to_owned()));
    assert!(read("2.10").is_err_and(|error| error.contains("2.1 or 2.10")));
}

#[test]
fn train_says_what_the_command_line_does_not() {
    let text = "
input: [N, 8]
dims: {N: 32}
layers: [linear: 4, {linear: 2, name: head}]
train: {optimizer: sgd_momentum, precision: amp-bf16, checkpoint: blocks, accumulate: 2, ema: true, freeze: head, pytorch: 2.9, in_place: off}";
    let model = highwater_core::open(&mut text.as_bytes(), "").unwrap();
    let config = Config { dims: BTreeMap::new(), ..model.defaults().clone() };
    let settings = config.unusual();
    let shown: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(
        shown.join(", "),
        "checkpoint blocks, accumulate 2, freeze head, ema true, in-place off"
    );
    assert_eq!((config.optimizer.name(), config.precision.name()), ("sgd-momentum", "amp-bf16"));
    assert_eq!(config.pytorch.to_string(), "2.9");
    assert_eq!(model.open_dims()[0].default, 32);
    let report = model.estimate(&config).unwrap();
    assert!(report.diagnostics.iter().all(|it| it.code != "assumed-dimension"));
}

#[test]
fn schema_and_reference_are_current() {
    let schema = spec::schema();
    serde_json::from_str::<serde_json::Value>(&schema).expect("the schema is JSON");
    expect_file!["../../../docs/spec.schema.json"].assert_eq(&schema);
    let page = String::from_utf8(fixtures::read("../../docs/spec.md")).unwrap();
    let (before, rest) = page.split_once("<!-- layers -->\n").expect("the mark of the tables");
    let (_, behind) = rest.split_once("<!-- end of layers -->").expect("its end");
    let tables = spec::reference();
    let current = format!("{before}<!-- layers -->\n{tables}<!-- end of layers -->{behind}");
    expect_file!["../../../docs/spec.md"].assert_eq(&current);
    // What the page shows is read.
    let examples: Vec<&str> = page.split("```yaml\n").skip(1).collect();
    assert!(examples.len() >= 3);
    for example in examples {
        let text = example.split("```").next().unwrap();
        read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

/// What lowers, with sizes for all dimensions, is typed by the operators' own rules without a gap.
fn assert_typed(spec: &Spec) {
    let Ok(graph) = spec.lower() else { return };
    let is_sized = |dim: &Dim| match dim {
        Dim::Known(_) => true,
        Dim::Named(name) => spec.dims.contains_key(name),
        Dim::Unknown => false,
    };
    if !spec.inputs.iter().flat_map(|input| &input.dims).all(is_sized) {
        return;
    }
    let sink = Diagnostics::default();
    if let Ok(typed) = infer::infer(&graph, &BTreeMap::new(), &sink) {
        assert!(!typed.lower_bound, "{spec}\n{:?}", sink.into_sorted());
    }
}

fn value() -> impl Strategy<Value = kinds::Value> {
    prop_oneof![
        (-2..9_i64).prop_map(kinds::Value::Int),
        prop::collection::vec(-1..5_i64, 0..4).prop_map(kinds::Value::Ints),
        (0.0..1.0).prop_map(kinds::Value::Number),
        any::<bool>().prop_map(kinds::Value::Flag),
        "same|a|rmsnorm|post|eager|silu".prop_map(kinds::Value::Word),
    ]
}

fn module() -> impl Strategy<Value = Layer> {
    let arguments = prop::collection::vec((0..12_usize, value()), 0..14);
    (0..kinds::TABLE.len(), arguments).prop_map(|(index, arguments)| {
        let kind = &kinds::TABLE[index];
        let mut module = Module::new(kind.name).unwrap();
        // Most layers need their first arguments.
        for (position, argument) in kind.arguments.iter().enumerate() {
            let small = kinds::Value::Int(i64::try_from(position % 3 + 1).unwrap());
            module = module.clone().with(argument.name, small).unwrap_or(module);
        }
        for (position, value) in arguments {
            let Some(argument) = kind.arguments.get(position) else { continue };
            module = module.clone().with(argument.name, value).unwrap_or(module);
        }
        module.into()
    })
}

fn layer() -> impl Strategy<Value = Layer> {
    let join = prop::sample::select(Join::ALL.to_vec());
    module().prop_recursive(4, 24, 4, move |inner| {
        let layers = || prop::collection::vec(inner.clone(), 0..4);
        let arms = prop::collection::vec(layers(), 0..3);
        prop_oneof![
            layers().prop_map(|body| Layer::new(Body::Sequential(body)).named("s")),
            (1..4_u64, layers())
                .prop_map(|(count, block)| Layer::new(Body::Repeat { count, block })),
            (layers(), layers(), any::<bool>()).prop_map(|(body, shortcut, inplace)| {
                Layer::new(Body::Residual { body, shortcut, inplace })
            }),
            (arms, join.clone(), -2..4_i64)
                .prop_map(|(arms, join, dim)| Layer::new(Body::Branch { arms, join, dim })),
            (join.clone(), -2..4_i64).prop_map(|(join, dim)| {
                Layer::new(Body::Join { join, with: vec!["x".to_owned(), "s".to_owned()], dim })
            }),
        ]
    })
}

fn dim() -> impl Strategy<Value = Dim> {
    prop_oneof![
        (1..20_u64).prop_map(Dim::Known),
        prop::sample::select(vec!["N", "L", "q"]).prop_map(|name| Dim::Named(name.to_owned())),
        Just(Dim::Unknown),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x5bec),
        ..ProptestConfig::default()
    })]

    #[test]
    fn trees_of_layers_never_panic(
        dims in prop::collection::vec(dim(), 0..6),
        layers in prop::collection::vec(layer(), 0..6),
    ) {
        let place = highwater_core::error::Place::default();
        let input = Input { name: "x".to_owned(), dims, dtype: None, place };
        let sizes = BTreeMap::from([("N".to_owned(), 2), ("L".to_owned(), 6)]);
        let spec = Spec { inputs: vec![input], dims: sizes, layers, ..Spec::default() };
        assert_typed(&spec);
        let written = spec.to_string();
        if spec.inputs[0].dims.iter().all(|dim| *dim != Dim::Unknown) {
            let again = spec::read(&written);
            prop_assert!(again.is_ok(), "{written}\n{again:?}");
        }
    }

    #[test]
    fn mutated_texts_never_panic(
        which in 0..8_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), ".{0,3}|[\\[\\]{}:,&*#'\"=\n -]{1,4}", 0..4_usize), 1..6),
    ) {
        let name = ["mlp", "resnet", "unet", "gpt", "llama", "vit", "inception", "eager"][which];
        let mut text: Vec<char> =
            String::from_utf8(fixtures::read(&format!("spec/{name}.yaml"))).unwrap().chars().collect();
        for (at, new, gone) in edits {
            let at = at.index(text.len());
            let end = (at + gone).min(text.len());
            text.splice(at..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(spec) = spec::read(&text) {
            assert_typed(&spec);
        }
        drop(formats::open(&mut text.as_bytes(), ""));
    }

    #[test]
    fn random_texts_never_panic(text in "([a-z]{1,6}|[0-9.]{1,4}|[\\[\\]{}:,&*#'\"=|>!?\n\t -]|layers|\n  - |: |input){0,60}") {
        drop(spec::read(&text));
        let toml = format!("layers = {text}");
        drop(spec::read(&toml));
        drop(formats::open(&mut toml.as_bytes(), ""));
    }
}
