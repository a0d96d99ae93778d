//! The examples that travel with the page: real exports without their weights.

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
}

/// All examples.
pub(crate) const EXAMPLES: [Example; 3] = [
    Example {
        title: "ResNet-50",
        about: "A convolutional network: activations tell the story",
        file: "resnet50.onnx",
        path: "examples/resnet50.onnx",
    },
    Example {
        title: "ViT-B/16",
        about: "A vision transformer: many tensors of one size",
        file: "vit_b_16.onnx",
        path: "examples/vit_b_16.onnx",
    },
    Example {
        title: "DistilGPT-2",
        about: "A language model: the logits set the mark",
        file: "distilgpt2.onnx",
        path: "examples/distilgpt2.onnx",
    },
];
