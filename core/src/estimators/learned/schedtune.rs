//! `SchedTune`: Albahar and others, `CCGrid` '22: a random forest.

use super::super::{About, Estimate, Estimator, Evidence, Means, Needs};
use super::{Features, NOT_LOADED};
use crate::apart;
use crate::bytes::Bytes;

apart::text!(forest, "schedtune");

pub(in super::super) struct SchedTune;

impl Estimator for SchedTune {
    fn about(&self) -> &'static About {
        &About {
            id: "schedtune",
            name: "SchedTune",
            source: "Albahar et al., CCGrid 2022",
            needs: Needs::Weights,
            means: Means::Process,
            counts: "memory, learned from sizes of activations, parameters and input",
            leaves_out: "optimizer, precision, and the GPU: all runs that it learned from are of one",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let features = Features::of(evidence)?;
        let said = forest().and_then(|text| mean(text, measures(&features)));
        said.map(|mib| Bytes::mib(mib).into()).ok_or(NOT_LOADED)
    }
}

/// Tenths of a MiB: activations and their gradients, parameters, input.
fn measures(features: &Features) -> [u64; 3] {
    let of_batch = |count: u64| count.saturating_mul(features.batch);
    let bytes = [
        of_batch(features.activations).saturating_mul(8),
        features.parameters.saturating_mul(4),
        of_batch(features.inputs).saturating_mul(4),
    ];
    bytes.map(|bytes| bytes.saturating_mul(10) >> 20)
}

/// MiB: the mean over all trees.
fn mean(text: &str, measures: [u64; 3]) -> Option<u64> {
    let leaves: Vec<u64> = text.lines().map(|tree| leaf(tree, measures)).collect::<Option<_>>()?;
    leaves.iter().sum::<u64>().checked_div(u64::try_from(leaves.len()).ok()?)
}

/// The answer of a tree in preorder: `a12` asks whether the first measure is at most 12, `=7` answers.
fn leaf(tree: &str, [a, b, c]: [u64; 3]) -> Option<u64> {
    let mut words = tree.split(' ');
    loop {
        let (kind, number) = words.next()?.split_at_checked(1)?;
        let number: u64 = number.parse().ok()?;
        let measure = match kind {
            "=" => return Some(number),
            "a" => a,
            "b" => b,
            "c" => c,
            _ => return None,
        };
        if measure > number {
            // The branch behind a question comes first, and is left out.
            let mut missing = 1_usize;
            while missing > 0 {
                let is_leaf = words.next()?.starts_with('=');
                missing =
                    if is_leaf { missing.saturating_sub(1) } else { missing.saturating_add(1) };
            }
        }
    }
}
