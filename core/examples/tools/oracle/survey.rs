//! Many models' peaks beside ours: how many are near, which of the others were silent, and where
//! their events first part.
#![expect(clippy::cast_precision_loss, reason = "percentages for the eye")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic;

use highwater_core::Report;
use highwater_core::diagnostic::Severity;
use serde_json::Value;

use super::diff::{self, Event};
use super::run;
use crate::Result;

/// PERCENT: beyond this a row says where events part.
const NEAR: f64 = 1.0;
/// COUNT: of the worst silent answers that are named at the end.
const WORST: usize = 12;
/// COUNT: operators named for each side of what is alive at the peak.
const OPERATORS: usize = 3;

/// An answer beside the truth.
struct Row {
    model: String,
    format: String,
    /// Percent by which allocated and reserved are off.
    off: [f64; 2],
    /// Codes of warnings and errors.
    warnings: Vec<String>,
}

/// A line for each model and format of the index, then a summary of each format.
pub(crate) fn compare(index: &str) -> Result<()> {
    let (mut rows, mut without) = (Vec::new(), BTreeMap::<String, usize>::new());
    println!("{:<6} {:>9} {:>9}  {:<8} model", "format", "allocated", "reserved", "answer");
    for line in fs::read_to_string(index)?.lines() {
        let entry: Value = serde_json::from_str(line)?;
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let (model, format) = (text("model"), text("format"));
        if let Some(failed) = entry["failed"].as_str() {
            println!(
                "{format:<6} {:>9} {:>9}  {:<8} {model}\n{:8}{failed}",
                "-", "-", "absent", ""
            );
            *without.entry(format).or_default() += 1;
            continue;
        }
        match row(&model, &format, &text("export"), &text("truth"), &text("events")) {
            Ok((row, words)) => {
                let answer = if row.warnings.is_empty() { "silent" } else { "flagged" };
                println!(
                    "{format:<6} {:>+8.2}% {:>+8.2}%  {answer:<8} {model}",
                    row.off[0], row.off[1]
                );
                for line in words {
                    println!("{:8}{line}", "");
                }
                rows.push(row);
            }
            Err(error) => {
                println!(
                    "{format:<6} {:>9} {:>9}  {:<8} {model}\n{:8}{error}",
                    "-", "-", "refused", ""
                );
                *without.entry(format).or_default() += 1;
            }
        }
    }
    let mut formats: Vec<&str> = rows.iter().map(|row| row.format.as_str()).collect();
    formats.sort_unstable();
    formats.dedup();
    for format in formats {
        let of: Vec<&Row> = rows.iter().filter(|row| row.format == format).collect();
        summarise(format, &of, without.get(format).copied().unwrap_or(0));
    }
    Ok(())
}

/// Predicts one; if it is off, says where.
fn row(
    name: &str,
    format: &str,
    export: &str,
    truth: &str,
    events: &str,
) -> Result<(Row, Vec<String>)> {
    let truth: Value = serde_json::from_slice(&run::read(truth)?)?;
    let model = run::open(export)?;
    let config = run::configuration(&model, &truth)?;
    let report = panic::catch_unwind(|| model.estimate(&config)).map_err(|_panic| "a panic")??;
    let off = |ours: u64, key: &str| {
        (ours as f64 / truth[key].as_u64().unwrap_or(0) as f64 - 1.0) * 100.0
    };
    let off = [off(report.peak.allocated.0, "allocated"), off(report.peak.reserved.0, "reserved")];
    let warnings = warnings(&report);
    let mut words = Vec::new();
    if off.iter().any(|off| off.abs() > NEAR) {
        let (_, theirs) = diff::recorded(events)?;
        words = explain(&theirs, &diff::events_of(&model.trace(&config)?));
        if !warnings.is_empty() {
            words.push(format!("warnings: {}", warnings.join(", ")));
        }
    }
    Ok((Row { model: name.to_owned(), format: format.to_owned(), off, warnings }, words))
}

/// What the answer warns of.
fn warnings(report: &Report) -> Vec<String> {
    let grave = report.diagnostics.iter().filter(|told| told.severity >= Severity::Warning);
    let mut codes: Vec<String> = grave.map(|told| told.code.clone()).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// Where events first part, and what is alive at one peak only.
fn explain(theirs: &[Event], ours: &[Event]) -> Vec<String> {
    let (their_steps, our_steps) = (steps(theirs), steps(ours));
    let (true_rest, our_rest) = diff::parting(&their_steps, &our_steps);
    let first = |side: &str, rest: &[Event]| {
        let event = rest.first()?;
        let sign = if event.alloc { '+' } else { '-' };
        let (operator, rest) = (operator(event), event.what.split_once(' ').map_or("", |w| w.1));
        Some(format!("{side} {sign}{} {} {operator} {rest}", event.bytes, event.phase))
    };
    let mut words = Vec::new();
    words.extend(first("parts: true", true_rest));
    words.extend(first("       ours", our_rest));
    let (true_peak, our_peak) = (at_peak(theirs), at_peak(ours));
    words.extend(only("at peak only true", &true_peak, &our_peak));
    words.extend(only("at peak only ours", &our_peak, &true_peak));
    words
}

/// Without what comes before the first iteration, whose order is of no consequence, and without
/// workspaces, which part everywhere and hide the rest.
fn steps(events: &[Event]) -> Vec<Event> {
    let workspaces: BTreeSet<u64> = events
        .iter()
        .filter(|event| event.alloc && is_workspace(event))
        .map(|event| event.id)
        .collect();
    let is_step = |event: &&Event| event.phase != "0:setup" && !workspaces.contains(&event.id);
    events.iter().filter(is_step).cloned().collect()
}

fn is_workspace(event: &Event) -> bool {
    event.what.split_whitespace().nth(1) == Some("workspace")
}

/// The innermost operator that says more than that a tensor is made.
fn operator(event: &Event) -> &str {
    let path = event.what.split_whitespace().next().unwrap_or("-");
    let mut inwards = path.rsplit('>');
    inwards.find(|name| !name.starts_with("aten::empty")).unwrap_or(path)
}

/// Allocations alive when most bytes are.
fn at_peak(events: &[Event]) -> Vec<&Event> {
    let (mut live, mut most, mut peak) = (0_u64, 0_u64, 0);
    for (index, event) in events.iter().enumerate() {
        live = if event.alloc { live + event.bytes } else { live.saturating_sub(event.bytes) };
        if live > most {
            (most, peak) = (live, index);
        }
    }
    let mut alive: BTreeMap<u64, &Event> = BTreeMap::new();
    for event in &events[..events.len().min(peak + 1)] {
        if event.alloc {
            alive.insert(event.id, event);
        } else {
            alive.remove(&event.id);
        }
    }
    alive.into_values().collect()
}

/// What one side has more of, by size; summed by operator, the most bytes first.
fn only(words: &str, these: &[&Event], those: &[&Event]) -> Option<String> {
    let mut others: BTreeMap<u64, usize> = BTreeMap::new();
    for event in those {
        *others.entry(event.bytes).or_default() += 1;
    }
    let mut sums: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for event in these {
        match others.get_mut(&event.bytes) {
            Some(left) if *left > 0 => *left -= 1,
            _ => {
                let operator = if is_workspace(event) { "workspace" } else { operator(event) };
                let phase = event.phase.split_once(':').map_or("", |(_, phase)| phase);
                let sum = sums.entry(format!("{phase} {operator}")).or_default();
                *sum = (sum.0 + 1, sum.1 + event.bytes);
            }
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    let told = sums.iter().take(OPERATORS).map(|(operator, (count, bytes))| {
        format!("{count} of {operator}, {:.1} MiB", *bytes as f64 / 1_048_576.0)
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("{words}: {}", told.join("; ")))
}

/// Shares near the truth, and the worst that carried no warning.
fn summarise(format: &str, rows: &[&Row], without: usize) {
    println!("\n{format}: {} compared, {without} without an answer", rows.len());
    let silent: Vec<&&Row> = rows.iter().filter(|row| row.warnings.is_empty()).collect();
    for (position, name) in ["allocated", "reserved"].iter().enumerate() {
        let within = |bound: f64| {
            let near = |row: &&&Row| row.off[position].abs() <= bound;
            let all = rows.iter().filter(near).count();
            let quiet = silent.iter().filter(|row| row.off[position].abs() <= bound).count();
            format!(
                "within {bound} %: {all} ({:.1} %), of silent {quiet} of {} ({:.1} %)",
                percent(all, rows.len()),
                silent.len(),
                percent(quiet, silent.len())
            )
        };
        println!("  {name:<9} {}; {}", within(1.0), within(3.0));
        let mut worst = silent.clone();
        worst.sort_by(|a, b| b.off[position].abs().total_cmp(&a.off[position].abs()));
        let worst = worst.iter().take(WORST).filter(|row| row.off[position].abs() > NEAR);
        for row in worst {
            println!("    {:>+8.2}% {}", row.off[position], row.model);
        }
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
