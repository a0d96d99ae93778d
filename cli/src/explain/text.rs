//! The explanation for people: the reason first, then figures, then advice.

use std::fmt::Write as _;

use highwater_core::bytes::Printed;
use highwater_core::config::Setting;
use highwater_core::estimate;
use highwater_core::observed::{Explanation, Known, Machine, Message};
use highwater_core::wording::answer::lead;
use highwater_core::wording::place::place;
use highwater_core::{Bytes, Config};

use super::{Answer, Asked};
use crate::advise;
use crate::style::{BAD, FAINT, HEAD};
use crate::table::{Align, Cell, Table};
use crate::text::{listed, section};

pub(super) fn render(answer: &Answer) -> String {
    let Answer { observed, explanation, located } = answer;
    let mut parts = vec![headline(answer)];
    if let Some(message) = observed.message.as_ref().filter(|message| message.library.is_none()) {
        let title = format!("Message (PyTorch {})", message.versions);
        parts.push(section(&title, &figures(message, explanation)));
    }
    if let Some(machine) = &observed.machine {
        parts.push(section(&what_smi_says(machine), &gpus(machine, explanation)));
    }
    if let Some(found) = located {
        parts.push(section(&asked(found), &places(found)));
        parts.push(remedy(found));
    }
    if let Some(cause) = explanation.cause {
        let numbered = (1..).zip(cause.advice());
        let advice: Vec<_> =
            numbered.map(|(number, what)| format!("  {number}. {what}\n")).collect();
        let advice = advice.concat();
        let title = if located.is_some() { "What helps in general" } else { "What helps" };
        parts.push(section(title, &advice));
    }
    let flags = flags(&explanation.known);
    if !flags.is_empty() {
        parts.push(section("For an estimate on this machine", &format!("  {flags}\n")));
    }
    if !explanation.notes.is_empty() {
        parts.push(section("Assumptions", &listed(&explanation.notes)));
    }
    parts.join("\n")
}

fn headline(answer: &Answer) -> String {
    let Answer { observed, explanation, .. } = answer;
    if observed.message.is_none() && observed.machine.is_none() {
        return format!("{HEAD}PyTorch's memory summary{HEAD:#}\n");
    }
    let Some(message) = &observed.message else {
        let device = explanation.known.device.map_or("unknown GPU", |device| device.name);
        return format!("{HEAD}{device}{HEAD:#}\n");
    };
    let what = match (message.library, message.gpu) {
        (Some(library), _) => format!("out of memory in {library}"),
        (None, Some(gpu)) => format!("{} out of memory on GPU {gpu}", message.backend.name()),
        (None, None) => format!("{} out of memory", message.backend.name()),
    };
    let why = explanation.cause.map_or_else(String::new, |cause| {
        format!("{BAD}{}{BAD:#}: {}", cause.name().replace('-', " "), cause.about())
    });
    if why.is_empty() {
        format!("{HEAD}{what}{HEAD:#}\n")
    } else {
        format!("{HEAD}{what}{HEAD:#}\n{why}\n")
    }
}

fn figures(message: &Message, explanation: &Explanation) -> String {
    let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, size: Option<Printed>, meaning: &str| {
        if let Some(size) = size {
            let near = if size.within > Bytes::mib(8) { "~" } else { "" };
            let size = format!("{near}{size}");
            table.row([name.into(), size.into(), Cell::styled(meaning, FAINT)]);
        }
    };
    let suspects: Vec<_> = explanation
        .suspects
        .iter()
        .map(|suspect| format!("{}, {}", suspect.name, suspect.fit.about()))
        .collect();
    row("tried", message.tried, "the segment that the driver refused");
    row("free", message.free, "on the GPU, after cached segments were released");
    row("missing", explanation.missing, "tried minus free");
    row("allocated", message.allocated, "in blocks that tensors hold");
    row("of it private", message.private_pools, "in private pools, such as those of CUDA graphs");
    row("unallocated", message.unallocated, "reserved but unused: holes between blocks");
    row("reserved", message.reserved, "both of these");
    row("process", message.process, "in use by this process");
    row("context", explanation.context, "process minus reserved: the CUDA context and libraries");
    row("others", explanation.other_processes, "in use by other processes");
    row("allowed", message.allowed, "what the process may reserve: a fraction is set");
    row("total", message.capacity, &suspects.join("; "));
    table.render("  ")
}

fn what_smi_says(machine: &Machine) -> String {
    let driver = machine.driver.as_ref().map(|driver| format!("driver {driver}"));
    let cuda = machine.cuda.as_ref().map(|cuda| format!("CUDA up to {cuda}"));
    let parts: Vec<_> = driver.into_iter().chain(cuda).collect();
    if parts.is_empty() {
        "nvidia-smi".to_owned()
    } else {
        format!("nvidia-smi ({})", parts.join(", "))
    }
}

fn gpus(machine: &Machine, explanation: &Explanation) -> String {
    let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Left, Align::Left]);
    for (at, gpu) in machine.gpus.iter().enumerate() {
        let size =
            |size: Option<Bytes>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
        let ecc = match gpu.ecc {
            Some(true) => "ECC on",
            Some(false) => "ECC off",
            None => "",
        };
        let this = if explanation.gpu == Some(at) { "this one" } else { "" };
        table.row([
            format!("GPU {}", gpu.index).into(),
            gpu.name.clone().into(),
            format!("{} of {} in use", size(gpu.used), size(gpu.total)).into(),
            Cell::styled(ecc, FAINT),
            Cell::styled(this, FAINT),
        ]);
        for process in &gpu.processes {
            let name = format!("process {} {}", process.pid, process.name);
            table.row([
                "".into(),
                name.trim_end().into(),
                size(process.bytes).into(),
                "".into(),
                "".into(),
            ]);
        }
        for part in &gpu.instances {
            table.row([
                "".into(),
                format!("MIG instance {}", part.id).into(),
                format!("{} of {} in use", part.used, part.total).into(),
                "".into(),
                "".into(),
            ]);
        }
    }
    table.render("  ")
}

fn asked(found: &Asked) -> String {
    let config = &found.located.config;
    let dims: Vec<String> =
        config.dims.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    format!(
        "In {}, {}; {}, {}",
        found.name,
        if dims.is_empty() { "no open dimensions".to_owned() } else { dims.join(", ") },
        config.optimizer,
        config.precision
    )
}

/// The smallest change that fits; where the run fits as it was described, that it was another one.
fn remedy(found: &Asked) -> String {
    let verdict = &found.report.verdict;
    if verdict.verdict.survives() {
        let lead = lead(&found.report, verdict);
        let text = format!("  {lead} The run that failed had another batch or other settings.\n");
        return section("What would fit", &text);
    }
    advise::text::plan(&found.report, &found.remedy)
}

fn places(found: &Asked) -> String {
    let located = &found.located;
    let mut text = String::new();
    // Writing to a string does not fail.
    if located.places.is_empty() {
        writeln!(
            text,
            "  The simulated step has no such allocation ({} of that size; at most {} are allocated):\n  \
             does the run have another batch, other settings, or another model?",
            located.same_size, located.peak
        )
        .ok();
    }
    for candidate in &located.places {
        text += &candidate_text(candidate);
    }
    if let Some((batch, candidate)) = &located.batch {
        let dim = found.batch.as_deref().unwrap_or("batch");
        writeln!(text, "  With {dim} = {batch} it would be:").ok();
        text += &candidate_text(candidate);
    }
    text
}

fn candidate_text(candidate: &estimate::Candidate) -> String {
    let iterations: Vec<String> = candidate.iterations.iter().map(ToString::to_string).collect();
    let tensor =
        candidate.tensor.as_ref().map_or_else(|| "workspace".to_owned(), ToString::to_string);
    let name =
        if candidate.name.is_empty() { String::new() } else { format!(" {}", candidate.name) };
    let operator = if candidate.operator.is_empty() {
        String::new()
    } else {
        format!(" ({})", candidate.operator)
    };
    let of = if iterations.len() == 1 { "iteration" } else { "iterations" };
    format!(
        "  {HEAD}{}{HEAD:#}{operator}, {of} {}\n    {}:{name} {tensor}, with {} allocated\n    {}\n",
        place(candidate.phase, &candidate.module, &candidate.operator),
        iterations.join(", "),
        candidate.requested,
        candidate.allocated,
        candidate.fits.about(),
    )
}

/// The settings as flags of `highwater estimate`.
pub(super) fn flags(known: &Known) -> String {
    let config = known.apply(Config::default());
    let flag = |setting: &Setting| {
        let value = setting.typed(&config).replace(' ', "");
        (!value.is_empty()).then(|| format!("--{} {value}", setting.name))
    };
    let given = known.settings().into_iter().filter_map(flag);
    given.collect::<Vec<_>>().join(" ")
}
