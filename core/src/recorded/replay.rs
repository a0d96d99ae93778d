//! The same calls to our allocator, under the recorded settings and under others.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Action, Recorded};
use crate::allocator::{Allocator, BlockId, Conf, Settings, Stream};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{self, Doubt, Room, Verdict};
use crate::error::{Error, ErrorKind};
use crate::report::DeviceVerdict;
use crate::trace::{Event, Trace};

/// What the calls of a history ask of the allocator, with as much memory as it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// The most that is allocated.
    pub allocated: Bytes,
    /// The most that is reserved.
    pub reserved: Bytes,
    /// COUNT: segments at most.
    pub segments: u64,
}

/// A replay under other settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIf {
    /// As in `PYTORCH_CUDA_ALLOC_CONF`.
    pub alloc_conf: String,
    /// What comes of it.
    pub replayed: Replayed,
}

/// Settings that are tried on every history, as far as they are modelled.
const TRIED: [&str; 4] = [
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "roundup_power2_divisions:8",
];

/// What a history asks of its allocator, without the rest of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Value of `PYTORCH_CUDA_ALLOC_CONF`, where the file has the settings.
    pub alloc_conf: Option<String>,
    list: Vec<Call>,
    /// COUNT: of allocations among them.
    allocations: usize,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Call {
    /// So much is asked for on a stream.
    Malloc(Bytes, Stream),
    /// The block of the allocation with this number is given back.
    Free(usize),
    /// All that is free goes back to the driver.
    EmptyCache,
}

impl Calls {
    /// The calls of a simulated run, whose allocator is set so.
    pub fn of(trace: &Trace, alloc_conf: &str) -> Self {
        let mut calls = Self { alloc_conf: Some(alloc_conf.to_owned()), ..Self::default() };
        let mut numbers = vec![usize::MAX; trace.storages.len()];
        for event in &trace.events {
            match *event {
                Event::Alloc(id) => {
                    if let Some((storage, number)) =
                        trace.storages.get(id.index()).zip(numbers.get_mut(id.index()))
                    {
                        *number = calls.malloc(storage.requested, storage.stream);
                    }
                }
                Event::Free(id) => {
                    calls.list.extend(numbers.get(id.index()).copied().map(Call::Free));
                }
            }
        }
        calls
    }

    fn malloc(&mut self, requested: Bytes, stream: Stream) -> usize {
        let number = self.allocations;
        self.list.push(Call::Malloc(requested, stream));
        self.allocations = number.saturating_add(1);
        number
    }

    /// Makes the calls with as much memory as they want.
    pub fn replay(&self, settings: &Settings) -> Replayed {
        self.within(settings, None).0
    }

    /// Makes the calls with so much memory; whether it was enough for all of them.
    fn within(&self, settings: &Settings, limit: Option<Bytes>) -> (Replayed, bool) {
        let mut allocator = Allocator::new(*settings, limit);
        let mut blocks: Vec<Option<BlockId>> =
            Vec::with_capacity(self.allocations.min(self.list.len()));
        let mut is_enough = true;
        for call in &self.list {
            match *call {
                Call::Malloc(requested, stream) => {
                    let block = allocator.malloc_on(stream, requested).ok();
                    is_enough &= block.is_some();
                    blocks.push(block);
                }
                Call::Free(number) => {
                    if let Some(id) = blocks.get_mut(number).and_then(Option::take) {
                        allocator.free(id);
                    }
                }
                Call::EmptyCache => allocator.empty_cache(),
            }
            if !is_enough {
                break;
            }
        }
        let statistics = allocator.statistics();
        let replayed = Replayed {
            allocated: statistics.all.allocated.peak,
            reserved: statistics.all.reserved.peak,
            segments: statistics.all.segments.peak,
        };
        (replayed, is_enough)
    }

    /// Settings to replay: those of the run, then those that somebody asks for, then some that often
    /// help. Each once; those that are not simulated are left out.
    pub fn tried(&self, asked: &str) -> Vec<String> {
        let own = self.alloc_conf.as_deref().unwrap_or_default();
        let asked = Some(asked).filter(|asked| !asked.is_empty());
        let mut tried: Vec<String> = Vec::new();
        for conf in [own].into_iter().chain(asked).chain(TRIED) {
            let is_simulated = Conf::read(conf).is_ok_and(|conf| conf.not_modelled.is_empty());
            if is_simulated && tried.iter().all(|other| other != conf) {
                tried.push(conf.to_owned());
            }
        }
        tried
    }

    /// The replay under other settings; `None` where they are none.
    pub fn what_if(&self, alloc_conf: &str) -> Option<WhatIf> {
        let conf = Conf::read(alloc_conf).ok()?;
        let replayed = self.replay(&conf.on(None, None));
        Some(WhatIf { alloc_conf: alloc_conf.to_owned(), replayed })
    }

    /// How a run that reserved so much would end on a device: by that and the context where it
    /// stays below the capacity, else by whether the replay gets along with what there is.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn verdict(
        &self,
        reserved: Bytes,
        config: &Config,
        device: &str,
    ) -> Result<DeviceVerdict, Error> {
        let mut verdict = by_peak(reserved, config, device)?;
        if verdict.verdict.fails() {
            let own = Conf::read(self.alloc_conf.as_deref().unwrap_or_default());
            let settings = own.unwrap_or_default().on(Some(verdict.capacity), verdict.allowed);
            let left = verdict.usable() - verdict.context;
            if self.within(&settings, Some(left)).1 {
                (verdict.verdict, verdict.chance) = (Verdict::FitsAfterFlush, None);
            }
        }
        Ok(verdict)
    }
}

/// How a run that reserved so much would end on a device that has no memory to spare.
pub(super) fn by_peak(
    reserved: Bytes,
    config: &Config,
    device: &str,
) -> Result<DeviceVerdict, Error> {
    let device = device::find(device)?;
    let room = Room::of(device, config);
    let doubt = Doubt { rough: Bytes::ZERO, ..room.doubt(reserved, Bytes::ZERO) };
    Ok(DeviceVerdict::by_peak(&doubt, device, &room))
}

/// Streams by small numbers, in the order in which they come; the default one, whose handle is null, first.
struct Streams {
    numbers: BTreeMap<u64, u32>,
    /// Segments that are there at the end: where they begin and end, and the handle of their stream.
    segments: BTreeMap<u64, (u64, u64)>,
}

impl Streams {
    fn of(recorded: &Recorded<'_>) -> Self {
        let device = u64::try_from(recorded.device).unwrap_or(u64::MAX);
        let own = recorded.snapshot.segments.iter().filter(|segment| segment.device == device);
        let segments = own.map(|segment| {
            let end = segment.address.saturating_add(segment.size.0);
            (segment.address, (end, segment.stream))
        });
        Self { numbers: BTreeMap::from([(0, 0)]), segments: segments.into_map() }
    }

    fn number(&mut self, handle: u64) -> Stream {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        Stream(*self.numbers.entry(handle).or_insert(next))
    }

    /// Of a block that was there before the first entry; the default one, if its segment is gone.
    fn at(&mut self, address: u64) -> Stream {
        let before = self.segments.range(..=address).next_back();
        let handle = before.filter(|(_, (end, _))| address < *end).map(|(_, (_, handle))| *handle);
        self.number(handle.unwrap_or_default())
    }
}

impl Recorded<'_> {
    /// The calls of the history. What was alive before comes first, in the order of addresses.
    /// Where memory went back to the driver, all that is free does, as with `empty_cache`.
    pub fn calls(&self) -> Calls {
        let alloc_conf = self.snapshot.alloc_conf.clone();
        let mut calls = Calls { alloc_conf, ..Calls::default() };
        let mut blocks: BTreeMap<u64, usize> = BTreeMap::new();
        let mut streams = Streams::of(self);
        for live in &self.before {
            let stream = streams.at(live.address);
            blocks.insert(live.address, calls.malloc(live.requested, stream));
        }
        let mut is_giving_back = false;
        for entry in self.entries() {
            let gives_back = matches!(entry.action, Action::SegmentFree | Action::SegmentUnmap);
            match entry.action {
                Action::Alloc => {
                    let stream = streams.number(entry.stream);
                    blocks.insert(entry.address, calls.malloc(entry.size, stream));
                }
                Action::FreeCompleted => {
                    if let Some(number) = blocks.remove(&entry.address) {
                        calls.list.push(Call::Free(number));
                    }
                }
                // What was refused is given back at once, should the run have gone on.
                Action::OutOfMemory => {
                    let number = calls.malloc(entry.size, streams.number(entry.stream));
                    calls.list.push(Call::Free(number));
                }
                _ if gives_back && !is_giving_back => calls.list.push(Call::EmptyCache),
                _ => {}
            }
            is_giving_back = gives_back;
        }
        calls
    }

    /// Makes the calls of the history.
    pub fn replay(&self, settings: &Settings) -> Replayed {
        self.calls().replay(settings)
    }

    /// How the allocator was set, as far as the file says; what is not modelled is in it by name.
    ///
    /// # Errors
    /// When the settings are none.
    pub fn conf(&self) -> Result<Conf, Error> {
        Conf::read(self.snapshot.alloc_conf.as_deref().unwrap_or(""))
    }

    /// The replay as it was set, where that is modelled, then under the settings that somebody asks for,
    /// or under some that often help.
    ///
    /// # Errors
    /// When the settings that are asked for are none, or are not modelled.
    pub fn what_ifs(&self, asked: Option<&str>) -> Result<Vec<WhatIf>, Error> {
        let own = self.snapshot.alloc_conf.clone().unwrap_or_default();
        let mut tried = vec![own];
        match asked {
            Some(conf) => tried.push(conf.to_owned()),
            None => tried.extend(TRIED.map(str::to_owned)),
        }
        let calls = self.calls();
        let mut outcomes: Vec<WhatIf> = Vec::new();
        for (at, alloc_conf) in tried.into_iter().enumerate() {
            let conf = match Conf::read(&alloc_conf) {
                Ok(conf) => conf,
                Err(_) if at == 0 => continue,
                Err(error) => return Err(error),
            };
            if !conf.not_modelled.is_empty() {
                if asked.is_some() && at > 0 {
                    let message = say!(
                        "not simulated: {not_modelled}",
                        not_modelled = conf.not_modelled.join(", ")
                    );
                    return Err(Error::new(ErrorKind::BadConfig, message));
                }
                continue;
            }
            if outcomes.iter().all(|outcome| outcome.alloc_conf != alloc_conf) {
                let replayed = calls.replay(&conf.on(None, None));
                outcomes.push(WhatIf { alloc_conf, replayed });
            }
        }
        Ok(outcomes)
    }
}
