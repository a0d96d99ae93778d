//! [`Owner`]: memory over time by module, for the few modules that have the most.

use crate::order::InOrder as _;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ModuleBytes;
use super::alive::module_of;
use crate::bytes::Bytes;
use crate::trace::{Event, StorageId, Trace};

/// COUNT: modules shown separately; the rest is summed.
const MOST: usize = 7;
/// COUNT: parts of a path, at most.
const DEEPEST: usize = 4;

/// What one module has over time, told only where it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Module path; what lies below it is counted.
    pub module: String,
    /// Positions in the timeline's samples, ascending, from which it has another size.
    pub from: Vec<usize>,
    /// Requested bytes from there on: parallel to `from`.
    pub bytes: Vec<Bytes>,
}

impl Owner {
    /// Requested bytes at a position in the timeline's samples.
    pub fn at(&self, sample: usize) -> Bytes {
        let after = self.from.partition_point(|&from| from <= sample);
        let known = after.checked_sub(1).and_then(|at| self.bytes.get(at));
        known.copied().unwrap_or_default()
    }
}

/// Requested bytes of each owner at one moment.
pub(super) type Sizes = [Bytes; MOST];

/// Counts what the owners have while events pass.
pub(super) struct Ledger {
    owners: Vec<Owner>,
    /// Owner of each storage: parallel to [`Trace::storages`].
    of: Vec<Option<usize>>,
    now: Sizes,
}

impl Ledger {
    /// Nothing is alive yet; the owners are the modules with the most at the peak.
    pub(super) fn new(trace: &Trace, at_peak: &[ModuleBytes]) -> Self {
        let (depth, modules) = largest(at_peak);
        let of = trace.storages.iter().map(|storage| {
            let path = prefix(module_of(trace, storage), depth);
            modules.iter().position(|module| module == path)
        });
        Self::of(of.collect(), modules.iter().cloned())
    }

    /// Nothing is alive yet; each storage has its owner, parallel to [`Trace::storages`].
    pub(super) fn of(of: Vec<Option<usize>>, modules: impl Iterator<Item = String>) -> Self {
        let owner = |module| Owner { module, ..Owner::default() };
        Self { of, owners: modules.map(owner).collect(), now: Sizes::default() }
    }

    /// One event passes.
    pub(super) fn apply(&mut self, trace: &Trace, event: Event) {
        let Some((bytes, storage)) = self.entry(trace, event.storage()) else { return };
        match event {
            Event::Alloc(_) => *bytes += storage,
            Event::Free(_) => *bytes -= storage,
        }
    }

    fn entry(&mut self, trace: &Trace, id: StorageId) -> Option<(&mut Bytes, Bytes)> {
        let owner = self.of.get(id.index()).copied().flatten()?;
        Some((self.now.get_mut(owner)?, trace.storages.get(id.index())?.requested))
    }

    /// What the owners have now.
    pub(super) const fn now(&self) -> Sizes {
        self.now
    }

    /// Writes down what they have at a sample.
    pub(super) fn write(&mut self, sample: usize, sizes: &Sizes) {
        for (owner, &bytes) in self.owners.iter_mut().zip(sizes) {
            if owner.bytes.last().copied().unwrap_or_default() != bytes {
                owner.from.push(sample);
                owner.bytes.push(bytes);
            }
        }
    }

    /// The owners, in the order in which they come first.
    pub(super) fn close(self) -> Vec<Owner> {
        let mut owners = self.into_owners();
        owners.order_by_key(|owner| owner.from.first().copied());
        owners
    }

    /// The owners, in the order in which they were given.
    pub(super) fn into_owners(self) -> Vec<Owner> {
        self.owners
    }
}

/// The modules with the most, and of how many parts their paths are.
///
/// One part tells little where everything lies in one `transformer.h`: paths grow until, of what
/// could be told apart further, nobody has more than half.
pub(super) fn largest(at_peak: &[ModuleBytes]) -> (usize, Vec<String>) {
    let mut depth = 1;
    loop {
        let mut sums = BTreeMap::<&str, Bytes>::new();
        let mut deeper = BTreeMap::<&str, Bytes>::new();
        for module in at_peak.iter().filter(|module| !module.module.is_empty()) {
            let path = prefix(&module.module, depth);
            *sums.entry(path).or_default() += module.bytes;
            if path != module.module {
                *deeper.entry(path).or_default() += module.bytes;
            }
        }
        let total: Bytes = deeper.values().copied().sum();
        let is_large = deeper.values().any(|&bytes| bytes + bytes > total);
        if !is_large || depth == DEEPEST {
            let mut sums: Vec<_> = sums.into_iter().collect();
            sums.order_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
            let names = sums.into_iter().take(MOST).map(|(name, _)| name.to_owned());
            return (depth, names.collect());
        }
        depth += 1;
    }
}

/// The first parts of a path.
pub(super) fn prefix(path: &str, parts: usize) -> &str {
    let end = path.match_indices('.').nth(parts.saturating_sub(1)).map(|(at, _)| at);
    end.and_then(|end| path.get(..end)).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(modules: &[(&str, u64)]) -> String {
        let module = |&(name, bytes): &(&str, u64)| ModuleBytes {
            module: name.to_owned(),
            bytes: Bytes(bytes),
        };
        let modules: Vec<_> = modules.iter().map(module).collect();
        largest(&modules).1.join(" ")
    }

    #[test]
    fn paths_are_as_short_as_they_tell_something() {
        assert_eq!(
            names(&[("layer1.0.conv1", 5), ("layer1.1", 1), ("layer2.0", 6), ("fc", 2), ("", 99)]),
            "layer1 layer2 fc"
        );
        assert_eq!(
            names(&[("t.h.0.mlp", 4), ("t.h.1.mlp", 5), ("t.h.2.mlp", 3), ("loss", 9)]),
            "loss t.h.1 t.h.0 t.h.2"
        );
        assert_eq!(names(&[("embedding", 9), ("fc", 1)]), "embedding fc");
        assert_eq!(names(&[]), "");
    }

    #[test]
    fn a_size_holds_until_the_next() {
        let owner =
            Owner { module: String::new(), from: vec![2, 5], bytes: vec![Bytes(7), Bytes(0)] };
        let sizes: Vec<_> = (0..7).map(|sample| owner.at(sample).0).collect();
        assert_eq!(sizes, [0, 0, 7, 7, 7, 0, 0]);
    }
}
