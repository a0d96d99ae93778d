//! `highwater time`: how long a training step or a forward pass takes, here and on other GPUs.

use std::fmt::Write as _;
use std::num::NonZeroU64;

use highwater_core::bytes::grouped;
use highwater_core::device::{self, Device};
use highwater_core::estimate::{Stages, Timings};
use highwater_core::time::{Bound, Part, Share, StepTime, Timing, Utilisation};
use highwater_core::{Bytes, Error, Model};
use serde_json::{Value, json};

use crate::style::{FAINT, HEAD};
use crate::table::{Align, Cell, Table};
use crate::{args, generation};

/// The time of a step on the configured GPU, and on all whose vendors publish their rates.
pub(crate) fn time(model: &Model, arguments: &args::Timing) -> Result<String, Error> {
    let question = &arguments.question;
    let config = question.training.of(model)?;
    if config.workload.generates() {
        return generation::time(model, &config, arguments);
    }
    let mut stages = Stages::default();
    let config = model.settled(&config, &mut stages)?;
    let mut timings = Timings::new(model, &config, &mut stages);
    let mut on = |device, form: Option<&str>| -> Result<Timing, Error> {
        let timing = timings.on_form(device, form)?;
        Ok(match arguments.loader {
            Some(rate) => timing.with_loader(rate.get()),
            None => timing,
        })
    };
    let own = on(device::find(&config.device)?, arguments.form.as_deref())?;
    let is_own =
        |device: &Device, form: &str| device.id == config.device && form == own.gpu.rates.form;
    let of_forms = |device: &'static Device| device.forms().map(move |rates| (device, rates.form));
    let others = device::all().iter().flat_map(of_forms);
    let others = others.filter(|(device, form)| !is_own(device, form));
    let others = others.map(|(device, form)| on(device, Some(form)));
    let mut all: Vec<Timing> = others.collect::<Result<_, Error>>()?;
    all.push(own.clone());
    all.sort_by_key(|timing| timing.time.step());
    let own = &own;
    let epoch = arguments.epoch.map(NonZeroU64::get);
    if question.json {
        return Ok(format!("{:#}\n", answer(own, &all, epoch)));
    }
    let what = if config.workload.trains() { "step" } else { "forward pass" };
    Ok(text(what, own, &all, epoch))
}

fn text(what: &str, own: &Timing, all: &[Timing], epoch: Option<u64>) -> String {
    let step = &own.time;
    let (least, most) = step.interval();
    let mut text = format!(
        "{HEAD}A {what} takes {} on {} ({least} to {most} in nine of ten runs): {} samples per second.{HEAD:#}\n",
        step.step(),
        own.place(),
        own.rate()
    );
    if let Some(tokens) = own.tokens_per_second() {
        writeln!(text, "{} tokens per second.", grouped(tokens)).ok();
    }
    if let Some(samples) = epoch {
        writeln!(text, "An epoch of {} samples takes {}.", grouped(samples), own.epoch(samples))
            .ok();
    }
    text += &used(what, step);
    text += &network(own);
    writeln!(text, "Model FLOP utilisation {} %.\n", own.flop_utilisation().div_euclid(10)).ok();
    let mut parts = Table::of_numbers_behind(1);
    parts.row(
        ["", "time", "share", "kernels", "GFLOP", "moves"].map(|head| Cell::styled(head, HEAD)),
    );
    let phases = step.by_phase.iter().map(|(phase, part)| (phase.name(), part));
    let classes = step.by_class.iter().map(|(class, part)| (class.name(), part));
    for (name, part) in phases.chain(classes) {
        parts.row(cells(name, part, step).map(Cell::from));
    }
    text += &parts.render("  ");
    writeln!(
        text,
        "\n{FAINT}{} % of the time is of kernels whose formula no measurement of their kind and type confirms.\
         {FAINT:#}\n",
        share(&step.unfitted, step)
    )
    .ok();
    let mut gpus = Table::new([
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    let heads = ["", what, "samples/s", "TFLOP/s", "memory", "waits for"];
    gpus.row(heads.map(|head| Cell::styled(head, HEAD)));
    for timing in all {
        gpus.row([
            timing.name().into(),
            timing.time.step().to_string().into(),
            timing.rate().into(),
            tenths(timing.teraflops()).into(),
            format!("{} %", timing.memory_percent()).into(),
            timing.time.bound().name().into(),
        ]);
    }
    text + &gpus.render("  ")
}

/// How much of the GPU a step uses: a range where nothing is known of the data loader.
fn used(what: &str, step: &StepTime) -> String {
    let (least, most) = (step.least_utilisation(), step.utilisation());
    let percent = |least: Share, most: Share| match (least.percent(), most.percent()) {
        (least, most) if least == most => format!("{most} %"),
        (least, most) => format!("{least} to {most} %"),
    };
    let mut text = String::new();
    writeln!(
        text,
        "The GPU computes {} of that time; most of the {what} waits for {}.\n\
         SM active {}, SM occupancy {}, tensor active {}, DRAM active {}, as DCGM averages them.",
        percent(most.gpu, most.gpu),
        if step.bound() == Bound::Loader { "the data loader" } else { step.bound().name() },
        percent(least.sm_active, most.sm_active),
        percent(least.sm_occupancy, most.sm_occupancy),
        percent(least.tensor_active, most.tensor_active),
        percent(least.dram_active, most.dram_active),
    )
    .ok();
    if least != most {
        writeln!(
            text,
            "The most is with a data loader as fast as needed, the least is that of the idlest measured loop; \
             `--loader` and\nthe samples per second that yours gives narrow it."
        )
        .ok();
    }
    text
}

/// What a rank sends to others, and what of the step that takes.
fn network(own: &Timing) -> String {
    let network = &own.time.network;
    let mut text = String::new();
    if network.by_exchange.is_empty() {
        return text;
    }
    let between =
        if network.leaves_node { ", and 400 Gb/s for each GPU between nodes" } else { "" };
    writeln!(
        text,
        "A GPU sends {} to others in a step (over {}{between}).\nThat takes {}, of which {} are not hidden behind \
         computation:",
        own.sent(),
        own.gpu.rates.link,
        network.time,
        network.exposed
    )
    .ok();
    for (exchange, (traffic, time)) in &network.by_exchange {
        let name = exchange.name().replace('_', "-");
        let count = grouped(traffic.exchanges);
        writeln!(text, "  {name}: {count} times, {} sent, {time}", traffic.sent).ok();
    }
    text
}

fn cells(name: &str, part: &Part, step: &StepTime) -> [String; 6] {
    [
        name.replace('_', " "),
        part.device.to_string(),
        format!("{} %", share(part, step)),
        part.kernels.to_string(),
        (part.multiply_adds / 500_000_000).to_string(),
        part.bytes.to_string(),
    ]
}

fn share(part: &Part, step: &StepTime) -> u64 {
    Bytes(part.device.0).parts_of(Bytes(step.all.device.0), 100)
}

fn tenths(tenths: u64) -> String {
    match tenths {
        0..1000 => format!("{}.{}", tenths / 10, tenths % 10),
        _ => (tenths / 10).to_string(),
    }
}

fn answer(own: &Timing, all: &[Timing], epoch: Option<u64>) -> Value {
    let epoch = epoch.map(|samples| own.epoch(samples).0);
    let devices: Vec<Value> = all.iter().map(step).collect();
    json!({ "step": step(own), "epoch_picoseconds": epoch, "devices": devices })
}

fn step(timing: &Timing) -> Value {
    let part = |part: &Part| {
        json!({
            "device_picoseconds": part.device.0, "launch_picoseconds": part.launch.0,
            "kernels": part.kernels, "multiply_adds": part.multiply_adds, "bytes": part.bytes.0,
        })
    };
    let time = &timing.time;
    let (least, most) = time.interval();
    let shares = |used: Utilisation| -> Value {
        let named = used.named().map(|(name, share)| (name.to_owned(), fraction(share)));
        Value::Object(named.into_iter().collect())
    };
    let phases = time.by_phase.iter().map(|(phase, of)| (phase.name().to_owned(), part(of)));
    let classes = time.by_class.iter().map(|(class, of)| (class.name().to_owned(), part(of)));
    json!({
        "device": timing.device.id,
        "form": timing.gpu.rates.form,
        "picoseconds": time.step().0,
        "interval_picoseconds": [least.0, most.0],
        "samples": timing.samples,
        "tokens": timing.tokens,
        "flop_utilisation_per_mille": timing.flop_utilisation(),
        "bound": time.bound().name(),
        "loader_picoseconds": time.loader.0,
        "network": network_json(timing),
        "utilisation": shares(time.utilisation()),
        "least_utilisation": shares(time.least_utilisation()),
        "all": part(&time.all),
        "phases": phases.collect::<serde_json::Map<_, _>>(),
        "classes": classes.collect::<serde_json::Map<_, _>>(),
        "unfitted": part(&time.unfitted),
        "assumed": part(&time.assumed),
    })
}

/// What a rank sends; `null` on one GPU.
fn network_json(timing: &Timing) -> Value {
    let network = &timing.time.network;
    if network.by_exchange.is_empty() {
        return Value::Null;
    }
    let exchanges = network.by_exchange.iter().map(|(exchange, (traffic, time))| {
        let of = json!({
            "exchanges": traffic.exchanges, "sent_bytes": traffic.sent.0, "picoseconds": time.0,
        });
        (exchange.name().to_owned(), of)
    });
    json!({
        "link": timing.gpu.rates.link.to_string(),
        "sent_bytes": timing.sent().0,
        "picoseconds": network.time.0,
        "exposed_picoseconds": network.exposed.0,
        "exchanges": exchanges.collect::<serde_json::Map<_, _>>(),
    })
}

/// A number from 0 to 1.
#[expect(clippy::float_arithmetic, reason = "JSON has shares as fractions")]
fn fraction(share: Share) -> Value {
    json!(f64::from(share.0) / f64::from(Share::ALL))
}
