//! [`Layer`]: a model as formulas and learned estimators see it, a list of layers with their sizes.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Model, Stages};
use crate::config::{Config, Quantize};
use crate::error::Error;
use crate::graph::{Node, ValueId};
use crate::recover::Program;
use crate::tensor::{DType, numel};

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LayerKind {
    /// `nn.Conv2d` and its kin, transposed ones too.
    Convolution,
    /// `nn.Linear`.
    Linear,
    /// Normalisation over anything.
    Norm,
    /// An activation function.
    Activation,
    /// Pooling of any kind.
    Pooling,
    /// `nn.Dropout`.
    Dropout,
    /// A table of vectors, one for each word or position.
    Embedding,
    /// LSTM, GRU or a plain recurrence.
    Recurrent,
    /// Attention: its product of queries and keys, and all behind it up to the product with values.
    Attention,
}

/// COUNT: layers that a layer can read. Sums reach back to every layer of a residual stream; the nearest count.
const MOST_SOURCES: usize = 2;

/// One layer that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// What it is.
    pub kind: LayerKind,
    /// The operator that it is: `Relu`.
    pub op: String,
    /// The layers whose results it reads, by position, through arithmetic and views; at most the nearest two.
    pub sources: Vec<usize>,
    /// Dimensions of its result; of attention, those of the queries.
    pub dims: Vec<u64>,
    /// Dimensions of its parameters, the weight first.
    pub parameters: Vec<Vec<u64>>,
    /// Whether it looks up numbers of the batch: words, not positions.
    pub reads_words: bool,
}

impl Layer {
    /// COUNT: elements of its result.
    pub fn outputs(&self) -> u64 {
        numel(&self.dims)
    }

    /// COUNT: its parameters.
    pub fn parameter_count(&self) -> u64 {
        self.parameters.iter().map(|dims| numel(dims)).fold(0, u64::saturating_add)
    }
}

impl Model {
    /// The layers that a run has, in the order in which they run, without adapters.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn layers(&self, config: &Config, stages: &mut Stages) -> Result<Vec<Layer>, Error> {
        let (lora, quantize) = (Vec::new(), Quantize::None);
        let recovered = stages.program(self, &Config { lora, quantize, ..config.clone() })?;
        let program = &recovered.program;
        let mut layers = Vec::new();
        let mut makers: BTreeMap<ValueId, Vec<usize>> = BTreeMap::new();
        let mut words: BTreeSet<ValueId> = program.graph.inputs.iter().copied().into_set();
        words.retain(|id| is_integer(program, *id));
        for node in &program.nodes {
            let read = node.inputs.iter().flatten().filter_map(|id| makers.get(id)).flatten();
            let mut sources: Vec<usize> = read.copied().into_set().into_iter().collect();
            sources.drain(..sources.len().saturating_sub(MOST_SOURCES));
            let has_words = node.inputs.iter().flatten().any(|id| words.contains(id));
            if has_words {
                let made = node.outputs.iter().flatten().copied();
                words.extend(made.filter(|id| is_integer(program, *id)));
            }
            if let Some(layer) = layer(node, program) {
                let at = layers.len();
                let reads_words = has_words && layer.kind == LayerKind::Embedding;
                layers.push(Layer { sources, reads_words, ..layer });
                sources = vec![at];
            }
            makers.extend(node.outputs.iter().flatten().map(|id| (*id, sources.clone())));
        }
        Ok(layers)
    }
}

fn is_integer(program: &Program, id: ValueId) -> bool {
    program.typed.ty(id).is_some_and(|ty| matches!(ty.dtype, DType::Int64 | DType::Int32))
}

/// The layer that a node is; `None` for arithmetic and views.
fn layer(node: &Node, program: &Program) -> Option<Layer> {
    let dims_of = |id: ValueId| program.typed.ty(id).map(|ty| ty.dims.to_vec());
    let is_weight = |id: &ValueId| {
        let value = program.graph.value(*id);
        let is_stored = value.is_some_and(|value| value.initializer.is_some());
        is_stored && program.typed.ty(*id).is_some_and(|ty| ty.dtype.is_floating() && ty.rank() > 0)
    };
    let weights: Vec<ValueId> = node.inputs.iter().flatten().copied().filter(is_weight).collect();
    let parameters: Vec<Vec<u64>> = weights.iter().copied().filter_map(dims_of).collect();
    let of_first_input = || node.input(0).and_then(dims_of);
    let dims = node.output(0).and_then(dims_of)?;
    let (op, sources, reads_words) = (node.op.clone(), Vec::new(), false);
    let kind = match node.op.as_str() {
        "Conv" | "ConvTranspose" => LayerKind::Convolution,
        "Gemm" | "MatMul" | "Linear" if !weights.is_empty() => LayerKind::Linear,
        "Gather" | "TableRows" if node.input(0).as_ref().is_some_and(is_weight) => {
            LayerKind::Embedding
        }
        "LSTM" | "GRU" | "RNN" => LayerKind::Recurrent,
        "Attention" => {
            return of_first_input().map(|dims| Layer {
                kind: LayerKind::Attention,
                op,
                sources,
                dims,
                parameters,
                reads_words,
            });
        }
        "Softmax" if dims.len() == 4 => LayerKind::Attention,
        "Dropout" => LayerKind::Dropout,
        "Relu" | "Gelu" | "Silu" | "Swish" | "Sigmoid" | "Tanh" | "HardSigmoid" | "HardSwish"
        | "LeakyRelu" | "Elu" | "Selu" | "Celu" | "Mish" | "Softplus" | "Softsign" | "PRelu"
        | "Softmax" | "LogSoftmax" | "LogSigmoid" | "Glu" | "SwiGLU" => LayerKind::Activation,
        op if op.ends_with("Pool") => LayerKind::Pooling,
        op if op.ends_with("Normalization") || op == "LRN" => LayerKind::Norm,
        _ => return None,
    };
    // What PyTorch takes apart keeps the statistics of a norm out of its parameters.
    let parameters = match kind {
        LayerKind::Norm => parameters.into_iter().take(2).collect(),
        _ => parameters,
    };
    Some(Layer { kind, op, sources, dims, parameters, reads_words })
}
