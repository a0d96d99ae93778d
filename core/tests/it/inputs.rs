//! `torch.export` archives, ONNX text and safetensors → `Graph`: what is decoded, what is refused and
//! how, what is never read.

use expect_test::{Expect, expect};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use highwater_core::formats::{self, Opened};
use highwater_core::graph::Graph;
use highwater_core::source::{Counted, ReadStats, Source};
use highwater_core::{Config, Error};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::fmt::Write as _;
use std::io::Write as _;

use crate::fixtures;
use crate::onnx::{apply, assert_sound, dump, edit};

fn open(mut bytes: &[u8]) -> Result<Opened, Error> {
    formats::open(&mut bytes, "model")
}

/// A zip of these files, stored or deflated.
fn zip(files: &[(&str, &[u8])], deflates: bool) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    let size = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
    for (name, content) in files {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        let packed = if deflates { encoder.finish().unwrap() } else { content.to_vec() };
        // Version, flags, method, time, date, checksum; sizes; length of the name, of nothing else.
        let mut header = vec![20, 0, 0, 0, if deflates { 8 } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header.extend([size(packed.len()), size(<[u8]>::len(content))].concat());
        header.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        header.extend([0, 0]);
        let at = size(zip.len());
        zip.extend([b"PK\x03\x04", header.as_slice(), name.as_bytes(), &packed].concat());
        let rest = [[0; 10].as_slice(), &at].concat();
        directory
            .extend([b"PK\x01\x02", [20, 0].as_slice(), &header, &rest, name.as_bytes()].concat());
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let (begin, length) = (size(zip.len()), size(directory.len()));
    zip.extend(directory);
    zip.extend(
        [b"PK\x05\x06", [0; 4].as_slice(), &count, &count, &length, &begin, &[0, 0]].concat(),
    );
    zip
}

/// An archive of a program with these nodes between the input `x` and the output `y`.
fn archive(nodes: &str) -> Vec<u8> {
    zip(&[("m/models/model.json", program(nodes).as_bytes())], false)
}

fn program(nodes: &str) -> String {
    let batch = r#"{"as_expr":{"expr_str":"Symbol('s77', positive=True, integer=True)"}}"#;
    let tensor = |sizes: &str, grad: bool| {
        format!(r#"{{"dtype":7,"sizes":[{sizes}],"requires_grad":{grad}}}"#)
    };
    let (x, w) =
        (tensor(&format!(r#"{batch},{{"as_int":4}}"#), false), r#"{"as_int":4},{"as_int":4}"#);
    let w = tensor(w, true);
    format!(
        r#"{{"schema_version":{{"major":8,"minor":20}},"torch_version":"2.15.0","graph_module":{{
        "signature":{{"input_specs":[
            {{"parameter":{{"arg":{{"name":"p_w"}},"parameter_name":"fc.weight"}}}},
            {{"user_input":{{"arg":{{"as_tensor":{{"name":"x"}}}}}}}}],
          "output_specs":[{{"user_output":{{"arg":{{"as_tensor":{{"name":"y"}}}}}}}}]}},
        "graph":{{"nodes":[{nodes}],
          "tensor_values":{{"x":{x},"p_w":{w},"a":{x},"b":{x},"y":{x}}}}}}}}}"#
    )
}

/// A node: target, then arguments as `name=tensor`.
fn node(target: &str, arguments: &[(&str, &str)], output: &str) -> String {
    let argument = |(name, value): &(&str, &str)| {
        let value = if value.starts_with('{') {
            (*value).to_owned()
        } else {
            format!(r#"{{"as_tensor":{{"name":"{value}"}}}}"#)
        };
        format!(r#"{{"name":"{name}","arg":{value},"kind":1}}"#)
    };
    let inputs: Vec<String> = arguments.iter().map(argument).collect();
    format!(
        r#"{{"target":"torch.ops.{target}","inputs":[{}],"outputs":[{{"as_tensor":{{"name":"{output}"}}}}],
        "metadata":{{"nn_module_stack":"L__self__,,Net;L__self__fc,fc,torch.nn.Linear"}}}}"#,
        inputs.join(",")
    )
}

#[test]
fn calls_become_nodes_in_their_modules() {
    let nodes = [
        node("aten.linear.default", &[("input", "x"), ("weight", "p_w")], "a"),
        node("aten.relu_.default", &[("self", "a")], "b"),
        // What was overwritten is read under either name.
        node("aten.add.Tensor", &[("self", "a"), ("other", r#"{"as_float":1.5}"#)], "y"),
    ];
    let opened = open(&archive(&nodes.join(","))).unwrap();
    assert_eq!(
        (opened.recognised.format.as_str(), opened.recognised.fidelity.name()),
        ("torch.export", "exact-graph")
    );
    expect![[r#"
         by pytorch 2.15.0, opset 20
        input x float32[batch, 4]
        initializer fc.weight float32[4, 4]
        initializer /constant/4 float32[] = [1.5]
        [fc] a = Linear(x, fc.weight)
            transposed=1
            aten.linear.default of torch.nn.Linear
        [fc] b = Relu(a)
            in_place=1
            aten.relu_.default of torch.nn.Linear
        [fc] y = Add(b, /constant/4)
            aten.add.Tensor of torch.nn.Linear
        output y float32[batch, 4]
        Parameter fc.weight
    "#]]
    .assert_eq(&dump(&opened.graph));
}

#[test]
fn what_is_copied_into_a_view_is_in_the_whole() {
    let nodes = [
        node("aten.linear.default", &[("input", "x"), ("weight", "p_w")], "a"),
        node("aten.t.default", &[("self", "a")], "view"),
        node("aten.copy_.default", &[("self", "view"), ("src", "x")], "b"),
        node("aten.relu.default", &[("self", "a")], "y"),
    ];
    let opened = open(&archive(&nodes.join(","))).unwrap();
    expect![[r#"
         by pytorch 2.15.0, opset 20
        input x float32[batch, 4]
        initializer fc.weight float32[4, 4]
        [fc] a = Linear(x, fc.weight)
            transposed=1
            aten.linear.default of torch.nn.Linear
        [fc] a/4 = Assign(a, x)
            whole=0
            aten.copy_.default of torch.nn.Linear
        [fc] y = Relu(a/4)
            aten.relu.default of torch.nn.Linear
        output y float32[batch, 4]
        Parameter fc.weight
    "#]]
    .assert_eq(&dump(&opened.graph));
}

#[test]
fn unknown_calls_leave_the_answer_uncertain() {
    let nodes = node("mine.twist.default", &[("self", "x"), ("by", "p_w")], "y");
    let model = highwater_core::open(&mut archive(&nodes).as_slice(), "model.pt2").unwrap();
    let report = model.estimate(&Config::default()).unwrap();
    assert_eq!((report.lower_bound, report.uncertain), (false, true));
    assert!(!report.verdict.verdict.survives());
    let codes: Vec<_> = report.diagnostics.iter().map(|d| d.code.as_str()).collect();
    assert!(codes.contains(&"unknown-operator"), "{codes:?}");
}

#[test]
fn deflated_archives_are_read() {
    let nodes = node("aten.mm.default", &[("self", "x"), ("mat2", "p_w")], "y");
    let stored = open(&archive(&nodes)).unwrap();
    let files = [("m/models/model.json", program(&nodes)), ("m/data/weights/w", "w".repeat(99))];
    let files: Vec<_> = files.iter().map(|(name, content)| (*name, content.as_bytes())).collect();
    let deflated = open(&zip(&files, true)).unwrap();
    assert_eq!(dump(&stored.graph), dump(&deflated.graph));
}

#[test]
fn what_is_wrong_is_said() {
    let node = |text: &str| archive(&format!("{{{text}}}"));
    let json = |name: &str, text: &str| zip(&[(name, text.as_bytes())], false);
    let mm = self::node("aten.mm.default", &[("self", "x"), ("mat2", "p_w")], "y");
    let cut = &archive(&mm)[..200];
    let states = |header: &str| {
        [&u64::try_from(header.len()).unwrap().to_le_bytes(), header.as_bytes()].concat()
    };
    let cases = [
        ("no target", node(r#""name":"add_3""#)),
        ("an unknown name", archive(&self::node("aten.relu.default", &[("self", "z")], "y"))),
        ("an output of nobody", archive(&self::node("aten.relu.default", &[("self", "x")], "a"))),
        ("no graph", json("m/models/model.json", r#"{"schema_version":{"major":9,"minor":0}}"#)),
        ("no JSON", json("serialized_exported_program.json", "{\"graph_module\": oh}")),
        ("no program", json("readme.txt", "hello")),
        ("a part", cut.to_vec()),
        ("text", b"g (float[N] x) => (float[N] y)\n{ y = Relu(x }".to_vec()),
        ("safetensors", states(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#)),
        ("an index", br#"{"weight_map":{"a":"model-00001-of-00002.safetensors"}}"#.to_vec()),
    ];
    let mut table = String::new();
    for (name, bytes) in cases {
        let error = open(&bytes).expect_err(name);
        writeln!(table, "{name}: {:?}: {error}", error.kind()).unwrap();
    }
    check(
        &table,
        &expect![[r#"
            no target: InvalidGraph: the exported program (schema 8.20) cannot be read: the node `add_3` has no `target`; save it again with a current PyTorch, `torch.export.save(torch.export.export(model.train(), args), "model.pt2")`
            an unknown name: InvalidGraph: the exported program (schema 8.20) cannot be read: `torch.ops.aten.relu.default` reads `z`, which nothing makes; save it again with a current PyTorch, `torch.export.save(torch.export.export(model.train(), args), "model.pt2")`
            an output of nobody: InvalidGraph: the exported program (schema 8.20) cannot be read: the output `y` is made by nothing; save it again with a current PyTorch, `torch.export.save(torch.export.export(model.train(), args), "model.pt2")`
            no graph: InvalidGraph: the exported program (schema 9.0) cannot be read: `graph_module.graph` is missing; save it again with a current PyTorch, `torch.export.save(torch.export.export(model.train(), args), "model.pt2")`
            no JSON: Corrupt: `serialized_exported_program.json` is not the JSON that it should be: expected value at line 1 column 18
            no program: WrongFormat: model is a zip archive; unpack it and open the .onnx file inside
            a part: WrongFormat: model is a torch.export archive without its end; copy or download it again, or save it anew with `torch.export.save`
            text: Corrupt: ONNX text, line 2, column 14: expected `,` or `)`, found `}`
            safetensors: InvalidGraph: the tensor `a` lies in 0..4 and has 8 bytes
            an index: InvalidGraph: `metadata.total_size` is missing in the index of safetensors files; open one of the files, or all tensors in one
        "#]],
    );
}

#[track_caller]
fn check(found: &str, expected: &Expect) {
    expected.assert_eq(found);
}

/// The text that `onnx.printer` makes of a file is the same model.
#[test]
fn text_is_read_as_the_file_that_it_was_printed_from() {
    let text = open(&fixtures::read("models/text/alexnet.onnxtxt")).unwrap();
    let binary = open(&fixtures::read("models/train/alexnet.onnx")).unwrap();
    assert_eq!(text.recognised.format, "ONNX text");
    let without_values = |graph: &Graph| {
        let lines = dump(graph)
            .lines()
            .map(|line| line.split(" = [").next().unwrap_or("").to_owned())
            .collect::<Vec<_>>();
        lines.join("\n")
    };
    assert_eq!(without_values(&text.graph), without_values(&binary.graph));
}

/// A file of 80 GB of which 1 kB is there to be read.
struct Sparse {
    begin: Vec<u8>,
    length: u64,
}

impl Source for Sparse {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.begin.as_slice().read_at(offset, buffer)
    }
}

#[test]
fn states_are_weights_gradients_and_the_optimizer() {
    let n = 10_000_000_000_u64;
    let header = format!(
        r#"{{"model.w.weight":{{"dtype":"BF16","shape":[{n},4],"data_offsets":[0,{}]}},
            "bn.num_batches_tracked":{{"dtype":"I64","shape":[],"data_offsets":[{},{}]}}}}"#,
        n * 8,
        n * 8,
        n * 8 + 8
    );
    let begin = [&u64::try_from(header.len()).unwrap().to_le_bytes(), header.as_bytes()].concat();
    let length = u64::try_from(begin.len()).unwrap() + n * 8 + 8;
    let begin = [begin, vec![0; 1024]].concat();
    let mut file = Sparse { begin, length };
    let mut counted = Counted::new(&mut file);
    let model = highwater_core::open(&mut counted, "model.safetensors").unwrap();
    let ReadStats { bytes_read, .. } = counted.stats();
    assert!(bytes_read < 4096, "{bytes_read} bytes were read");
    let report = model.estimate(&Config::default()).unwrap();
    assert!(report.lower_bound);
    // Weights, gradients, two moments, and what AdamW's step takes beside them.
    let least = 4 * n * 8;
    assert!((least..2 * least).contains(&report.peak.allocated.0), "{:?}", report.peak);
    assert_eq!(report.diagnostics[0].code, "states-only");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x0816),
        ..ProptestConfig::default()
    })]

    #[test]
    fn mutated_files_never_panic(which in 0..4_usize, edits in prop::collection::vec(edit(), 1..8)) {
        let calls = [
            node("aten.linear.default", &[("input", "x"), ("weight", "p_w")], "a"),
            node("aten.view.default", &[("self", "a"), ("size", r#"{"as_ints":[-1,2]}"#)], "b"),
            node("aten.unflatten.int", &[("self", "b"), ("dim", r#"{"as_int":0}"#), ("sizes", r#"{"as_ints":[-1,2]}"#)], "y"),
        ];
        let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let mut bytes = match which {
            0 => archive(&calls.join(",")),
            1 => fixtures::read("models/text/alexnet.onnxtxt"),
            2 => [&u64::try_from(header.len()).unwrap().to_le_bytes(), header.as_bytes()].concat(),
            _ => fixtures::unpack("zoo/pt2/resnet18.pt2.gz").unwrap(),
        };
        for edit in edits {
            apply(&mut bytes, edit);
        }
        if let Ok(opened) = open(&bytes) {
            assert_sound(&opened.graph);
        }
    }
}
