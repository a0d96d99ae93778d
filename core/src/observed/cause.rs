//! Why an allocation failed, and what helps.

use super::{Backend, Message};
use crate::bytes::{Bytes, Printed};

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// One tensor is larger than the whole card.
    LargerThanCard,
    /// The process may not reserve more, though the card has it.
    Fraction,
    /// The card says that it has enough, and refused.
    Refused,
    /// The process holds enough that no tensor uses, in pieces that are too small.
    Fragmentation,
    /// The process's tensors hold nearly all that it has; the rest is in pieces that are too small.
    NearlyFull,
    /// Others hold what is missing.
    OtherProcesses,
    /// All that could be given up would not do.
    Shortage,
}

impl Cause {
    /// SIZE: what other processes hold at least if they are to blame; a desktop takes less, and is
    /// nothing that one would end.
    pub(super) const OTHERS_MIN: Bytes = Bytes::mib(64);

    /// Part of the reserved memory, one in so many, that is unused at least if holes are to blame. Four of five
    /// runs of `tests/accuracy.txt` have a smaller part unused at their peak.
    const HOLES: u64 = 5;

    /// Part of the card, one in so many, that tensors leave at least if the card is not full.
    const LEFT: u64 = 10;

    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::LargerThanCard,
        Self::Fraction,
        Self::Refused,
        Self::Fragmentation,
        Self::NearlyFull,
        Self::OtherProcesses,
        Self::Shortage,
    ];

    /// The name in JSON: `fragmentation`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LargerThanCard => "larger-than-card",
            Self::Fraction => "fraction",
            Self::Refused => "refused",
            Self::Fragmentation => "fragmentation",
            Self::NearlyFull => "nearly-full",
            Self::OtherProcesses => "other-processes",
            Self::Shortage => "shortage",
        }
    }

    /// What it means.
    pub const fn about(self) -> &'static str {
        match self {
            Self::LargerThanCard => "one allocation is larger than the GPU's memory",
            Self::Fraction => "the process may reserve no more, although the GPU has free memory",
            Self::Refused => "the GPU had enough free memory when asked afterwards",
            Self::Fragmentation => {
                "the process holds enough memory that no tensor uses, but in pieces that are too small"
            }
            Self::NearlyFull => {
                "tensors hold most of what the process reserved, and the rest of it is in pieces that are too small"
            }
            Self::OtherProcesses => "other processes use the missing memory",
            Self::Shortage => "even with all unused memory it would not fit",
        }
    }

    /// What helps, the best first.
    pub const fn advice(self) -> &'static [&'static str] {
        match self {
            Self::LargerThanCard => &[
                "look for a shape that grew by mistake: a missing batch dimension, a broadcast, a \
                 sequence that was not cut",
                "a smaller batch or input",
            ],
            Self::Fraction => &[
                "raise the fraction in torch.cuda.set_per_process_memory_fraction, or leave it out",
                "a smaller batch",
            ],
            Self::Refused => &[
                "see whether another process came and went at that moment",
                "see whether something else limits the process: a container, a virtual GPU, or \
                 Windows, which lends memory to the desktop",
            ],
            Self::Fragmentation => &[
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (before PyTorch 2.1: \
                 max_split_size_mb:512)",
                "inputs of one size, or the largest one first: segments of many sizes are what \
                 leaves holes",
            ],
            Self::OtherProcesses => &[
                "end the other processes, or take another GPU (CUDA_VISIBLE_DEVICES)",
                "a smaller batch",
            ],
            Self::NearlyFull => {
                const { &[SMALLER_BATCH, CHECKPOINTING, LESS_STATE, SEGMENTS, LARGER_GPU] }
            }
            Self::Shortage => const { &[SMALLER_BATCH, CHECKPOINTING, LESS_STATE, LARGER_GPU] },
        }
    }
}

const SMALLER_BATCH: &str = "a smaller batch, with gradient accumulation to make up for it (BatchNorm still computes \
                            its statistics over the smaller one)";
const CHECKPOINTING: &str = "activation checkpointing, or autocast, where they are not on";
const LESS_STATE: &str =
    "an optimizer with less state, or adapters (LoRA) instead of training all weights";
const SEGMENTS: &str = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, if little is missing";
const LARGER_GPU: &str = "a GPU with more memory";

/// The cause that the figures tell. Whole cached segments were given back before the message was
/// made: what is reserved and not allocated lies in segments that are partly used.
pub(super) fn of(message: &Message, others: Option<Printed>) -> Option<Cause> {
    let tried = message.tried?;
    if message.capacity.is_some_and(|capacity| tried.least() > capacity.most()) {
        return Some(Cause::LargerThanCard);
    }
    if message.backend == Backend::Mps {
        return message.allowed.map(|_| Cause::Fraction);
    }
    let free = message.free?;
    if tried.most() <= free.bytes {
        // A driver refuses the last few MiB.
        let left = |allocated: Bytes, capacity: Bytes| {
            (capacity - allocated).times(Cause::LEFT) < capacity
        };
        let is_full = || Some(left(message.allocated?.bytes, message.capacity?.bytes));
        return Some(match message.allowed {
            Some(_) => Cause::Fraction,
            None if is_full() == Some(true) => Cause::NearlyFull,
            None => Cause::Refused,
        });
    }
    let missing = tried.bytes - free.bytes;
    let others = others.map_or(Bytes::ZERO, Printed::least);
    let others_hold_it = others >= missing && others >= Cause::OTHERS_MIN;
    // Before 2.1 a message does not list processes, and what is not this one's may be its libraries'.
    let lists_processes = message.process.is_some() || !message.other_processes.is_empty();
    if let Some(unused) = message.unallocated.filter(|unused| unused.bytes >= missing) {
        let reserved = message.reserved.unwrap_or_default().bytes;
        let has_many_holes = unused.bytes.times(Cause::HOLES) >= reserved;
        return Some(match has_many_holes {
            true => Cause::Fragmentation,
            false if others_hold_it && lists_processes => Cause::OtherProcesses,
            false => Cause::NearlyFull,
        });
    }
    Some(if others_hold_it { Cause::OtherProcesses } else { Cause::Shortage })
}
