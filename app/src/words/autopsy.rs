//! What sets the peak, in the language of the page.

use highwater_core::autopsy::{Autopsy, Group};
use highwater_core::report::{Peak, Report};
use highwater_core::wording;

use super::names::spaced;
use crate::words::language::spoken;

/// When and where the peak is.
pub(crate) fn peak(peak: &Peak) -> String {
    spoken(&wording::autopsy::peak(peak))
}

/// What the tensors of a group are.
pub(crate) fn what(group: &Group) -> String {
    spoken(&wording::autopsy::what(group))
}

/// That the logits of many classes set the peak, and what to do; empty where they do not.
pub(crate) fn scores(autopsy: &Autopsy) -> String {
    let sentences: Vec<_> = wording::autopsy::scores(autopsy).iter().map(spoken).collect();
    spaced(&sentences.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What would be the peak without this one.
pub(crate) fn next(autopsy: &Autopsy, report: &Report) -> String {
    spoken(&wording::autopsy::next(autopsy, report))
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

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::{Bytes, Config};

    use crate::words::language::tr;

    fn described(example: &str, config: &Config) -> String {
        let path = format!("{}/../examples/{example}", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the example travels with the page");
        let model = highwater_core::open(&mut bytes.as_slice(), example).expect("it opens");
        let report = model.estimate(config).expect("it is estimated");
        let autopsy = Autopsy::of(&report);
        let mut text = vec![peak(&report.peak)];
        text.extend(autopsy.groups.iter().map(|group| {
            assert!(group.bytes > Bytes::ZERO);
            format!("{}: {}", what(group), tr(group.why.about()))
        }));
        text.push(scores(&autopsy));
        text.push(next(&autopsy, &report));
        text.join("\n")
    }

    #[test]
    fn a_vocabulary_is_named() {
        let dims = [("batch".to_owned(), 8)].into();
        let text = described("distilgpt2.onnx", &Config { dims, ..Config::default() });
        assert!(text.starts_with("The peak of "), "{text}");
        assert!(text.contains(" in the backward pass of the loss, by "), "{text}");
        assert!(text.contains("The logits set the peak: with 50,257 classes, "), "{text}");
        assert!(text.contains("Without this peak, the next is "), "{text}");
    }

    #[test]
    fn convolutions_are_described_by_what_they_save() {
        let dims = [("batch".to_owned(), 32)].into();
        let text = described("resnet50.onnx", &Config { dims, ..Config::default() });
        assert!(text.contains(": saved for backward"), "{text}");
        assert!(!text.contains("classes"), "{text}");
    }
}
