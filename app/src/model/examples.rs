//! The examples that are part of the page: real exports without their weights.
//!
//! They travel as graphs that were read already, so that the page answers before the readers of files arrive.

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
    /// Where its graph lies, seen from the page.
    pub(crate) path: &'static str,
    /// Sizes that someone would train it with.
    pub(crate) dims: &'static [(&'static str, u64)],
}

impl Example {
    /// Its sizes, as the settings hold them.
    pub(crate) fn dims(&self) -> BTreeMap<String, u64> {
        self.dims.iter().map(|&(name, size)| (name.to_owned(), size)).collect::<BTreeMap<_, _>>()
    }
}

/// All examples.
pub(crate) const EXAMPLES: [Example; 3] = [
    Example {
        title: "ResNet-50",
        about: "convolutional network, 224 × 224 images",
        file: "resnet50.onnx",
        path: "examples/resnet50.graph",
        dims: &[("batch", 32)],
    },
    Example {
        title: "ViT-B/16",
        about: "vision transformer, 224 × 224 images",
        file: "vit_b_16.onnx",
        path: "examples/vit_b_16.graph",
        dims: &[("batch", 32)],
    },
    Example {
        title: "DistilGPT-2",
        about: "language model, 512 tokens",
        file: "distilgpt2.onnx",
        path: "examples/distilgpt2.graph",
        dims: &[("batch", 8), ("seq", 512)],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::distances;
    use crate::worker::load::GRAPH;

    /// The packed graphs are those of the files; `UPDATE_EXPECT=1` writes them.
    #[test]
    fn graphs_are_those_of_the_files() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for example in EXAMPLES {
            let bytes = std::fs::read(format!("{root}/examples/{}", example.file)).expect("a file");
            let model = highwater_core::open(&mut bytes.as_slice(), example.file).expect("a model");
            let mut packed = GRAPH.to_vec();
            let graph = distances::taken(highwater_core::graph::Graph::clone(model.graph()));
            packed.extend(postcard::to_stdvec(&graph).expect("it packs"));
            let again = format!("{:?}", distances::restored(graph));
            assert_eq!(again, format!("{:?}", model.graph()), "{}", example.path);
            let path = format!("{root}/public/{}", example.path);
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                std::fs::write(&path, &packed).expect("it is written");
            }
            let is_same = std::fs::read(&path).expect("a graph") == packed;
            assert!(is_same, "{}: write it again with UPDATE_EXPECT=1", example.path);
        }
    }
}
