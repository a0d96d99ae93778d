//! `DNNPerf`: Gao and others, ICSE-SEIP '23, a graph network over operators; here a small one over layers.

use super::super::{About, Estimate, Estimator, Evidence, Means, Needs};
use super::numbers::{Linear, Weights, attention, mean, power, relu, row, sum};
use super::{Features, NOT_LOADED};
use crate::apart;
use crate::bytes::Bytes;

apart::text!(weights, "dnnperf");

pub(in super::super) struct DnnPerf;

impl Estimator for DnnPerf {
    fn about(&self) -> &'static About {
        &About {
            id: "dnnperf",
            name: "DNNPerf",
            source: "Gao et al., ICSE-SEIP 2023, doi 10.1109/ICSE-SEIP58684.2023.00039",
            needs: Needs::Weights,
            means: Means::Process,
            counts: "memory, learned from the graph of layers with their sizes by rounds of attention",
            leaves_out: "optimizer, precision, GPU and all other settings",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let features = Features::of(evidence)?;
        let mib = weights().and_then(|text| network(text, &features)).ok_or(NOT_LOADED)?;
        // Far outside of what it learned, a power may be of any size.
        Ok(Bytes::mib(mib.min(1 << 30)).into())
    }
}

/// MiB that the network answers with.
fn network(text: &str, features: &Features) -> Option<u64> {
    let mut weights = Weights::new(text);
    let middle = weights.parts()?;
    let globals = weights.scale()?.of(features);
    let enter = weights.linear()?;
    let layers = &features.layers;
    let mut hidden: Vec<Vec<f64>> =
        layers.iter().map(|seen| relu(&enter.of(&row(seen, features.batch)))).collect();
    for _ in 0..weights.count()? {
        let (own, read, score) = (weights.linear()?, weights.linear()?, weights.linear()?);
        let next = hidden.iter().zip(layers).map(|(state, seen)| {
            let sources = seen.sources.iter().filter_map(|at| hidden.get(*at));
            let read_states: Vec<Vec<f64>> = sources.chain([state]).cloned().collect();
            let message = read.of(&mean(&scores(&score, state, &read_states), &read_states));
            relu(&sum(&own.of(state), &message))
        });
        hidden = next.collect();
    }
    let (head, last) = (weights.linear()?, weights.linear()?);
    let mut x = mean(&vec![1.0; hidden.len()], &hidden);
    x.extend(globals);
    let said = last.of(&relu(&head.of(&x)));
    Some(power(sum(&said, &middle).first().copied()?))
}

/// How much a layer attends to each of those that it reads.
fn scores(score: &Linear, state: &[f64], read: &[Vec<f64>]) -> Vec<f64> {
    let of = |other: &Vec<f64>| score.of(&[state, other].concat()).first().copied();
    read.iter().map(|other| attention(of(other).unwrap_or(0.0))).collect()
}
