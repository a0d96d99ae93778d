//! The user's choices: dimensions, and how PyTorch trains.
//!
//! [`Config`] is what the simulator reads. [`SETTINGS`] has a row for each of its fields, and every choice with
//! names is one [`choice!`] table: the command line, JSON, layer specs, links and the page are derived from these.

mod choice;
mod compile;
mod help;
mod loops;
mod method;
mod parallel;
pub mod pattern;
mod pytorch;
mod setting;
mod settings;
mod size;
mod task;
mod transformers;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::choice::choice;
pub use self::choice::{Choice, Named};
pub use self::choice::{position, unknown};
pub use self::loops::{MOST_BATCHES, Outputs};
pub use self::method::{ALL_LINEAR, Method};
pub use self::parallel::{
    Axis, DataParallel, Mesh, MicroBatches, PolicyType, Rank, Ranks, Schedule,
};
pub use self::pytorch::PyTorch;
pub use self::setting::Typed;
pub use self::setting::{Group, Kind, Scope, Setting, Stage, Value};
pub use self::settings::SETTINGS;
pub use self::task::{Sizes, Task};
pub use self::transformers::{Library, Transformers};
pub use self::workload::{Pass, Workload};
use crate::bytes::Bytes;
use crate::error::{Error, ErrorKind};
use crate::tensor::DType;

/// Everything that an estimate depends on besides the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Config {
    /// Sizes of the model's open dimensions, by name. A name left out gets a stated default.
    pub dims: BTreeMap<String, u64>,
    /// What is run.
    pub workload: Workload,
    /// COUNT: processes of one job, each with a GPU.
    pub gpus: NonZeroU64,
    /// How they are divided: [`Config::ranks`].
    pub mesh: Mesh,
    /// How those that read different batches share the model.
    pub data_parallel: DataParallel,
    /// Whose memory is asked for; by itself that of the fullest.
    pub rank: Rank,
    /// In which order a stage of a pipeline runs its micro-batches.
    pub schedule: Schedule,
    /// COUNT: micro-batches that a pipeline divides a batch into: [`Config::micro_batches`].
    pub micro_batches: MicroBatches,
    /// COUNT: MiB of a bucket of gradients in DDP (`bucket_cap_mb`); the default's first one is smaller.
    pub bucket_cap: NonZeroU64,
    /// Whether gradients are views of their buckets (`gradient_as_bucket_view`).
    pub bucket_view: bool,
    /// Whether DDP looks for parameters that a forward does not use (`find_unused_parameters`).
    pub find_unused: bool,
    /// Whether gradients that are accumulated are not reduced before the last batch (`no_sync`).
    pub no_sync: bool,
    /// Whether FSDP frees gathered blocks behind their forward (`reshard_after_forward`).
    pub reshard: Switch,
    /// The type in which FSDP gathers parameters, which is that of arithmetic (`MixedPrecisionPolicy`).
    pub param_type: PolicyType,
    /// The type in which FSDP reduces gradients.
    pub reduce_type: PolicyType,
    /// Whether FSDP's shards wait on the host (`CPUOffloadPolicy`).
    pub cpu_offload: bool,
    /// Whether the first FSDP gives the optimizer each parameter by itself (`use_orig_params`).
    pub use_orig_params: bool,
    /// Number format of parameters and of arithmetic.
    pub precision: Precision,
    /// Order of the dimensions of images and of the kernels that read them.
    pub memory_format: MemoryFormat,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// How the optimizer runs.
    pub optimizer_impl: Implementation,
    /// Whether weights decay where the optimizer's class leaves that off, which adds temporaries;
    /// `AdamW`, whose decay is on, takes none for it.
    pub weight_decay: bool,
    /// Whether each parameter is updated as soon as its gradient is there, which is then freed.
    pub optimizer_in_backward: bool,
    /// Whether the model goes through `torch.compile`.
    pub compile: Compile,
    /// Whether the norm of all gradients is clipped before the step: [`Config::clips`].
    pub clip_grad_norm: Switch,
    /// Whether an exponential moving average (EMA) of the weights is kept.
    pub ema: bool,
    /// Where gradients are cleared: [`Config::clears`].
    pub zero_grad: ZeroGrad,
    /// Whose training loop runs: what becomes of its variables, and what it does by default.
    pub loop_style: LoopStyle,
    /// When batches come to the device: [`Config::brings`].
    pub batches: Batches,
    /// COUNT: steps whose outputs stay on the device, as for metrics (`1` for each alone).
    pub keep_outputs: NonZeroU64,
    /// Whether a validation pass stands between steps.
    pub evaluation: bool,
    /// What the model is trained on.
    pub objective: Objective,
    /// What is recomputed in backward instead of being kept.
    pub checkpoint: Checkpoint,
    /// Whether checkpointing is with reentry: [`Config::reenters`].
    pub checkpoint_reentry: Switch,
    /// Whether what a checkpointed block is given waits on the host for backward.
    pub checkpoint_offload: bool,
    /// COUNT: tokens that are written behind each prompt.
    pub new_tokens: NonZeroU64,
    /// COUNT: batches per optimizer step (`1` for none accumulated).
    pub accumulate: NonZeroU64,
    /// Parameters that are not trained: names or prefixes of names, `*` for any text.
    pub freeze: Vec<String>,
    /// Linear layers that get low-rank adapters: names as for [`Config::freeze`], or last parts of
    /// names, such as `q_proj`. Where there are any, only adapters are trained.
    pub lora: Vec<String>,
    /// COUNT: rank of these adapters.
    pub lora_rank: NonZeroU64,
    /// Whether dropout stands in front of them.
    pub lora_dropout: bool,
    /// Whether they have the model's type instead of single precision (`autocast_adapter_dtype=False`).
    pub lora_model_type: bool,
    /// Whether they also train the length of each output's weights (`use_dora`).
    pub dora: bool,
    /// Modules that are trained as a whole besides adapters: names as for [`Config::lora`].
    pub modules_to_save: Vec<String>,
    /// Whether the result of the input embeddings requires a gradient (`enable_input_require_grads`).
    pub input_require_grads: bool,
    /// How the weights of linear layers are quantised, but those of the output head.
    pub quantize: Quantize,
    /// Whether the statistics of 4-bit weights are quantised once more.
    pub double_quantize: bool,
    /// The type in which layers with 4-bit weights compute.
    pub compute_type: ComputeType,
    /// Which head a configuration's model has.
    pub task: Task,
    /// What the outputs are compared with.
    pub loss: LossChoice,
    /// How the loss of a language model is computed: of its logits, or of what the output head reads.
    pub loss_kernel: LossKernel,
    /// COUNT: tokens whose logits exist at a time, for [`LossKernel::Chunked`].
    pub loss_chunk: NonZeroU64,
    /// Whose kernels norms, gates and rotary positions of language models run.
    pub kernels: Kernels,
    /// How attention runs, whatever the file has.
    pub attention: Attention,
    /// The PyTorch version to simulate.
    pub pytorch: PyTorch,
    /// The version of transformers whose code a configuration's model runs: [`Config::library`].
    pub transformers: Transformers,
    /// Version of cuDNN, which chooses workspaces of convolutions.
    pub cudnn: Cudnn,
    /// Which products of fp32 numbers are computed in TF32: times depend on it, bytes do not.
    pub tf32: Tf32,
    /// When CUDA loads kernels.
    pub module_loading: ModuleLoading,
    /// Whether dropout runs.
    pub dropout: Dropout,
    /// Whether activations overwrite their input.
    pub in_place: InPlace,
    /// Whether what the exporter removed or decomposed is recovered.
    pub recover: Recover,
    /// Id of the device whose kernels and capacity the run assumes, such as `a100-80gb`.
    pub device: String,
    /// SIZE: total memory of that device as PyTorch reports it, if not what the table says.
    pub capacity: Option<Bytes>,
    /// SIZE: what other processes hold of it.
    pub other_processes: Bytes,
    /// SIZE: CUDA context and libraries of this process there, if not what the fit says.
    pub context: Option<Bytes>,
    /// SIZE: what the process may reserve there: `torch.cuda.set_per_process_memory_fraction`.
    pub allowed: Option<Bytes>,
    /// Settings of the allocator, as in `PYTORCH_CUDA_ALLOC_CONF`.
    pub alloc_conf: String,
}

impl Config {
    /// The type in which layers with 4-bit weights compute.
    pub fn computes_in(&self) -> DType {
        match self.compute_type {
            ComputeType::Auto => {
                let low = self.converts_to().or_else(|| self.precision.autocast());
                low.unwrap_or(DType::Float32)
            }
            ComputeType::Fp32 => DType::Float32,
            ComputeType::Fp16 => DType::Float16,
            ComputeType::Bf16 => DType::BFloat16,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dims: BTreeMap::new(),
            workload: Workload::Training,
            gpus: NonZeroU64::MIN,
            mesh: Mesh::default(),
            data_parallel: DataParallel::Auto,
            rank: Rank::default(),
            schedule: Schedule::OneForwardOneBackward,
            micro_batches: MicroBatches::default(),
            bucket_cap: NonZeroU64::MIN.saturating_add(24),
            bucket_view: false,
            find_unused: false,
            no_sync: false,
            reshard: Switch::Auto,
            param_type: PolicyType::Auto,
            reduce_type: PolicyType::Auto,
            cpu_offload: false,
            use_orig_params: false,
            precision: Precision::Fp32,
            memory_format: MemoryFormat::Contiguous,
            optimizer: Optimizer::AdamW,
            optimizer_impl: Implementation::Auto,
            weight_decay: false,
            optimizer_in_backward: false,
            compile: Compile::None,
            clip_grad_norm: Switch::Auto,
            ema: false,
            zero_grad: ZeroGrad::Auto,
            loop_style: LoopStyle::Inline,
            batches: Batches::Auto,
            keep_outputs: NonZeroU64::MIN,
            evaluation: false,
            objective: Objective::Supervised,
            checkpoint: Checkpoint::None,
            checkpoint_reentry: Switch::Auto,
            checkpoint_offload: false,
            new_tokens: NonZeroU64::MIN.saturating_add(127),
            accumulate: NonZeroU64::MIN,
            freeze: Vec::new(),
            lora: Vec::new(),
            lora_rank: NonZeroU64::MIN.saturating_add(7),
            lora_dropout: false,
            lora_model_type: false,
            dora: false,
            modules_to_save: Vec::new(),
            input_require_grads: false,
            quantize: Quantize::None,
            double_quantize: false,
            compute_type: ComputeType::Auto,
            task: Task::Auto,
            loss: LossChoice::Auto,
            loss_kernel: LossKernel::Torch,
            loss_chunk: NonZeroU64::MIN.saturating_add(255),
            kernels: Kernels::Torch,
            attention: Attention::Auto,
            pytorch: PyTorch::LATEST,
            transformers: Transformers::default(),
            cudnn: Cudnn::Auto,
            tf32: Tf32::Auto,
            module_loading: ModuleLoading::Auto,
            dropout: Dropout::Auto,
            in_place: InPlace::Auto,
            recover: Recover::Auto,
            device: "a100-80gb".to_owned(),
            capacity: None,
            other_processes: Bytes::ZERO,
            context: None,
            allowed: None,
            alloc_conf: String::new(),
        }
    }
}

choice! {
    /// Number format of parameters and of arithmetic.
    pub enum Precision ("precision") {
        /// Everything in 32 bits. TF32 changes arithmetic, not memory.
        Fp32 = "fp32", "fp32", "32-bit throughout; TF32 makes no difference to memory",
        /// `torch.autocast(dtype=torch.float16)` with `GradScaler`.
        AmpFp16 = "amp-fp16", "AMP fp16", "autocast to fp16 with a gradient scaler, parameters in fp32",
        /// `torch.autocast(dtype=torch.bfloat16)`.
        AmpBf16 = "amp-bf16", "AMP bf16", "autocast to bf16, parameters in fp32",
        /// `model.half()`.
        Fp16 = "fp16", "pure fp16", "everything in fp16, parameters and optimizer state too",
        /// `model.bfloat16()`.
        Bf16 = "bf16", "pure bf16", "everything in bf16, parameters and optimizer state too",
        /// `model.half()` under `torch.autocast(dtype=torch.float16)` with `GradScaler`, as below adapters.
        Fp16Amp = "fp16-amp", "fp16 under AMP", "parameters in fp16, run under autocast to fp16 with a gradient scaler",
        /// `model.bfloat16()` under `torch.autocast(dtype=torch.bfloat16)`: transformers' `bf16=True` of a bf16 model.
        Bf16Amp = "bf16-amp", "bf16 under AMP", "parameters in bf16, run under autocast to bf16, as by transformers' bf16=True",
        /// `model.half()`, and an optimizer over fp32 copies of its parameters: [`crate::step::masters`].
        Fp16Master = "fp16-master", "fp16, master weights", "model and gradients in fp16; the optimizer has its own weights and gradients in fp32",
        /// `model.bfloat16()`, likewise.
        Bf16Master = "bf16-master", "bf16, master weights", "model and gradients in bf16; the optimizer has its own weights and gradients in fp32",
    }
}

impl Precision {
    /// What `torch.autocast` casts down to, where it is used.
    pub const fn autocast(self) -> Option<DType> {
        match self {
            Self::AmpFp16 | Self::Fp16Amp => Some(DType::Float16),
            Self::AmpBf16 | Self::Bf16Amp => Some(DType::BFloat16),
            _ => None,
        }
    }

    /// What parameters and inputs are converted to, where they are.
    pub const fn converts_to(self) -> Option<DType> {
        match self {
            Self::Fp16 | Self::Fp16Amp | Self::Fp16Master => Some(DType::Float16),
            Self::Bf16 | Self::Bf16Amp | Self::Bf16Master => Some(DType::BFloat16),
            Self::Fp32 | Self::AmpFp16 | Self::AmpBf16 => None,
        }
    }

    /// The precision without what only runs differ in: whether autocast is used, or masters.
    #[must_use]
    pub const fn of_weights(self) -> Self {
        match self {
            Self::Fp32 | Self::AmpFp16 | Self::AmpBf16 => Self::Fp32,
            Self::Fp16 | Self::Fp16Amp | Self::Fp16Master => Self::Fp16,
            Self::Bf16 | Self::Bf16Amp | Self::Bf16Master => Self::Bf16,
        }
    }

    /// Whether products are computed in half precision.
    pub const fn is_half(self) -> bool {
        !matches!(self, Self::Fp32)
    }

    /// Whether the optimizer holds copies of the parameters in single precision.
    pub const fn has_masters(self) -> bool {
        matches!(self, Self::Fp16Master | Self::Bf16Master)
    }

    /// Whether a `GradScaler` is used, as fp16's range asks for.
    pub const fn scales_gradients(self) -> bool {
        matches!(self, Self::AmpFp16 | Self::Fp16Amp)
    }
}

choice! {
    /// Order in which images, and the kernels that read them, lie in memory (`torch.memory_format`).
    pub enum MemoryFormat ("memory format") {
        /// `torch.contiguous_format`: `[N, C, H, W]` with `W` innermost.
        Contiguous = "contiguous", "contiguous", "NCHW, PyTorch's default",
        /// `torch.channels_last`, of the model once it is on the device
        /// (`model.to(memory_format=torch.channels_last)`) and of its input.
        ChannelsLast = "channels-last", "channels last", "NHWC, of the model and of its input",
    }
}

choice! {
    /// Optimizers and the settings of theirs that change memory.
    pub enum Optimizer ("optimizer") {
        /// `torch.optim.SGD` without momentum.
        Sgd = "sgd", "SGD", "keeps no state",
        /// `torch.optim.SGD(momentum=0.9)`.
        SgdMomentum = "sgd-momentum", "SGD with momentum", "keeps one copy of the parameters",
        /// `torch.optim.SGD(momentum=0.9, nesterov=True)`.
        SgdNesterov = "sgd-nesterov", "SGD with Nesterov momentum", "keeps one copy of the parameters",
        /// `torch.optim.Adam`.
        Adam = "adam", "Adam", "keeps two copies of the parameters",
        /// `torch.optim.Adam(amsgrad=True)`.
        AdamAmsgrad = "adam-amsgrad", "Adam with AMSGrad", "keeps three copies of the parameters",
        /// `torch.optim.AdamW`.
        AdamW = "adamw", "AdamW", "keeps two copies of the parameters",
        /// `torch.optim.AdamW(amsgrad=True)`.
        AdamWAmsgrad = "adamw-amsgrad", "AdamW with AMSGrad", "keeps three copies of the parameters",
        /// `torch.optim.NAdam`.
        NAdam = "nadam", "NAdam", "keeps two copies of the parameters",
        /// `torch.optim.RAdam`.
        RAdam = "radam", "RAdam", "keeps two copies of the parameters",
        /// `torch.optim.Adamax`.
        Adamax = "adamax", "Adamax", "keeps two copies of the parameters",
        /// `torch.optim.RMSprop`.
        RmsProp = "rmsprop", "RMSprop", "keeps one copy of the parameters",
        /// `torch.optim.RMSprop(momentum=0.9)`.
        RmsPropMomentum = "rmsprop-momentum", "RMSprop with momentum", "keeps two copies of the parameters",
        /// `torch.optim.RMSprop(centered=True)`.
        RmsPropCentered = "rmsprop-centered", "RMSprop, centered", "keeps two copies of the parameters",
        /// `torch.optim.Adagrad`: its constructor makes the state.
        Adagrad = "adagrad", "Adagrad", "keeps one copy of the parameters, from the start",
        /// `torch.optim.Adadelta`.
        Adadelta = "adadelta", "Adadelta", "keeps two copies of the parameters",
        /// `torch.optim.Rprop`.
        Rprop = "rprop", "Rprop", "keeps two copies of the parameters",
        /// `torch.optim.ASGD`.
        Asgd = "asgd", "ASGD", "keeps one copy of the parameters and three numbers for each",
        /// `torch.optim.Adafactor`.
        Adafactor = "adafactor", "Adafactor", "keeps a row and a column for each matrix",
        /// `torch.optim.Muon` for matrices, `AdamW` for the rest.
        Muon = "muon", "Muon", "keeps one copy of the matrices, two of the rest for AdamW",
        /// Lion as timm implements it.
        Lion = "lion", "Lion", "keeps one copy of the parameters",
        /// `bitsandbytes.optim.Adam8bit`.
        Adam8bit = "adam-8bit", "Adam, 8-bit", "keeps two bytes per parameter and their scales",
        /// `bitsandbytes.optim.AdamW8bit`.
        AdamW8bit = "adamw-8bit", "AdamW, 8-bit", "keeps two bytes per parameter and their scales",
        /// `bitsandbytes.optim.PagedAdamW8bit`.
        PagedAdamW8bit = "paged-adamw-8bit", "AdamW, 8-bit, paged", "keeps two bytes per parameter in paged memory",
        /// `bitsandbytes.optim.PagedAdamW32bit`.
        PagedAdamW32bit = "paged-adamw-32bit", "AdamW, paged", "keeps two copies of the parameters in paged memory",
    }
}

choice! {
    /// How bitsandbytes quantises the weights of linear layers.
    pub enum Quantize ("quantisation") {
        /// Not at all.
        None = "none", "none", "weights as they are",
        /// `bnb_4bit_quant_type="nf4"`, as in `QLoRA`.
        Nf4 = "nf4", "NF4", "4 bits per weight, as in QLoRA, and a number for 64 weights",
        /// `bnb_4bit_quant_type="fp4"`.
        Fp4 = "fp4", "FP4", "4 bits per weight and a number for 64 weights",
        /// `load_in_8bit=True`: `LLM.int8()`.
        Int8 = "int8", "int8", "8 bits per weight and a number for each output",
    }
}

choice! {
    /// The type in which layers with 4-bit weights compute (`bnb_4bit_compute_dtype`).
    pub enum ComputeType ("type of computation") {
        /// Autocast's type, else the model's.
        Auto = "auto", "automatic", "autocast's type, else the model's",
        /// Single precision, which transformers takes by itself.
        Fp32 = "fp32", "fp32", "the default of transformers",
        /// IEEE half precision.
        Fp16 = "fp16", "fp16", "half precision",
        /// bfloat16.
        Bf16 = "bf16", "bf16", "bfloat16",
    }
}

choice! {
    /// How an optimizer walks over the parameters.
    pub enum Implementation ("optimizer implementation") {
        /// What PyTorch takes on CUDA: `foreach` where the optimizer has it.
        Auto = "auto", "automatic", "PyTorch's default: foreach where available",
        /// Lists of tensors at a time: fast, with temporaries as large as the parameters.
        Foreach = "foreach", "foreach", "all parameters at once, with temporaries of the same size",
        /// One kernel for everything: no temporaries.
        Fused = "fused", "fused", "one kernel, no temporaries",
        /// A parameter at a time.
        ForLoop = "for-loop", "for-loop", "one parameter at a time",
    }
}

choice! {
    /// Whether the model goes through `torch.compile`.
    pub enum Compile ("compile setting") {
        /// It runs as it is.
        None = "none", "none", "the model runs as it is",
        /// Inductor, with the settings that `torch.compile` has by default.
        Inductor = "inductor", "torch.compile", "the model goes through torch.compile, with Inductor in its default mode",
    }
}

choice! {
    /// Where `optimizer.zero_grad()` stands in the loop.
    pub enum ZeroGrad ("place of zero_grad") {
        /// Where the loop has it.
        Auto = "auto", "automatic", "where the loop has it; a loop of your own: before the forward",
        /// Before the forward.
        Start = "start", "before the forward", "before the forward",
        /// Between forward and backward: gradients lie beside all activations.
        BeforeBackward = "before-backward", "before the backward", "between forward and backward",
        /// After the optimizer's step.
        End = "end", "after the step", "after the optimizer's step",
    }
}

choice! {
    /// Whose training loop runs. What each does by itself is in [`loops`].
    pub enum LoopStyle ("loop style") {
        /// A plain loop: `out` and `loss` stay bound until they are assigned again.
        Inline = "inline", "plain loop", "a plain loop: logits and loss live until the next iteration replaces them",
        /// The step is a function, as in Lightning and the HF Trainer: its names go with it.
        Function = "function", "step function", "a step function: logits and loss are freed when it returns",
        /// `transformers.Trainer`, and TRL's, which are made of it.
        Trainer = "trainer", "transformers' Trainer", "logits are freed before backward; clips gradients, and takes fused AdamW from PyTorch 2.8 on",
        /// `lightning.Trainer` with automatic optimization.
        Lightning = "lightning", "Lightning", "logits are freed before backward; clears gradients between forward and backward",
        /// The loop of accelerate's examples.
        Accelerate = "accelerate", "accelerate", "a plain loop over batches that are moved; clears gradients at its end",
        /// The recipes of torchtune.
        Torchtune = "torchtune", "torchtune", "logits are freed before backward; clears gradients at its end",
    }
}

choice! {
    /// When a loop moves batches to the device.
    pub enum Batches ("place of batches") {
        /// When the loop does that.
        Auto = "auto", "automatic", "when the loop does that; in a loop of your own, one stays",
        /// One batch stays there.
        Resident = "resident", "one stays", "one batch stays on the GPU, as in benchmarks",
        /// A new one before each step, while names still hold the last.
        Moved = "moved", "moved", "each is moved before its step, while the last one is still there",
        /// The next one while a step runs.
        Prefetched = "prefetched", "prefetched", "the next batch is on the GPU while a step runs",
    }
}

/// Activation checkpointing (`torch.utils.checkpoint`, non-reentrant).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Checkpoint {
    /// All that backward needs is kept.
    None,
    /// Each repeated block of the model is a region of its own.
    Blocks,
    /// Each block whose number is a multiple of this is a region of its own.
    Every(NonZeroU64),
}

said_plainly!(LossChoice, LossKernel, Implementation, Objective, DataParallel, Mesh);

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Blocks => f.write_str("blocks"),
            Self::Every(count) => count.fmt(f),
        }
    }
}

impl FromStr for Checkpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "none" => Ok(Self::None),
            "blocks" => Ok(Self::Blocks),
            _ => text.parse().map(Self::Every).map_err(|error| {
                let message = say!(
                    "unknown checkpointing `{text}` ({error}); choose none, blocks, or N \
                     for every Nth block",
                    text,
                    error
                );
                Error::new(ErrorKind::BadConfig, message)
            }),
        }
    }
}

impl Typed for Checkpoint {
    const KIND: Kind = Kind::Suggestion(&[
        Named { name: "none", label: "none", about: "" },
        Named { name: "blocks", label: "every block", about: "" },
        Named { name: "2", label: "every 2nd block", about: "" },
        Named { name: "4", label: "every 4th block", about: "" },
    ]);

    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn read(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<String> for Checkpoint {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Checkpoint> for String {
    fn from(checkpoint: Checkpoint) -> Self {
        checkpoint.to_string()
    }
}

choice! {
    /// What the outputs are compared with.
    pub enum LossChoice ("loss") {
        /// What the output's shape suggests; the report says what that was.
        Auto = "auto", "automatic", "what the outputs suggest",
        /// `cross_entropy` with class indices, over the second dimension or the last.
        CrossEntropy = "cross-entropy", "cross-entropy", "cross-entropy with class indices",
        /// `cross_entropy(label_smoothing=0.1)`.
        LabelSmoothing = "label-smoothing", "cross-entropy, smoothed", "cross-entropy with smoothed labels",
        /// `cross_entropy` with a probability for each class.
        SoftTargets = "soft-targets", "cross-entropy, soft targets", "cross-entropy with probabilities, as for mixup",
        /// What transformers computes for causal language models.
        CausalLm = "causal-lm", "causal language model", "next-token cross-entropy, as transformers computes it",
        /// What transformers computes for masked language models.
        MaskedLm = "masked-lm", "masked language model", "cross-entropy with a label per position",
        /// `mse_loss` with a target of the output's shape.
        Mse = "mse", "mean squared error", "mean squared error",
        /// `binary_cross_entropy_with_logits` with a target of the output's shape.
        BceWithLogits = "bce-with-logits", "binary cross-entropy", "binary cross-entropy on logits",
        /// `out.sum()`.
        Sum = "sum", "sum of outputs", "the sum of the outputs",
        /// The graph's first output is the loss.
        Own = "own", "the model's own", "the model's first output is its loss",
    }
}

choice! {
    /// How the loss of a language model is computed.
    pub enum LossKernel ("loss kernel") {
        /// Of all logits, by PyTorch.
        Torch = "torch", "of all logits", "all logits exist, as PyTorch computes cross-entropy",
        /// TRL's `chunked_nll` (1.4 to 1.14): a few tokens at a time, computed again in backward.
        Chunked = "chunked", "in chunks", "the logits of a few tokens at a time, as TRL 1.7 to 1.14 do",
        /// TRL's fused head (from 1.15 on): tiles of tokens and words.
        Fused = "fused", "fused head", "tiles of the logits, as TRL does from 1.15 on",
        /// `LigerFusedLinearCrossEntropyLoss`: its forward makes the gradients.
        Liger = "liger", "Liger", "Liger's fused linear cross-entropy: gradients are made in the forward",
        /// `cut_cross_entropy`: kernels that never write logits.
        Cce = "cce", "Cut Cross-Entropy", "Apple's kernels, which never write logits; in half precision",
        /// torchtune's `CEWithChunkedOutputLoss`: the head's result in eight parts.
        OutputChunks = "output-chunks", "eight parts", "logits in eight parts, raised to fp32 one at a time, as in torchtune",
    }
}

choice! {
    /// What a model is trained on.
    pub enum Objective ("objective") {
        /// Examples.
        Supervised = "supervised", "labels", "examples with labels",
        /// TRL's `DPOTrainer`.
        Dpo = "dpo", "DPO", "pairs of texts, which a frozen copy of the model reads too; with adapters, the model itself does",
        /// The same with `precompute_ref_log_probs=True`.
        DpoPrecomputed = "dpo-precomputed", "DPO, reference computed before", "pairs of texts; no copy of the model is there in training",
    }
}

impl Objective {
    /// COUNT: texts of an example.
    pub const fn texts(self) -> u64 {
        match self {
            Self::Supervised => 1,
            Self::Dpo | Self::DpoPrecomputed => 2,
        }
    }

    /// Whether it is about pairs of texts.
    pub const fn is_of_pairs(self) -> bool {
        self.texts() > 1
    }

    /// Whether something that is not trained reads each batch too.
    pub const fn has_reference(self) -> bool {
        matches!(self, Self::Dpo)
    }
}

choice! {
    /// Whose kernels the layers of a language model run.
    pub enum Kernels ("kernels") {
        /// As transformers has them.
        Torch = "torch", "transformers'", "PyTorch's operators, as transformers has them",
        /// Liger's norms, gates and rotary positions.
        Liger = "liger", "Liger", "Liger's RMSNorm, SwiGLU and rotary positions, which save less",
    }
}

choice! {
    /// A switch that the loop, or the version of a library, decides over if nobody else does.
    pub enum Switch ("switch") {
        /// As the loop has it.
        Auto = "auto", "automatic", "as the loop has it",
        /// Yes.
        On = "on", "on", "yes",
        /// No.
        Off = "off", "off", "no",
    }
}

impl Switch {
    /// Whether it is on, where this is the default.
    pub const fn or(self, default: bool) -> bool {
        match self {
            Self::Auto => default,
            Self::On => true,
            Self::Off => false,
        }
    }
}

choice! {
    /// Which attention transformers runs (`attn_implementation`).
    pub enum Attention ("attention") {
        /// What the file has; what a configuration says, or the family's usual one.
        Auto = "auto", "automatic", "as in the file; for a configuration, the default of transformers",
        /// `torch.nn.functional.scaled_dot_product_attention`.
        Sdpa = "sdpa", "SDPA", "PyTorch's fused kernels",
        /// Product, softmax and product, each a call of its own.
        Eager = "eager", "eager", "spelled out: the matrices of scores are kept",
        /// `flash_attention_2` and its successors, a package of its own.
        Flash = "flash", "flash-attention", "the flash-attention package, in half precision; assumed to keep what SDPA keeps",
    }
}

choice! {
    /// Versions of cuDNN that choose other workspaces.
    pub enum Cudnn ("version of cuDNN") {
        /// The one that the version of PyTorch came with.
        Auto = "auto", "automatic", "the one that this version of PyTorch came with",
        /// 9: as 9.26, whose heuristics were asked.
        V9 = "9", "9", "9: as 9.26 chooses",
        /// 8: in single precision, only dense filters of 3 × 3 and larger have a workspace.
        V8 = "8", "8", "8: pointwise, grouped and depthwise layers take no workspace",
    }
}

impl Cudnn {
    /// The version with a release of PyTorch: never [`Cudnn::Auto`].
    #[must_use]
    pub fn of(self, pytorch: PyTorch) -> Self {
        match self {
            Self::Auto if pytorch.has_cudnn_9() => Self::V9,
            Self::Auto => Self::V8,
            known => known,
        }
    }
}

choice! {
    /// Which products of fp32 numbers tensor cores compute in TF32, on GPUs of capability 8.0 and later
    /// (`torch.backends.cuda.matmul.allow_tf32`, `torch.backends.cudnn.allow_tf32`).
    ///
    /// It changes no workspace here: that of cuBLAS has one size, and cuDNN was asked about kernels in TF32 alone, so what
    /// convolutions take without it is not known.
    pub enum Tf32 ("use of TF32") {
        /// As the version of PyTorch does.
        Auto = "auto", "automatic", "convolutions only; before PyTorch 1.12 matrix products too",
        /// No product: `torch.backends.cudnn.allow_tf32 = False`.
        Off = "off", "off", "no product: `cudnn.allow_tf32 = False`",
        /// Convolutions.
        Convolutions = "convolutions", "convolutions", "convolutions, but no matrix products",
        /// All: `torch.set_float32_matmul_precision("high")`.
        On = "on", "on", "matrix products too: `set_float32_matmul_precision(\"high\")`",
    }
}

impl Tf32 {
    /// What it is with a release of PyTorch: never [`Tf32::Auto`].
    #[must_use]
    pub fn of(self, pytorch: PyTorch) -> Self {
        match self {
            Self::Auto if pytorch.multiplies_in_tf32() => Self::On,
            Self::Auto => Self::Convolutions,
            known => known,
        }
    }
}

choice! {
    /// When CUDA loads kernels (`CUDA_MODULE_LOADING`), which decides over the size of its context.
    pub enum ModuleLoading ("loading of kernels") {
        /// As the version of PyTorch does.
        Auto = "auto", "automatic", "at first use; before PyTorch 1.13 all at the start",
        /// At first use.
        Lazy = "lazy", "lazy", "each kernel when it is first used",
        /// All at the start.
        Eager = "eager", "eager", "all kernels at the start: a context of about three times the size",
    }
}

impl ModuleLoading {
    /// Whether all kernels are loaded at the start.
    pub fn is_eager(self, pytorch: PyTorch) -> bool {
        match self {
            Self::Auto => !pytorch.loads_lazily(),
            Self::Lazy => false,
            Self::Eager => true,
        }
    }
}

choice! {
    /// Whether activations overwrite their input; no exporter keeps the flag.
    pub enum InPlace ("in-place setting") {
        /// As torchvision's models do, where the model looks like one.
        Auto = "auto", "automatic", "as torchvision does in convolutional nets",
        /// Wherever nothing else reads the input.
        On = "on", "on", "wherever nothing else reads the input",
        /// Nowhere.
        Off = "off", "off", "nowhere",
    }
}

choice! {
    /// Whether dropout runs; exports for inference do not have it.
    pub enum Dropout ("dropout setting") {
        /// As the file has it; an export for inference gets what its library usually drops.
        Auto = "auto", "automatic", "as in the file; for inference exports, as their library trains",
        /// Wherever such a model usually has it, if the file has none.
        On = "on", "on", "where such models usually have it, if the file has none",
        /// Nowhere: its probability is zero.
        Off = "off", "off", "nowhere: the probability is zero",
    }
}

choice! {
    /// Whether what the exporter removed or decomposed is recovered.
    pub enum Recover ("recovery setting") {
        /// Whatever can be told.
        Auto = "auto", "automatic", "recover what the exporter removed or decomposed",
        /// The graph as it stands in the file.
        Off = "off", "off", "use the file as it is",
    }
}
