//! The roles of the file's tensors: trained, state, or plain numbers.

use std::collections::BTreeSet;

use crate::adapt;
use crate::graph::{Graph, Member, Node, Value, ValueId};
use crate::infer::Typed;
use crate::ops;
use crate::recover::{LEAVES, Program};

/// What a value of the graph is to a training run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Trained, with a gradient and optimizer state.
    Parameter,
    /// On the device, but not trained.
    Buffer,
    /// Fed by the data loader.
    Input,
    /// A Python number or a shape: never on the device.
    Host,
    /// Made by an operator.
    Computed,
}

/// Last parts of the names under which models register floating-point state that is not trained:
/// tables of rotary and sinusoidal positions, masks.
const BUFFERS: [&str; 9] = [
    "inv_freq",
    "embed_positions",
    "cos_cached",
    "sin_cached",
    "freqs_cis",
    "masked_bias",
    "attn_mask",
    "position_encoding",
    "pe",
];

/// Last parts of the names under which models register single numbers that are trained: the gain of a
/// residual branch (`skipinit_gain` in timm's `nfnet.py`), the temperature of CLIP and its kin. Others
/// without a dimension are constants (`embed_scale` in transformers).
const NUMBERS: [&str; 6] =
    ["alpha_attn", "alpha_dense", "learnable_gain", "logit_bias", "logit_scale", "skipinit_gain"];

/// COUNT: operators between a weight and its layer.
const CHAIN_MAX: usize = 8;

/// The role of every value, by [`ValueId`].
pub fn roles(program: &Program, typed: &Typed) -> Vec<Role> {
    let graph = &program.graph;
    let uses = Uses::of(program);
    let members = graph.members_by_name();
    let member = |name: &str| members.get(name).copied();
    let mut roles: Vec<Role> = (0..graph.values.len())
        .map(|index| match graph.values.get(index).and_then(|v| v.initializer.as_ref()) {
            Some(_) => initializer_role(graph, typed, &uses, &member, ValueId(index)),
            None => Role::Computed,
        })
        .collect();
    for input in &graph.inputs {
        if let Some(role) = roles.get_mut(input.0) {
            *role = if uses.read(*input) { Role::Input } else { Role::Host };
        }
    }
    // What an earlier pass made.
    for past in graph.pasts() {
        if let Some(role) = roles.get_mut(past.0) {
            *role = Role::Computed;
        }
    }
    roles
}

fn initializer_role(
    graph: &Graph,
    typed: &Typed,
    uses: &Uses,
    member: &dyn Fn(&str) -> Option<Member>,
    id: ValueId,
) -> Role {
    let Some(ty) = typed.types.get(id.0).and_then(Option::as_ref) else { return Role::Host };
    let name = graph.value_name(id);
    if adapt::is_adapter(name) {
        return Role::Parameter;
    }
    if uses.is_number(id) {
        return Role::Host;
    }
    if uses.is_statistic(id) || uses.is_buffer(id) {
        return Role::Buffer;
    }
    if !uses.read(id) && graph.idle.binary_search(&id).is_err() {
        // What a program or a trace lists lies on the device, and has no gradient where nothing reads it.
        let is_buffer = graph.level.is_program() && member(name) == Some(Member::Buffer)
            || graph.level.is_trace() && member(name).is_some();
        return if is_buffer { Role::Buffer } else { Role::Host };
    }
    match member(name) {
        Some(Member::Parameter) if ty.dtype.is_floating() => return Role::Parameter,
        Some(Member::Buffer) => return Role::Buffer,
        // A program lists all that is on the device.
        _ if graph.level.is_program() => return Role::Host,
        _ => {}
    }
    let is_state_name = graph.members.is_empty()
        && graph.value(id).is_some_and(Value::has_state_name)
        && graph.constants.binary_search(&id).is_err();
    if ty.dtype.is_floating() {
        let leaf = name.rsplit('.').next().unwrap_or(name);
        if BUFFERS.contains(&leaf) || uses.is_frozen_norm(name) {
            return Role::Buffer;
        }
        if ty.rank() == 0 && is_state_name && NUMBERS.contains(&leaf) {
            return Role::Parameter;
        }
        // Tables of positions are constants of the code; trained embeddings are named or bare.
        let is_table = uses.is_table(id) && !name.contains("Constant") && ty.rank() > 1;
        if uses.is_weight(id) || is_table {
            return Role::Parameter;
        }
        if ty.numel() <= 1 && !is_state_name {
            return Role::Host;
        }
        return if !is_state_name || ty.rank() == 0 { Role::Buffer } else { Role::Parameter };
    }
    if ty.numel() <= 1 || !is_state_name && ty.rank() <= 1 { Role::Host } else { Role::Buffer }
}

/// How initializers are read.
struct Uses {
    read: Vec<bool>,
    statistic: Vec<bool>,
    weight: Vec<bool>,
    table: Vec<bool>,
    /// Paths of normalisations whose running variance is read by other operators: `FrozenBatchNorm2d`, which has
    /// four buffers and no parameters.
    frozen_norms: BTreeSet<String>,
    /// Scales, sizes and the like: no tensors, though some files keep them among the weights.
    number: Vec<bool>,
    /// Assumed not to be trained, by [`Program::buffers`].
    buffers: BTreeSet<ValueId>,
}

impl Uses {
    fn of(program: &Program) -> Self {
        let none = vec![false; program.graph.values.len()];
        let nodes = program.nodes.iter().map(AsRef::as_ref);
        let mut uses = Self {
            read: none.clone(),
            statistic: none.clone(),
            weight: none.clone(),
            table: none,
            frozen_norms: BTreeSet::new(),
            number: ops::only_numbers(nodes, program.graph.values.len()),
            buffers: program.buffers.clone(),
        };
        for node in &program.nodes {
            for (position, input) in node.inputs.iter().enumerate() {
                let Some(input) = input else { continue };
                mark(&mut uses.read, *input);
                match (node.op.as_str(), position) {
                    ("BatchNormalization", 3 | 4)
                    | ("DequantizeLinear" | "QuantizeLinear", 1 | 2) => {
                        mark(&mut uses.statistic, *input);
                    }
                    (
                        "Conv"
                        | "ConvTranspose"
                        | "Gemm"
                        | "BatchNormalization"
                        | "LayerNormalization"
                        | "InstanceNormalization"
                        | "GroupNormalization"
                        | "RMSNormalization"
                        | "Linear"
                        | "Adapted"
                        | "Quantized"
                        | "LSTM"
                        | "Recurrent"
                        | "GRU"
                        | "RNN"
                        | "PRelu",
                        1..,
                    )
                    | ("MatMul", _) => mark(&mut uses.weight, *input),
                    ("Gather", 0) => mark(&mut uses.table, *input),
                    _ => {}
                }
            }
        }
        uses.follow_weights(program);
        for output in &program.graph.outputs {
            mark(&mut uses.read, *output);
        }
        for (at, value) in program.graph.values.iter().enumerate() {
            let id = ValueId(at);
            let is_other = value.initializer.is_some() && uses.read(id) && !uses.is_statistic(id);
            if let Some(path) = value.name.strip_suffix("running_var").filter(|_| is_other) {
                uses.frozen_norms.insert(path.to_owned());
            }
        }
        uses
    }

    /// Marks weights that reach their layer through other operators.
    fn follow_weights(&mut self, program: &Program) {
        let sources = Sources::of(program);
        for node in &program.nodes {
            let operands = || node.inputs.iter().flatten().copied();
            if node.multiplies() {
                let weights = operands().filter_map(|value| sources.quantized(value));
                weights.for_each(|weight| mark(&mut self.weight, weight));
            } else if node.op == "Add"
                && operands().any(|value| sources.producer(value).is_some_and(Node::multiplies))
            {
                let biases = operands().filter_map(|value| sources.viewed_constant(value));
                biases.for_each(|bias| mark(&mut self.weight, bias));
            }
        }
    }

    fn read(&self, id: ValueId) -> bool {
        self.read.get(id.0).copied().unwrap_or(false)
    }

    /// Whether a tensor of this name is a buffer of a frozen normalisation.
    fn is_frozen_norm(&self, name: &str) -> bool {
        LEAVES.iter().any(|leaf| {
            name.strip_suffix(leaf).is_some_and(|path| self.frozen_norms.contains(path))
        })
    }

    fn is_buffer(&self, id: ValueId) -> bool {
        self.buffers.contains(&id)
    }

    fn is_statistic(&self, id: ValueId) -> bool {
        self.statistic.get(id.0).copied().unwrap_or(false)
    }

    fn is_number(&self, id: ValueId) -> bool {
        self.number.get(id.0).copied().unwrap_or(false)
    }

    fn is_table(&self, id: ValueId) -> bool {
        self.table.get(id.0).copied().unwrap_or(false)
    }

    fn is_weight(&self, id: ValueId) -> bool {
        self.weight.get(id.0).copied().unwrap_or(false)
    }
}

/// What values are made of: weights that pass through other operators on their way to a layer.
struct Sources<'p> {
    graph: &'p Graph,
    /// The node that makes each value.
    producers: Vec<Option<&'p Node>>,
}

impl<'p> Sources<'p> {
    fn of(program: &'p Program) -> Self {
        let mut producers = vec![None; program.graph.values.len()];
        for node in &program.nodes {
            for output in node.outputs.iter().flatten() {
                if let Some(slot) = producers.get_mut(output.0) {
                    *slot = Some(node.as_ref());
                }
            }
        }
        Self { graph: &program.graph, producers }
    }

    fn producer(&self, value: ValueId) -> Option<&'p Node> {
        self.producers.get(value.0).copied().flatten()
    }

    /// What a value is made of by such operators of one tensor, if it is a tensor of the file.
    fn origin(&self, mut value: ValueId, through: impl Fn(&Node) -> bool) -> Option<ValueId> {
        for _ in 0..CHAIN_MAX {
            match self.producer(value) {
                Some(node) if through(node) => value = node.input(0)?,
                Some(_) => return None,
                None => break,
            }
        }
        let known = self.graph.value(value)?.initializer.as_ref()?;
        known.dtype.is_floating().then_some(value)
    }

    /// The weight that is quantised and back at once, as training aware of quantisation does.
    fn quantized(&self, value: ValueId) -> Option<ValueId> {
        let is_back = |node: &Node| {
            node.op == "DequantizeLinear" || node.op.starts_with("fake_quantize_per_")
        };
        let last = self.producer(value)?;
        let through = |node: &Node| {
            is_back(node) || matches!(node.op.as_str(), "Cast" | "Clip" | "QuantizeLinear")
        };
        is_back(last).then(|| self.origin(value, through)).flatten()
    }

    /// The constant of the code that is added behind a layer in another form: its bias.
    fn viewed_constant(&self, value: ValueId) -> Option<ValueId> {
        let is_view = |node: &Node| {
            matches!(node.op.as_str(), "Identity" | "Reshape" | "Squeeze" | "Unsqueeze")
        };
        let source = self.origin(value, is_view).filter(|source| *source != value)?;
        self.graph.constants.binary_search(&source).ok().map(|_| source)
    }
}

fn mark(flags: &mut [bool], id: ValueId) {
    if let Some(flag) = flags.get_mut(id.0) {
        *flag = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::diagnostic::Diagnostics;
    use crate::graph::{DeclaredType, Dim, Literal, Node};
    use crate::infer::infer;
    use crate::recover::recover;
    use crate::tensor::DType;

    #[test]
    fn numbers_are_trained_where_they_are_known_to_be() {
        for (name, dims, expected) in [
            ("stages.0.0.skipinit_gain", &[][..], Role::Parameter),
            ("logit_scale", &[], Role::Parameter),
            ("embed_tokens.embed_scale", &[], Role::Buffer),
            ("blocks.0.attn.scale", &[], Role::Buffer),
            ("blocks.0.gamma", &[8], Role::Parameter),
            ("onnx::Mul_12", &[], Role::Host),
        ] {
            let dtype = DType::Float32;
            let declared = DeclaredType { dtype: Some(dtype), dims: Some(vec![Dim::Known(8)]) };
            let literal = Literal { dtype, dims: dims.to_vec(), elements: None };
            let value = |name: &str| Value { name: name.to_owned(), ..Value::default() };
            let graph = Graph {
                producer: "pytorch 2.15.0".to_owned(),
                opset: 17,
                values: vec![
                    Value { declared: Some(declared), ..value("x") },
                    Value { initializer: Some(literal), ..value(name) },
                    value("y"),
                ],
                nodes: vec![Arc::new(Node {
                    op: "Mul".to_owned(),
                    inputs: vec![Some(ValueId(0)), Some(ValueId(1))],
                    outputs: vec![Some(ValueId(2))],
                    ..Node::default()
                })],
                inputs: vec![ValueId(0)],
                outputs: vec![ValueId(2)],
                ..Graph::default()
            };
            let sink = Diagnostics::default();
            let graph = Arc::new(graph);
            let typed = Arc::new(infer(&graph, &BTreeMap::new(), &sink).unwrap());
            let program = recover(&graph, &typed, &Config::default(), &sink);
            assert_eq!(roles(&program, &typed)[1], expected, "{name}");
        }
    }
}
