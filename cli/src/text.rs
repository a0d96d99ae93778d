//! The answer for people: the headline first, then what it rests on, then every GPU.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use highwater_core::autopsy::Autopsy;
use highwater_core::device::Verdict;
pub(crate) use highwater_core::export::place;
use highwater_core::export::{self, Answer, DeviceAnswer};
use highwater_core::report::{Band, ByCategory, ModuleBytes, Part, Report, share};
use highwater_core::{Bytes, Diagnostic, Severity, bytes};

use crate::table::{Align, Cell, Table};
use crate::{autopsy, compare};

pub(crate) const HEAD: Style = Style::new().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const CAUTION: Style = AnsiColor::Yellow.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();

/// COUNT: modules that are listed by name.
const MODULES_MAX: usize = 8;
/// COUNT: characters of a bar that stands for everything.
const BAR: u64 = 32;

/// The estimate, with styles as escape sequences that the terminal's stream keeps or strips.
pub(crate) fn first(name: &str, report: &Report, recorded: Option<&Report>) -> String {
    let mut sections = vec![
        format!("{HEAD}{}{HEAD:#}\n", first_headline(name, report)),
        setting(report),
        section("Peaks", &peaks(report)),
        section("Each iteration", &iterations(report)),
        section(&format!("At the peak of allocated, {}", moment(report)), &categories(report)),
        section("Why it is there", &autopsy::render(report, &Autopsy::of(report))),
        section("Largest modules at that moment", &modules(report)),
        section("What this rests on", &diagnostics(report)),
    ];
    if let Some(recorded) = recorded {
        let title = format!("Compared with a {}", recorded.model.recognised.format);
        let body = [compare::render(report, recorded), listed(&recorded.diagnostics)].concat();
        sections.insert(4, section(&title, &body));
    }
    sections.join("\n") + "\n"
}

/// What follows: how the run ends on every device.
pub(crate) fn gpus(answer: &Answer) -> String {
    section(&format!("GPUs: {}", on_gpus(answer)), &devices(answer))
}

pub(crate) fn section(title: &str, body: &str) -> String {
    format!("{HEAD}{title}{HEAD:#}\n{body}")
}

/// `resnet50.onnx peaks at 3.51 GiB allocated in backward of layer1.0.conv2`.
fn peaks_at(name: &str, report: &Report) -> String {
    let peak = &report.peak;
    let verb = if report.lower_bound { "needs at least" } else { "peaks at" };
    let place = place(peak.phase, &peak.module, &peak.operator);
    format!("{name} {verb} {} allocated in {place}", peak.allocated)
}

/// With how it ends on its own device.
fn first_headline(name: &str, report: &Report) -> String {
    let ends = export::ends_on(&report.verdict);
    format!("{}: {ends}", peaks_at(name, report))
}

/// With how it ends on all devices.
pub(crate) fn headline(answer: &Answer) -> String {
    format!("{}: {}", peaks_at(&answer.name, &answer.report), on_gpus(answer))
}

/// `fits on 18 of 32 GPUs; A100 40 GB: up to batch 9`.
fn on_gpus(answer: &Answer) -> String {
    let devices = &answer.devices;
    let survivors = devices.iter().filter(|device| device.verdict.verdict.survives());
    // The smallest card that will do; where none will, the one that comes nearest.
    let telling = survivors
        .min_by_key(|device| device.verdict.capacity)
        .or_else(|| devices.iter().max_by_key(|device| device.largest.with_flush));
    let batch = telling.and_then(|device| {
        let (dim, name) = (answer.batch.as_deref()?, &device.verdict.name);
        let largest = answer.largest(device);
        Some(match (largest.without_flush, largest.only_with_flush()) {
            (Some(room), None) => format!("; {name}: up to {dim} {room}"),
            (Some(room), Some(flush)) => {
                format!("; {name}: up to {dim} {room}, {flush} with cache flushes")
            }
            (None, flush) => format!("; {name}: up to {dim} {}, only with cache flushes", flush?),
        })
    });
    answer.on_devices() + &batch.unwrap_or_default()
}

pub(crate) fn moment(report: &Report) -> String {
    let peak = &report.peak;
    let operator = match peak.operator.as_str() {
        "" => String::new(),
        operator => format!(" ({operator})"),
    };
    let place = place(peak.phase, &peak.module, &peak.operator);
    format!("iteration {}, {place}{operator}", peak.iteration)
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
    table.row([
        "training".into(),
        format!("{}; {}, {}", dims.join(", "), config.optimizer, config.precision).into(),
    ]);
    for (name, value) in config.unusual() {
        table.row(["".into(), format!("{name} {value}").into()]);
    }
    let version = config.pytorch.label();
    table.row(["as on".into(), format!("{}, PyTorch {version}", report.verdict.name).into()]);
    table.render("  ")
}

fn peaks(report: &Report) -> String {
    let peak = &report.peak;
    let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
    let rows = [
        ("requested", peak.requested, "asked for by tensors, at the peak of allocated"),
        ("allocated", peak.allocated, "in blocks handed out: torch.cuda.max_memory_allocated()"),
        ("reserved", peak.reserved, "held from the driver: torch.cuda.max_memory_reserved()"),
        ("process", peak.process, "with the CUDA context: about what nvidia-smi shows"),
    ];
    for (name, bytes, meaning) in rows {
        table.row([name.into(), bytes.to_string().into(), Cell::styled(meaning, FAINT)]);
    }
    let below = |band: &&Band| band.reserved < peak.reserved;
    if let Some(band) = report.without_workspaces.as_ref().filter(below) {
        let meaning = "reserved if no convolution took a workspace; an older cuDNN lies between";
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
        let bar = "█".repeat(usize::try_from(bytes.parts_of(total, BAR)).unwrap_or(0));
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
    let mut table = Table::new([
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    let batch = answer.batch.as_deref().map_or_else(String::new, |dim| format!("largest {dim}"));
    let flushes = if answer.batch.is_some() { "with flushes" } else { "" };
    let heads = ["", "verdict", "need", "capacity", "margin", &batch, flushes];
    table.row(heads.map(|head| Cell::styled(head, FAINT)));
    let mut devices: Vec<_> = answer.devices.iter().collect();
    devices.sort_by_key(|device| device.verdict.capacity);
    for DeviceAnswer { verdict: device, largest } in devices {
        let (verdict, style) = told(device.verdict);
        let available = device.usable();
        let margin = if device.need <= available {
            (available - device.need).to_string()
        } else {
            format!("-{}", device.need - available)
        };
        let size = |size: Option<u64>| match (size, &answer.batch) {
            (Some(size), _) if answer.report.lower_bound => format!("≤ {size}"),
            (Some(size), _) => size.to_string(),
            (None, Some(_)) => "none".to_owned(),
            (None, None) => String::new(),
        };
        table.row([
            device.name.clone().into(),
            Cell::styled(verdict, style),
            device.need.to_string().into(),
            device.capacity.to_string().into(),
            margin.into(),
            size(largest.without_flush).into(),
            size(largest.with_flush).into(),
        ]);
    }
    table.render("  ")
}

pub(crate) const fn told(verdict: Verdict) -> (&'static str, Style) {
    match verdict {
        Verdict::Fits => ("fits", GOOD),
        Verdict::Tight => ("tight", CAUTION),
        Verdict::FitsAfterFlush => ("fits after cache flush", CAUTION),
        Verdict::NotKnown => ("not known", CAUTION),
        Verdict::DoesNotFit => ("does not fit", BAD),
    }
}

fn diagnostics(report: &Report) -> String {
    let mut text = String::new();
    if report.lower_bound {
        text += "  Parts of the model could not be estimated: the truth can only be higher.\n";
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
    format!("  {}\n{}", certainty.sentence(), table.render("    "))
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

/// Why a required device was refused.
pub(crate) fn refusal(answer: &Answer, refused: &DeviceAnswer) -> String {
    let DeviceAnswer { verdict: device, largest } = refused;
    if device.verdict == Verdict::NotKnown {
        return format!(
            "not known whether it fits on {}: needs at least {} of {}, and parts of the model could not \
             be estimated",
            device.name, device.need, device.capacity
        );
    }
    let largest = match (largest.without_flush, largest.only_with_flush()) {
        _ if answer.batch.is_none() => String::new(),
        (Some(batch), None) => format!("; the largest batch that fits is {batch}"),
        (Some(batch), Some(flush)) => {
            format!("; the largest batch that fits is {batch}, or {flush} with cache flushes")
        }
        (None, Some(flush)) => {
            format!("; up to batch {flush} survives, but only with cache flushes")
        }
        (None, None) => "; no batch size fits".to_owned(),
    };
    let need =
        format!("does not fit on {}: needs {} of {}", device.name, device.need, device.capacity);
    match &device.out_of_memory {
        None => need + &largest,
        Some(failure) => format!(
            "{need}, out of memory in iteration {}, {}{largest}\n{}",
            failure.iteration,
            place(failure.phase, &failure.module, &failure.operator),
            failure.message
        ),
    }
}
