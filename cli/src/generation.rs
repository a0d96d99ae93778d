//! `highwater time --workload generation`: how long until the first token, and for each token behind it.

use std::fmt::Write as _;

use highwater_core::bytes::grouped;
use highwater_core::config::Config;
use highwater_core::device::{self, Device};
use highwater_core::estimate::{Stages, Timings};
use highwater_core::time::{self as core_time, Generation, Launched, Paced, StepTime};
use highwater_core::{Error, ErrorKind, Model, say};
use serde_json::{Value, json};

use crate::args;
use crate::style::{FAINT, HEAD};
use crate::table::{Cell, Table};

/// The same call with both ways to launch kernels.
type Both = [Generation; 2];

/// The times of `generate` on the configured GPU, and on all whose vendors publish their rates.
pub(crate) fn time(
    model: &Model,
    config: &Config,
    arguments: &args::Timing,
) -> Result<String, Error> {
    for (is_given, name) in
        [(arguments.loader.is_some(), "loader"), (arguments.epoch.is_some(), "epoch")]
    {
        if is_given {
            let message = say!(
                "`--{name}` is about steps that read batches; generation reads prompts once",
                name
            );
            return Err(Error::new(ErrorKind::BadConfig, message));
        }
    }
    let mut stages = Stages::default();
    let mut timings = Timings::new(model, config, &mut stages);
    let mut on = |device, form: Option<&str>| -> Result<Both, Error> {
        let python = timings.generation(device, form, Launched::ByPython)?;
        Ok([python, timings.generation(device, form, Launched::InGraph)?])
    };
    let own = on(device::find(&config.device)?, arguments.form.as_deref())?;
    let of_forms = |device: &'static Device| device.forms().map(move |rates| (device, rates.form));
    let others = device::all().iter().flat_map(of_forms);
    let is_own = |device: &Device, form: &str| {
        let [python, _] = &own;
        device.id == config.device && form == python.gpu.rates.form
    };
    let others = others.filter(|(device, form)| !is_own(device, form));
    let others = others.map(|(device, form)| on(device, Some(form)));
    let mut all: Vec<Both> = others.collect::<Result<_, Error>>()?;
    all.push(own.clone());
    all.sort_by_key(|[_, graph]| graph.total().time);
    if arguments.question.json {
        let devices: Vec<Value> = all.iter().map(on_device).collect();
        return Ok(format!("{:#}\n", json!({ "generation": on_device(&own), "devices": devices })));
    }
    Ok(text(&own, &all))
}

fn text(own: &Both, all: &[Both]) -> String {
    let [python, graph] = own;
    let mut text = String::new();
    writeln!(
        text,
        "{HEAD}The first token takes {} on {}, and all {} tokens of {} take {}, launched by Python.{HEAD:#}",
        python.first_token().time,
        python.name(),
        grouped(python.new_tokens),
        texts(python.texts),
        python.total().time,
    )
    .ok();
    text += "In brackets: a range, in which four of five published figures lie.\n\n";
    let mut parts = Table::of_numbers_behind(1);
    parts.row(
        ["", "launched by Python", "with CUDA graphs (servers)"]
            .map(|head| Cell::styled(head, HEAD)),
    );
    let mut row = |name: &str, of: &dyn Fn(&Generation) -> String| {
        parts.row([name.to_owned(), of(python), of(graph)].map(Cell::from));
    };
    row("time to first token", &|of| range(of.first_token()));
    if python.new_tokens > 1 {
        row("time per output token", &|of| of.per_token().map_or_else(String::new, range));
        row("first of them", &|of| of.ends().map_or_else(String::new, |[first, _]| range(first)));
        row("last of them", &|of| of.ends().map_or_else(String::new, |[_, last]| range(last)));
    }
    row("all tokens", &|of| range(of.total()));
    row("output tokens per second", &|of| {
        let [rate, least, most] = of.tokens_per_second().map(core_time::rate);
        format!("{rate} ({least} to {most})")
    });
    row("most waits for", &|of| of.waits_for().name().to_owned());
    text += &parts.render("  ");
    writeln!(
        text,
        "\n{FAINT}Tokenising, sampling by other rules than the likeliest token, and waiting for other requests are \
         not counted.{FAINT:#}\n"
    )
    .ok();
    let mut gpus = Table::of_numbers_behind(1);
    let heads = ["", "first token", "per token", "tokens/s", "tokens/s with CUDA graphs"];
    gpus.row(heads.map(|head| Cell::styled(head, HEAD)));
    for [python, graph] in all {
        let [rate, ..] = python.tokens_per_second().map(core_time::rate);
        let [server, ..] = graph.tokens_per_second().map(core_time::rate);
        let each = python.per_token().map_or_else(String::new, |of| of.time.to_string());
        let first = python.first_token().time.to_string();
        gpus.row([python.name(), first, each, rate, server].map(Cell::from));
    }
    text + &gpus.render("  ")
}

fn texts(count: u64) -> String {
    if count == 1 { "a text".to_owned() } else { format!("each of {} texts", grouped(count)) }
}

fn range(Paced { time, least, most }: Paced) -> String {
    format!("{time} ({least} to {most})")
}

fn on_device(both: &Both) -> Value {
    let [python, graph] = both;
    json!({
        "device": python.device.id,
        "form": python.gpu.rates.form,
        "texts": python.texts,
        "new_tokens": python.new_tokens,
        (python.launched.name()): times(python),
        (graph.launched.name()): times(graph),
    })
}

fn times(of: &Generation) -> Value {
    let paced = |paced: Paced| {
        json!({
            "picoseconds": paced.time.0,
            "interval_picoseconds": [paced.least.0, paced.most.0],
        })
    };
    let [rate, least, most] = of.tokens_per_second();
    let kernels = |time: &StepTime| time.all.kernels;
    let ends = of.ends();
    json!({
        "first_token": paced(of.first_token()),
        "per_token": of.per_token().map(paced),
        "first_pass": ends.map(|[first, _]| paced(first)),
        "last_pass": ends.map(|[_, last]| paced(last)),
        "total": paced(of.total()),
        "hundredths_of_tokens_per_second": rate,
        "interval_hundredths_of_tokens_per_second": [least, most],
        "bound": of.waits_for().name(),
        "prefill_kernels": kernels(&of.prefill),
        "pass_kernels": of.passes.last().map(|(_, time)| kernels(time)),
    })
}
