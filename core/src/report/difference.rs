//! Two runs beside each other: what each has at its peak, module by module.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::owners::{largest, prefix};
use super::{ModuleBytes, Report};
use crate::bytes::Bytes;
use crate::sorted;

/// What something has in one run and in another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Its name: a module path, empty for what belongs to none.
    pub name: String,
    /// What it had before.
    pub before: Bytes,
    /// What it has after.
    pub after: Bytes,
}

impl Difference {
    /// By how much the two differ, whichever is larger.
    pub const fn size(&self) -> Bytes {
        Bytes(self.before.0.abs_diff(self.after.0))
    }
}

/// Requested bytes at the two peaks by module, the largest difference first; modules that have
/// the same in both are left out.
///
/// Paths are cut to as many parts as tell the modules of `after` apart.
pub fn by_module(before: &Report, after: &Report) -> Vec<Difference> {
    between(&before.modules_at_peak, &after.modules_at_peak)
}

fn between(before: &[ModuleBytes], after: &[ModuleBytes]) -> Vec<Difference> {
    let (depth, _) = largest(after);
    let mut sums = BTreeMap::<&str, [Bytes; 2]>::new();
    for (modules, side) in [(before, 0), (after, 1)] {
        for module in modules {
            let sums = sums.entry(prefix(&module.module, depth)).or_default();
            if let Some(sum) = sums.get_mut(side) {
                *sum += module.bytes;
            }
        }
    }
    let mut differences: Vec<_> = sums
        .into_iter()
        .filter(|(_, [before, after])| before != after)
        .map(|(name, [before, after])| Difference { name: name.to_owned(), before, after })
        .collect();
    sorted::by_key(&mut differences, |difference| Reverse(difference.size()));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_compared_as_deep_as_they_can_be_told_apart() {
        let modules = |sizes: &[(&str, u64)]| -> Vec<ModuleBytes> {
            let bytes = |&(module, bytes): &(&str, u64)| ModuleBytes {
                module: module.to_owned(),
                bytes: Bytes(bytes),
            };
            sizes.iter().map(bytes).collect()
        };
        let before = modules(&[("h.0.attn", 40), ("h.1.attn", 40), ("h.1.mlp", 9), ("", 7)]);
        let after = modules(&[("h.0.attn", 10), ("h.1.attn", 40), ("h.1.mlp", 10), ("wte", 5)]);
        let shown: Vec<String> = between(&before, &after)
            .iter()
            .map(|d| format!("{:?} {} to {}", d.name, d.before.0, d.after.0))
            .collect();
        assert_eq!(
            shown,
            [r#""h.0.attn" 40 to 10"#, r#""" 7 to 0"#, r#""wte" 0 to 5"#, r#""h.1.mlp" 9 to 10"#]
        );
        assert!(between(&after, &after).is_empty());
    }
}
