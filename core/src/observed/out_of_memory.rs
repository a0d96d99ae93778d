//! PyTorch's out-of-memory messages, of all releases.
//!
//! - 1.0 to 1.3, `THCCachingAllocator.cpp`: `… (GPU 0; 11.17 GiB total capacity; 10.90 GiB already allocated;
//!   576.00 KiB free; 30.96 MiB cached)`, where *cached* does not include allocated bytes.
//! - 1.4 to 2.0, `CUDACachingAllocator.cpp`: `… 10.15 GiB reserved in total by PyTorch)`, and from 1.8
//!   on `1.20 GiB allowed;` where a fraction is set.
//! - 2.1: sentences, `has a total capacty of`, with processes and what they have in use.
//! - 2.2 and later: the same, spelled right. HIP's and XPU's differ by their first word.
//! - `CUDAMallocAsyncAllocator.cpp`: `Allocation on device 0 would exceed allowed memory.`, and a list.
//! - `MPSAllocator.mm`: `MPS backend out of memory (MPS allocated: …)`.
//! - Before 1.0, and where a library fails instead of the allocator, there are no figures.

use super::text::{number_after, number_at, size_after, size_at, size_before};
use crate::bytes::{Bytes, Printed};

/// What one message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// What ran out.
    pub backend: Backend,
    /// Versions of PyTorch that word it so.
    pub versions: Versions,
    /// Number of the device, as in `cuda:0`.
    pub gpu: Option<u64>,
    /// What could not be had: the segment that the driver refused.
    pub tried: Option<Printed>,
    /// Total memory of the device.
    pub capacity: Option<Printed>,
    /// What of it nobody has.
    pub free: Option<Printed>,
    /// What tensors hold.
    pub allocated: Option<Printed>,
    /// What the allocator holds and no tensor does.
    pub unallocated: Option<Printed>,
    /// What the allocator holds.
    pub reserved: Option<Printed>,
    /// What the process has in use, with what is not the allocator's.
    pub process: Option<Printed>,
    /// What others have in use.
    pub other_processes: Vec<(u64, Printed)>,
    /// What of the allocated memory is in private pools, such as those of CUDA graphs.
    pub private_pools: Option<Printed>,
    /// What the process may reserve, where a fraction is set.
    pub allowed: Option<Printed>,
    /// Whether the message says that segments can be expanded.
    pub expandable: bool,
    /// Which library failed, where the message has no figures.
    pub library: Option<&'static str>,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// NVIDIA's.
    #[default]
    Cuda,
    /// AMD's.
    Hip,
    /// Intel's.
    Xpu,
    /// Apple's.
    Mps,
    /// `cudaMallocAsync`, NVIDIA's own pool.
    CudaAsync,
    /// Others that have taken the words over.
    Other,
}

impl Backend {
    /// The name in JSON and in sentences.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Hip => "HIP",
            Self::Xpu => "XPU",
            Self::Mps => "MPS",
            Self::CudaAsync => "cudaMallocAsync",
            Self::Other => "other",
        }
    }
}

/// The first and the last version of PyTorch, as far as the wording tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Not before.
    pub from: Option<(u64, u64)>,
    /// Not after.
    pub until: Option<(u64, u64)>,
}

impl Versions {
    fn narrow(&mut self, from: Option<(u64, u64)>, until: Option<(u64, u64)>) {
        self.from = self.from.max(from);
        self.until = match (self.until, until) {
            (Some(known), Some(until)) => Some(known.min(until)),
            (known, until) => known.or(until),
        };
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |(major, minor): (u64, u64)| format!("{major}.{minor}");
        match (self.from.map(name), self.until.map(name)) {
            (Some(from), Some(until)) if from == until => f.write_str(&from),
            (Some(from), Some(until)) => write!(f, "{from} to {until}"),
            (Some(from), None) => write!(f, "{from} or later"),
            (None, Some(until)) => write!(f, "{until} or before"),
            (None, None) => f.write_str("any"),
        }
    }
}

/// Where a message with figures begins.
const ANCHORS: [&str; 3] = [
    "triedtoallocate",
    "wouldexceedallowedmemory.(outofmemory)",
    "wouldexceedper_process_memory_fractionlimit.",
];

/// Who words a message so that is none of PyTorch's.
pub(super) const TENSORFLOW: &str = "TensorFlow";

/// Signs of memory that ran out which have no figures, and whose they are.
const SIGNS: [(&str, &str); 9] = [
    ("cudnn_status_alloc_failed", "cuDNN"),
    ("cublas_status_alloc_failed", "cuBLAS"),
    ("unabletofindavalidcudnnalgorithm", "cuDNN"),
    ("unabletofindanengine", "cuDNN"),
    ("cudaruntimeerror(2):outofmemory", "the CUDA runtime"),
    ("cudaerror:outofmemory", "the CUDA runtime"),
    ("cuda_error_out_of_memory", "the CUDA driver"),
    ("cudaoutofmemory", "PyTorch"),
    ("oomwhenallocatingtensor", TENSORFLOW),
];

/// COUNT: bytes of squeezed text before an anchor that belong to its message, and behind it.
const BEFORE: usize = 120;
const BEHIND: usize = 16 << 10;

/// All messages in squeezed text, in order, repetitions left out.
pub(super) fn read(text: &str) -> Vec<Message> {
    let mut places: Vec<usize> = ANCHORS
        .iter()
        .flat_map(|anchor| text.match_indices(anchor).map(|(place, _)| place))
        .collect();
    places.sort_unstable();
    let ends = places.iter().skip(1).copied().chain([text.len()]);
    let mut messages: Vec<Message> = Vec::new();
    let mut last = 0;
    for (&place, end) in places.iter().zip(ends) {
        let before = slice(text, place.saturating_sub(BEFORE).max(last), place);
        let behind = slice(text, place, end.min(place.saturating_add(BEHIND)));
        last = place;
        if let Some(message) = one(before, behind)
            && !messages.contains(&message)
        {
            messages.push(message);
        }
    }
    if messages.is_empty() {
        let found = SIGNS.iter().find(|(sign, _)| text.contains(sign));
        messages.extend(found.map(|(sign, library)| Message {
            library: Some(library),
            versions: Versions {
                from: None,
                until: sign.starts_with("cudaruntimeerror").then_some((0, 4)),
            },
            ..Message::default()
        }));
    }
    messages
}

/// From one place to another, or a little less where these are within a letter.
fn slice(text: &str, mut from: usize, mut to: usize) -> &str {
    while !text.is_char_boundary(from) {
        from = from.saturating_add(1);
    }
    while !text.is_char_boundary(to) {
        to = to.saturating_sub(1);
    }
    text.get(from..to).unwrap_or_default()
}

fn one(before: &str, text: &str) -> Option<Message> {
    let mut message = if text.starts_with("triedtoallocate") {
        Message {
            tried: tried(text),
            ..if before.contains("mpsbackend") {
                metal(before)
            } else if text.contains("totalcapacity;") {
                short(text)
            } else {
                sentences(text)
            }
        }
    } else if text.starts_with("wouldexceedallowed") {
        listed(before, text)
    } else {
        Message {
            tried: size_after(text, "requestedsize:"),
            versions: Versions { from: Some((2, 10)), until: None },
            ..Message::default()
        }
    };
    let huge = text.starts_with("triedtoallocatemorethan1eb");
    message.tried = message.tried.or_else(|| huge.then(|| Printed::exactly(Bytes(1 << 60))));
    message.tried?;
    if message.backend == Backend::Cuda {
        message.backend = backend(before, text);
    }
    // The classes: `RuntimeError` until 1.12, `torch.cuda.OutOfMemoryError` from 1.13 to 2.4.
    let versions = &mut message.versions;
    if before.contains("torch.cuda.outofmemoryerror") {
        versions.narrow(Some((1, 13)), Some((2, 4)));
    } else if before.contains("torch.outofmemoryerror") {
        versions.narrow(Some((2, 5)), None);
    } else if before.contains("outofmemoryerror") {
        versions.narrow(Some((1, 13)), None);
    } else if before.ends_with("runtimeerror:cudaoutofmemory.") {
        versions.narrow(None, Some((1, 12)));
    }
    message.reserved =
        message.reserved.or_else(|| Some(message.allocated?.plus(message.unallocated?)));
    message.unallocated =
        message.unallocated.or_else(|| Some(message.reserved?.minus(message.allocated?)));
    Some(message)
}

fn tried(text: &str) -> Option<Printed> {
    size_after(text, "triedtoallocate")
}

fn backend(before: &str, text: &str) -> Backend {
    let ran_out = before.trim_end_matches(['.', ':', '"', '\'']).strip_suffix("outofmemory");
    match ran_out.unwrap_or_default() {
        name if name.ends_with("hip") => Backend::Hip,
        name if name.ends_with("xpu") => Backend::Xpu,
        name if name.ends_with("cuda") || name.is_empty() => {
            if text.contains("pytorch_hip_alloc_conf") { Backend::Hip } else { Backend::Cuda }
        }
        _ => Backend::Other,
    }
}

/// 1.0 to 2.0, in brackets.
fn short(text: &str) -> Message {
    let (_, behind) = text.split_once("alreadyallocated;").unwrap_or_default();
    let unallocated = size_before(text, "cached)");
    let reserved = size_before(text, "reservedintotal");
    let allowed = size_before(behind, "allowed;");
    let versions = match (unallocated, reserved) {
        // `set_per_process_memory_fraction` came with 1.8.
        (None, _) if allowed.is_some() => Versions { from: Some((1, 8)), until: Some((2, 0)) },
        (Some(_), _) => Versions { from: Some((1, 0)), until: Some((1, 3)) },
        (None, _) => Versions { from: Some((1, 4)), until: Some((2, 0)) },
    };
    Message {
        versions,
        gpu: number_after(text, "(gpu"),
        capacity: size_before(text, "totalcapacity;"),
        allocated: size_before(text, "alreadyallocated;"),
        free: size_at(behind),
        allowed,
        unallocated,
        reserved,
        ..Message::default()
    }
}

/// 2.1 and later.
fn sentences(text: &str) -> Message {
    let misspelled = text.contains("totalcapactyof");
    let total = if misspelled { "totalcapactyof" } else { "totalcapacityof" };
    let expandable = text.contains("expandable_segmentsisenabled");
    let mut versions = match text.contains(total) {
        true if misspelled => Versions { from: Some((2, 1)), until: Some((2, 1)) },
        true => Versions { from: Some((2, 2)), until: None },
        false => Versions::default(),
    };
    if text.contains("#optimizing-memory-usage") {
        // 2.9 still pointed to `#environment-variables`.
        versions.narrow(Some((2, 10)), None);
    }
    if expandable {
        versions.narrow(Some((2, 15)), None);
    }
    let mut others = Vec::new();
    for (place, word) in text.match_indices("process") {
        let behind = text.get(place.saturating_add(word.len())..).unwrap_or_default();
        let digits = behind.trim_start_matches(|letter: char| letter.is_ascii_digit());
        if let (Some(pid), Some(rest)) = (number_at(behind), digits.strip_prefix("has"))
            && let Some(size) = size_at(rest)
        {
            others.push((pid, size));
        }
    }
    Message {
        versions,
        gpu: text.split_once("hasatotal").and_then(|(before, _)| {
            before.rsplit_once("gpu").and_then(|(_, number)| number_at(number))
        }),
        capacity: size_after(text, total),
        free: size_before(text, "isfree"),
        allocated: size_before(text, "isallocatedbypytorch"),
        unallocated: size_before(text, "isreservedbypytorch"),
        process: size_after(text, "thisprocesshas"),
        other_processes: others,
        private_pools: size_before(text, "allocatedinprivatepools"),
        allowed: size_before(text, "allowed;"),
        expandable,
        ..Message::default()
    }
}

/// `cudaMallocAsync`: a list.
fn listed(before: &str, text: &str) -> Message {
    let capacity = size_after(text, "devicelimit:");
    let fraction = size_after(text, "memoryfraction):");
    Message {
        backend: Backend::CudaAsync,
        gpu: before.rsplit_once("device").and_then(|(_, number)| number_at(number)),
        tried: size_after(text, "requested:"),
        capacity,
        allocated: size_after(text, "currentlyallocated:"),
        free: size_after(text, "accordingtocuda):"),
        // Without a fraction it is the largest number there is.
        allowed: fraction.filter(|limit| capacity.is_none_or(|all| limit.bytes < all.bytes)),
        ..Message::default()
    }
}

/// Metal: `MPS backend out of memory (MPS allocated: …, other allocations: …, max allowed: …)`.
fn metal(before: &str) -> Message {
    Message {
        backend: Backend::Mps,
        allocated: size_after(before, "mpsallocated:"),
        allowed: size_after(before, "maxallowed:"),
        ..Message::default()
    }
}
