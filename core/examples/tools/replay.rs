//! How fast the allocator replays, in events per second, each recording in its fastest replay.
//!
//! `cargo run --release -p highwater-core --example tools -- replay FILE.txt.gz…`, with files of
//! `tests/fixtures/traces/training`; `replay.mjs` runs it as WebAssembly.
#![expect(clippy::disallowed_types, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "prints its result")]

use std::hint::black_box;
use std::io::Read as _;
use std::time::{Duration, Instant};

use highwater_core::Bytes;
use highwater_core::allocator::{Settings, replay};
use highwater_core::trace::{Category, Event, LabelId, Storage, StorageId, Stream, Trace};

use crate::Result;

const REPLAYS: usize = 100;

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let traces: Vec<(&str, Trace)> =
        arguments.iter().map(|&path| Ok((path, read(path)?))).collect::<Result<_>>()?;
    let mut events = 0;
    let mut elapsed = Duration::ZERO;
    for (path, trace) in &traces {
        let once = best_of(|| {
            black_box(replay(black_box(trace), &Settings::default(), None));
        });
        println!("{path} {}", rate(trace.events.len(), once));
        events += trace.events.len();
        elapsed += once;
    }
    println!("all recordings {}", rate(events, elapsed));

    let worst = many_free_blocks(100_000);
    let once = best_of(|| {
        black_box(replay(black_box(&worst), &Settings::default(), None));
    });
    println!("a hundred thousand free blocks {}", rate(worst.events.len(), once));
    Ok(())
}

/// Time of the fastest call: what else the machine does makes others slower.
fn best_of(mut call: impl FnMut()) -> Duration {
    let once = |()| {
        let start = Instant::now();
        call();
        start.elapsed()
    };
    std::iter::repeat_n((), REPLAYS).map(once).min().unwrap_or_default()
}

fn rate(events: usize, elapsed: Duration) -> String {
    let nanoseconds = elapsed.as_nanos().max(1);
    let thousands = u128::try_from(events).unwrap_or(0) * 1_000_000 / nanoseconds;
    format!("{events} events, {}.{:03} million/s", thousands / 1000, thousands % 1000)
}

/// Every other block of many is freed, so that no two join; then all is allocated again.
fn many_free_blocks(count: usize) -> Trace {
    let mut trace = Trace::default();
    for i in 0..2 * count {
        push(&mut trace, Bytes(512 * (1 + i as u64 % 7)));
    }
    trace.events.extend((0..count).map(|i| Event::Free(StorageId::new(2 * i))));
    for i in 0..count {
        push(&mut trace, Bytes(512 * (1 + i as u64 % 5)));
    }
    trace
}

fn push(trace: &mut Trace, requested: Bytes) {
    let none = LabelId::default();
    trace.events.push(Event::Alloc(StorageId::new(trace.storages.len())));
    trace.storages.push(Storage {
        reason: None,
        requested,
        category: Category::Temporary,
        stream: Stream::DEFAULT,
        operator: none,
        module: none,
        name: none,
        tensor: None,
    });
}

fn read(path: &str) -> Result<Trace> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    let mut trace = Trace::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("a"), Some(bytes)) => push(&mut trace, Bytes(bytes.parse()?)),
            (Some("f"), Some(alloc)) => {
                trace.events.push(Event::Free(StorageId::new(alloc.parse()?)));
            }
            _ => {}
        }
    }
    Ok(trace)
}
