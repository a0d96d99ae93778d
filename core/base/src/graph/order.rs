//! Topological order of nodes: each follows the nodes that it depends on, otherwise in the order of the file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Orders `0..dependencies.len()` so that each comes after its dependencies.
///
/// Of those that could come next, the one with the lowest index does: an order that was right stays
/// as it was.
///
/// # Errors
/// With the members of one cycle, each depending on the next and the last on the first.
pub fn topological_order(dependencies: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut dependents = vec![Vec::new(); dependencies.len()];
    let mut missing = vec![0_usize; dependencies.len()];
    for (index, list) in dependencies.iter().enumerate() {
        for &dependency in list {
            if let Some(list) = dependents.get_mut(dependency) {
                list.push(index);
                if let Some(count) = missing.get_mut(index) {
                    *count += 1;
                }
            }
        }
    }
    let free = missing.iter().enumerate().filter(|&(_, &count)| count == 0);
    let mut ready: BinaryHeap<_> = free.map(|(index, _)| Reverse(index)).collect();
    let mut order = Vec::with_capacity(dependencies.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &dependent in dependents.get(index).into_iter().flatten() {
            if let Some(count) = missing.get_mut(dependent) {
                *count -= 1;
                if *count == 0 {
                    ready.push(Reverse(dependent));
                }
            }
        }
    }
    if order.len() == dependencies.len() { Ok(order) } else { Err(cycle(dependencies, &missing)) }
}

/// One cycle among those that still miss a dependency: each of them depends on another of them.
fn cycle(dependencies: &[Vec<usize>], missing: &[usize]) -> Vec<usize> {
    let waits = |&index: &usize| missing.get(index).is_some_and(|&count| count > 0);
    let mut path: Vec<usize> = Vec::new();
    let mut position = vec![None; dependencies.len()];
    let mut next = (0..dependencies.len()).find(waits);
    while let Some(index) = next {
        match position.get_mut(index) {
            Some(Some(start)) => return path.split_off(*start),
            Some(place) => *place = Some(path.len()),
            None => break,
        }
        path.push(index);
        next = dependencies.get(index).into_iter().flatten().copied().find(waits);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::topological_order;

    #[track_caller]
    fn check(dependencies: &[&[usize]], expected: Result<&[usize], &[usize]>) {
        let lists: Vec<_> = dependencies.iter().map(|list| list.to_vec()).collect();
        let order = topological_order(&lists);
        assert_eq!(order.as_deref().map_err(Vec::as_slice), expected, "{dependencies:?}");
    }

    #[test]
    fn order_is_stable_and_cycles_are_named() {
        check(&[], Ok(&[]));
        check(&[&[], &[], &[]], Ok(&[0, 1, 2]));
        check(&[&[], &[0], &[0, 0]], Ok(&[0, 1, 2]));
        check(&[&[2], &[], &[1]], Ok(&[1, 2, 0]));
        check(&[&[0]], Err(&[0]));
        check(&[&[1], &[2], &[1], &[]], Err(&[1, 2]));
    }
}
