//! A recorded run in the form of an estimate, so that the same code shows both.
//!
//! A recorded run has no model. The line of code that allocated replaces the module. Where the file has no
//! category, the place in training replaces it. Phases follow from the same stacks.

use crate::order::InOrder as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::replay::by_peak;
use super::{Action, Entry, Live, Origin, Recorded};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::error::Error;
use crate::formats::{Fidelity, Recognised};
use crate::report::{
    By, ByCategory, Gap, IterationPeaks, LiveTensor, ModelSummary, ModuleBytes, Owner, Peak,
    Reading, RecordedRun, Report, Snapshot, Timeline,
};
use crate::trace::{Category, Phase, PhaseMark};

/// COUNT: samples of the timeline, at most.
const SAMPLES_MAX: usize = 20_000;
/// COUNT: lines of code shown separately over time; the rest is summed.
const OWNERS_MAX: usize = 7;
/// COUNT: frames of one stack, at most.
const FRAMES_MAX: usize = 16;

/// Names behind a stack.
#[derive(Clone, Debug, Default)]
struct Caller {
    /// The module, or the innermost line of code that is not PyTorch's.
    module: String,
    /// What ran.
    operator: String,
    /// The tensor; only files of ours know.
    name: String,
}

impl Recorded<'_> {
    /// The answer, on the device of a configuration that says nothing else of it. The verdict is by
    /// the peak alone: [`Calls::verdict`](super::Calls::verdict) tries whether less would do.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn report(&self, name: &str, config: &Config) -> Result<Report, Error> {
        let (reserved, _) = self.reserved_peak;
        let mut verdict = by_peak(self.needed, config, &config.device)?;
        let phases = self.phases();
        let by_origin = self.is_by_origin();
        let peak = self.snapshot_of(&self.peak, &phases, by_origin);
        let modules = peak.modules.clone();
        let gap = match () {
            () if self.runs_out() => Some(Gap::RunsOut),
            () if self.entries().is_empty() => Some(Gap::OnlyEnd),
            () if !self.before.is_empty() => Some(Gap::BeginsLate),
            () => None,
        };
        if gap.is_some() {
            verdict.forget_interval();
        }
        Ok(Report {
            model: ModelSummary {
                name: name.to_owned(),
                recognised: Recognised {
                    format: "memory snapshot".to_owned(),
                    fidelity: Fidelity::Recorded,
                },
                ..ModelSummary::default()
            },
            config: config.clone(),
            peak: Peak {
                requested: self.peak.requested,
                allocated: self.peak.allocated,
                reserved,
                process: reserved + verdict.context,
                phase: peak.phase,
                iteration: peak.iteration,
                operator: peak.operator,
                module: peak.module,
                event: peak.event,
            },
            without_workspaces: None,
            at_peak: peak.categories,
            timeline: self.samples(&phases, &modules, by_origin),
            iterations: self.iterations(&phases),
            modules_at_peak: modules,
            certainty: None,
            live_at_peak: peak.live,
            verdict,
            lower_bound: gap.is_some(),
            uncertain: false,
            diagnostics: self.diagnostics.clone(),
            recorded: Some(RecordedRun {
                readings: vec![self.reading()],
                shown: 0,
                by_origin,
                gap,
                alloc_conf: self.snapshot.alloc_conf.clone(),
            }),
        })
    }

    /// Which of the histories in its file it is.
    pub fn reading(&self) -> Reading {
        let (allocated, (reserved, _)) = (self.peak.allocated, self.reserved_peak);
        Reading { by: By::Gpu(self.device), allocated, reserved }
    }

    /// One moment of it; one behind the last is the last.
    pub fn look(&self, entry: usize) -> Snapshot {
        self.snapshot_of(&self.at(entry), &self.phases(), self.is_by_origin())
    }

    /// Whether categories are origins, because the file does not state what all blocks are for.
    fn is_by_origin(&self) -> bool {
        let is_silent = |entry: &Entry| entry.action == Action::Alloc && entry.category.is_none();
        !self.before.is_empty() || self.entries().is_empty() || self.entries().iter().any(is_silent)
    }

    /// Where phases begin, as stacks tell: a phase lasts until another one is certain. What runs before
    /// the first is setting up, unless the recording began later.
    fn phases(&self) -> Vec<PhaseMark> {
        let entries = self.entries();
        let allocations = || {
            let all = entries.iter().enumerate();
            all.filter(|(_, entry)| entry.action == Action::Alloc)
                .map(|(at, entry)| (at, entry.stack, self.origin(entry.stack)))
        };
        let has_steps = allocations().any(|(.., origin)| origin == Origin::Optimizer);
        let mut marks = Vec::new();
        if self.before.is_empty() && !entries.is_empty() {
            marks.push(PhaseMark { event: 0, iteration: 0, phase: Phase::Setup });
        }
        let (mut iteration, mut now) = (0, Phase::Setup);
        for (event, stack, origin) in allocations() {
            let phase = match origin {
                // What a checkpoint runs again is of backward.
                Origin::Forward if now == Phase::Backward && self.is_recomputed(stack) => continue,
                Origin::Forward => Phase::Forward,
                Origin::Backward => Phase::Backward,
                Origin::Optimizer => Phase::Optimizer,
                Origin::Moved | Origin::Unknown => continue,
            };
            if phase == now {
                continue;
            }
            let begins = iteration == 0
                || phase == Phase::Forward && (now == Phase::Optimizer || !has_steps);
            if begins {
                iteration += 1;
            }
            now = phase;
            marks.push(PhaseMark { event, iteration, phase });
        }
        marks
    }

    fn origin(&self, stack: usize) -> Origin {
        self.origins.get(stack).copied().unwrap_or(Origin::Unknown)
    }

    fn is_recomputed(&self, stack: usize) -> bool {
        let frames = self.snapshot.stacks.get(stack).map(Vec::as_slice).unwrap_or_default();
        let files = frames.iter().filter_map(|&frame| self.snapshot.frames.get(frame));
        files
            .filter_map(|frame| self.snapshot.texts.get(frame.file))
            .any(|file| file.ends_with("torch/utils/checkpoint.py"))
    }

    /// What a block is shown as. What backward makes has no stack, since its threads run no Python.
    fn category(&self, live: &Live, phases: &[PhaseMark], by_origin: bool) -> Category {
        if let (false, Some(category)) = (by_origin, live.category) {
            return category;
        }
        match live.origin {
            Origin::Forward => Category::Activation,
            Origin::Backward => Category::Gradient,
            Origin::Optimizer => Category::OptimizerState,
            Origin::Moved => Category::Parameter,
            Origin::Unknown => {
                let is_bare = self.snapshot.stacks.get(live.stack).is_none_or(Vec::is_empty);
                let phase = live.born.and_then(|born| phase_at(phases, born));
                let in_backward = phase.is_some_and(|mark| mark.phase == Phase::Backward);
                if is_bare && in_backward { Category::Gradient } else { Category::Workspace }
            }
        }
    }

    fn caller(&self, stack: usize) -> Caller {
        let text = |text: usize| self.snapshot.texts.get(text).map_or("", String::as_str);
        let mut caller = Caller::default();
        let frames = self.snapshot.stacks.get(stack).map(Vec::as_slice).unwrap_or_default();
        for frame in frames.iter().filter_map(|&frame| self.snapshot.frames.get(frame)) {
            let (file, name) = (text(frame.file), text(frame.name));
            match file {
                "tensor" if frame.line == 0 => name.clone_into(&mut caller.name),
                "operator" if frame.line == 0 => name.clone_into(&mut caller.operator),
                "module" if frame.line == 0 && caller.module.is_empty() => {
                    name.clone_into(&mut caller.module);
                }
                "iteration" | "module" => {}
                file => {
                    let mut parts = file.rsplit(['/', '\\']);
                    let short = parts.next().unwrap_or_default();
                    let is_torch = parts.any(|part| part == "torch");
                    // Without its ending, because dots part the names of modules.
                    if let Some(short) = short.strip_suffix(".py")
                        && !is_torch
                        && caller.module.is_empty()
                    {
                        caller.module = format!("{short}:{} {name}", frame.line);
                    }
                    if caller.operator.is_empty() {
                        name.clone_into(&mut caller.operator);
                    }
                }
            }
        }
        // As a report of ours has it: a parameter is its module's, whoever put it there.
        if let Some((module, _)) = caller.name.rsplit_once('.') {
            caller.module = module.to_owned();
        }
        caller
    }

    fn snapshot_of(
        &self,
        moment: &super::Moment,
        phases: &[PhaseMark],
        by_origin: bool,
    ) -> Snapshot {
        let mark = phase_at(phases, moment.entry);
        let entry = self.entries().get(moment.entry);
        let ran = self.caller(entry.map_or(0, |entry| entry.stack));
        let mut deaths: BTreeMap<u64, usize> = BTreeMap::new();
        let later = self.entries().iter().enumerate().skip(moment.entry.saturating_add(1));
        for (at, entry) in later.filter(|(_, entry)| entry.action == Action::FreeCompleted) {
            deaths.entry(entry.address).or_insert(at);
        }
        let mut callers: Vec<Option<(Caller, String)>> = vec![None; self.snapshot.stacks.len()];
        let mut categories = ByCategory::default();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut modules: Vec<ModuleBytes> = Vec::new();
        let mut live = Vec::with_capacity(moment.live.len());
        for block in &moment.live {
            let Some(caller) = callers.get_mut(block.stack) else { continue };
            let (caller, frames) = caller.get_or_insert_with(|| {
                let frames: Vec<_> = self.snapshot.stack(block.stack).take(FRAMES_MAX).collect();
                (self.caller(block.stack), frames.join("\n"))
            });
            let category = self.category(block, phases, by_origin);
            *categories.get_mut(category) += block.requested;
            let place = *places.entry(caller.module.clone()).or_insert(modules.len());
            match modules.get_mut(place) {
                Some(module) => module.bytes += block.requested,
                None => modules
                    .push(ModuleBytes { module: caller.module.clone(), bytes: block.requested }),
            }
            live.push(LiveTensor {
                bytes: block.requested,
                category,
                operator: frames.clone(),
                module: caller.module.clone(),
                name: caller.name.clone(),
                tensor: None,
                born: block.born.unwrap_or(usize::MAX),
                dies: deaths.get(&block.address).copied(),
            });
        }
        modules.order_by_key(|module| Reverse(module.bytes));
        Snapshot {
            event: moment.entry,
            iteration: mark.map_or(0, |mark| mark.iteration),
            phase: mark.map_or(Phase::Setup, |mark| mark.phase),
            operator: ran.operator,
            module: ran.module,
            allocated: moment.allocated,
            reserved: moment.reserved,
            categories,
            modules,
            live,
            segments: moment.segments.clone(),
        }
    }

    /// The peaks of each iteration.
    fn iterations(&self, phases: &[PhaseMark]) -> Vec<IterationPeaks> {
        let count = phases.last().map_or(0, |mark| mark.iteration);
        let mut peaks = vec![IterationPeaks::default(); count];
        let mut walk = self.walk();
        for at in 0..self.entries().len() {
            walk.step(at);
            let iteration = phase_at(phases, at).and_then(|mark| mark.iteration.checked_sub(1));
            if let Some(peak) = iteration.and_then(|iteration| peaks.get_mut(iteration)) {
                peak.requested = walk.state.requested.max(peak.requested);
                peak.allocated = walk.state.allocated.max(peak.allocated);
                peak.reserved = walk.state.reserved.max(peak.reserved);
            }
        }
        peaks
    }

    /// Memory over time: of neighbouring entries, the one with the most allocated.
    fn samples(&self, phases: &[PhaseMark], modules: &[ModuleBytes], by_origin: bool) -> Timeline {
        let entries = self.entries();
        let callers: Vec<Caller> =
            (0..self.snapshot.stacks.len()).map(|stack| self.caller(stack)).collect();
        let owners = modules.iter().filter(|module| !module.module.is_empty()).take(OWNERS_MAX);
        let owners: Vec<&str> = owners.map(|module| module.module.as_str()).collect();
        let owner_of = |caller: &Caller| owners.iter().position(|owner| *owner == caller.module);
        let owner_of: Vec<Option<usize>> = callers.iter().map(owner_of).collect();
        let mut sums = Sums::default();
        let mut walk = self.walk();
        for live in walk.state.blocks.values() {
            sums.change(self.category(live, phases, by_origin), &owner_of, live, true);
        }
        let mut timeline =
            Timeline { phases: phases.to_vec(), events: entries.len(), ..Timeline::default() };
        timeline.owners = owners
            .iter()
            .map(|&module| Owner { module: module.to_owned(), ..Owner::default() })
            .collect();
        let mut labels: BTreeMap<String, usize> = BTreeMap::new();
        let stride = entries.len().div_ceil(SAMPLES_MAX).max(1);
        let mut best: Option<Sampled> = None;
        for (at, entry) in entries.iter().enumerate() {
            let touches = matches!(entry.action, Action::Alloc | Action::FreeCompleted);
            let old = walk.state.blocks.get(&entry.address).copied().filter(|_| touches);
            walk.step(at);
            let new = walk.state.blocks.get(&entry.address).copied().filter(|_| touches);
            for (live, comes) in [(old, false), (new, true)] {
                if let Some(live) = live {
                    sums.change(self.category(&live, phases, by_origin), &owner_of, &live, comes);
                }
            }
            let (allocated, reserved) = (walk.state.allocated, walk.state.reserved);
            if best.as_ref().is_none_or(|best| allocated >= best.allocated) {
                best = Some(Sampled { at, stack: entry.stack, allocated, reserved, sums });
            }
            let next = at.saturating_add(1);
            if (next.is_multiple_of(stride) || next == entries.len())
                && let Some(best) = best.take()
            {
                let caller = callers.get(best.stack);
                let mut label = |text: &str| {
                    let next = labels.len();
                    *labels.entry(text.to_owned()).or_insert_with(|| {
                        timeline.labels.push(text.to_owned());
                        next
                    })
                };
                let operator = label(caller.map_or("", |caller| &caller.operator));
                let module = label(caller.map_or("", |caller| &caller.module));
                timeline.operator.push(operator);
                timeline.module.push(module);
                let sample = timeline.event.len();
                for (owner, &bytes) in timeline.owners.iter_mut().zip(&best.sums.owners) {
                    if owner.bytes.last().copied().unwrap_or_default() != bytes {
                        owner.from.push(sample);
                        owner.bytes.push(bytes);
                    }
                }
                timeline.event.push(best.at);
                timeline.categories.push(best.sums.categories);
                timeline.allocated.push(best.allocated);
                timeline.reserved.push(best.reserved);
            }
        }
        timeline.owners.order_by_key(|owner| owner.from.first().copied());
        timeline
    }
}

/// One sample of the timeline.
struct Sampled {
    at: usize,
    stack: usize,
    allocated: Bytes,
    reserved: Bytes,
    sums: Sums,
}

/// Requested bytes at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    categories: ByCategory,
    owners: [Bytes; OWNERS_MAX],
}

impl Sums {
    fn change(&mut self, category: Category, owner_of: &[Option<usize>], live: &Live, comes: bool) {
        let owner = owner_of.get(live.stack).copied().flatten();
        let owned = owner.and_then(|owner| self.owners.get_mut(owner));
        for bytes in [Some(self.categories.get_mut(category)), owned].into_iter().flatten() {
            if comes {
                *bytes += live.requested;
            } else {
                *bytes -= live.requested;
            }
        }
    }
}

fn phase_at(phases: &[PhaseMark], event: usize) -> Option<PhaseMark> {
    let after = phases.partition_point(|mark| mark.event <= event);
    phases.get(after.checked_sub(1)?).copied()
}
