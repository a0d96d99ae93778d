//! Sorted slices, maps and sets, with little code for each type.
//!
//! The standard library compiles its sort anew for every type and every key, some 4 kB each in the browser, and
//! `collect` into a map or a set sorts, too. Here one sort of positions serves all types.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts; what is equal stays in its order.
pub trait InOrder<T> {
    /// Sorts by a comparison.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by a key.
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|one, other| key(one).cmp(&key(other)));
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut order = positions(self.len(), &mut |one, other| {
            self.get(one).zip(self.get(other)).map_or(Ordering::Equal, |(a, b)| compare(a, b))
        });
        // Each cycle of the permutation is followed once.
        for start in 0..order.len() {
            let mut at = start;
            while let Some(place) = order.get_mut(at) {
                let from = std::mem::replace(place, at);
                if from == start || from == at {
                    break;
                }
                self.swap(at, from);
                at = from;
            }
        }
    }
}

/// Positions in the order of what stands there.
fn positions(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&one, &other| compare(one, other));
    order
}

/// Collects into what is sorted; of what has the same key, the last counts.
pub trait IntoOrdered: Iterator + Sized {
    /// A map from pairs.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        self.for_each(|(key, value)| drop(map.insert(key, value)));
        map
    }

    /// A set.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        self.for_each(|item| drop(set.replace(item)));
        set
    }
}

impl<I: Iterator> IntoOrdered for I {}

#[cfg(test)]
mod tests {
    use super::{InOrder as _, IntoOrdered as _};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn results_are_those_of_the_standard_library(
            items in prop::collection::vec((0..20_u8, any::<u16>()), 0..60),
        ) {
            let mut sorted = items.clone();
            sorted.sort_by_key(|(key, _)| *key);
            let mut ours = items.clone();
            ours.order_by_key(|(key, _)| *key);
            prop_assert_eq!(ours, sorted);
            let map: BTreeMap<u8, u16> = items.iter().copied().collect();
            prop_assert_eq!(items.iter().copied().into_map(), map);
            let set: BTreeSet<(u8, u16)> = items.iter().copied().collect();
            prop_assert_eq!(items.into_iter().into_set(), set);
        }
    }
}
