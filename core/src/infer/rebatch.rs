//! Another batch size for a file whose batch size is fixed.
//!
//! Such a file states the batch of its example inside: as the target of a `Reshape`, in an `Expand`,
//! in a mask. Inference runs twice, as exported and with the new batch; where the second run meets
//! a target that did not change although its input did, the target is read in proportion.
//!
//! - A `Reshape` maps groups of input dimensions to groups of output dimensions with the same
//!   product. Where an input group grew, the first dimension of its output group grows with it.
//! - An `Expand` to the old batch expands to the new one.
//! - A rule that now fails gets its old result, the old batch in front replaced by the new.

use super::Typed;
use crate::graph::{Elements, Node, ValueId};
use crate::tensor::{TensorType, numel};

/// Two batch sizes, and all types under the first.
#[derive(Debug)]
pub(super) struct Rebatch {
    /// Batch size of the file.
    pub(super) old: u64,
    /// Batch size wanted.
    pub(super) new: u64,
    /// Everything as exported.
    pub(super) before: Typed,
}

impl Rebatch {
    /// The type of a node's first output where its stated sizes must be read in proportion.
    pub(super) fn correct(
        &self,
        node: &Node,
        rule_holds: bool,
        types: &[Option<TensorType>],
        elements: &[Option<Elements>],
    ) -> Option<TensorType> {
        let output = self.before.ty(node.output(0)?)?;
        match node.op.as_str() {
            "Reshape" => {
                let ValueId(x) = node.input(0)?;
                let (old, new) = (self.before.ty(ValueId(x))?, types.get(x)?.as_ref()?);
                if old.dims != new.dims && self.is_unchanged(node, elements) {
                    return regroup(&old.dims, &new.dims, &output.dims)
                        .map(|dims| TensorType::new(output.dtype, dims));
                }
            }
            "Expand" if self.old > 1 && self.is_unchanged(node, elements) => {
                return Some(self.in_front(output));
            }
            _ => {}
        }
        (!rule_holds).then(|| self.in_front(output))
    }

    /// Whether the second input, a target shape, is the same for both batch sizes.
    fn is_unchanged(&self, node: &Node, elements: &[Option<Elements>]) -> bool {
        let Some(ValueId(shape)) = node.input(1) else { return true };
        let before = self.before.elements.get(shape).and_then(Option::as_ref);
        before.is_some() && before == elements.get(shape).and_then(Option::as_ref)
    }

    fn in_front(&self, ty: &TensorType) -> TensorType {
        let mut ty = ty.clone();
        if let Some(first) = ty.dims.first_mut()
            && *first == self.old
        {
            *first = self.new;
        }
        ty
    }
}

/// `out`, to which `old` was reshaped, in the proportion of `new` to `old`.
fn regroup(old: &[u64], new: &[u64], out: &[u64]) -> Option<Vec<u64>> {
    if old.len() != new.len() || numel(old) == 0 || numel(out) == 0 {
        return None;
    }
    let mut sources = old.iter().zip(new);
    let mut targets = out.iter();
    let mut dims = Vec::with_capacity(out.len());
    while let Some(&first) = targets.next() {
        let Some((&before, &after)) = sources.next() else {
            // Only dimensions of 1 can be left.
            dims.push(first);
            continue;
        };
        let (mut from, mut to, mut sum) = (before, after, first);
        let mut rest = Vec::new();
        while from != sum {
            if from < sum {
                let (&before, &after) = sources.next()?;
                from = from.checked_mul(before)?;
                to = to.checked_mul(after)?;
            } else {
                let &next = targets.next()?;
                sum = sum.checked_mul(next)?;
                rest.push(next);
            }
        }
        let scaled = first.checked_mul(to)?;
        (scaled.checked_rem(from)? == 0).then_some(())?;
        dims.push(scaled.checked_div(from)?);
        dims.append(&mut rest);
    }
    (numel(&dims) == numel(new)).then_some(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_grow_with_their_groups() {
        let check = |old: &[u64], new: &[u64], out: &[u64], expected: Option<&[u64]>| {
            assert_eq!(regroup(old, new, out).as_deref(), expected, "{old:?} {new:?} {out:?}");
        };
        // [N, L, E] to [N, L, heads, width], and merged with the heads.
        check(&[1, 64, 768], &[4, 64, 768], &[1, 64, 12, 64], Some(&[4, 64, 12, 64]));
        check(&[1, 12, 64, 64], &[4, 12, 64, 64], &[12, 64, 64], Some(&[48, 64, 64]));
        // Back again.
        check(&[12, 64, 64], &[48, 64, 64], &[1, 12, 64, 64], Some(&[4, 12, 64, 64]));
        // Sequence first, as torch.nn.MultiheadAttention has it.
        check(&[197, 1, 768], &[197, 4, 768], &[197, 12, 64], Some(&[197, 48, 64]));
        // Windows, as Swin cuts them.
        check(&[1, 8, 8, 7, 7, 96], &[2, 8, 8, 7, 7, 96], &[64, 49, 96], Some(&[128, 49, 96]));
        check(&[64, 49, 96], &[128, 49, 96], &[1, 8, 8, 7, 7, 96], Some(&[2, 8, 8, 7, 7, 96]));
        check(&[8, 512], &[3, 512], &[4096], Some(&[1536]));
        check(&[8, 512], &[3, 512], &[2, 2048], None);
        check(&[0, 3], &[0, 3], &[0], None);
    }
}
