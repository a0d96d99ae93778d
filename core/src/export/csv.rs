//! Tables for spreadsheets: a line with names, then one for each row. Bytes are integers.

use std::fmt::Write as _;

use super::Answer;
use crate::bytes::Bytes;
use crate::report::Report;
use crate::trace::Category;

/// The samples of the timeline.
pub fn timeline(report: &Report) -> String {
    let data = &report.timeline;
    let mut text = "event,iteration,phase,operator,module,allocated,reserved".to_owned();
    for category in Category::ALL {
        text.push(',');
        text += category.name();
    }
    text.push('\n');
    let label = |places: &[usize], at: usize| {
        let place = places.get(at).and_then(|&place| data.labels.get(place));
        cell(place.map_or("", String::as_str))
    };
    for (at, &event) in data.event.iter().enumerate() {
        let begun = data.phases.partition_point(|mark| mark.event <= event).checked_sub(1);
        let mark = begun.and_then(|mark| data.phases.get(mark));
        let Bytes(allocated) = data.allocated.get(at).copied().unwrap_or_default();
        let Bytes(reserved) = data.reserved.get(at).copied().unwrap_or_default();
        // Writing to a string does not fail.
        write!(
            text,
            "{event},{},{},{},{},{allocated},{reserved}",
            mark.map_or(0, |mark| mark.iteration),
            mark.map_or("", |mark| mark.phase.name()),
            label(&data.operator, at),
            label(&data.module, at),
        )
        .ok();
        let categories = data.categories.get(at).copied().unwrap_or_default();
        for category in Category::ALL {
            write!(text, ",{}", categories.get(category).0).ok();
        }
        text.push('\n');
    }
    text
}

/// The tensors alive at the peak, largest first.
pub fn tensors(report: &Report) -> String {
    let mut text = "bytes,category,name,module,operator,type,born,dies\n".to_owned();
    for tensor in &report.live_at_peak {
        let kind = tensor.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
        let dies = tensor.dies.map(|event| event.to_string()).unwrap_or_default();
        writeln!(
            text,
            "{},{},{},{},{},{},{},{dies}",
            tensor.bytes.0,
            tensor.category.name(),
            cell(&tensor.name),
            cell(&tensor.module),
            cell(&tensor.operator),
            cell(&kind),
            tensor.born,
        )
        .ok();
    }
    text
}

/// How the run ends on every device.
pub fn devices(answer: &Answer) -> String {
    let mut text = "id,name,verdict,need,capacity,context,other_processes,max_batch_likely,\
                    max_batch,max_batch_with_flush\n"
        .to_owned();
    for device in &answer.devices {
        let (verdict, largest) = (&device.verdict, answer.largest(device));
        let size = |batch: Option<u64>| batch.map(|batch| batch.to_string()).unwrap_or_default();
        writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{}",
            verdict.id,
            cell(&verdict.name),
            verdict.verdict.name(),
            verdict.need.0,
            verdict.capacity.0,
            verdict.context.0,
            verdict.other_processes.0,
            size(largest.likely),
            size(largest.without_flush),
            size(largest.with_flush),
        )
        .ok();
    }
    text
}

/// A text in quotation marks where it needs them.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
