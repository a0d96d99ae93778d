//! What a process runs, and which settings bear on it.

use super::choice::choice;
use super::{Config, Dropout, SETTINGS, Setting};

choice! {
    /// What is run.
    pub enum Workload ("workload") {
        /// Steps of an optimizer.
        Training = "training", "training", "steps of an optimizer: forward, loss, backward, update",
        /// `model.eval()` under `torch.no_grad()` or `torch.inference_mode()`.
        Inference = "inference", "inference", "the model reads batches, without gradients, loss and optimizer",
        /// `model.generate()` of transformers.
        Generation = "generation", "generation", "the model reads prompts and writes tokens one after another, as transformers' generate does",
    }
}

impl Workload {
    /// Whether there are gradients and an optimizer.
    pub const fn trains(self) -> bool {
        matches!(self, Self::Training)
    }

    /// What people do with a model, for forms: one word.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Training => "Train",
            Self::Inference => "Infer",
            Self::Generation => "Generate",
        }
    }

    /// Whether tokens are written, with a cache of keys and values.
    pub const fn generates(self) -> bool {
        matches!(self, Self::Generation)
    }
}

/// One shape of a model's forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pass {
    /// The whole batch at once, and nothing is kept for later.
    #[default]
    Whole,
    /// Prompts are read, and their keys and values kept.
    Prefill,
    /// One more token of each text is read, next to the keys and values of all before it.
    Decode,
}

impl Config {
    /// The configuration without the settings that its workload leaves without effect.
    #[must_use]
    pub fn in_effect(&self) -> Self {
        let (mut config, usual) = (self.clone(), Self::default());
        self.idle_settings().for_each(|setting| setting.copy(&usual, &mut config));
        config
    }

    /// Settings that its workload leaves without effect.
    pub fn idle_settings(&self) -> impl Iterator<Item = &'static Setting> + use<> {
        let workload = self.workload;
        SETTINGS.iter().filter(move |setting| !(setting.bears_on)(workload))
    }

    /// Whether dropout runs, or would in the training that a file was not exported for.
    pub const fn drops(&self) -> Dropout {
        if self.workload.trains() { self.dropout } else { Dropout::Off }
    }

    /// The first forward pass of its workload.
    pub(crate) const fn first_pass(&self) -> Pass {
        if self.workload.generates() { Pass::Prefill } else { Pass::Whole }
    }
}
