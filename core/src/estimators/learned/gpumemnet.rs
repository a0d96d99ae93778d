//! `GPUMemNet`: Yousefzadeh-Asl-Miandoab and others, 2026, itu-rad/GPUMemNet: classes of memory.

use super::super::{About, Estimate, Estimator, Evidence, Means, Needs};
use super::features::Domain;
use super::numbers::{Encoder, Linear, Mlp, Scale, Weights, largest, pooled, row, sum};
use super::{Features, NOT_LOADED};
use crate::apart;
use crate::bytes::Bytes;

apart::text!(perceptrons, "gpumemnet-mlp");
apart::text!(transformers, "gpumemnet-transformer");

/// COUNT: layers that its transformers read.
const LONGEST: usize = 128;
/// COUNT: encoders, and networks behind them.
const ENCODERS: usize = 2;
const HEADS: usize = 4;
/// COUNT: perceptrons of an ensemble.
const MEMBERS: usize = 16;

/// One of its two ensembles.
pub(in super::super) struct GpuMemNet {
    about: &'static About,
    reads_layers: bool,
}

pub(in super::super) const PERCEPTRONS: GpuMemNet = GpuMemNet {
    about: &About {
        id: "gpumemnet-mlp",
        name: "GPUMemNet, perceptrons",
        source: "Yousefzadeh-Asl-Miandoab et al., itu-rad/GPUMemNet, 2025",
        needs: Needs::Weights,
        means: Means::Process,
        counts: "a class of 8,000 MiB (perceptrons: 1,000), learned from depth, activations, parameters, batch and \
                 numbers of layers",
        leaves_out: "optimizer, precision, GPU and all other settings",
    },
    reads_layers: false,
};

pub(in super::super) const TRANSFORMERS: GpuMemNet = GpuMemNet {
    about: &About {
        id: "gpumemnet-transformer",
        name: "GPUMemNet, transformers",
        counts: "a class of 8,000 MiB (perceptrons: 1,000), learned from the sequence of layers with their sizes",
        ..*PERCEPTRONS.about
    },
    reads_layers: true,
};

impl Estimator for GpuMemNet {
    fn about(&self) -> &'static About {
        self.about
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let features = Features::of(evidence)?;
        let text = if self.reads_layers { transformers() } else { perceptrons() };
        let class = text.and_then(|text| class(text, &features, self.reads_layers));
        class.ok_or(NOT_LOADED)
    }
}

/// The class of a run, by the weights of its domain.
fn class(text: &str, features: &Features, reads_layers: bool) -> Option<Estimate> {
    let mut weights = Weights::new(text);
    let name = match features.domain {
        Domain::Perceptron => "domain Perceptron ",
        Domain::Convolutional => "domain Convolutional ",
        Domain::Transformer => "domain Transformer ",
    };
    let sizes = weights.find(name)?.split(' ').map(|n| n.parse().ok());
    let sizes: Vec<u64> = sizes.collect::<Option<_>>()?;
    let &[size, first, _] = sizes.as_slice() else { return None };
    let scale = weights.scale()?;
    let (mut x, members) = (Vec::new(), if reads_layers { HEADS } else { MEMBERS });
    if reads_layers {
        for _ in 0..ENCODERS {
            x.extend(Sequence::read(&mut weights)?.of(features));
        }
    }
    x.extend(Scale::of(&scale, features));
    let mut said = Vec::new();
    for _ in 0..members {
        let one = weights.mlp().as_ref().map(|mlp| Mlp::of(mlp, &x))?;
        said = if said.is_empty() { one } else { sum(&said, &one) };
    }
    let class = u64::try_from(largest(&said)).ok()?;
    let from = first.saturating_add(class.saturating_mul(size));
    let bytes = Bytes::mib(from.saturating_add(size));
    Some(Estimate { bytes, from: Some(Bytes::mib(from)), tensors: None })
}

/// A transformer over the layers.
struct Sequence {
    enter: Linear,
    encoders: Vec<Encoder>,
}

impl Sequence {
    fn read(weights: &mut Weights<'_>) -> Option<Self> {
        let depth = weights.count()?;
        let enter = weights.linear()?;
        let encoders = (0..depth).map(|_| weights.encoder()).collect::<Option<_>>()?;
        Some(Self { enter, encoders })
    }

    fn of(&self, features: &Features) -> Vec<f64> {
        let layers = features.layers.iter().take(LONGEST);
        let rows: Vec<Vec<f64>> = layers.map(|seen| self.enter.of(&row(seen, 1))).collect();
        pooled(&self.encoders.iter().fold(rows, |rows, encoder| encoder.of(&rows)))
    }
}
