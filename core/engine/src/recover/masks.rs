//! Causal masks that every attention registers for itself.
//!
//! Exporters write tensors of one content once, so that a file has one mask where each of a dozen
//! modules has its own (transformers' `GPTNeoSelfAttention.bias`, GPT-2's until 4.47). A module reads
//! its own buffers: an unnamed square of booleans that several modules read is each module's.

use std::collections::BTreeMap;

use super::View;
use crate::config::Config;
use crate::diagnostic::Severity;
use crate::graph::{Literal, NodeId, ValueId};
use crate::tensor::{DType, TensorType};

/// Gives every module that reads a mask a mask of its own.
pub(super) fn separate(view: &mut View<'_>, _: &Config) {
    let values = (0..view.graph().values.len()).map(ValueId);
    let masks: Vec<ValueId> = values.filter(|&value| is_mask(view, value)).collect();
    let mut count = 0;
    for mask in masks {
        let Some(ty) = view.typed.ty(mask).cloned() else { continue };
        let mut modules: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
        for &at in view.readers(mask) {
            if let Some(node) = view.node(at) {
                modules.entry(node.module.clone()).or_default().push(at);
            }
        }
        for (module, readers) in modules.into_iter().skip(1) {
            count += 1;
            copy(view, mask, &ty, &module, &readers);
        }
    }
    if count > 0 {
        let message = say!(
            "{count} attention masks are assumed to be buffers of their own: the file has one for \
             several modules, as exporters write equal tensors once",
            count
        );
        view.say(Severity::Info, "separate-masks", message);
    }
}

fn copy(view: &mut View<'_>, mask: ValueId, ty: &TensorType, module: &str, readers: &[NodeId]) {
    let literal = Literal { dtype: ty.dtype, dims: ty.dims.to_vec(), elements: None };
    let own = view.add_value(format!("{module}.bias"), ty.clone(), Some(literal));
    for &at in readers {
        let Some(mut node) = view.node(at).cloned() else { continue };
        node.inputs.iter_mut().filter(|input| **input == Some(mask)).for_each(|input| {
            *input = Some(own);
        });
        view.replace(at, node);
    }
}

/// An unnamed tensor of booleans whose last dimensions are a square.
fn is_mask(view: &View<'_>, value: ValueId) -> bool {
    let unnamed = view
        .graph()
        .value(value)
        .is_some_and(|value| value.initializer.is_some() && !value.has_state_name());
    let square = |ty: &TensorType| matches!(ty.dims.as_slice(), [.., rows, columns] if rows == columns && *rows > 1);
    unnamed && view.typed.ty(value).is_some_and(|ty| ty.dtype == DType::Bool && square(ty))
}
