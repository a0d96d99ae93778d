//! What may stand on the command line.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Parser, Subcommand};
use highwater_core::config::{
    Attention, Checkpoint, Config, Implementation, InPlace, LoopStyle, LossChoice, MemoryFormat,
    Optimizer, Precision, PyTorch, Recover, ZeroGrad,
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
/// Predicts the GPU memory of a PyTorch training step from an ONNX file or a layer spec. No GPU, no
/// PyTorch and no weights are needed; the file is read where it lies.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  highwater estimate resnet50.onnx --dim batch=32
  highwater estimate model.yaml --dim N=64
  highwater estimate gpt2.onnx --dim batch=8 --dim seq=1024 --optimizer adam --json
  highwater estimate gpt2.onnx --dim batch=8 --require t4 || echo 'take a larger card'
  highwater advise gpt2.onnx --dim batch=16 --dim seq=1024 --fit t4
  highwater explain gpt2.onnx --dim batch=8 < error.log
  nvidia-smi | highwater explain
  highwater replay snapshot.pickle --alloc-conf max_split_size_mb:256
  highwater replay trace.json.gz --device t4
  highwater estimate resnet18.onnx --dim batch=8 --compare snapshot.pickle";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Estimate the memory of training a model
    Estimate(Estimate),
    /// Tell what sets the peak, what would help, and the least that makes training fit
    Advise(Advise),
    /// Explain an out-of-memory message or the output of `nvidia-smi`
    Explain(Explain),
    /// Read a memory snapshot of PyTorch's, or a profiler trace from a CPU: its peaks on a GPU
    Replay(Replay),
    /// Print what is loaded as a layer spec, to be changed by hand
    Spec(Spec),
    /// Print the JSON Schema of the layer spec, for editors
    Schema,
    /// Print the operators that are known
    Operators,
    /// Print the GPUs that are known, and what PyTorch may use of each
    Devices,
}

/// A model and how it is trained.
#[derive(Args, Debug)]
#[command(after_help = STATUS)]
pub(crate) struct Estimate {
    /// ONNX file or text, `torch.export` archive, safetensors, layer spec, `config.json`, Keras model, or
    /// the text of `print(model)`, torchinfo or torchsummary; the content tells which
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

    /// Write a report in Markdown; `-` prints it instead of the one for people
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Write a trace for ui.perfetto.dev: counters, phases, operators; `-` prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Draw the timeline as an SVG; `-` prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,

    /// Write the run as a memory snapshot, for PyTorch's own viewer of memory
    #[arg(long, value_name = "FILE", value_parser = snapshot)]
    pub(crate) snapshot: Option<PathBuf>,

    /// Compare with what was recorded of the same training, phase by phase: a memory snapshot of PyTorch's,
    /// or a profiler trace from a CPU
    #[arg(long, alias = "beside", value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,

    /// Write a table as CSV: `timeline`, `tensors` (at the peak) or `devices`; may be repeated; `-`
    /// prints it
    #[arg(long, value_name = "TABLE=FILE", value_parser = table)]
    pub(crate) csv: Vec<(Table, PathBuf)>,
}

/// A table that can be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Table {
    /// The samples of the timeline.
    Timeline,
    /// The tensors alive at the peak.
    Tensors,
    /// How the run ends on every device.
    Devices,
}

/// A model, and the GPU that it shall fit on.
#[derive(Args, Debug)]
pub(crate) struct Advise {
    /// Model, as for `estimate`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,

    /// Size of an open dimension of the model, such as `batch=32`; may be repeated
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, u64)>,

    #[command(flatten)]
    pub(crate) training: Training,

    /// GPU that it shall fit on; else the one that `--device` names
    #[arg(long, value_name = "DEVICE", value_parser = devices(), hide_possible_values = true)]
    pub(crate) fit: Option<String>,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// A message, and the model that was trained when it appeared.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Model: find the allocation that failed in its training step
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

/// A memory snapshot, or a trace of the profiler's.
#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// Pickle that `torch.cuda.memory._dump_snapshot` wrote (it is read as data and executes nothing), or
    /// a trace that `torch.profiler` exported of training on the CPU, `.json` or `.json.gz`
    #[arg(value_name = "FILE")]
    pub(crate) snapshot: PathBuf,

    /// Settings of the allocator to try, as in `PYTORCH_CUDA_ALLOC_CONF`; else some that often help
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) alloc_conf: Option<String>,

    /// Id of the GPU that a trace from the CPU is replayed on
    #[arg(long, value_name = "ID", default_value = "a100-80gb", value_parser = devices(), hide_possible_values = true)]
    pub(crate) device: String,

    /// Number of the GPU in a snapshot; else the one with the longest history
    #[arg(long, value_name = "N")]
    pub(crate) gpu: Option<usize>,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// A model whose format is a tree of layers.
#[derive(Args, Debug)]
pub(crate) struct Spec {
    /// Layer spec, Keras model, or printed model
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
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

    /// Which of transformers' attentions runs, where a configuration is read
    #[arg(long, value_name = "NAME", default_value_t = Config::default().attention, value_parser = choice!(Attention))]
    pub(crate) attention: Attention,

    /// Version of PyTorch: 2.15, 2.9 (to 2.14) or 2.8 (and before)
    #[arg(long, value_name = "VERSION", default_value_t = Config::default().pytorch, value_parser = choice!(PyTorch))]
    pub(crate) pytorch: PyTorch,

    /// Whether activations overwrite their input; `auto` follows torchvision's models
    #[arg(long, value_name = "WHETHER", default_value_t = Config::default().in_place, value_parser = choice!(InPlace))]
    pub(crate) in_place: InPlace,

    /// Whether what the exporter removed or took apart is put together again
    #[arg(long, value_name = "WHETHER", default_value_t = Config::default().recover, value_parser = choice!(Recover))]
    pub(crate) recover: Recover,

    /// GPU whose kernels the run is assumed to use; `highwater devices` prints them
    #[arg(long, value_name = "DEVICE", default_value_t = Config::default().device, value_parser = devices(), hide_possible_values = true)]
    pub(crate) device: String,

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
    /// The configuration that the arguments describe: what the command line says, else what the model
    /// suggests.
    pub(crate) fn config(&self, matches: &ArgMatches, defaults: &Config) -> Config {
        self.training.config(&self.dims, matches.subcommand_matches("estimate"), defaults)
    }
}

impl Advise {
    /// The same.
    pub(crate) fn config(&self, matches: &ArgMatches, defaults: &Config) -> Config {
        self.training.config(&self.dims, matches.subcommand_matches("advise"), defaults)
    }
}

impl Explain {
    /// The same, where more is known of the machine.
    pub(crate) fn config(&self, matches: &ArgMatches, defaults: &Config) -> Config {
        self.training.config(&self.dims, matches.subcommand_matches("explain"), defaults)
    }
}

impl Training {
    fn config(
        &self,
        dims: &[(String, u64)],
        matches: Option<&ArgMatches>,
        defaults: &Config,
    ) -> Config {
        let training = self;
        let said = Said(matches);
        let list = |said: &[String], suggested: &[String]| {
            if said.is_empty() { suggested.to_vec() } else { said.to_vec() }
        };
        Config {
            dims: dims.iter().cloned().collect(),
            precision: said.or("precision", training.precision, defaults.precision),
            memory_format: if training.channels_last {
                MemoryFormat::ChannelsLast
            } else {
                said.or("memory_format", training.memory_format, defaults.memory_format)
            },
            optimizer: said.or("optimizer", training.optimizer, defaults.optimizer),
            optimizer_impl: said.or(
                "optimizer_impl",
                training.optimizer_impl,
                defaults.optimizer_impl,
            ),
            weight_decay: training.weight_decay || defaults.weight_decay,
            clip_grad_norm: training.clip_grad_norm || defaults.clip_grad_norm,
            ema: training.ema || defaults.ema,
            zero_grad: said.or("zero_grad", training.zero_grad, defaults.zero_grad),
            loop_style: said.or("loop_style", training.loop_style, defaults.loop_style),
            checkpoint: said.or("checkpoint", training.checkpoint, defaults.checkpoint),
            accumulate: said.or("accumulate", training.accumulate, defaults.accumulate),
            freeze: list(&training.freeze, &defaults.freeze),
            lora: list(&training.lora, &defaults.lora),
            lora_rank: said.or("lora_rank", training.lora_rank, defaults.lora_rank),
            loss: said.or("loss", training.loss, defaults.loss),
            attention: said.or("attention", training.attention, defaults.attention),
            pytorch: said.or("pytorch", training.pytorch, defaults.pytorch),
            in_place: said.or("in_place", training.in_place, defaults.in_place),
            recover: said.or("recover", training.recover, defaults.recover),
            device: said.or("device", training.device.clone(), defaults.device.clone()),
            capacity: training.capacity.or(defaults.capacity),
            other_processes: training.other_processes.unwrap_or(defaults.other_processes),
            context: training.context.or(defaults.context),
            allowed: training.allowed.or(defaults.allowed),
            alloc_conf: training.alloc_conf.clone().unwrap_or_else(|| defaults.alloc_conf.clone()),
        }
    }
}

/// What of the arguments the command line has, and what clap filled in.
struct Said<'a>(Option<&'a ArgMatches>);

impl Said<'_> {
    fn or<T>(&self, argument: &str, said: T, suggested: T) -> T {
        let source = self.0.and_then(|matches| matches.value_source(argument));
        if source == Some(ValueSource::CommandLine) { said } else { suggested }
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

fn snapshot(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("a snapshot is no text to print: name a file, such as out.pickle".to_owned()),
        file => Ok(PathBuf::from(file)),
    }
}

fn table(text: &str) -> Result<(Table, PathBuf), String> {
    let (table, file) = text.split_once('=').ok_or("write TABLE=FILE, such as devices=gpus.csv")?;
    let table = match table {
        "timeline" => Table::Timeline,
        "tensors" => Table::Tensors,
        "devices" => Table::Devices,
        _ => {
            return Err(format!(
                "there is no table `{table}`; choose timeline, tensors or devices"
            ));
        }
    };
    Ok((table, PathBuf::from(file)))
}

/// The name may contain `=`: the size stands behind the last one.
fn dim(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.rsplit_once('=').ok_or("write NAME=N, such as batch=32")?;
    let size = size.parse().map_err(|error| format!("the size `{size}` of `{name}`: {error}"))?;
    Ok((name.to_owned(), size))
}
