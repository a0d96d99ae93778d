//! The wire format of `replay --json`. Bytes are integers.

use highwater_core::allocator::Pool;
use highwater_core::recorded::Moment;
use highwater_core::report::Fragmentation;
use highwater_core::trace::Category;
use serde_json::{Value, json};

use super::Answer;

/// COUNT: blocks that are listed.
const BLOCKS_MAX: usize = 100;

pub(super) fn render(answer: &Answer<'_>) -> String {
    let recorded = &answer.recorded;
    let (reserved, entry) = recorded.reserved_peak;
    let what_ifs: Vec<_> = answer
        .what_ifs
        .iter()
        .map(|outcome| {
            json!({
                "alloc_conf": outcome.alloc_conf,
                "allocated": outcome.replayed.allocated.0,
                "reserved": outcome.replayed.reserved.0,
                "segments": outcome.replayed.segments,
            })
        })
        .collect();
    let diagnostics: Vec<_> = recorded
        .diagnostics
        .iter()
        .map(|diagnostic| {
            json!({
                "severity": diagnostic.severity.name(),
                "code": diagnostic.code,
                "message": diagnostic.message.to_string(),
            })
        })
        .collect();
    let answer = json!({
        "name": answer.name,
        "gpu": recorded.device,
        "entries": recorded.entries().len(),
        "alloc_conf": recorded.snapshot.alloc_conf,
        "before": { "blocks": recorded.before.len() },
        "reserved_peak": { "entry": entry, "reserved": reserved.0 },
        "peak": moment(answer, &recorded.peak),
        "end": moment(answer, &recorded.end),
        "replays": { "first_is_own": answer.is_own, "outcomes": what_ifs },
        "diagnostics": diagnostics,
    });
    format!("{answer:#}\n")
}

fn moment(answer: &Answer<'_>, moment: &Moment) -> Value {
    let origins = moment.origins().into_iter();
    let origins: serde_json::Map<_, _> =
        origins.map(|(origin, bytes)| (origin.name().to_owned(), json!(bytes.0))).collect();
    let live = moment.live.iter().take(BLOCKS_MAX).map(|live| {
        json!({
            "bytes": live.requested.0,
            "origin": live.origin.name(),
            "category": live.category.map(Category::name),
            "born": live.born,
            "frames": answer.recorded.snapshot.stack(live.stack).collect::<Vec<_>>(),
        })
    });
    json!({
        "entry": moment.entry,
        "requested": moment.requested.0,
        "allocated": moment.allocated.0,
        "reserved": moment.reserved.0,
        "segments": moment.segments.len(),
        "blocks": moment.live.len(),
        "origins": origins,
        "live": live.collect::<Vec<_>>(),
        "fragmentation": fragmentation(&moment.fragmentation()),
    })
}

fn fragmentation(found: &Fragmentation) -> Value {
    let [small, large] = found.largest;
    let classes = found.classes.iter().map(|class| {
        json!({
            "pool": if class.pool == Pool::Small { "small" } else { "large" },
            "over": class.over.0,
            "up_to": class.up_to.map(|end| end.0),
            "count": class.holes.count,
            "bytes": class.holes.bytes.0,
        })
    });
    json!({
        "unused": found.unused().0,
        "whole_segments": { "count": found.whole.count, "bytes": found.whole.bytes.0 },
        "holes": { "count": found.split.count, "bytes": found.split.bytes.0 },
        "by_size": classes.collect::<Vec<_>>(),
        "largest": { "small": small.0, "large": large.0 },
    })
}
