//! Many executions of a target, and what they found.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::check::{self, Execution, Fault};
use crate::mutate::Corpus;
use crate::random::Random;
use crate::targets::{Stage, Target};

/// COUNT: inputs with an outcome of their own that are kept.
const KEPT_MAX: usize = 5000;
/// SIZE: inputs that take more memory are not mutated further: they are slow.
const LIGHT: u64 = 3 << 20;
/// COUNT: executions between two whose answer is compared with that of another execution.
const COMPARED: u64 = 64;

/// How far a campaign goes.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Where its random numbers begin.
    pub seed: u64,
    /// COUNT: executions of mutated inputs at most.
    pub executions: u64,
    /// How long it may take; the number of executions alone decides where this is nothing.
    pub time: Option<Duration>,
    /// How long one execution may take.
    pub limit: Duration,
}

/// A fault, and the smallest input that has it.
#[derive(Clone, Debug)]
pub struct Found {
    /// What goes wrong.
    pub fault: Fault,
    /// The input.
    pub input: Vec<u8>,
}

/// What a campaign came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// COUNT: executions.
    pub executions: u64,
    /// COUNT: of them, those that were refused where they were read.
    pub refused: u64,
    /// COUNT: of them, those that were answered.
    pub answered: u64,
    /// COUNT: different outcomes.
    pub outcomes: usize,
    /// The longest execution, and its input.
    pub slowest: (Duration, Vec<u8>),
    /// The most memory in bytes, the bytes that were read there, and its input.
    pub largest: (u64, u64, Vec<u8>),
    /// Faults by kind.
    pub found: BTreeMap<String, Found>,
}

/// Runs every seed of a target, and then mutations; `note` hears of each input before it runs.
pub fn run(target: &Target, extent: Extent, mut note: impl FnMut(&[u8])) -> Summary {
    let begin = Instant::now();
    let corpus = Corpus::new((target.seeds)());
    let mut random = Random::new(extent.seed);
    let mut summary = Summary::default();
    let mut kept = Kept::default();
    for seed in &corpus.seeds {
        note(seed);
        let execution = check::check_twice(target, seed, extent.limit);
        if execution.peak < LIGHT {
            kept.light.push(seed.clone());
        }
        summary.add(seed, execution, &mut kept);
    }
    let seeds = summary.executions;
    let is_over = |executions: u64| {
        executions >= seeds.saturating_add(extent.executions)
            || extent
                .time
                .is_some_and(|time| executions.is_multiple_of(16) && begin.elapsed() > time)
    };
    while !is_over(summary.executions) {
        let parent = kept.choose(&corpus, &mut random);
        let input = (target.mutate)(&corpus, parent, &mut random);
        note(&input);
        let execution = if summary.executions.is_multiple_of(COMPARED) {
            check::check_twice(target, &input, extent.limit)
        } else {
            check::check(target, &input, extent.limit)
        };
        summary.add(&input, execution, &mut kept);
    }
    summary.outcomes = kept.by_outcome.len();
    summary
}

/// The smallest input of each outcome.
#[derive(Debug, Default)]
struct Kept {
    by_outcome: BTreeMap<String, usize>,
    inputs: Vec<Vec<u8>>,
    /// Seeds that are quick.
    light: Vec<Vec<u8>>,
}

impl Kept {
    fn choose<'k>(&'k self, corpus: &'k Corpus, random: &mut Random) -> &'k [u8] {
        let pool = if random.once_in(2) { &self.inputs } else { &self.light };
        let kept = if random.once_in(200) { None } else { random.one_of(pool) };
        kept.map_or_else(|| corpus.donor(random), Vec::as_slice)
    }

    fn offer(&mut self, input: &[u8], outcome: String) {
        match self.by_outcome.get(&outcome) {
            Some(&place) => {
                if let Some(known) = self.inputs.get_mut(place)
                    && input.len() < known.len() / 4 * 3
                {
                    *known = input.to_vec();
                }
            }
            None if self.inputs.len() < KEPT_MAX => {
                self.by_outcome.insert(outcome, self.inputs.len());
                self.inputs.push(input.to_vec());
            }
            None => {}
        }
    }
}

impl Summary {
    fn add(&mut self, input: &[u8], execution: Execution, kept: &mut Kept) {
        let Execution { outcome, time, peak, fault } = execution;
        self.executions += 1;
        if time > self.slowest.0 {
            self.slowest = (time, input.to_vec());
        }
        if let Some(outcome) = outcome {
            match outcome.stage {
                Stage::Refused => self.refused += 1,
                Stage::Read => {}
                Stage::Answered => self.answered += 1,
            }
            if peak > self.largest.0 {
                self.largest = (peak, outcome.read, input.to_vec());
            }
            if peak < LIGHT {
                kept.offer(input, format!("{:?} {}", outcome.stage, outcome.signature));
            }
        }
        if let Some(fault) = fault {
            let found = self.found.entry(fault.key());
            let found =
                found.or_insert_with(|| Found { fault: fault.clone(), input: input.to_vec() });
            if input.len() < found.input.len() {
                *found = Found { fault, input: input.to_vec() };
            }
        }
    }
}
