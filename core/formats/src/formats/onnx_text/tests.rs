//! Tests of the reader: texts with their results, and refusals with their place.

use crate::formats::onnx;
use crate::graph::Graph;

fn open(text: &str) -> Result<Graph, String> {
    let read = |bytes: Vec<u8>| onnx::read(&mut bytes.as_slice());
    super::to_binary(&mut text.as_bytes()).and_then(read).map_err(|error| error.to_string())
}

#[test]
fn weights_without_contents_and_numbers_are_read() {
    let graph = open(
        r#"# A network of two layers.
        <ir_version: 8, opset_import: ["" : 17]>
        mlp (float[N,784] x) => (float[N,10] y)
        <float[784,256] w1, float[256] b1, float[256,10] w2, float[10] b2, float[N,256] h,
         int64[2] shape = {-1, 10}>
        {
            h = Gemm (x, w1, b1)
            [act] r = Relu (h)
            z = Gemm <alpha: float = 1, transB = 0> (r, w2, b2)
            y = Reshape (z, shape)
        }"#,
    )
    .unwrap();
    let weights = graph.values.iter().filter(|value| value.initializer.is_some());
    assert_eq!(
        weights.map(|w| w.name.as_str()).collect::<Vec<_>>(),
        ["w1", "b1", "w2", "b2", "shape"]
    );
    let nodes = graph.nodes.iter().map(|node| format!("{}:{}", node.label(&graph), node.op));
    assert_eq!(nodes.collect::<Vec<_>>(), ["h:Gemm", "act:Relu", "z:Gemm", "y:Reshape"]);
    assert_eq!((graph.opset, graph.inputs.len(), graph.outputs.len()), (17, 1, 1));
    let shape = graph.values.iter().find(|value| value.name == "shape").unwrap();
    assert_eq!(shape.initializer.as_ref().unwrap().ints(), Some(&[-1, 10][..]));
}

#[test]
fn functions_and_graphs_inside_are_read() {
    let graph = open(
        r#"<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
        g (float[N,"in features"] x, bool c) => (float[N,4] y)
        {
            a = own.twice <times = 3> (x)
            y = If (c) <then_branch = t () => (float[N,4] b) { b = Relu(a) },
                        else_branch = e () => (float[N,4] d) { d = Identity(a) }>
        }
        <domain: "own", opset_import: ["" : 18]>
        twice <times> (p) => (q) { s = Constant <value = float[1] {2.0}> ()  q = Mul(p, s) }"#,
    )
    .unwrap();
    let ops: Vec<_> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["Mul", "If"]);
}

#[test]
fn errors_name_line_and_column() {
    for (text, expected) in [
        ("<ir_version: 8", "ONNX text, line 1, column 15: expected `,` or `>`, found the end"),
        ("<ir: 8>", "ONNX text, line 1, column 2: expected one of ir_version"),
        (
            "g (float[N] x) => (float[N] y)\n{ y = Relu (x }",
            "ONNX text, line 2, column 15: expected `,` or `)`, found `}`",
        ),
        (
            "g (flat[N] x) => () {}",
            "ONNX text, line 1, column 4: expected an element type such as `float` or `int64`",
        ),
        (
            "g (float[N] x) => (float[N] y) { y = Relu <a = ?> (x) }",
            "ONNX text, line 1, column 48: expected a number, a text",
        ),
        ("g (float[N] x) => (float[N] y) { y = Relu(z) }", "\"y\" (Relu) reads \"z\""),
        ("g (float[N] x) => (float[N] y) {}", "the file's graph has no operators"),
    ] {
        let error = open(text).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn graphs_do_not_nest_without_end() {
    let text =
        format!("g () => () {{ y = If () <b = {}", "h () => () { z = If () <b = ".repeat(500));
    let error = open(&text).unwrap_err();
    assert!(error.contains("graphs inside each other"), "{error}");
}

#[test]
fn beginnings_are_told() {
    for (head, expected) in [
        ("<ir_version: 8", true),
        ("< opset_import : [\"\": 1]>", true),
        ("# text\n<ir_version: 8", true),
        ("agraph (float[N] x) => (float[N] y) {", true),
        ("<html>", false),
        ("<?xml version", false),
        ("Net(\n  (conv1): Conv2d(3, 64)", false),
        ("layers:\n  - a => b", false),
        ("{}", false),
    ] {
        assert_eq!(super::begins(head), expected, "{head}");
    }
}
