//! Blocks: parts of a model that repeat, as a person would checkpoint them.
//!
//! They are found by names and by operators: numbered siblings (`h.0`, `h.1`, `encoder_layer_3`) of which at least
//! two run the same operators. Stages that themselves consist of such blocks do not count. A family may state
//! instead which modules its library runs again.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::graph::Node;

/// COUNT: steps that make a block; fewer are a layer.
const LEAST: usize = 3;

/// A block of a forward: the path of its module, and its steps.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) path: String,
    pub(super) steps: RangeInclusive<usize>,
}

/// The blocks of a forward, by its steps: the modules of these paths, if any are stated.
pub(super) fn find(steps: &[&Node], stated: &[String]) -> Vec<Block> {
    let block = |call: &Call<'_>| Block { path: call.path.to_owned(), steps: call.steps.clone() };
    let calls = calls(steps);
    let stated = stated.iter().map(String::as_str).into_set();
    if !stated.is_empty() {
        // What calls only a part of a module does not run the module.
        let runs = |call: &Call<'_>| {
            let mut steps = steps.get(call.steps.clone()).unwrap_or_default().iter();
            steps.any(|step| step.module == call.path)
        };
        let calls = calls.iter().filter(|call| stated.contains(call.path) && runs(call));
        return calls.map(block).collect();
    }
    let mut siblings: BTreeMap<&str, Vec<&Call<'_>>> = BTreeMap::new();
    for call in &calls {
        siblings.entry(stem(call.path)).or_default().push(call);
    }
    let repeats = |group: &Vec<&Call<'_>>| {
        let operators = |call: &Call<'_>| -> Vec<&str> {
            steps
                .get(call.steps.clone())
                .unwrap_or(&[])
                .iter()
                .map(|node| node.op.as_str())
                .collect()
        };
        let mut seen = BTreeSet::new();
        group.iter().any(|call| !seen.insert(operators(call)))
    };
    let groups = siblings.values().filter(|group| repeats(group));
    let patterns = groups.filter_map(|group| Some(pattern(group.first()?.path))).into_set();
    let has_smaller =
        |own: &str| patterns.iter().any(|other| other.starts_with(&format!("{own}.")));
    let mut blocks: Vec<_> = calls
        .iter()
        .filter(|call| {
            let own = pattern(call.path);
            patterns.contains(&own) && !has_smaller(&own)
        })
        .map(block)
        .collect();
    blocks.order_by_key(|block| *block.steps.start());
    blocks
}

/// One call of a numbered module.
#[derive(Debug)]
struct Call<'a> {
    path: &'a str,
    steps: RangeInclusive<usize>,
}

/// Calls of numbered modules that are long enough.
fn calls<'a>(steps: &[&'a Node]) -> Vec<Call<'a>> {
    let mut calls: Vec<Call<'a>> = Vec::new();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in steps.iter().enumerate() {
        let mut now = BTreeMap::new();
        let ends = node.module.match_indices('.').map(|(at, _)| at).chain([node.module.len()]);
        for path in ends.filter_map(|at| node.module.get(..at)) {
            if !path.ends_with(|last: char| last.is_ascii_digit()) {
                continue;
            }
            let call = *open.get(path).unwrap_or(&calls.len());
            match calls.get_mut(call) {
                Some(call) => call.steps = *call.steps.start()..=index,
                None => calls.push(Call { path, steps: index..=index }),
            }
            now.insert(path, call);
        }
        open = now;
    }
    calls.retain(|call| call.steps.clone().count() >= LEAST);
    calls
}

/// A numbered name without its number.
fn stem(path: &str) -> &str {
    path.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// A path with all its numbers left open.
fn pattern(path: &str) -> String {
    path.split('.')
        .map(|part| if stem(part) == part { part.to_owned() } else { format!("{}*", stem(part)) })
        .collect::<Vec<_>>()
        .join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps as `module: operators`, answers as ranges.
    fn check(modules: &[(&str, &str)], expected: &[RangeInclusive<usize>]) {
        let nodes: Vec<Node> = modules
            .iter()
            .flat_map(|(module, ops)| ops.split_whitespace().map(move |op| (module, op)))
            .map(|(module, op)| Node {
                module: (*module).to_owned(),
                op: op.to_owned(),
                ..Node::default()
            })
            .collect();
        let found = find(&nodes.iter().collect::<Vec<_>>(), &[]);
        let found: Vec<_> = found.into_iter().map(|block| block.steps).collect();
        assert_eq!(found, expected, "{modules:?}");
    }

    #[test]
    fn numbered_siblings_that_do_the_same() {
        let block = "Norm Linear Add";
        check(
            &[("wte", "Gather"), ("h.0", block), ("h.1", block), ("head", "Linear")],
            &[1..=3, 4..=6],
        );
        check(&[("layers.layer_0", block), ("layers.layer_1", block)], &[0..=2, 3..=5]);
    }

    #[test]
    fn stages_give_way_to_their_blocks_and_layers_are_none() {
        let (first, next) = ("Conv Conv Conv Add", "Conv Conv Add");
        check(
            &[("layer1.0", next), ("layer1.1", next), ("layer2.0", first), ("layer2.1", next)],
            &[0..=2, 3..=5, 6..=9, 10..=12],
        );
        // Two unlike layers of a block are no blocks of their own.
        let (attention, feed) = ("Norm MatMul Add", "Norm Linear Relu Add");
        check(
            &[("b.0.l.0", attention), ("b.0.l.1", feed), ("b.1.l.0", attention), ("b.1.l.1", feed)],
            &[0..=6, 7..=13],
        );
        check(&[("features.0", "Conv"), ("features.1", "Relu"), ("features.2", "Conv")], &[]);
    }

    #[test]
    fn modules_that_a_family_states() {
        let node = |module: &str| Node { module: module.to_owned(), ..Node::default() };
        let modules = ["down.0.conv.0", "down.0.attn.0", "down.1.conv.0", "down.0.conv.0.norm"];
        let nodes: Vec<Node> =
            modules.iter().flat_map(|module| [(); 3].map(|()| node(module))).collect();
        let steps: Vec<&Node> = nodes.iter().collect();
        let stated = ["down.0.conv.0", "down.1.conv.0"].map(str::to_owned);
        let found: Vec<_> = find(&steps, &stated).into_iter().map(|block| block.steps).collect();
        assert_eq!(found, [0..=2, 6..=8]);
    }
}
