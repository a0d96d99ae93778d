//! [`Forecast`]: what any batch takes, computed from runs of three batches.
//!
//! Where those runs make the same calls to the allocator, each allocation grows along a line in the batch, and scratch
//! follows from operands that do. A replay of their calls with such sizes is then a run of any batch between them, and
//! takes a fraction of the time: no shape is inferred and no operator runs. What a batch reaches is kept: cards whose
//! kernels take the same scratch ask for it again.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Run;
use super::largest::{Peaks, Runs, Steps};
use crate::allocator::{Repeats, Replay, Settings, replay_repeated};
use crate::bytes::Bytes;
use crate::device::Room;
use crate::eager::hardware::{Asked, Hardware, Scratch};
use crate::error::Error;
use crate::trace::{StorageId, Trace};

/// The calls of a run, and how its allocations grow.
#[derive(Debug)]
pub(super) struct Forecast {
    /// COUNT: the smallest batch, one between, and the largest.
    batches: [u64; 3],
    /// What their runs asked of the hardware; scratch is sized by that of the last.
    asked: [Rc<Asked>; 3],
    /// The calls of the last, without words; sizes are those of the newest question.
    calls: Trace,
    /// Allocations that grow with the batch.
    growing: Vec<(StorageId, Line)>,
    /// By scratch: what it follows from.
    operands: Vec<Vec<Line>>,
    /// Whether all runs make the same calls, and their sizes lie on lines.
    is_straight: bool,
    /// Micro-batches that stand for more.
    repeats: Repeats,
    known: Known,
}

/// What batches reach where memory has no limit, by the settings of the allocator and the sizes of scratch.
#[derive(Debug, Default)]
struct Known {
    by_batch: BTreeMap<u64, Vec<(Settings, Sizes, Peaks)>>,
    /// COUNT: sizes that are kept.
    kept: usize,
}

/// Sizes in a row, each with how often it follows itself.
type Sizes = Vec<(Bytes, usize)>;

impl Known {
    /// COUNT: sizes that are kept, at most.
    const MOST: usize = 1 << 20;

    fn find(&self, batch: u64, settings: &Settings, sizes: &Sizes) -> Option<Peaks> {
        let mut known = self.by_batch.get(&batch)?.iter();
        let found = known.find(|(with, own, _)| with == settings && own == sizes);
        found.map(|(_, _, peaks)| *peaks)
    }

    fn keep(&mut self, batch: u64, settings: Settings, sizes: Sizes, peaks: Peaks) {
        let kept = self.kept.saturating_add(sizes.len()).saturating_add(1);
        if kept <= Self::MOST {
            self.kept = kept;
            self.by_batch.entry(batch).or_default().push((settings, sizes, peaks));
        }
    }
}

/// A number as a line in the batch: what it is at one batch, and how much more it is for so many more samples.
#[derive(Clone, Copy, Debug)]
struct Line {
    batch: i128,
    number: i128,
    rise: i128,
    samples: i128,
}

impl Forecast {
    /// From runs of three batches, the smallest first; `None` where they differ too much. Where they have fewer
    /// micro-batches than the `micro_batches` that they stand for, those must be alike.
    pub(super) fn of(
        batches: [u64; 3],
        runs: [&Run; 3],
        micro_batches: Option<u64>,
    ) -> Option<Self> {
        let [low, middle, top] = runs;
        let parts = |run: &Run| (run.trace.storages.len(), run.asked.scratch().len());
        if parts(low) != parts(top) || parts(middle) != parts(top) {
            return None;
        }
        let mut is_straight = true;
        let mut line = |numbers: [u64; 3]| -> Option<Line> {
            let (line, is_on_it) = Line::through(batches, numbers)?;
            is_straight &= is_on_it;
            Some(line)
        };
        let operands = low.asked.scratch().iter().zip(middle.asked.scratch());
        let operands = operands.zip(top.asked.scratch()).map(|((low, middle), top)| {
            let numbers = low.numbers.iter().zip(&middle.numbers).zip(&top.numbers);
            numbers.map(|((&low, &middle), &top)| line([low, middle, top])).collect()
        });
        let operands: Vec<Vec<Line>> = operands.collect::<Option<_>>()?;
        let mut is_scratch = vec![false; top.trace.storages.len()];
        for scratch in top.asked.scratch() {
            is_scratch.get_mut(scratch.id.index()).into_iter().for_each(|is| *is = true);
        }
        let storages = low.trace.storages.iter().zip(&middle.trace.storages);
        let mut growing = Vec::new();
        for (at, ((low, middle), top)) in storages.zip(&top.trace.storages).enumerate() {
            if is_scratch.get(at) == Some(&false) {
                let line = line([low, middle, top].map(|storage| storage.requested.0))?;
                growing.extend((line.rise != 0).then_some((StorageId::new(at), line)));
            }
        }
        let calls = |run: &Run| run.asked.calls(&run.trace);
        let events = calls(top);
        let is_straight = is_straight && calls(low) == events && calls(middle) == events;
        let repeats = match micro_batches {
            None => Repeats::default(),
            // The same calls are alike in all runs, once their sizes are.
            Some(count) if is_straight => {
                let place = |event| top.asked.place_in_calls(event);
                Repeats::of(&top.trace, (&events, &top.trace.storages), count, place)?
            }
            Some(_) => return None,
        };
        let calls = Trace { events, storages: top.trace.storages.clone(), ..Trace::default() };
        let asked = runs.map(|run| Rc::clone(&run.asked));
        let known = Known::default();
        Some(Self { batches, asked, calls, growing, operands, is_straight, repeats, known })
    }

    /// Whether all runs make the same calls, and their sizes lie on lines.
    pub(super) const fn is_straight(&self) -> bool {
        self.is_straight
    }

    /// Whether it was made from runs that are those of some hardware.
    pub(super) fn is_of(&self, hardware: &Hardware) -> bool {
        let is_alike = |asked: &Rc<Asked>| {
            let mut scratch = asked.scratch().iter();
            asked.chooses_alike(hardware)
                && scratch.all(|scratch| scratch.size(hardware, &scratch.numbers).is_some())
        };
        self.asked.iter().all(is_alike)
    }

    /// Whether batches up to the largest end as they do here: all lies on lines, and scratch of one run is that of the
    /// others.
    fn is_exact(&self, hardware: &Hardware) -> bool {
        let [low, middle, top] = self.asked.each_ref().map(|asked| asked.scratch());
        let is_same = |others: &[Scratch]| {
            top.iter().zip(others).all(|(scratch, other)| {
                scratch.size(hardware, &other.numbers) == other.size(hardware, &other.numbers)
            })
        };
        self.is_straight && is_same(low) && is_same(middle)
    }

    /// Sets the sizes of a batch; whether all are known.
    fn set(&mut self, batch: u64, hardware: &Hardware) -> bool {
        let [_, _, largest] = &self.asked;
        let storages = &mut self.calls.storages;
        let mut set = |id: StorageId, bytes: Option<Bytes>| {
            if let (Some(storage), Some(bytes)) = (storages.get_mut(id.index()), bytes) {
                storage.requested = bytes;
            }
            bytes.is_some()
        };
        self.growing.iter().all(|(id, line)| set(*id, line.at(batch).map(Bytes)))
            && largest.scratch().iter().zip(&self.operands).all(|(scratch, lines)| {
                let numbers: Option<Vec<_>> = lines.iter().map(|line| line.at(batch)).collect();
                set(scratch.id, numbers.and_then(|numbers| scratch.size(hardware, &numbers)))
            })
            && self.repeats.hold(&self.calls.storages)
    }

    /// Sizes of scratch, as they are set.
    fn scratch(&self) -> Sizes {
        let [_, _, largest] = &self.asked;
        let mut sizes = Sizes::new();
        for scratch in largest.scratch() {
            let storage = self.calls.storages.get(scratch.id.index());
            let size = storage.map_or(Bytes::ZERO, |storage| storage.requested);
            match sizes.last_mut() {
                Some((last, times)) if *last == size => *times = times.saturating_add(1),
                _ => sizes.push((size, 1)),
            }
        }
        sizes
    }
}

impl Line {
    /// Through the last two of three points, and whether the first lies on it and each sample adds a whole number.
    fn through(batches: [u64; 3], numbers: [u64; 3]) -> Option<(Self, bool)> {
        let [[x0, x1, x2], [y0, y1, y2]] = [batches, numbers].map(|three| three.map(i128::from));
        let (rise, samples) = (y2.checked_sub(y1)?, x2.checked_sub(x1)?);
        let is_whole = rise.checked_rem_euclid(samples)? == 0;
        let (rise, samples) =
            if is_whole { (rise.checked_div_euclid(samples)?, 1) } else { (rise, samples) };
        let line = Self { batch: x2, number: y2, rise, samples };
        let is_on_it = is_whole && line.number_at(x0) == Some(y0);
        Some((line, is_on_it))
    }

    /// What it is at a batch; not less than nothing.
    fn at(&self, batch: u64) -> Option<u64> {
        u64::try_from(self.number_at(i128::from(batch))?.max(0)).ok()
    }

    fn number_at(&self, batch: i128) -> Option<i128> {
        let more = batch.checked_sub(self.batch)?.checked_mul(self.rise)?;
        let more = if self.samples == 1 { more } else { more.checked_div_euclid(self.samples)? };
        more.checked_add(self.number)
    }
}

/// A forecast on a device.
#[derive(Debug)]
pub(super) struct Rehearsal<'a> {
    forecast: &'a mut Forecast,
    hardware: Hardware,
    settings: Settings,
    room: Room,
    /// Whether all sizes that were asked for are known.
    is_known: bool,
    is_exact: bool,
}

impl<'a> Rehearsal<'a> {
    pub(super) fn on(
        forecast: &'a mut Forecast,
        hardware: Hardware,
        settings: Settings,
        room: Room,
    ) -> Self {
        let is_exact = forecast.is_exact(&hardware);
        Self { forecast, hardware, settings, room, is_known: true, is_exact }
    }

    /// Where most of the allocations step up.
    pub(super) fn steps(&self) -> Option<Steps> {
        let mut lines = BTreeMap::new();
        for (_, line) in &self.forecast.growing {
            if line.samples == 1 && line.rise > 0 {
                *lines
                    .entry((line.number - line.batch * line.rise, line.rise))
                    .or_insert(0_usize) += 1;
            }
        }
        let (&(base, rise), _) = lines.iter().max_by_key(|(_, count)| **count)?;
        Some(Steps { base, rise }).filter(Steps::are_wide)
    }

    /// COUNT: the smallest and the largest batch between which runs end as they do here; `None` where it is but a guess.
    pub(super) fn exact(&self) -> Option<(u64, u64)> {
        let [low, _, top] = self.forecast.batches;
        (self.is_known && self.is_exact).then_some((low, top))
    }

    /// Sets the sizes of a batch; whether all are known.
    fn set(&mut self, batch: u64) -> bool {
        let is_known = self.forecast.set(batch, &self.hardware);
        self.is_known &= is_known;
        is_known
    }

    fn replay(&self, limit: Option<Bytes>) -> Replay {
        let Forecast { calls, repeats, .. } = &*self.forecast;
        replay_repeated(calls, repeats, &self.settings, limit)
    }
}

impl Runs for Rehearsal<'_> {
    fn peaks(&mut self, batch: u64) -> Result<Option<Peaks>, Error> {
        if !self.set(batch) {
            return Ok(None);
        }
        let (settings, sizes) = (self.settings.without_limits(), self.forecast.scratch());
        if let Some(known) = self.forecast.known.find(batch, &settings, &sizes) {
            return Ok(Some(known));
        }
        let peaks = Peaks::of(&self.replay(None));
        self.forecast.known.keep(batch, settings, sizes, peaks);
        Ok(Some(peaks))
    }

    fn missing(&mut self, batch: u64, peaks: &Peaks) -> Result<Option<Bytes>, Error> {
        let (limit, left) = (self.room.limit(), self.room.left());
        Ok(peaks.missing(limit, || {
            if self.set(batch) { self.replay(Some(left)) } else { Replay::default() }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::largest::Simulated;
    use super::super::{Model, Stages};
    use super::*;
    use crate::device;
    use crate::formats::catalogue;

    /// Compares forecasts with runs that are simulated, at batches over the whole range; whether it is exact. Each is
    /// asked twice: what was kept is what was found.
    fn check(model: &Model, settings: &str, device: &str) -> bool {
        let mut config = model.defaults().clone();
        for setting in settings.split_whitespace() {
            let (name, value) = setting.split_once('=').expect("a value");
            config.set(name, value).expect("a setting");
        }
        let (mut stages, mut others) = (Stages::default(), Stages::default());
        let device = device::find(device).expect("a device");
        let batch = model.batch().expect("a batch").name;
        let three = model.batch_line(&config, &mut stages).anchors.expect("memory grows");
        let forecast = stages.rehearsal(model, &config, device, &batch, three);
        let mut forecast = forecast.expect("runs of all batches are alike");
        let Some((low, top)) = forecast.exact() else { return false };
        let mut simulated =
            Simulated { model, batch: &batch, config, device, stages: &mut others, is_whole: true };
        let mut size = low;
        while size <= top {
            let expected = simulated.peaks(size).expect("it is simulated");
            for _ in 0..2 {
                let found = forecast.peaks(size).expect("a forecast");
                assert_eq!(found, expected, "{settings} at {size}");
            }
            let peaks = expected.expect("it is not too large");
            let missing = simulated.missing(size, &peaks).expect("it is simulated");
            assert_eq!(
                forecast.missing(size, &peaks).expect("a forecast"),
                missing,
                "{settings} at {size}"
            );
            size = size + size.div_euclid(3) + 1;
        }
        true
    }

    #[test]
    fn three_runs_are_enough() {
        for (name, settings, device) in [
            ("resnet18", "", "t4"),
            ("resnet18", "precision=amp-bf16 memory-format=channels-last", "rtx-4090"),
            ("mobilenet-v2", "optimizer=sgd-momentum", "h100-80gb"),
            ("vit-base-patch16-224", "precision=amp-fp16", "l4"),
            ("bert-tiny", "checkpoint=blocks accumulate=2", "v100-16gb"),
            ("bert-tiny", "accumulate=7", "t4"),
            ("bert-tiny", "accumulate=5 loop=function batches=moved", "h100-80gb"),
            ("resnet18", "accumulate=6 precision=amp-bf16 batches=prefetched", "rtx-4090"),
            ("bert-tiny", "accumulate=4 alloc-conf=expandable_segments:True", "l4"),
            ("gpt2", "precision=bf16 alloc-conf=expandable_segments:True", "a100-80gb"),
        ] {
            let entry = catalogue::find(name).expect("the catalogue has it");
            let model = super::super::open_named(&entry).expect("it opens");
            assert!(check(&model, settings, device), "{name} {settings}: no more than a guess");
        }
    }

    /// Networks of which millions of samples fit are forecast too, as far as a search goes.
    #[test]
    fn tiny_samples_are_forecast() {
        let spec = b"input: [N, 4]\nlayers:\n  - linear: 4\n  - gelu\n  - linear: 4\n";
        let model = super::super::open(&mut spec.as_slice(), "tiny.yaml").expect("it opens");
        let mut stages = Stages::default();
        let line = model.batch_line(model.defaults(), &mut stages);
        for device in device::all() {
            let found = model.largest_batch(model.defaults(), device.id, &line, &mut stages);
            assert!(found.expect("it is searched").is_some(), "{}", device.id);
        }
        let made = stages.made();
        // Two runs for the line, and at most four for each forecast: no candidate is simulated.
        assert_eq!(made.failed_forecasts, 0, "{made:?}");
        assert!(made.forecasts > 0 && made.runs <= 2 + 4 * made.forecasts, "{made:?}");
    }

    /// A forecast that fails is counted, and not made again for each card.
    #[test]
    fn forecasts_that_fail_are_counted_once() {
        let entry = catalogue::find("bert-tiny").expect("the catalogue has it");
        let model = super::super::open_named(&entry).expect("it opens");
        let (mut stages, config) = (Stages::default(), model.defaults().clone());
        let device = device::find("t4").expect("a device");
        // No run has a batch of none.
        for _ in 0..2 {
            assert!(stages.rehearsal(&model, &config, device, "batch", [0, 8, 16]).is_none());
        }
        let made = stages.made();
        assert_eq!((made.forecasts, made.failed_forecasts), (0, 1));
    }
}
