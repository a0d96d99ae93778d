//! Several ranks: the way in which they share the model if that is left open, and what each of them needs.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{Model, Stages};
use crate::bytes::Bytes;
use crate::config::{Config, DataParallel, Rank};
use crate::device;
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Error;
use crate::report::DeviceVerdict;

/// COUNT: ranks that are run to find those that differ, at most.
const RUN: u64 = 8;

/// Ranks that need the same, among those that were run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankLine {
    /// The first of them.
    pub first: u64,
    /// The last of them; they stand together.
    pub last: u64,
    /// `max_memory_allocated`.
    pub allocated: Bytes,
    /// `max_memory_reserved`.
    pub reserved: Bytes,
    /// How the run ends there.
    pub verdict: DeviceVerdict,
}

impl Model {
    /// The configuration with a way of sharing the model: where that is left open, the simplest that fits the device,
    /// else the one that needs the least.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn settled(&self, config: &Config, stages: &mut Stages) -> Result<Config, Error> {
        let is_open = config.is_parallel() && config.data_parallel == DataParallel::Auto;
        let ranks = config.ranks()?;
        let device = device::find(&config.device)?;
        let mut settled = self.own_dims(config)?;
        if config.is_parallel() && ranks.pipeline > 1 && config.rank.0.is_none() {
            let mut fullest = None;
            for stage in 0..ranks.pipeline {
                settled.rank = Rank(Some(stage));
                let replay = stages.on(self, &settled, device)?.unlimited;
                fullest = fullest.max(Some((replay.reserved.bytes, Reverse(stage))));
            }
            settled.rank = Rank(fullest.map(|(_, Reverse(stage))| stage));
            return Ok(settled);
        }
        if is_open && ranks.tensor > 1 && ranks.data > 1 {
            settled.data_parallel = DataParallel::Fsdp;
        }
        if !is_open || ranks.tensor > 1 || ranks.pipeline > 1 {
            return Ok(settled);
        }
        for way in DataParallel::SIMPLEST_FIRST {
            settled.data_parallel = way;
            if stages.on(self, &settled, device)?.verdict().verdict.survives() {
                break;
            }
        }
        Ok(settled)
    }

    /// What each rank needs, those together that need the same; nothing for one GPU.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn ranks(&self, config: &Config, stages: &mut Stages) -> Result<Vec<RankLine>, Error> {
        let mut lines: Vec<RankLine> = Vec::new();
        if !config.is_parallel() {
            return Ok(lines);
        }
        let config = self.settled(config, stages)?;
        let ranks = config.ranks()?;
        let all = ranks.all();
        let device = device::find(&config.device)?;
        let differing = if ranks.pipeline > 1 {
            (0..all).collect()
        } else {
            differing(config.data_parallel, all)
        };
        for rank in differing {
            let own = Config { rank: Rank(Some(rank)), ..config.clone() };
            let on = stages.on(self, &own, device)?;
            let replay = on.replay();
            let line = RankLine {
                first: rank,
                last: rank,
                allocated: replay.allocated.bytes,
                reserved: replay.reserved.bytes,
                verdict: on.verdict(),
            };
            match lines.last_mut().filter(|before| before.is_alike(&line)) {
                Some(before) => before.last = rank,
                None => lines.push(line),
            }
        }
        if let [only] = lines.as_mut_slice() {
            only.last = all.saturating_sub(1);
        }
        Ok(lines)
    }
}

impl RankLine {
    fn is_alike(&self, other: &Self) -> bool {
        (self.allocated, self.reserved) == (other.allocated, other.reserved)
    }
}

/// Ranks that may differ: what lies between two that need the same does, too.
fn differing(way: DataParallel, all: u64) -> Vec<u64> {
    let end = all.saturating_sub(1);
    match way {
        DataParallel::Auto | DataParallel::Ddp => vec![0],
        // Whole parameters: the first ranks have the largest.
        DataParallel::Zero1 => (0..all.min(RUN)).collect(),
        // The first has all its rows, the last the fewest.
        DataParallel::Fsdp | DataParallel::Fsdp1 => vec![0, end],
    }
}

/// What is to be said of several GPUs.
pub(super) fn notes(asked: &Config, settled: &Config) -> Vec<Diagnostic> {
    let mut notes = Vec::new();
    if !settled.is_parallel() {
        return notes;
    }
    let info = |code, message| Diagnostic::new(Severity::Info, code, message);
    if asked.data_parallel != settled.data_parallel {
        let message = say!(
            "of DDP, ZeRO-1 and FSDP, {way} is the simplest that fits, or else the last: the setting `data-parallel` \
             chooses one",
            way = settled.data_parallel.label()
        );
        notes.push(info("chosen-data-parallel", message));
    }
    if settled.context.is_none() {
        let message = say!(
            "NCCL's buffers lie outside of PyTorch's allocator: {likely} are counted with the CUDA context, {least} to \
             {most} were seen. They depend on the GPUs, their links and the release of NCCL",
            likely = device::NCCL.likely,
            least = device::NCCL.least,
            most = device::NCCL.most
        );
        notes.push(info("nccl", message));
    }
    notes
}
