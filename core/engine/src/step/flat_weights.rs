//! Weights of recurrent modules, which are one block of memory, as cuDNN requires.
//!
//! `nn.RNNBase._apply` copies each weight to the device as any module does, then `flatten_parameters`
//! (`torch/nn/modules/rnn.py`) makes one tensor for all of them and frees the copies, for the types that
//! `torch.backends.cudnn` lists.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::eager::{Runtime, Tensor};
use crate::graph::{Node, ValueId};
use crate::recover::Program;
use crate::tensor::{DType, TensorType, numel};
use crate::trace::Category;

/// How the name of such a block ends.
pub const FLAT_WEIGHTS: &str = "._flat_weights";

/// By the last weight of each recurrent module that comes to the device: all of them, in this order.
pub(super) fn modules(program: &Program) -> BTreeMap<ValueId, Vec<ValueId>> {
    let mut modules = BTreeMap::new();
    let mut ranks: BTreeMap<ValueId, usize> = BTreeMap::new();
    for node in &program.nodes {
        let Some(positions) = weights_of(node) else { continue };
        if ranks.is_empty() {
            ranks = program.to_device.iter().enumerate().map(|(rank, &id)| (id, rank)).into_map();
        }
        let inputs = positions.filter_map(|position| node.input(position));
        let ranked = inputs.filter_map(|id| Some((*ranks.get(&id)?, id))).into_set();
        if let (Some(&(first, _)), Some(&(last, end))) = (ranked.first(), ranked.last())
            && first < last
        {
            modules.insert(end, ranked.into_iter().map(|(_, id)| id).collect());
        }
    }
    modules
}

/// Which inputs of a recurrent module are its weights.
fn weights_of(node: &Node) -> Option<Range<usize>> {
    match node.op.as_str() {
        "GRU" | "LSTM" | "RNN" => Some(1..4),
        "Recurrent" => {
            let states = node.int("states").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            Some(states.saturating_add(1)..node.inputs.len())
        }
        _ => None,
    }
}

/// Puts tensors of one type into one piece of memory, in order.
pub(super) fn flatten(rt: &Runtime, module: &str, weights: Vec<&mut Tensor>) {
    let Some(dtype) = weights.first().map(|weight| weight.dtype()) else { return };
    let is_taken = matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64);
    if !is_taken || weights.iter().any(|weight| weight.dtype() != dtype) {
        return;
    }
    let elements =
        weights.iter().fold(0_u64, |sum, weight| sum.saturating_add(numel(weight.sizes())));
    let name = format!("{module}{FLAT_WEIGHTS}");
    let flat = rt.place(&TensorType::new(dtype, vec![elements]), Category::Parameter, &name);
    for weight in weights {
        *weight = flat.alias(weight.sizes(), weight.strides());
    }
}
