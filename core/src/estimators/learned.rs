//! Estimators that learned from measured runs. `tests/learned` trains them, and writes their weights.
//!
//! Weights are text, in whole parts of 65,536. Native programs carry them; the page fetches them.

mod dnnperf;
mod features;
mod gpumemnet;
mod numbers;
mod schedtune;

pub use self::features::{Domain, Features, Seen};
pub(super) use self::{
    dnnperf::DnnPerf,
    gpumemnet::{PERCEPTRONS, TRANSFORMERS},
    schedtune::SchedTune,
};

/// Why there is no estimate where a program has no weights, or damaged ones.
pub(super) const NOT_LOADED: &str = "its weights are not loaded";
/// Why there is none for a model of language.
pub(super) const LANGUAGE: &str =
    "it was trained with models of images and with perceptrons, not with models of language";
/// Why there is none for arithmetic alone.
pub(super) const NO_LAYERS: &str = "it was trained with layers, and the model has none";
