//! What sets the peak, in words.

use highwater_core::autopsy::{Autopsy, Group, NextPeak, Scores, Why};
use highwater_core::report::{Peak, Report};

use super::names::place;
use crate::words::format::{grouped, percent};
use crate::words::language::{fill, tr};

/// When and where the peak is.
pub(crate) fn peak(peak: &Peak) -> String {
    let place = place(peak.phase, &peak.module, &peak.operator);
    let iteration = peak.iteration;
    match (peak.iteration, peak.operator.as_str()) {
        (0, _) => fill("The peak is reached {place}.", &[("place", &place)]),
        (_, "") => fill(
            "The peak is reached {place}, in iteration {n}.",
            &[("place", &place), ("n", &iteration)],
        ),
        (_, operator) => fill(
            "The peak is reached {place}, by {operator}, in iteration {n}.",
            &[("place", &place), ("operator", &operator), ("n", &iteration)],
        ),
    }
}

/// What the tensors of a group are.
pub(crate) fn what(group: &Group) -> String {
    let count = grouped(u64::try_from(group.count).unwrap_or(u64::MAX));
    let operator = &group.example.operator;
    let english = match group.why {
        Why::Parameter => "{n} parameters",
        Why::Buffer => "{n} buffers",
        Why::Input => "the batch",
        Why::OptimizerState => "{n} tensors of optimizer state",
        Why::Gradient => "{n} gradients",
        Why::InStep => "{n} temporaries of the optimizer's step",
        Why::Workspace => "scratch of {operator}",
        Why::Saved | Why::Named | Why::InForward | Why::InBackward => {
            return alike(group, &count);
        }
    };
    fill(english, &[("n", &count), ("operator", operator)])
}

/// `12 tensors like float32[16, 1024, 50257] of aten::log_softmax in loss`.
fn alike(group: &Group, count: &str) -> String {
    let example = &group.example;
    let kind = example.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
    let english = match (group.count, example.module.as_str()) {
        (1, "") => "{tensor} of {operator}",
        (1, _) => "{tensor} of {operator} in {module}",
        (_, "") => "{n} tensors like {tensor} of {operator}",
        _ => "{n} tensors like {tensor} of {operator} in {module}",
    };
    let (operator, module) = (&example.operator, &example.module);
    fill(english, &[("n", &count), ("tensor", &kind), ("operator", operator), ("module", module)])
}

/// That the scores of a vocabulary are the story, and what to do.
pub(crate) fn scores(scores: &Scores, autopsy: &Autopsy) -> String {
    let count = grouped(u64::try_from(scores.count).unwrap_or(u64::MAX));
    fill(
        "The scores of {classes} classes set the peak: logits and what cross-entropy makes of them \
         are {n} tensors as large as {tensor}, {size} or {percent} of it. Computed in chunks, with \
         the last layer inside, only one chunk of them exists at a time.",
        &[
            ("classes", &grouped(scores.classes)),
            ("n", &count),
            ("tensor", &scores.tensor),
            ("size", &scores.bytes),
            ("percent", &percent(scores.bytes, autopsy.total)),
        ],
    )
}

/// Cross-entropy that never makes all scores at once.
pub(crate) const CHUNKED_LOSS: &str = "\
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

def chunk_loss(hidden, labels):
    return cross_entropy(model.lm_head(hidden).float(), labels, reduction=\"sum\")

# hidden: [positions, width], what goes into the head; labels: [positions]
parts = zip(hidden.split(1024), labels.split(1024))
loss = sum(checkpoint(chunk_loss, h, y, use_reentrant=False) for h, y in parts) / len(labels)
";

/// What would be the peak if this one went.
pub(crate) fn next(next: Option<&NextPeak>, report: &Report) -> String {
    let Some(NextPeak { allocated, iteration, phase, operator, module }) = next else {
        return tr("No other peak stands beside it: whatever lowers it lowers what is needed.");
    };
    let place = place(*phase, module, operator);
    let lower = report.peak.allocated - *allocated;
    fill(
        "If it went, the next highest would be {size} {place} in iteration {n}, {less} lower.",
        &[("size", allocated), ("place", &place), ("n", iteration), ("less", &lower)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::{Bytes, Config};

    fn told(example: &str, config: &Config) -> String {
        let path = format!("{}/../public/examples/{example}", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the example travels with the page");
        let model = highwater_core::open(&mut bytes.as_slice(), example).expect("it opens");
        let report = model.estimate(config).expect("it is estimated");
        let autopsy = Autopsy::of(&report);
        let mut text = vec![peak(&report.peak)];
        text.extend(autopsy.groups.iter().map(|group| {
            assert!(group.bytes > Bytes::ZERO);
            format!("{}: {}", what(group), tr(group.why.about()))
        }));
        text.extend(autopsy.scores.as_ref().map(|found| scores(found, &autopsy)));
        text.push(next(autopsy.next.as_ref(), &report));
        text.join("\n")
    }

    #[test]
    fn a_vocabulary_is_named() {
        let dims = [("batch".to_owned(), 8)].into();
        let text = told("distilgpt2.onnx", &Config { dims, ..Config::default() });
        assert!(text.starts_with("The peak is reached in backward of the loss, by "), "{text}");
        assert!(text.contains("The scores of 50,257 classes set the peak"), "{text}");
        assert!(text.contains("If it went, the next highest would be "), "{text}");
    }

    #[test]
    fn convolutions_are_told_by_what_they_save() {
        let dims = [("batch".to_owned(), 32)].into();
        let text = told("resnet50.onnx", &Config { dims, ..Config::default() });
        assert!(text.contains(": saved for the backward pass"), "{text}");
        assert!(!text.contains("classes"), "{text}");
    }
}
