//! [`Search`]: the cheapest set of levers with which a run survives on its device.

use super::{Facts, LEVERS, Pulled};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::error::Error;
use crate::estimate::{Model, Stages};
use crate::report::Verdict;

/// Levers that together make a run fit, or come nearest to that.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// The levers in the order in which they are pulled, one that is pulled several times in a row as one
    /// step; each outcome is that of all so far.
    pub steps: Vec<Pulled>,
}

/// A search that is taken up and put down: each [`Search::step`] simulates one configuration.
///
/// Sets of levers are tried in the order of what they cost together, so that the first that
/// survives is the cheapest. Only sets that need less than the set without their last lever are
/// built upon: who needs a lever that saves nothing yet pulls it later, when it does. At most
/// [`Search::MOST`] sets are tried.
#[derive(Clone, Debug)]
pub struct Search {
    begin: Config,
    facts: Facts,
    /// Sets to try, the oldest first.
    waiting: Vec<Candidate>,
    /// What was tried.
    known: Vec<Config>,
    /// The set that needs the least so far.
    best: Option<(Bytes, Vec<usize>)>,
    /// The first set that survives only by giving cached memory back, which is slow: one that costs as
    /// much and fits goes before it.
    flushing: Option<Candidate>,
}

/// A set of levers.
#[derive(Clone, Debug)]
struct Candidate {
    /// What its levers cost together.
    cost: u64,
    config: Config,
    /// Positions in [`LEVERS`], in the order in which they were pulled.
    levers: Vec<usize>,
    /// What the set needs without its last lever.
    before: Bytes,
}

/// What a step has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Searched {
    /// Nothing yet.
    On,
    /// This is the cheapest; without steps where the run fits as it is.
    Found(Plan),
    /// No set of levers is enough, as far as was tried; this one comes nearest.
    Nothing(Plan),
}

impl Search {
    /// COUNT: sets that are tried at most.
    pub const MOST: usize = 500;

    /// Begins at a configuration, on its device.
    pub fn new(config: &Config, facts: Facts) -> Self {
        let before = Bytes(u64::MAX);
        let start = Candidate { cost: 0, config: config.clone(), levers: Vec::new(), before };
        Self {
            begin: config.clone(),
            facts,
            waiting: vec![start],
            known: Vec::new(),
            best: None,
            flushing: None,
        }
    }

    /// COUNT: sets tried so far, the empty one left out.
    pub const fn tried(&self) -> usize {
        self.known.len().saturating_sub(1)
    }

    /// Tries sets until one is found, or all were tried.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn run(&mut self, model: &Model, stages: &mut Stages) -> Result<Searched, Error> {
        loop {
            match self.step(model, stages)? {
                Searched::On => {}
                found => return Ok(found),
            }
        }
    }

    /// Tries the cheapest set that has not been tried.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn step(&mut self, model: &Model, stages: &mut Stages) -> Result<Searched, Error> {
        let next = self.next();
        let limit = next.as_ref().map_or(u64::MAX, |next| next.cost);
        if let Some(flushing) = self.flushing.take_if(|flushing| flushing.cost < limit) {
            return self.found(model, stages, flushing.levers, Verdict::survives);
        }
        let Some(candidate) = next else {
            let nearest = self.best.take().map(|(_, levers)| levers).unwrap_or_default();
            return Ok(Searched::Nothing(self.plan(model, stages, &nearest)?));
        };
        self.known.push(candidate.config.clone());
        // What PyTorch refuses is no way out.
        let Ok(outcome) = model.outcome(&candidate.config, stages) else { return Ok(Searched::On) };
        let need = outcome.verdict.need;
        match outcome.verdict.verdict {
            verdict if is_at_ease(verdict) => {
                return self.found(model, stages, candidate.levers, is_at_ease);
            }
            Verdict::FitsAfterFlush => {
                self.flushing.get_or_insert(candidate);
                return Ok(Searched::On);
            }
            _ => {}
        }
        // Less by what fragmentation alone may do is not less.
        let noise = Bytes(candidate.before.0.div_euclid(512));
        if need < candidate.before - noise {
            if self.best.as_ref().is_none_or(|(least, _)| need < *least) {
                self.best = Some((need, candidate.levers.clone()));
            }
            self.extend(&candidate, need);
        }
        Ok(Searched::On)
    }

    fn found(
        &self,
        model: &Model,
        stages: &mut Stages,
        levers: Vec<usize>,
        is_enough: fn(Verdict) -> bool,
    ) -> Result<Searched, Error> {
        let levers = self.without_the_useless(model, stages, levers, is_enough);
        Ok(Searched::Found(self.plan(model, stages, &levers)?))
    }

    /// The cheapest set whose configuration was not tried yet.
    fn next(&mut self) -> Option<Candidate> {
        if self.known.len() > Self::MOST {
            return None;
        }
        loop {
            let cheapest = (0..self.waiting.len())
                .min_by_key(|&at| self.waiting.get(at).map(|waiting| waiting.cost))?;
            let candidate = self.waiting.remove(cheapest);
            if !self.known.contains(&candidate.config) {
                return Some(candidate);
            }
        }
    }

    /// Puts what one more lever makes of a set among those to try.
    fn extend(&mut self, candidate: &Candidate, need: Bytes) {
        for (index, lever) in LEVERS.iter().enumerate() {
            if let Some(config) = lever.pull(&candidate.config, &self.facts) {
                let levers = candidate.levers.iter().copied().chain([index]).collect();
                // More of a change that was made already is no other training once more.
                let cost = if candidate.levers.contains(&index) {
                    lever.cost
                } else {
                    lever.cost_of(&candidate.config, &config, &self.facts)
                };
                let cost = candidate.cost.saturating_add(cost.weight());
                self.waiting.push(Candidate { cost, config, levers, before: need });
            }
        }
    }

    /// The levers of a set that is enough, less those without which the rest is enough as well; the
    /// costliest is tried first.
    fn without_the_useless(
        &self,
        model: &Model,
        stages: &mut Stages,
        mut levers: Vec<usize>,
        is_enough: fn(Verdict) -> bool,
    ) -> Vec<usize> {
        let mut order = levers.clone();
        order.sort_unstable();
        for index in order.into_iter().rev() {
            let Some(at) = levers.iter().rposition(|&lever| lever == index) else { continue };
            let mut fewer = levers.clone();
            fewer.remove(at);
            let outcome =
                self.pull_all(&fewer).and_then(|config| model.outcome(&config, stages).ok());
            if outcome.is_some_and(|outcome| is_enough(outcome.verdict.verdict)) {
                levers = fewer;
            }
        }
        levers
    }

    /// What all levers of a set make of the beginning; `None` where one does not apply.
    fn pull_all(&self, levers: &[usize]) -> Option<Config> {
        levers.iter().try_fold(self.begin.clone(), |config, &index| {
            LEVERS.get(index)?.pull(&config, &self.facts)
        })
    }

    /// The levers of a set, each with what it and those before lead to.
    fn plan(&self, model: &Model, stages: &mut Stages, levers: &[usize]) -> Result<Plan, Error> {
        let mut config = self.begin.clone();
        let mut plan = Plan::default();
        for &index in levers {
            let Some(lever) = LEVERS.get(index) else { continue };
            if let Some(pulled) = model.pull(lever, &config, &self.facts, stages)? {
                config.clone_from(&pulled.config);
                // Who halves the batch twice does it once, by four.
                plan.steps.pop_if(|step| step.id == pulled.id);
                plan.steps.push(pulled);
            }
        }
        Ok(plan)
    }
}

/// Whether a run never has to give cached memory back.
const fn is_at_ease(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fits | Verdict::LikelyFits | Verdict::NotKnown)
}
