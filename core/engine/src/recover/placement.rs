//! The order of parameters and buffers: as the module declares them, where that is known.
//!
//! - The dynamo exporter states it, parameters before buffers; a module's buffers follow its parameters.
//! - A TorchScript file lists them in the module's order, except those that the exporter changed or recovery
//!   added. If there are such exceptions, all follow the order in which the forward first reads their modules.
//!
//! That is the order of `named_parameters`, which the optimizer sees. `model.to("cuda")` uses another order
//! (`Module._apply`): a module's children come before its own parameters and buffers.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::collections::{BTreeMap, BTreeSet};

use super::View;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{Member, Value, ValueId};
use crate::tensor::{DType, TensorType};

/// COUNT: parts of a name that tell modules apart.
const DEPTH: usize = 64;

/// Names of a module's state in the order in which PyTorch's modules register them.
pub(crate) const LEAVES: [&str; 4] = ["weight", "bias", "running_mean", "running_var"];

/// Initializers that something reads or would read, in the module's order.
pub(super) fn order(view: &View<'_>) -> Vec<ValueId> {
    let graph = view.graph();
    // A program or a trace states what its modules register, read or not.
    let registered: BTreeSet<&str> = if graph.level.is_whole() {
        graph.members.iter().map(|(name, _)| name.as_str()).into_set()
    } else {
        BTreeSet::new()
    };
    let values = graph.values.iter().enumerate();
    let carried = values.filter(|(_, value)| value.initializer.is_some());
    let mut order: Vec<ValueId> = carried
        .map(|(index, _)| ValueId(index))
        .filter(|id| {
            !view.readers(*id).is_empty()
                || graph.outputs.contains(id)
                || graph.idle.binary_search(id).is_ok()
                || registered.contains(graph.value_name(*id))
        })
        .collect();
    if !graph.members.is_empty() {
        let ranks = stated_ranks(&graph.members);
        let rank = |id: &ValueId| ranks.get(graph.value_name(*id)).copied();
        order.order_by_key(|id| rank(id).unwrap_or((usize::MAX, 0)));
    } else if view.state_changed {
        let modules = first_reads(view, &order);
        let rank = |id: &ValueId| {
            let (module, leaf) = split(graph.value_name(*id));
            let leaf = LEAVES.iter().position(|known| *known == leaf);
            (modules.get(module).copied(), module, leaf.unwrap_or(LEAVES.len()))
        };
        order.order_by(|a, b| rank(a).cmp(&rank(b)));
    }
    order
}

/// The same in the order in which `model.to("cuda")` meets them: children first.
///
/// What has no name of the module's state lies with the module that first reads it.
pub(super) fn to_device(view: &View<'_>, order: &[ValueId]) -> Vec<ValueId> {
    let owner = |id: ValueId| -> &str {
        if view.graph().value(id).is_some_and(Value::has_state_name) {
            return split(view.graph().value_name(id)).0;
        }
        let reader = view.readers(id).first().and_then(|at| view.node(*at));
        reader.map_or("", |node| node.module.as_str())
    };
    children_first(&order.iter().map(|&id| owner(id)).collect::<Vec<_>>())
        .into_iter()
        .filter_map(|index| order.get(index).copied())
        .collect()
}

/// Positions in the order of `Module._apply`, from each tensor's module in order of registration.
fn children_first(owners: &[&str]) -> Vec<usize> {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, owner) in owners.iter().enumerate() {
        prefixes(owner).for_each(|prefix| {
            first.entry(prefix).or_insert(index);
        });
    }
    // Children by their first appearance, then what is the module's own.
    let key = |index: usize| -> Vec<(bool, usize)> {
        let owner = owners.get(index).copied().unwrap_or_default();
        let path = prefixes(owner).map(|prefix| (false, first.get(prefix).copied().unwrap_or(0)));
        path.chain([(true, index)]).collect()
    };
    let keys: Vec<_> = (0..owners.len()).map(key).collect();
    let mut order: Vec<usize> = (0..owners.len()).collect();
    order.order_by(|a, b| keys.get(*a).cmp(&keys.get(*b)));
    order
}

/// `a`, `a.b` and `a.b.c` of `a.b.c`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.filter_map(|end| path.get(..end)).filter(|prefix| !prefix.is_empty()).take(DEPTH)
}

/// Buffers that a module registers beside this one and that no operator reads: name and type.
pub(super) fn unread_buffers(view: &View<'_>, id: ValueId) -> Vec<(String, TensorType)> {
    let Some(ty) = view.typed.ty(id) else { return Vec::new() };
    // A trace has all buffers itself.
    if view.graph().level.is_trace() {
        return Vec::new();
    }
    let name = view.graph().value_name(id);
    // `torch/nn/modules/batchnorm.py`; torchvision's `FrozenBatchNorm2d`, which is spelled out, has none.
    let is_spelled =
        view.readers(id).iter().any(|at| view.node(*at).is_some_and(|node| node.op == "Reshape"));
    if let Some(module) = name.strip_suffix("running_var").filter(|_| !is_spelled) {
        let counter = TensorType::new(DType::Int64, []);
        return vec![(format!("{module}num_batches_tracked"), counter)];
    }
    // A program lists all that its modules register.
    if view.graph().level.is_program() {
        return Vec::new();
    }
    let reader = view.readers(id).first().and_then(|at| view.node(*at));
    let module = reader.map_or("", |node| node.module.as_str());
    // transformers' rotary embeddings keep a copy of their frequencies, the only float that they read.
    if module.ends_with("rotary_emb") && ty.dtype.is_floating() && ty.numel() > 1 {
        return vec![(format!("{module}.original_inv_freq"), ty.clone())];
    }
    token_positions(view, id).map_or_else(|| integers(name, ty), |found| vec![found])
}

/// I-BERT's layers have a place for what their state would be in integers, and for its scale, in single
/// precision and quantised or not (`QuantEmbedding` and `QuantLinear` in `ibert/quant_modules.py`).
fn integers(name: &str, ty: &TensorType) -> Vec<(String, TensorType)> {
    let Some((module, leaf)) = name.rsplit_once('.').filter(|_| name.contains("ibert.")) else {
        return Vec::new();
    };
    let buffer = |leaf: &str, ty: TensorType| (format!("{module}.{leaf}"), ty);
    let scales = |n: u64| TensorType::new(ty.dtype, [n]);
    match (leaf, ty.dims.as_slice()) {
        ("weight", [_, _]) if module.contains("embeddings") => {
            vec![buffer("weight_scaling_factor", scales(1)), buffer("weight_integer", ty.clone())]
        }
        ("weight", &[out, _]) => {
            vec![buffer("weight_integer", ty.clone()), buffer("fc_scaling_factor", scales(out))]
        }
        ("bias", &[_]) if !module.contains("LayerNorm") => {
            vec![buffer("bias_integer", ty.clone())]
        }
        ("bias", &[_]) => vec![buffer("shift", scales(1))],
        _ => Vec::new(),
    }
}

/// Which of these buffers rest on what transformers' modules register, not on PyTorch's own.
pub(super) fn diagnostic(
    unread: &BTreeMap<ValueId, Vec<(String, TensorType)>>,
) -> Option<Diagnostic> {
    let assumed: Vec<&str> = unread
        .values()
        .flatten()
        .map(|(name, _)| name.as_str())
        .filter(|name| !name.ends_with("num_batches_tracked"))
        .collect();
    let message = say!(
        "buffers that transformers' modules register and no operator reads are assumed to be there: {assumed}",
        assumed = assumed.join(", ")
    );
    (!assumed.is_empty()).then(|| Diagnostic::new(Severity::Info, "assumed-buffers", message))
}

/// transformers' BERT and its kin register `position_ids` and `token_type_ids` of one size; where
/// only one is read, the other lies beside it.
fn token_positions(view: &View<'_>, id: ValueId) -> Option<(String, TensorType)> {
    let ty = view.typed.ty(id)?;
    let module = view.readers(id).first().and_then(|at| view.node(*at))?.module.as_str();
    let has = |leaf: &str| view.is_initializer_named(&format!("{module}.{leaf}.weight"));
    if ty.dtype != DType::Int64
        || ty.rank() != 2
        || !has("position_embeddings")
        || !has("token_type_embeddings")
    {
        return None;
    }
    let reads = |other: ValueId| {
        let mut readers = view.readers(other).iter().filter_map(|at| view.node(*at));
        readers.any(|node| node.module == module)
    };
    let alike = (0..view.graph().values.len()).map(ValueId).filter(|&other| {
        view.is_initializer(other) && view.typed.ty(other) == Some(ty) && reads(other)
    });
    (alike.count() == 1).then(|| (format!("{module}.position_ids"), ty.clone()))
}

/// Ranks of the module's members by name.
fn stated_ranks(members: &[(String, Member)]) -> BTreeMap<&str, (usize, usize)> {
    let mut last_of_module = BTreeMap::new();
    let mut ranks = BTreeMap::new();
    for (index, (name, member)) in members.iter().enumerate() {
        let module = split(name).0;
        let rank = match member {
            Member::Parameter => {
                last_of_module.insert(module, index);
                (index, 0)
            }
            Member::Buffer => {
                (last_of_module.get(module).copied().unwrap_or(index), index.saturating_add(1))
            }
        };
        ranks.insert(name.as_str(), rank);
    }
    ranks
}

/// Where each module's state is first read.
fn first_reads<'v>(view: &'v View<'_>, state: &[ValueId]) -> BTreeMap<&'v str, usize> {
    let mut first = BTreeMap::new();
    for &id in state {
        let Some(read) = view.readers(id).first() else { continue };
        let module = split(view.graph().value_name(id)).0;
        let slot = first.entry(module).or_insert(read.0);
        *slot = (*slot).min(read.0);
    }
    first
}

/// The module that owns a tensor, and the tensor's name in it.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

#[cfg(test)]
mod tests {
    use super::{children_first, integers};
    use crate::tensor::{DType, TensorType};

    #[test]
    fn ibert_keeps_its_state_as_integers_too() {
        let found = |name: &str, dims: &[u64]| {
            let buffers = integers(name, &TensorType::new(DType::Float32, dims));
            buffers.iter().map(|(name, ty)| format!("{name} {ty}")).collect::<Vec<_>>().join(" ")
        };
        for (name, dims, expected) in [
            (
                "ibert.layer.0.output.dense.weight",
                &[8, 32][..],
                "ibert.layer.0.output.dense.weight_integer float32[8, 32] \
                 ibert.layer.0.output.dense.fc_scaling_factor float32[8]",
            ),
            (
                "ibert.layer.0.output.dense.bias",
                &[8],
                "ibert.layer.0.output.dense.bias_integer float32[8]",
            ),
            (
                "ibert.embeddings.word_embeddings.weight",
                &[99, 8],
                "ibert.embeddings.word_embeddings.weight_scaling_factor float32[1] \
                 ibert.embeddings.word_embeddings.weight_integer float32[99, 8]",
            ),
            ("ibert.layer.0.LayerNorm.bias", &[8], "ibert.layer.0.LayerNorm.shift float32[1]"),
            ("ibert.layer.0.LayerNorm.weight", &[8], ""),
            ("lm_head.dense.weight", &[8, 8], ""),
        ] {
            assert_eq!(found(name, dims), expected, "{name}");
        }
    }

    #[test]
    fn children_come_before_what_is_the_modules_own() {
        for (owners, expected) in [
            (vec!["", "conv", "norm"], vec![1, 2, 0]),
            (vec!["", "l.0.attn", "l.0.attn.out", "l.0.mlp", "l.1"], vec![2, 1, 3, 4, 0]),
            // A module that is written apart stays one module.
            (vec!["a", "b", "a.c"], vec![2, 0, 1]),
        ] {
            assert_eq!(children_first(&owners), expected, "{owners:?}");
        }
    }
}
