//! Small files as text, and the program that is recovered from them, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::Expect;

use super::recover;
use crate::config::Config;
use crate::diagnostic::Diagnostics;
use crate::graph::{
    Attribute, DeclaredType, Dim, Elements, Graph, Literal, Member, Node, Origin, Value, ValueId,
};
use crate::infer::{Typed, infer};
use crate::tensor::{DType, TensorType};

mod activations;
mod attention;
mod buffers;
mod calls;
mod dropout;
mod merged;
mod norms;

/// Recovers from `file`, a line per statement (types are `f`, `b` and `i`):
///
/// - `member NAME`: a parameter of the dynamo exporter's signature, `buffer NAME` a buffer;
/// - `input NAME TYPE` and `state NAME TYPE`, with elements behind the type;
/// - `MODULE: OUTPUT = OP(INPUT, …) ATTRIBUTE=INTEGERS # ATEN CLASS | CALL`;
/// - the last node's output is the model's.
#[track_caller]
fn check(file: &str, expected: &Expect) {
    check_with(&Config::default(), file, expected);
}

#[track_caller]
fn check_with(config: &Config, file: &str, expected: &Expect) {
    expected.assert_eq(&recovered(config, file));
}

/// The program that is recovered from a file, as text, and what is said of it.
fn recovered(config: &Config, file: &str) -> String {
    let graph = parse(file);
    let sink = Diagnostics::default();
    let program = recover(&graph, &types(&graph), config, &sink);
    let mut text = String::new();
    let name = |id: &Option<ValueId>| {
        id.map_or_else(|| "-".to_owned(), |id| program.graph.value_name(id).to_owned())
    };
    let names = |ids: &[Option<ValueId>]| ids.iter().map(name).collect::<Vec<_>>().join(", ");
    for &id in &program.placement {
        let ty = program.typed.ty(id).expect("state is typed");
        writeln!(text, "state {} {ty}", program.graph.value_name(id)).unwrap();
    }
    for (held, until) in &program.names {
        writeln!(text, "{} until {}", name(&Some(*held)), name(&Some(*until))).unwrap();
    }
    for node in &program.nodes {
        let (outputs, inputs) = (names(&node.outputs), names(&node.inputs));
        write!(text, "{}: {outputs} = {}({inputs})", node.module, node.op).unwrap();
        for (name, attribute) in &node.attributes {
            match attribute {
                Attribute::Int(n) => write!(text, " {name}={n}").unwrap(),
                Attribute::Ints(list) => write!(text, " {name}={list:?}").unwrap(),
                Attribute::Float(x) => write!(text, " {name}={x}").unwrap(),
                other => panic!("{other:?}"),
            }
        }
        text.push('\n');
    }
    for diagnostic in sink.into_sorted() {
        writeln!(text, "{} {}", diagnostic.severity.name(), diagnostic.code).unwrap();
    }
    text
}

fn parse(file: &str) -> Arc<Graph> {
    let mut graph = Graph { producer: "pytorch 2.15.0".to_owned(), opset: 20, ..Graph::default() };
    let mut ids = BTreeMap::new();
    for line in file.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["member", name] => graph.members.push(((*name).to_owned(), Member::Parameter)),
            ["buffer", name] => graph.members.push(((*name).to_owned(), Member::Buffer)),
            ["input", name, ty] => {
                let id = value(&mut graph, &mut ids, name);
                graph.inputs.push(id);
                let ty = tensor(ty);
                let dims = ty.dims.iter().map(|&n| Dim::Known(n)).collect();
                let declared = DeclaredType { dtype: Some(ty.dtype), dims: Some(dims) };
                graph.values[id.0].declared = Some(declared);
            }
            ["state", name, ty, elements @ ..] => {
                let id = value(&mut graph, &mut ids, name);
                let ty = tensor(ty);
                let elements = elements.first().map(|list| match ty.dtype {
                    DType::Float32 => Elements::Floats(numbers(list)),
                    _ => Elements::Ints(numbers(list)),
                });
                let literal = Literal { dtype: ty.dtype, dims: ty.dims.into_vec(), elements };
                graph.values[id.0].initializer = Some(literal);
            }
            _ => {
                let node = node(line, &mut graph, &mut ids);
                graph.nodes.push(Arc::new(node));
            }
        }
    }
    let last = graph.nodes.last().expect("there are nodes");
    graph.outputs = last.outputs.iter().copied().flatten().collect();
    Arc::new(graph)
}

/// The types of a file's values.
fn types(graph: &Graph) -> Arc<Typed> {
    let typed = infer(graph, &BTreeMap::new(), &Diagnostics::default());
    Arc::new(typed.expect("the file has types"))
}

fn value(graph: &mut Graph, ids: &mut BTreeMap<String, ValueId>, name: &str) -> ValueId {
    *ids.entry(name.to_owned()).or_insert_with(|| {
        graph.values.push(Value { name: name.to_owned(), ..Value::default() });
        ValueId(graph.values.len() - 1)
    })
}

fn node(line: &str, graph: &mut Graph, ids: &mut BTreeMap<String, ValueId>) -> Node {
    let (statement, origin) = line
        .split_once(" # ")
        .map_or((line, None), |(statement, origin)| (statement, Some(origin)));
    let (module, statement) = statement.split_once(": ").expect("a module");
    let (outputs, call) = statement.split_once(" = ").expect("an output");
    let (op, rest) = call.split_once('(').expect("inputs");
    let (inputs, attributes) = rest.split_once(')').expect("inputs end");
    let mut list = |text: &str| {
        let names = text.split(", ").filter(|name| !name.is_empty());
        names.map(|name| Some(value(graph, ids, name))).collect::<Vec<_>>()
    };
    let attribute = |text: &str| {
        let (name, number) = text.split_once('=').expect("an attribute");
        let value = match number.strip_prefix('[') {
            Some(list) => Attribute::Ints(numbers(list.trim_end_matches(']'))),
            None => Attribute::Int(number.parse().unwrap()),
        };
        (name.to_owned(), value)
    };
    Node {
        name: module.to_owned(),
        op: op.to_owned(),
        inputs: list(inputs),
        outputs: list(outputs),
        attributes: attributes.split_whitespace().map(attribute).collect(),
        module: module.to_owned(),
        origin: origin.map(|origin| {
            let (names, call) = origin.split_once(" | ").unwrap_or((origin, ""));
            let (aten, class) = names.split_once(' ').unwrap_or((names, ""));
            let (aten, class, call) = (aten.to_owned(), class.to_owned(), call.to_owned());
            Origin { aten, class, call, ..Origin::default() }
        }),
        ..Node::default()
    }
}

/// `f[2,3]` is a tensor of 32-bit floats, `i[2]` one of 64-bit integers.
fn tensor(text: &str) -> TensorType {
    let (dtype, dims) = text.split_once('[').expect("dimensions");
    let dtype = match dtype {
        "f" => DType::Float32,
        "b" => DType::Bool,
        _ => DType::Int64,
    };
    TensorType::new(dtype, numbers(dims.trim_end_matches(']')))
}

fn numbers<T: std::str::FromStr>(list: &str) -> Vec<T> {
    let numbers = list.split(',').filter(|text| !text.is_empty());
    numbers.map(|text| text.parse().ok().expect("a number")).collect()
}

std::thread_local! {
    /// COUNT: nodes that recoveries have looked at one after the other, in this test.
    static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A node of all nodes is looked at.
pub(super) fn count_visit() {
    VISITS.set(VISITS.get() + 1);
}

/// Ten times the blocks are ten times the work: no recovery walks all nodes for each of them.
#[test]
fn work_is_linear_in_the_nodes() {
    /// Each is written after `X`, of which every block has its own.
    const BLOCKS: [&str; 2] = [
        "state onnx::Conv_@1 f[4,4,1,1]
         state onnx::Conv_@2 f[4]
         state @.conv2.weight f[4,4,1,1]
         state @.bn2.weight f[4]
         state @.bn2.bias f[4]
         state @.bn2.running_mean f[4]
         state @.bn2.running_var f[4]
         @.conv1: @a = Conv(X, onnx::Conv_@1, onnx::Conv_@2)
         @: @b = Relu(@a)
         @.conv2: @c = Conv(@b, @.conv2.weight)
         @.bn2: @d = BatchNormalization(@c, @.bn2.weight, @.bn2.bias, @.bn2.running_mean, @.bn2.running_var)
         @: @e = Add(@d, X)
         @: @y = Relu(@e)",
        "state onnx::MatMul_@1 f[4,4]
         state @.bias f[4]
         @.fc: @a = MatMul(X, onnx::MatMul_@1)
         @.fc: @b = Add(@.bias, @a)
         @: @c = Softmax(@b)
         @: @y = Add(X, @c)",
    ];
    for block in BLOCKS {
        let visits = |count: usize| {
            let mut file = "input x f[2,4,4,4]\n".to_owned();
            for index in 0..count {
                let before =
                    index.checked_sub(1).map_or_else(|| "x".to_owned(), |i| format!("{i}y"));
                let block = block.replace('X', &before).replace('@', &index.to_string());
                writeln!(file, "{block}").unwrap();
            }
            let (graph, sink) = (parse(&file), Diagnostics::default());
            let typed = types(&graph);
            VISITS.set(0);
            let program = recover(&graph, &typed, &Config::default(), &sink);
            assert!(program.nodes.len() >= 3 * count, "{:?}", program.nodes.len());
            VISITS.get()
        };
        let (few, many) = (visits(10), visits(100));
        assert!(many <= 11 * few, "{few} visits of 10 blocks, {many} of 100");
    }
}
