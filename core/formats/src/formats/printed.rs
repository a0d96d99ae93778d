//! `print(model)` → [`Spec`].
//!
//! text → `text` (modules inside each other) → `translate` (what they run, in which order) → layers
//!
//! - A print has modules and their arguments, and nothing of `forward`. `blocks` is the one table of classes whose
//!   `forward` is known; children of all others run in the order of the print, and the answer reports this. Where
//!   they do not fit together, only their state is counted.
//! - Sizes flow through a draft of the model, so the input size that a layer prints is compared with the actual
//!   one. That decides where `forward` flattens or pools.
//! - A print does not contain the model's input. It follows from the first layer; sizes of images are tried until
//!   every later layer fits.

use crate::order::IntoOrdered as _;

use super::Fidelity;
use super::spec::{Input, Spec};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::Dim;
use crate::sentence::Sentence;

mod blocks;
mod named;
mod text;
mod translate;

use translate::{Outcome, Translator};

pub(super) use named::named;
pub(super) use text::{Printed, is_printed};
pub(super) use translate::kind_of;

/// SIZE: sides of pictures that people train with, the usual one first.
const SIDES: [u64; 24] = [
    224, 299, 32, 28, 256, 64, 96, 128, 384, 227, 112, 160, 192, 240, 288, 320, 416, 448, 480, 512,
    640, 1024, 84, 48,
];

/// SIZE: lengths of signals that are tried.
const LENGTHS: [u64; 8] = [1024, 512, 256, 128, 2048, 4096, 100, 16_000];

/// COUNT: tokens of a sequence where nobody says.
const TOKENS: u64 = 512;

/// Reads a printed model.
///
/// # Errors
/// With the line at which the text is no print of a model.
pub(super) fn parse(text: &str) -> Result<Printed, Error> {
    Ok(text::parse(text)?.peeled())
}

/// The layers of a printed model, and how much of it is known.
///
/// # Errors
/// With the line at which layers do not fit together.
pub(super) fn read(root: &Printed) -> Result<(Spec, Fidelity), Error> {
    let candidates = inputs(root)?;
    let Translated { mut spec, fidelity, unknown } = translated(root, candidates)?;
    spec.diagnostics.extend(unsure(&unknown, fidelity));
    if fidelity != Fidelity::StatesOnly {
        let input = assumed(&spec);
        spec.diagnostics.push(Diagnostic::new(Severity::Warning, "assumed-input", input));
    }
    Ok((spec, fidelity))
}

/// A print as layers.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) spec: Spec,
    pub(super) fidelity: Fidelity,
    /// Classes whose `forward` is not known.
    pub(super) unknown: Vec<String>,
}

/// The layers of a model that is given one of these inputs, the first that fits.
pub(super) fn translated(root: &Printed, candidates: Vec<Spec>) -> Result<Translated, Error> {
    let mut best: Option<(Spec, Outcome)> = None;
    let mut first_error = None;
    for spec in candidates {
        let outcome = Translator::new(&spec).and_then(|translator| translator.translate(root));
        match outcome {
            Ok(outcome) => {
                let better = best.as_ref().is_none_or(|(_, known)| outcome.guesses < known.guesses);
                let done = outcome.guesses == 0;
                if better {
                    best = Some((spec, outcome));
                }
                if done {
                    break;
                }
            }
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    let Some((mut spec, outcome)) = best else {
        let nothing = || Error::new(ErrorKind::NoGraph, say!("the print has no layers"));
        return Err(first_error.unwrap_or_else(nothing));
    };
    spec.layers = outcome.layers;
    let is_known = outcome.unknown.is_empty() && outcome.guesses == 0;
    let does_not_follow = outcome.notes.iter().any(|note| UNRELIABLE.contains(&note.code.as_str()));
    let fidelity = match () {
        () if is_known => Fidelity::Template,
        () if does_not_follow => Fidelity::StatesOnly,
        () => Fidelity::ApproximateOrder,
    };
    spec.diagnostics.extend(outcome.notes);
    Ok(Translated { spec, fidelity, unknown: outcome.unknown })
}

/// Notes that tell that the modules do not run as they stand. Taken in that order, 36 of 113 such models
/// of the survey were off by more than a factor of two, and by up to 256.
const UNRELIABLE: [&str; 4] = ["left-out", "recurrent", "sizes-do-not-fit", "unknown-layer"];

/// Whose `forward` is not known, and what follows from that.
pub(super) fn unsure(unknown: &[String], fidelity: Fidelity) -> Option<Diagnostic> {
    let others = match unknown.len().saturating_sub(1) {
        0 => Sentence::default(),
        1 => say!(" and one other"),
        n => say!(" and {n} others", n),
    };
    let whose = unknown.first().map_or_else(Sentence::default, |first| {
        say!(", and that of {first}{others} is unknown", first, others)
    });
    let (severity, code, so) = match fidelity {
        Fidelity::StatesOnly => (
            Severity::Error,
            "states-only",
            say!(
                "in the order in which they stand the modules do not fit together, so activations are not \
             counted, and a training run takes more than parameters, gradients and the optimizer's state; \
             export the model (ONNX, `torch.export.save`), or correct the layers that `highwater spec` \
             prints"
            ),
        ),
        _ if unknown.is_empty() => return None,
        _ => (
            Severity::Warning,
            "approximate-order",
            say!(
                "the modules inside are taken in the order in which they stand, and calls of functions \
             (`F.relu`, `torch.cat`, `x + y`) are missing. Of 24 models tried so, 21 were within a factor \
             of two; `highwater spec` prints what was read, to be corrected"
            ),
        ),
    };
    let message = say!("a print does not show what `forward` does{whose}: {so}", whose, so);
    Some(Diagnostic::new(severity, code, message))
}

fn assumed(spec: &Spec) -> Sentence {
    let shown = spec.inputs.iter().map(|input| {
        let dims = input.dims.iter().map(|dim| match dim {
            Dim::Known(n) => n.to_string(),
            Dim::Named(name) => spec.dims.get(name).map_or_else(|| name.clone(), u64::to_string),
            Dim::Unknown => "?".to_owned(),
        });
        format!("[{}]", dims.collect::<Vec<_>>().join(", "))
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let names: Vec<String> = spec.dims.keys().map(|name| format!("`--dim {name}=…`")).collect();
    let how = if names.is_empty() {
        Sentence::default()
    } else {
        say!("; set {names} if it is another", names = names.join(" "))
    };
    say!(
        "what the model reads is not printed; {shown} follows from its first layer{how}",
        shown,
        how
    )
}

/// What the model may be given, in the order in which it is tried.
fn inputs(root: &Printed) -> Result<Vec<Spec>, Error> {
    let first = root.leaves().find_map(|leaf| {
        let kind = kind_of(leaf)?;
        let size = translate::width_in(leaf, kind)?;
        Some((leaf, kind.name, size))
    });
    let Some((_, kind, size)) = first else {
        return Err(Error::new(
            ErrorKind::NoGraph,
            say!("the print names no layer that PyTorch has, from which its input would follow"),
        ));
    };
    let named = |name: &str| Dim::Named(name.to_owned());
    let spec = |dims: Vec<Dim>, sizes: Vec<(&str, u64)>| {
        let input = Input { name: "x".to_owned(), dims, dtype: None, place: root.place };
        let sizes = sizes.into_iter().map(|(name, size)| (name.to_owned(), size));
        Spec {
            name: root.class.clone(),
            inputs: vec![input],
            dims: sizes.into_map(),
            ..Spec::default()
        }
    };
    let channels = Dim::Known(size);
    Ok(match kind {
        "embedding" => {
            let tokens = root.positions().map_or(TOKENS, |rows| rows.min(TOKENS));
            vec![spec(vec![named("N"), named("L")], vec![("L", tokens)])]
        }
        "conv1d" | "conv_transpose1d" => LENGTHS
            .into_iter()
            .map(|n| spec(vec![named("N"), channels.clone(), named("L")], vec![("L", n)]))
            .collect(),
        "conv3d" | "conv_transpose3d" => [(16, 112), (32, 64), (64, 64), (16, 224), (96, 96)]
            .into_iter()
            .map(|(depth, side)| {
                let dims = vec![named("N"), channels.clone(), named("D"), named("H"), named("W")];
                spec(dims, vec![("D", depth), ("H", side), ("W", side)])
            })
            .collect(),
        kind if kind.ends_with("2d") => {
            let mut sides = SIDES.to_vec();
            match (root.class.as_str(), size) {
                ("Inception3" | "InceptionV3", _) => sides.insert(0, 299),
                // Handwritten digits have one channel.
                (_, 1) => sides.insert(0, 28),
                _ => {}
            }
            let picture = |side| {
                let dims = vec![named("N"), channels.clone(), named("H"), named("W")];
                spec(dims, vec![("H", side), ("W", side)])
            };
            sides.into_iter().map(picture).collect()
        }
        _ if root.has_attention() => {
            vec![spec(vec![named("N"), named("L"), channels], vec![("L", TOKENS)])]
        }
        _ => vec![spec(vec![named("N"), channels], vec![])],
    })
}
