//! Rules by which a scheduler chooses a GPU for a job.

use crate::time::Share;

/// Which figure of a job's memory a scheduler counts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counts {
    /// What is expected.
    Likely,
    /// The upper end of the interval that holds nine runs in ten.
    Upper,
}

/// Which of the GPUs that a job fits on it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefers {
    /// The first in their order.
    First,
    /// The one with the least memory left.
    Tightest,
    /// The one whose multiprocessors are the least busy.
    Idlest,
}

/// A rule for placing jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Stable id: `first-fit`.
    pub id: &'static str,
    /// Whether jobs share a GPU.
    pub shares: bool,
    /// The figure of memory that must fit.
    pub counts: Counts,
    /// Which GPU is chosen.
    pub prefers: Prefers,
    /// The most that the jobs of a GPU may keep its multiprocessors busy, summed; `None`: any.
    pub busiest: Option<Share>,
    /// COUNT: jobs of a GPU, at most.
    pub most: usize,
}

/// COUNT: clients of one MPS server on a GPU, at most.
const CLIENTS: usize = 48;

/// All rules. The cap on utilisation is that of CARMA (arXiv 2508.19073): 80 %.
pub const POLICIES: [Policy; 5] = [
    Policy {
        id: "exclusive",
        shares: false,
        counts: Counts::Upper,
        prefers: Prefers::First,
        busiest: None,
        most: CLIENTS,
    },
    Policy {
        id: "first-fit",
        shares: true,
        counts: Counts::Upper,
        prefers: Prefers::First,
        busiest: None,
        most: CLIENTS,
    },
    Policy {
        id: "best-fit",
        shares: true,
        counts: Counts::Upper,
        prefers: Prefers::Tightest,
        busiest: None,
        most: CLIENTS,
    },
    Policy {
        id: "best-fit-likely",
        shares: true,
        counts: Counts::Likely,
        prefers: Prefers::Tightest,
        busiest: None,
        most: CLIENTS,
    },
    Policy {
        id: "by-utilisation",
        shares: true,
        counts: Counts::Upper,
        prefers: Prefers::Idlest,
        busiest: Some(Share(8000)),
        most: CLIENTS,
    },
];

/// The rule with an id.
pub fn find(id: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.id == id)
}
