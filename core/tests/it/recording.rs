//! Recorded allocations and frees, as text: a line per case, then `PHASE: EVENTS`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use highwater_core::Bytes;
use highwater_core::config::Cudnn;
use highwater_core::eager::Hardware;
use highwater_core::trace::{Event, Trace};

use crate::fixtures;

/// The device of the recordings.
pub(crate) const A100: Hardware = Hardware {
    capability: (8, 0),
    multiprocessors: 108,
    threads_per_multiprocessor: 2048,
    cublas_workspace: Bytes(8_519_680),
    cudnn: Cudnn::V9,
};

/// Compares every case of a fixture with what `ours` makes of its name: events by phase.
pub(crate) fn check(fixture: &str, ours: impl Fn(&str) -> Vec<String>) {
    let recorded = String::from_utf8(fixtures::read(fixture)).unwrap();
    let mut wrong = String::new();
    for (case, expected) in cases(&recorded) {
        for (phase, ours) in ours(case).iter().enumerate() {
            let expected = expected.get(&phase).copied().unwrap_or_default();
            if ours != expected {
                writeln!(wrong, "{case}, {phase}\n  true {expected}\n  ours {ours}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn cases(recorded: &str) -> BTreeMap<&str, BTreeMap<usize, &str>> {
    let mut cases: BTreeMap<&str, BTreeMap<usize, &str>> = BTreeMap::new();
    let mut case = "";
    for line in recorded.lines() {
        if let Some((phase, events)) = line.split_once(':') {
            let phase = phase.trim().parse().unwrap();
            cases.entry(case).or_default().insert(phase, events.trim());
        } else {
            case = line;
            cases.entry(case).or_default();
        }
    }
    cases
}

/// Events between neighbouring marks; allocations are counted from the first mark on.
pub(crate) fn phases(trace: &Trace, marks: &[usize]) -> Vec<String> {
    let mut made = BTreeMap::new();
    let mut words = |range: Range<usize>| {
        let words = trace.events[range].iter().map(|event| match event {
            Event::Alloc(id) => {
                made.insert(*id, made.len());
                format!("+{}", trace.storages[id.index()].requested.0)
            }
            Event::Free(id) => format!("-{}", made[id]),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    marks.windows(2).map(|pair| words(pair[0]..pair[1])).collect()
}
