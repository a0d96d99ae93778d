//! Workspaces of convolutions of kinds that cuDNN was not asked about.
//!
//! The trees of [`crate::aten::conv::workspace`] were learnt from plain two-dimensional layers.
//! Layers of one or three dimensions and dilated ones are answered as the nearest plain layer, which
//! is said where so large a workspace can matter.

use crate::basis::Reason;
use crate::bytes::Bytes;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::Node;
use crate::infer::Typed;
use crate::recover::Program;
use crate::sorted;
use crate::trace::{Event, ReasonId, Trace};

/// COUNT: a workspace of at least the peak over this many is worth a word.
const PARTS: u64 = 200;

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
    trace.reasons.push(Reason::UnaskedWorkspace);
    if bytes.times(PARTS) < peak(trace) {
        return None;
    }
    let message = format!(
        "cuDNN was not asked about {kind} convolutions ({} of the layers): the largest workspace, \
         {bytes}, is that of a plain layer of this size, and the truth may be several times that or \
         nothing",
        kinds.len()
    );
    let label = node.label(&program.graph);
    Some(Diagnostic::new(Severity::Warning, "unproven-workspace", message).at(label))
}

/// In what a convolution differs from those that cuDNN was asked about.
fn kind(node: &Node, typed: &Typed) -> Option<&'static str> {
    if !matches!(node.op.as_str(), "Conv" | "ConvTranspose") {
        return None;
    }
    match typed.ty(node.input(1)?)?.rank() {
        3 => Some("one-dimensional"),
        5 => Some("three-dimensional"),
        _ => {
            let dilated = node.ints("dilations")?.iter().any(|&spacing| spacing > 1);
            dilated.then_some("dilated")
        }
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
