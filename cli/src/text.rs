//! The answer for people: the headline first, then its basis, then every GPU.

use std::fmt::Write as _;

use anstyle::Style;
use highwater_core::autopsy::Autopsy;
use highwater_core::device::{Interval, Verdict};
use highwater_core::estimate::RankLine;
use highwater_core::export::{Answer, DeviceAnswer};
use highwater_core::report::{Band, ByCategory, DeviceVerdict, ModuleBytes, Part, Report};
use highwater_core::sentence::share;
use highwater_core::wording::answer::{largest_batch, lead, peak_or_end};
use highwater_core::wording::{Headline, Sentence, answer, headline};
use highwater_core::{Bytes, Diagnostic, Severity, bytes, wording};

use crate::style::{BAD, CAUTION, FAINT, GOOD, HEAD};
use crate::table::{self, Align, Cell, Table};
use crate::{autopsy, compare, plot, screen};

/// COUNT: modules that are listed by name.
const MODULES_MAX: usize = 8;
/// COUNT: characters of a bar that stands for everything.
const BAR: u64 = 32;

/// The estimate, with styles as escape sequences that the terminal's stream keeps or strips.
pub(crate) fn first(report: &Report, recorded: Option<&Report>, with_plot: bool) -> String {
    let mut sections = vec![
        answered(report),
        setting(report),
        section("Peaks", &peaks(report)),
        section("Each iteration", &iterations(report)),
        section(&wording::autopsy::peak(&report.peak).to_string(), &categories(report)),
        section("What sets the peak", &autopsy::render(report, &Autopsy::of(report))),
        section("Largest modules at that moment", &modules(report)),
        section("Assumptions", &diagnostics(report)),
    ];
    if let Some(recorded) = recorded {
        let title = format!("Compared with a {}", recorded.model.recognised.format);
        let body = [compare::render(report, recorded), listed(&recorded.diagnostics)].concat();
        sections.insert(4, section(&title, &body));
    }
    let mut sections: Vec<String> =
        sections.iter().map(|section| screen::fitted(section)).collect();
    if with_plot {
        // Below the peaks; its lines have the right width already.
        sections.insert(3, section("Timeline", &plot::for_screen(report)));
    }
    sections.join("\n") + "\n"
}

/// What follows: how the run ends on every device.
pub(crate) fn gpus(answer: &Answer) -> String {
    let summary = spaced(answer.on_devices().into_iter().chain(smallest(answer)));
    let summary = if summary.is_empty() { summary } else { format!("  {summary}\n") };
    let ranks = if answer.ranks.is_empty() { String::new() } else { ranks(answer) + "\n" };
    ranks + &section("GPUs", &(summary + &devices(answer)))
}

/// What each rank of several needs.
fn ranks(answer: &Answer) -> String {
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["".into(), "allocated".into(), "reserved".into(), "with CUDA and NCCL".into()]);
    for line in &answer.ranks {
        let RankLine { first, last, allocated, reserved, verdict } = line;
        let name = if first == last {
            format!("rank {first}")
        } else {
            format!("ranks {first} to {last}")
        };
        table.row([
            name.into(),
            allocated.to_string().into(),
            reserved.to_string().into(),
            verdict.need.to_string().into(),
        ]);
    }
    section("Ranks", &table.render("  "))
}

pub(crate) fn section(title: &str, body: &str) -> String {
    format!("{HEAD}{title}{HEAD:#}\n{body}")
}

/// The answer on the configured device: a line in bold, and one below it.
fn answered(report: &Report) -> String {
    let Headline { lead, rest } = headline(report, None);
    format!("{HEAD}{lead}{HEAD:#}\n{}\n", spaced(rest.into_iter()))
}

/// Sentences one after the other.
fn spaced(sentences: impl Iterator<Item = Sentence>) -> String {
    sentences.map(|sentence| sentence.to_string()).collect::<Vec<_>>().join(" ")
}

/// The largest batch on the smallest device that holds the run; if none does, on the one that takes most.
fn smallest(answer: &Answer) -> Option<Sentence> {
    answer.batch.as_ref().filter(|_| !answer.report.is_open())?;
    let devices = &answer.devices;
    let survivors = devices.iter().filter(|device| device.verdict.verdict.survives());
    let device = survivors
        .min_by_key(|device| device.verdict.capacity)
        .or_else(|| devices.iter().max_by_key(|device| device.largest.with_flush))?;
    Some(largest_batch(&device.verdict.name, device.largest))
}

fn setting(report: &Report) -> String {
    let (model, config) = (&report.model, &report.config);
    let mut dims: Vec<String> =
        config.dims.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    if dims.is_empty() {
        dims.push("no open dimensions".to_owned());
    }
    let mut table = Table::new([Align::Left, Align::Left]);
    let recognised = &model.recognised;
    table.row([
        "input".into(),
        format!(
            "{}, {}: {}",
            recognised.format,
            recognised.fidelity.label(),
            recognised.fidelity.about()
        )
        .into(),
    ]);
    table.row([
        "model".into(),
        format!(
            "{} parameters ({}), buffers {}, {} operators",
            bytes::grouped(model.parameters),
            model.parameter_bytes,
            model.buffer_bytes,
            model.operators
        )
        .into(),
    ]);
    let optimizer = config.workload.trains().then(|| config.optimizer.to_string());
    let stated: Vec<_> = optimizer.into_iter().chain([config.precision.to_string()]).collect();
    table.row([
        config.workload.name().into(),
        format!("{}; {}", dims.join(", "), stated.join(", ")).into(),
    ]);
    for (name, value) in config.unusual() {
        table.row(["".into(), format!("{name} {value}").into()]);
    }
    let version = config.pytorch;
    table.row(["simulated".into(), format!("{}, PyTorch {version}", report.verdict.name).into()]);
    table.render("  ")
}

fn peaks(report: &Report) -> String {
    let peak = &report.peak;
    let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
    let rows = [
        ("requested", peak.requested, "by tensors, at the peak of allocated memory"),
        ("allocated", peak.allocated, "torch.cuda.max_memory_allocated()"),
        ("reserved", peak.reserved, "torch.cuda.max_memory_reserved()"),
        ("process", peak.process, "reserved and the CUDA context, about what nvidia-smi shows"),
    ];
    for (name, bytes, meaning) in rows {
        table.row([name.into(), bytes.to_string().into(), Cell::styled(meaning, FAINT)]);
    }
    if let Some(Interval { low, high }) = report.verdict.interval {
        let meaning = "process, in nine runs of ten like this one: at least and at most";
        let range = format!("{low} \u{2013} {high}");
        table.row(["  range".into(), range.into(), Cell::styled(meaning, FAINT)]);
    }
    let below = |band: &&Band| band.reserved < peak.reserved;
    if let Some(band) = report.without_workspaces.as_ref().filter(below) {
        let meaning = "reserved if cuDNN needs no workspace";
        let bytes = band.reserved.to_string();
        table.row(["  at least".into(), bytes.into(), Cell::styled(meaning, FAINT)]);
    }
    table.render("  ")
}

fn iterations(report: &Report) -> String {
    let mut table = Table::new([Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["", "requested", "allocated", "reserved"].map(|head| Cell::styled(head, FAINT)));
    for (number, peaks) in (1_usize..).zip(&report.iterations) {
        table.row([
            number.to_string().into(),
            peaks.requested.to_string().into(),
            peaks.allocated.to_string().into(),
            peaks.reserved.to_string().into(),
        ]);
    }
    table.render("  ")
}

/// Categories, the largest first; those without bytes are left out.
fn categories(report: &Report) -> String {
    let at_peak: &ByCategory = &report.at_peak;
    let total = at_peak.total();
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Left]);
    for (category, bytes) in at_peak.largest_first() {
        let bar =
            table::BAR.to_string().repeat(usize::try_from(bytes.parts_of(total, BAR)).unwrap_or(0));
        table.row([
            category.name().replace('_', " ").into(),
            bytes.to_string().into(),
            format!("{} %", bytes.parts_of(total, 100)).into(),
            Cell::styled(bar, FAINT),
        ]);
    }
    table.render("  ")
}

fn modules(report: &Report) -> String {
    let total = report.at_peak.total();
    let mut table = Table::new([Align::Left, Align::Right, Align::Right]);
    let (named, others) = match report.modules_at_peak.split_at_checked(MODULES_MAX) {
        Some(split) => split,
        None => (report.modules_at_peak.as_slice(), <&[ModuleBytes]>::default()),
    };
    let mut row = |name: &str, bytes: Bytes| {
        let percent = format!("{} %", bytes.parts_of(total, 100));
        table.row([name.into(), bytes.to_string().into(), percent.into()]);
    };
    for module in named {
        row(if module.module.is_empty() { "(no module)" } else { &module.module }, module.bytes);
    }
    if !others.is_empty() {
        let rest = others.iter().map(|module| module.bytes).sum();
        row(&format!("({} others)", others.len()), rest);
    }
    table.render("  ")
}

/// Devices, the smallest first.
fn devices(answer: &Answer) -> String {
    let mut table = Table::of_numbers_behind(2);
    let batch = answer.batch.as_deref().map_or_else(String::new, |dim| format!("largest {dim}"));
    let [best, flushes] =
        if answer.batch.is_some() { ["at best", "with flushes"] } else { [""; 2] };
    let heads = ["", "verdict", "chance", "need", "capacity", "margin", &batch, best, flushes];
    table.row(heads.map(|head| Cell::styled(head, FAINT)));
    // The margin follows from need and capacity; "at best" is the less useful of three sizes.
    table.without_if_narrow(&[5, 7]);
    let mut devices: Vec<_> = answer.devices.iter().collect();
    devices.sort_by_key(|device| device.verdict.capacity);
    for DeviceAnswer { verdict: device, largest } in devices {
        let (verdict, style) = verdict_words(device.verdict);
        let available = device.usable();
        let margin = if device.need <= available {
            (available - device.need).to_string()
        } else {
            format!("-{}", device.need - available)
        };
        let size = |size: Option<u64>| match (size, &answer.batch) {
            (Some(size), _) if answer.report.is_open() => format!("≤ {size}"),
            (Some(size), _) => answer::batch(size),
            (None, Some(_)) => "none".to_owned(),
            (None, None) => String::new(),
        };
        table.row([
            device.name.clone().into(),
            Cell::styled(verdict, style),
            device.chance.map_or_else(String::new, answer::chance).into(),
            device.need.to_string().into(),
            device.capacity.to_string().into(),
            margin.into(),
            size(largest.likely).into(),
            size(largest.without_flush).into(),
            size(largest.with_flush).into(),
        ]);
    }
    table.render("  ")
}

pub(crate) const fn verdict_words(verdict: Verdict) -> (&'static str, Style) {
    match verdict {
        Verdict::Fits => ("fits", GOOD),
        Verdict::LikelyFits => ("likely fits", CAUTION),
        Verdict::FitsAfterFlush => ("fits after cache flush", CAUTION),
        Verdict::NotKnown => ("unknown", CAUTION),
        Verdict::LikelyDoesNotFit => ("likely does not fit", BAD),
        Verdict::DoesNotFit => ("does not fit", BAD),
    }
}

fn diagnostics(report: &Report) -> String {
    let mut text = String::new();
    if report.uncertain {
        text += "  Parts of the model are assumed: the truth may lie far above or below.\n";
    } else if report.lower_bound {
        text += "  Parts of the model could not be estimated: this is a lower bound.\n";
    }
    text + &certainty(report) + &listed(&report.diagnostics)
}

/// What the peak rests on, and what of it is not simply proven.
fn certainty(report: &Report) -> String {
    let Some(certainty) = &report.certainty else { return String::new() };
    let mut table = Table::new([Align::Right, Align::Right, Align::Left]);
    for Part { reason, bytes } in certainty.at_peak() {
        let share = share(*bytes, certainty.total());
        table.row([bytes.to_string().into(), share.into(), reason.to_string().into()]);
    }
    format!("  {}\n{}", answer::certainty(certainty), table.render("    "))
}

/// Diagnostics, a line each.
pub(crate) fn listed(diagnostics: &[Diagnostic]) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        let style = match diagnostic.severity {
            Severity::Info => FAINT,
            Severity::Warning => CAUTION,
            Severity::Error => BAD,
        };
        let node = match diagnostic.node.as_deref() {
            None | Some("") => String::new(),
            Some(node) => format!(" ({node})"),
        };
        // Writing to a string does not fail.
        writeln!(
            text,
            "  {style}{}{style:#} [{}] {}{node}",
            diagnostic.severity.name(),
            diagnostic.code,
            diagnostic.message
        )
        .ok();
    }
    text
}

/// Why a run is no pass although it may fit.
fn no_pass(answer: &Answer, device: &DeviceVerdict) -> Option<String> {
    let asked = answer.require.chance;
    match device.verdict {
        Verdict::NotKnown => {
            Some("What it needs is not known, which `--require` takes for no fit.".to_owned())
        }
        Verdict::FitsAfterFlush => {
            Some("`--require` takes a run that must flush its cache for no fit.".to_owned())
        }
        Verdict::Fits | Verdict::LikelyFits => Some(format!(
            "`--require` asks for a chance of {asked} %; set another with `--require-chance`."
        )),
        Verdict::LikelyDoesNotFit | Verdict::DoesNotFit => None,
    }
}

/// Why a required device was refused.
pub(crate) fn refusal(answer: &Answer, refused: &DeviceAnswer) -> String {
    let DeviceAnswer { verdict: device, largest } = refused;
    let report = &answer.report;
    let largest = (answer.batch.is_some() && !report.is_open())
        .then(|| largest_batch(&device.name, *largest));
    let failed = device.out_of_memory.as_ref();
    let place = failed.map(|_| peak_or_end(report, device));
    let reason = spaced([Some(lead(report, device)), place, largest].into_iter().flatten());
    let no_pass = no_pass(answer, device).map(|why| format!(" {why}"));
    let reason = reason + &no_pass.unwrap_or_default();
    failed.map_or_else(|| reason.clone(), |failed| format!("{reason}\n{}", failed.message))
}
