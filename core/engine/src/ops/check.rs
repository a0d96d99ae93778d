//! Cases of shape rules as lines of text, and drawn at random.
//!
//! `Gather float32[2,3] int64[1]:0 axis=1`: operator, inputs (with elements after a colon, `-` for
//! one left out), attributes; `@9` sets the version of the operator set. The result is written the
//! same way, folded elements included.
//!
//! [`events`] runs the rule of such a case and records its allocations and frees.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::bytes::Bytes;
use crate::config::{Cudnn, PyTorch};
use crate::eager::{Hardware, Runtime};
use crate::graph::{Attribute, Elements, Literal, Node, ValueId};
use crate::ops::{Call, Inference, Made, Operand, Operator, fold, lookup};
use crate::tensor::{DType, TensorType, numel};
use crate::trace::{Category, Event, Trace};

/// Runs the rule of the operator in `call` and compares with `expected`: outputs, or part of the
/// error after `error: `.
#[track_caller]
pub(super) fn check(call: &str, expected: &str) {
    let n_outputs = expected.split_whitespace().count();
    let found = run(call, n_outputs);
    match (expected.strip_prefix("error: "), found) {
        (None, Ok(found)) => assert_eq!(found, expected, "{call}"),
        (Some(part), Err(error)) => assert!(error.contains(part), "{call}: {error}"),
        (_, found) => panic!("{call}: {found:?} where {expected} is expected"),
    }
}

/// A case, read.
struct Case {
    node: Node,
    opset: i64,
    types: Vec<Option<TensorType>>,
    elements: Vec<Option<Elements>>,
    row: &'static Operator,
}

fn read(call: &str, n_outputs: usize) -> Case {
    let mut words = call.split_whitespace();
    let name = words.next().unwrap();
    let microsoft = name.strip_prefix("com.microsoft.").map(|op| ("com.microsoft", op));
    let (domain, op) = microsoft.or_else(|| name.split_once('.')).unwrap_or(("", name));
    let (op, domain) = (op.to_owned(), domain.to_owned());
    let mut node =
        Node { op, domain, outputs: vec![Some(ValueId(99)); n_outputs], ..Node::default() };
    let (mut types, mut elements, mut opset) = (Vec::new(), Vec::new(), 20);
    for word in words {
        if let Some(version) = word.strip_prefix('@') {
            opset = version.parse().unwrap();
        } else if let Some((name, value)) = word.split_once('=') {
            node.attributes.insert(name.to_owned(), attribute(value));
        } else if word == "-" {
            node.inputs.push(None);
        } else {
            let (ty, folded) = tensor(word);
            node.inputs.push(Some(ValueId(types.len())));
            types.push(Some(ty));
            elements.push(folded);
        }
    }
    let row = lookup(&node.domain, &node.op).expect("the operator has a row");
    let n = node.inputs.len();
    assert!(row.inputs.contains(&n), "{call}: {n} inputs");
    Case { node, opset, types, elements, row }
}

fn run(call: &str, n_outputs: usize) -> Result<String, String> {
    let Case { node, opset, types, elements, row } = read(call, n_outputs);
    let mut inference = Inference::new(&node, opset, &types, &elements);
    (row.infer)(&mut inference).map_err(|error| error.to_string())?;
    let (made, _) = inference.finish();
    Ok(made.iter().map(show).collect::<Vec<_>>().join(" "))
}

/// A100.
pub(crate) const HARDWARE: Hardware = Hardware {
    capability: (8, 0),
    multiprocessors: 108,
    threads_per_multiprocessor: 2048,
    cublas_workspace: Bytes::mib(8),
    cudnn: Cudnn::V9,
};

/// What the operator in `call` with one output does to memory, an operator of PyTorch's a line, its
/// allocations as `+name bytes` and its frees as `-name`: the forward, then after `drop` what is not
/// saved once nobody holds the output, then the backward. All floating inputs are parameters.
pub(super) fn events(call: &str) -> String {
    events_under(call, None)
}

/// The same, with the forward under autocast to a type.
pub(super) fn events_under(call: &str, autocast: Option<DType>) -> String {
    let Case { mut node, opset, mut types, mut elements, row } = read(call, 1);
    let rt = Runtime::new(HARDWARE, PyTorch::LATEST);
    let place = |ty: &TensorType| {
        let tensor = rt.place(ty, Category::Parameter, "");
        if ty.dtype.is_floating() { rt.parameter(&tensor, "").0 } else { tensor }
    };
    let inputs = node.inputs.iter().map(|input| match input.and_then(|id| types[id.0].as_ref()) {
        Some(ty) => Operand::Tensor(place(ty)),
        None => Operand::Absent,
    });
    let inputs: Vec<Operand> = inputs.collect();
    let mut inference = Inference::new(&node, opset, &types, &elements);
    (row.infer)(&mut inference).unwrap();
    let (made, _) = inference.finish();
    node.outputs = vec![Some(ValueId(types.len()))];
    types.push(made[0].ty.clone());
    elements.push(None);
    let placed = rt.events();
    let mut call = Call::new(&rt, &node, opset, (&types, &elements), inputs.clone().into());
    rt.autocast(autocast, || row.run.expect("the operator runs")(&mut call)).unwrap();
    let output = call.finish().remove(0).expect("an output");
    let ran = rt.events();
    let (dtype, sizes) = (output.dtype(), output.sizes().to_vec());
    let scalar = rt.without_memory(|| rt.empty(DType::Float32, &[]));
    let root = rt.differentiable("gradient", scalar, &[&output], &[], move |pass| {
        vec![Some(pass.rt.empty(dtype, &sizes))]
    });
    rt.enter_operator("drop");
    drop(output);
    let dropped = rt.events();
    rt.backward(&root, &());
    let trace = rt.into_trace();
    drop((inputs, root));
    let parts = [placed..ran, ran..dropped, dropped..trace.events.len()];
    let mut names = BTreeMap::new();
    parts.map(|part| spell(&trace, part, &mut names)).concat()
}

/// Events of a range, those of one operator in a line.
fn spell(
    trace: &Trace,
    range: std::ops::Range<usize>,
    names: &mut BTreeMap<usize, char>,
) -> String {
    let (mut text, mut before) = (String::new(), None);
    for at in range {
        let operator = trace.label(trace.operators[at]);
        if before.replace(operator) != Some(operator) {
            let gap = if text.is_empty() { "" } else { "\n" };
            write!(text, "{gap}{operator}:").unwrap();
        }
        let id = trace.events[at].storage();
        let next = char::from(b'a' + u8::try_from(names.len()).unwrap());
        let name = *names.entry(id.index()).or_insert(next);
        match trace.events[at] {
            Event::Alloc(_) => write!(text, " +{name} {}", trace.storages[id.index()].requested.0),
            Event::Free(_) => write!(text, " -{name}"),
        }
        .unwrap();
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn show(made: &Made) -> String {
    let Some(ty) = &made.ty else { return "?".to_owned() };
    let elements = match &made.elements {
        None => String::new(),
        Some(Elements::Ints(list)) => format!(":{}", join(list)),
        Some(Elements::Floats(list)) => format!(":{}", join(list)),
    };
    format!("{}[{}]{elements}", ty.dtype, join(&ty.dims))
}

fn join<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok().expect("a number")).collect()
}

fn tensor(word: &str) -> (TensorType, Option<Elements>) {
    let (ty, elements) = match word.split_once(':') {
        Some((ty, elements)) => (ty, Some(elements)),
        None => (word, None),
    };
    let (name, dims) = ty.strip_suffix(']').and_then(|ty| ty.split_once('[')).expect("a type");
    let dtype: DType = serde_json::from_str(&format!("\"{name}\"")).expect("an element type");
    let elements = elements.map(|list| {
        if dtype.is_floating() {
            Elements::Floats(numbers(list))
        } else {
            Elements::Ints(numbers(list))
        }
    });
    (TensorType::new(dtype, numbers(dims)), elements)
}

/// `3`, `0.5`, `[1,2]`, `[0.5]`, a tensor as above, or a text.
fn attribute(value: &str) -> Attribute {
    if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        if list.contains('.') {
            return Attribute::Floats(numbers(list));
        }
        return Attribute::Ints(numbers(list));
    }
    if value.contains("]:") {
        let (ty, elements) = tensor(value);
        return Attribute::Tensor(Literal { dtype: ty.dtype, dims: ty.dims.into_vec(), elements });
    }
    let int = value.parse().map(Attribute::Int);
    int.or_else(|_| value.parse().map(Attribute::Float))
        .unwrap_or_else(|_| Attribute::String(value.to_owned()))
}

/// Numbers that only look random; the same in every run.
pub(super) struct Seed(pub(super) u64);

impl Seed {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// An integer as files have them, absurd ones included.
    fn int(&mut self) -> i64 {
        self.pick(&[0, 1, 2, 3, -1, -2, 7, i64::MAX, i64::MIN])
    }
}

/// A node with inputs and attributes of any kind, as many as its operator takes.
pub(super) struct Sample {
    pub(super) node: Node,
    pub(super) types: Vec<Option<TensorType>>,
    pub(super) elements: Vec<Option<Elements>>,
}

/// Attributes that shapes depend on.
const ATTRIBUTES: [&str; 31] = [
    "axis",
    "axes",
    "kernel_shape",
    "strides",
    "pads",
    "dilations",
    "group",
    "perm",
    "to",
    "split",
    "start",
    "end",
    "k",
    "shape",
    "blocksize",
    "batch_dims",
    "keepdims",
    "output_padding",
    "q_num_heads",
    "kv_num_heads",
    "num_outputs",
    "output_shape",
    "starts",
    "ends",
    "steps",
    "layout",
    "onesided",
    "sample_size",
    "dtype",
    "ceil_mode",
    "pooled_shape",
];

impl Sample {
    pub(super) fn draw(seed: &mut Seed, row: &Operator) -> Self {
        let mut node = Node { op: row.name.to_owned(), ..Node::default() };
        let (mut types, mut elements) = (Vec::new(), Vec::new());
        let n_inputs = seed.below(4).clamp(*row.inputs.start(), *row.inputs.end());
        for position in 0..n_inputs {
            let n_dims = seed.below(5);
            let dims = (0..n_dims).map(|_| seed.pick(&[0, 1, 2, 3, 4, 8, 1 << 40, u64::MAX]));
            let dims: Vec<u64> = dims.collect();
            let dtype = seed.pick(&[DType::Int64, DType::Float32, DType::Bool]);
            let known = numel(&dims) <= 64 && seed.below(4) != 0;
            elements.push(known.then(|| {
                let ints = Elements::Ints((0..numel(&dims)).map(|_| seed.int()).collect());
                fold::cast(&ints, dtype)
            }));
            types.push(Some(TensorType::new(dtype, dims)));
            node.inputs.push(Some(ValueId(position)));
        }
        for _ in 0..seed.below(4) {
            let name = seed.pick(&ATTRIBUTES).to_owned();
            let value = match seed.below(5) {
                0 | 1 => Attribute::Int(seed.int()),
                length => Attribute::Ints((0..length).map(|_| seed.int()).collect()),
            };
            node.attributes.insert(name, value);
        }
        node.outputs = vec![Some(ValueId(0)); seed.below(4)];
        Self { node, types, elements }
    }
}
