//! `accelerate estimate-memory`, in the precision of the run.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};

pub(super) struct Accelerate;

impl Estimator for Accelerate {
    fn about(&self) -> &'static About {
        &About {
            id: "accelerate",
            name: "accelerate estimate-memory",
            source: "huggingface/accelerate, commands/estimate.py",
            needs: Needs::Sizes,
            means: Means::Process,
            counts: "four times the parameters and buffers, or twice in half precision",
            leaves_out: "the head of a language model, activations, the batch, the allocator, and the CUDA context",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let single = evidence.model_bytes(|name| !evidence.reads_words() || !is_head(name));
        // It states the largest of its parts: the step, or under half precision the optimizer.
        Ok(single.times(if evidence.config().precision.is_half() { 2 } else { 4 }).into())
    }
}

/// Whether a parameter is not in the base class of transformers, which it builds of a model that reads words.
fn is_head(parameter: &str) -> bool {
    const HEADS: [&str; 7] =
        ["classifier", "cls", "embed_out", "lm_head", "pre_classifier", "qa_outputs", "score"];
    parameter.split('.').next().is_some_and(|module| HEADS.contains(&module))
}
