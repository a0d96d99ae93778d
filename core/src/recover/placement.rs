//! The order of parameters and buffers: as the module declares them, where that is known.
//!
//! - The dynamo exporter states it, parameters before buffers; a module's buffers lie behind its
//!   parameters.
//! - A TorchScript file lists them in the module's order, but for those that the exporter changed or
//!   recovery added. Where there are such, all follow the order in which the forward first reads
//!   their modules.

use std::collections::BTreeMap;

use super::View;
use crate::graph::{Member, ValueId};

/// Names of a module's state in the order in which PyTorch's modules register them.
const LEAVES: [&str; 4] = ["weight", "bias", "running_mean", "running_var"];

/// Initializers that something reads, in the module's order.
pub(super) fn order(view: &View<'_>) -> Vec<ValueId> {
    let graph = view.graph();
    let values = graph.values.iter().enumerate();
    let carried = values.filter(|(_, value)| value.initializer.is_some());
    let mut order: Vec<ValueId> = carried
        .map(|(index, _)| ValueId(index))
        .filter(|id| !view.readers(*id).is_empty() || graph.outputs.contains(id))
        .collect();
    if !graph.members.is_empty() {
        let ranks = stated_ranks(&graph.members);
        let rank = |id: &ValueId| ranks.get(graph.value_name(*id)).copied();
        order.sort_by_key(|id| rank(id).unwrap_or((usize::MAX, 0)));
    } else if view.state_changed {
        let modules = first_reads(view, &order);
        let rank = |id: &ValueId| {
            let (module, leaf) = split(graph.value_name(*id));
            let leaf = LEAVES.iter().position(|known| *known == leaf);
            (modules.get(module).copied(), module, leaf.unwrap_or(LEAVES.len()))
        };
        order.sort_by(|a, b| rank(a).cmp(&rank(b)));
    }
    order
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
