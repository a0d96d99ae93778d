//! How long the steps of a model take.

use highwater_core::order::InOrder as _;
use std::cmp::Reverse;

use highwater_core::bytes::{Bytes, grouped};
use highwater_core::device::{self, Device};
use highwater_core::eager::launch::Class;
use highwater_core::estimate::{Stages, Timings};
use highwater_core::time::{self, Bound, Generation, Launched, Paced, Part, Picoseconds, Timing};
use highwater_core::trace::Phase;
use highwater_core::{Config, Error, Model};
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use crate::model::times::{Phrase, Row, Sheet, Times};

/// COUNT: modules and operators that are listed.
const LONGEST: usize = 12;

/// A configuration, the events whose moments are wanted, and whether all tables are → times.
type Step = fn(&Model, &mut Stages, &Config, events: &[usize], all: bool) -> Result<Times, Error>;

/// What computes times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clockwork {
    /// How long the step of a configuration takes. The events are those whose moments are wanted; the flag asks for
    /// all GPUs and all tables.
    ///
    /// # Errors
    /// The model cannot be estimated so, or its GPU has no published rates.
    pub(crate) step: Step,
    /// PERCENT: how much longer a sample takes with a configuration than `sample`, which is in picoseconds.
    pub(crate) change: fn(&Model, &mut Stages, &Config, sample: u64) -> Option<i64>,
}

/// What computes times.
///
/// # Errors
/// It did not arrive.
#[wasm_split(time, fallible)]
pub(crate) fn clockwork() -> Result<Clockwork, SplitLoaderError> {
    Ok(Clockwork { step, change })
}

/// A text of the page with its parts put in.
fn phrase(english: &str, parts: &[(&str, &str)]) -> Phrase {
    let owned = |(name, part): &(&str, &str)| ((*name).to_owned(), (*part).to_owned());
    Phrase(english.to_owned(), parts.iter().map(owned).collect())
}

fn step(
    model: &Model,
    stages: &mut Stages,
    config: &Config,
    events: &[usize],
    all: bool,
) -> Result<Times, Error> {
    let mut timings = Timings::new(model, config, stages);
    let clock = timings.clock(events)?.unwrap_or_default();
    let times = if config.workload.generates() {
        written(&mut timings, config, all)?
    } else {
        stepped(&mut timings, config, all)?
    };
    Ok(Times {
        moments: clock.moments.iter().map(|moment| moment.0).collect(),
        bounds: clock.bounds.iter().map(|bound| bound.map_or(0, number)).collect(),
        ..times
    })
}

/// The times of a step, or of a forward pass.
fn stepped(timings: &mut Timings<'_>, config: &Config, all: bool) -> Result<Times, Error> {
    let own = timings.on(device::find(&config.device)?)?;
    Ok(Times {
        lead: lead(&own, config.workload.trains()),
        step: own.time.step().0,
        samples: own.samples,
        has_epochs: true,
        facts: facts(&own),
        sheets: if all { sheets(&own, timings)? } else { Vec::new() },
        notes: notes(&own),
        ..Times::default()
    })
}

/// The same call of `generate`, launched by Python and by CUDA graphs.
type Both = [Generation; 2];

fn both(timings: &mut Timings<'_>, device: &'static Device) -> Result<Both, Error> {
    let python = timings.generation(device, None, Launched::ByPython)?;
    Ok([python, timings.generation(device, None, Launched::InGraph)?])
}

/// The times of tokens.
fn written(timings: &mut Timings<'_>, config: &Config, all: bool) -> Result<Times, Error> {
    let own = both(timings, device::find(&config.device)?)?;
    let [python, graph] = &own;
    let total = python.total();
    let [rate, least, most] = python.tokens_per_second().map(time::rate);
    let (first, gpu) = (python.first_token().time.to_string(), python.name());
    let parts = [
        ("first", &*first),
        ("gpu", &*gpu),
        ("rate", &*rate),
        ("least", &*least),
        ("most", &*most),
    ];
    let lead = phrase(
        "The first token takes about {first} on {gpu}; with it, {rate} tokens per second are written ({least} to {most}).",
        &parts,
    );
    let mut facts = Vec::new();
    for (name, of) in [
        (phrase("time to first token", &[]), python.first_token()),
        (phrase("the same with CUDA graphs", &[]), graph.first_token()),
        (phrase("time per output token", &[]), python.per_token().unwrap_or_default()),
        (phrase("the same with CUDA graphs", &[]), graph.per_token().unwrap_or_default()),
        (phrase("all tokens", &[]), total),
        (phrase("the same with CUDA graphs", &[]), graph.total()),
    ] {
        facts.push((name, range(of)));
    }
    let [rate, least, most] = graph.tokens_per_second().map(time::rate);
    let name = phrase("tokens per second with CUDA graphs", &[]);
    facts.push((name, format!("{rate} ({least}–{most})")));
    let sheets = if all { vec![writers(&own, timings)?] } else { Vec::new() };
    Ok(Times {
        lead,
        step: total.time.0,
        samples: python.texts,
        facts,
        sheets,
        notes: vec![phrase(
            "Python launches kernels one after another, as transformers' generate does. Servers launch them all at once, \
             in CUDA graphs. Of 44 published figures, four in five lie in such a range.",
            &[],
        )],
        ..Times::default()
    })
}

fn range(Paced { time, least, most }: Paced) -> String {
    format!("{time} ({least}–{most})")
}

/// Every GPU with published rates, by how fast tokens come from a server.
fn writers(own: &Both, timings: &mut Timings<'_>) -> Result<Sheet, Error> {
    let mut all = Vec::new();
    for device in device::all().iter().filter(|device| device.rates().is_some()) {
        all.push(both(timings, device)?);
    }
    let speed = |[_, graph]: &Both| graph.tokens_per_second()[0];
    all.order_by_key(|both| Reverse(speed(both)));
    let most = all.first().map_or(0, speed);
    let row = |both: &Both| {
        let [python, graph] = both;
        let each = |of: &Generation| of.per_token().unwrap_or_default().time.to_string();
        Row {
            name: Phrase::plain(&python.name()),
            gpu: python.device.id.to_owned(),
            bar: Bytes(speed(both)).parts_of(Bytes(most), 1000),
            chosen: python.device.id == own[0].device.id,
            cells: vec![
                Phrase::plain(&python.first_token().time.to_string()),
                Phrase::plain(&each(python)),
                Phrase::plain(&each(graph)),
                Phrase::plain(&time::rate(python.tokens_per_second()[0])),
                Phrase::plain(&time::rate(speed(both))),
            ],
        }
    };
    let heads = [
        phrase("GPU", &[]),
        phrase("first token", &[]),
        phrase("per token", &[]),
        phrase("with CUDA graphs", &[]),
        phrase("tokens/s", &[]),
        phrase("with CUDA graphs", &[]),
    ];
    let rows = all.iter().map(row).collect();
    Ok(Sheet { title: phrase("GPUs by speed", &[]), heads: heads.into(), rows })
}

fn change(model: &Model, stages: &mut Stages, config: &Config, sample: u64) -> Option<i64> {
    let then = Timings::new(model, config, stages).sample().ok()?;
    then.longer_than(Picoseconds(sample))
}

/// As in [`Times::bounds`].
const fn number(bound: Bound) -> u8 {
    match bound {
        Bound::Arithmetic => 1,
        Bound::Bandwidth => 2,
        Bound::Launches | Bound::Loader => 3,
        // The strip has no colour for it.
        Bound::Network => 0,
    }
}

fn lead(own: &Timing, trains: bool) -> Phrase {
    let (least, most) = own.time.interval();
    let [time, least, most] = [own.time.step(), least, most].map(|time| time.to_string());
    let (gpu, rate) = (own.place(), own.rate());
    let parts =
        [("time", &*time), ("least", &*least), ("most", &*most), ("gpu", &*gpu), ("rate", &*rate)];
    let english = if trains {
        "A step takes about {time} on {gpu} ({least} to {most} in nine of ten runs): {rate} samples per second."
    } else {
        "A forward pass takes about {time} on {gpu} ({least} to {most} in nine of ten runs): {rate} samples per second."
    };
    phrase(english, &parts)
}

fn per_mille(share: u64) -> String {
    format!("{}\u{a0}%", (share + 5) / 10)
}

fn facts(own: &Timing) -> Vec<(Phrase, String)> {
    let mut facts = vec![(phrase("samples per second", &[]), own.rate())];
    if let Some(tokens) = own.tokens_per_second() {
        facts.push((phrase("tokens per second", &[]), grouped(tokens)));
    }
    facts.push((phrase("model FLOP utilisation", &[]), per_mille(own.flop_utilisation())));
    let (least, most) = (own.time.least_utilisation(), own.time.utilisation());
    for (name, least, most) in [
        (phrase("GPU utilisation", &[]), most.gpu, most.gpu),
        (phrase("SM active", &[]), least.sm_active, most.sm_active),
        (phrase("SM occupancy", &[]), least.sm_occupancy, most.sm_occupancy),
        (phrase("tensor active", &[]), least.tensor_active, most.tensor_active),
        (phrase("DRAM active", &[]), least.dram_active, most.dram_active),
    ] {
        let text = match (least.percent(), most.percent()) {
            (least, most) if least == most => format!("{most}\u{a0}%"),
            (least, most) => format!("{least}–{most}\u{a0}%"),
        };
        facts.push((name, text));
    }
    facts.push((phrase("kernels of a step", &[]), grouped(own.time.all.kernels)));
    facts
}

fn notes(own: &Timing) -> Vec<Phrase> {
    let share = |part: &Part| {
        let percent = Bytes(part.device.0).parts_of(Bytes(own.time.all.device.0), 100);
        format!("{percent}\u{a0}%")
    };
    vec![
        phrase(
            "Kernels whose formula no measurement of their kind and type confirms: {share} of the time.",
            &[("share", &share(&own.time.unfitted))],
        ),
        phrase(
            "Utilisation as DCGM averages it: that of the idlest measured loop, and that with a fast enough loader.",
            &[],
        ),
    ]
}

fn sheets(own: &Timing, timings: &mut Timings<'_>) -> Result<Vec<Sheet>, Error> {
    let time = &own.time;
    let phases = time.by_phase.iter().map(|(phase, part)| (of_phase(*phase), *part));
    let classes = time.by_class.iter().map(|(class, part)| (of_class(*class), *part));
    let launches = timings.launches(own.device)?;
    let named = |name: &str| match name {
        "" => phrase("none", &[]),
        name => Phrase::plain(name),
    };
    let modules = time.by_module.iter().map(|(id, part)| (named(launches.label(*id)), *part));
    let operators = time.by_operator.iter().map(|(id, part)| (named(launches.label(*id)), *part));
    let by_class = phrase("By kind of kernel", &[]);
    let modules = longest(modules.collect());
    let operators = longest(operators.collect());
    let mut sheets = vec![
        parts(phrase("Where the time goes", &[]), own, phases.collect()),
        parts(by_class, own, longest(classes.collect())),
        parts(phrase("Modules that take most", &[]), own, modules),
        parts(phrase("Operators that take most", &[]), own, operators),
    ];
    sheets.insert(1, gpus(own, timings)?);
    Ok(sheets)
}

/// Those that take most, the longest first.
fn longest(mut parts: Vec<(Phrase, Part)>) -> Vec<(Phrase, Part)> {
    parts.order_by_key(|(_, part)| Reverse(part.device));
    parts.truncate(LONGEST);
    parts
}

fn parts(title: Phrase, own: &Timing, parts: Vec<(Phrase, Part)>) -> Sheet {
    let all = Bytes(own.time.all.device.0);
    let longest = parts.iter().map(|(_, part)| part.device.0).max().unwrap_or(0);
    let row = |(name, part): (Phrase, Part)| Row {
        name,
        gpu: String::new(),
        bar: Bytes(part.device.0).parts_of(Bytes(longest), 1000),
        chosen: false,
        cells: vec![
            Phrase::plain(&part.device.to_string()),
            Phrase::plain(&format!("{}\u{a0}%", Bytes(part.device.0).parts_of(all, 100))),
            Phrase::plain(&grouped(part.kernels)),
            waits(own, &part),
        ],
    };
    let heads = [
        phrase("part", &[]),
        phrase("time", &[]),
        phrase("share", &[]),
        phrase("kernels", &[]),
        phrase("waits for", &[]),
    ];
    Sheet { title, heads: heads.into(), rows: parts.into_iter().map(row).collect() }
}

/// What a part waits for: the host where the step does and launches longer than the GPU computes, memory where half of
/// its bandwidth is used.
fn waits(own: &Timing, part: &Part) -> Phrase {
    if own.time.bound() == Bound::Launches && part.launch > part.device {
        return phrase("the host", &[]);
    }
    let moved = own.gpu.rates.bandwidth;
    let Picoseconds(device) = part.device;
    // GB/s are thousandths of a byte in a picosecond.
    let reach = u128::from(device) * u128::from(moved) / 1000;
    if u128::from(part.bytes.0) * 2 > reach || part.multiply_adds == 0 {
        return phrase("memory", &[]);
    }
    phrase("arithmetic", &[])
}

/// Every GPU with published rates, the fastest first.
fn gpus(own: &Timing, timings: &mut Timings<'_>) -> Result<Sheet, Error> {
    let mut all = Vec::new();
    for device in device::all().iter().filter(|device| device.rates().is_some()) {
        all.push(timings.on(device)?);
    }
    all.order_by_key(|timing| timing.time.step());
    let most = all.first().map_or(0, Timing::samples_per_second);
    let row = |timing: &Timing| Row {
        name: Phrase::plain(&timing.name()),
        gpu: timing.device.id.to_owned(),
        bar: Bytes(timing.samples_per_second()).parts_of(Bytes(most), 1000),
        chosen: timing.device.id == own.device.id,
        cells: vec![
            Phrase::plain(&timing.time.step().to_string()),
            Phrase::plain(&timing.rate()),
            Phrase::plain(&per_mille(timing.flop_utilisation())),
            of_bound(timing.time.bound()),
        ],
    };
    let heads = [
        phrase("GPU", &[]),
        phrase("step", &[]),
        phrase("samples/s", &[]),
        phrase("FLOP utilisation", &[]),
        phrase("waits for", &[]),
    ];
    let rows = all.iter().map(row).collect();
    Ok(Sheet { title: phrase("GPUs by speed", &[]), heads: heads.into(), rows })
}

fn of_bound(bound: Bound) -> Phrase {
    match bound {
        Bound::Arithmetic => phrase("arithmetic", &[]),
        Bound::Bandwidth => phrase("memory", &[]),
        Bound::Launches | Bound::Loader => phrase("the host", &[]),
        Bound::Network => phrase("other GPUs", &[]),
    }
}

fn of_phase(phase: Phase) -> Phrase {
    match phase {
        Phase::Setup => phrase("set-up", &[]),
        Phase::ZeroGrad => phrase("zero_grad", &[]),
        Phase::Forward => phrase("forward", &[]),
        Phase::Prefill => phrase("prefill", &[]),
        Phase::Decode => phrase("decode", &[]),
        Phase::Backward => phrase("backward", &[]),
        Phase::Optimizer => phrase("optimizer", &[]),
    }
}

fn of_class(class: Class) -> Phrase {
    match class {
        Class::Gemm => phrase("matrix products", &[]),
        Class::Convolution => phrase("convolutions", &[]),
        Class::Attention => phrase("attention in one kernel", &[]),
        Class::Elementwise => phrase("element by element", &[]),
        Class::Reduction => phrase("reductions", &[]),
        Class::Softmax => phrase("softmax", &[]),
        Class::Norm => phrase("normalisations", &[]),
        Class::Embedding => phrase("embeddings", &[]),
        Class::Foreach => phrase("over lists of tensors (foreach)", &[]),
        Class::Collective => phrase("communication between GPUs", &[]),
    }
}
