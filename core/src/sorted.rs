//! Order in little code.
//!
//! The standard library's sort is made for millions of elements and compiled anew for each type, five kilobytes a
//! time, also inside of every `collect` into a `BTreeMap`. All of that would be part of the page's program, and
//! the lists here are short. So one sort, of positions, serves every type.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts; equal elements keep their order.
pub fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let of = |a: usize, b: usize| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    };
    let mut places = places(items.len(), &of);
    for at in 0..items.len() {
        while let Some(&place) = places.get(at).filter(|&&place| place != at) {
            items.swap(at, place);
            places.swap(at, place);
        }
    }
}

/// Sorts by a key; elements with equal keys keep their order.
pub fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// Where each of so many elements goes.
fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    let mut places = vec![0; count];
    for (place, at) in order.into_iter().enumerate() {
        if let Some(slot) = places.get_mut(at) {
            *slot = place;
        }
    }
    places
}

/// A map of entries; of those with one key, the last.
pub fn map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(entries);
    map
}

/// A set of elements.
pub fn set<T: Ord>(elements: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(elements);
    set
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts_as_the_standard_library_does(mut items: Vec<(u8, u16)>) {
            let mut theirs = items.clone();
            theirs.sort_by_key(|item| item.0);
            super::by_key(&mut items, |item| item.0);
            prop_assert_eq!(items, theirs);
        }
    }
}
