//! Another batch size for a file whose batch size is fixed.
//!
//! Such a file states the batch of its example inside: as the target of a `Reshape`, in an `Expand`, in a mask.
//! Inference runs twice, as exported and with the new batch; if a target did not change in the second run although
//! its input did, the target is scaled in proportion.
//!
//! - A `Reshape` maps groups of input dimensions to groups of output dimensions with the same
//!   product. Where an input group grew, the first dimension of its output group grows with it, or
//!   rather the one that equals the old batch.
//! - An `Expand` to the old batch expands to the new one.
//! - A rule that now fails gets its old result, the old batch in front replaced by the new; so does one
//!   that joins a constant of the old batch with a batch that became 1.

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
                    return regroup(self.old, &old.dims, &new.dims, &output.dims)
                        .map(|dims| TensorType::new(output.dtype, dims));
                }
            }
            "Expand" if self.old > 1 && self.is_unchanged(node, elements) => {
                return Some(self.in_front(output));
            }
            _ => {}
        }
        (!rule_holds || self.hides_the_batch(node, output, types)).then(|| self.in_front(output))
    }

    /// Whether a constant of the old batch is broadcast over a batch that became 1.
    fn hides_the_batch(
        &self,
        node: &Node,
        output: &TensorType,
        types: &[Option<TensorType>],
    ) -> bool {
        let became_one = |&ValueId(id): &ValueId| {
            let before = self.before.ty(ValueId(id)).map(|ty| ty.dims.as_slice());
            let now = types.get(id).and_then(Option::as_ref).map(|ty| ty.dims.as_slice());
            matches!((before, now), (Some([old, rest @ ..]), Some([1, still @ ..]))
                if *old == self.old && rest == still && rest.len().saturating_add(1) == output.rank())
        };
        let kept = |id: &ValueId| {
            let before = self.before.ty(*id);
            before
                .is_some_and(|ty| ty.dims.first() == Some(&self.old) && ty.rank() == output.rank())
                && before == types.get(id.0).and_then(Option::as_ref)
        };
        let mut inputs = node.inputs.iter().flatten();
        self.new == 1
            && self.old > 1
            && output.dims.first() == Some(&self.old)
            && inputs.clone().any(became_one)
            && inputs.any(kept)
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

/// `out`, to which `old` was reshaped, in the proportion of `new` to `old`; `batch` is the batch
/// size of `old`.
fn regroup(batch: u64, old: &[u64], new: &[u64], out: &[u64]) -> Option<Vec<u64>> {
    if old.len() != new.len() || numel(old) == 0 || numel(out) == 0 {
        return None;
    }
    let mut sources = old.iter().copied().zip(new.iter().copied()).peekable();
    let mut targets = out.iter().copied().peekable();
    let mut dims: Vec<u64> = Vec::with_capacity(out.len());
    while let Some(first) = targets.next() {
        let Some((mut from, mut to)) = sources.next() else {
            // Only dimensions of 1 can be left.
            dims.push(first);
            continue;
        };
        let starts_with_one = from == 1 && to != 1 && first != 1;
        let mut group = vec![first];
        let mut product = first;
        while from != product {
            if from < product {
                let (before, after) = sources.next()?;
                from = from.checked_mul(before)?;
                to = to.checked_mul(after)?;
            } else {
                let next = targets.next()?;
                product = product.checked_mul(next)?;
                group.push(next);
            }
        }
        // A batch of 1 between, which joins what is in front: `[L, 1, E]` to `[L, E]`.
        if starts_with_one && group.len() == 1 && !dims.is_empty() {
            let last = dims.len().saturating_sub(1);
            scale(dims.get_mut(last..)?, batch, from, to)?;
            dims.push(first);
            continue;
        }
        // A batch of 1 behind: `[L, E]` to `[L, 1, E]`.
        let is_one_left = targets.peek() == Some(&1) && sources.peek().is_some_and(|s| s.0 != 1);
        if from != to && batch == 1 && !group.contains(&1) && is_one_left {
            group.extend(targets.next());
        }
        scale(&mut group, batch, from, to)?;
        dims.append(&mut group);
    }
    (numel(&dims) == numel(new)).then_some(dims)
}

/// Multiplies one dimension of a group by `to / from`: the first if it is the batch, else the last
/// that is, else the first.
fn scale(group: &mut [u64], batch: u64, from: u64, to: u64) -> Option<()> {
    let chosen = if group.first() == Some(&batch) {
        0
    } else {
        group.iter().rposition(|&d| d == batch).unwrap_or(0)
    };
    let d = group.get_mut(chosen)?;
    let scaled = d.checked_mul(to)?;
    (scaled.checked_rem(from)? == 0).then_some(())?;
    *d = scaled.checked_div(from)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_grow_with_their_groups() {
        let check = |batch, old: &[u64], new: &[u64], out: &[u64], expected: Option<&[u64]>| {
            let found = regroup(batch, old, new, out);
            assert_eq!(found.as_deref(), expected, "{batch}: {old:?} {new:?} {out:?}");
        };
        // [N, L, E] to [N, L, heads, width], and merged with the heads.
        check(1, &[1, 64, 768], &[4, 64, 768], &[1, 64, 12, 64], Some(&[4, 64, 12, 64]));
        check(1, &[1, 12, 64, 64], &[4, 12, 64, 64], &[12, 64, 64], Some(&[48, 64, 64]));
        // Back again.
        check(1, &[12, 64, 64], &[48, 64, 64], &[1, 12, 64, 64], Some(&[4, 12, 64, 64]));
        // Sequence first, as torch.nn.MultiheadAttention has it.
        check(1, &[197, 1, 768], &[197, 4, 768], &[197, 12, 64], Some(&[197, 48, 64]));
        check(1, &[197, 1, 768], &[197, 4, 768], &[197, 768], Some(&[788, 768]));
        check(1, &[197, 1, 12, 64], &[197, 4, 12, 64], &[197, 768], Some(&[788, 768]));
        check(1, &[197, 768], &[788, 768], &[197, 1, 768], Some(&[197, 4, 768]));
        check(2, &[394, 768], &[1182, 768], &[197, 2, 768], Some(&[197, 6, 768]));
        check(3, &[591, 768], &[197, 768], &[197, 3, 768], Some(&[197, 1, 768]));
        // Windows, as Swin cuts them.
        check(1, &[1, 8, 8, 7, 7, 96], &[2, 8, 8, 7, 7, 96], &[64, 49, 96], Some(&[128, 49, 96]));
        check(1, &[64, 49, 96], &[128, 49, 96], &[1, 8, 8, 7, 7, 96], Some(&[2, 8, 8, 7, 7, 96]));
        // A classifier's pooled features.
        check(1, &[1, 512, 1, 1], &[8, 512, 1, 1], &[1, 512], Some(&[8, 512]));
        check(1, &[1, 512], &[8, 512], &[1, 512, 1, 1], Some(&[8, 512, 1, 1]));
        check(8, &[8, 512], &[3, 512], &[4096], Some(&[1536]));
        check(8, &[8, 512], &[3, 512], &[2, 2048], None);
        check(1, &[0, 3], &[0, 3], &[0], None);
    }
}
