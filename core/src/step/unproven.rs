//! Workspaces of convolutions of kinds whose plan is guessed less often.
//!
//! The trees of [`crate::aten::conv::workspace`] answer layers of most networks well. For other kinds
//! they were learnt from sampled layers, and `docs/convolution-workspaces.md` says how many of those
//! that were held out they answer within 5 %; this is said where so large a workspace can matter.

use crate::basis::Reason;
use crate::bytes::Bytes;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::Node;
use crate::infer::Typed;
use crate::recover::Program;
use crate::sorted;
use crate::trace::{Event, ReasonId, Trace};

/// A kind of layer, and what is known of the answers.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Of ten workspaces so many are within 5 %, in single precision on an A100.
    near: u64,
    /// COUNT: a workspace of at least the peak over this many is worth a word.
    parts: u64,
}

const LINE: Kind = Kind { name: "one-dimensional", near: 6, parts: 200 };
const VOLUME: Kind = Kind { name: "three-dimensional", near: 7, parts: 200 };
const DILATED: Kind = Kind { name: "dilated", near: 7, parts: 200 };
/// Nearer than the others in bytes, and in far more models: said where much hangs on it.
const ODD: Kind = Kind { name: "even, large or oblong", near: 7, parts: 50 };
const GROUPED: Kind = Kind { name: "grouped", near: 7, parts: 50 };

/// Marks these workspaces as assumed; returns what there is to say of the largest.
pub(super) fn mark(program: &Program<'_>, typed: &Typed, trace: &mut Trace) -> Option<Diagnostic> {
    let kinds = sorted::map(program.nodes.iter().filter_map(|node| {
        let node = node.as_ref();
        Some((node.module.as_str(), (node, kind(node, typed)?)))
    }));
    if kinds.is_empty() {
        return None;
    }
    let scratch = trace.storages.iter().enumerate();
    let scratch = scratch.filter(|(_, storage)| trace.is_convolution_workspace(storage));
    let unproven = scratch.filter_map(|(at, storage)| {
        let (node, kind) = kinds.get(trace.label(storage.module))?;
        Some((at, storage.requested, *node, *kind))
    });
    let unproven: Vec<_> = unproven.collect();
    let reason = ReasonId(trace.reasons.len());
    for (at, ..) in &unproven {
        if let Some(storage) = trace.storages.get_mut(*at) {
            storage.reason = Some(reason);
        }
    }
    let (_, bytes, node, kind) = unproven.into_iter().max_by_key(|&(_, bytes, ..)| bytes)?;
    trace.reasons.push(Reason::GuessedWorkspace);
    if bytes.times(kind.parts) < peak(trace) {
        return None;
    }
    let message = format!(
        "the workspaces of {} convolutions ({} of the layers) are guessed: of ten such layers, {} came \
         within 5 % of cuDNN's answer; the largest here takes {bytes}",
        kind.name,
        kinds.len(),
        kind.near
    );
    let label = node.label(&program.graph);
    Some(Diagnostic::new(Severity::Warning, "unproven-workspace", message).at(label))
}

/// In what a convolution differs from those of most networks.
fn kind(node: &Node, typed: &Typed) -> Option<Kind> {
    if !matches!(node.op.as_str(), "Conv" | "ConvTranspose") {
        return None;
    }
    match *typed.ty(node.input(1)?)?.dims.as_slice() {
        [_, _, _] => Some(LINE),
        [_, _, _, _, _] => Some(VOLUME),
        [first, second, height, width] => {
            let is_dilated = node.ints("dilations").is_some_and(|each| each.iter().any(|&n| n > 1));
            let is_small = height == width && matches!(height, 1 | 3 | 5 | 7);
            let is_grouped = node.int("group").is_some_and(|groups| groups > 1);
            match () {
                () if is_dilated => Some(DILATED),
                () if !is_small => Some(ODD),
                () if is_grouped && first.min(second) > 1 => Some(GROUPED),
                () => None,
            }
        }
        _ => None,
    }
}

/// SIZE: most bytes alive at once.
fn peak(trace: &Trace) -> Bytes {
    let (mut alive, mut most) = (Bytes::ZERO, Bytes::ZERO);
    for &event in &trace.events {
        let size = trace.storage(event).map_or(Bytes::ZERO, |storage| storage.requested);
        alive = match event {
            Event::Alloc(_) => alive + size,
            Event::Free(_) => alive.saturating_sub(size),
        };
        most = most.max(alive);
    }
    most
}
