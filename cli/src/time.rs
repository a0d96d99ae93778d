//! `highwater time`: how long a training step takes, here and on other GPUs.

use std::fmt::Write as _;
use std::num::NonZeroU64;

use highwater_core::device::{self, Device};
use highwater_core::time::{Bound, Gpu, Part, Picoseconds, Share, StepTime};
use highwater_core::{Bytes, Config, Error, Model};
use serde_json::{Value, json};

use crate::args::Timing;
use crate::table::{Align, Cell, Table};
use crate::text::{FAINT, HEAD};

/// A step on one GPU.
struct Timed {
    device: &'static Device,
    gpu: Gpu,
    time: StepTime,
    /// COUNT: samples of a step.
    samples: u64,
}

/// The time of a step on the configured GPU, and on all whose vendors publish their rates.
pub(crate) fn time(model: &Model, arguments: &Timing) -> Result<String, Error> {
    let question = &arguments.question;
    let config = question.training.over(model.defaults())?;
    let own = on(model, &config, device::find(&config.device)?, arguments.loader)?;
    let others = device::all().iter().filter(|device| device.id != config.device);
    let others = others.filter(|device| device.rates().is_some());
    let others: Result<Vec<Timed>, Error> =
        others.map(|device| on(model, &config, device, arguments.loader)).collect();
    let mut all = others?;
    all.push(own);
    all.sort_by_key(|timed| timed.time.step());
    let is_own = |timed: &&Timed| timed.device.id == config.device;
    let own = all.iter().find(is_own).expect("it was put there");
    if question.json {
        return Ok(format!("{:#}\n", answer(own, &all)));
    }
    Ok(text(own, &all))
}

/// The step on one GPU, with a data loader of this rate.
fn on(
    model: &Model,
    config: &Config,
    device: &'static Device,
    loader: Option<NonZeroU64>,
) -> Result<Timed, Error> {
    let gpu = Gpu::of(device)?;
    let mut there = config.clone();
    there.choose_device(device.id);
    let launches = model.launches(&there)?;
    let batch = model.open_dims().into_iter().find(|dim| dim.batch);
    let batch = batch.map_or(1, |dim| config.dims.get(&dim.name).copied().unwrap_or(dim.default));
    let samples = batch.saturating_mul(config.accumulate.get());
    let time = StepTime::of(&launches, gpu);
    let time = match loader {
        Some(rate) => time.with_loader(samples, rate.get()),
        None => time,
    };
    Ok(Timed { device, gpu, time, samples })
}

impl Timed {
    /// COUNT: samples in a second, in tenths.
    fn rate(&self) -> u64 {
        per_second(self.samples.saturating_mul(10), self.time.step())
    }

    /// SIZE: bytes that memory moves in a second, over what it could.
    fn memory_percent(&self) -> u64 {
        let moved = per_second(self.time.all.bytes.0, self.time.step());
        let bandwidth = u64::from(self.gpu.rates.bandwidth).saturating_mul(1_000_000_000);
        Bytes(moved).parts_of(Bytes(bandwidth), 100)
    }

    /// COUNT: operations in a second, in tenths of 10^12.
    fn teraflops(&self) -> u64 {
        let operations = self.time.all.multiply_adds.saturating_mul(2);
        per_second(operations, self.time.step()) / 100_000_000_000
    }
}

/// COUNT: a count over a time, as a rate for each second.
fn per_second(count: u64, Picoseconds(time): Picoseconds) -> u64 {
    const SECOND: u128 = 1_000_000_000_000;
    let rate = u128::from(count) * SECOND / u128::from(time.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn text(own: &Timed, all: &[Timed]) -> String {
    let step = &own.time;
    let mut text = format!(
        "{HEAD}A step takes {} on {}: {} samples per second.{HEAD:#}\n",
        milliseconds(step.step()),
        named(own),
        tenths(own.rate())
    );
    let used = step.utilisation();
    let percent = Share::percent;
    writeln!(
        text,
        "The GPU computes {} % of that time; most of the step waits for {}.\n\
         SM active {} %, SM occupancy {} %, tensor active {} %, DRAM active {} %, as DCGM averages them.\n",
        percent(used.gpu),
        if step.bound() == Bound::Loader { "the data loader" } else { step.bound().name() },
        percent(used.sm_active),
        percent(used.sm_occupancy),
        percent(used.tensor_active),
        percent(used.dram_active)
    )
    .ok();
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
    let heads = ["", "step", "samples/s", "TFLOP/s", "memory", "waits for"];
    gpus.row(heads.map(|head| Cell::styled(head, HEAD)));
    for timed in all {
        gpus.row([
            named(timed).into(),
            milliseconds(timed.time.step()).into(),
            tenths(timed.rate()).into(),
            tenths(timed.teraflops()).into(),
            format!("{} %", timed.memory_percent()).into(),
            timed.time.bound().name().into(),
        ]);
    }
    text + &gpus.render("  ")
}

/// The name of a GPU, with its form where there are several.
fn named(timed: &Timed) -> String {
    match timed.gpu.rates.form {
        "" => timed.device.name.to_owned(),
        form if timed.device.name.ends_with(form) => timed.device.name.to_owned(),
        form => format!("{} {form}", timed.device.name),
    }
}

fn cells(name: &str, part: &Part, step: &StepTime) -> [String; 6] {
    [
        name.replace('_', " "),
        milliseconds(part.device),
        format!("{} %", share(part, step)),
        part.kernels.to_string(),
        (part.multiply_adds / 500_000_000).to_string(),
        part.bytes.to_string(),
    ]
}

fn share(part: &Part, step: &StepTime) -> u64 {
    Bytes(part.device.0).parts_of(Bytes(step.all.device.0), 100)
}

fn milliseconds(Picoseconds(time): Picoseconds) -> String {
    let hundredths = (time + 5_000_000) / 10_000_000;
    match hundredths {
        0..10_000 => format!("{}.{:02} ms", hundredths / 100, hundredths % 100),
        _ => format!("{} ms", (hundredths + 50) / 100),
    }
}

fn tenths(tenths: u64) -> String {
    match tenths {
        0..1000 => format!("{}.{}", tenths / 10, tenths % 10),
        _ => (tenths / 10).to_string(),
    }
}

fn answer(own: &Timed, all: &[Timed]) -> Value {
    json!({ "step": step(own), "devices": all.iter().map(step).collect::<Vec<_>>() })
}

fn step(timed: &Timed) -> Value {
    let part = |part: &Part| {
        json!({
            "device_picoseconds": part.device.0, "launch_picoseconds": part.launch.0,
            "kernels": part.kernels, "multiply_adds": part.multiply_adds, "bytes": part.bytes.0,
        })
    };
    let time = &timed.time;
    let used = time.utilisation().named().map(|(name, share)| (name.to_owned(), fraction(share)));
    let phases = time.by_phase.iter().map(|(phase, of)| (phase.name().to_owned(), part(of)));
    let classes = time.by_class.iter().map(|(class, of)| (class.name().to_owned(), part(of)));
    json!({
        "device": timed.device.id,
        "form": timed.gpu.rates.form,
        "picoseconds": time.step().0,
        "samples": timed.samples,
        "bound": time.bound().name(),
        "loader_picoseconds": time.loader.0,
        "utilisation": used.into_iter().collect::<serde_json::Map<_, _>>(),
        "all": part(&time.all),
        "phases": phases.collect::<serde_json::Map<_, _>>(),
        "classes": classes.collect::<serde_json::Map<_, _>>(),
        "unfitted": part(&time.unfitted),
        "assumed": part(&time.assumed),
    })
}

/// A number from 0 to 1.
#[expect(clippy::float_arithmetic, reason = "JSON has shares as fractions")]
fn fraction(share: Share) -> Value {
    json!(f64::from(share.0) / f64::from(Share::ALL))
}
