//! How sure the workspaces of convolutions are.
//!
//! The trees of [`crate::aten::conv::workspace`] predict cuDNN's choices: well for layers of most networks, less
//! well for rare kinds. `docs/convolution-workspaces.md` has the shares for held-out layers. The answer warns
//! where it can matter.

use crate::order::IntoOrdered as _;

use crate::basis::Reason;
use crate::bytes::Bytes;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::Node;
use crate::infer::Typed;
use crate::recover::Program;
use crate::trace::{Event, ReasonId, Trace};

/// A kind of layer, and what is known of the answers.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Whether most networks lack it.
    is_rare: bool,
    /// Of ten workspaces so many are within 5 %, in single precision on an A100.
    near: u64,
    /// COUNT: a guess of at least the peak over this many is worth a word.
    parts: u64,
    /// COUNT: so is a layer whose tensors take at least the peak over this many, whatever the guess.
    copied: u64,
}

const RARE: Kind = Kind { name: "", is_rare: true, near: 7, parts: 200, copied: 8 };
const LINE: Kind = Kind { name: "one-dimensional", near: 6, ..RARE };
const VOLUME: Kind = Kind { name: "three-dimensional", ..RARE };
const DILATED: Kind = Kind { name: "dilated", ..RARE };
/// Nearer than the others in bytes, and in far more models: said where much hangs on it.
const ODD: Kind = Kind { name: "even, large or oblong", parts: 50, ..RARE };
const GROUPED: Kind = Kind { name: "grouped", parts: 50, ..RARE };
/// Nearly always right: said where one layer is nearly all there is.
const PLAIN: Kind = Kind { name: "plain", is_rare: false, near: 9, parts: 6, copied: 6 };
/// PyTorch's own kernels, which take none, run for most.
const DEPTHWISE: Kind = Kind { name: "depthwise", is_rare: false, parts: 6, copied: 0, ..RARE };

/// A layer whose workspace is guessed.
#[derive(Clone, Copy)]
struct Guess<'a> {
    node: &'a Node,
    kind: Kind,
    /// SIZE: the largest workspace that was guessed.
    guessed: Bytes,
    /// SIZE: input, weight and output, of which most plans keep copies.
    tensors: Bytes,
}

impl Guess<'_> {
    /// The largest peak beside which this is worth a word.
    fn matters_to(&self) -> Bytes {
        self.guessed.times(self.kind.parts).max(self.tensors.times(self.kind.copied))
    }
}

/// Marks workspaces of rare kinds as assumed; returns what there is to say of the worst guess.
pub(super) fn mark(program: &Program, typed: &Typed, trace: &mut Trace) -> Option<Diagnostic> {
    let mut guesses = program
        .nodes
        .iter()
        .filter_map(|node| {
            let (node, kind) = (node.as_ref(), kind(node, typed)?);
            let (guessed, tensors) = (Bytes::ZERO, tensors(node, typed));
            Some((node.module.as_str(), Guess { node, kind, guessed, tensors }))
        })
        .into_map();
    let reason = ReasonId::new(trace.reasons.len());
    let mut assumed = Vec::new();
    for (at, storage) in trace.storages.iter().enumerate() {
        if !trace.is_convolution_workspace(storage) {
            continue;
        }
        if let Some(guess) = guesses.get_mut(trace.label(storage.module)) {
            guess.guessed = guess.guessed.max(storage.requested);
            assumed.extend(guess.kind.is_rare.then_some(at));
        }
    }
    for &at in &assumed {
        if let Some(storage) = trace.storages.get_mut(at) {
            storage.reason = Some(reason);
        }
    }
    if !assumed.is_empty() {
        trace.reasons.push(Reason::GuessedWorkspace);
    }
    let &worst = guesses.values().max_by_key(|guess| guess.matters_to())?;
    if worst.matters_to() < peak(trace) {
        return None;
    }
    let Guess { node, kind, guessed, tensors } = worst;
    let message = say!(
        "the workspaces of {name} convolutions are guessed: of ten, {near} come within 5 % of cuDNN's answer; the \
         largest of this one is assumed to be {guessed}, where copies of its tensors are {tensors}",
        name = kind.name,
        near = kind.near,
        guessed,
        tensors
    );
    let label = node.label(&program.graph);
    Some(Diagnostic::new(Severity::Warning, "unproven-workspace", message).at(label))
}

/// SIZE: what a convolution reads and makes, but for its bias.
fn tensors(node: &Node, typed: &Typed) -> Bytes {
    let output = node.outputs.iter().flatten().next().copied();
    let values = [node.input(0), node.input(1), output].into_iter().flatten();
    let sizes = values.filter_map(|value| typed.ty(value));
    sizes.fold(Bytes::ZERO, |sum, ty| sum + ty.size())
}

/// What kind of layer a convolution is.
fn kind(node: &Node, typed: &Typed) -> Option<Kind> {
    if !matches!(node.op.as_str(), "Conv" | "ConvTranspose") {
        return None;
    }
    let is_grouped = node.int("group").is_some_and(|groups| groups > 1);
    let is_dilated = node.ints("dilations").is_some_and(|each| each.iter().any(|&n| n > 1));
    Some(match *typed.ty(node.input(1)?)?.dims.as_slice() {
        [_, _, _] => LINE,
        [_, _, _, _, _] => VOLUME,
        [_, 1, _, _] if is_grouped && node.op == "Conv" => DEPTHWISE,
        _ if is_dilated => DILATED,
        [_, _, height, width] if height != width || !matches!(height, 1 | 3 | 5 | 7) => ODD,
        _ if is_grouped => GROUPED,
        _ => PLAIN,
    })
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
