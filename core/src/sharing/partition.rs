//! A slice of a card for each of several jobs, by NVIDIA's MIG.

use crate::device::{Device, Slice, placement};
use crate::estimate::Offer;
use crate::time::Picoseconds;

/// A slice for each of several jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The slices, in the order of the jobs.
    pub slices: Vec<&'static Device>,
    /// The slice of memory at which each starts.
    pub starts: Vec<u64>,
    /// The time of a step of each.
    pub steps: Vec<Option<Picoseconds>>,
}

/// What is known so far of the best partition.
struct Search<'a> {
    /// What each job may get, and its step on the whole card.
    jobs: &'a [(Vec<Offer>, Option<Picoseconds>)],
    chosen: Vec<&'a Offer>,
    best: Option<(Cost, Vec<&'a Offer>)>,
}

/// The slowdown of the job that suffers most in per mille, then that of all, then slices of multiprocessors.
type Cost = (u64, u64, u64);

impl Partition {
    /// The division with which the job that suffers most suffers least; `None` where the jobs that are asked for do not
    /// all get a slice on which they are expected to survive.
    ///
    /// Each job has what it may get ([`Model::offers`](crate::Model::offers)), and the time of its step on the whole
    /// card.
    pub fn of(jobs: &[(Vec<Offer>, Option<Picoseconds>)]) -> Option<Self> {
        // A card has at most seven.
        if jobs.len() > 7 {
            return None;
        }
        let mut search = Search { jobs, chosen: Vec::new(), best: None };
        search.go((0, 0, 0));
        let (_, chosen) = search.best?;
        let slices: Vec<_> = chosen.iter().map(|offer| offer.device).collect();
        let starts = placement(&parts(&chosen))?;
        Some(Self { slices, starts, steps: chosen.iter().map(|offer| offer.step).collect() })
    }

    /// The smallest slice on which a job is expected to survive.
    pub fn smallest(offers: &[Offer]) -> Option<&Offer> {
        offers.iter().find(|offer| offer.verdict.verdict.survives())
    }

    /// The names of profiles: `3g.40gb + 2g.20gb`.
    pub fn profiles(&self) -> String {
        let names: Vec<_> = self.slices.iter().map(|slice| slice.nameplate).collect();
        names.join(" + ")
    }
}

fn parts(offers: &[&Offer]) -> Vec<Slice> {
    offers.iter().filter_map(|offer| offer.device.slice).collect()
}

impl Search<'_> {
    /// Chooses for the next job, where what is chosen can be placed and is not worse than what is known.
    fn go(&mut self, cost: Cost) {
        if self.best.as_ref().is_some_and(|(best, _)| *best <= cost) {
            return;
        }
        let Some((offers, alone)) = self.jobs.get(self.chosen.len()) else {
            self.best = Some((cost, self.chosen.clone()));
            return;
        };
        for offer in offers.iter().filter(|offer| offer.verdict.verdict.survives()) {
            let slowdown = match (offer.step, alone) {
                (Some(step), Some(alone)) => step.0.saturating_mul(1000).div_euclid(alone.0.max(1)),
                _ => 1000,
            };
            let compute = offer.device.slice.map_or(0, |slice| slice.compute);
            self.chosen.push(offer);
            if placement(&parts(&self.chosen)).is_some() {
                let (worst, all, slices) = cost;
                self.go((
                    worst.max(slowdown),
                    all.saturating_add(slowdown),
                    slices.saturating_add(compute),
                ));
            }
            self.chosen.pop();
        }
    }
}
