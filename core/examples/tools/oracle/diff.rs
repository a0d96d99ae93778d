//! Two sequences of events, aligned: where they part, and by how much per operator.

use std::collections::BTreeMap;
use std::fmt;

use highwater_core::trace::{self, Trace};
use serde_json::Value;
use similar::{Algorithm, DiffOp};

use super::run;
use crate::Result;

/// COUNT: places at which the sequences part that are printed.
const SHOWN: usize = 25;
/// COUNT: events of one side printed at each.
const LINES: usize = 12;

/// One allocation or free, on either side.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) alloc: bool,
    pub(crate) bytes: u64,
    pub(crate) phase: String,
    /// What made it and in which module, as far as the side knows.
    pub(crate) what: String,
    /// Which allocation, by a number of its side.
    pub(crate) id: u64,
}

impl Event {
    /// What must agree.
    fn key(&self) -> (bool, u64, &str) {
        (self.alloc, self.bytes, &self.phase)
    }
}

/// Where two sequences first part: the rest of each.
pub(crate) fn parting<'a>(theirs: &'a [Event], ours: &'a [Event]) -> (&'a [Event], &'a [Event]) {
    let equal = theirs.iter().zip(ours).take_while(|(a, b)| a.key() == b.key()).count();
    (&theirs[equal..], &ours[equal..])
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.alloc { '+' } else { '-' };
        write!(f, "{sign}{:<12} {:<12} {}", self.bytes, self.phase, self.what)
    }
}

/// Prints where our events part from the recorded ones, in one phase or in all.
pub(crate) fn compare(model: &str, events: &str, phase: Option<&str>) -> Result<()> {
    let (row, theirs) = recorded(events)?;
    let model = run::open(model)?;
    let config = run::configuration(&model, &row)?;
    let ours = events_of(&model.trace(&config)?);
    let report = model.estimate(&config)?;
    println!(
        "allocated {} ours, {} true; reserved {} ours, {} true",
        report.peak.allocated.0, row["allocated"], report.peak.reserved.0, row["reserved"]
    );
    let within = |event: &Event| phase.is_none_or(|phase| event.phase.starts_with(phase));
    let theirs: Vec<Event> = theirs.into_iter().filter(within).collect();
    let ours: Vec<Event> = ours.into_iter().filter(within).collect();
    let a: Vec<_> = theirs.iter().map(Event::key).collect();
    let b: Vec<_> = ours.iter().map(Event::key).collect();
    let operations = similar::capture_diff_slices(Algorithm::Myers, &a, &b);
    let mut parted = 0;
    let mut by_operator: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for operation in &operations {
        let DiffOp::Equal { .. } = operation else {
            let (missing, extra) = (&theirs[operation.old_range()], &ours[operation.new_range()]);
            count(&mut by_operator, missing, extra);
            parted += 1;
            if parted <= SHOWN {
                println!(
                    "@ event {} of theirs, {} of ours",
                    operation.old_range().start,
                    operation.new_range().start
                );
                show("true", missing);
                show("ours", extra);
            }
            continue;
        };
    }
    let equal: usize =
        operations.iter().map(|op| if let DiffOp::Equal { len, .. } = op { *len } else { 0 }).sum();
    println!(
        "\n{} events true, {} ours, {equal} in common, parted {parted} times",
        theirs.len(),
        ours.len()
    );
    let mut worst: Vec<_> = by_operator.into_iter().collect();
    worst.sort_by_key(|(_, [_, missing, _, extra])| std::cmp::Reverse(missing + extra));
    println!("{:>6} {:>14} {:>6} {:>14}  allocated by", "only", "true", "only", "ours");
    for (operator, [missing, missing_bytes, extra, extra_bytes]) in worst.iter().take(SHOWN) {
        println!("{missing:>6} {missing_bytes:>14} {extra:>6} {extra_bytes:>14}  {operator}");
    }
    Ok(())
}

/// Prints the events that we make of a recorded configuration.
pub(crate) fn print_ours(model: &str, events: &str) -> Result<()> {
    let (row, _) = recorded(events)?;
    let model = run::open(model)?;
    for event in events_of(&model.trace(&run::configuration(&model, &row)?)?) {
        println!("{event}");
    }
    Ok(())
}

fn show(side: &str, events: &[Event]) {
    for event in events.iter().take(LINES) {
        println!("  {side} {event}");
    }
    if events.len() > LINES {
        println!("  {side} … {} more", events.len() - LINES);
    }
}

fn count(by_operator: &mut BTreeMap<String, [u64; 4]>, missing: &[Event], extra: &[Event]) {
    for (side, events) in [missing, extra].into_iter().enumerate() {
        for event in events.iter().filter(|event| event.alloc) {
            let operator = event.what.split_whitespace().next().unwrap_or("-");
            let phase = event.phase.split_once(':').map_or("", |(_, phase)| phase);
            let counts = by_operator.entry(format!("{phase} {operator}")).or_default();
            counts[2 * side] += 1;
            counts[2 * side + 1] += event.bytes;
        }
    }
}

/// The configuration of a recording, and its events.
pub(crate) fn recorded(path: &str) -> Result<(Value, Vec<Event>)> {
    let text = String::from_utf8(run::read(path)?)?;
    let mut lines = text.lines();
    let header: Value = serde_json::from_str(lines.next().ok_or("an empty recording")?)?;
    let mut events = Vec::new();
    for line in lines {
        let event: Value = serde_json::from_str(line)?;
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let alloc = match text("t") {
            "a" => true,
            "f" => false,
            _ => continue,
        };
        let phase = match text("phase") {
            "0:model" | "0:input" => "0:setup".to_owned(),
            // Names that a loop binds again go after its end.
            phase => phase.replace(":end", ":optimizer"),
        };
        let op = text("op").replace("autograd::engine::evaluate_function: ", "");
        let what = format!("{} {}", if op.is_empty() { "-" } else { &op }, text("cat"));
        let number = |key: &str| event[key].as_u64().unwrap_or(0);
        let id = number(if alloc { "i" } else { "alloc" });
        events.push(Event { alloc, bytes: number("bytes"), phase, what, id });
    }
    Ok((header["config"].clone(), events))
}

/// What we make of a configuration.
pub(crate) fn events_of(trace: &Trace) -> Vec<Event> {
    let event = |(index, event): (usize, &trace::Event)| {
        let (alloc, id) = match event {
            trace::Event::Alloc(id) => (true, id),
            trace::Event::Free(id) => (false, id),
        };
        let storage = &trace.storages[id.index()];
        let mark = trace.phase_at(index);
        let phase =
            mark.map_or_else(String::new, |m| format!("{}:{}", m.iteration, m.phase.name()));
        let label = |labels: &[trace::LabelId]| trace.label(labels[index]).to_owned();
        let operator = label(&trace.operators);
        let operator = if operator.is_empty() { "-".to_owned() } else { operator };
        let what = format!("{operator} {} {}", storage.category.name(), label(&trace.modules));
        Event { alloc, bytes: storage.requested.0, phase, what, id: id.index() as u64 }
    };
    trace.events.iter().enumerate().map(event).collect()
}
