//! Prints the kernels of training steps, a line each, for `tests/times/utilisation.py`.
//!
//! `cargo run --release -p highwater-core --example tools -- launches mlp tests/fixtures/measured/mlp.csv`
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

use std::fs;
use std::io::Read as _;

use highwater_core::device;
use highwater_core::eager::Launches;
use highwater_core::eager::launch::Kernel;
use highwater_core::tensor::DType;
use highwater_core::time::{Gpu, Machine};

use crate::Result;
use crate::perceptron::perceptron;
use crate::settings::launches;

const DEVICE: &str = "a100-40gb";
/// The loop of the perceptrons.
const LOOP: [&str; 3] = ["precision=fp32", "optimizer=adam", "pytorch=2.8"];

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let gpu = Gpu::of(device::find(DEVICE)?)?;
    let machine = Machine::of(gpu);
    match *arguments {
        ["mlp", table] => {
            for (number, line) in fs::read_to_string(table)?.lines().skip(1).enumerate() {
                let (spec, batch) = perceptron(line)?;
                let spec = spec + "  - softmax\n";
                let model = highwater_core::open(&mut spec.as_bytes(), "mlp.yaml")?;
                let batch = format!("N={batch}");
                let settings: Vec<&str> = LOOP.into_iter().chain([batch.as_str()]).collect();
                print(&number.to_string(), &launches(&model, DEVICE, &settings)?, &machine);
            }
        }
        ["model", name, path, ref settings @ ..] => {
            let mut file = Vec::new();
            fs::File::open(path)?.read_to_end(&mut file)?;
            let file_name = path.rsplit('/').next().unwrap_or(path);
            let model = highwater_core::open(&mut file.as_slice(), file_name)?;
            print(name, &launches(&model, DEVICE, settings)?, &machine);
        }
        ["grids", table] => grids(&fs::read_to_string(table)?, gpu, &machine)?,
        _ => {
            return Err(
                "usage: launches mlp TABLE, model NAME FILE [name=value …], grids TABLE".into()
            );
        }
    }
    Ok(())
}

fn print(name: &str, launches: &Launches, machine: &Machine) {
    println!("run {name}");
    for launch in &launches.list {
        let uses = machine.uses(&launch.kernel, launch.dtype);
        let tensors = if let Kernel::Foreach { tensors, .. } = launch.kernel { tensors } else { 0 };
        println!(
            "{} {} {} {} {} {:.3} {:.4} {:.4} {:.3} {:.3} {:.3}",
            launch.phase.name(),
            launch.kernel.class().name(),
            launch.times,
            tensors,
            uses.kernels,
            machine.microseconds(launch),
            uses.share,
            uses.occupancy,
            uses.moving_us,
            uses.tensor_us,
            uses.dram_us
        );
    }
}

/// Compares the share of busy multiprocessors with that of the measured grids: products on A100, not batched.
fn grids(table: &str, gpu: Gpu, machine: &Machine) -> Result<()> {
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
        off += (machine.uses(&kernel, DType::Float32).share - waves / waves.ceil()).abs();
        count += 1;
    }
    println!(
        "{count} products: the share of busy multiprocessors is off by {:.3}",
        off / f64::from(count)
    );
    Ok(())
}
