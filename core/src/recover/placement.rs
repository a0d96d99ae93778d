//! The order of parameters and buffers: as the module declares them, where that is known.
//!
//! The dynamo exporter states it. Elsewhere the file's order is the module's, but for tensors that
//! the exporter changed or recovery added: those stand where the forward first reads their module.

use super::View;
use crate::graph::ValueId;

/// Initializers in the module's order.
pub(super) fn order(view: &View<'_>) -> Vec<ValueId> {
    let mut order: Vec<ValueId> = Vec::new();
    for (index, value) in view.graph().values.iter().enumerate() {
        if value.initializer.is_some() {
            order.push(ValueId(index));
        }
    }
    order
}
