//! Sequences and optionals, which are lists of values and values while a graph is unrolled
//! (<https://onnx.ai/onnx/operators/>, `Sequence…`, `Optional…`).

use crate::order::IntoOrdered as _;

use super::{Part, Round};
use crate::error::Error;
use crate::graph::{Attribute, Elements, Fold, Literal, Node, Trip, Value, ValueId};
use crate::tensor::DType;

/// Operators whose result is a sequence.
const MAKE_LISTS: [&str; 5] =
    ["SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence"];
/// Other operators that read sequences or optionals.
const READ_LISTS: [&str; 7] = [
    "SequenceMap",
    "SequenceAt",
    "SequenceLength",
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
];

pub(super) fn makes_list(node: &Node) -> bool {
    node.domain.is_empty() && MAKE_LISTS.contains(&node.op.as_str())
}

pub(super) fn is_of_lists(node: &Node) -> bool {
    makes_list(node) || READ_LISTS.contains(&node.op.as_str())
}

impl Round<'_> {
    /// An operator of sequences: what makes one is noted and kept, since whoever reads it may have to
    /// wait; what reads one becomes the values that it reads, where these are known.
    pub(super) fn list(&mut self, node: &Node) -> Result<bool, Error> {
        let Some(output) = node.output(0) else { return Ok(false) };
        if let Some(list) = self.made_list(node) {
            self.lists.insert(output, list);
            return Ok(false);
        }
        match node.op.as_str() {
            "SplitToSequence" => return self.split(node, output),
            "SequenceMap" => return self.map(node),
            _ => {}
        }
        Ok(self.read_list(node, output).is_some())
    }

    /// The list that an operator makes of others.
    fn made_list(&self, node: &Node) -> Option<Vec<Part>> {
        let given = node.input(0).and_then(|input| self.lists.get(&input));
        match node.op.as_str() {
            "SequenceEmpty" => Some(Vec::new()),
            "SequenceConstruct" => {
                node.inputs.iter().map(|input| Some(Part { value: (*input)?, times: 1 })).collect()
            }
            "SequenceInsert" => {
                let mut list = given?.clone();
                let end = Some(list.len());
                let at = match node.input(2) {
                    // A place in a list of which not all values are there tells nothing.
                    Some(_) if is_folded(&list) => None,
                    Some(at) => place(self.number(at)?, list.len() + 1),
                    None => end,
                };
                let times = node.trip.map_or(1, |trip| self.times(trip));
                list.insert(at?, Part { value: node.input(1)?, times });
                Some(list)
            }
            "SequenceErase" => {
                let mut list = given.filter(|list| !is_folded(list))?.clone();
                let last = list.len().checked_sub(1);
                let at = node.input(1).map_or(last, |at| place(self.number(at)?, list.len()))?;
                list.remove(at);
                Some(list)
            }
            _ => None,
        }
    }

    fn read_list(&mut self, node: &Node, output: ValueId) -> Option<()> {
        let list = || node.input(0).and_then(|input| self.lists.get(&input));
        match node.op.as_str() {
            "SequenceAt" => {
                let list = list().filter(|list| !is_folded(list))?;
                let at = place(self.number(node.input(1)?)?, list.len())?;
                self.alias(output, list.get(at)?.value);
            }
            "SequenceLength" => {
                let length = list()?.iter().map(|part| part.times).fold(0, u64::saturating_add);
                let length = i64::try_from(length).ok()?;
                let length = self.constant(DType::Int64, Elements::Ints(vec![length]));
                self.alias(output, length);
            }
            "ConcatFromSequence" => {
                let (list, axis) = (list()?.clone(), node.int("axis")?);
                if list.is_empty() {
                    return None;
                }
                if node.int("new_axis") == Some(1) {
                    self.stack(output, &list, axis);
                } else {
                    let repeats = repeats(&list);
                    let values = list.into_iter().map(|part| part.value).collect();
                    self.put("Concat", values, output, Some(axis));
                    self.repeat(repeats);
                }
            }
            "Identity" => {
                let list = list()?.clone();
                self.lists.insert(output, list);
                self.alias(output, node.input(0)?);
            }
            "Optional" | "OptionalGetElement" => self.alias(output, node.input(0)?),
            "OptionalHasElement" => {
                let is_there = i64::from(node.input(0).is_some());
                let is_there = self.constant(DType::Bool, Elements::Ints(vec![is_there]));
                self.alias(output, is_there);
            }
            _ => return None,
        }
        Some(())
    }

    /// `SplitToSequence`: parts of a tensor, which are views as those of `Tensor.split`.
    fn split(&mut self, node: &Node, output: ValueId) -> Result<bool, Error> {
        let axis = node.int("axis").unwrap_or(0);
        let Some(whole) = node.input(0) else { return Ok(false) };
        let Some(sizes) = self.part_sizes(node, whole, axis) else { return Ok(false) };
        self.spend(sizes.len())?;
        let name = node.label(self.graph).to_owned();
        let mut list = Vec::with_capacity(sizes.len());
        if node.input(1).is_none() && node.int("keepdims") == Some(0) {
            for place in 0..sizes.len() {
                let place = i64::try_from(place).unwrap_or(i64::MAX);
                list.push(self.select(whole, axis, place));
            }
        } else {
            for part in 0..sizes.len() {
                let value = Value { name: format!("{name}/{part}"), ..Value::default() };
                list.push(self.add(value));
            }
            let mut parts = Node {
                op: "Split".to_owned(),
                inputs: vec![Some(whole)],
                outputs: list.iter().copied().map(Some).collect(),
                attributes: [("axis".to_owned(), Attribute::Int(axis))].into(),
                module: node.module.clone(),
                trip: self.trip,
                ..Node::default()
            };
            let is_shared_out = match self.nodes.as_slice() {
                [.., tile, sizes] => tile.op == "Tile" && sizes.output(0) == node.input(1),
                _ => false,
            };
            if is_shared_out {
                // Only `tensor_split` counts its sizes so, and makes slices.
                let sections = i64::try_from(sizes.len()).unwrap_or(i64::MAX);
                "tensor_split.sections".clone_into(&mut parts.op);
                "aten".clone_into(&mut parts.domain);
                let named = [("tensors", Attribute::String("self".to_owned()))];
                let counted = [("sections", sections), ("dim", axis)];
                let counted = counted.map(|(name, n)| (name, Attribute::Int(n)));
                let all = named.into_iter().chain(counted);
                parts.attributes = all.map(|(name, a)| (name.to_owned(), a)).into_map();
            } else if self.graph.opset < 13 {
                parts.attributes.insert("split".to_owned(), Attribute::Ints(sizes));
            } else {
                let sizes = self.vector(sizes);
                parts.inputs.push(Some(sizes));
            }
            self.nodes.push(parts);
        }
        self.keep(output, list);
        Ok(true)
    }

    /// Notes a sequence, and who makes it, since whoever reads it may have to wait.
    fn keep(&mut self, output: ValueId, list: Vec<ValueId>) {
        self.nodes.push(Node {
            op: "SequenceConstruct".to_owned(),
            inputs: list.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            ..Node::default()
        });
        let list = list.into_iter().map(|value| Part { value, times: 1 }).collect();
        self.lists.insert(output, list);
    }

    /// `SequenceMap`: its body for each value of a sequence, with those at its place in further ones.
    fn map(&mut self, node: &Node) -> Result<bool, Error> {
        let first = node.input(0).and_then(|input| self.lists.get(&input));
        let first = first.filter(|list| !is_folded(list));
        let (Some(body), Some(length)) = (node.body("body"), first.map(Vec::len)) else {
            return Ok(false);
        };
        let is_assumed = self.rests_on_assumption(node);
        let mut made = vec![Vec::new(); body.outputs.len()];
        for place in 0..length {
            let given = |id: &ValueId| match self.lists.get(id) {
                Some(list) => list.get(place).map(|part| part.value),
                None => Some(*id),
            };
            let given = node.inputs.iter().flatten().filter_map(given);
            let names = body.inputs.iter().copied().zip(given).into_map();
            let trip = i64::try_from(place).unwrap_or(i64::MAX);
            let values = self.run(body, names, trip, is_assumed)?;
            made.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
        }
        for (output, list) in node.outputs.iter().zip(made) {
            if let Some(output) = *output {
                self.keep(output, list);
            }
        }
        Ok(true)
    }

    /// Sizes of the parts: as given, or all of one size but the last, or of one element.
    fn part_sizes(&self, node: &Node, whole: ValueId, axis: i64) -> Option<Vec<i64>> {
        /// COUNT: parts at most.
        const PARTS_MAX: i64 = 100_000;
        let total = i64::try_from(self.size(whole, axis)?).ok()?;
        let size = match node.input(1) {
            None => 1,
            Some(given) => {
                let sizes = self.ints(given)?;
                if self.typed.ty(given)?.rank() == 1 {
                    return Some(sizes.to_vec());
                }
                *sizes.first()?
            }
        };
        let full = total.checked_div_euclid(size).filter(|parts| (0..PARTS_MAX).contains(parts))?;
        let rest = total.checked_rem_euclid(size)?;
        let mut sizes = vec![size; usize::try_from(full).ok()?];
        sizes.extend((rest > 0).then_some(rest));
        Some(sizes)
    }

    /// `torch.stack`: each value with a new axis, then one after the other.
    pub(super) fn stack(&mut self, output: ValueId, list: &[Part], axis: i64) {
        let mut raised = Vec::with_capacity(list.len());
        for Part { value, .. } in list {
            let name = format!("{}/unsqueezed", self.graph.value_name(*value));
            let name = format!("{name}#{}", self.graph.values.len());
            let one = self.add(Value { name, ..Value::default() });
            let mut node = Node {
                op: "Unsqueeze".to_owned(),
                inputs: vec![Some(*value)],
                outputs: vec![Some(one)],
                ..Node::default()
            };
            if self.graph.opset < 13 {
                node.attributes.insert("axes".to_owned(), Attribute::Ints(vec![axis]));
            } else {
                let axes = self.vector(vec![axis]);
                node.inputs.push(Some(axes));
            }
            self.nodes.push(node);
            raised.push(one);
        }
        self.put("Concat", raised, output, Some(axis));
        self.repeat(repeats(list));
    }

    /// Says of the last node how many values each of its inputs stands for.
    fn repeat(&mut self, repeats: Option<Vec<i64>>) {
        if let (Some(node), Some(repeats)) = (self.nodes.last_mut(), repeats) {
            node.attributes.insert("repeats".to_owned(), Attribute::Ints(repeats));
        }
    }

    /// COUNT: trips that one stands for.
    fn times(&self, trip: Trip) -> u64 {
        let fold = self.graph.folds.get(trip.fold).filter(|_| trip.place == Fold::TEMPLATE);
        fold.map_or(1, |fold| fold.lacking().saturating_add(1))
    }

    /// `Tensor.select`: one place along an axis, without the axis.
    pub(super) fn select(&mut self, whole: ValueId, axis: i64, place: i64) -> ValueId {
        let name = format!("{}[{place}]#{}", self.graph.value_name(whole), self.graph.values.len());
        let part = self.add(Value { name, ..Value::default() });
        let place = self.constant(DType::Int64, Elements::Ints(vec![place]));
        self.put("Gather", vec![whole, place], part, Some(axis));
        part
    }

    /// A list of integers.
    fn vector(&mut self, list: Vec<i64>) -> ValueId {
        let name = format!("Constant#{}", self.graph.values.len());
        let dims = vec![u64::try_from(list.len()).unwrap_or(u64::MAX)];
        let elements = Some(Elements::Ints(list));
        let initializer = Some(Literal { dtype: DType::Int64, dims, elements });
        self.add(Value { name, declared: None, initializer })
    }
}

/// Whether values of a list stand for several.
fn is_folded(list: &[Part]) -> bool {
    list.iter().any(|part| part.times > 1)
}

/// How many values each value of a list stands for, if not all for one.
fn repeats(list: &[Part]) -> Option<Vec<i64>> {
    let times = |part: &Part| i64::try_from(part.times).unwrap_or(i64::MAX);
    is_folded(list).then(|| list.iter().map(times).collect())
}

/// A position in a list, which may count from its end.
fn place(at: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at.checked_add(length)? } else { at };
    usize::try_from(at).ok().filter(|_| at < length)
}
