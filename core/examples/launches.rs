//! Prints the kernels of training steps, a line each, for `tests/times/utilisation.py`.
//!
//! `cargo run --release -p highwater-core --example launches -- mlp tests/fixtures/measured/mlp.csv`
//!
//! A line of `mlp.csv` is a perceptron; its number is its name. `model NAME FILE setting=value …` prints the kernels
//! of one model, whose dimensions are settings too. A run begins with the line `run NAME`. Each further line is a
//! kernel on an A100: the phase, the class, how often it runs, tensors of a list, kernels that it consists of,
//! microseconds, the shares of multiprocessors and of warps that it uses, and microseconds in which those
//! multiprocessors move its bytes, tensor cores multiply at their peak, and DRAM moves its bytes at its bandwidth.
//!
//! `grids kernels_2023.csv` compares the blocks of measured products on A100 with ours.
#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]
#![expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    clippy::float_arithmetic,
    reason = "printed alone"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;

use highwater_core::config::SETTINGS;
use highwater_core::device;
use highwater_core::eager::Launches;
use highwater_core::eager::launch::Kernel;
use highwater_core::tensor::DType;
use highwater_core::time::{self, Gpu, Use};
use highwater_core::{Config, Model};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DEVICE: &str = "a100-40gb";
/// The loop of the perceptrons.
const LOOP: [&str; 3] = ["precision=fp32", "optimizer=adam", "pytorch=2.8"];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let gpu = Gpu::of(device::find(DEVICE)?)?;
    match *words.as_slice() {
        ["mlp", table] => {
            for (number, line) in fs::read_to_string(table)?.lines().skip(1).enumerate() {
                let (spec, batch) = perceptron(line)?;
                let model = highwater_core::open(&mut spec.as_bytes(), "mlp.yaml")?;
                let batch = format!("N={batch}");
                let settings: Vec<&str> = LOOP.into_iter().chain([batch.as_str()]).collect();
                print(&number.to_string(), &launches(&model, &settings)?, gpu);
            }
        }
        ["model", name, path, ref settings @ ..] => {
            let mut file = Vec::new();
            fs::File::open(path)?.read_to_end(&mut file)?;
            let file_name = path.rsplit('/').next().unwrap_or(path);
            let model = highwater_core::open(&mut file.as_slice(), file_name)?;
            print(name, &launches(&model, settings)?, gpu);
        }
        ["grids", table] => grids(&fs::read_to_string(table)?, gpu)?,
        _ => {
            return Err(
                "usage: launches mlp TABLE, model NAME FILE [name=value …], grids TABLE".into()
            );
        }
    }
    Ok(())
}

/// The kernels of a model on an A100 under settings and dimensions.
fn launches(model: &Model, settings: &[&str]) -> Result<Launches> {
    let mut config = Config { ..model.defaults().clone() };
    config.choose_device(DEVICE);
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("a setting is name=value")?;
        if SETTINGS.iter().any(|setting| setting.name == name) {
            config.set(name, value)?;
        } else {
            config.dims.insert(name.to_owned(), value.parse()?);
        }
    }
    Ok(model.launches(&config)?)
}

/// The layer spec of a perceptron, and its batch.
fn perceptron(line: &str) -> Result<(String, u64)> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[inputs, widths, activation, norm, dropout, batch, ..] = cells.as_slice() else {
        return Err(format!("`{line}` is no perceptron").into());
    };
    let mut spec = format!("input: [N, {inputs}]\nlayers:\n");
    let widths: Vec<&str> = widths.split(' ').collect();
    for (at, width) in widths.iter().enumerate() {
        writeln!(spec, "  - linear: {width}")?;
        if at + 1 == widths.len() {
            break;
        }
        let between = [
            (norm == "yes").then_some("batchnorm1d"),
            Some(activation).filter(|name| *name != "Identity"),
            (dropout == "yes").then_some("dropout"),
        ];
        for layer in between.into_iter().flatten() {
            writeln!(spec, "  - {}", layer.to_ascii_lowercase())?;
        }
    }
    writeln!(spec, "  - softmax")?;
    Ok((spec, batch.parse()?))
}

fn print(name: &str, launches: &Launches, gpu: Gpu) {
    println!("run {name}");
    for launch in &launches.list {
        let uses = Use::of(&launch.kernel, launch.dtype, gpu);
        let tensors = if let Kernel::Foreach { tensors, .. } = launch.kernel { tensors } else { 0 };
        println!(
            "{} {} {} {} {} {:.3} {:.4} {:.4} {:.3} {:.3} {:.3}",
            launch.phase.name(),
            launch.kernel.class().name(),
            launch.times,
            tensors,
            uses.kernels,
            time::microseconds(launch, gpu),
            uses.share,
            uses.occupancy,
            uses.moving_us,
            uses.tensor_us,
            uses.dram_us
        );
    }
}

/// Compares the share of busy multiprocessors with that of the measured grids: products on A100, not batched.
fn grids(table: &str, gpu: Gpu) -> Result<()> {
    let (mut count, mut off) = (0_u32, 0.0);
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let &["linear", device, _, m, n, k, _, _, _, grid, _] = cells.as_slice() else { continue };
        if !device.starts_with("A100") {
            continue;
        }
        let (rows, inner, columns) = (m.parse()?, n.parse()?, k.parse()?);
        let kernel = Kernel::Gemm { batch: 1, rows, inner, columns, batched: false };
        let sides: std::result::Result<Vec<f64>, _> = grid.split('x').map(str::parse).collect();
        let waves = sides?.iter().product::<f64>() / gpu.multiprocessors as f64;
        off += (Use::of(&kernel, DType::Float32, gpu).share - waves / waves.ceil()).abs();
        count += 1;
    }
    println!(
        "{count} products: the share of busy multiprocessors is off by {:.3}",
        off / f64::from(count)
    );
    Ok(())
}
