//! [`Search`]: the cheapest set of levers with which a run survives on its device.

use std::collections::BTreeMap;

use super::{Facts, LEVERS, Pulled};
use crate::config::Config;
use crate::error::Error;
use crate::estimate::Model;

/// Levers that together make a run fit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// The levers in the order in which they are pulled; each outcome is that of all so far.
    pub steps: Vec<Pulled>,
}

/// A search that is taken up and put down: each [`Search::step`] simulates one configuration.
///
/// Sets of levers are tried in the order of what they cost together, so that the first that
/// survives is the cheapest. Only what levers change is tried, and at most [`Search::MOST`] sets.
#[derive(Clone, Debug)]
pub struct Search {
    begin: Config,
    facts: Facts,
    /// Sets to try, by cost and then by age.
    waiting: BTreeMap<(u64, usize), Candidate>,
    /// COUNT: sets ever put into `waiting`.
    seen: usize,
    tried: usize,
}

/// A set of levers.
#[derive(Clone, Debug)]
struct Candidate {
    config: Config,
    /// Positions in [`LEVERS`], never falling: each set is made once.
    levers: Vec<usize>,
}

/// What a step has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Searched {
    /// Nothing yet.
    On,
    /// This is the cheapest.
    Found(Plan),
    /// No set of levers is enough, as far as was tried.
    Nothing,
}

impl Search {
    /// COUNT: sets that are tried at most.
    pub const MOST: usize = 400;

    /// Begins at a configuration, on its device.
    pub fn new(config: &Config, facts: Facts) -> Self {
        let start = Candidate { config: config.clone(), levers: Vec::new() };
        let mut search =
            Self { begin: config.clone(), facts, waiting: BTreeMap::new(), seen: 0, tried: 0 };
        search.extend(&start, 0);
        search
    }

    /// COUNT: sets tried so far.
    pub const fn tried(&self) -> usize {
        self.tried
    }

    /// Tries the cheapest set that has not been tried.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn step(&mut self, model: &Model) -> Result<Searched, Error> {
        let next = if self.tried < Self::MOST { self.waiting.pop_first() } else { None };
        let Some(((cost, _), candidate)) = next else { return Ok(Searched::Nothing) };
        self.tried += 1;
        let outcome = model.outcome(&candidate.config)?;
        if outcome.verdict.verdict.survives() {
            return Ok(Searched::Found(self.plan(model, &candidate)?));
        }
        self.extend(&candidate, cost);
        Ok(Searched::On)
    }

    /// Puts what one more lever makes of a set among those to try.
    fn extend(&mut self, candidate: &Candidate, cost: u64) {
        let last = candidate.levers.last().copied();
        for (index, lever) in LEVERS.iter().enumerate() {
            let comes_later =
                last.is_none_or(|last| index > last || index == last && lever.repeats);
            if !comes_later {
                continue;
            }
            if let Some(config) = lever.pull(&candidate.config, &self.facts) {
                let levers = candidate.levers.iter().copied().chain([index]).collect();
                let cost = cost.saturating_add(lever.cost.weight());
                self.waiting.insert((cost, self.seen), Candidate { config, levers });
                self.seen += 1;
            }
        }
    }

    /// The levers of a set, each with what it and those before lead to.
    fn plan(&self, model: &Model, found: &Candidate) -> Result<Plan, Error> {
        let mut config = self.begin.clone();
        let mut plan = Plan { steps: Vec::new() };
        for &index in &found.levers {
            let Some(lever) = LEVERS.get(index) else { continue };
            if let Some(pulled) = model.pull(lever, &config, &self.facts)? {
                config.clone_from(&pulled.config);
                plan.steps.push(pulled);
            }
        }
        Ok(plan)
    }
}
