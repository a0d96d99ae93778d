//! The memory after an event: storages, and their bytes by category and by module.

use crate::order::InOrder as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{ByCategory, LiveTensor, ModuleBytes};
use crate::bytes::Bytes;
use crate::trace::{Event, Storage, StorageId, Trace};

/// Storages alive after an event, with the event that made them.
pub(super) fn alive_at(trace: &Trace, event: usize) -> Vec<(StorageId, usize)> {
    let mut born: Vec<Option<usize>> = vec![None; trace.storages.len()];
    for (index, call) in trace.events.iter().enumerate().take(event.saturating_add(1)) {
        let (id, state) = match call {
            Event::Alloc(id) => (id, Some(index)),
            Event::Free(id) => (id, None),
        };
        if let Some(slot) = born.get_mut(id.index()) {
            *slot = state;
        }
    }
    let alive = born.into_iter().enumerate();
    alive.filter_map(|(id, born)| Some((StorageId::new(id), born?))).collect()
}

/// Requested bytes of each category.
pub(super) fn by_category(trace: &Trace, alive: &[(StorageId, usize)]) -> ByCategory {
    let mut sums = ByCategory::default();
    for storage in alive.iter().filter_map(|(id, _)| trace.storages.get(id.index())) {
        *sums.get_mut(storage.category) += storage.requested;
    }
    sums
}

/// Requested bytes of each module, the largest first.
pub(super) fn by_module(trace: &Trace, alive: &[(StorageId, usize)]) -> Vec<ModuleBytes> {
    let mut sums: BTreeMap<String, Bytes> = BTreeMap::new();
    for storage in alive.iter().filter_map(|(id, _)| trace.storages.get(id.index())) {
        *sums.entry(module_of(trace, storage).to_owned()).or_default() += storage.requested;
    }
    let mut modules: Vec<_> =
        sums.into_iter().map(|(module, bytes)| ModuleBytes { module, bytes }).collect();
    modules.order_by_key(|module| Reverse(module.bytes));
    modules
}

/// The module that ran, or for parameters and their like the one that owns them by name.
pub(super) fn module_of<'a>(trace: &'a Trace, storage: &Storage) -> &'a str {
    let name = trace.label(storage.name);
    name.rsplit_once('.').map_or_else(|| trace.label(storage.module), |(module, _)| module)
}

/// Storages that are alive, largest first, as the report shows them.
pub(super) fn live_tensors(
    trace: &Trace,
    alive: Vec<(StorageId, usize)>,
) -> Vec<(StorageId, LiveTensor)> {
    let mut deaths: Vec<Option<usize>> = vec![None; trace.storages.len()];
    for (index, event) in trace.events.iter().enumerate() {
        if let Event::Free(id) = event
            && let Some(death) = deaths.get_mut(id.index())
        {
            *death = Some(index);
        }
    }
    let mut tensors: Vec<_> = alive
        .into_iter()
        .filter_map(|(id, born)| {
            let storage = trace.storages.get(id.index())?;
            let live = LiveTensor {
                bytes: storage.requested,
                category: storage.category,
                operator: trace.label(storage.operator).to_owned(),
                module: module_of(trace, storage).to_owned(),
                name: trace.label(storage.name).to_owned(),
                tensor: trace.tensor(storage).cloned(),
                born,
                dies: deaths.get(id.index()).copied().flatten(),
            };
            Some((id, live))
        })
        .collect();
    tensors.order_by_key(|(_, tensor)| (Reverse(tensor.bytes), tensor.born));
    tensors
}
