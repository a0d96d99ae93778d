//! A report to paste into an issue, a pull request or notes.

use std::fmt::Write as _;

use super::Answer;
use crate::config::Workload;
use crate::estimate::LargestBatch;
use crate::report::{Part, Report};
use crate::wording::{Headline, answer, autopsy};

/// COUNT: tensors and modules that are listed.
const LISTED: usize = 12;

/// The answer, what it rests on, and the tables behind it.
pub fn markdown(answer: &Answer) -> String {
    let report = &answer.report;
    let what = match report.config.workload {
        Workload::Training => "training",
        Workload::Inference => "running",
        Workload::Generation => "generating with",
    };
    let mut text = format!("# GPU memory of {what} {}\n\n{}\n", line(&answer.name), lead(answer));
    settings(&mut text, report);
    peaks(&mut text, report);
    at_peak(&mut text, report);
    devices(&mut text, answer);
    text += "\n## Assumptions\n\n";
    if report.uncertain {
        text += "- **Uncertain:** parts of the model are assumed, and the truth may lie far off.\n";
    } else if report.lower_bound {
        text += "- **Lower bound:** parts of the model could not be estimated.\n";
    }
    // Writing to a string does not fail.
    if let Some(certainty) = &report.certainty {
        writeln!(text, "{}\n", answer::certainty(certainty)).ok();
        for Part { reason, bytes } in certainty.at_peak() {
            writeln!(text, "- {bytes} {}", line(&reason.to_string())).ok();
        }
    }
    for diagnostic in &report.diagnostics {
        let (severity, message) =
            (diagnostic.severity.name(), line(&diagnostic.message.to_string()));
        writeln!(text, "- {severity} `{}`: {message}", diagnostic.code).ok();
    }
    text + "\nEstimated by Highwater; nothing was run.\n"
}

fn lead(answer: &Answer) -> String {
    let Headline { lead, rest } = answer.headline();
    let rest = rest.into_iter().chain(answer.on_devices());
    let rest: Vec<_> = rest.map(|sentence| line(&sentence.to_string())).collect();
    format!("**{}** {}", line(&lead.to_string()), rest.join(" "))
}

fn settings(text: &mut String, report: &Report) {
    let (model, config) = (&report.model, &report.config);
    let fidelity = model.recognised.fidelity.label();
    let mut rows = vec![
        ("input".to_owned(), format!("{}, {fidelity}", model.recognised.format)),
        ("parameters".to_owned(), format!("{} ({})", model.parameters, model.parameter_bytes)),
    ];
    rows.extend(config.dims.iter().map(|(name, size)| (line(name), size.to_string())));
    if config.workload.trains() {
        rows.push(("optimizer".to_owned(), config.optimizer.to_string()));
    }
    rows.push(("precision".to_owned(), config.precision.to_string()));
    let unusual = config.unusual().into_iter();
    rows.extend(unusual.map(|(name, value)| (name.to_owned(), line(&value))));
    rows.push((
        "simulated".to_owned(),
        format!("{}, PyTorch {}", line(&report.verdict.name), config.pytorch),
    ));
    *text += "\n## Settings\n\n| | |\n|---|---|\n";
    for (name, value) in rows {
        writeln!(text, "| {name} | {value} |").ok();
    }
}

fn peaks(text: &mut String, report: &Report) {
    let peak = &report.peak;
    *text += "\n## Peaks\n\n| | size | bytes |\n|---|--:|--:|\n";
    let rows = [
        ("requested by tensors", peak.requested),
        ("`torch.cuda.max_memory_allocated()`", peak.allocated),
        ("`torch.cuda.max_memory_reserved()`", peak.reserved),
        ("process, with the CUDA context", peak.process),
    ];
    for (name, bytes) in rows {
        writeln!(text, "| {name} | {bytes} | {} |", bytes.0).ok();
    }
}

fn at_peak(text: &mut String, report: &Report) {
    let place = line(&autopsy::peak(&report.peak).to_string());
    writeln!(text, "\n## At the peak\n\n{place}\n").ok();
    *text += "| category | size | share |\n|---|--:|--:|\n";
    let total = report.at_peak.total();
    for (category, bytes) in report.at_peak.largest_first() {
        let name = category.name().replace('_', " ");
        writeln!(text, "| {name} | {bytes} | {} % |", bytes.parts_of(total, 100)).ok();
    }
    *text += "\n| largest tensors | category | size | made by | type |\n|---|---|--:|---|---|\n";
    for tensor in report.live_at_peak.iter().take(LISTED) {
        let owner = if tensor.name.is_empty() { &tensor.module } else { &tensor.name };
        let kind = tensor.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
        let category = tensor.category.name().replace('_', " ");
        let (owner, operator) = (line(owner), line(&tensor.operator));
        writeln!(text, "| {owner} | {category} | {} | {operator} | {kind} |", tensor.bytes).ok();
    }
    let rest = report.live_at_peak.len().saturating_sub(LISTED);
    if rest > 0 {
        writeln!(text, "\nand {rest} smaller ones").ok();
    }
}

fn devices(text: &mut String, answer: &Answer) {
    *text += "\n## GPUs\n\n| | verdict | need | capacity |";
    let batch = answer.batch.as_deref();
    if let Some(batch) = batch {
        write!(text, " largest {} | at best | with cache flushes |", line(batch)).ok();
    }
    *text += "\n|---|---|--:|--:|";
    *text += if batch.is_some() { "--:|--:|--:|\n" } else { "\n" };
    for device in &answer.devices {
        let verdict = &device.verdict;
        let name = line(&verdict.name);
        let ends = verdict.verdict.name().replace('-', " ");
        write!(text, "| {name} | {ends} | {} | {} |", verdict.need, verdict.capacity).ok();
        if batch.is_some() {
            let most = if answer.report.is_open() { "at most " } else { "" };
            let size = |n: Option<u64>| {
                n.map_or_else(|| "none".to_owned(), |n| format!("{most}{}", answer::batch(n)))
            };
            let LargestBatch { likely, without_flush, with_flush, .. } = device.largest;
            for largest in [likely, without_flush, with_flush] {
                write!(text, " {} |", size(largest)).ok();
            }
        }
        text.push('\n');
    }
}

/// A text that keeps to its cell and is no markup.
fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => safe.push(' '),
            '|' | '<' | '*' | '`' | '\\' | '[' | ']' => {
                safe.push('\\');
                safe.push(letter);
            }
            letter => safe.push(letter),
        }
    }
    safe
}
