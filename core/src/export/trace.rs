//! A trace in Chrome's JSON format, for <https://ui.perfetto.dev>.
//!
//! Time is counted in calls to the allocator, one microsecond each, because the work between them is not
//! simulated. Counters are written where they change.

use std::fmt::Write as _;

use super::Answer;
use crate::report::{ByCategory, Timeline};
use crate::trace::{Category, Phase};

/// Counters of allocated and reserved bytes and of every category, phases, and operators below them.
pub fn trace(answer: &Answer) -> String {
    let data = &answer.report.timeline;
    let name = quoted(&answer.name);
    let mut text = format!(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"time\":\"one microsecond is one call to the \
         allocator\"}},\"traceEvents\":[\n\
         {{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{{\"name\":{name}}}}},\n\
         {{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"thread_name\",\"args\":{{\"name\":\"phases\"}}}},\n\
         {{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{{\"name\":\"operators\"}}}}"
    );
    phases(&mut text, data);
    operators(&mut text, data);
    counters(&mut text, data);
    text + "\n]}\n"
}

fn phases(text: &mut String, data: &Timeline) {
    let ends = data.phases.iter().skip(1).map(|mark| mark.event).chain([data.events]);
    for (mark, end) in data.phases.iter().zip(ends) {
        let name = match mark.phase {
            Phase::Setup => Phase::Setup.heading().to_owned(),
            phase => format!("{}, iteration {}", phase.name(), mark.iteration),
        };
        slice(text, 1, &name, "", (mark.event, end));
    }
}

/// Neighbouring samples of one operator in one module are one slice.
fn operators(text: &mut String, data: &Timeline) {
    let running = |at: usize| Some((*data.operator.get(at)?, *data.module.get(at)?));
    let label = |place: usize| data.labels.get(place).map_or("", String::as_str);
    let mut begun: Option<(usize, (usize, usize))> = None;
    for at in 0..=data.event.len() {
        let now = running(at);
        if begun.map(|(_, running)| running) == now {
            continue;
        }
        let here = data.event.get(at).copied().unwrap_or(data.events);
        if let Some((from, (operator, module))) = begun {
            let name = label(operator);
            if !name.is_empty() {
                slice(text, 2, name, label(module), (from, here));
            }
        }
        begun = now.map(|running| (here, running));
    }
}

/// One slice on one track; none where it has no length.
fn slice(text: &mut String, track: u8, name: &str, module: &str, (from, to): (usize, usize)) {
    let length = to.saturating_sub(from);
    if length == 0 {
        return;
    }
    let name = quoted(name);
    // Writing to a string does not fail.
    write!(
        text,
        ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{track},\"ts\":{from},\"dur\":{length},\"name\":{name}"
    )
    .ok();
    if !module.is_empty() {
        write!(text, ",\"args\":{{\"module\":{}}}", quoted(module)).ok();
    }
    text.push('}');
}

fn counters(text: &mut String, data: &Timeline) {
    let mut before = (None, None, None);
    for (at, &event) in data.event.iter().enumerate() {
        let allocated = data.allocated.get(at).map(|bytes| bytes.0);
        let reserved = data.reserved.get(at).map(|bytes| bytes.0);
        let categories = data.categories.get(at).copied();
        for (name, now, then) in
            [("allocated", allocated, before.0), ("reserved", reserved, before.1)]
        {
            if let Some(bytes) = now.filter(|_| now != then) {
                counter(text, event, name, &format!("\"bytes\":{bytes}"));
            }
        }
        if let Some(now) = categories.filter(|_| categories != before.2) {
            counter(text, event, "by category", &by_category(&now));
        }
        before = (allocated, reserved, categories);
    }
}

fn counter(text: &mut String, event: usize, name: &str, values: &str) {
    write!(
        text,
        ",\n{{\"ph\":\"C\",\"pid\":1,\"ts\":{event},\"name\":\"{name}\",\"args\":{{{values}}}}}"
    )
    .ok();
}

fn by_category(bytes: &ByCategory) -> String {
    let values =
        Category::ALL.map(|category| format!("\"{}\":{}", category.name(), bytes.get(category).0));
    values.join(",")
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    // Fails for no text.
    serde_json::to_string(text).unwrap_or_default()
}
