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
const NOT_LOADED: &str = "its weights are not loaded";
