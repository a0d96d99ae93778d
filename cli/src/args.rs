//! What may stand on the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use highwater_core::{Config, Optimizer, device};

/// Will this training run fit on that GPU, and what sets the high-water mark?
///
/// Predicts the GPU memory of a PyTorch training step from an ONNX file. No GPU, no PyTorch and no
/// weights are needed; the file is read where it lies.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  highwater estimate resnet50.onnx --dim batch=32
  highwater estimate gpt2.onnx --dim batch=8 --dim seq=1024 --optimizer adam --json
  highwater estimate gpt2.onnx --dim batch=8 --require t4 || echo 'take a larger card'";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Estimate the memory of training a model
    Estimate(Estimate),
    /// Print the operators that are known
    Operators,
    /// Print the GPUs that are known, and what PyTorch may use of each
    Devices,
}

/// A model and how it is trained.
#[derive(Args, Debug)]
#[command(after_help = STATUS)]
pub(crate) struct Estimate {
    /// ONNX file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,

    /// Size of an open dimension of the model, such as `batch=32`; may be repeated
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, u64)>,

    /// Optimizer
    #[arg(long, value_name = "NAME", default_value_t = Config::default().optimizer, value_parser = optimizer())]
    pub(crate) optimizer: Optimizer,

    /// GPU whose kernels the run is assumed to use; `highwater devices` prints them
    #[arg(long, value_name = "DEVICE", default_value_t = Config::default().device, value_parser = devices(), hide_possible_values = true)]
    pub(crate) device: String,

    /// Exit with status 1 unless training fits on this GPU; may be repeated
    #[arg(long, value_name = "DEVICE", value_parser = devices(), hide_possible_values = true)]
    pub(crate) require: Vec<String>,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

const STATUS: &str = "\
Exit status:
  0  the estimate was made
  1  training does not fit on a GPU that --require names
  2  bad use or input";

fn optimizer() -> impl TypedValueParser<Value = Optimizer> {
    PossibleValuesParser::new(Optimizer::ALL.map(Optimizer::name))
        .try_map(|name| name.parse::<Optimizer>())
}

fn devices() -> PossibleValuesParser {
    PossibleValuesParser::new(device::all().iter().map(|device| device.id))
}

/// The name may contain `=`: the size stands behind the last one.
fn dim(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.rsplit_once('=').ok_or("write NAME=N, such as batch=32")?;
    let size = size.parse().map_err(|error| format!("the size `{size}` of `{name}`: {error}"))?;
    Ok((name.to_owned(), size))
}
