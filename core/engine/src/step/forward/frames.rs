//! How long Python's frames hold values.
//!
//! `module(x)` puts `x` in the arguments of several frames (`Module._call_impl` and `forward`), which end when the
//! module returns. Values that the module itself makes are assumed to have variables that are assigned again, so
//! they are freed after their last reader. No file contains variables, but three habits of writing show in the
//! graph:
//!
//! - results of two submodules that meet in one operator (`words + positions`) have variables of their own, which
//!   end with the frame, unless one of them was made from the other (`x + attention(norm(x))`);
//! - so has a result that several submodules receive, one of them along with another result (`up(x, skip)`; the
//!   cells of `NASNet`, each of which receives the results of the two before);
//! - a sum that only the very next submodule reads is an argument (`norm(x + y)`): the variables of its operands
//!   are assigned again after that call, except in PyTorch's own Transformer layers, which have none.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Node, ValueId};

/// For each value the step after which nobody holds it; `None` for values that no step touches.
///
/// What a step that is an alias makes is its input under another name.
///
/// A program says which names there are: without `habits`, only the arguments of calls are held.
pub(super) fn last_holders(
    steps: &[&Node],
    values: usize,
    habits: bool,
    is_alias: impl Fn(&Node) -> bool,
) -> Vec<Option<usize>> {
    let calls = Calls::of(steps, |_| "");
    // Functions of PyTorch's that are written in Python hold their arguments, too.
    let frames = Calls::of(steps, function);
    let mut roots: Vec<ValueId> = (0..values).map(ValueId).collect();
    for node in steps.iter().filter(|node| is_alias(node)) {
        let source = node.input(0).and_then(|input| roots.get(input.0).copied());
        if let (Some(source), Some(output)) = (source, node.output(0))
            && let Some(slot) = roots.get_mut(output.0)
        {
            *slot = source;
        }
    }
    let last_reads = last_reads(steps, &roots);
    let mut made: Vec<Option<usize>> = vec![None; values];
    let mut last = vec![None; values];
    for (index, node) in steps.iter().enumerate() {
        let made_at = |value: &ValueId| made.get(value.0).copied().flatten();
        // What no step made was there before: parameters, inputs.
        let is_below = |value: &ValueId| made_at(value).is_some_and(|at| calls.is_below(at, index));
        let below = node.inputs.iter().flatten().filter(|value| is_below(value)).count();
        // `x = self.norm2(x + self._ff_block(x))` names the first operand alone.
        let is_residual = habits
            && below > 1
            && node.op == "Add"
            && is_layer(calls.innermost(steps, index), node);
        let argument_until =
            |is_named| argument_until(steps, index, &calls, &roots, &last_reads, is_named);
        let named_until = if !habits || is_residual {
            index
        } else if below > 1 && !is_sum_with_argument(steps, index, &calls, &made) {
            calls.end_of_innermost(index)
        } else {
            argument_until(false)
        };
        let first_until = if is_residual { argument_until(true) } else { named_until };
        for value in node.inputs.iter().flatten() {
            let held = frames.end_of_outermost(index, made_at(value).unwrap_or(0));
            let until = if node.input(0) == Some(*value) { first_until } else { named_until };
            let held = if is_below(value) { held.max(until) } else { held };
            if let Some(slot) = last.get_mut(value.0) {
                *slot = (*slot).max(Some(held));
            }
        }
        let made_here = |value: &ValueId| match roots.get(value.0) {
            Some(root) if root != value => made_at(root),
            _ => Some(index),
        };
        let outputs: Vec<(ValueId, Option<usize>)> =
            node.outputs.iter().flatten().map(|value| (*value, made_here(value))).collect();
        for (value, made_here) in outputs {
            if let (Some(made), Some(slot)) = (made.get_mut(value.0), last.get_mut(value.0)) {
                *made = made_here;
                *slot = Some(index);
            }
        }
    }
    if habits {
        hold_shared(&mut last, steps, &made, &calls);
    }
    last
}

/// The call of a function that a step is a part of.
fn function(node: &Node) -> &str {
    node.origin.as_ref().map_or("", |origin| &origin.function)
}

/// Lets results that several submodules are given live as long as the frame that calls them, where one of
/// these calls is given two results.
fn hold_shared(last: &mut [Option<usize>], steps: &[&Node], made: &[Option<usize>], calls: &Calls) {
    // By result, the calls that read it; by call, the results that it reads. A call is its depth and its first
    // step; results are those of its siblings.
    let mut readers: BTreeMap<ValueId, BTreeSet<(usize, usize)>> = BTreeMap::new();
    let mut given: BTreeMap<(usize, usize), BTreeSet<ValueId>> = BTreeMap::new();
    for (index, node) in steps.iter().enumerate() {
        for &value in node.inputs.iter().flatten() {
            let at = made.get(value.0).copied().flatten().filter(|&at| at < index);
            if let Some(call) = at.and_then(|at| calls.sibling(index, at)) {
                readers.entry(value).or_default().insert(call);
                given.entry(call).or_default().insert(value);
            }
        }
    }
    for (value, by) in readers {
        let is_given_two = |call| given.get(call).is_some_and(|values| values.len() > 1);
        // All of one frame.
        let Some(&(depth, start)) = by.first() else { continue };
        let is_named = by.len() > 1
            && by.iter().all(|&(other, _)| other == depth)
            && by.iter().any(is_given_two);
        if let Some(slot) = last.get_mut(value.0).filter(|_| is_named) {
            *slot = (*slot).max(Some(calls.end_of_frame(start, depth)));
        }
    }
}

/// Lets names hold values until others have been made.
pub(super) fn hold(last: &mut [Option<usize>], steps: &[&Node], names: &[(ValueId, ValueId)]) {
    let mut makers: BTreeMap<ValueId, usize> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        makers.extend(step.outputs.iter().flatten().map(|&output| (output, index)));
    }
    for (value, until) in names {
        if let (Some(slot), Some(&maker)) = (last.get_mut(value.0), makers.get(until)) {
            *slot = (*slot).max(Some(maker));
        }
    }
}

/// Whether a step is `x + second(first(x))`: a sum with what submodules made of its other operand, one after
/// another.
fn is_sum_with_argument(
    steps: &[&Node],
    index: usize,
    calls: &Calls,
    made: &[Option<usize>],
) -> bool {
    /// COUNT: submodules, one given the result of the other.
    const CALLS: usize = 8;
    let Some(node) = steps.get(index).filter(|node| node.op == "Add") else { return false };
    let made_at = |value: ValueId| made.get(value.0).copied().flatten();
    let &[Some(a), Some(b)] = node.inputs.as_slice() else { return false };
    let follows = |x: ValueId, mut y: ValueId| {
        for _ in 0..CALLS {
            let Some(at) = made_at(y) else { return false };
            let Some(start) = calls.start_below(at, index) else { return false };
            let called = steps.get(start..=at).unwrap_or_default();
            let given = called.iter().flat_map(|node| node.inputs.iter().flatten().copied());
            let given =
                given.filter(|&value| made_at(value).is_some_and(|at| at < start)).into_set();
            if given.contains(&x) {
                return true;
            }
            let (1, Some(&only)) = (given.len(), given.first()) else { return false };
            y = only;
        }
        false
    };
    follows(a, b) || follows(b, a)
}

/// The end of the call that a step's sum is an argument of, if it is nothing else; else the step.
fn argument_until(
    steps: &[&Node],
    index: usize,
    calls: &Calls,
    roots: &[ValueId],
    last_reads: &[usize],
    is_named: bool,
) -> usize {
    let root = |value: &ValueId| roots.get(value.0).copied().unwrap_or(*value);
    let Some(node) = steps.get(index).filter(|node| node.op == "Add") else { return index };
    let Some(sum) = node.output(0) else { return index };
    let reads = |node: &Node| node.inputs.iter().flatten().any(|input| root(input) == sum);
    let mut behind =
        steps.iter().enumerate().skip(index + 1).filter(|(_, node)| !is_alias(node, roots));
    let Some((first, next)) = behind.next() else { return index };
    if !reads(next) || !calls.is_below(first, index) {
        return index;
    }
    if !is_named && is_nameless(calls.innermost(steps, index), node, next) {
        return index;
    }
    let end = calls.end_of_outermost(first, index);
    if last_reads.get(sum.0).is_some_and(|&last| last > end) { index } else { end }
}

/// Whether a step makes its input under another name.
fn is_alias(node: &Node, roots: &[ValueId]) -> bool {
    node.output(0).is_some_and(|output| roots.get(output.0).is_some_and(|root| *root != output))
}

/// For each value the last step that reads it, aliases left aside; zero where there is none.
fn last_reads(steps: &[&Node], roots: &[ValueId]) -> Vec<usize> {
    let mut last = vec![0; roots.len()];
    for (index, node) in steps.iter().enumerate().filter(|(_, node)| !is_alias(node, roots)) {
        for root in node.inputs.iter().flatten().filter_map(|input| roots.get(input.0)) {
            if let Some(slot) = last.get_mut(root.0) {
                *slot = index;
            }
        }
    }
    last
}

/// Whether a frame writes `self.norm1(x + self._sa_block(x))`, in which no operand has a name:
/// `nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer` (`torch/nn/modules/transformer.py`), recognised by
/// what their submodules are called.
fn is_nameless(frame: &[&Node], sum: &Node, next: &Node) -> bool {
    let is_norm = |name: &str| matches!(name, "norm1" | "norm2" | "norm3");
    child(next, sum).is_some_and(is_norm) && is_layer(frame, sum)
}

/// Whether a frame that runs `node` is that of such a layer.
fn is_layer(frame: &[&Node], node: &Node) -> bool {
    let has = |name: &str| frame.iter().any(|other| child(other, node) == Some(name));
    ["self_attn", "linear1", "linear2"].into_iter().all(has)
}

/// What the module that runs `node` calls the one that runs `inner`.
fn child<'n>(inner: &'n Node, node: &Node) -> Option<&'n str> {
    let path = inner.module.strip_prefix(&*node.module)?.trim_start_matches('.');
    path.split('.').next()
}

/// Calls of modules: runs of steps whose paths begin alike.
struct Calls {
    /// Where each call begins and ends: for one step after another, those around it from the outermost.
    calls: Vec<(usize, usize)>,
    /// By step, where its calls end.
    ends: Vec<usize>,
}

impl Calls {
    fn of<'n>(steps: &[&'n Node], function: fn(&'n Node) -> &'n str) -> Self {
        let (mut calls, mut ends) = (Vec::new(), Vec::with_capacity(steps.len()));
        let mut open: Vec<(&str, usize)> = Vec::new();
        let mut ended: Vec<(usize, usize, usize)> = Vec::new();
        for (index, node) in steps.iter().enumerate() {
            let path = node.module.split('.').chain([function(node)]);
            let path: Vec<&str> = path.filter(|part| !part.is_empty()).collect();
            let same = open.iter().zip(&path).take_while(|((name, _), part)| name == *part).count();
            close(&mut open, same, index, &mut ended);
            open.extend(path.iter().skip(same).map(|part| (*part, index)));
            calls.extend(open.iter().map(|&(_, start)| (start, index)));
            ends.push(calls.len());
        }
        close(&mut open, 0, steps.len(), &mut ended);
        let mut found = Self { calls, ends };
        for (depth, start, end) in ended {
            for step in start..=end {
                let first = found.first_of(step);
                found.calls.get_mut(first + depth).into_iter().for_each(|call| call.1 = end);
            }
        }
        found
    }

    /// Where the calls around a step begin.
    fn first_of(&self, step: usize) -> usize {
        step.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0)
    }

    /// The calls around a step, from the outermost; none for a step that there is not.
    fn around(&self, step: usize) -> &[(usize, usize)] {
        let end = self.ends.get(step).copied().unwrap_or(0);
        self.calls.get(self.first_of(step)..end).unwrap_or_default()
    }

    /// Whether a step runs in a submodule called by the frame that runs `frame`.
    fn is_below(&self, step: usize, frame: usize) -> bool {
        let (inner, outer) = (self.around(step), self.around(frame));
        inner.len() > outer.len() && inner.starts_with(outer)
    }

    /// Where the call began that the frame of `frame` made and `step` runs in.
    fn start_below(&self, step: usize, frame: usize) -> Option<usize> {
        let outer = self.around(frame).len();
        self.around(step).get(outer).map(|&(start, _)| start)
    }

    /// The call around `step` that the frame makes which also called what runs `other`: how many calls lie
    /// around it, and its first step. None where the frame itself runs either.
    fn sibling(&self, step: usize, other: usize) -> Option<(usize, usize)> {
        let (this, that) = (self.around(step), self.around(other));
        let common = this.iter().zip(that).take_while(|(a, b)| a.0 == b.0).count();
        that.get(common)?;
        this.get(common).map(|&(start, _)| (common, start))
    }

    /// The last step of the frame that makes the call around `step` within `depth` others.
    fn end_of_frame(&self, step: usize, depth: usize) -> usize {
        let frame = depth.checked_sub(1).and_then(|at| self.around(step).get(at));
        frame.map_or_else(|| self.ends.len().saturating_sub(1), |&(_, end)| end)
    }

    /// The last step of the frame that runs `step`; of the whole where no module does.
    fn end_of_innermost(&self, step: usize) -> usize {
        let calls = self.around(step).last();
        calls.map_or_else(|| self.ends.len().saturating_sub(1), |&(_, end)| end)
    }

    /// The steps of the frame that runs `step`.
    fn innermost<'a, 'n>(&self, steps: &'a [&'n Node], step: usize) -> &'a [&'n Node] {
        let calls = self.around(step).last();
        calls.map_or(Some(steps), |&(start, end)| steps.get(start..=end)).unwrap_or_default()
    }

    /// The last step of the outermost call around `step` that began after `made`; the step itself
    /// where there is none.
    fn end_of_outermost(&self, step: usize, made: usize) -> usize {
        let calls = self.around(step);
        calls.iter().find(|&&(start, _)| start > made).map_or(step, |&(_, end)| end)
    }
}

/// Notes the calls deeper than `keep` as ended before `index`: depth, first and last step.
fn close(
    open: &mut Vec<(&str, usize)>,
    keep: usize,
    index: usize,
    ended: &mut Vec<(usize, usize, usize)>,
) {
    while open.len() > keep {
        if let Some((_, start)) = open.pop() {
            ended.push((open.len(), start, index.saturating_sub(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ValueId;

    /// Steps as `module: inputs -> outputs`, with `~` casts to the same type; the answer as `value@step`.
    fn check(steps: &[&str], expected: &str) {
        let ids = |text: &str| -> Vec<Option<ValueId>> {
            text.split_whitespace().map(|id| Some(ValueId(id.parse().unwrap()))).collect()
        };
        let nodes: Vec<Node> = steps
            .iter()
            .map(|step| {
                let (module, rest) = step.split_once(':').unwrap();
                let (inputs, outputs) = rest.split_once("->").unwrap();
                let (inputs, outputs) = (ids(inputs), ids(outputs));
                let (module, op) = match module.strip_suffix('~') {
                    Some(module) => (module, "Cast"),
                    None => (module, if inputs.len() == 2 { "Add" } else { "" }),
                };
                let (module, op) = (module.to_owned(), op.to_owned());
                Node { op, inputs, outputs, module, ..Node::default() }
            })
            .collect();
        let nodes: Vec<&Node> = nodes.iter().collect();
        let held = last_holders(&nodes, 6, true, |node| node.op == "Cast");
        let held =
            held.iter().enumerate().filter_map(|(v, step)| Some(format!("{v}@{}", (*step)?)));
        assert_eq!(held.collect::<Vec<_>>().join(" "), expected, "{steps:?}");
    }

    #[test]
    fn a_sum_with_what_was_made_of_its_other_operand_names_nothing() {
        // `x + second(first(x))`, and `first(x) + second(x)`.
        check(
            &["stem: -> 0", "a: 0 -> 1", "b: 1 -> 2", ": 0 2 -> 3", "c: -> 4"],
            "0@3 1@2 2@3 3@3 4@4",
        );
        check(
            &["stem: -> 0", "a: 0 -> 1", "b: 0 -> 2", ": 1 2 -> 3", "c: -> 4"],
            "0@2 1@4 2@4 3@3 4@4",
        );
    }

    #[test]
    fn arguments_are_held_until_the_module_returns() {
        // The block's input is read by its first norm and by its residual sum.
        check(
            &["emb: -> 0", "b.norm: 0 -> 1", "b.fc: 1 -> 2", "b: 0 2 -> 3", "b: 3 -> 4"],
            "0@4 1@2 2@3 3@4 4@4",
        );
        // What a chain makes goes with its reader, though both are calls.
        check(&["a: 0 -> 1", "b: 1 -> 2", "c: 2 -> 3"], "0@0 1@1 2@2 3@2");
        // A module inside another: the outer call holds it too.
        check(
            &[": 0 -> 1", "mlp.fc: 1 -> 2", "mlp.act: 2 -> 3", ": 3 -> 4"],
            "0@0 1@2 2@2 3@3 4@3",
        );
        // Results of two submodules meet: both have names that go with the frame.
        check(
            &["a: -> 0", "e.w: 0 -> 1", "e.p: 0 -> 2", "e: 1 2 -> 3", "e: 3 -> 4", "b: 4 -> 5"],
            "0@4 1@4 2@4 3@4 4@5 5@5",
        );
        // A sum as argument: what it was made of goes when the norm returns.
        check(
            &["a: -> 0", "o.fc: 0 -> 1", "o: 1 0 -> 2", "o.norm: 2 -> 3", "o.norm: 3 -> 4"],
            "0@4 1@4 2@4 3@4 4@4",
        );
        // Casts to the same type are the same tensor: the sum goes to the norm alone.
        check(
            &["a: -> 0", "o.fc: 0 -> 1", "o: 1 0 -> 2", "o.n~: 2 -> 3", "o.n: 3 -> 4", "o.n: 4 ->"],
            "0@5 1@5 2@5 3@5 4@5",
        );
        // A result that a second call is given beside another's lives as long as the frame.
        check(
            &["a: -> 0", "b: 0 -> 1", "c: 1 -> 2", "up: 2 -> 3", "up: 0 3 -> 4", "d: 4 -> 5"],
            "0@5 1@2 2@4 3@4 4@5 5@5",
        );
        // One that is given alone is taken to be bound again.
        check(
            &["a: -> 0", "b: 0 -> 1", "c: 0 -> 2", "d: 1 -> 3", "e: 2 -> 4"],
            "0@2 1@3 2@4 3@3 4@4",
        );
        // Called twice, and apart.
        check(&["relu: 0 -> 1", "conv: 1 -> 2", "relu: 2 -> 3"], "0@0 1@1 2@2 3@2");
    }
}
