//! The same calls to our allocator: as it was set, and as it might have been.

use std::collections::BTreeMap;

use super::{Action, Recorded};
use crate::allocator::{Allocator, BlockId, Conf, Settings};
use crate::bytes::Bytes;
use crate::error::{Error, ErrorKind};

/// What the calls of a history ask of the allocator, with as much memory as it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The most that is allocated.
    pub allocated: Bytes,
    /// The most that is reserved.
    pub reserved: Bytes,
    /// COUNT: segments at most.
    pub segments: u64,
}

/// A replay under other settings.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Recorded<'_> {
    /// Makes the calls of the history. What was alive before comes first, in the order of addresses.
    /// Where memory went back to the driver, all that is free does, as with `empty_cache`.
    pub fn replay(&self, settings: &Settings) -> Replayed {
        let mut allocator = Allocator::new(*settings, None);
        let mut blocks: BTreeMap<u64, BlockId> = BTreeMap::new();
        for live in &self.before {
            if let Ok(id) = allocator.malloc(live.requested) {
                blocks.insert(live.address, id);
            }
        }
        let mut is_giving_back = false;
        for entry in self.entries {
            let gives_back = matches!(entry.action, Action::SegmentFree | Action::SegmentUnmap);
            match entry.action {
                Action::Alloc => {
                    if let Ok(id) = allocator.malloc(entry.size) {
                        blocks.insert(entry.address, id);
                    }
                }
                Action::FreeCompleted => {
                    if let Some(id) = blocks.remove(&entry.address) {
                        allocator.free(id);
                    }
                }
                _ if gives_back && !is_giving_back => allocator.empty_cache(),
                _ => {}
            }
            is_giving_back = gives_back;
        }
        let statistics = allocator.statistics();
        Replayed {
            allocated: statistics.all.allocated.peak,
            reserved: statistics.all.reserved.peak,
            segments: statistics.all.segments.peak,
        }
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
        let mut outcomes: Vec<WhatIf> = Vec::new();
        for (at, alloc_conf) in tried.into_iter().enumerate() {
            let conf = match Conf::read(&alloc_conf) {
                Ok(conf) => conf,
                Err(_) if at == 0 => continue,
                Err(error) => return Err(error),
            };
            if !conf.not_modelled.is_empty() {
                if asked.is_some() && at > 0 {
                    let message = format!("not simulated: {}", conf.not_modelled.join(", "));
                    return Err(Error::new(ErrorKind::BadConfig, message));
                }
                continue;
            }
            if outcomes.iter().all(|outcome| outcome.alloc_conf != alloc_conf) {
                let replayed = self.replay(&conf.on(None, None));
                outcomes.push(WhatIf { alloc_conf, replayed });
            }
        }
        Ok(outcomes)
    }
}
