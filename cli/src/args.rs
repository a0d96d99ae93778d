//! The arguments of the command line.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::{IntErrorKind, NonZeroU32, NonZeroU64, NonZeroUsize, ParseIntError};
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use highwater_core::config::{Kind, Named, PyTorch, SETTINGS, Setting};
use highwater_core::report::DeviceVerdict;
use highwater_core::serving::{Engine, Format, KvType, Release, Sampler, Share};
use highwater_core::sharing::policy::{self, Policy};
use highwater_core::sharing::slowdown::Mode;
use highwater_core::{Config, Error, ErrorKind, Model, device, say, serving};

/// Estimate how much GPU memory training a PyTorch model takes, and which GPUs it fits on.
///
/// It needs a model file, a layer spec or the name of a published model, but no GPU, no PyTorch and no weights. Files
/// stay on this machine.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Task,
}

const EXAMPLES: &str = "\
Examples:
  highwater estimate llama-3.1-8b --optimizer adamw-8bit --require a100-80gb
  highwater estimate resnet50.onnx --batch 32
  highwater estimate unet.yaml --batch 64 --dim height=384
  highwater estimate gpt2.onnx --batch 8 --seq 1024 --optimizer adam --json
  highwater estimate axolotl.yaml --device rtx-4090
  highwater estimate gpt2.onnx --batch 8 --require t4 || echo 'use a larger GPU'
  highwater advise gpt2.onnx --batch 16 --seq 1024 --fit t4
  highwater explain gpt2.onnx --batch 8 < error.log
  nvidia-smi | highwater explain
  highwater replay snapshot.pickle --alloc-conf max_split_size_mb:256
  highwater replay trace.json.gz --device t4
  highwater estimate resnet18.onnx --batch 8 --compare snapshot.pickle
  highwater compare resnet50 --batch 64
  highwater scale llama-3.1-8b --seq 4096 --device a100-80gb
  highwater share 'resnet50 --batch 32' 'gpt2 --batch 4' --device a100-40gb
  highwater scoreboard runs.csv --device rtx-3090
  highwater capacity qwen2.5-32b-awq --context 16k --device rtx-4090
  highwater serve --listen 127.0.0.1:8080
  highwater estimate resnet50 --batch 64 --device t4 --plot
  highwater open resnet50.onnx --batch 64";

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Estimate the memory of training a model
    Estimate(Estimate),
    /// Show what sets the peak, what would lower it, and the smallest change that fits
    Advise(Advise),
    /// Explain an out-of-memory message or the output of `nvidia-smi`
    Explain(Explain),
    /// Show what published estimators say of the same training
    Compare(Question),
    /// Estimate how long a training step, a forward pass or generated tokens take on each GPU
    Time(Timing),
    /// Show how the same training ends on 1 to 64 GPUs, by each way of sharing it
    Scale(Scale),
    /// Show whether several jobs fit on one GPU, and what sharing it costs each
    Share(Sharing),
    /// Estimate how many tokens and requests a server such as vLLM keeps on each GPU
    Capacity(Capacity),
    /// Place jobs on GPUs that they share: who goes where, in which order, and why
    Pack(Pack),
    /// Score published estimators, and ours, over measured runs
    Scoreboard(Scoreboard),
    /// Read a memory snapshot of PyTorch, or predict the peaks on a GPU from a profiler trace of a CPU
    Replay(Replay),
    /// Answer jobs of schedulers over HTTP, on this machine
    Serve(Serve),
    /// Print a model as a layer spec, to be edited
    Spec(Spec),
    /// Print the JSON Schema of the layer spec, for editors
    Schema,
    /// List the supported operators
    Operators,
    /// List the GPUs, and the memory that PyTorch may use on each
    Devices,
    /// List the models that can be given by name
    Models(Models),
    /// Open the page with a model in a browser, served on this machine only
    Open(Open),
    /// Print the script that completes commands and flags in a shell
    Completions(Completions),
    /// Print the man page, or write a page for each command
    Man(Man),
}

impl Task {
    /// Whether it prints a report for people; all else is for programs.
    pub(crate) const fn is_for_people(&self) -> bool {
        match self {
            Self::Estimate(Estimate { json, .. })
            | Self::Advise(Advise { json, .. })
            | Self::Explain(Explain { json, .. })
            | Self::Compare(Question { json, .. })
            | Self::Time(Timing { question: Question { json, .. }, .. })
            | Self::Scale(Scale { question: Question { json, .. }, .. })
            | Self::Share(Sharing { json, .. })
            | Self::Capacity(Capacity { json, .. })
            | Self::Pack(Pack { json, .. })
            | Self::Scoreboard(Scoreboard { json, .. })
            | Self::Replay(Replay { json, .. }) => !*json,
            Self::Operators | Self::Devices | Self::Models(_) => true,
            Self::Serve(_)
            | Self::Spec(_)
            | Self::Schema
            | Self::Open(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
}

/// Sizes of what the model leaves open.
#[derive(Args, Debug)]
struct Dims {
    /// Size of an open dimension of the model, such as `height=384`; may be repeated
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    named: Vec<(String, u64)>,

    /// Batch size, whatever name the model has for it; of generation, the number of texts at once
    #[arg(long, value_name = "N", visible_alias = "concurrent")]
    batch: Option<u64>,

    /// Sequence length, whatever name the model has for it; of generation, the length of the prompts
    #[arg(long, value_name = "N", visible_alias = "prompt")]
    seq: Option<u64>,

    /// Height and width of images; short for `--dim height=N --dim width=N`
    #[arg(long, value_name = "N", alias = "img-size")]
    image_size: Option<u64>,
}

impl Dims {
    /// Names and sizes, of which the last for a name counts.
    fn all(&self) -> Result<BTreeMap<String, u64>, Error> {
        let mut all: BTreeMap<_, _> = self.named.iter().cloned().collect();
        let [height, width] = ["height", "width"].map(|name| (name, self.image_size));
        for (name, size) in [("batch", self.batch), ("seq", self.seq), height, width] {
            let Some(size) = size else { continue };
            if let Some((_, other)) =
                self.named.iter().find(|(named, n)| named == name && *n != size)
            {
                let message =
                    say!("two sizes of {name} are given: {other} and {size}", name, other, size);
                return Err(Error::new(ErrorKind::BadConfig, message));
            }
            all.insert(name.to_owned(), size);
        }
        Ok(all)
    }
}

/// A model, and its training.
#[derive(Args, Debug)]
pub(crate) struct Question {
    /// A model, as for `estimate`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Print JSON: bytes as integers, times in picoseconds
    #[arg(long)]
    pub(crate) json: bool,
}

/// A model, its training, and how fast its data comes.
#[derive(Args, Debug)]
pub(crate) struct Timing {
    #[command(flatten)]
    pub(crate) question: Question,

    /// Samples per second that the data loader gives (default: as fast as needed)
    #[arg(long, value_name = "N")]
    pub(crate) loader: Option<NonZeroU64>,

    /// Form of the GPU's board where there are several, such as `PCIe`
    #[arg(long, value_name = "FORM")]
    pub(crate) form: Option<String>,

    /// Samples of an epoch, to tell how long one takes
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<NonZeroU64>,
}

/// A model, its training, and numbers of GPUs.
#[derive(Args, Debug)]
pub(crate) struct Scale {
    #[command(flatten)]
    pub(crate) question: Question,

    /// Numbers of GPUs (default: 1, 2, 4, 8, and 2, 4 and 8 nodes of 8)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) counts: Vec<NonZeroU64>,
}

/// Jobs that share a GPU.
#[derive(Args, Debug)]
pub(crate) struct Sharing {
    /// A model, as for `estimate`, for each job; with its own settings in quotes, such as
    /// `'resnet50 --batch 32 --optimizer adam'`
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Print JSON: bytes as integers, times in picoseconds
    #[arg(long)]
    pub(crate) json: bool,
}

/// Jobs, and the GPUs that they share.
#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// Jobs, one JSON object in each line as for `highwater estimate --jsonl`, and perhaps `submitted` and `duration` in
    /// seconds, or a number of `steps`
    #[arg(value_name = "JOBS")]
    pub(crate) jobs: PathBuf,

    /// List of GPUs in YAML or JSON: `- {device: a100-40gb, count: 4, node: one}` in each line
    #[arg(long, value_name = "FILE")]
    pub(crate) gpus: PathBuf,

    /// Rule for placing: `exclusive`, `first-fit`, `best-fit`, `best-fit-likely` or `by-utilisation`
    #[arg(long, value_name = "RULE", value_parser = policy, default_value = "best-fit")]
    pub(crate) policy: Policy,

    /// How jobs share a GPU: `time-slices` or `mps`
    #[arg(long, value_name = "MODE", value_parser = mode, default_value = "time-slices")]
    pub(crate) sharing: Mode,

    /// Print JSON, bytes as integers and times in milliseconds
    #[arg(long)]
    pub(crate) json: bool,
}

fn policy(text: &str) -> Result<Policy, String> {
    policy::find(text).copied().ok_or_else(|| {
        let known: Vec<_> = policy::POLICIES.iter().map(|policy| policy.id).collect();
        format!("there is no rule `{text}`; the rules are {}", known.join(", "))
    })
}

fn mode(text: &str) -> Result<Mode, String> {
    let modes = [Mode::TimeSlices, Mode::Mps];
    modes.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
        format!(
            "jobs cannot share a GPU by `{text}`; write `time-slices` or `mps`. For MIG, list the slices as GPUs"
        )
    })
}

/// A model, and the server that runs it.
#[derive(Args, Debug)]
pub(crate) struct Capacity {
    /// Name of a published model, which may end in the format of its weights, such as `qwen2.5-32b-awq` or
    /// `Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4`; a `config.json`; or a GGUF file, whose header is read
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,

    /// Tokens of the longest request, prompt and answer together, such as `16k`
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_hyphen_values = true, alias = "max-model-len")]
    pub(crate) context: u64,

    /// GPU to answer for (default: all)
    #[arg(long, value_name = "DEVICE", value_parser = device, aliases = ["gpu", "card"])]
    pub(crate) device: Option<String>,

    /// Server: `vllm`, `sglang` or `llama.cpp`
    #[arg(long, value_name = "NAME", value_parser = engine, default_value = "vllm")]
    pub(crate) engine: Engine,

    /// Share of the GPU that the server may use: its `--gpu-memory-utilization` or
    /// `--mem-fraction-static` (default: the server's)
    #[arg(long, value_name = "SHARE", value_parser = share, alias = "gpu-memory-utilization")]
    pub(crate) utilization: Option<Share>,

    /// Type of the cache's elements: `auto` (16 bits) or `fp8`
    #[arg(long, value_name = "TYPE", value_parser = kv_type, default_value = "auto", alias = "kv-cache-dtype")]
    pub(crate) kv_type: KvType,

    /// How the weights are stored, such as `awq`, `gptq`, `fp8`, `int8`, `nf4`, `mxfp4` or `bf16` (default: as
    /// published)
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) weights: Option<Format>,

    /// GPUs that share each layer: tensor parallelism
    #[arg(long, value_name = "N", default_value = "1", alias = "tensor-parallel-size")]
    pub(crate) tp: u64,

    /// Requests in a batch (default: the server's for the GPU)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) max_num_seqs: Option<u64>,

    /// Tokens in a batch (default: the server's for the GPU)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) max_num_batched_tokens: Option<u64>,

    /// Capture no CUDA graphs
    #[arg(long, alias = "enforce-eager")]
    pub(crate) eager: bool,

    /// Release of vLLM, such as `0.11`: its rules and defaults changed
    #[arg(long, value_name = "RELEASE", value_parser = release, default_value = "0.19")]
    pub(crate) vllm: Release,

    /// How vLLM restricts a sample to likely tokens: `sort`, `triton` or `flashinfer` (default: that of the release)
    #[arg(long, value_name = "NAME", value_parser = sampler)]
    pub(crate) sampler: Option<Sampler>,

    /// Tokens in a block of the cache (default: 16)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(crate) block_size: Option<u64>,

    /// Layers that llama.cpp offloads to the GPU (default: all)
    #[arg(long, value_name = "N")]
    pub(crate) gpu_layers: Option<u64>,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measured runs, and where their scores go.
#[derive(Args, Debug)]
pub(crate) struct Scoreboard {
    /// Measured runs, a line each, as CSV (columns: docs/scoreboard.md), or a `.toml` file that lists several
    /// such tables
    #[arg(value_name = "RUNS", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Take at most N runs of each table, evenly spread
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<NonZeroUsize>,

    /// Print JSON, bytes as integers and errors in hundredths of a percent
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a line per run and estimator as CSV; `-` prints it instead
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Draw pictures into this folder as `scoreboard-*.svg`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) plots: Option<PathBuf>,

    /// Replace the tables in a Markdown document, between `<!-- scoreboard: NAME -->` and `<!-- end -->`
    #[arg(long, value_name = "FILE")]
    pub(crate) document: Option<PathBuf>,

    /// Write all estimates, a line per run; `-` prints them instead
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,

    /// Score the estimates that `--keep` wrote, without simulating
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keep", "sample"])]
    pub(crate) kept: Option<PathBuf>,

    /// Replace files that have another format
    #[arg(long)]
    pub(crate) force: bool,
}

/// A model and how it is trained.
#[derive(Args, Debug)]
#[command(after_help = STATUS)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Estimate {
    /// ONNX file or text, `torch.export` archive, safetensors, layer spec, `config.json`, Keras model, or
    /// the text of `print(model)`, torchinfo or torchsummary; recognised by its content. Or the name of a
    /// published model, such as `llama-3.1-8b`; `highwater models` lists them. Or a training recipe: a script with
    /// transformers, TRL, PEFT or unsloth, the YAML of axolotl, LLaMA-Factory, torchtune or accelerate, or JSON of their
    /// arguments
    #[arg(
        value_name = "MODEL",
        required_unless_present = "jsonl",
        default_value = "-",
        hide_default_value = true
    )]
    pub(crate) model: PathBuf,

    /// Answer many jobs, one in each line of a file (default: standard input), one answer in each line, in the same
    /// order. An error is the answer to its line, and the exit status is 0 when every line had an answer. The format
    /// of jobs: docs/schedulers.md
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", exclusive = true)]
    pub(crate) jsonl: Option<PathBuf>,

    /// The model to train by a recipe, instead of the one that it names
    #[arg(id = "of", long = "model", value_name = "MODEL")]
    pub(crate) of: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Exit with status 1 unless training fits on this GPU, without flushes of PyTorch's cache; may be repeated
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) require: Vec<String>,

    /// Chance, in percent, with which training must fit on the GPUs of `--require`
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = DeviceVerdict::PASSES,
        value_parser = clap::value_parser!(u64).range(1..=99)
    )]
    pub(crate) require_chance: u64,

    /// GPUs to judge, such as `t4,a100-80gb` (default: all). GPUs given by `--require` and `--device` are
    /// always included. Without `--device`, the first GPU here or of `--require` is the one of the report
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = device)]
    pub(crate) devices: Vec<String>,

    /// Do not search the largest batch of each GPU, which takes several simulations
    #[arg(long)]
    pub(crate) no_max_batch: bool,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,

    /// Replace files that have another format
    #[arg(long)]
    pub(crate) force: bool,

    /// Write a report in Markdown; `-` prints it instead
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Write a trace for ui.perfetto.dev: counters, phases, operators; `-` prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Draw the timeline as an SVG; `-` prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,

    /// Draw the picture on a dark ground
    #[arg(long, requires = "picture")]
    pub(crate) dark: bool,

    /// Draw the timeline with characters, below the report; `--plot=FILE` writes it to a file, and `--plot=-` prints
    /// it alone
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = plot,
        conflicts_with = "jsonl"
    )]
    pub(crate) plot: Option<PathBuf>,

    /// Write the run as a memory snapshot for PyTorch's memory viewer
    #[arg(long, value_name = "FILE", value_parser = snapshot)]
    pub(crate) snapshot: Option<PathBuf>,

    /// Compare, phase by phase, with a recording of the same training: a memory snapshot of PyTorch, or a
    /// profiler trace from a CPU
    #[arg(long, alias = "beside", value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,

    /// Write a table as CSV: `timeline`, `tensors` (at the peak) or `devices`; may be repeated; `-`
    /// prints it
    #[arg(long, value_name = "TABLE=FILE", value_parser = table)]
    pub(crate) csv: Vec<(Table, PathBuf)>,
}

impl Estimate {
    /// The run that is asked about. Its GPU is that of `--device`, else the first that any flag names.
    pub(crate) fn config(&self, model: &Model) -> Result<Config, Error> {
        let mut defaults = model.defaults().clone();
        let named = self.devices.iter().chain(&self.require).next();
        if let Some(first) = named.filter(|_| !self.training.states("device")) {
            defaults.choose_device(first);
        }
        self.training.over(&defaults, model)
    }

    /// Files that the answer comes from.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        [&self.model].into_iter().chain(&self.compare).cloned().collect()
    }

    /// Whether the timeline is drawn in the report for people.
    pub(crate) fn plots_in_report(&self) -> bool {
        self.plot.as_ref().is_some_and(|file| file.as_os_str().is_empty())
    }

    /// Whether a form for others takes the place of the report for people.
    pub(crate) fn prints_export(&self) -> bool {
        let files = [&self.markdown, &self.trace, &self.picture, &self.plot].into_iter().flatten();
        files.chain(self.csv.iter().map(|(_, file)| file)).any(|file| file.as_os_str() == "-")
    }
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

/// A model, and its target GPU.
#[derive(Args, Debug)]
pub(crate) struct Advise {
    /// Model, as for `estimate`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Target GPU (default: the one given by `--device`)
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) fit: Option<String>,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// A message, and the model that was trained when it appeared.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Model: find the allocation that failed in its training step, and the smallest change that fits; or the
    /// file with the message alone
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// File with the message, or a log that contains it (default: standard input)
    #[arg(long, value_name = "FILE")]
    pub(crate) message: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// A memory snapshot, or a trace of the profiler's.
#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// Pickle of `torch.cuda.memory._dump_snapshot` (read as data, never executed), or a `torch.profiler`
    /// trace of training on a CPU, `.json` or `.json.gz`
    #[arg(value_name = "FILE")]
    pub(crate) snapshot: PathBuf,

    /// Allocator settings to try, as in `PYTORCH_CUDA_ALLOC_CONF` (default: some that often help)
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) alloc_conf: Option<String>,

    /// GPU to replay a CPU trace on
    #[arg(long, value_name = "ID", default_value = "a100-80gb", value_parser = device)]
    pub(crate) device: String,

    /// Number of the GPU in a snapshot (default: the one with the longest history)
    #[arg(long, value_name = "N")]
    pub(crate) gpu: Option<usize>,

    /// Print JSON, bytes as integers
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a server listens, and its limits.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Address and port; port 0 chooses a free one, which is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,

    /// Listen on a Unix socket instead
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    pub(crate) socket: Option<PathBuf>,

    /// Rights of the socket, in octal: who may write to it may ask. With 666 all users may who can enter its folder;
    /// 660 leaves the owner and the group, 600 the owner
    #[arg(long, value_name = "MODE", value_parser = rights, requires = "socket", default_value = "666")]
    pub(crate) socket_mode: u32,

    /// Allow an address that other machines can reach; the server asks nobody for a password
    #[arg(long)]
    pub(crate) public: bool,

    /// Folder whose models jobs may name by path; may be repeated (default: no files are read)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) allow: Vec<PathBuf>,

    /// Threads that compute (default: one for each core)
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Jobs that may wait for a thread; more are refused with status 503
    #[arg(long, value_name = "N", default_value = "64")]
    pub(crate) queue: NonZeroUsize,

    /// Connections at once. For one more, the one is closed whose client has let the server wait the longest
    #[arg(long, value_name = "N", default_value = "256")]
    pub(crate) connections: NonZeroUsize,

    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "1048576")]
    pub(crate) body_limit: NonZeroUsize,

    /// Lines of a batch
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) batch_lines: NonZeroUsize,

    /// Seconds that a job may wait and be computed; then its status is 504
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    pub(crate) time_limit: NonZeroU32,

    /// Seconds that a request may take to arrive, or its answer to be read
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    pub(crate) read_time: NonZeroU32,

    /// Seconds that requests under way have to end after SIGTERM or SIGINT
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    pub(crate) grace: NonZeroU32,
}

/// A model whose format is a tree of layers.
#[derive(Args, Debug)]
pub(crate) struct Spec {
    /// Layer spec, Keras model, or printed model
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
}

/// A part of the catalogue.
#[derive(Args, Debug)]
pub(crate) struct Models {
    /// List only models whose names have all of these words, such as `qwen 7b`
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
}

/// A model, its settings, and where the page is served.
#[derive(Args, Debug)]
pub(crate) struct Open {
    /// A model, as for `estimate`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Port of 127.0.0.1; 0 chooses a free one
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) port: u16,

    /// Folder with the page's files (default: the variable `HIGHWATER_PAGE`, else `page` next to the program, else
    /// `../share/highwater/page`)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) page: Option<PathBuf>,

    /// Only print the address
    #[arg(long)]
    pub(crate) no_browser: bool,
}

/// A shell.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell that the script is for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Where man pages go.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Folder for a page of each command (default: print the main page)
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}

/// One training run: the sizes of its dimensions, and its settings.
#[derive(Args, Debug)]
pub(crate) struct Training {
    #[command(flatten)]
    dims: Dims,

    #[command(flatten)]
    settings: Settings,
}

/// Only the flags of a training.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    training: Training,
}

/// The first line of the message about a flag or a value that is unknown.
pub(crate) fn first_line(error: &clap::Error) -> String {
    let message = error.to_string();
    let line = message.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// All of the message but how to call the program, in one line.
pub(crate) fn in_a_line(error: &clap::Error) -> String {
    let message = error.to_string();
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let line = lines.collect::<Vec<_>>().join("; ");
    line.strip_prefix("error: ").map_or_else(|| line.clone(), str::to_owned)
}

impl Training {
    /// The training that a text such as `--optimizer adam --precision fp16` states.
    ///
    /// # Errors
    /// The first line of the message about a flag or a value that is unknown.
    pub(crate) fn read(flags: &str) -> Result<Self, String> {
        let read = Flags::try_parse_from(flags.split_whitespace());
        read.map(|flags| flags.training).map_err(|error| first_line(&error))
    }

    /// Whether the command line states a setting.
    fn states(&self, name: &str) -> bool {
        self.settings.0.iter().any(|(setting, _)| setting.name == name)
    }

    /// The release of PyTorch that the command line states.
    pub(crate) fn pytorch(&self) -> Result<Option<PyTorch>, Error> {
        let given = self.settings.0.iter().find(|(setting, _)| setting.name == "pytorch");
        given.map(|(_, text)| text.parse()).transpose()
    }

    /// What the command line states, else what the model suggests.
    pub(crate) fn of(&self, model: &Model) -> Result<Config, Error> {
        self.over(model.defaults(), model)
    }

    /// What the command line states, else what a configuration of the model does.
    pub(crate) fn over(&self, defaults: &Config, model: &Model) -> Result<Config, Error> {
        let mut config = defaults.clone();
        for (setting, text) in &self.settings.0 {
            setting.set(&mut config, text)?;
        }
        model.with_dims(&config, &self.dims.all()?)
    }
}

/// How PyTorch trains: the settings that the command line has.
#[derive(Debug)]
struct Settings(Vec<(&'static Setting, String)>);

/// Flags, and what switches each off, as in other programs: `--no-ema` is `--ema=false`.
static NEGATIONS: LazyLock<Vec<(&Setting, String)>> = LazyLock::new(|| {
    let flags = SETTINGS.iter().filter(|setting| setting.kind == Kind::Flag);
    flags.map(|setting| (setting, format!("no-{}", setting.name))).collect()
});

/// A flag without a value that is short for a setting.
const SHORT: (&str, &str, &str) = ("channels-last", "memory-format", "channels-last");

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        let (short, of, value) = SHORT;
        command
            .next_help_heading("Training")
            .args(SETTINGS.iter().flat_map(|setting| {
                let short = (setting.name == of).then(|| {
                    let flag = Arg::new(short).long(short).action(ArgAction::SetTrue);
                    flag.conflicts_with(of).help(format!("Short for `--{of} {value}`"))
                });
                [argument(setting)].into_iter().chain(short)
            }))
            .args(NEGATIONS.iter().map(|(setting, negation)| {
                let negation = negation.as_str();
                let flag = Arg::new(negation).long(negation).action(ArgAction::SetTrue).hide(true);
                flag.conflicts_with(setting.name)
                    .help(format!("Short for `--{}=false`", setting.name))
            }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        let given = SETTINGS.iter().filter(|setting| is_given(setting.name));
        let text = |setting: &Setting| {
            let values = matches.get_many::<String>(setting.name).unwrap_or_default();
            values.map(String::as_str).collect::<Vec<_>>().join("\n")
        };
        let mut settings: Vec<_> = given.map(|setting| (setting, text(setting))).collect();
        let negated = NEGATIONS.iter().filter(|(_, negation)| is_given(negation.as_str()));
        settings.extend(negated.map(|(setting, _)| (*setting, "false".to_owned())));
        let (short, of, value) = SHORT;
        if is_given(short) {
            settings.extend(Setting::named(of).map(|setting| (setting, value.to_owned())));
        }
        Ok(Self(settings))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The argument of a setting.
fn argument(setting: &'static Setting) -> Arg {
    let argument = Arg::new(setting.name).long(setting.name).help(setting.help());
    if setting.kind == Kind::Flag {
        // A name or a recipe may switch it on: `--ema=false` switches it off.
        let argument = argument.value_name("false").value_parser(checked(setting));
        return argument.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    let argument = argument.value_name(setting.variable());
    let usual = setting.value(&Config::default()).text();
    match setting.kind {
        Kind::Choice(values) => {
            // Heads are also called as classes of transformers are.
            let value =
                |value: &Named| PossibleValue::new(value.name).alias(value.label).help(value.about);
            let values = PossibleValuesParser::new(values.iter().map(value));
            let argument = argument.value_parser(values).default_value(usual);
            match setting.bare {
                // A value stands behind `=`, so that what follows the flag stays what it is.
                Some(bare) => {
                    argument.num_args(0..=1).require_equals(true).default_missing_value(bare)
                }
                None => argument,
            }
        }
        Kind::Device => argument.value_parser(device).default_value(usual).aliases(["gpu", "card"]),
        Kind::Suggestion(_) | Kind::Count => {
            argument.value_parser(checked(setting)).default_value(usual)
        }
        Kind::Names => {
            let help = format!("{}; may be repeated", setting.help());
            argument.action(ArgAction::Append).help(help)
        }
        _ => argument.value_parser(checked(setting)),
    }
}

/// Refuses what is no value of a setting.
fn checked(setting: &'static Setting) -> impl Fn(&str) -> Result<String, Error> + Clone {
    |text| setting.set(&mut Config::default(), text).map(|()| text.to_owned())
}

const STATUS: &str = "\
Exit status:
  0  the estimate was made
  1  training does not fit, with the chance of --require-chance, on a GPU that --require names
  2  bad use or input";

/// The id of a device as people type it: `3090`.
fn device(text: &str) -> Result<String, Error> {
    device::typed(text).map(|device| device.id.to_owned())
}

/// Rights of a file, in octal.
fn rights(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits, such as 660".to_owned())
}

fn tokens(text: &str) -> Result<u64, String> {
    serving::tokens(text)
        .ok_or_else(|| "write a number of tokens from 1, such as 16384 or 16k".to_owned())
}

fn engine(text: &str) -> Result<Engine, String> {
    text.to_ascii_lowercase().parse().map_err(|error: Error| error.to_string())
}

fn share(text: &str) -> Result<Share, String> {
    Share::parse(text)
        .ok_or_else(|| "write a fraction above 0 and at most 1, such as 0.9".to_owned())
}

fn kv_type(text: &str) -> Result<KvType, String> {
    let called = || text.parse().map_err(|error: Error| error.to_string());
    KvType::parse(text).map_or_else(called, Ok)
}

fn format(text: &str) -> Result<Format, String> {
    let called = || text.parse().map_err(|error: Error| error.to_string());
    Format::parse(text).map_or_else(called, Ok)
}

fn release(text: &str) -> Result<Release, String> {
    Release::parse(text).ok_or_else(|| "write a release from 0.8 on, such as 0.11".to_owned())
}

fn sampler(text: &str) -> Result<Sampler, String> {
    text.to_ascii_lowercase().parse().map_err(|error: Error| error.to_string())
}

fn snapshot(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("a snapshot is no text to print: name a file, such as out.pickle".to_owned()),
        file => Ok(PathBuf::from(file)),
    }
}

/// Where a plot goes: no name stands for the report.
#[expect(clippy::unnecessary_wraps, reason = "clap wants a result")]
fn plot(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
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
    let number = size.parse().map_err(|error: ParseIntError| {
        let what = match error.kind() {
            IntErrorKind::PosOverflow => "is too large",
            _ => "is no whole number",
        };
        format!("the size `{size}` of `{name}` {what}")
    })?;
    Ok((name.to_owned(), number))
}
