//! [`Repeats`]: calls that a run makes again and again, replayed until the allocator is as it was before.
//!
//! Micro-batches of one optimizer step are alike from the second on. So a run of three of them has the calls of any
//! number: those of the third are made again. A replay of them ends early where what the allocator holds is what it held
//! after an earlier one: the same segments, and in each the same blocks in the same order, of the same storages. What
//! follows is then what followed there, so no peak is new. Whether that is so is looked up each time, never assumed.

use std::num::NonZeroU64;
use std::ops::Range;

use super::replay::{Failure, Replay, apply};
use super::{Allocator, BlockId, Pool, Settings, State};
use crate::bytes::Bytes;
use crate::trace::{Event, Phase, Storage, StorageId, Trace};

/// COUNT: batches of a run that stands for one of more.
pub const RECORDED: u64 = 3;

/// COUNT: states that are remembered: repeats that come round after more are all replayed.
const REMEMBERED: usize = 16;

/// Parts of a run that are repeated; none where it is as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    parts: Vec<Part>,
    /// COUNT: how often each part is made again.
    again: u64,
}

/// Calls of one micro-batch, and of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    calls: Range<usize>,
    /// What the batch before allocated, and what this one allocated in its place.
    alike: Vec<(StorageId, StorageId)>,
    /// Those that are there when the batch ends, and that the next one frees.
    left: Vec<(StorageId, StorageId)>,
}

/// What an allocator holds, whatever its blocks are called: for each segment its pool and stream, for each of its blocks
/// its size and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holds(Vec<(u64, u64)>);

impl Repeats {
    /// Of the calls of a run of [`RECORDED`] batches per step that stands for one of more; `None` where they are not
    /// alike. `place` tells where the event of a phase is among the calls.
    pub fn of(
        run: &Trace,
        (calls, storages): (&[Event], &[Storage]),
        batches: u64,
        place: impl Fn(usize) -> usize,
    ) -> Option<Self> {
        let mut parts = Vec::new();
        let rounds = run.phases.last().map_or(0, |mark| mark.iteration);
        for round in 1..=rounds {
            let marks = || run.phases.iter().filter(|mark| mark.iteration == round);
            let begins = |phase| marks().filter(move |mark| mark.phase == phase);
            let mut forward = begins(Phase::Forward).map(|mark| place(mark.event)).skip(1);
            let (before, own) = (forward.next()?, forward.next()?);
            let end = place(begins(Phase::Optimizer).next()?.event);
            parts.push(Part::of((calls, storages), before..own, own..end)?);
        }
        Some(Self { parts, again: batches.checked_sub(RECORDED)? })
    }

    /// Of a run, whose batches must also make the same calls by the same operators of the same modules.
    pub fn of_run(run: &Trace, batches: NonZeroU64) -> Option<Self> {
        let parts = (&*run.events, &*run.storages);
        let repeats = Self::of(run, parts, batches.get(), |event| event)?;
        repeats.parts.iter().all(|part| part.has_one_source(run)).then_some(repeats)
    }

    /// Whether the batches are alike with these sizes as well.
    pub fn hold(&self, storages: &[Storage]) -> bool {
        self.parts.iter().flat_map(|part| &part.alike).all(|(one, other)| {
            let size = |id: &StorageId| storages.get(id.index()).map(|storage| storage.requested);
            size(one) == size(other)
        })
    }
}

impl Part {
    /// `None` where the second of two batches does not do what the first did.
    fn of(
        (calls, storages): (&[Event], &[Storage]),
        before: Range<usize>,
        own: Range<usize>,
    ) -> Option<Self> {
        let (earlier, later) = (calls.get(before)?, calls.get(own.clone())?);
        // Who allocated a storage: the earlier batch or the later, and as which of its own.
        let mut made: Vec<Option<(bool, usize)>> = vec![None; storages.len()];
        let mut list = |calls: &[Event], is_later: bool| {
            let mut own = Vec::new();
            for call in calls {
                if let Event::Alloc(id) = *call {
                    if let Some(slot) = made.get_mut(id.index()) {
                        *slot = Some((is_later, own.len()));
                    }
                    own.push(id);
                }
            }
            own
        };
        let (ones, others) = (list(earlier, false), list(later, true));
        if earlier.len() != later.len() || ones.len() != others.len() {
            return None;
        }
        let is_same = |one: StorageId, other: StorageId| {
            let of = |id: StorageId| {
                storages.get(id.index()).map(|storage| (storage.requested, storage.stream))
            };
            of(one).is_some() && of(one) == of(other)
        };
        let maker = |id: StorageId| made.get(id.index()).copied().flatten();
        let mut is_left = [vec![true; ones.len()], vec![true; ones.len()]];
        let mut frees = vec![false; ones.len()];
        let [left_before, left] = &mut is_left;
        for (one, other) in earlier.iter().zip(later) {
            match (*one, *other) {
                (Event::Alloc(one), Event::Alloc(other)) if is_same(one, other) => {}
                (Event::Free(one), Event::Free(other)) => match (maker(one), maker(other)) {
                    (Some((false, at)), Some((true, place))) if at == place => {
                        *left_before.get_mut(at)? = false;
                        *left.get_mut(at)? = false;
                    }
                    // Each frees what the batch before it left.
                    (None, Some((false, at))) if is_same(one, other) => *frees.get_mut(at)? = true,
                    _ => return None,
                },
                _ => return None,
            }
        }
        if *left_before != frees || *left != frees {
            return None;
        }
        let alike: Vec<_> = ones.into_iter().zip(others).collect();
        let left = alike.iter().zip(&frees).filter(|(_, is_left)| **is_left);
        Some(Self { calls: own, left: left.map(|(pair, _)| *pair).collect(), alike })
    }

    /// Whether the same operators and modules made the calls of both batches, and scratch of convolutions is that of
    /// both.
    fn has_one_source(&self, run: &Trace) -> bool {
        let own = self.calls.clone();
        let before = own.start.saturating_sub(own.len())..own.start;
        let purpose = |id: &StorageId| {
            let storage = run.storages.get(id.index());
            storage.map(|storage| {
                let is_scratch = run.is_convolution_workspace(storage);
                (is_scratch, storage.operator, storage.module)
            })
        };
        run.operators.get(before.clone()) == run.operators.get(own.clone())
            && run.modules.get(before) == run.modules.get(own)
            && self.alike.iter().all(|(one, other)| purpose(one) == purpose(other))
    }
}

/// A replay under way.
struct Player<'t> {
    trace: &'t Trace,
    allocator: Allocator,
    blocks: Vec<BlockId>,
    replay: Replay,
    /// COUNT: flushes of repeats that are not replayed.
    retries: u64,
}

/// Replays calls of which parts are repeated, as [`super::replay`] would replay all of them.
///
/// Peaks, flushes and failure are the same. Places of events are those of the recorded calls, and iterations are not told.
pub fn replay_repeated(
    trace: &Trace,
    repeats: &Repeats,
    settings: &Settings,
    limit: Option<Bytes>,
) -> Replay {
    let unlimited = settings.without_limits();
    let settings = if limit.is_none() { &unlimited } else { settings };
    let mut player = Player {
        trace,
        allocator: Allocator::new(*settings, limit),
        blocks: vec![BlockId::NULL; trace.storages.len()],
        replay: Replay::default(),
        retries: 0,
    };
    player.all(repeats);
    let Player { allocator, mut replay, retries, .. } = player;
    replay.segments = allocator.segments().count();
    replay.num_alloc_retries = allocator.num_alloc_retries().saturating_add(retries);
    replay
}

impl Player<'_> {
    fn all(&mut self, repeats: &Repeats) -> Option<()> {
        let mut at = 0;
        for part in &repeats.parts {
            self.calls(at..part.calls.end)?;
            self.again(part, repeats.again)?;
            at = part.calls.end;
        }
        self.calls(at..self.trace.events.len())
    }

    /// Makes calls; `None` where memory runs out.
    fn calls(&mut self, range: Range<usize>) -> Option<()> {
        let mut event = range.start;
        for &call in self.trace.events.get(range).unwrap_or_default() {
            if let Err(error) = apply(call, self.trace, &mut self.blocks, &mut self.allocator) {
                self.replay.out_of_memory = Some(Failure { event, error });
                return None;
            }
            if matches!(call, Event::Alloc(_)) {
                self.replay.raise(&self.allocator, event);
            }
            event = event.saturating_add(1);
        }
        Some(())
    }

    /// Makes the calls of a part so many times more, or until they come round.
    fn again(&mut self, part: &Part, mut left: u64) -> Option<()> {
        let mut seen = vec![(self.holds(), self.allocator.num_alloc_retries())];
        let mut comes_round = self.allocator.settings.collect_above.is_some();
        while left > 0 {
            for (before, own) in &part.left {
                let block = self.blocks.get_mut(own.index());
                let block = block.map(|block| std::mem::replace(block, BlockId::NULL));
                if let (Some(slot), Some(block)) = (self.blocks.get_mut(before.index()), block) {
                    *slot = block;
                }
            }
            self.calls(part.calls.clone())?;
            left = left.saturating_sub(1);
            // A collection of garbage also looks at the age of blocks.
            if comes_round {
                continue;
            }
            let (now, retries) = (self.holds(), self.allocator.num_alloc_retries());
            if let Some(at) = seen.iter().rposition(|(known, _)| *known == now) {
                let period = u64::try_from(seen.len().saturating_sub(at)).unwrap_or(u64::MAX);
                let (rounds, rest) = (left.div_euclid(period), left.rem_euclid(period));
                let before = seen.get(at).map_or(retries, |(_, before)| *before);
                let each = retries.saturating_sub(before);
                self.retries = self.retries.saturating_add(each.saturating_mul(rounds));
                (left, comes_round) = (rest, true);
            } else {
                if seen.len() >= REMEMBERED {
                    seen.remove(0);
                }
                seen.push((now, retries));
            }
        }
        Some(())
    }

    fn holds(&self) -> Holds {
        const OWNED: u64 = 2;
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut owners = vec![u64::MAX; self.allocator.blocks.len()];
        for (storage, block) in self.blocks.iter().enumerate() {
            if let Some(owner) = owners.get_mut(block.0) {
                *owner = number(storage);
            }
        }
        let mut holds = Vec::new();
        for segment in &self.allocator.segments {
            let mut next = segment.first;
            if next == BlockId::NULL {
                continue;
            }
            let shelf = segment.shelf;
            holds.push((
                u64::MAX,
                u64::from(shelf.stream.0) * 2 + u64::from(shelf.pool == Pool::Large),
            ));
            while let (Some(block), Some(owner)) =
                (self.allocator.blocks.get(next.0), owners.get(next.0))
            {
                let whose = match block.state {
                    State::Free => 0,
                    State::Unmapped => 1,
                    State::Allocated => owner.saturating_add(OWNED),
                };
                holds.push((block.size.0, whose));
                next = block.next;
            }
        }
        Holds(holds)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::replay;
    use super::*;
    use crate::trace::{Category, LabelId, PhaseMark, Stream};

    /// Calls of a run of steps of so many batches: each allocates these sizes, frees some of its own, and leaves the
    /// rest to the next.
    #[derive(Clone, Debug)]
    struct Steps {
        /// Sizes, and whether each is left.
        batch: Vec<(u64, bool)>,
        /// In which order a batch frees what it does not leave, and what the batch before left.
        order: Vec<usize>,
        /// What a step leaves to all later ones.
        state: Vec<u64>,
    }

    fn traced(steps: &Steps, batches: u64) -> Trace {
        let mut trace = Trace::default();
        let allocate = |trace: &mut Trace, bytes: u64| {
            let id = StorageId::new(trace.storages.len());
            let word = LabelId::new(0);
            trace.storages.push(Storage {
                requested: Bytes(bytes),
                category: Category::Activation,
                stream: Stream::default(),
                operator: word,
                module: word,
                name: word,
                tensor: None,
                reason: None,
            });
            trace.events.push(Event::Alloc(id));
            id
        };
        for iteration in 1..=3 {
            let mut before: Vec<StorageId> = Vec::new();
            let mark = |trace: &mut Trace, phase| {
                let event = trace.events.len();
                trace.phases.push(PhaseMark { event, iteration, phase });
            };
            for _ in 0..batches {
                mark(&mut trace, Phase::Forward);
                let own: Vec<StorageId> =
                    steps.batch.iter().map(|(size, _)| allocate(&mut trace, *size)).collect();
                mark(&mut trace, Phase::Backward);
                let freed = own.iter().zip(&steps.batch).filter(|(_, (_, is_left))| !is_left);
                let mut freed: Vec<StorageId> = freed.map(|(id, _)| *id).collect();
                freed.extend(std::mem::take(&mut before));
                let mut keyed: Vec<(usize, StorageId)> =
                    steps.order.iter().copied().cycle().zip(freed).collect();
                keyed.sort_by_key(|(key, _)| *key);
                trace.events.extend(keyed.iter().map(|(_, id)| Event::Free(*id)));
                let left = own.iter().zip(&steps.batch).filter(|(_, (_, is_left))| *is_left);
                before = left.map(|(id, _)| *id).collect();
            }
            mark(&mut trace, Phase::Optimizer);
            for size in &steps.state {
                allocate(&mut trace, *size);
            }
            trace.events.extend(before.iter().map(|id| Event::Free(*id)));
        }
        trace
    }

    fn sizes() -> impl Strategy<Value = u64> {
        prop_oneof![1_u64..4096, 1_u64..3_000_000, 1_u64..40_000_000]
    }

    fn all_steps() -> impl Strategy<Value = Steps> {
        let batch = prop::collection::vec((sizes(), any::<bool>()), 1..12);
        let order = prop::collection::vec(0_usize..20, 1..9);
        (batch, order, prop::collection::vec(sizes(), 0..3))
            .prop_map(|(batch, order, state)| Steps { batch, order, state })
    }

    fn same(one: &Replay, other: &Replay) -> bool {
        let told = |replay: &Replay| {
            let failure = replay.out_of_memory.map(|failure| failure.error);
            let peaks = (replay.allocated.bytes, replay.reserved.bytes, replay.requested_at_peak);
            (peaks, replay.segments, replay.num_alloc_retries, failure)
        };
        told(one) == told(other)
    }

    proptest! {
        /// Three batches, the last of which is repeated, reach what all of them reach: without a limit and within one,
        /// with and without segments that expand or are collected.
        #[test]
        fn repeats_reach_what_all_reach(
            steps in all_steps(),
            batches in 4_u64..40,
            percent in 40_u64..100,
            kind in 0_usize..4,
        ) {
            let (short, long) = (traced(&steps, RECORDED), traced(&steps, batches));
            let parts = (&*short.events, &*short.storages);
            // A batch that leaves more than it frees in that order is alike too.
            let repeats = Repeats::of(&short, parts, batches, |event| event);
            let repeats = repeats.expect("the batches are alike");
            prop_assert!(repeats.hold(&short.storages));
            let settings = Settings {
                expandable_segments: kind == 1,
                max_split_size: (kind == 2).then_some(Bytes::mib(20)),
                collect_above: (kind == 3).then_some(Bytes::mib(8)),
                ..Settings::default()
            };
            let expected = replay(&long, &settings, None);
            let found = replay_repeated(&short, &repeats, &settings, None);
            prop_assert!(same(&found, &expected), "{found:?} {expected:?}");
            let limit = Some(Bytes(expected.reserved.bytes.0.div_euclid(100) * percent));
            let expected = replay(&long, &settings, limit);
            let found = replay_repeated(&short, &repeats, &settings, limit);
            prop_assert!(same(&found, &expected), "{found:?} {expected:?}");
        }
    }

    /// Batches that differ in a size, or of which one leaves more than the next frees, stand for no others.
    #[test]
    fn batches_that_differ_are_not_repeated() {
        let steps =
            Steps { batch: vec![(600, false), (700, true)], order: vec![0], state: vec![5] };
        let alike = |trace: &Trace| {
            Repeats::of(trace, (&trace.events, &trace.storages), 9, |event| event).is_some()
        };
        let trace = traced(&steps, RECORDED);
        assert!(alike(&trace));
        let mut larger = trace.clone();
        larger.storages[4].requested = Bytes(1);
        assert!(!alike(&larger));
        // The last batch of the first step does not free what the second left.
        let mut keeps = trace;
        let end = keeps.phases[6].event;
        let last = keeps.events[..end].iter().rposition(|event| matches!(event, Event::Free(_)));
        keeps.events.remove(last.expect("it frees"));
        keeps.phases.iter_mut().skip(6).for_each(|mark| mark.event -= 1);
        assert!(!alike(&keeps));
    }
}
