//! Places in a training iteration.

use super::Sentence;
use crate::trace::Phase;

/// Where something happens: `in the backward pass of layer1.0.conv2`. The module may be empty, and the
/// operator too.
pub fn place(phase: Phase, module: &str, operator: &str) -> Sentence {
    let what =
        if module.is_empty() { Sentence::name(operator) } else { self::module(module, operator) };
    match phase {
        Phase::Setup => Sentence::of("while the model is loaded"),
        Phase::ZeroGrad => Sentence::of("while gradients are cleared"),
        Phase::Optimizer => Sentence::of("in the optimizer step"),
        Phase::Forward if what.is_empty() => Sentence::of("in the forward pass"),
        Phase::Prefill if what.is_empty() => Sentence::of("while prompts are read"),
        Phase::Decode if what.is_empty() => Sentence::of("while tokens are written"),
        Phase::Backward if what.is_empty() => Sentence::of("in the backward pass"),
        Phase::Forward => Sentence::of("in the forward pass of {what}").with("what", what),
        Phase::Prefill => Sentence::of("while prompts are read, in {what}").with("what", what),
        Phase::Decode => Sentence::of("while tokens are written, in {what}").with("what", what),
        Phase::Backward => Sentence::of("in the backward pass of {what}").with("what", what),
    }
}

/// What a module is called. One whose path is a bare number, as in `nn.Sequential`, is called by what it
/// runs too: `layer 0 (linear)`.
pub fn module(module: &str, operator: &str) -> Sentence {
    if module == "loss" {
        return Sentence::of("the loss");
    }
    if module.is_empty() || !module.bytes().all(|digit| digit.is_ascii_digit()) {
        return Sentence::name(module);
    }
    match kind(operator).as_str() {
        "" => Sentence::of("layer {n}").with("n", module),
        kind => Sentence::of("layer {n} ({kind})").with("n", module).with("kind", kind),
    }
}

/// What the modules that run an operator are called: `linear` for `aten::addmm`.
fn kind(operator: &str) -> String {
    let bare = operator.trim_start_matches("aten::").trim_start_matches('_');
    let bare =
        bare.trim_end_matches("Backward0").trim_end_matches("_backward").to_ascii_lowercase();
    match bare.as_str() {
        "addmm" | "mm" | "linear" | "t" => "linear".to_owned(),
        "max_pool2d_with_indices" | "maxpool2dwithindices" => "max pool".to_owned(),
        _ => bare.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_as_people_do() {
        for (phase, module, operator, text) in [
            (
                Phase::Backward,
                "layer1.0.conv2",
                "aten::relu",
                "in the backward pass of layer1.0.conv2",
            ),
            (Phase::Backward, "0", "aten::mm", "in the backward pass of layer 0 (linear)"),
            (
                Phase::Forward,
                "12",
                "aten::convolution",
                "in the forward pass of layer 12 (convolution)",
            ),
            (Phase::Backward, "3", "ReluBackward0", "in the backward pass of layer 3 (relu)"),
            (Phase::Forward, "loss", "aten::_log_softmax", "in the forward pass of the loss"),
            (Phase::Forward, "", "aten::add", "in the forward pass of aten::add"),
            (Phase::Backward, "", "", "in the backward pass"),
            (Phase::Optimizer, "", "aten::_foreach_sqrt", "in the optimizer step"),
            (Phase::Setup, "", "", "while the model is loaded"),
        ] {
            assert_eq!(place(phase, module, operator).to_string(), text);
        }
    }
}
