//! How an answer is computed from a trace and its replay.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use super::Certainty;
use super::alive::{alive_at, by_category, by_module, live_tensors};
use super::depth::Bands;
use super::owners::{Ledger, Sizes};
use super::{
    Band, ByCategory, DeviceVerdict, ModelSummary, OutOfMemory, Peak, Report, Segment,
    SegmentBlock, Snapshot, Timeline, Verdict,
};
use crate::allocator::{
    self, Allocator, BlockId, DeviceMemory, Failure, Replay, SegmentView, Series, Settings,
};
use crate::config::Config;
use crate::device::{Device, Doubt, Room};
use crate::formats::Recognised;
use crate::graph::Graph;
use crate::infer::open_dims;
use crate::step::flat_weights::FLAT_WEIGHTS;
use crate::step::quantized::QUANTIZE;
use crate::tensor::DType;
use crate::trace::{Category, LabelId, Phase, Storage, Trace};

impl DeviceVerdict {
    /// How a run ends where there is room enough, and that it does not fit anywhere else.
    pub(crate) fn by_peak(doubt: &Doubt, device: &Device, room: &Room) -> Self {
        let chance = room.chance_of(doubt);
        let fits = doubt.reserved <= room.limit();
        Self {
            id: device.id.to_owned(),
            name: room.named(device),
            capacity: room.capacity,
            capacity_from: room.capacity_from,
            need: doubt.need(),
            context: room.context.likely,
            context_high: room.high_context.map(|high| high.most),
            context_from: room.context_from,
            other_processes: room.other_processes,
            allowed: room.allowed,
            interval: Some(doubt.interval()),
            chance: Some(chance),
            verdict: if fits { Verdict::of_chance(chance) } else { Verdict::of_failure(chance) },
            out_of_memory: None,
        }
    }

    /// How a run ends: by its peaks where memory had no limit, if they stay below the capacity,
    /// else by what happens at the limit, where `limited` replays it. `least` are its peaks without workspaces of
    /// convolutions.
    pub(crate) fn of(
        trace: &Trace,
        unlimited: &Replay,
        limited: impl FnOnce() -> Replay,
        least: Option<Band>,
        (device, room): (&Device, &Room),
    ) -> Self {
        let doubt = room.doubt_of(unlimited.reserved.bytes, least.map(|least| least.reserved));
        let mut verdict = Self::by_peak(&doubt, device, room);
        if verdict.verdict.fails() {
            let limited = limited();
            if limited.out_of_memory.is_none() {
                // The chance is that of a run without flushes.
                (verdict.verdict, verdict.chance) = (Verdict::FitsAfterFlush, None);
            }
            verdict.out_of_memory =
                limited.out_of_memory.map(|failure| OutOfMemory::of(trace, &failure, room));
        }
        verdict
    }
}

impl Band {
    /// The peaks of a run whose convolutions take no workspaces; `None` where they never take any.
    pub(crate) fn without_workspaces(trace: &Trace, settings: &Settings) -> Option<Self> {
        let without = trace.without_workspaces()?;
        Some(Self::of(&allocator::replay(&without, settings, None)))
    }

    /// The peaks of a replay.
    pub(crate) const fn of(replay: &Replay) -> Self {
        Self { allocated: replay.allocated.bytes, reserved: replay.reserved.bytes }
    }
}

impl ModelSummary {
    /// Summarises a model from what set-up put on the device, and the operators that run.
    pub fn of(
        name: &str,
        recognised: &Recognised,
        graph: &Graph,
        operators: usize,
        trace: &Trace,
    ) -> Self {
        Self {
            name: if name.is_empty() { graph.name.clone() } else { name.to_owned() },
            producer: graph.producer.clone(),
            recognised: recognised.clone(),
            operators,
            batch: open_dims(graph).into_iter().find(|dim| dim.batch).map(|dim| dim.name),
            ..Self::placed(trace)
        }
    }

    /// Summarises only what set-up put on the device.
    pub(crate) fn placed(trace: &Trace) -> Self {
        let placed = |category| {
            trace.storages.iter().filter(move |storage| {
                let operator = trace.label(storage.operator);
                // Recurrent weights are placed once more, as one block.
                let is_copy = trace.label(storage.name).ends_with(FLAT_WEIGHTS);
                storage.category == category
                    && (operator.is_empty() || operator == QUANTIZE)
                    && !is_copy
            })
        };
        // A byte of a parameter has two packed weights.
        let elements = |storage: &Storage| {
            trace.tensor(storage).map_or(0, |ty| ty.numel() << u32::from(ty.dtype == DType::UInt8))
        };
        Self {
            parameters: placed(Category::Parameter).map(elements).fold(0, u64::saturating_add),
            parameter_bytes: placed(Category::Parameter).map(|s| s.requested).sum(),
            buffer_bytes: placed(Category::Buffer).map(|s| s.requested).sum(),
            ..Self::default()
        }
    }
}

impl Report {
    /// The answer as far as one replay tells it; the model and the settings are the caller's.
    pub(crate) fn of(
        trace: &Trace,
        replay: &Replay,
        series: &Series,
        verdict: DeviceVerdict,
    ) -> Self {
        let event = replay.allocated.event;
        let alive = alive_at(trace, event);
        let modules_at_peak = by_module(trace, &alive);
        let ledger = Ledger::new(trace, &modules_at_peak);
        let timeline = Timeline::of(trace, series, ledger, Bands::new(trace, &alive));
        let EventContext { iteration, phase, operator, module } = EventContext::of(trace, event);
        Self {
            model: ModelSummary::default(),
            config: Config::default(),
            without_workspaces: None,
            peak: Peak {
                requested: replay.requested_at_peak,
                allocated: replay.allocated.bytes,
                reserved: replay.reserved.bytes,
                process: replay.reserved.bytes + verdict.context,
                phase,
                iteration,
                operator,
                module,
                event,
            },
            iterations: replay.iterations.clone(),
            at_peak: by_category(trace, &alive),
            modules_at_peak,
            certainty: Some(Certainty::of(trace, &alive)),
            live_at_peak: live_tensors(trace, alive).into_iter().map(|(_, live)| live).collect(),
            timeline,
            verdict,
            lower_bound: false,
            uncertain: false,
            diagnostics: Vec::new(),
            recorded: None,
        }
    }
}

impl Snapshot {
    /// One moment of a trace, with the allocator as it is then and the block of each storage.
    pub(crate) fn of(
        trace: &Trace,
        event: usize,
        allocator: &Allocator,
        blocks: &[BlockId],
    ) -> Self {
        let EventContext { iteration, phase, operator, module } = EventContext::of(trace, event);
        let alive = alive_at(trace, event);
        let (categories, modules) = (by_category(trace, &alive), by_module(trace, &alive));
        let (ids, live): (Vec<_>, Vec<_>) = live_tensors(trace, alive).into_iter().unzip();
        let owners = ids.iter().enumerate().filter_map(|(place, id)| {
            let block = allocator.block(*blocks.get(id.index())?)?;
            Some(((block.segment, block.offset), place))
        });
        let owners = owners.into_map();
        let segment = |segment: SegmentView<'_>| Segment {
            pool: segment.pool(),
            size: segment.size(),
            blocks: segment
                .blocks()
                .map(|block| SegmentBlock {
                    size: block.size,
                    tensor: owners.get(&(block.segment, block.offset)).copied(),
                })
                .collect(),
        };
        Self {
            event,
            iteration,
            phase,
            operator,
            module,
            allocated: allocator.allocated(),
            reserved: allocator.reserved(),
            categories,
            modules,
            live,
            segments: allocator.segments().map(segment).collect(),
        }
    }
}

impl OutOfMemory {
    /// The failing allocation of a replay, told as PyTorch would.
    pub(crate) fn of(trace: &Trace, failure: &Failure, room: &Room) -> Self {
        let EventContext { iteration, phase, operator, module } =
            EventContext::of(trace, failure.event);
        let memory = DeviceMemory {
            index: 0,
            capacity: room.capacity,
            context: room.context.likely,
            other_processes: room.other_processes,
            allowed: room.allowed,
        };
        Self { iteration, phase, operator, module, message: failure.error.message(&memory) }
    }
}

/// When and where an event happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventContext {
    /// From 1; 0 while the model itself is loaded.
    pub(crate) iteration: usize,
    pub(crate) phase: Phase,
    pub(crate) operator: String,
    pub(crate) module: String,
}

impl EventContext {
    /// What the trace says of an event; set-up, for one that it does not have.
    pub(crate) fn of(trace: &Trace, event: usize) -> Self {
        let mark = trace.phase_at(event);
        let label = |ids: &[LabelId]| {
            ids.get(event).map_or_else(String::new, |&id| trace.label(id).to_owned())
        };
        Self {
            iteration: mark.map_or(0, |mark| mark.iteration),
            phase: mark.map_or(Phase::Setup, |mark| mark.phase),
            operator: label(&trace.operators),
            module: label(&trace.modules),
        }
    }
}

impl Timeline {
    /// COUNT: samples beyond which neighbouring events are thinned.
    const SAMPLES_MAX: usize = 20_000;

    /// The samples of a replay, and what the modules of the ledger and the bands hold at each.
    fn of(trace: &Trace, series: &Series, mut ledger: Ledger, mut bands: Bands) -> Self {
        let events = series.allocated.len();
        let stride = events.div_ceil(Self::SAMPLES_MAX).max(1);
        let mut timeline = Self { phases: trace.phases.clone(), events, ..Self::default() };
        let mut places: BTreeMap<LabelId, usize> = BTreeMap::new();
        let mut running = ByCategory::default();
        let mut best: Option<(usize, ByCategory, [Sizes; 2])> = None;
        for (index, event) in trace.events.iter().enumerate().take(events) {
            running.apply(trace, *event);
            ledger.apply(trace, *event);
            bands.ledger.apply(trace, *event);
            let allocated = |at: usize| series.allocated.get(at).copied().unwrap_or_default();
            if best.is_none_or(|(at, ..)| allocated(index) >= allocated(at)) {
                best = Some((index, running, [ledger.now(), bands.ledger.now()]));
            }
            if ((index + 1).is_multiple_of(stride) || index + 1 == events)
                && let Some((at, categories, [owned, banded])) = best.take()
            {
                ledger.write(timeline.event.len(), &owned);
                bands.ledger.write(timeline.event.len(), &banded);
                timeline.event.push(at);
                timeline.categories.push(categories);
                timeline.allocated.push(allocated(at));
                timeline.reserved.push(series.reserved.get(at).copied().unwrap_or_default());
                let mut place = |ids: &[LabelId]| {
                    let Some(&id) = ids.get(at) else { return 0 };
                    *places.entry(id).or_insert_with(|| {
                        timeline.labels.push(trace.label(id).to_owned());
                        timeline.labels.len() - 1
                    })
                };
                timeline.operator.push(place(&trace.operators));
                timeline.module.push(place(&trace.modules));
            }
        }
        timeline.owners = ledger.close();
        timeline.depths = bands.close();
        timeline
    }
}
