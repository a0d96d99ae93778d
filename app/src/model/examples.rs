//! The examples that are part of the page: real exports without their weights.

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
        about: "convolutional network, 224 × 224 images",
        file: "resnet50.onnx",
        path: "examples/resnet50.onnx",
        dims: &[("batch", 32)],
    },
    Example {
        title: "ViT-B/16",
        about: "vision transformer, 224 × 224 images",
        file: "vit_b_16.onnx",
        path: "examples/vit_b_16.onnx",
        dims: &[("batch", 32)],
    },
    Example {
        title: "DistilGPT-2",
        about: "language model, 512 tokens",
        file: "distilgpt2.onnx",
        path: "examples/distilgpt2.onnx",
        dims: &[("batch", 8), ("seq", 512)],
    },
];
