//! Prints how long a training step takes, by phase and by class of kernel.
//!
//! `cargo run --release -p highwater-core --example tools -- steps gpt2-large a100-40gb batch=4 seq=1024`
//!
//! The model is a name of the catalogue or a file. Settings are those of the command line; other names are
//! dimensions. `check TABLE` compares with `llm_steps_2023.csv` of tests/times: forward and backward on one GPU.
//! `timm FOLDER TABLE` does so with `rtx3090.csv` of tests/fixtures/measured, and `dump FOLDER TABLE` prints the
//! kernels of such steps. `published` prints those of `tests/fixtures/published/throughput.csv`. `list MODEL DEVICE …` prints every kernel.
#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]
#![expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    clippy::float_arithmetic,
    reason = "printed alone"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use highwater_core::config::Tf32;
use highwater_core::device::{self, Link, MemoryKind, Rates};
use highwater_core::eager::Launches;
use highwater_core::eager::launch::{Kernel, Launch};
use highwater_core::estimate::Stages;
use highwater_core::formats::catalogue;
use highwater_core::time::{Gpu, Machine, Part, StepTime};
use highwater_core::trace::Phase;
use highwater_core::{Config, Model};

use crate::{Result, published, settings};

/// Networks of the table: name there, in the catalogue, and its loss.
const NETWORKS: [(&str, &str); 2] =
    [("bert_large", "bert-large-uncased"), ("gpt2_large", "gpt2-large")];

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match *arguments {
        ["check", table] => check(&fs::read_to_string(table)?),
        ["timm", folder, table] => timm(Path::new(folder), &fs::read_to_string(table)?),
        ["published"] => dump_published(),
        ["dump", folder, table] => dump(Path::new(folder), &fs::read_to_string(table)?),
        ["list", model, device, ref settings @ ..] => {
            list(&launches(model, device, settings)?);
            Ok(())
        }
        [model, device, ref settings @ ..] => {
            let launches = launches(model, device, settings)?;
            print(&StepTime::of(&launches, Gpu::of(device::find(device)?)?));
            Ok(())
        }
        _ => Err("usage: steps MODEL DEVICE [name=value …]".into()),
    }
}

/// The kernels of a model under settings and dimensions.
fn launches(model: &str, device: &str, given: &[&str]) -> Result<Launches> {
    settings::launches(&open(model)?, device, given)
}

/// A model of the catalogue, or of a file.
fn open(name: &str) -> Result<Model> {
    if let Some(entry) = catalogue::find(name) {
        return Ok(highwater_core::open_named(&entry)?);
    }
    let mut bytes = Vec::new();
    fs::File::open(name)?.read_to_end(&mut bytes)?;
    let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    Ok(highwater_core::open(&mut bytes.as_slice(), &name)?)
}

fn print(time: &StepTime) {
    println!(
        "{:<12} {:>10} {:>10} {:>8} {:>12} {:>10}",
        "", "device ms", "launch ms", "kernels", "GFLOP", "GB"
    );
    let line = |name: &str, part: &Part| {
        println!(
            "{name:<12} {:>10.3} {:>10.3} {:>8} {:>12.1} {:>10.2}",
            part.device.0 as f64 / 1e9,
            part.launch.0 as f64 / 1e9,
            part.kernels,
            part.multiply_adds as f64 * 2.0 / 1e9,
            part.bytes.0 as f64 / 1e9
        );
    };
    line("all", &time.all);
    time.by_phase.iter().for_each(|(phase, part)| line(phase.name(), part));
    time.by_class.iter().for_each(|(class, part)| line(class.name(), part));
    time.by_bound.iter().for_each(|(bound, part)| line(bound.name(), part));
    line("not fitted", &time.unfitted);
    line("assumed", &time.assumed);
    let (least, most) = time.interval();
    let [step, least, most] = [time.step(), least, most].map(|time| time.0 as f64 / 1e9);
    println!("step {step:.3} ms, {least:.3} to {most:.3} ms, bound by {}", time.bound().name());
}

fn list(launches: &Launches) {
    for launch in &launches.list {
        println!(
            "{} {} {} {:?} {} x{}{}",
            launch.phase.name(),
            launches.label(launch.module),
            launches.label(launch.operator),
            launch.kernel,
            launch.dtype,
            launch.times,
            if launch.is_assumed() { " assumed" } else { "" }
        );
    }
}

/// Compares with whole training steps of timm's benchmark on an RTX 3090, under autocast.
fn timm(folder: &Path, table: &str) -> Result<()> {
    let gpu = Gpu::of(device::find("rtx-3090")?)?;
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let mut inside = 0;
    for row in rows(table) {
        let Some(launches) = timm_launches(folder, &row, "1.12")? else { continue };
        let time = StepTime::of(&launches, gpu);
        let (ours, measured) = (time.step().0 as f64 / 1e9, row["step_ms"].parse::<f64>()?);
        let off = (ours / measured - 1.0) * 100.0;
        println!(
            "{:<32} {:<5} {:>4} {ours:>8.1} of {measured:>8.1} {off:>+6.1}%",
            row["model"], row["layout"], row["batch"]
        );
        pairs.push((ours, measured));
        inside += usize::from(is_inside(&time, measured));
    }
    println!("{inside} of {} in the interval", pairs.len());
    let mut errors: Vec<f64> =
        pairs.iter().map(|(ours, truth)| (ours / truth - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at =
        |part: usize| errors.get(errors.len() * part / 10).copied().unwrap_or_default() * 100.0;
    println!("{} steps: median {:.1} %, 90 % {:.1} %", pairs.len(), at(5), at(9));
    println!("rank correlation {:.3}", rank_correlation(&pairs));
    Ok(())
}

/// Whether measured milliseconds lie in the interval.
fn is_inside(time: &StepTime, measured: f64) -> bool {
    let (least, most) = time.interval();
    (least.0 as f64 / 1e9..=most.0 as f64 / 1e9).contains(&measured)
}

/// The kernels of a training step of timm's benchmark, if its graph is in the folder.
fn timm_launches(
    folder: &Path,
    row: &BTreeMap<&str, &str>,
    pytorch: &str,
) -> Result<Option<Launches>> {
    let path = folder.join(format!("{}.onnx.gz", row["model"]));
    let Ok(file) = fs::File::open(&path) else { return Ok(None) };
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes)?;
    let model = highwater_core::open(&mut bytes.as_slice(), row["model"])?;
    let mut config = Config { ..model.defaults().clone() };
    config.choose_device("rtx-3090");
    let settings = [("precision", "amp-fp16"), ("optimizer", "sgd-momentum"), ("pytorch", pytorch)];
    for (name, value) in settings {
        config.set(name, value)?;
    }
    if row["layout"] == "nhwc" {
        config.set("memory-format", "channels-last")?;
    }
    if pytorch == "1.12" {
        // timm had no fused attention then.
        config.set("attention", "eager")?;
    }
    let batch = row["batch"].parse()?;
    for dim in model.open_dims().into_iter().filter(|dim| dim.batch) {
        config.dims.insert(dim.name, batch);
    }
    Ok(model.launches(&config).ok())
}

/// Prints the kernels of steps of timm's benchmark, equal ones counted, as `tests/times/networks.py` reads them.
fn dump(folder: &Path, table: &str) -> Result<()> {
    for row in rows(table) {
        let Some(launches) = timm_launches(folder, &row, row["pytorch"])? else { continue };
        println!("run,{},{},{},{}", row["model"], row["layout"], row["batch"], row["pytorch"]);
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for launch in &launches.list {
            *counted.entry(line(launches.label(launch.operator), launch)).or_default() +=
                launch.times;
        }
        for (line, count) in counted {
            println!("{line},{count}");
        }
    }
    Ok(())
}

/// What the formulas know of a GPU.
fn facts(gpu: Gpu) -> String {
    let (major, minor) = gpu.compute_capability;
    let rates = gpu.rates;
    format!(
        "{major}.{minor} {} {} {} {} {} {} {} {} {} {} {} {}",
        gpu.multiprocessors,
        gpu.threads_per_multiprocessor,
        rates.lanes,
        rates.base_mhz,
        rates.boost_mhz,
        rates.bandwidth,
        rates.l2_kib,
        rates.l1_kib,
        rates.watts,
        rates.half_flop,
        u8::from(rates.memory == MemoryKind::Hbm),
        u8::from(rates.corrects)
    )
}

/// Prints the kernels of published steps, equal ones counted, for trying formulas.
fn dump_published() -> Result<()> {
    let mut rows = published::Row::all()?;
    rows.retain(|row| matches!(row.left_out(), None | Some("loader")));
    rows.sort_by_key(|row| row.cell("model").to_owned());
    for rows in rows.chunk_by(|one, other| one.cell("model") == other.cell("model")) {
        let Some(Ok(model)) = rows.first().map(published::Row::open) else { continue };
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.run(&model).unwrap_or_default());
        let mut stages = Stages::default();
        for row in rows {
            let Ok((launches, timing)) = row.timing(&model, &mut stages) else { continue };
            println!(
                "run,{},{},{},{},{:?},{},{},{},{},{}",
                row.cell("id"),
                row.source(),
                timing.device.id,
                timing.gpu.rates.form,
                timing.gpu.tf32,
                row.chooses(),
                row.left_out().unwrap_or("clean"),
                row.milliseconds(&timing)?,
                published::ours(&timing),
                facts(timing.gpu),
            );
            let machine = Machine::of(timing.gpu);
            let mut counted: BTreeMap<String, u64> = BTreeMap::new();
            for launch in launches.of_steady() {
                let used = machine.uses(&launch.kernel, launch.dtype);
                let line = line(launches.label(launch.operator), launch);
                let host = machine.host_microseconds(launch);
                let line = format!(
                    "{line},{},{},{:.4},{host}",
                    launch.dtype, used.kernels, used.moving_us
                );
                *counted.entry(line).or_default() += launch.times;
            }
            for (line, count) in counted {
                println!("{line},{count}");
            }
        }
    }
    Ok(())
}

/// Phase, operator, bytes of an element, whether it is assumed, the kind of kernel and its sizes.
fn line(operator: &str, launch: &Launch) -> String {
    let sizes = match launch.kernel {
        Kernel::Gemm { batch, rows, inner, columns, batched } => {
            vec![batch, rows, inner, columns, batched.into()]
        }
        Kernel::Convolution(one) => vec![
            one.product as u64,
            one.batch,
            one.groups,
            one.inputs,
            one.outputs,
            one.input_positions,
            one.positions,
            one.taps,
            one.channels_last.into(),
        ],
        Kernel::Elementwise { read, written } | Kernel::Reduction { read, written } => {
            vec![read.0, written.0]
        }
        Kernel::Softmax { rows, width, inputs } | Kernel::Norm { rows, width, inputs } => {
            vec![rows, width, inputs]
        }
        Kernel::BatchNorm { channels, width, backward, channels_last } => {
            vec![channels, width, backward.into(), channels_last.into()]
        }
        Kernel::Embedding { rows, width, backward } => vec![rows, width, backward.into()],
        Kernel::Attention { batch, heads, queries, keys, width, causal, backward, .. } => {
            vec![batch, heads, queries, keys, width, causal.into(), backward.into()]
        }
        Kernel::Foreach { read, written, kernels, .. } => vec![read.0, written.0, kernels],
        Kernel::Collective(one) => vec![one.whole.0, one.group.ranks],
        Kernel::Wait(stream) => vec![stream.0.into()],
    };
    let is_batch_norm = matches!(launch.kernel, Kernel::BatchNorm { .. });
    let kind = if is_batch_norm { "batch_norm" } else { launch.kernel.class().name() };
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    format!(
        "{},{operator},{},{},{},{}",
        launch.phase.name(),
        launch.dtype.size().0,
        u64::from(launch.is_assumed()),
        kind,
        sizes.join(" ")
    )
}

/// Spearman's: the correlation of the places in both orders.
fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |values: Vec<f64>| -> Vec<f64> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        let mut ranks = vec![0.0; values.len()];
        for (rank, place) in order.into_iter().enumerate() {
            ranks[place] = rank as f64;
        }
        ranks
    };
    let (ours, truth) = pairs.iter().copied().unzip();
    let (ours, truth): (Vec<f64>, Vec<f64>) = (ranks(ours), ranks(truth));
    let off: f64 = ours.iter().zip(&truth).map(|(a, b)| (a - b) * (a - b)).sum();
    let count = pairs.len() as f64;
    1.0 - 6.0 * off / (count * (count * count - 1.0))
}

/// A table in CSV, a map for each row.
fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.map(|line| names.iter().copied().zip(line.split(',')).collect()).collect()
}

/// GPUs of `tests/times/devices.csv`, by their name in tables of steps.
fn gpus() -> Result<BTreeMap<String, Gpu>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/times/devices.csv");
    let text = fs::read_to_string(path)?;
    let mut all = BTreeMap::new();
    for row in rows(&text) {
        let number = |name: &str| -> Result<u32> { Ok(row[name].parse()?) };
        let (major, minor) = row["capability"].split_once('.').ok_or("no capability")?;
        let corrects = number("half_flop")? > 512 || major == "6";
        let memory = if row["memory"] == "HBM" { MemoryKind::Hbm } else { MemoryKind::Gddr };
        let gpu = Gpu {
            compute_capability: (major.parse()?, minor.parse()?),
            multiprocessors: number("multiprocessors")?.into(),
            threads_per_multiprocessor: number("threads")?.into(),
            rates: Rates {
                form: "",
                base_mhz: number("base_mhz")?,
                boost_mhz: number("boost_mhz")?,
                bandwidth: number("bandwidth_gbs")?,
                memory,
                corrects,
                l2_kib: number("l2_kib")?,
                l1_kib: number("l1_kib")?,
                lanes: number("lanes")?,
                watts: number("watts")?,
                half_flop: number("half_flop")?,
                // One GPU sends nothing.
                link: Link::PCIE_4,
            },
            tf32: Tf32::Convolutions,
        };
        all.insert(row["step_name"].to_owned(), gpu);
    }
    Ok(all)
}

/// Compares with measured steps: forward and backward.
fn check(table: &str) -> Result<()> {
    let gpus = gpus()?;
    let mut errors = Vec::new();
    let mut inside = 0;
    for row in rows(table) {
        let network = NETWORKS.iter().find(|(name, _)| *name == row["model"]);
        let (Some((name, id)), Some(gpu)) = (network, gpus.get(row["device"])) else { continue };
        if row["mode"] != "train" || !row["option"].is_empty() {
            continue;
        }
        let (batch, length) = (format!("batch={}", row["batch"]), format!("seq={}", row["seq"]));
        let settings =
            [batch.as_str(), length.as_str(), "attention=eager", "precision=fp32", "pytorch=2.8"];
        let mut launches = launches(id, "a100-40gb", &settings)?;
        let times = [&[Phase::Forward, Phase::Backward][..], &[Phase::Forward], &[Phase::Backward]];
        let all = launches.list.clone();
        let predicted = times.map(|phases| {
            launches.list = all.iter().filter(|one| phases.contains(&one.phase)).cloned().collect();
            let time = StepTime::of(&launches, *gpu);
            (time.step().0 as f64 / 1e9, time)
        });
        let measured = ["ms", "forward_ms", "backward_ms"].map(|column| row[column].parse::<f64>());
        let [whole, forward, backward] = measured;
        let measured = [whole?, forward?, backward?];
        print!("{name:<12} {:>3}x{:<5} {:<18}", row["batch"], row["seq"], row["device"]);
        for ((ms, _), measured) in predicted.iter().zip(measured) {
            print!(" {ms:>8.1} of {measured:>8.1} {:>+6.1}%", (ms / measured - 1.0) * 100.0);
        }
        let [(whole_ms, time), ..] = predicted;
        println!(
            " {:>5} kernels {:>8.1} G multiply-adds",
            time.all.kernels,
            time.all.multiply_adds as f64 / 1e9
        );
        inside += usize::from(is_inside(&time, measured[0]));
        errors.push((whole_ms / measured[0] - 1.0).abs() * 100.0);
    }
    errors.sort_by(f64::total_cmp);
    println!("median {:.1} %, of {} steps", errors[errors.len() / 2], errors.len());
    println!("{inside} of {} in the interval", errors.len());
    Ok(())
}
