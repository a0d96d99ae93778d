//! Sequences recorded from PyTorch's own allocator, through ours: the same, byte for byte.
//!
//! `tests/fixtures/traces/README.md` says where they come from.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use highwater_core::Bytes;
use highwater_core::allocator::{
    Allocator, BlockId, Conf, Count, IterationPeaks, Pool, Settings, replay, replay_series,
};
use highwater_core::trace::{
    Category, Event, LabelId, Phase, PhaseMark, Storage, StorageId, Stream, Trace,
};

/// A training run as it was recorded.
#[derive(Debug, Default)]
struct Recording {
    name: String,
    peaks: Vec<IterationPeaks>,
    segments: usize,
    calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    BeginIteration,
    /// The driver gives a segment of this size to the allocation that follows.
    Segment(Bytes),
    /// An allocation, the segment that holds it, and where in it.
    Alloc(Bytes, usize, Bytes),
    /// Index of the allocation that is freed.
    Free(usize),
}

#[test]
fn every_block_of_every_training_run_lies_where_pytorch_put_it() {
    let mut allocations = 0;
    for recording in recordings() {
        let name = &recording.name;
        let mut allocator = Allocator::new(Settings::default(), None);
        let mut blocks: Vec<BlockId> = Vec::new();
        let mut expected_segments: Vec<Bytes> = Vec::new();
        for &call in &recording.calls {
            match call {
                Call::BeginIteration => {}
                Call::Segment(bytes) => expected_segments.push(bytes),
                Call::Alloc(bytes, segment, offset) => {
                    let id = allocator.malloc(bytes).expect("there is no limit");
                    let block = allocator.block(id).expect("it was just allocated");
                    let at = format!("{name}, allocation {}", blocks.len());
                    assert_eq!((block.segment, block.offset), (segment, offset), "{at}");
                    assert_eq!(allocator.segments().count(), expected_segments.len(), "{at}");
                    blocks.push(id);
                }
                Call::Free(alloc) => allocator.free(blocks[alloc]),
            }
        }
        let segments: Vec<Bytes> = allocator.segments().map(|segment| segment.size()).collect();
        assert_eq!(segments, expected_segments, "{name}");
        allocations += blocks.len();
    }
    assert_eq!(allocations, 96_246, "no recording may be lost");
}

#[test]
fn peaks_of_every_iteration_are_pytorchs() {
    let recordings = recordings();
    for recording in &recordings {
        let name = &recording.name;
        let trace = trace(recording);
        let (whole, series) = replay_series(&trace, &Settings::default(), None);
        assert_eq!(whole.iterations, recording.peaks, "{name}");
        assert_eq!(whole.segments, recording.segments, "{name}");
        assert_eq!((whole.num_alloc_retries, whole.out_of_memory), (0, None), "{name}");

        assert_eq!(replay(&trace, &Settings::default(), None), whole, "{name}");
        assert_eq!(series.allocated.len(), trace.events.len(), "{name}");
        for (mark, series) in
            [(whole.allocated, &series.allocated), (whole.reserved, &series.reserved)]
        {
            let first = series.iter().position(|&bytes| bytes == mark.bytes);
            assert_eq!(series.iter().max(), Some(&mark.bytes), "{name}");
            assert_eq!(first, Some(mark.event), "{name}");
        }
    }
    assert_eq!(recordings.len(), 25, "no recording may be lost");
}

#[test]
fn a_limit_is_survived_by_retrying_until_it_is_too_low() {
    let recordings = recordings();
    let recording =
        recordings.iter().find(|run| run.name == "resnet18 8 adamw").expect("it is there");
    let trace = trace(recording);
    let settings = Settings::default();
    let free = replay(&trace, &settings, None);
    assert_eq!(replay(&trace, &settings, Some(free.reserved.bytes)), free);

    let tight = replay(&trace, &settings, Some(free.reserved.bytes - Bytes::mib(2)));
    assert!(tight.num_alloc_retries > 0);
    assert_eq!(tight.out_of_memory, None);
    assert_eq!(tight.allocated.event, free.allocated.event);

    let limit = free.allocated.bytes - Bytes(1);
    let (failed, series) = replay_series(&trace, &settings, Some(limit));
    let failure = failed.out_of_memory.expect("less than is allocated at the peak");
    assert!(failure.error.reserved + failure.error.segment > limit);
    assert_eq!(series.reserved.len(), failure.event);
}

/// The recording as the pipeline would have made it.
fn trace(recording: &Recording) -> Trace {
    let mut trace = Trace::default();
    let mut iteration = 0;
    for &call in &recording.calls {
        let label = LabelId::default();
        match call {
            Call::BeginIteration => {
                iteration += 1;
                let event = trace.events.len();
                trace.phases.push(PhaseMark { event, iteration, phase: Phase::Forward });
            }
            Call::Segment(_) => {}
            Call::Alloc(requested, _, _) => {
                trace.events.push(Event::Alloc(StorageId::new(trace.storages.len())));
                trace.storages.push(Storage {
                    reason: None,
                    requested,
                    category: Category::Temporary,
                    stream: Stream::DEFAULT,
                    operator: label,
                    module: label,
                    name: label,
                    tensor: None,
                });
            }
            Call::Free(alloc) => trace.events.push(Event::Free(StorageId::new(alloc))),
        }
    }
    trace
}

fn recordings() -> Vec<Recording> {
    texts("training").iter().map(|text| recording(text)).collect()
}

fn recording(text: &str) -> Recording {
    let mut recording = Recording::default();
    for line in text.lines() {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        if key == "model" {
            rest.clone_into(&mut recording.name);
            continue;
        }
        let numbers = numbers(rest);
        let index = |at: usize| usize::try_from(numbers[at]).expect("an index");
        match key {
            "peaks" => recording.peaks.push(IterationPeaks {
                requested: Bytes(numbers[0]),
                allocated: Bytes(numbers[1]),
                reserved: Bytes(numbers[2]),
            }),
            "segments" => recording.segments = index(0),
            "i" => recording.calls.push(Call::BeginIteration),
            "s" => recording.calls.push(Call::Segment(Bytes(numbers[0]))),
            "a" => {
                recording.calls.push(Call::Alloc(Bytes(numbers[0]), index(1), Bytes(numbers[2])));
            }
            "f" => recording.calls.push(Call::Free(index(0))),
            _ => panic!("cannot read `{line}`"),
        }
    }
    recording
}

#[test]
fn random_programs_end_as_they_did_in_pytorch() {
    let mut cases = 0;
    for text in texts("random") {
        for case in text.split("case ").skip(1) {
            check_case(case);
            cases += 1;
        }
    }
    assert_eq!(cases, 300, "no case may be lost");
}

/// Runs one random program.
fn check_case(case: &str) {
    let mut lines = case.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(' ').collect();
    let [name, conf, memory] = header[..] else { panic!("cannot read `{header:?}`") };
    let read = Conf::read(if conf == "default" { "" } else { conf }).expect("PyTorch accepts it");
    let name = format!("{conf} {name}");
    let limit = Bytes(memory.parse().expect("a number"));
    let settings = read.on(Some(limit), None);
    let mut allocator = Allocator::new(settings, Some(limit));
    let expected: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(' ')).collect();
    let field = |key: &str| {
        expected.iter().find(|(found, _)| *found == key).map_or("", |(_, value)| *value)
    };

    let mut blocks: Vec<BlockId> = Vec::new();
    let mut failed = Vec::new();
    let mut changes: Vec<String> = Vec::new();
    let mut reserved = Bytes::ZERO;
    for (at, word) in field("ops").split(' ').enumerate() {
        if let Some(alloc) = word.strip_prefix('-') {
            let alloc: usize = alloc.parse().expect("an index from 1");
            allocator.free(std::mem::replace(&mut blocks[alloc - 1], BlockId::NULL));
        } else if word == "0" {
            allocator.empty_cache();
        } else {
            let block = allocator.malloc(Bytes(word.parse().expect("a size")));
            if block.is_err() {
                failed.push(blocks.len().to_string());
            }
            blocks.push(block.unwrap_or(BlockId::NULL));
        }
        let now = allocator.reserved();
        if now != reserved {
            changes.push(format!("{at}:{}", now.0));
            reserved = now;
        }
    }
    assert_eq!(changes.join(" "), field("reserved_after"), "{name}: reserved after each call");
    assert_eq!(failed.join(" "), field("oom"), "{name}: failed allocations");
    let statistics = allocator.statistics();
    for (key, stat) in [
        ("requested", statistics.all.requested),
        ("allocated", statistics.all.allocated),
        ("reserved", statistics.all.reserved),
        ("inactive_split", statistics.all.inactive_split),
    ] {
        assert_eq!(format!("{} {}", stat.current.0, stat.peak.0), field(key), "{name}: {key}");
    }
    let Count { current, peak } = statistics.all.segments;
    let segments = format!("{current} {peak}");
    assert_eq!(segments, field("segments"), "{name}: number of segments");
    let retries = format!("{} {}", statistics.num_alloc_retries, statistics.num_ooms);
    assert_eq!(retries, field("retries"), "{name}: retries and failures");
    let picture = expected.iter().filter(|(key, _)| *key == "segment").map(|(_, value)| *value);
    assert_eq!(snapshot(&allocator), picture.collect::<Vec<_>>(), "{name}: blocks");
}

/// Segments and blocks as the fixtures write them: a free block has a minus.
fn snapshot(allocator: &Allocator) -> Vec<String> {
    allocator
        .segments()
        .map(|segment| {
            let pool = if segment.pool() == Pool::Small { "small" } else { "large" };
            let mut line = format!("{pool} {}", segment.size().0);
            for block in segment.blocks() {
                line += if block.allocated { " " } else { " -" };
                line += &block.size.0.to_string();
            }
            line
        })
        .collect()
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// The fixtures of a folder, unpacked, in the order of their names.
fn texts(folder: &str) -> Vec<String> {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/traces");
    let entries = traces.join(folder).read_dir().expect("the folder is in the repository");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    let unpack = |path: &PathBuf| {
        let mut text = String::new();
        let file = File::open(path).expect("readable");
        GzDecoder::new(file).read_to_string(&mut text).expect("gzip of text");
        text
    };
    paths.iter().map(unpack).collect()
}
