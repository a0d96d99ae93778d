//! Arithmetic of small networks, and how their weights are read.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a network computes in floats; a sum of bytes never does"
)]

use std::str::{FromStr, Lines};

use super::Features;
use super::features::{ATTENTION, BATCH_NORM, CONVOLUTION, DROPOUT, LINEAR, OTHER_NORM, Seen};

/// Weights are parts of this.
const ONE: f64 = 65_536.0;
/// What keeps a norm from a division by zero, as PyTorch has it.
const EPSILON: f64 = 1e-5;

/// Lines of weights. Each call takes one.
pub(super) struct Weights<'t>(Lines<'t>);

impl<'t> Weights<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self(text.lines())
    }

    /// Goes behind the line that begins so, and returns the rest of the line.
    pub(super) fn find(&mut self, start: &str) -> Option<&'t str> {
        self.0.find_map(|line| line.strip_prefix(start))
    }

    /// The numbers of a line, as they stand there; a word in front of them is left out.
    pub(super) fn whole<T: FromStr>(&mut self) -> Option<Vec<T>> {
        let words = self.0.next()?.split(' ');
        words
            .filter(|word| !word.starts_with(char::is_alphabetic))
            .map(|n| n.parse().ok())
            .collect()
    }

    /// The only number of a line.
    pub(super) fn count(&mut self) -> Option<usize> {
        self.whole()?.first().copied()
    }

    /// The weights of a line.
    pub(super) fn parts(&mut self) -> Option<Vec<f64>> {
        Some(self.whole::<i64>()?.into_iter().map(|n| n as f64 / ONE).collect())
    }

    pub(super) fn linear(&mut self) -> Option<Linear> {
        let numbers = self.whole::<i64>()?;
        let (&[inputs, outputs], rest) = numbers.split_first_chunk()?;
        let (inputs, outputs) = (usize::try_from(inputs).ok()?, usize::try_from(outputs).ok()?);
        let parts: Vec<f64> = rest.iter().map(|n| *n as f64 / ONE).collect();
        let (weight, bias) = parts.split_at_checked(inputs.checked_mul(outputs)?)?;
        let is_whole = inputs > 0 && bias.len() == outputs;
        is_whole.then(|| Linear { inputs, weight: weight.to_vec(), bias: bias.to_vec() })
    }

    pub(super) fn mlp(&mut self) -> Option<Mlp> {
        let layers = self.count()?;
        (0..layers).map(|_| self.linear()).collect::<Option<_>>().map(Mlp)
    }

    pub(super) fn scale(&mut self) -> Option<Scale> {
        Some(Scale { chosen: self.whole()?, mean: self.parts()?, factor: self.parts()? })
    }

    pub(super) fn encoder(&mut self) -> Option<Encoder> {
        let [query, key, value, out, up, down] = [
            self.linear()?,
            self.linear()?,
            self.linear()?,
            self.linear()?,
            self.linear()?,
            self.linear()?,
        ];
        let (first, second) = (self.parts()?, self.parts()?);
        Some(Encoder { query, key, value, out, up, down, first, second })
    }
}

/// `weight · x + bias`; rows of the weight stand one after the other.
pub(super) struct Linear {
    inputs: usize,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Linear {
    pub(super) fn of(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks(self.inputs).zip(&self.bias);
        rows.map(|(row, bias)| dot(row, x) + bias).collect()
    }

    /// Of each row.
    pub(super) fn of_all(&self, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        rows.iter().map(|row| self.of(row)).collect()
    }
}

/// Linear layers with `ReLU` between them.
pub(super) struct Mlp(Vec<Linear>);

impl Mlp {
    pub(super) fn of(&self, x: &[f64]) -> Vec<f64> {
        let mut x = x.to_vec();
        for (at, layer) in self.0.iter().enumerate() {
            x = layer.of(&if at == 0 { x } else { relu(&x) });
        }
        x
    }
}

/// Features less their mean, by their spread.
pub(super) struct Scale {
    chosen: Vec<usize>,
    mean: Vec<f64>,
    factor: Vec<f64>,
}

impl Scale {
    pub(super) fn of(&self, features: &Features) -> Vec<f64> {
        let numbers = numbers(features);
        let chosen = self.chosen.iter().map(|at| numbers.get(*at).copied().unwrap_or(0.0));
        chosen
            .zip(&self.mean)
            .zip(&self.factor)
            .map(|((x, mean), factor)| (x - mean) * factor)
            .collect()
    }
}

/// A layer of a transformer with one head.
pub(super) struct Encoder {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Encoder {
    pub(super) fn of(&self, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (keys, values) = (self.key.of_all(rows), self.value.of_all(rows));
        let each = rows.iter().map(|row| {
            let query = self.query.of(row);
            let root = (query.len() as f64).sqrt();
            let scores: Vec<f64> = keys.iter().map(|key| dot(&query, key) / root).collect();
            let attended = self.out.of(&mean(&softmax(&scores), &values));
            let row = norm(&sum(row, &attended), &self.first);
            let inner = self.down.of(&relu(&self.up.of(&row)));
            norm(&sum(&row, &inner), &self.second)
        });
        each.collect()
    }
}

/// The sum of all rows, by 64.
pub(super) fn pooled(rows: &[Vec<f64>]) -> Vec<f64> {
    let total = rows.iter().fold(Vec::new(), |total, row| sum_or(&total, row));
    total.into_iter().map(|x| x / 64.0).collect()
}

/// The mean of rows by their weights, which need not add up to one.
pub(super) fn mean(weights: &[f64], rows: &[Vec<f64>]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let scaled = weights
        .iter()
        .zip(rows)
        .map(|(weight, row)| -> Vec<f64> { row.iter().map(|x| x * weight / total).collect() });
    scaled.fold(Vec::new(), |total, row| sum_or(&total, &row))
}

/// The sum; the second alone if there is nothing yet.
fn sum_or(total: &[f64], row: &[f64]) -> Vec<f64> {
    if total.is_empty() { row.to_vec() } else { sum(total, row) }
}

pub(super) fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn relu(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| x.max(0.0)).collect()
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter().map(|score| (score - most).exp()).collect()
}

/// The weight of an edge: of a bounded score.
pub(super) fn attention(score: f64) -> f64 {
    score.tanh().exp()
}

/// Layer normalization; its weight stands before its bias.
fn norm(x: &[f64], weights: &[f64]) -> Vec<f64> {
    let count = x.len() as f64;
    let middle = x.iter().sum::<f64>() / count;
    let spread = x.iter().map(|x| (x - middle) * (x - middle)).sum::<f64>() / count;
    let root = (spread + EPSILON).sqrt();
    let (weight, bias) = weights.split_at_checked(x.len()).unwrap_or_default();
    let each = x.iter().zip(weight).zip(bias);
    each.map(|((x, weight), bias)| (x - middle) / root * weight + bias).collect()
}

/// The place of the largest.
pub(super) fn largest(x: &[f64]) -> usize {
    let places = x.iter().enumerate();
    places.max_by(|(i, a), (j, b)| a.total_cmp(b).then(j.cmp(i))).map_or(0, |(at, _)| at)
}

/// The whole number that is nearest to a power of two.
pub(super) fn power(exponent: f64) -> u64 {
    exponent.exp2().round() as u64
}

fn logarithm(count: u64) -> f64 {
    (1.0 + count as f64).log2()
}

/// A layer as a row: its kind, and logarithms of what it makes of a batch and of its parameters.
pub(super) fn row(seen: &Seen, batch: u64) -> Vec<f64> {
    let mut row = vec![0.0; Features::KINDS];
    if let Some(kind) = row.get_mut(seen.kind) {
        *kind = 1.0;
    }
    row.push(logarithm(seen.outputs.saturating_mul(batch)) / 16.0);
    row.push(logarithm(seen.parameters) / 16.0);
    row
}

/// Features in the order in which `train.py` has them.
fn numbers(features: &Features) -> Vec<f64> {
    let depth = u64::try_from(features.layers.len()).unwrap_or(u64::MAX);
    let kinds = [CONVOLUTION, BATCH_NORM, DROPOUT, ATTENTION, LINEAR, OTHER_NORM];
    let sizes = [
        depth,
        features.activations,
        features.activations.saturating_mul(features.batch),
        features.parameters,
        features.batch,
    ];
    let counts = sizes.into_iter().chain(kinds.map(|kind| features.count(kind)));
    let angle = std::f64::consts::PI * features.activation as f64 / Features::ACTIVATIONS as f64;
    counts.map(logarithm).chain([angle.sin(), angle.cos()]).collect()
}
