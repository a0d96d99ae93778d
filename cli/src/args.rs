//! What may stand on the command line.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand};
use highwater_core::config::{
    Checkpoint, Config, Implementation, InPlace, LoopStyle, LossChoice, MemoryFormat, Optimizer,
    Precision, PyTorch, Recover, ZeroGrad,
};
use highwater_core::{Bytes, device};

/// Reads one of an enum's names.
macro_rules! choice {
    ($type:ty) => {
        PossibleValuesParser::new(
            <$type>::ALL
                .iter()
                .map(|choice| PossibleValue::new(choice.name()).help(choice.about())),
        )
        .try_map(|name| name.parse::<$type>())
    };
}

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
  highwater estimate gpt2.onnx --dim batch=8 --require t4 || echo 'take a larger card'
  highwater explain gpt2.onnx --dim batch=8 < error.log
  nvidia-smi | highwater explain";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Estimate the memory of training a model
    Estimate(Estimate),
    /// Explain an out-of-memory message or the output of `nvidia-smi`
    Explain(Explain),
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

    #[command(flatten)]
    pub(crate) training: Training,

    /// Exit with status 1 unless training fits on this GPU; may be repeated
    #[arg(long, value_name = "DEVICE", value_parser = devices(), hide_possible_values = true)]
    pub(crate) require: Vec<String>,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// A message, and the model that was trained when it appeared.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// ONNX file: find the allocation that failed in its training step
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// File with the message, or a whole log with it; else it is read from standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) message: Option<PathBuf>,

    /// Size of an open dimension of the model, such as `batch=32`; may be repeated
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, u64)>,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// How PyTorch is told to train.
#[derive(Args, Debug)]
#[command(next_help_heading = "Training")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Training {
    /// Number format of parameters and of arithmetic
    #[arg(long, value_name = "NAME", default_value_t = Config::default().precision, value_parser = choice!(Precision))]
    pub(crate) precision: Precision,

    /// Order in which images and the kernels that read them lie in memory
    #[arg(long, value_name = "NAME", default_value_t = Config::default().memory_format, value_parser = choice!(MemoryFormat))]
    pub(crate) memory_format: MemoryFormat,

    /// Short for `--memory-format channels-last`
    #[arg(long, conflicts_with = "memory_format")]
    pub(crate) channels_last: bool,

    /// Optimizer
    #[arg(long, value_name = "NAME", default_value_t = Config::default().optimizer, value_parser = choice!(Optimizer))]
    pub(crate) optimizer: Optimizer,

    /// How the optimizer walks over the parameters
    #[arg(long, value_name = "NAME", default_value_t = Config::default().optimizer_impl, value_parser = choice!(Implementation))]
    pub(crate) optimizer_impl: Implementation,

    /// Decay weights where the optimizer leaves that off by default
    #[arg(long)]
    pub(crate) weight_decay: bool,

    /// Clip the norm of all gradients before the step
    #[arg(long)]
    pub(crate) clip_grad_norm: bool,

    /// Keep a moving average of the parameters beside them
    #[arg(long)]
    pub(crate) ema: bool,

    /// Where gradients are dropped
    #[arg(long, value_name = "WHERE", default_value_t = Config::default().zero_grad, value_parser = choice!(ZeroGrad))]
    pub(crate) zero_grad: ZeroGrad,

    /// Whether the step is a function, so that logits and loss die when it returns
    #[arg(long = "loop", value_name = "STYLE", default_value_t = Config::default().loop_style, value_parser = choice!(LoopStyle))]
    pub(crate) loop_style: LoopStyle,

    /// Activation checkpointing: `none`, `blocks`, or N for every Nth block
    #[arg(long, value_name = "WHAT", default_value_t = Config::default().checkpoint)]
    pub(crate) checkpoint: Checkpoint,

    /// Batches per optimizer step
    #[arg(long, value_name = "N", default_value_t = Config::default().accumulate)]
    pub(crate) accumulate: NonZeroU64,

    /// Parameters that are not trained: `layer1`, `*.embeddings`; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) freeze: Vec<String>,

    /// Linear layers that get low-rank adapters, nothing else being trained: `q_proj`, or a module's
    /// path; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) lora: Vec<String>,

    /// Rank of these adapters
    #[arg(long, value_name = "N", default_value_t = Config::default().lora_rank)]
    pub(crate) lora_rank: NonZeroU64,

    /// What the outputs are compared with
    #[arg(long, value_name = "NAME", default_value_t = Config::default().loss, value_parser = choice!(LossChoice))]
    pub(crate) loss: LossChoice,

    /// Version of PyTorch: 2.15, 2.9 (to 2.14) or 2.8 (and before) [default: 2.15]
    #[arg(long, value_name = "VERSION", value_parser = choice!(PyTorch))]
    pub(crate) pytorch: Option<PyTorch>,

    /// Whether activations overwrite their input; `auto` follows torchvision's models
    #[arg(long, value_name = "WHETHER", default_value_t = Config::default().in_place, value_parser = choice!(InPlace))]
    pub(crate) in_place: InPlace,

    /// Whether what the exporter removed or took apart is put together again
    #[arg(long, value_name = "WHETHER", default_value_t = Config::default().recover, value_parser = choice!(Recover))]
    pub(crate) recover: Recover,

    /// GPU whose kernels the run is assumed to use; `highwater devices` prints them [default: a100-80gb]
    #[arg(long, value_name = "DEVICE", value_parser = devices(), hide_possible_values = true)]
    pub(crate) device: Option<String>,

    /// Total memory of that GPU as PyTorch reports it, such as `23.64GiB`
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<Bytes>,

    /// What other processes hold of it
    #[arg(long, value_name = "SIZE")]
    pub(crate) other_processes: Option<Bytes>,

    /// CUDA context and libraries of the training process there
    #[arg(long, value_name = "SIZE")]
    pub(crate) context: Option<Bytes>,

    /// What the process may reserve, under `set_per_process_memory_fraction`
    #[arg(long, value_name = "SIZE")]
    pub(crate) allowed: Option<Bytes>,

    /// Settings of the allocator, as in `PYTORCH_CUDA_ALLOC_CONF`
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) alloc_conf: Option<String>,
}

impl Estimate {
    /// The configuration that the arguments describe.
    pub(crate) fn config(&self) -> Config {
        self.training.config(&self.dims, Config::default())
    }
}

impl Training {
    /// The configuration that the arguments describe; of the machine, `known` is taken where they
    /// say nothing.
    pub(crate) fn config(&self, dims: &[(String, u64)], known: Config) -> Config {
        let training = self;
        Config {
            dims: dims.iter().cloned().collect(),
            precision: training.precision,
            memory_format: if training.channels_last {
                MemoryFormat::ChannelsLast
            } else {
                training.memory_format
            },
            optimizer: training.optimizer,
            optimizer_impl: training.optimizer_impl,
            weight_decay: training.weight_decay,
            clip_grad_norm: training.clip_grad_norm,
            ema: training.ema,
            zero_grad: training.zero_grad,
            loop_style: training.loop_style,
            checkpoint: training.checkpoint,
            accumulate: training.accumulate,
            freeze: training.freeze.clone(),
            lora: training.lora.clone(),
            lora_rank: training.lora_rank,
            loss: training.loss,
            pytorch: training.pytorch.unwrap_or(known.pytorch),
            in_place: training.in_place,
            recover: training.recover,
            device: training.device.clone().unwrap_or(known.device),
            capacity: training.capacity.or(known.capacity),
            other_processes: training.other_processes.unwrap_or(known.other_processes),
            context: training.context.or(known.context),
            allowed: training.allowed.or(known.allowed),
            alloc_conf: training.alloc_conf.clone().unwrap_or(known.alloc_conf),
        }
    }
}

const STATUS: &str = "\
Exit status:
  0  the estimate was made
  1  training does not fit on a GPU that --require names
  2  bad use or input";

fn devices() -> PossibleValuesParser {
    PossibleValuesParser::new(device::all().iter().map(|device| device.id))
}

/// The name may contain `=`: the size stands behind the last one.
fn dim(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.rsplit_once('=').ok_or("write NAME=N, such as batch=32")?;
    let size = size.parse().map_err(|error| format!("the size `{size}` of `{name}`: {error}"))?;
    Ok((name.to_owned(), size))
}
