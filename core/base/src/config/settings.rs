//! The table of settings. A new one is a field of [`Config`], a row here, and its use.
//!
//! The same order is used in forms, in the command line's help and in all output. What the command line reports of each
//! is in `help.rs`, which the page does not carry.

use super::method::ALL_LINEAR;
use super::setting::{Group, Kind, Scope, Setting, Stage, Typed, kind_of};
use super::{LossChoice, Task, Workload};
use crate::error::{Error, ErrorKind};

/// A row without texts for a field of [`Config`]: the stage that it enters, its kind, and how it is read and written.
macro_rules! field {
    ($field:ident, $stage:ident) => {
        Setting::of(
            Stage::$stage,
            kind_of(|config| &config.$field),
            |config| config.$field.value(),
            |config, text| Typed::read(text).map(|value| config.$field = value),
            |from, to| to.$field.clone_from(&from.$field),
        )
    };
}

/// That a number is no name of layers: who types one means the rank.
fn no_layer(number: &str) -> Error {
    let message = say!(
        "`{number}` is a number; name the layers that get adapters, such as all-linear. For the rank, set the LoRA rank",
        number
    );
    Error::new(ErrorKind::BadConfig, message)
}

/// All settings; sizes of dimensions are the model's.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "workload",
        label: "workload",
        group: Group::Workload,
        stated: true,
        ..field!(workload, Shape)
    },
    Setting {
        name: "new-tokens",
        label: "new tokens",
        about: "written behind each prompt",
        group: Group::Workload,
        bears_on: Workload::generates,
        ..field!(new_tokens, Program)
    },
    Setting {
        name: "gpus",
        label: "GPUs",
        about: "processes of one job, each with a GPU of its own",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(gpus, Run)
    },
    Setting {
        name: "mesh",
        label: "mesh",
        about: "ranks along each axis; what is left out is data parallel",
        example: "replicate=2,dp=4",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(mesh, Shape)
    },
    Setting {
        name: "data-parallel",
        label: "data parallelism",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(data_parallel, Run)
    },
    Setting {
        name: "rank",
        label: "rank",
        about: "whose memory is shown; automatic: the fullest",
        example: "0",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(rank, Run)
    },
    Setting {
        name: "schedule",
        label: "schedule",
        about: "of a pipeline",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(schedule, Run)
    },
    Setting {
        name: "micro-batches",
        label: "micro-batches",
        about: "that a pipeline divides a batch into; automatic: as many as stages",
        example: "8",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(micro_batches, Shape)
    },
    Setting {
        name: "bucket-cap",
        label: "bucket",
        about: "MiB of gradients that DDP reduces at a time (bucket_cap_mb)",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(bucket_cap, Run)
    },
    Setting {
        name: "bucket-view",
        label: "gradients in buckets",
        about: "gradient_as_bucket_view of DDP",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(bucket_view, Run)
    },
    Setting {
        name: "find-unused",
        label: "unused parameters",
        about: "find_unused_parameters of DDP",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(find_unused, Run)
    },
    Setting {
        name: "no-sync",
        label: "no_sync",
        about: "accumulated gradients are reduced with the last batch only",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(no_sync, Run)
    },
    Setting {
        name: "reshard",
        label: "reshard after forward",
        about: "reshard_after_forward of FSDP",
        bare: Some("on"),
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(reshard, Run)
    },
    Setting {
        name: "param-type",
        label: "gathered type",
        about: "param_dtype of FSDP: that of gathered parameters and of arithmetic",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(param_type, Shape)
    },
    Setting {
        name: "reduce-type",
        label: "reduced type",
        about: "reduce_dtype of FSDP: that in which gradients are reduced",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(reduce_type, Run)
    },
    Setting {
        name: "cpu-offload",
        label: "shards on the host",
        about: "FSDP keeps parameters, gradients and optimizer state on the host",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(cpu_offload, Run)
    },
    Setting {
        name: "use-orig-params",
        label: "original parameters",
        about: "FSDP1 gives the optimizer each parameter by itself, not flat ones",
        group: Group::Ranks,
        bears_on: Workload::trains,
        ..field!(use_orig_params, Run)
    },
    Setting {
        name: "precision",
        label: "precision",
        group: Group::Main,
        stated: true,
        ..field!(precision, Shape)
    },
    Setting {
        name: "optimizer",
        label: "optimizer",
        group: Group::Main,
        stated: true,
        bears_on: Workload::trains,
        ..field!(optimizer, Run)
    },
    Setting {
        name: "device",
        label: "device",
        about: "estimated for this GPU",
        kind: Kind::Device,
        group: Group::Card,
        scope: Scope::Machine,
        stated: true,
        ..field!(device, Hardware)
    },
    Setting {
        name: "capacity",
        label: "total memory",
        about: "of the GPU, as PyTorch reports it",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(capacity, Verdict)
    },
    Setting {
        name: "context",
        label: "CUDA context",
        about: "CUDA and its libraries in the training process",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(context, Verdict)
    },
    Setting {
        name: "other-processes",
        label: "other processes",
        about: "memory that they use on the GPU",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(other_processes, Verdict)
    },
    Setting {
        name: "allowed",
        label: "limit of the process",
        about: "as set_per_process_memory_fraction gives it",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(allowed, Verdict)
    },
    Setting {
        name: "alloc-conf",
        label: "allocator settings",
        about: "PYTORCH_CUDA_ALLOC_CONF",
        example: "max_split_size_mb:512",
        group: Group::Card,
        scope: Scope::Machine,
        ..field!(alloc_conf, Replay)
    },
    Setting {
        name: "objective",
        label: "objective",
        scope: Scope::Training,
        bears_on: Workload::trains,
        ..field!(objective, Shape)
    },
    Setting {
        name: "task",
        label: "model's head",
        group: Group::Written,
        scope: Scope::Export,
        settles: &["assumed-head"],
        set: |config, text| {
            config.task = Task::of_class_end(text).map_or_else(|| Typed::read(text), Ok)?;
            // Another head has another loss.
            if config.task != Task::Auto {
                config.loss = LossChoice::Auto;
            }
            Ok(())
        },
        ..field!(task, Shape)
    },
    Setting {
        name: "loss",
        label: "loss",
        settles: &["assumed-loss"],
        bears_on: Workload::trains,
        ..field!(loss, Program)
    },
    Setting {
        name: "loss-kernel",
        label: "loss kernel",
        scope: Scope::Training,
        bears_on: Workload::trains,
        ..field!(loss_kernel, Program)
    },
    Setting {
        name: "loss-chunk",
        label: "loss chunk",
        about: "tokens whose logits exist at a time, of a loss in chunks",
        bears_on: Workload::trains,
        ..field!(loss_chunk, Program)
    },
    Setting { name: "kernels", label: "kernels", ..field!(kernels, Shape) },
    Setting {
        name: "checkpoint",
        label: "checkpointing",
        about: "blocks are run again in backward instead of being kept",
        bears_on: Workload::trains,
        ..field!(checkpoint, Run)
    },
    Setting {
        name: "checkpoint-reentry",
        label: "checkpointing with reentry",
        about: "use_reentrant; automatic: as transformers of the time, on before 5.0",
        bare: Some("on"),
        bears_on: Workload::trains,
        ..field!(checkpoint_reentry, Run)
    },
    Setting {
        name: "checkpoint-offload",
        label: "checkpoints on the host",
        about: "what a checkpointed block is given waits in the host's memory",
        bears_on: Workload::trains,
        ..field!(checkpoint_offload, Run)
    },
    Setting {
        name: "accumulate",
        label: "gradient accumulation",
        about: "batches per optimizer step",
        bears_on: Workload::trains,
        ..field!(accumulate, Run)
    },
    Setting {
        name: "freeze",
        label: "frozen",
        about: "modules or parameters that are not trained",
        example: "encoder, *.embeddings",
        bears_on: Workload::trains,
        ..field!(freeze, Run)
    },
    Setting {
        name: "lora",
        label: "LoRA adapters",
        about: "linear layers with adapters; nothing else is trained",
        example: ALL_LINEAR,
        offers: &[ALL_LINEAR, "q_proj, v_proj"],
        group: Group::Method,
        set: |config, text| {
            let names: Vec<String> = Typed::read(text)?;
            if let Some(number) = names.iter().find(|name| name.parse::<u64>().is_ok()) {
                return Err(no_layer(number));
            }
            config.lora = names;
            Ok(())
        },
        ..field!(lora, Program)
    },
    Setting {
        name: "lora-rank",
        label: "LoRA rank",
        about: "rank of each adapter",
        group: Group::Method,
        ..field!(lora_rank, Program)
    },
    Setting {
        name: "lora-dropout",
        label: "LoRA dropout",
        about: "in front of each adapter",
        group: Group::Adapters,
        bears_on: Workload::trains,
        ..field!(lora_dropout, Program)
    },
    Setting {
        name: "lora-model-type",
        label: "LoRA in the model's type",
        about: "instead of fp32: autocast_adapter_dtype=False",
        group: Group::Adapters,
        ..field!(lora_model_type, Program)
    },
    Setting {
        name: "dora",
        label: "DoRA",
        about: "adapters that also train the length of each output's weights",
        group: Group::Adapters,
        ..field!(dora, Program)
    },
    Setting {
        name: "modules-to-save",
        label: "modules to save",
        about: "trained as a whole besides adapters",
        example: "lm_head",
        group: Group::Adapters,
        ..field!(modules_to_save, Program)
    },
    Setting {
        name: "input-require-grads",
        label: "input gradients",
        about: "enable_input_require_grads, for checkpointing with reentry",
        group: Group::Adapters,
        bears_on: Workload::trains,
        ..field!(input_require_grads, Program)
    },
    Setting {
        name: "quantize",
        label: "quantised weights",
        about: "of linear layers below adapters, by bitsandbytes",
        group: Group::Method,
        ..field!(quantize, Program)
    },
    Setting {
        name: "double-quantize",
        label: "double quantisation",
        about: "of the statistics of 4-bit weights",
        group: Group::Adapters,
        ..field!(double_quantize, Program)
    },
    Setting {
        name: "compute-type",
        label: "4-bit compute type",
        about: "bnb_4bit_compute_dtype",
        group: Group::Adapters,
        ..field!(compute_type, Program)
    },
    Setting {
        name: "optimizer-impl",
        label: "optimizer implementation",
        bears_on: Workload::trains,
        ..field!(optimizer_impl, Run)
    },
    Setting {
        name: "weight-decay",
        label: "weight decay",
        about: "for optimizers whose default is off",
        bears_on: Workload::trains,
        ..field!(weight_decay, Run)
    },
    Setting {
        name: "optimizer-in-backward",
        label: "optimizer in backward",
        about: "each parameter is updated as soon as its gradient is there, which is then freed",
        bears_on: Workload::trains,
        ..field!(optimizer_in_backward, Run)
    },
    Setting {
        name: "compile",
        label: "compilation",
        scope: Scope::Training,
        ..field!(compile, Shape)
    },
    Setting {
        name: "clip-grad-norm",
        label: "clip gradients",
        about: "by their total norm",
        bare: Some("on"),
        set: |config, text| {
            // Flags of two values were written so.
            let text = match text {
                "true" => "on",
                "false" => "off",
                text => text,
            };
            Typed::read(text).map(|value| config.clip_grad_norm = value)
        },
        bears_on: Workload::trains,
        ..field!(clip_grad_norm, Run)
    },
    Setting {
        name: "ema",
        label: "EMA of weights",
        about: "kept next to the weights",
        bears_on: Workload::trains,
        ..field!(ema, Run)
    },
    Setting {
        name: "zero-grad",
        label: "zero_grad",
        bears_on: Workload::trains,
        ..field!(zero_grad, Run)
    },
    Setting { name: "loop", label: "loop", ..field!(loop_style, Run) },
    Setting { name: "batches", label: "batches", ..field!(batches, Run) },
    Setting {
        name: "keep-outputs",
        label: "outputs kept",
        about: "steps whose outputs stay on the GPU, as for metrics",
        ..field!(keep_outputs, Run)
    },
    Setting {
        name: "evaluation",
        label: "validation",
        about: "without gradients, between steps",
        bears_on: Workload::trains,
        ..field!(evaluation, Run)
    },
    Setting { name: "memory-format", label: "memory format", ..field!(memory_format, Run) },
    Setting {
        name: "attention",
        label: "attention",
        settles: &["attention-mask", "spelled-out-attention"],
        ..field!(attention, Shape)
    },
    Setting {
        name: "dropout",
        label: "dropout",
        settles: &["assumed-dropout", "no-dropout"],
        bears_on: Workload::trains,
        ..field!(dropout, Program)
    },
    Setting {
        name: "in-place",
        label: "in-place activations",
        settles: &["assumed-in-place"],
        ..field!(in_place, Program)
    },
    Setting {
        name: "recover",
        label: "recovery",
        scope: Scope::Export,
        ..field!(recover, Program)
    },
    Setting {
        name: "pytorch",
        label: "PyTorch",
        about: "version to simulate",
        scope: Scope::Machine,
        stated: true,
        ..field!(pytorch, Run)
    },
    Setting {
        name: "transformers",
        label: "transformers",
        about: "version whose code the model and its Trainer run",
        scope: Scope::Machine,
        ..field!(transformers, Shape)
    },
    Setting {
        name: "cudnn",
        label: "cuDNN",
        about: "version to simulate",
        scope: Scope::Machine,
        ..field!(cudnn, Hardware)
    },
    Setting { name: "tf32", label: "TF32", scope: Scope::Machine, ..field!(tf32, Verdict) },
    Setting {
        name: "module-loading",
        label: "loading of kernels",
        about: "CUDA_MODULE_LOADING",
        group: Group::Card,
        scope: Scope::Machine,
        ..field!(module_loading, Verdict)
    },
];
