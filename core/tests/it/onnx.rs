//! ONNX files → `Graph`: what is decoded, what is refused and how, what is never read.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use highwater_core::graph::{
    Attribute, Body, DeclaredType, Dim, Elements, Graph, Literal, Value, ValueId,
};
use highwater_core::source::{Counted, ReadStats};
use highwater_core::{Error, ErrorKind, formats};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::fixtures;
use crate::onnx_writer::{
    FLOAT, INT64, Proto, graph, graph_attribute, int_attribute, model, node, reference_attribute,
    tensor, tensor_attribute, value,
};

fn open(mut bytes: &[u8]) -> Result<Graph, Error> {
    Ok(formats::open(&mut bytes, "model.onnx")?.graph)
}

/// A graph as text: a line for each input, parameter, node and output.
pub(crate) fn dump(graph: &Graph) -> String {
    let mut out = format!("{} by {}, opset {}\n", graph.name, graph.producer, graph.opset);
    let name = |id: &Option<ValueId>| id.map_or("-", |id| graph.value_name(id)).to_owned();
    let names = |ids: &[Option<ValueId>]| ids.iter().map(name).collect::<Vec<_>>().join(", ");
    for &id in &graph.inputs {
        let value = graph.value(id).unwrap();
        writeln!(out, "input {}", declared(value)).unwrap();
    }
    for value in &graph.values {
        if let Some(literal) = &value.initializer {
            writeln!(out, "initializer {} {}", value.name, contents(literal)).unwrap();
        }
    }
    for node in &graph.nodes {
        let (outputs, inputs) = (names(&node.outputs), names(&node.inputs));
        writeln!(out, "[{}] {outputs} = {}({inputs})", node.module, node.op).unwrap();
        let attribute = |(name, value): (&String, &Attribute)| match value {
            Attribute::Body(body) => format!("{name}={}", steps(graph, body)),
            value => format!("{name}={}", short(value)),
        };
        let attributes: Vec<_> = node.attributes.iter().map(attribute).collect();
        if !attributes.is_empty() {
            writeln!(out, "    {}", attributes.join(" ")).unwrap();
        }
        if let Some(origin) = &node.origin {
            writeln!(out, "    {} of {}", origin.aten, origin.class).unwrap();
        }
    }
    for &id in &graph.outputs {
        writeln!(out, "output {}", declared(graph.value(id).unwrap())).unwrap();
    }
    for (name, member) in &graph.members {
        writeln!(out, "{member:?} {name}").unwrap();
    }
    for diagnostic in &graph.diagnostics {
        writeln!(out, "{diagnostic}").unwrap();
    }
    out
}

/// A body in one line.
fn steps(graph: &Graph, body: &Body) -> String {
    let names =
        |ids: &[ValueId]| ids.iter().map(|&id| graph.value_name(id)).collect::<Vec<_>>().join(", ");
    let listed =
        |ids: &[Option<ValueId>]| names(&ids.iter().flatten().copied().collect::<Vec<_>>());
    let steps = body
        .nodes
        .iter()
        .map(|node| format!("{} = {}({}); ", listed(&node.outputs), node.op, listed(&node.inputs)));
    format!("({}) {{ {}{} }}", names(&body.inputs), steps.collect::<String>(), names(&body.outputs))
}

fn short(attribute: &Attribute) -> String {
    match attribute {
        Attribute::Int(n) => n.to_string(),
        Attribute::Float(x) => x.to_string(),
        Attribute::String(text) => text.clone(),
        Attribute::Tensor(literal) => contents(literal),
        Attribute::Ints(list) => format!("{list:?}"),
        Attribute::Floats(list) => format!("{list:?}"),
        Attribute::Strings(list) => format!("{list:?}"),
        Attribute::Body(_) | Attribute::Unsupported => "unsupported".to_owned(),
    }
}

fn declared(value: &Value) -> String {
    let Some(DeclaredType { dtype, dims }) = &value.declared else { return value.name.clone() };
    let dtype = dtype.map_or_else(|| "?".to_owned(), |dtype| dtype.to_string());
    let dims = dims.iter().flatten().map(|dim| match dim {
        Dim::Known(size) => size.to_string(),
        Dim::Named(name) => name.clone(),
        Dim::Unknown => "?".to_owned(),
    });
    format!("{} {dtype}[{}]", value.name, dims.collect::<Vec<_>>().join(", "))
}

fn contents(literal: &Literal) -> String {
    let ty = format!("{}{:?}", literal.dtype, literal.dims);
    match &literal.elements {
        Some(Elements::Ints(list)) if list.len() <= 8 => format!("{ty} = {list:?}"),
        Some(Elements::Floats(list)) if list.len() <= 8 => format!("{ty} = {list:?}"),
        Some(_) => format!("{ty} = …"),
        None => ty,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "expectations are literals at the call")]
#[track_caller]
fn check(model: Proto, expected: Expect) {
    let text = match open(&model.to_bytes()) {
        Ok(graph) => dump(&graph),
        Err(error) => format!("{:?}: {error}\n", error.kind()),
    };
    expected.assert_eq(&text);
}

#[test]
fn torchscript_export_in_training_mode() {
    let graph = open(&fixtures::read("models/train/alexnet.onnx")).unwrap();
    expect![[r#"
        main_graph by pytorch 2.15.0, opset 17
        input input float32[batch, 3, 224, 224]
        initializer features.0.weight float32[64, 3, 11, 11]
        initializer features.0.bias float32[64] = …
        initializer features.3.weight float32[192, 64, 5, 5]
        initializer features.3.bias float32[192] = …
        initializer features.6.weight float32[384, 192, 3, 3]
        initializer features.6.bias float32[384]
        initializer features.8.weight float32[256, 384, 3, 3]
        initializer features.8.bias float32[256] = …
        initializer features.10.weight float32[256, 256, 3, 3]
        initializer features.10.bias float32[256] = …
        initializer classifier.1.weight float32[4096, 9216]
        initializer classifier.1.bias float32[4096]
        initializer classifier.4.weight float32[4096, 4096]
        initializer classifier.4.bias float32[4096]
        initializer classifier.6.weight float32[1000, 4096]
        initializer classifier.6.bias float32[1000]
        initializer /classifier/classifier.0/Constant_output_0 float32[] = [0.5]
        initializer /classifier/classifier.0/Constant_1_output_0 bool[] = [1]
        initializer /classifier/classifier.3/Constant_output_0 float32[] = [0.5]
        initializer /classifier/classifier.3/Constant_1_output_0 bool[] = [1]
        [features.0] /features/features.0/Conv_output_0 = Conv(input, features.0.weight, features.0.bias)
            dilations=[1, 1] group=1 kernel_shape=[11, 11] pads=[2, 2, 2, 2] strides=[4, 4]
        [features.1] /features/features.1/Relu_output_0 = Relu(/features/features.0/Conv_output_0)
        [features.2] /features/features.2/MaxPool_output_0 = MaxPool(/features/features.1/Relu_output_0)
            ceil_mode=0 dilations=[1, 1] kernel_shape=[3, 3] pads=[0, 0, 0, 0] strides=[2, 2]
        [features.3] /features/features.3/Conv_output_0 = Conv(/features/features.2/MaxPool_output_0, features.3.weight, features.3.bias)
            dilations=[1, 1] group=1 kernel_shape=[5, 5] pads=[2, 2, 2, 2] strides=[1, 1]
        [features.4] /features/features.4/Relu_output_0 = Relu(/features/features.3/Conv_output_0)
        [features.5] /features/features.5/MaxPool_output_0 = MaxPool(/features/features.4/Relu_output_0)
            ceil_mode=0 dilations=[1, 1] kernel_shape=[3, 3] pads=[0, 0, 0, 0] strides=[2, 2]
        [features.6] /features/features.6/Conv_output_0 = Conv(/features/features.5/MaxPool_output_0, features.6.weight, features.6.bias)
            dilations=[1, 1] group=1 kernel_shape=[3, 3] pads=[1, 1, 1, 1] strides=[1, 1]
        [features.7] /features/features.7/Relu_output_0 = Relu(/features/features.6/Conv_output_0)
        [features.8] /features/features.8/Conv_output_0 = Conv(/features/features.7/Relu_output_0, features.8.weight, features.8.bias)
            dilations=[1, 1] group=1 kernel_shape=[3, 3] pads=[1, 1, 1, 1] strides=[1, 1]
        [features.9] /features/features.9/Relu_output_0 = Relu(/features/features.8/Conv_output_0)
        [features.10] /features/features.10/Conv_output_0 = Conv(/features/features.9/Relu_output_0, features.10.weight, features.10.bias)
            dilations=[1, 1] group=1 kernel_shape=[3, 3] pads=[1, 1, 1, 1] strides=[1, 1]
        [features.11] /features/features.11/Relu_output_0 = Relu(/features/features.10/Conv_output_0)
        [features.12] /features/features.12/MaxPool_output_0 = MaxPool(/features/features.11/Relu_output_0)
            ceil_mode=0 dilations=[1, 1] kernel_shape=[3, 3] pads=[0, 0, 0, 0] strides=[2, 2]
        [avgpool] /avgpool/AveragePool_output_0 = AveragePool(/features/features.12/MaxPool_output_0)
            kernel_shape=[1, 1] strides=[1, 1]
        [] /Flatten_output_0 = Flatten(/avgpool/AveragePool_output_0)
            axis=1
        [classifier.0] /classifier/classifier.0/Dropout_output_0, /classifier/classifier.0/Dropout_output_1 = Dropout(/Flatten_output_0, /classifier/classifier.0/Constant_output_0, /classifier/classifier.0/Constant_1_output_0)
        [classifier.1] /classifier/classifier.1/Gemm_output_0 = Gemm(/classifier/classifier.0/Dropout_output_0, classifier.1.weight, classifier.1.bias)
            alpha=1 beta=1 transB=1
        [classifier.2] /classifier/classifier.2/Relu_output_0 = Relu(/classifier/classifier.1/Gemm_output_0)
        [classifier.3] /classifier/classifier.3/Dropout_output_0, /classifier/classifier.3/Dropout_output_1 = Dropout(/classifier/classifier.2/Relu_output_0, /classifier/classifier.3/Constant_output_0, /classifier/classifier.3/Constant_1_output_0)
        [classifier.4] /classifier/classifier.4/Gemm_output_0 = Gemm(/classifier/classifier.3/Dropout_output_0, classifier.4.weight, classifier.4.bias)
            alpha=1 beta=1 transB=1
        [classifier.5] /classifier/classifier.5/Relu_output_0 = Relu(/classifier/classifier.4/Gemm_output_0)
        [classifier.6] logits = Gemm(/classifier/classifier.5/Relu_output_0, classifier.6.weight, classifier.6.bias)
            alpha=1 beta=1 transB=1
        output logits float32[batch, 1000]
    "#]].assert_eq(&dump(&graph));
}

#[test]
fn dynamo_export_tells_the_calls_behind_nodes() {
    let graph = open(&fixtures::read("models/dynamo/alexnet.onnx")).unwrap();
    let of_classifier = |line: &&str| line.contains("classifier") || line.contains("aten.linear");
    let text = dump(&graph);
    let lines: Vec<_> = text.lines().filter(of_classifier).collect();
    expect![[r#"
        initializer classifier.1.weight float32[4096, 9216]
        initializer classifier.1.bias float32[4096]
        initializer classifier.4.weight float32[4096, 4096]
        initializer classifier.4.bias float32[4096]
        initializer classifier.6.weight float32[1000, 4096]
        initializer classifier.6.bias float32[1000]
        [classifier.1] linear = Gemm(view, classifier.1.weight, classifier.1.bias)
            aten.linear.default of torch.nn.modules.linear.Linear
        [classifier.2] relu_5 = Relu(linear)
        [classifier.4] linear_1 = Gemm(relu_5, classifier.4.weight, classifier.4.bias)
            aten.linear.default of torch.nn.modules.linear.Linear
        [classifier.5] relu_6 = Relu(linear_1)
        [classifier.6] logits = Gemm(relu_6, classifier.6.weight, classifier.6.bias)
            aten.linear.default of torch.nn.modules.linear.Linear
        Parameter classifier.1.weight
        Parameter classifier.1.bias
        Parameter classifier.4.weight
        Parameter classifier.4.bias
        Parameter classifier.6.weight
        Parameter classifier.6.bias
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn fixtures_decode() {
    let mut table = String::new();
    for name in [
        "train/alexnet",
        "train/resnet18",
        "train/squeezenet1_1",
        "train/distilgpt2",
        "eval/resnet18",
        "eval/squeezenet1_1",
        "dynamo/alexnet",
        "dynamo/resnet18",
        "dynamo/squeezenet1_1",
    ] {
        let graph = open(&fixtures::read(&format!("models/{name}.onnx"))).unwrap();
        assert_sound(&graph);
        let initializers = graph.values.iter().filter(|value| value.initializer.is_some()).count();
        let (nodes, members) = (graph.nodes.len(), graph.members.len());
        let rootless = graph.nodes.iter().filter(|node| node.module.is_empty()).count();
        writeln!(
            table,
            "{name}: {nodes} nodes ({rootless} in no module), {initializers} initializers, \
             {members} members, {} diagnostics",
            graph.diagnostics.len()
        )
        .unwrap();
    }
    expect![[r#"
        train/alexnet: 22 nodes (1 in no module), 20 initializers, 0 members, 0 diagnostics
        train/resnet18: 69 nodes (1 in no module), 102 initializers, 0 members, 0 diagnostics
        train/squeezenet1_1: 66 nodes (1 in no module), 54 initializers, 0 members, 0 diagnostics
        train/distilgpt2: 967 nodes (0 in no module), 640 initializers, 0 members, 0 diagnostics
        eval/resnet18: 49 nodes (1 in no module), 42 initializers, 0 members, 0 diagnostics
        eval/squeezenet1_1: 65 nodes (1 in no module), 52 initializers, 0 members, 0 diagnostics
        dynamo/alexnet: 20 nodes (1 in no module), 17 initializers, 16 members, 0 diagnostics
        dynamo/resnet18: 49 nodes (1 in no module), 44 initializers, 122 members, 0 diagnostics
        dynamo/squeezenet1_1: 65 nodes (1 in no module), 54 initializers, 52 members, 0 diagnostics
    "#]]
    .assert_eq(&table);
}

#[test]
fn constants_are_lifted_out_of_nodes() {
    let raw = |name, dtype, dims: &[i64], bytes: &[u8]| tensor(name, dtype, dims).bytes(9, bytes);
    let constant = |output, attribute| node("Constant", &[], &[output]).message(5, attribute);
    let shape = raw("", INT64, &[2], &[[255; 8], [4, 0, 0, 0, 0, 0, 0, 0]].concat());
    let nodes = [
        constant("shape", tensor_attribute("value", shape)),
        constant("scalar", tensor_attribute("value", raw("", FLOAT, &[], &0.5_f32.to_le_bytes()))),
        constant("half", tensor_attribute("value", raw("", 10, &[1], &[0x00, 0x3E]))),
        constant("weights", tensor_attribute("value", raw("", FLOAT, &[600], &[0; 2400]))),
        constant("none", tensor_attribute("value", tensor("", INT64, &[0]))),
        constant("int", int_attribute("value_int", -7)),
        constant("ints", Proto::new().text(1, "value_ints").int(8, 3).int(8, 4).int(20, 7)),
        constant("float", Proto::new().text(1, "value_float").float(2, 1.5).int(20, 1)),
        constant("texts", Proto::new().text(1, "value_strings").text(9, "a").int(20, 8)),
        node("Reshape", &["x", "shape"], &["y"]),
    ];
    let typed = [
        tensor("bools", 9, &[2]).int(5, 1).int(5, 0),
        tensor("bytes", 2, &[3]).bytes(9, &[1, 2, 255]),
        tensor("unsigned", 13, &[1]).int(11, -1),
        tensor("nibbles", 22, &[2]).bytes(9, &[0x12]),
        tensor("short", INT64, &[3]).int(7, 1),
    ];
    check(
        model(
            graph(&nodes, &typed, &["y"])
                .message(11, value("bytes", 2, &["3"]))
                .message(15, Proto::new().message(1, tensor("sparse", FLOAT, &[2])).int(3, 90)),
        ),
        expect![[r#"
            main by pytorch 2.15.0, opset 20
            input x float32[batch, 4]
            initializer bools bool[2] = [1, 0]
            initializer bytes uint8[3] = [1, 2, 255]
            initializer unsigned uint64[1] = [9223372036854775807]
            initializer nibbles int8[2]
            initializer short int64[3]
            initializer sparse float32[90]
            initializer shape int64[2] = [-1, 4]
            initializer scalar float32[] = [0.5]
            initializer half float16[1] = [1.5]
            initializer weights float32[600]
            initializer none int64[0] = []
            initializer int int64[] = [-7]
            initializer ints int64[2] = [3, 4]
            initializer float float32[] = [1.5]
            initializer texts uint8[1]
            [] y = Reshape(x, shape)
            output y
            warning [element-type] "nibbles" holds texts or elements smaller than a byte, which PyTorch does not train; counted as one byte each
            warning [sparse-initializer] the sparse tensor "sparse" is counted as dense
        "#]],
    );
}

/// A call of `ns.Block` inside another function, with a default, a reference and a spare output.
#[test]
fn functions_are_inlined() {
    let block = Proto::new()
        .text(1, "Block")
        .texts(4, &["a", "w"])
        .texts(5, &["b", "spare"])
        .text(6, "axis")
        .message(7, node("MatMul", &["a", "w"], &["t"]).text(3, "mm"))
        .message(7, node("Softmax", &["t"], &["b"]).message(5, reference_attribute("axis", "axis")))
        .message(7, node("Relu", &["t"], &["spare"]))
        .text(10, "ns")
        .message(11, int_attribute("axis", 1))
        .message(12, value("t", FLOAT, &["batch", "4"]));
    let outer = Proto::new()
        .text(1, "Outer")
        .texts(4, &["a", "w"])
        .text(5, "b")
        .message(7, node("Block", &["a", "w"], &["c"]).text(7, "ns").text(3, "first"))
        .message(
            7,
            node("Block", &["c", "w"], &["b"]).text(7, "ns").message(5, int_attribute("axis", -1)),
        )
        .text(10, "ns");
    let call = node("Outer", &["x", "layer.0.weight"], &["y"]).text(3, "/layer/layer.0/Outer");
    let main = graph(&[call.text(7, "ns")], &[tensor("layer.0.weight", FLOAT, &[4, 4])], &["y"]);
    check(
        model(main).message(25, block).message(25, outer),
        expect![[r#"
            main by pytorch 2.15.0, opset 20
            input x float32[batch, 4]
            initializer layer.0.weight float32[4, 4]
            [layer.0] /layer/layer.0/Outer/first/t = MatMul(x, layer.0.weight)
            [layer.0] /layer/layer.0/Outer/c = Softmax(/layer/layer.0/Outer/first/t)
                axis=1
            [layer.0] /layer/layer.0/Outer/first/spare = Relu(/layer/layer.0/Outer/first/t)
            [layer.0] /layer/layer.0/Outer/b/t = MatMul(/layer/layer.0/Outer/c, layer.0.weight)
            [layer.0] y = Softmax(/layer/layer.0/Outer/b/t)
                axis=-1
            [layer.0] /layer/layer.0/Outer/b/spare = Relu(/layer/layer.0/Outer/b/t)
            output y
        "#]],
    );
}

#[test]
fn functions_that_unfold_without_measure_are_refused() {
    let function = |name: &str, calls: &[&str]| {
        let body = calls.iter().map(|callee| node(callee, &["a"], &[""]).text(7, "ns"));
        Proto::new().text(1, name).text(4, "a").messages(7, body).text(10, "ns")
    };
    let call = node("f0", &["x"], &["y"]).text(7, "ns");
    let main = model(graph(&[call], &[], &["y"]));
    check(
        main.clone().message(25, function("f0", &["f1"])).message(25, function("f1", &["f0"])),
        expect![[r#"
            InvalidGraph: the function "f0" calls itself
        "#]],
    );
    let names: Vec<_> = (0..40).map(|level| format!("f{level}")).collect();
    let doubling = names.windows(2).map(|pair| function(&pair[0], &[&pair[1], &pair[1]]));
    check(
        main.messages(25, doubling),
        expect![[r#"
            TooLarge: the model unfolds to more than 250000 operators, or to huge names
        "#]],
    );
}

#[test]
fn nodes_are_put_in_order_and_control_flow_is_kept() {
    let body = Proto::new()
        .message(1, node("Mul", &["inner", "late"], &["z"]))
        .message(1, node("Relu", &["x"], &["inner"]))
        .message(12, Proto::new().text(1, "z"));
    let nodes = [
        node("If", &["flag"], &["y"])
            .text(3, "branch")
            .message(5, graph_attribute("then_branch", body)),
        node("Relu", &["early"], &["late"]),
        node("ReduceMax", &["x", ""], &["flag"]),
        node("Neg", &["x"], &["early"]),
        node("Dropout", &["early"], &["", "mask"]),
    ];
    check(
        model(graph(&nodes, &[], &["y"])),
        expect![[r#"
            main by pytorch 2.15.0, opset 20
            input x float32[batch, 4]
            [] flag = ReduceMax(x, -)
            [] early = Neg(x)
            [] late = Relu(early)
            [] y = If(flag)
                then_branch=() { inner = Relu(x); z = Mul(inner, late); z }
            [] -, mask = Dropout(early)
            output y
        "#]],
    );
}

/// What an operator takes as numbers is no weight, whatever it is called.
#[test]
fn numbers_are_no_weights() {
    for name in ["scales", "up.weight", "onnx::Resize_7", "p2o.helper.constant.4"] {
        let text = format!(
            r#"<ir_version: 9, opset_import: ["" : 18]>
            g (float[N,3,8,8] x) => (float[N,4,16,16] y) <float[4,3,1,1] w> {{
                h = Conv (x, w)
                "{name}" = Constant <value = float[4] {{1, 1, 2, 2}}> ()
                y = Resize <mode = "nearest"> (h, , "{name}")
            }}"#
        );
        let model = highwater_core::open(&mut text.as_bytes(), "net.onnxtxt").unwrap();
        let report = model.estimate(&highwater_core::Config::default()).unwrap();
        assert_eq!((report.model.parameters, report.lower_bound), (12, false), "{name}");
        assert_eq!(report.model.buffer_bytes.0, 0, "{name}");
    }
}

#[test]
fn contradictions_are_refused() {
    let relu = |input, output| node("Relu", &[input], &[output]);
    let weight = || tensor("w", FLOAT, &[4]);
    let mut table = String::new();
    let cases = [
        ("no graph", Proto::new().int(1, 8).text(2, "pytorch")),
        ("no nodes", model(graph(&[], &[weight()], &[]))),
        ("a cycle", model(graph(&[relu("b", "a").text(3, "one"), relu("a", "b")], &[], &["b"]))),
        ("a self-cycle", model(graph(&[node("Add", &["x", "y"], &["y"])], &[], &["y"]))),
        ("a missing value", model(graph(&[relu("nowhere", "y").text(3, "/fc/Relu")], &[], &["y"]))),
        ("a missing output", model(graph(&[relu("x", "y")], &[], &["z"]))),
        ("one name twice", model(graph(&[relu("x", "y"), relu("x", "y")], &[], &["y"]))),
        ("an initializer twice", model(graph(&[relu("x", "y")], &[weight(), weight()], &["y"]))),
        ("a nameless tensor", model(graph(&[relu("x", "y")], &[tensor("", FLOAT, &[])], &["y"]))),
        ("dimension -1", model(graph(&[relu("x", "y")], &[tensor("w", FLOAT, &[-1])], &["y"]))),
        ("type 99", model(graph(&[relu("x", "y")], &[tensor("w", 99, &[1])], &["y"]))),
        ("an empty constant", model(graph(&[node("Constant", &[], &["y"])], &[], &["y"]))),
        ("a name that is no UTF-8", model(graph(&[relu("x", "y").bytes(3, &[0xFF])], &[], &["y"]))),
        ("deep nesting", deep(100)),
        ("deep nesting of types", deep_type(200)),
        ("a group", Proto::new().int(1, 8).raw(&[0x0B])),
        ("a number for a graph", Proto::new().int(1, 8).raw(&[0x3D, 0, 0, 0, 0])),
        ("a long field", Proto::new().int(1, 8).message(7, Proto::new().raw(&[0x0A, 9, 1]))),
        ("a long integer", Proto::new().raw(&[0x08]).raw(&[0xFF; 12])),
    ];
    for (name, model) in cases {
        let error = open(&model.to_bytes()).expect_err(name);
        writeln!(table, "{name}: {:?}: {error}", error.kind()).unwrap();
    }
    expect![[r#"
        no graph: NoGraph: the file holds no ONNX graph; a TensorFlow `saved_model.pb` looks alike and has to be converted with tf2onnx
        no nodes: NoGraph: the file's graph has no operators, so there is nothing to estimate
        a cycle: InvalidGraph: the graph runs in a circle: one, b
        a self-cycle: InvalidGraph: the graph runs in a circle: y
        a missing value: InvalidGraph: "/fc/Relu" (Relu) reads "nowhere", which no node, input or initializer makes
        a missing output: InvalidGraph: the graph's output "z" is made by no node
        one name twice: InvalidGraph: the value "y" is defined twice
        an initializer twice: InvalidGraph: the value "w" is defined twice
        a nameless tensor: InvalidGraph: a tensor of the graph has no name
        dimension -1: InvalidGraph: the tensor "w" has a negative dimension
        type 99: InvalidGraph: the tensor "w" has element type 99, unknown to ONNX
        an empty constant: InvalidGraph: the constant "y" has no value that is known here
        a name that is no UTF-8: Corrupt: the ONNX file is damaged: Invalid UTF-8 sequence
        deep nesting: TooLarge: the model nests more than 90 messages inside each other
        deep nesting of types: Corrupt: the ONNX file is damaged: Over recursion limit
        a group: Corrupt: the ONNX file is damaged: at byte 2 is a field of an unknown wire type
        a number for a graph: Corrupt: the ONNX file is damaged: at byte 3 is a number instead of a message
        a long field: Corrupt: the file is truncated at byte 7: a field at byte 6 is 9 bytes long; copy or download it again
        a long integer: Corrupt: the ONNX file is damaged: at byte 1 is an integer of more than ten bytes
    "#]].assert_eq(&table);
}

/// Graphs in attributes of nodes in graphs.
fn deep(levels: usize) -> Proto {
    let innermost = graph(&[node("Relu", &["x"], &["y"])], &[], &["y"]);
    let inside = |graph: Proto, _| {
        let node = node("If", &["x"], &["y"]).message(5, graph_attribute("then_branch", graph));
        Proto::new().message(1, node)
    };
    model((0..levels).fold(innermost, inside))
}

/// Sequences of sequences.
fn deep_type(levels: usize) -> Proto {
    let sequence = |ty: Proto, _| Proto::new().message(4, Proto::new().message(1, ty));
    let ty = (0..levels).fold(Proto::new(), sequence);
    let info = Proto::new().text(1, "y").message(2, ty);
    model(graph(&[node("Relu", &["x"], &["y"])], &[], &["y"]).message(13, info))
}

#[test]
fn absurd_dimensions_stay_absurd() {
    let shape = ["0", "-1", "1099511627776", "?"];
    let huge = tensor("huge", FLOAT, &[1 << 40, 1 << 40, i64::MAX]);
    let main = graph(&[node("Add", &["in", "huge"], &["y"])], &[huge], &["y"])
        .message(11, value("in", FLOAT, &shape));
    check(
        model(main),
        expect![[r#"
            main by pytorch 2.15.0, opset 20
            input x float32[batch, 4]
            input in float32[?, ?, 1099511627776, ?]
            initializer huge float32[1099511627776, 1099511627776, 9223372036854775807]
            [] y = Add(in, huge)
            output y
        "#]],
    );
}

#[test]
fn other_files_are_named() {
    let zip = |name: &str| {
        let size = u16::try_from(name.len()).unwrap().to_le_bytes();
        [b"PK\x03\x04", [0; 22].as_slice(), &size, &[0; 2], name.as_bytes()].concat()
    };
    let safetensors = [&2_u64.to_le_bytes(), b"{}".as_slice(), &[0; 100]].concat();
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n".to_vec();
    let cases: [(&str, Vec<u8>); 24] = [
        ("nothing", vec![]),
        ("one byte", vec![8]),
        ("model.pt", zip("archive/data.pkl")),
        ("model.pt2", zip("model/archive_format")),
        ("arrays.npz", zip("a.npy")),
        ("other.zip", zip("readme.txt")),
        ("half a zip", b"PK\x03\x04\0".to_vec()),
        ("old.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.".to_vec()),
        ("cat.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec()),
        ("cat.jpg", b"\xFF\xD8\xFF\xE0\0\x10JFIF".to_vec()),
        ("cat.gif", b"GIF89a".to_vec()),
        ("paper.pdf", b"%PDF-1.7".to_vec()),
        ("model.onnx.gz", b"\x1F\x8B\x08\0".to_vec()),
        ("model.h5", b"\x89HDF\r\n\x1a\n".to_vec()),
        ("model.safetensors", safetensors),
        ("model.gguf", b"GGUF\x03\0\0\0".to_vec()),
        ("model.tflite", b"\x1C\0\0\0TFL3".to_vec()),
        ("model.pte", b"\x1C\0\0\0ET12".to_vec()),
        ("model.mlmodel", b"\x08\x05\x12\x0C\x0A\x0A\x0A\x01x".to_vec()),
        ("config.json", b"  {\"hidden_size\": 768}".to_vec()),
        ("index.html", b"<!doctype html>".to_vec()),
        ("pointer.onnx", lfs),
        ("notes.txt", "Notes: caf\u{e9}".as_bytes().to_vec()),
        ("zeros", vec![0; 1000]),
    ];
    let mut table = String::new();
    for (name, bytes) in cases {
        let error = formats::open(&mut bytes.as_slice(), name).expect_err(name);
        writeln!(table, "{:?}: {error}", error.kind()).unwrap();
    }
    expect![[r#"
        Empty: nothing is empty
        Corrupt: the file is truncated at byte 1; copy or download it again
        WrongFormat: model.pt is a PyTorch file (.pt), which holds Python objects; export the model as ONNX from PyTorch: `torch.onnx.export(model.train(), args, "model.onnx", dynamo=True, optimize=False)`, or with TorchScript `torch.onnx.export(model, args, "model.onnx", dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)`
        WrongFormat: model.pt2 is a torch.export archive without its end; copy or download it again, or save it anew with `torch.export.save`
        WrongFormat: arrays.npz is a NumPy archive (.npz); open an ONNX model (.onnx)
        WrongFormat: other.zip is a zip archive; unpack it and open the .onnx file inside
        WrongFormat: half a zip is a zip archive; unpack it and open the .onnx file inside
        WrongFormat: old.pt is a pickle (a PyTorch checkpoint of the old kind); export the model as ONNX from PyTorch: `torch.onnx.export(model.train(), args, "model.onnx", dynamo=True, optimize=False)`, or with TorchScript `torch.onnx.export(model, args, "model.onnx", dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)`
        WrongFormat: cat.png is a PNG picture; open an ONNX model (.onnx)
        WrongFormat: cat.jpg is a JPEG picture; open an ONNX model (.onnx)
        WrongFormat: cat.gif is a GIF picture; open an ONNX model (.onnx)
        WrongFormat: paper.pdf is a PDF document; open an ONNX model (.onnx)
        WrongFormat: model.onnx.gz is a gzip archive; unpack it and open the .onnx file inside
        WrongFormat: model.h5 is an HDF5 file, such as Keras saves; convert the model to ONNX with tf2onnx
        NoGraph: the file has no floating-point tensor, so there is nothing to train
        WrongFormat: model.gguf is a GGUF file, weights for inference without a graph; open it where servers are asked about, for what serving it takes; to train the model, name it or open its `config.json`
        WrongFormat: model.tflite is a TensorFlow Lite model; convert it to ONNX with tf2onnx
        WrongFormat: model.pte is an ExecuTorch program (.pte), which is compiled for inference; open what it was made of: `torch.export.save(torch.export.export(model.train(), args), "model.pt2")`
        WrongFormat: model.mlmodel is a Core ML model, which runs on Apple's devices; export the model as ONNX from PyTorch: `torch.onnx.export(model.train(), args, "model.onnx", dynamo=True, optimize=False)`, or with TorchScript `torch.onnx.export(model, args, "model.onnx", dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)`
        WrongFormat: config.json is JSON, but not a known model; export the model as ONNX from PyTorch: `torch.onnx.export(model.train(), args, "model.onnx", dynamo=True, optimize=False)`, or with TorchScript `torch.onnx.export(model, args, "model.onnx", dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)`
        WrongFormat: index.html is a web page or XML; if it should be a model, the download went wrong; fetch the file itself
        WrongFormat: pointer.onnx is a Git LFS pointer, not the model itself; fetch it with `git lfs pull`
        WrongFormat: notes.txt is not a model; readable as text: `print(model)`, torchinfo's `summary`, a Hugging Face `config.json`, Keras JSON and layer specs; or export the model as ONNX: `torch.onnx.export(model.train(), args, "model.onnx", dynamo=True, optimize=False)`
        WrongFormat: the file is of no kind that is known here; open an ONNX model (.onnx), or, if these are a model's weights (.onnx.data), the .onnx file next to them
    "#]].assert_eq(&table);
}

#[test]
fn truncated_files_are_refused() {
    let whole = fixtures::read("models/train/distilgpt2.onnx");
    let mut kinds = std::collections::BTreeMap::new();
    for end in (0..whole.len()).step_by(997) {
        let error = open(&whole[..end]).expect_err("a part is no model");
        *kinds.entry(error.kind()).or_insert(0) += 1;
        if error.kind() == ErrorKind::Corrupt {
            let place = format!("truncated at byte {end}");
            assert!(error.to_string().contains(&place), "{end}: {error}");
        }
    }
    expect![[r#"
        {Empty: 1, Corrupt: 244}
    "#]]
    .assert_eq(&format!("{kinds:?}\n"));
}

/// Two GiB of weights in 64 layers.
#[test]
fn weights_are_not_read() {
    let weight =
        |name: &str, size: i64| tensor(name, FLOAT, &[size]).hole(9, size.cast_unsigned() * 4);
    let nodes: Vec<_> = (0..64)
        .map(|i| {
            let (input, output) = (format!("{}", i - 1), format!("{i}"));
            let input = if i == 0 { "x" } else { &input };
            node("MatMul", &[input, &format!("layers.{i}.weight")], &[&output])
        })
        .collect();
    let weights: Vec<_> = (0..64).map(|i| weight(&format!("layers.{i}.weight"), 8 << 20)).collect();
    let mut file = model(graph(&nodes, &weights, &["63"]));
    let mut counted = Counted::new(&mut file);
    let graph = formats::open(&mut counted, "big.onnx").unwrap().graph;
    assert_sound(&graph);
    assert_eq!(graph.nodes.len(), 64);
    let ReadStats { file_bytes, bytes_read, reads } = counted.stats();
    assert!(file_bytes > 2 << 30, "the file has {file_bytes} bytes");
    assert!(bytes_read < 1 << 20, "{bytes_read} bytes were read");
    assert!(reads < 100, "{reads} reads");
}

/// What every decoded graph keeps: ids in range, names unique, nodes after those they read from.
#[track_caller]
pub(crate) fn assert_sound(graph: &Graph) {
    let mut made = vec![false; graph.values.len()];
    for (place, value) in made.iter_mut().zip(&graph.values) {
        *place = value.initializer.is_some();
        assert!(!value.name.is_empty());
    }
    let mut make = |id: ValueId| assert!(!std::mem::replace(&mut made[id.0], true), "made twice");
    graph.inputs.iter().for_each(|&id| make(id));
    for node in &graph.nodes {
        for id in node.inputs.iter().flatten() {
            assert!(made[id.0], "{} reads what is not there yet", node.label(graph));
        }
        for &id in node.outputs.iter().flatten() {
            assert!(!std::mem::replace(&mut made[id.0], true), "made twice");
        }
    }
    assert!(graph.outputs.iter().all(|id| made[id.0]), "an output is missing");
    let mut names: Vec<_> = graph.values.iter().map(|value| &value.name).collect();
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name twice");
}

/// One change to a file.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
    Cut(usize),
}

pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    let at = || any::<usize>();
    prop_oneof![
        8 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        2 => (at(), prop::collection::vec(any::<u8>(), 1..12)).prop_map(|(at, b)| Edit::Insert(at, b)),
        2 => (at(), 1..64_usize).prop_map(|(at, size)| Edit::Remove(at, size)),
        2 => (at(), 1..2000_usize).prop_map(|(at, size)| Edit::Repeat(at, size)),
        1 => at().prop_map(Edit::Cut),
    ]
}

pub(crate) fn apply(bytes: &mut Vec<u8>, edit: Edit) {
    let size = bytes.len();
    if size == 0 {
        return;
    }
    match edit {
        Edit::Set(at, byte) => bytes[at % size] = byte,
        Edit::Insert(at, new) => drop(bytes.splice(at % size..at % size, new)),
        Edit::Remove(at, n) => drop(bytes.drain(at % size..(at % size + n).min(size))),
        Edit::Repeat(at, n) => {
            let part = bytes[at % size..(at % size + n).min(size)].to_vec();
            drop(bytes.splice(at % size..at % size, part));
        }
        Edit::Cut(at) => bytes.truncate(at % size),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x0816),
        ..ProptestConfig::default()
    })]

    #[test]
    fn mutated_files_never_panic(which in 0..3_usize, edits in prop::collection::vec(edit(), 1..8)) {
        let name = ["train/alexnet", "eval/resnet18", "dynamo/alexnet"][which];
        let mut bytes = fixtures::read(&format!("models/{name}.onnx"));
        for edit in edits {
            apply(&mut bytes, edit);
        }
        if let Ok(graph) = open(&bytes) {
            assert_sound(&graph);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        // After a plausible beginning, so that some of them get further than the first byte.
        let model = Proto::new().int(1, 8).raw(&bytes).to_bytes();
        let graph = Proto::new().int(1, 8).bytes(7, &bytes).to_bytes();
        for bytes in [bytes, model, graph] {
            if let Ok(graph) = open(&bytes) {
                assert_sound(&graph);
            }
        }
    }
}
