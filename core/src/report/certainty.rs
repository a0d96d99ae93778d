//! The basis of the peak: rules that PyTorch confirmed, restored structure, assumptions.

use crate::order::InOrder as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::basis::{Basis, Reason};
use crate::bytes::Bytes;
use crate::trace::{ReasonId, StorageId, Trace};

/// How much of the peak rests on what: requested bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certainty {
    /// On the file itself, and on rules that PyTorch confirmed.
    pub proven: Bytes,
    /// On structure that follows from what the exporter left of it.
    pub recovered: Bytes,
    /// On conventions, and on rules that are not proven.
    pub assumed: Bytes,
    /// What was recovered or assumed: assumptions first, then by bytes. Also what the run has and the
    /// peak does not.
    pub parts: Vec<Part>,
}

/// One thing that was recovered or assumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which, and how certain it is.
    pub reason: Reason,
    /// Requested bytes at the peak that rest on it.
    pub bytes: Bytes,
}

impl Certainty {
    /// What these storages rest on.
    pub(super) fn of(trace: &Trace, alive: &[(StorageId, usize)]) -> Self {
        let mut sums: BTreeMap<Option<ReasonId>, Bytes> = BTreeMap::new();
        for storage in alive.iter().filter_map(|(id, _)| trace.storages.get(id.index())) {
            *sums.entry(storage.reason).or_default() += storage.requested;
        }
        let reasons = trace.reasons.iter().enumerate().map(|(at, reason)| Part {
            reason: reason.clone(),
            bytes: sums.get(&Some(ReasonId::new(at))).copied().unwrap_or_default(),
        });
        let mut parts: Vec<Part> = reasons.collect();
        parts.order_by_key(|part| (Reverse(part.reason.basis()), Reverse(part.bytes)));
        let on = |basis| {
            parts.iter().filter(|part| part.reason.basis() == basis).map(|part| part.bytes).sum()
        };
        Self {
            proven: sums.get(&None).copied().unwrap_or_default(),
            recovered: on(Basis::Recovered),
            assumed: on(Basis::Assumed) + on(Basis::Unproven),
            parts,
        }
    }

    /// Bytes in all.
    pub fn total(&self) -> Bytes {
        self.proven + self.recovered + self.assumed
    }

    /// Parts that matter: at least a thousandth of the peak.
    pub fn at_peak(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| self.matters(part.bytes))
    }

    /// Whether so much is at least a thousandth of the peak.
    pub fn matters(&self, bytes: Bytes) -> bool {
        bytes.parts_of(self.total(), 1000) > 0
    }
}
