//! Which of the file's tensors are trained, which are state, and which are mere numbers.

use crate::graph::{Graph, Member, Value, ValueId};
use crate::infer::Typed;
use crate::recover::Program;

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

/// The role of every value, by [`ValueId`].
pub fn roles(program: &Program<'_>, typed: &Typed) -> Vec<Role> {
    let graph = &program.graph;
    let uses = Uses::of(program);
    let mut roles: Vec<Role> = (0..graph.values.len())
        .map(|index| match graph.values.get(index).and_then(|v| v.initializer.as_ref()) {
            Some(_) => initializer_role(graph, typed, &uses, ValueId(index)),
            None => Role::Computed,
        })
        .collect();
    for input in &graph.inputs {
        if let Some(role) = roles.get_mut(input.0) {
            *role = if uses.read(*input) { Role::Input } else { Role::Host };
        }
    }
    roles
}

fn initializer_role(graph: &Graph, typed: &Typed, uses: &Uses, id: ValueId) -> Role {
    let Some(ty) = typed.types.get(id.0).and_then(Option::as_ref) else { return Role::Host };
    let name = graph.value_name(id);
    if uses.is_adapter(id) {
        return Role::Parameter;
    }
    if uses.is_statistic(id) {
        return Role::Buffer;
    }
    if !uses.read(id) && graph.idle.binary_search(&id).is_err() {
        // What a program or a trace lists lies on the device, and has no gradient where nothing reads it.
        let is_buffer = graph.is_program && graph.member(name) == Some(Member::Buffer)
            || graph.is_traced && graph.member(name).is_some();
        return if is_buffer { Role::Buffer } else { Role::Host };
    }
    match graph.member(name) {
        Some(Member::Parameter) if ty.dtype.is_floating() => return Role::Parameter,
        Some(Member::Buffer) => return Role::Buffer,
        // A program lists all that is on the device.
        _ if graph.is_program => return Role::Host,
        _ => {}
    }
    let is_state_name =
        graph.members.is_empty() && graph.value(id).is_some_and(Value::has_state_name);
    if ty.dtype.is_floating() {
        if name.rsplit('.').next().is_some_and(|leaf| BUFFERS.contains(&leaf)) {
            return Role::Buffer;
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
    /// Matrices of adapters, which no exporter lists: they are put in after the file was read.
    adapter: Vec<bool>,
}

impl Uses {
    fn of(program: &Program<'_>) -> Self {
        let none = vec![false; program.graph.values.len()];
        let mut uses = Self {
            read: none.clone(),
            statistic: none.clone(),
            weight: none.clone(),
            table: none.clone(),
            adapter: none,
        };
        for node in &program.nodes {
            for (position, input) in node.inputs.iter().enumerate() {
                let Some(input) = input else { continue };
                mark(&mut uses.read, *input);
                match (node.op.as_str(), position) {
                    ("BatchNormalization", 3 | 4) => mark(&mut uses.statistic, *input),
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
                        | "LSTM"
                        | "Recurrent"
                        | "GRU"
                        | "RNN"
                        | "PRelu",
                        1..,
                    )
                    | ("MatMul", _) => mark(&mut uses.weight, *input),
                    ("Gather", 0) => mark(&mut uses.table, *input),
                    ("Lora", 2..) => mark(&mut uses.adapter, *input),
                    _ => {}
                }
            }
        }
        for output in &program.graph.outputs {
            mark(&mut uses.read, *output);
        }
        uses
    }

    fn read(&self, id: ValueId) -> bool {
        self.read.get(id.0).copied().unwrap_or(false)
    }

    fn is_statistic(&self, id: ValueId) -> bool {
        self.statistic.get(id.0).copied().unwrap_or(false)
    }

    fn is_adapter(&self, id: ValueId) -> bool {
        self.adapter.get(id.0).copied().unwrap_or(false)
    }

    fn is_table(&self, id: ValueId) -> bool {
        self.table.get(id.0).copied().unwrap_or(false)
    }

    fn is_weight(&self, id: ValueId) -> bool {
        self.weight.get(id.0).copied().unwrap_or(false)
    }
}

fn mark(flags: &mut [bool], id: ValueId) {
    if let Some(flag) = flags.get_mut(id.0) {
        *flag = true;
    }
}
