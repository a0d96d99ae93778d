//! [`Stages`]: what the stages of a model's estimates made, kept and shared.
//!
//! | stage | depends on |
//! |---|---|
//! | [`Shaped`]: the nodes of the graph, and their types | dimensions, and settings that change the graph itself |
//! | [`Recovered`]: the operators that PyTorch runs | shapes, and settings of recovery, types and adapters |
//! | [`Run`]: events, and kernels where times are asked for | settings of the training, and how kernels are chosen |
//! | [`Variant`]: sizes of scratch | the hardware |
//! | [`Replay`]: peaks | settings of the allocator |
//! | verdict | the memory of a device |
//!
//! Each row of [`SETTINGS`](crate::config::SETTINGS) states the stage that its setting enters. A stage is given the
//! settings up to its own and nothing else ([`Config::up_to`]), and they are the key of what it made. So what is kept is
//! never wrong; the oldest is forgotten.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::rc::Rc;

use super::forecast::{Forecast, Rehearsal};
use super::{Model, Recovered, Run, Shaped};
use crate::allocator::{self, Conf, RECORDED, Repeats, Replay, Series, Settings, replay_repeated};
use crate::bytes::Bytes;
use crate::config::{Config, Stage};
use crate::device::{Device, Room};
use crate::eager::{Elsewhere, Hardware, Launches};
use crate::error::{Error, ErrorKind};
use crate::report::{Band, DeviceVerdict};
use crate::trace::Trace;

/// Results of the stages of one model: where the same would be made again, it is taken from here.
#[derive(Debug, Default)]
pub struct Stages {
    shapes: Kept<Shaped>,
    programs: Kept<Recovered>,
    /// The newest last.
    runs: Vec<Known>,
    /// Of one configuration, without its batch.
    forecasts: Vec<(Config, Forecast)>,
    /// Of which there is none, with the hardware and the batches of their runs.
    failed: Vec<(Config, Hardware, [u64; 3])>,
    made: Made,
}

/// What a stage made, by the settings that it was given; the newest last.
#[derive(Debug)]
struct Kept<T>(Vec<(Config, Rc<T>)>);

/// How often each stage had to be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// COUNT: times that shapes were inferred.
    pub shapes: usize,
    /// COUNT: programs that were recovered.
    pub programs: usize,
    /// COUNT: runs that were recorded.
    pub runs: usize,
    /// COUNT: replays without a limit.
    pub replays: usize,
    /// COUNT: forecasts of all batches.
    pub forecasts: usize,
    /// COUNT: forecasts that failed, so that searches simulate each batch that they try.
    pub failed_forecasts: usize,
}

/// A run that was recorded.
#[derive(Debug)]
struct Known {
    config: Config,
    run: Rc<Run>,
    /// The run on each hardware that was asked for.
    variants: Vec<(Hardware, Rc<Variant>)>,
}

/// A run on some hardware.
#[derive(Debug)]
struct Variant {
    /// Where it is not that of the run.
    trace: Option<Trace>,
    replays: RefCell<Vec<(Played, Rc<Replay>)>>,
    /// The peaks without workspaces of convolutions.
    least: RefCell<Vec<(Played, Option<Band>)>>,
    /// Its micro-batches, if they can stand for more.
    repeats: RefCell<Vec<(NonZeroU64, Option<Rc<Repeats>>)>>,
}

/// Settings of the allocator, without limits, and the micro-batches of a step, of which the run may have fewer.
type Played = (Settings, NonZeroU64);

/// A run on one device.
#[derive(Clone, Debug)]
pub(crate) struct OnDevice {
    pub(super) run: Rc<Run>,
    variant: Rc<Variant>,
    pub(super) settings: Settings,
    pub(super) unlimited: Rc<Replay>,
    pub(super) room: Room,
    pub(super) device: &'static Device,
    /// Micro-batches of a step.
    batches: NonZeroU64,
    /// Those of the run, where they stand for more.
    repeats: Option<Rc<Repeats>>,
}

impl Stages {
    /// COUNT: events of all runs that are kept, the newest in any case.
    const EVENTS: usize = 1 << 19;

    /// How often each stage had to be computed so far.
    pub const fn made(&self) -> Made {
        self.made
    }

    /// The run of a configuration on a device, where memory has no limit.
    pub(super) fn on(
        &mut self,
        model: &Model,
        config: &Config,
        device: &'static Device,
    ) -> Result<OnDevice, Error> {
        let (room, settings) = limits(config, device)?;
        let (run, variant) = self.variant(model, config, device)?;
        let (batches, repeats) = (config.accumulate, None);
        let played = (settings.without_limits(), batches);
        let unlimited = variant.replayed(&played).unwrap_or_else(|| {
            let replay = allocator::replay(variant.trace(&run), &settings, None);
            self.made.replays += 1;
            variant.keep(played, replay)
        });
        Ok(OnDevice { run, variant, settings, unlimited, room, device, batches, repeats })
    }

    /// The same, and the bytes after each event.
    pub(super) fn series_on(
        &mut self,
        model: &Model,
        config: &Config,
        device: &'static Device,
    ) -> Result<(OnDevice, Series), Error> {
        let (room, settings) = limits(config, device)?;
        let (run, variant) = self.variant(model, config, device)?;
        let (replay, series) = allocator::replay_series(variant.trace(&run), &settings, None);
        self.made.replays += 1;
        let (batches, repeats) = (config.accumulate, None);
        let unlimited = variant.keep((settings.without_limits(), batches), replay);
        let on = OnDevice { run, variant, settings, unlimited, room, device, batches, repeats };
        Ok((on, series))
    }

    /// The same where only peaks and the end are asked for: micro-batches that are alike are recorded once.
    pub(super) fn peaks_on(
        &mut self,
        model: &Model,
        config: &Config,
        device: &'static Device,
    ) -> Result<OnDevice, Error> {
        let Some(short) = config.with_fewer_batches(RECORDED) else {
            return self.on(model, config, device);
        };
        let (room, settings) = limits(config, device)?;
        let (run, variant) = self.variant(model, &short, device)?;
        let batches = config.accumulate;
        let Some(repeats) = variant.repeated(&run, batches) else {
            return self.on(model, config, device);
        };
        let played = (settings.without_limits(), batches);
        let unlimited = variant.replayed(&played).unwrap_or_else(|| {
            let replay = replay_repeated(variant.trace(&run), &repeats, &settings, None);
            self.made.replays += 1;
            variant.keep(played, replay)
        });
        let repeats = Some(repeats);
        Ok(OnDevice { run, variant, settings, unlimited, room, device, batches, repeats })
    }

    /// The run of a configuration on a device: a known one, if it would be the same there.
    fn variant(
        &mut self,
        model: &Model,
        config: &Config,
        device: &Device,
    ) -> Result<(Rc<Run>, Rc<Variant>), Error> {
        let hardware = device.hardware(config.pytorch, config.cudnn);
        let config = config.up_to(Stage::Run);
        let mut alike = self.runs.iter_mut().filter(|known| known.config == config);
        if let Some(found) = alike.find_map(|known| known.on(&hardware)) {
            self.forget(1);
            return Ok(found);
        }
        self.record(model, config, hardware, false)
    }

    /// The kernels of all iterations on a device: those of a known run, if the same ones run there. Where its events
    /// are asked for too, they are those of the device to the byte.
    pub(super) fn launches(
        &mut self,
        model: &Model,
        config: &Config,
        device: &Device,
        with_events: bool,
    ) -> Result<Rc<Launches>, Error> {
        let hardware = device.hardware(config.pytorch, config.cudnn);
        let config = config.up_to(Stage::Run);
        let is_alike = |known: &Known| match known.variants.first() {
            Some((own, _)) if *own == hardware => true,
            _ if with_events => known.is_same(&hardware),
            _ => known.run.asked.chooses_alike(&hardware),
        };
        let fits = |known: &Known| known.config == config && is_alike(known);
        let has_kernels = |known: &Known| known.run.launches.is_some();
        let with_kernels = self.runs.iter().position(|known| has_kernels(known) && fits(known));
        let at = with_kernels.or_else(|| self.runs.iter().position(fits));
        if let Some(launches) = at.and_then(|at| self.runs.get(at)?.run.launches.clone()) {
            return Ok(launches);
        }
        // A run that lacks kernels is recorded again with them: the same to the last event.
        let variants = at.map(|at| self.runs.remove(at).variants).unwrap_or_default();
        let own = variants.first().map_or(hardware, |(own, _)| *own);
        let (run, _) = self.record(model, config, own, true)?;
        if let Some(known) = self.runs.last_mut().filter(|_| !variants.is_empty()) {
            known.variants = variants;
        }
        Ok(run.launches.clone().unwrap_or_default())
    }

    /// The kernels of a steady step on a device: of micro-batches that are alike, one has the number of all.
    pub(super) fn launches_of_step(
        &mut self,
        model: &Model,
        config: &Config,
        device: &Device,
    ) -> Result<Rc<Launches>, Error> {
        if let Some(short) = config.with_fewer_batches(RECORDED) {
            let recorded = self.launches(model, &short, device, false)?;
            if let Some(all) = recorded.with_batches(RECORDED, config.accumulate.get()) {
                return Ok(Rc::new(all));
            }
        }
        self.launches(model, config, device, false)
    }

    /// Records a run, with its kernels where they are asked for.
    fn record(
        &mut self,
        model: &Model,
        config: Config,
        hardware: Hardware,
        with_kernels: bool,
    ) -> Result<(Rc<Run>, Rc<Variant>), Error> {
        // One that is too large by itself goes before another is recorded.
        self.forget(0);
        let program = self.program(model, &config)?;
        let run = Rc::new(program.record(
            &config,
            (hardware, &*model.abilities),
            with_kernels.then_some(1),
        )?);
        self.made.runs += 1;
        let variant = Rc::new(Variant::new(None));
        let variants = vec![(hardware, Rc::clone(&variant))];
        self.runs.push(Known { config, run: Rc::clone(&run), variants });
        self.forget(1);
        Ok((run, variant))
    }

    /// A forecast of any batch on a device, from runs of three sizes of the batch's dimension; `None` where they differ
    /// too much.
    pub(super) fn rehearsal(
        &mut self,
        model: &Model,
        config: &Config,
        device: &Device,
        batch: &str,
        sizes: [u64; 3],
    ) -> Option<Rehearsal<'_>> {
        let (room, settings) = limits(config, device).ok()?;
        let hardware = device.hardware(config.pytorch, config.cudnn);
        let mut without = config.up_to(Stage::Run);
        without.dims.remove(batch);
        let mut known = self.forecasts.iter();
        let known = known.position(|(config, known)| *config == without && known.is_of(&hardware));
        let at = if let Some(at) = known {
            at
        } else {
            let key = (without, hardware, sizes);
            if self.failed.contains(&key) {
                return None;
            }
            let short = config.with_fewer_batches(RECORDED);
            let short = short.and_then(|short| {
                self.forecast(model, &short, device, (batch, sizes), Some(config.accumulate))
            });
            let made = short.or_else(|| self.forecast(model, config, device, (batch, sizes), None));
            // Those of the newest configuration are kept, one for each kind of hardware.
            self.forecasts.retain(|(config, _)| *config == key.0);
            self.failed.retain(|(config, ..)| *config == key.0);
            let Some(forecast) = made else {
                self.made.failed_forecasts += 1;
                self.failed.push(key);
                return None;
            };
            self.made.forecasts += 1;
            self.forecasts.push((key.0, forecast));
            self.forecasts.len().checked_sub(1)?
        };
        let (_, forecast) = self.forecasts.get_mut(at)?;
        Some(Rehearsal::on(forecast, hardware, settings, room))
    }

    /// A forecast from runs of a configuration, which may have fewer micro-batches than those that it stands for.
    fn forecast(
        &mut self,
        model: &Model,
        config: &Config,
        device: &Device,
        (batch, sizes): (&str, [u64; 3]),
        stands_for: Option<NonZeroU64>,
    ) -> Option<Forecast> {
        let mut probe = config.clone();
        let mut run = |size| {
            probe.dims.insert(batch.to_owned(), size);
            self.variant(model, &probe, device).map(|(run, _)| run).ok()
        };
        let count = stands_for.map(NonZeroU64::get);
        let [low, middle, top] = sizes;
        let (few, some, many) = (run(low)?, run(middle)?, run(top)?);
        let forecast = Forecast::of(sizes, [&few, &some, &many], count);
        let more = low.midpoint(middle);
        if more > low && !forecast.as_ref().is_some_and(Forecast::is_straight) {
            // Few samples may take other kernels.
            let few = run(more)?;
            return Forecast::of([more, middle, top], [&few, &some, &many], count).or(forecast);
        }
        forecast
    }

    fn shaped(&mut self, model: &Model, config: &Config) -> Result<Rc<Shaped>, Error> {
        let config = model.settings(config, Stage::Shape);
        if let Some(known) = self.shapes.find(&config) {
            return Ok(known);
        }
        let shaped = model.shape(&config)?;
        self.made.shapes += 1;
        Ok(self.shapes.keep(config, shaped, |shaped| shaped.typed.types.len()))
    }

    /// The operators that PyTorch runs.
    pub(super) fn program(
        &mut self,
        model: &Model,
        config: &Config,
    ) -> Result<Rc<Recovered>, Error> {
        let config = model.settings(config, Stage::Program);
        if let Some(known) = self.programs.find(&config) {
            return Ok(known);
        }
        let shaped = self.shaped(model, &config)?;
        let recovered = model.program(&shaped, &config)?;
        self.made.programs += 1;
        Ok(self.programs.keep(config, recovered, |known| known.program.typed.types.len()))
    }

    /// Forgets the oldest runs where there are too many, but for the newest so many.
    fn forget(&mut self, but: usize) {
        let events = |runs: &[Known]| runs.iter().map(Known::events).sum::<usize>();
        while self.runs.len() > but && events(&self.runs) > Self::EVENTS {
            self.runs.remove(0);
        }
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Kept<T> {
    /// COUNT: values of all graphs that are kept, the newest in any case.
    const VALUES: usize = 1 << 17;

    fn find(&self, config: &Config) -> Option<Rc<T>> {
        let known = self.0.iter().find(|(known, _)| known == config);
        known.map(|(_, made)| Rc::clone(made))
    }

    /// Keeps one more, and forgets the oldest where there are too many values.
    fn keep(&mut self, config: Config, made: T, values: impl Fn(&T) -> usize) -> Rc<T> {
        let made = Rc::new(made);
        self.0.push((config, Rc::clone(&made)));
        let mut sum: usize = self.0.iter().map(|(_, made)| values(made)).sum();
        while let Some((_, oldest)) =
            self.0.first().filter(|_| self.0.len() > 1 && sum > Self::VALUES)
        {
            sum -= values(oldest);
            self.0.remove(0);
        }
        made
    }
}

impl Known {
    /// COUNT: events and kernels that it keeps.
    fn events(&self) -> usize {
        let resized = self.variants.iter().filter_map(|(_, variant)| variant.trace.as_ref());
        let resized: usize = resized.map(|trace| trace.events.len()).sum();
        let kernels = self.run.launches.as_ref().map_or(0, |launches| launches.list.len());
        resized + self.run.trace.events.len() + kernels
    }

    /// Whether the run on a hardware is the same to the byte.
    fn is_same(&self, hardware: &Hardware) -> bool {
        matches!(self.run.asked.on(&self.run.trace, hardware), Elsewhere::Same)
    }

    /// The run on a hardware, if it would be the same there but for the sizes of scratch.
    fn on(&mut self, hardware: &Hardware) -> Option<(Rc<Run>, Rc<Variant>)> {
        let run = Rc::clone(&self.run);
        if let Some((_, variant)) = self.variants.iter().find(|(known, _)| known == hardware) {
            return Some((run, Rc::clone(variant)));
        }
        let variant = match run.asked.on(&run.trace, hardware) {
            // The first is that of the run's own hardware.
            Elsewhere::Same => Rc::clone(&self.variants.first()?.1),
            Elsewhere::Resized(trace) => Rc::new(Variant::new(Some(*trace))),
            Elsewhere::Different => return None,
        };
        self.variants.push((*hardware, Rc::clone(&variant)));
        Some((run, variant))
    }
}

impl Variant {
    fn new(trace: Option<Trace>) -> Self {
        let (replays, least, repeats) = Default::default();
        Self { trace, replays, least, repeats }
    }

    fn trace<'t>(&'t self, run: &'t Run) -> &'t Trace {
        self.trace.as_ref().unwrap_or(&run.trace)
    }

    /// How its micro-batches stand for more; `None` where they are not alike.
    fn repeated(&self, run: &Run, batches: NonZeroU64) -> Option<Rc<Repeats>> {
        let mut known = self.repeats.borrow_mut();
        if let Some((_, repeats)) = known.iter().find(|(count, _)| *count == batches) {
            return repeats.clone();
        }
        let repeats = Repeats::of_run(self.trace(run), batches).map(Rc::new);
        known.push((batches, repeats.clone()));
        repeats
    }

    /// What it reaches, if that was replayed.
    fn replayed(&self, played: &Played) -> Option<Rc<Replay>> {
        let replays = self.replays.borrow();
        let known = replays.iter().find(|(known, _)| known == played);
        known.map(|(_, replay)| Rc::clone(replay))
    }

    fn keep(&self, played: Played, replay: Replay) -> Rc<Replay> {
        self.replayed(&played).unwrap_or_else(|| {
            let replay = Rc::new(replay);
            self.replays.borrow_mut().push((played, Rc::clone(&replay)));
            replay
        })
    }
}

/// What there is for a run on a device, and how the allocator is set there.
fn limits(config: &Config, device: &Device) -> Result<(Room, Settings), Error> {
    let room = Room::of(device, config);
    let settings = Conf::read(&config.alloc_conf)?.on(Some(room.capacity), room.allowed);
    if room.left() == Bytes::ZERO {
        let Room { capacity, context, other_processes, .. } = room;
        let message = say!(
            "{capacity} leave nothing to PyTorch: CUDA itself takes {likely}, and other processes {other_processes}",
            capacity,
            likely = context.likely,
            other_processes
        );
        let setting = if capacity <= context.likely { "capacity" } else { "other-processes" };
        return Err(Error::new(ErrorKind::BadConfig, message).about(setting));
    }
    Ok((Room { allowed: settings.allowed, ..room }, settings))
}

impl OnDevice {
    /// The events.
    pub(crate) fn trace(&self) -> &Trace {
        self.variant.trace(&self.run)
    }

    /// The peaks over the run, had no convolution taken a workspace; `None` where none takes one.
    pub(super) fn without_workspaces(&self) -> Option<Band> {
        let played = (self.settings.without_limits(), self.batches);
        let mut least = self.variant.least.borrow_mut();
        if let Some((_, known)) = least.iter().find(|(known, _)| *known == played) {
            return *known;
        }
        let found = match self.repeats {
            None => Band::without_workspaces(self.trace(), &self.settings),
            // Batches that are alike take scratch for the same operators: without it they are alike, too.
            Some(_) => self.trace().without_workspaces().and_then(|trace| {
                let repeats = Repeats::of_run(&trace, self.batches)?;
                Some(Band::of(&replay_repeated(&trace, &repeats, &self.settings, None)))
            }),
        };
        least.push((played, found));
        found
    }

    /// Whether it has fewer micro-batches than it stands for.
    #[cfg(test)]
    pub(super) const fn stands_for_more(&self) -> bool {
        self.repeats.is_some()
    }

    /// The peaks over the run.
    pub(crate) fn replay(&self) -> &Replay {
        &self.unlimited
    }

    /// How it ends.
    pub(crate) fn verdict(&self) -> DeviceVerdict {
        let place = (self.device, &self.room);
        let least = self.without_workspaces();
        let limited = || self.limited();
        let mut judged = DeviceVerdict::of(self.trace(), &self.unlimited, limited, least, place);
        if self.run.is_open() {
            judged.verdict = judged.verdict.of_lower_bound();
            judged.forget_interval();
        }
        judged
    }

    /// The peaks over the run within the memory of the device.
    pub(super) fn limited(&self) -> Replay {
        let limit = Some(self.room.left());
        match &self.repeats {
            Some(repeats) => replay_repeated(self.trace(), repeats, &self.settings, limit),
            None => allocator::replay(self.trace(), &self.settings, limit),
        }
    }
}
