//! [`Features`]: what learned estimators see of a run.

use super::super::Evidence;
use super::{LANGUAGE, NO_LAYERS};
use crate::estimate::{Layer, LayerKind};

/// What data a model resembles. Each has its own weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Linear layers alone.
    Perceptron,
    /// Convolutions without attention.
    Convolutional,
    /// Attention, or layers normalised as in transformers.
    Transformer,
}

/// A run as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The data that it resembles.
    pub domain: Domain,
    /// COUNT: samples of a batch.
    pub batch: u64,
    /// COUNT: trained numbers.
    pub parameters: u64,
    /// COUNT: elements of the results of all layers for one sample.
    pub activations: u64,
    /// COUNT: elements of one sample.
    pub inputs: u64,
    /// The commonest activation function, by its place among those known; 0 for none.
    pub activation: u64,
    /// The layers that the estimators know.
    pub layers: Vec<Seen>,
}

/// A layer as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it is, below [`Features::KINDS`].
    pub kind: usize,
    /// COUNT: elements of its result for one sample.
    pub outputs: u64,
    /// COUNT: its parameters.
    pub parameters: u64,
    /// The layers that it reads, by position.
    pub sources: Vec<usize>,
}

/// Kinds of [`Seen::kind`], by place.
pub(super) const CONVOLUTION: usize = 0;
pub(super) const LINEAR: usize = 1;
pub(super) const BATCH_NORM: usize = 2;
pub(super) const OTHER_NORM: usize = 3;
pub(super) const DROPOUT: usize = 6;
pub(super) const ATTENTION: usize = 7;

/// Activation functions by place, from 1.
const ACTIVATIONS: [&str; 11] = [
    "Relu",
    "Gelu",
    "Silu",
    "Tanh",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Mish",
    "Softplus",
    "PRelu",
    "HardSwish",
];

impl Features {
    /// COUNT: kinds of layers.
    pub const KINDS: usize = 8;
    /// COUNT: activation functions, none included.
    pub const ACTIVATIONS: usize = ACTIVATIONS.len() + 1;

    /// What there is to see of a run.
    ///
    /// # Errors
    /// When the model is of a kind that nobody was trained with.
    pub fn of(evidence: &Evidence<'_>) -> Result<Self, &'static str> {
        let batch = evidence.run.batch;
        let layers = &evidence.run.layers;
        let has = |kind| layers.iter().any(|layer| layer.kind == kind);
        if has(LayerKind::Recurrent) || evidence.reads_words() {
            return Err(LANGUAGE);
        }
        if !has(LayerKind::Convolution) && !has(LayerKind::Linear) {
            return Err(NO_LAYERS);
        }
        let is_layer_norm = |layer: &Layer| layer.op == "LayerNormalization";
        let domain = if has(LayerKind::Attention) {
            Domain::Transformer
        } else if has(LayerKind::Convolution) {
            Domain::Convolutional
        } else if layers.iter().any(is_layer_norm) {
            Domain::Transformer
        } else {
            Domain::Perceptron
        };
        let each = |count: u64| count.checked_div(batch).unwrap_or(count);
        let seen = layers.iter().map(|layer| Seen {
            kind: kind(layer),
            outputs: each(layer.outputs()),
            parameters: layer.parameter_count(),
            sources: layer.sources.clone(),
        });
        Ok(Self {
            domain,
            batch,
            parameters: evidence.parameter_count(),
            activations: evidence.activations(),
            inputs: each(evidence.input_bytes().0.checked_div(4).unwrap_or(0)),
            activation: activation(layers),
            layers: seen.collect(),
        })
    }

    /// COUNT: layers of a kind.
    pub(super) fn count(&self, kind: usize) -> u64 {
        let layers = self.layers.iter().filter(|layer| layer.kind == kind);
        u64::try_from(layers.count()).unwrap_or(u64::MAX)
    }
}

/// The commonest activation function.
fn activation(layers: &[Layer]) -> u64 {
    let times = |name: &&str| layers.iter().filter(|layer| layer.op == **name).count();
    let all = ACTIVATIONS.iter().zip(1_u64..).map(|(name, place)| (times(name), place));
    let commonest = all.max_by_key(|&(times, place)| (times, std::cmp::Reverse(place)));
    commonest.filter(|(times, _)| *times > 0).map_or(0, |(_, place)| place)
}

fn kind(layer: &Layer) -> usize {
    match layer.kind {
        LayerKind::Convolution => CONVOLUTION,
        LayerKind::Linear | LayerKind::Embedding | LayerKind::Recurrent => LINEAR,
        LayerKind::Norm if layer.op == "BatchNormalization" => BATCH_NORM,
        LayerKind::Norm => OTHER_NORM,
        LayerKind::Activation => 4,
        LayerKind::Pooling => 5,
        LayerKind::Dropout => DROPOUT,
        LayerKind::Attention => ATTENTION,
    }
}
