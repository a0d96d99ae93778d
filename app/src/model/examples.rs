//! The examples that travel with the page: real exports without their weights.

use highwater_core::sorted;
use std::collections::BTreeMap;

/// One example model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    /// Name for people.
    pub(crate) title: &'static str,
    /// What it is, in a few words.
    pub(crate) about: &'static str,
    /// Name of the file.
    pub(crate) file: &'static str,
    /// Where it lies, seen from the page.
    pub(crate) path: &'static str,
    /// Sizes that someone would train it with.
    pub(crate) dims: &'static [(&'static str, u64)],
    /// Its timeline in miniature, so that the empty page need not open it.
    pub(crate) silhouette: Silhouette,
}

/// Heights from left to right, one digit of base 36 each; the peak is `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silhouette {
    /// Everything allocated.
    pub(crate) all: &'static str,
    /// Parameters, buffers, gradients and optimizer state of it.
    pub(crate) kept: &'static str,
}

impl Example {
    /// Its sizes, as the settings hold them.
    pub(crate) fn dims(&self) -> BTreeMap<String, u64> {
        sorted::map(self.dims.iter().map(|&(name, size)| (name.to_owned(), size)))
    }
}

/// All examples.
pub(crate) const EXAMPLES: [Example; 3] = [
    Example {
        title: "ResNet-50",
        about: "Convolutional network: mostly activations",
        file: "resnet50.onnx",
        path: "examples/resnet50.onnx",
        dims: &[("batch", 32)],
        silhouette: Silhouette {
            all: "111112elqsuwxxxxwvtssomlg9333445667766555hnsuxzzzzzyxwvurpnic567765555hnsuxzzzzzyxwvurpnic567765",
            kept: "111112222222222223333333333333455555555554444444455555555555555555555544444444555555555555555555",
        },
    },
    Example {
        title: "ViT-B/16",
        about: "Vision transformer: many tensors of one size",
        file: "vit_b_16.onnx",
        path: "examples/vit_b_16.onnx",
        dims: &[("batch", 32)],
        silhouette: Silhouette {
            all: "236bfkotvttrppnmljihfedba97689abccba9dimrwzzywvusrqpnmlkihgedcccca9bfkotxzyxwvtsrqonmkjigfecbccb",
            kept: "233333333333344444444555555689aaaaaa88888888888888899999999aaaaaaa98888888888888889999999aaaaaaa",
        },
    },
    Example {
        title: "DistilGPT-2",
        about: "Language model: peak set by the logits",
        file: "distilgpt2.onnx",
        path: "examples/distilgpt2.onnx",
        dims: &[("batch", 8), ("seq", 512)],
        silhouette: Silhouette {
            all: "2224568aciwjiihggffeddcbbaabbcceefeebcdfhiklznlmlkkjiihhhffeeeefeecbdegiklznmmlkkkiihhhgffdeeffe",
            kept: "222222222222233333333333333677888888766666666666666777777777788888766666666666666677777777778888",
        },
    },
];

/// The steps of a silhouette as an SVG path in a box `len` wide and 36 high.
pub(crate) fn outline(heights: &str) -> String {
    let mut path = "M0 36".to_owned();
    for (x, digit) in heights.chars().enumerate() {
        let y = 36 - digit.to_digit(36).unwrap_or(0);
        path = format!("{path}V{y}H{}", x + 1);
    }
    path.push_str("V36Z");
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::report::Timeline;
    use highwater_core::{Bytes, Config};
    use highwater_draw::columns::columns;
    use highwater_draw::pyramid::Pyramid;
    use highwater_draw::span::Span;

    /// Heights of one column each, to `z`.
    fn drawn(timeline: &Timeline, kept: bool) -> String {
        let top = timeline.allocated.iter().max().map_or(1, |bytes| bytes.0.max(1));
        let digit = |at: usize| {
            let all = timeline.categories[at];
            let kept_bytes = all.parameter + all.buffer + all.gradient + all.optimizer_state;
            let Bytes(n) = if kept { kept_bytes } else { timeline.allocated[at] };
            let share = u32::try_from((n * 35).div_ceil(top)).expect("a share");
            char::from_digit(share.min(35), 36).expect("a digit")
        };
        columns(timeline, &Pyramid::of(&timeline.allocated), Span::of(timeline, None), 96)
            .into_iter()
            .map(digit)
            .collect()
    }

    /// Whether two silhouettes look alike: within three of 35 on average.
    fn alike(left: &str, right: &str) -> bool {
        let height = |c: char| c.to_digit(36).unwrap_or(0);
        let apart: u32 =
            left.chars().zip(right.chars()).map(|(l, r)| height(l).abs_diff(height(r))).sum();
        left.len() == right.len() && apart <= 3 * 96
    }

    #[test]
    fn silhouettes_look_like_the_timelines() {
        let mut unlike = Vec::new();
        for example in EXAMPLES {
            let Example { file, silhouette, .. } = example;
            let path = format!("{}/../public/{}", env!("CARGO_MANIFEST_DIR"), example.path);
            let bytes = std::fs::read(path).expect("the example travels with the page");
            let model = highwater_core::open(&mut bytes.as_slice(), file).expect("it opens");
            let config = Config { dims: example.dims(), ..Config::default() };
            let report = model.estimate(&config).expect("it is estimated");
            for (kept, shown) in [(false, silhouette.all), (true, silhouette.kept)] {
                let now = drawn(&report.timeline, kept);
                if !alike(shown, &now) {
                    unlike.push(format!("{file}, kept {kept}: {now}"));
                }
            }
        }
        assert!(unlike.is_empty(), "timelines are now {unlike:#?}");
    }

    #[test]
    fn an_outline_is_a_staircase() {
        assert_eq!(outline("0z"), "M0 36V36H1V1H2V36Z");
    }
}
