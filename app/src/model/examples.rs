//! The examples that are part of the page: real exports without their weights.
//!
//! They travel as graphs that were read already, so that the worker answers before the readers of files arrive; and with
//! the answer for the settings that they open with, so that the page answers before the worker is there.

use highwater_core::order::IntoOrdered as _;
use std::collections::BTreeMap;

use highwater_core::Config;
use highwater_core::config::Method;

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
    /// Where its answer lies, likewise.
    pub(crate) answer: &'static str,
    /// Sizes that someone would train it with.
    pub(crate) dims: &'static [(&'static str, u64)],
}

impl Example {
    /// Its sizes, as the settings hold them.
    pub(crate) fn dims(&self) -> BTreeMap<String, u64> {
        self.dims.iter().map(|&(name, size)| (name.to_owned(), size)).into_map()
    }
}

/// All examples.
pub(crate) const EXAMPLES: [Example; 3] = [
    Example {
        title: "ResNet-50",
        about: "convolutional network, 224 × 224 images",
        file: "resnet50.onnx",
        path: "examples/resnet50.graph",
        answer: "examples/resnet50.answer",
        dims: &[("batch", 32)],
    },
    Example {
        title: "ViT-B/16",
        about: "vision transformer, 224 × 224 images",
        file: "vit_b_16.onnx",
        path: "examples/vit_b_16.graph",
        answer: "examples/vit_b_16.answer",
        dims: &[("batch", 32)],
    },
    Example {
        title: "DistilGPT-2",
        about: "language model, 512 tokens",
        file: "distilgpt2.onnx",
        path: "examples/distilgpt2.graph",
        answer: "examples/distilgpt2.answer",
        dims: &[("batch", 8), ("seq", 512)],
    },
];

/// A run that many people ask about: a model of the catalogue, how it is trained, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Name of the model, for people.
    pub(crate) title: &'static str,
    /// How it is trained, and on what.
    pub(crate) about: &'static str,
    /// Its id in the catalogue.
    pub(crate) id: &'static str,
    /// What is trained.
    method: Method,
    /// Id of the GPU.
    device: &'static str,
    /// The other settings: those of the catalogue.
    settings: &'static [(&'static str, &'static str)],
    /// The sizes.
    dims: &'static [(&'static str, u64)],
}

impl Setup {
    /// Its settings.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        for (name, value) in self.settings {
            // A test reads them all.
            let _known = config.set(name, value);
        }
        self.method.apply(&mut config);
        self.device.clone_into(&mut config.device);
        let dims = self.dims.iter().map(|&(name, size)| (name.to_owned(), size));
        Config { dims: dims.collect(), ..config }
    }
}

const LARGE: &[(&str, &str)] = &[("precision", "bf16"), ("checkpoint", "blocks")];

/// All of them.
pub(crate) const SETUPS: [Setup; 6] = [
    Setup {
        title: "Llama 3.1 8B",
        about: "QLoRA, RTX 4090",
        id: "llama-3.1-8b",
        method: Method::Qlora,
        device: "rtx-4090",
        settings: LARGE,
        dims: &[("batch", 1), ("seq", 2048)],
    },
    Setup {
        title: "Qwen2.5 7B",
        about: "LoRA, A100 40 GB",
        id: "qwen2.5-7b",
        method: Method::Lora,
        device: "a100-40gb",
        settings: LARGE,
        dims: &[("batch", 1), ("seq", 2048)],
    },
    Setup {
        title: "Llama 3.2 1B",
        about: "Full, RTX 4090",
        id: "llama-3.2-1b",
        method: Method::Full,
        device: "rtx-4090",
        settings: &[("precision", "bf16")],
        dims: &[("batch", 1), ("seq", 2048)],
    },
    Setup {
        title: "BERT Base",
        about: "Full, T4",
        id: "bert-base-uncased",
        method: Method::Full,
        device: "t4",
        settings: &[("precision", "amp-bf16")],
        dims: &[],
    },
    Setup {
        title: "ResNet-50",
        about: "Full, V100",
        id: "resnet50",
        method: Method::Full,
        device: "v100-16gb",
        settings: &[("optimizer", "sgd-momentum"), ("weight-decay", "true")],
        dims: &[("batch", 32)],
    },
    Setup {
        title: "Stable Diffusion XL",
        about: "LoRA, RTX 3090",
        id: "stable-diffusion-xl",
        method: Method::Lora,
        device: "rtx-3090",
        settings: &[("precision", "amp-bf16"), ("checkpoint", "blocks")],
        dims: &[("batch", 1)],
    },
];

#[cfg(test)]
mod tests {
    use highwater_core::formats::catalogue;

    use super::*;
    use crate::model::distances;
    use crate::worker::load::GRAPH;

    #[test]
    fn set_ups_are_those_of_the_catalogue() {
        for setup in SETUPS {
            let entry = catalogue::find(setup.id).expect("the catalogue has it");
            let mut expected = entry.settings();
            setup.method.apply(&mut expected);
            setup.device.clone_into(&mut expected.device);
            assert_eq!(setup.config(), expected, "{}", setup.id);
        }
    }

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
