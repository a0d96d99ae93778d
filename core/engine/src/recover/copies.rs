//! Copies that the dynamo exporter removed, because they change no value: `clone`, `contiguous`, the functions
//! that end in `_copy`, a cast to the same type, the sum of one number, a product with one.
//!
//! A reader of such a copy names it in the text of its call, and reads the original.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::View;
use super::calls::{self, Names, Noted};
use crate::basis::Reason;
use crate::config::Config;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::sentence::Sentence;

/// Calls that copy, as their results are named.
const COPIES: [&str; 5] = ["_to_copy", "clone", "copy", "mul", "sum"];
/// Calls that copy where they cannot see their input otherwise, so that the copy in front is theirs.
const VIEWS: [&str; 2] = ["_unsafe_view.default", "view.default"];
/// Views: a copy of one is contiguous, be it by `contiguous` or by a function in `_copy`.
const SOURCES: [&str; 4] = ["Expand", "Gather", "Slice", "Transpose"];

/// Puts the copies back.
pub(super) fn restore(view: &mut View<'_>, _: &Config) {
    let groups = calls::groups(view);
    if groups.is_empty() {
        return;
    }
    let names = Names::of(view);
    // By what was copied and the name of the copy: who reads it.
    let mut copies: BTreeMap<(ValueId, &str), Vec<NodeId>> = BTreeMap::new();
    for (call, nodes) in &groups {
        let Some(noted) = Noted::parse(call) else { continue };
        let mut lacking = noted.tensors();
        let named: Vec<ValueId> = lacking.iter().filter_map(|name| names.get(name)).collect();
        lacking.retain(|name| names.get(name).is_none() && is_copy(name));
        lacking.dedup();
        if lacking.is_empty() || VIEWS.contains(&noted.aten) {
            continue;
        }
        let mut sources = calls::reads(view, nodes);
        sources.retain(|read| {
            let is_number = view.is_initializer(*read) && is_one(view, *read);
            !is_number && !named.contains(read)
        });
        if sources.len() == lacking.len() {
            for copied in sources.into_iter().zip(lacking) {
                copies.entry(copied).or_default().extend(nodes);
            }
        }
    }
    // What made the value may be the copy itself, under another name.
    let is_copied = |source: ValueId, name: &str| {
        view.producer(source).is_some_and(|maker| {
            let call = maker.origin.as_ref().map_or("", |origin| origin.call.as_str());
            let rest = call.strip_prefix(name);
            maker.op == "Contiguous" || rest.is_some_and(|rest| rest.starts_with(" :"))
        })
    };
    let copies: Vec<(ValueId, String, Vec<NodeId>)> = copies
        .into_iter()
        .filter(|((source, name), _)| !is_copied(*source, name))
        .map(|((source, name), readers)| (source, name.to_owned(), readers))
        .collect();
    let mut count = 0;
    for (source, name, readers) in copies {
        count += usize::from(copy(view, source, &name, &readers).is_some());
    }
    view.found_again(&Sentence::name("clone"), count);
}

/// Whether an argument such as `%clone_1` is named as the result of a copy.
fn is_copy(name: &str) -> bool {
    let name = name.trim_start_matches('%');
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    COPIES.contains(&name) || stem.strip_suffix('_').is_some_and(|stem| COPIES.contains(&stem))
}

/// Whether a value has no dimensions.
fn is_one(view: &View<'_>, value: ValueId) -> bool {
    view.dims(value).is_some_and(<[u64]>::is_empty)
}

/// Puts a copy behind a value, in front of some of its readers.
fn copy(view: &mut View<'_>, source: ValueId, name: &str, readers: &[NodeId]) -> Option<()> {
    let ty = view.typed.ty(source)?.clone();
    let first = *readers.first()?;
    let made = view.producers.get(source.0).copied().flatten();
    let at = made.or_else(|| Some(NodeId(first.0.checked_sub(1)?)))?;
    let is_view = view.producer(source).is_some_and(|node| SOURCES.contains(&node.op.as_str()));
    let op = match name.starts_with("%sum") {
        true if !is_one(view, source) => return None,
        true => "sum",
        false if name.starts_with("%mul") => "times_one",
        false if is_view => "alias_copy",
        false => "clone",
    };
    // A product belongs to what it scales.
    let place = made.filter(|_| op == "times_one").unwrap_or(first);
    let copied = view.add_value(name.trim_start_matches('%').to_owned(), ty, None);
    let node = Node {
        op: op.to_owned(),
        domain: "aten".to_owned(),
        inputs: vec![Some(source)],
        outputs: vec![Some(copied)],
        attributes: [("tensors".to_owned(), Attribute::String("self".to_owned()))].into(),
        module: view.node(place)?.module.clone(),
        ..Node::default()
    };
    view.behind.entry(at).or_default().push(node);
    for reader in readers {
        let Some(slot) = view.nodes.get_mut(reader.0) else { continue };
        let inputs = Arc::make_mut(slot).inputs.iter_mut();
        inputs.filter(|input| **input == Some(source)).for_each(|input| *input = Some(copied));
    }
    view.rests_on_reason(copied);
    if name.starts_with("%_to_copy") {
        // Of which type and in which format nobody knows.
        super::rests_on(&mut view.reasons, copied, &Reason::Operator("_to_copy".to_owned()));
    }
    view.nodes_changed = true;
    Some(())
}
