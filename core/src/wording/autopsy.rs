//! What sets the peak.

use super::place::{module, place};
use super::{Part, Sentence};
use crate::autopsy::{Autopsy, Group, NextPeak, Why};
use crate::report::{Peak, Report};

/// When and where the peak is.
pub fn peak(peak: &Peak) -> Sentence {
    let english = match (peak.iteration, peak.operator.as_str()) {
        (0, _) => "The peak of {size} is reached {place}.",
        (_, "") => "The peak of {size} is reached {place}, in iteration {n}.",
        _ => "The peak of {size} is reached {place}, by {operator}, in iteration {n}.",
    };
    Sentence::of(english)
        .with("size", peak.allocated)
        .with("place", place(peak.phase, &peak.module, &peak.operator))
        .with("operator", &peak.operator)
        .with("n", peak.iteration)
}

/// What the tensors of a group are: `12 tensors like float32[16, 1024] of aten::mul in h.0`.
pub fn what(group: &Group) -> Sentence {
    let Group { why, count, example, .. } = group;
    let english = match (why, count, example.module.as_str()) {
        (Why::Parameter, ..) => "{n} parameters",
        (Why::Buffer, ..) => "{n} buffers",
        (Why::Input, ..) => "the batch",
        (Why::OptimizerState, ..) => "{n} tensors of optimizer state",
        (Why::Gradient, ..) => "{n} gradients",
        (Why::InStep, ..) => "{n} temporaries of the optimizer step",
        (Why::Workspace, ..) => "workspace of {operator}",
        (_, 1, "") => "{tensor} of {operator}",
        (_, 1, _) => "{tensor} of {operator} in {module}",
        (_, _, "") => "{n} tensors like {tensor} of {operator}",
        _ => "{n} tensors like {tensor} of {operator} in {module}",
    };
    let tensor = example.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
    Sentence::of(english)
        .with("n", *count)
        .with("tensor", tensor)
        .with("operator", &example.operator)
        .with("module", module(&example.module, ""))
}

/// That the logits of many classes set the peak, and what lowers it; empty where they do not.
pub fn scores(autopsy: &Autopsy) -> Vec<Sentence> {
    let Some(scores) = &autopsy.scores else { return Vec::new() };
    let what = Sentence::of(
        "The logits set the peak: with {classes} classes, they and what cross-entropy makes of them are \
         {n} tensors like {tensor}, {size} or {share} of it.",
    )
    .with("classes", scores.classes)
    .with("n", scores.count)
    .with("tensor", scores.tensor.to_string())
    .with("size", scores.bytes)
    .with("share", Part::Share(scores.bytes, autopsy.total));
    let how = Sentence::of(
        "Computing the last layer and the loss in chunks keeps only one chunk of them at a time.",
    );
    vec![what, how]
}

/// What would be the peak without this one.
pub fn next(autopsy: &Autopsy, report: &Report) -> Sentence {
    let Some(NextPeak { allocated, iteration, phase, operator, module }) = &autopsy.next else {
        return Sentence::of(
            "No other peak comes near: lowering this one lowers what the run needs.",
        );
    };
    Sentence::of("Without this peak, the next is {size}, {place} in iteration {n}: {less} lower.")
        .with("size", *allocated)
        .with("place", place(*phase, module, operator))
        .with("n", *iteration)
        .with("less", report.peak.allocated - *allocated)
}
