//! Finds the allocation of the simulated step that failed in a real one.
//!
//! A message contains the size of the refused segment, and the allocated and reserved bytes at that moment, each
//! rounded. The allocated bytes at an event do not depend on the device, so they distinguish the events of one
//! size. The place is found if the simulated allocator, stopped at the message's own limit, fails with the same
//! figures as the message.

use crate::order::InOrder as _;
use std::collections::BTreeMap;

use super::{Model, OnDevice, Stages};
use crate::allocator::{self, OutOfMemory};
use crate::bytes::{Bytes, Printed};
use crate::config::Config;
use crate::error::Error;
use crate::observed::Message;
use crate::report;
use crate::tensor::TensorType;
use crate::trace::{Event, Phase, Storage, StorageId};

/// What was found in the simulated step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Located {
    /// Settings of the run that was searched; dimensions that got a default are filled in.
    pub config: Config,
    /// The allocations that it may be, the likeliest first.
    pub places: Vec<Candidate>,
    /// COUNT: allocations of that size in the run, whatever was allocated then.
    pub same_size: usize,
    /// The most that the simulated run allocates.
    pub peak: Bytes,
    /// A batch with which the run fails with the message's figures, where this one's does not.
    pub batch: Option<(u64, Candidate)>,
}

/// One allocation of the simulated run.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// How well it fits.
    pub fits: Match,
    /// Iterations in which it fits so, from 1; 0 is the loading of the model.
    pub iterations: Vec<usize>,
    /// Phase.
    pub phase: Phase,
    /// Operator that runs.
    pub operator: String,
    /// Module that runs; may be empty.
    pub module: String,
    /// Name of a parameter or buffer; may be empty.
    pub name: String,
    /// The tensor; `None` for workspaces.
    pub tensor: Option<TensorType>,
    /// SIZE: what the tensor asks for.
    pub requested: Bytes,
    /// SUM: allocated just before.
    pub allocated: Bytes,
    /// Whether it needs a new segment also where memory is unlimited.
    pub new_segment: bool,
    /// Index of its event in the trace.
    pub event: usize,
}

/// How well an allocation fits a message, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// The simulated run, stopped where the real one was, fails here with the same figures.
    Fails,
    /// The size and what is allocated at that moment read the same.
    Allocated,
    /// The size reads the same, and what is allocated is nearly the same.
    Near,
    /// The same printed size; the message does not state the allocated bytes.
    Size,
}

impl Match {
    /// The name in JSON: `fails-here`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fails => "fails-here",
            Self::Allocated => "same-allocated",
            Self::Near => "near",
            Self::Size => "same-size",
        }
    }

    /// Why it is taken to be the place.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Fails => {
                "the simulated run, with the message's limit, fails here with the same figures"
            }
            Self::Allocated => "the same size, and as much is allocated at that moment",
            Self::Near => "the same size, and nearly as much is allocated at that moment",
            Self::Size => "the same size; the message does not state how much was allocated",
        }
    }
}

impl Candidate {
    /// Whether two are the same operator's, in one module and of one size.
    fn is_with(&self, other: &Self) -> bool {
        (self.phase, self.requested) == (other.phase, other.requested)
            && (&self.operator, &self.module) == (&other.operator, &other.module)
    }
}

impl Located {
    /// COUNT: places that are listed.
    const PLACES_MAX: usize = 8;
    /// By how much of it, one in so many, allocated memory may differ and still be near.
    const NEAR: u64 = 32;
}

impl Model {
    /// Finds a message's allocation in the step that a configuration describes, and, where it is not
    /// there, a batch with which it is.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn locate(
        &self,
        config: &Config,
        message: &Message,
        stages: &mut Stages,
    ) -> Result<Located, Error> {
        let run = self.on_device(config, stages)?;
        let mut located = within(config, &run, message);
        let best = located.places.first().map(|place| place.fits);
        if best != Some(Match::Fails) && message.allocated.is_some() {
            let other = self.other_batch(config, &run, message, stages)?;
            located.batch = other.filter(|(_, place)| best.is_none_or(|best| place.fits < best));
        }
        Ok(located)
    }

    /// The same without another batch, which takes many times as long.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn locate_here(
        &self,
        config: &Config,
        message: &Message,
        stages: &mut Stages,
    ) -> Result<Located, Error> {
        Ok(within(config, &self.on_device(config, stages)?, message))
    }

    /// A batch with which the run fails as the message says.
    ///
    /// Sizes are a straight line in the batch, as long as no operator takes another path: two runs
    /// give the line of every allocation, and the batches for which one of them fits are simulated.
    fn other_batch(
        &self,
        config: &Config,
        run: &OnDevice,
        message: &Message,
        stages: &mut Stages,
    ) -> Result<Option<(u64, Candidate)>, Error> {
        /// COUNT: batches that are looked at on the lines: all of the first, every eighth of the rest.
        const DENSE_MAX: u64 = 256;
        const BATCHES_MAX: u64 = 4096;
        /// COUNT: batches that are simulated.
        const SIMULATED_MAX: usize = 16;
        let Some(dim) = self.open_dims().into_iter().find(|dim| dim.batch) else {
            return Ok(None);
        };
        let config = run.run.given(config);
        let given = config.dims.get(&dim.name).copied().unwrap_or(dim.default);
        let mut simulate = |batch: u64| -> Result<Option<OnDevice>, Error> {
            let mut config = config.clone();
            config.dims.insert(dim.name.clone(), batch);
            match self.on_device(&config, stages) {
                Ok(run) => Ok(Some(run)),
                Err(error) if error.is_beyond_simulation() => Ok(None),
                Err(error) => Err(error),
            }
        };
        // Lines through small batches are no use where an operator has another path for them.
        let (low, high) = (given.max(4), given.max(4).saturating_mul(2));
        let (Some(first), Some(second)) = (simulate(low)?, simulate(high)?) else {
            return Ok(None);
        };
        let lines = Lines::through((low, &first), (high, &second));
        let mut guesses: Vec<(u64, u64)> = (1..=BATCHES_MAX)
            .filter(|batch| *batch <= DENSE_MAX || batch.is_multiple_of(8))
            .filter(|batch| *batch != given)
            .filter_map(|batch| Some((lines.off(batch, message)?, batch)))
            .collect();
        // Usual batches first, among those that fit as well as rounding lets one see.
        let within = message.allocated.map_or(1, |allocated| allocated.within.0.max(1));
        guesses.order_by_key(|&(off, batch)| {
            let usual = batch.is_power_of_two() || batch.is_multiple_of(8);
            (off.div_euclid(within), !usual, batch)
        });
        let mut best: Option<(u64, Candidate)> = None;
        for (_, batch) in guesses.into_iter().take(SIMULATED_MAX) {
            let Some(run) = simulate(batch)? else { continue };
            let Some(place) = self::within(&config, &run, message).places.into_iter().next() else {
                continue;
            };
            if place.fits == Match::Fails {
                return Ok(Some((batch, place)));
            }
            if place.fits == Match::Allocated && best.is_none() {
                best = Some((batch, place));
            }
        }
        Ok(best)
    }
}

/// Size of every allocation, and what is allocated before it, at two batches.
struct Lines {
    batches: (u64, u64),
    /// Per allocation, in order: size of the request at either batch, allocated before it at either.
    points: Vec<[Bytes; 4]>,
    settings: allocator::Settings,
}

impl Lines {
    /// Allocations are the same if they are the n-th of their operator in their module and phase: a
    /// workspace more or less leaves the others alone.
    fn through((low, first): (u64, &OnDevice), (high, second): (u64, &OnDevice)) -> Self {
        let points = |run: &OnDevice| {
            let (_, series) = allocator::replay_series(run.trace(), &run.settings, None);
            let mut seen = BTreeMap::new();
            let points = allocations(run).map(|(event, _, storage)| {
                let report::EventContext { iteration, phase, operator, module } =
                    report::EventContext::of(run.trace(), event);
                let name = format!("{iteration} {} {operator} {module}", phase.name());
                let count = seen.get(&name).map_or(0_u64, |count| count + 1);
                let of_all = format!("{name} {count}");
                seen.insert(name, count);
                (of_all, storage.requested, before(&series.allocated, event))
            });
            points.collect::<Vec<_>>()
        };
        let others = points(second);
        let mut places = BTreeMap::new();
        for ((name, ..), place) in others.iter().zip(0_u64..) {
            places.insert(name.clone(), place);
        }
        let paired = points(first).into_iter().filter_map(|(name, size, allocated)| {
            let place = usize::try_from(*places.get(&name)?).ok()?;
            let (_, other_size, other_allocated) = others.get(place)?;
            Some([size, *other_size, allocated, *other_allocated])
        });
        Self { batches: (low, high), points: paired.collect(), settings: first.settings }
    }

    /// By how much the best allocation's surroundings differ at a batch; `None` where no allocation
    /// has the message's size, or all are far off, or memory has run out before.
    fn off(&self, batch: u64, message: &Message) -> Option<u64> {
        let (tried, allocated) = (message.tried?, message.allocated?);
        let near = allocated.bytes.0.div_euclid(Located::NEAR);
        let room = message.reserved.zip(message.free);
        let limit = room.map(|(reserved, free)| reserved.plus(free).most());
        let mut best = None;
        for &[low, high, before_low, before_high] in &self.points {
            let before = self.at(batch, before_low, before_high)?;
            if limit.is_some_and(|limit| limit < before) {
                break;
            }
            let off = before.0.abs_diff(allocated.bytes.0);
            if off <= near
                && best.is_none_or(|best| off < best)
                && tried.may_be(segment(&self.settings, self.at(batch, low, high)?))
            {
                best = Some(off);
            }
        }
        best
    }

    /// The line through two sizes, at a batch.
    fn at(&self, batch: u64, low: Bytes, high: Bytes) -> Option<Bytes> {
        let (from, to) = self.batches;
        let [batch, from, to, low, high] = [batch, from, to, low.0, high.0].map(i128::from);
        let rise = (high - low).checked_mul(batch - from)?.checked_div_euclid(to - from)?;
        // Far below the two batches a line may fall under zero.
        u64::try_from((low + rise).max(0)).ok().map(Bytes)
    }
}

/// The places in one run.
fn within(config: &Config, run: &OnDevice, message: &Message) -> Located {
    let Some(tried) = message.tried else { return Located::default() };
    let (replay, series) = allocator::replay_series(run.trace(), &run.settings, None);
    let failure = failure(run, message);
    let mut located = Located {
        config: run.run.given(config),
        peak: replay.allocated.bytes,
        ..Located::default()
    };
    // One place per operator, module and size; its iterations are gathered.
    let mut places: Vec<Candidate> = Vec::new();
    for (event, _, storage) in allocations(run) {
        if !tried.may_be(segment(&run.settings, storage.requested)) {
            continue;
        }
        located.same_size += 1;
        let fails = failure.filter(|(at, _)| *at == event);
        let allocated =
            fails.map_or_else(|| before(&series.allocated, event), |(_, error)| error.allocated);
        let fits = match message.allocated {
            _ if fails.is_some_and(|(_, error)| agrees(&error, message)) => Match::Fails,
            None => Match::Size,
            Some(printed) if printed.may_be(allocated) => Match::Allocated,
            Some(printed) => {
                let off = printed.bytes.0.abs_diff(allocated.0);
                if off > printed.bytes.0.div_euclid(Located::NEAR) {
                    continue;
                }
                Match::Near
            }
        };
        let reserved = |at: usize| series.reserved.get(at).copied().unwrap_or_default();
        let place = place(run, event, storage, fits, allocated);
        let place =
            Candidate { new_segment: reserved(event) > before(&series.reserved, event), ..place };
        let known = places.iter_mut().find(|known| known.fits == fits && known.is_with(&place));
        match known {
            None => places.push(place),
            Some(known) => {
                for iteration in place.iterations {
                    if !known.iterations.contains(&iteration) {
                        known.iterations.push(iteration);
                    }
                }
                known.new_segment |= place.new_segment;
            }
        }
    }
    let off = |place: &Candidate| {
        message.allocated.map_or(0, |allocated| allocated.bytes.0.abs_diff(place.allocated.0))
    };
    places.order_by_key(|place| {
        let off = if place.fits == Match::Near { off(place) } else { 0 };
        (place.fits, off, !place.new_segment, place.event)
    });
    let mut listed: Vec<Candidate> = Vec::new();
    for place in places {
        if listed.len() < Located::PLACES_MAX && !listed.iter().any(|other| other.is_with(&place)) {
            listed.push(place);
        }
    }
    located.places = listed;
    located
}

/// Where the run ends if it has no more than the message's run had: the memory that PyTorch held
/// and what was free, each a little more or less, because the message rounds.
fn failure(run: &OnDevice, message: &Message) -> Option<(usize, OutOfMemory)> {
    let (tried, reserved) = (message.tried?, message.reserved?);
    let free = message.free.unwrap_or_default();
    let limit = reserved.plus(free);
    // With a fraction or another limit, more may be free than was tried.
    let most = reserved.bytes + tried.bytes - Bytes(1);
    let limits = [limit.bytes, limit.least(), limit.most()].map(|limit| limit.min(most));
    let failures = limits.iter().filter_map(|limit| {
        let replay = allocator::replay(run.trace(), &run.settings, Some(*limit));
        replay.out_of_memory.map(|failure| (failure.event, failure.error))
    });
    let failures: Vec<_> = failures.collect();
    let agreeing = failures.iter().find(|(_, error)| agrees(error, message));
    agreeing.or_else(|| failures.first()).copied()
}

/// Whether a failure reads as the message does.
fn agrees(error: &OutOfMemory, message: &Message) -> bool {
    let is = |printed: Option<Printed>, bytes: Bytes| {
        printed.is_none_or(|printed| printed.may_be(bytes))
    };
    is(message.tried, error.segment)
        && is(message.allocated, error.allocated)
        && is(message.reserved, error.reserved)
}

/// Allocations, with their events.
fn allocations(run: &OnDevice) -> impl Iterator<Item = (usize, StorageId, &Storage)> {
    run.trace().events.iter().enumerate().filter_map(|(event, call)| match call {
        Event::Alloc(id) => Some((event, *id, run.trace().storages.get(id.index())?)),
        Event::Free(_) => None,
    })
}

/// The segment that a request would need: what messages call the attempt.
fn segment(settings: &allocator::Settings, requested: Bytes) -> Bytes {
    settings.allocation_size(settings.round_size(requested))
}

/// A series just before an event.
fn before(series: &[Bytes], event: usize) -> Bytes {
    event.checked_sub(1).and_then(|last| series.get(last)).copied().unwrap_or_default()
}

fn place(
    run: &OnDevice,
    event: usize,
    storage: &Storage,
    fits: Match,
    allocated: Bytes,
) -> Candidate {
    let trace = run.trace();
    let moment = report::EventContext::of(trace, event);
    Candidate {
        fits,
        iterations: vec![moment.iteration],
        phase: moment.phase,
        operator: moment.operator,
        module: moment.module,
        name: trace.label(storage.name).to_owned(),
        tensor: trace.tensor(storage).cloned(),
        requested: storage.requested,
        allocated,
        new_segment: false,
        event,
    }
}
