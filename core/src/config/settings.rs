//! The table of settings. A new one is a field of [`Config`], a row here, and its use.
//!
//! The same order is used in forms, in the command line's help and in all output.

use super::setting::{Group, Kind, Scope, Setting, Typed, kind_of};

/// A row without texts for a field of [`Config`]: its kind, and how it is read and written.
macro_rules! field {
    ($field:ident) => {
        Setting::of(
            kind_of(|config| &config.$field),
            |config| config.$field.value(),
            |config, text| Typed::read(text).map(|value| config.$field = value),
            |from, to| to.$field.clone_from(&from.$field),
        )
    };
}

/// All settings; sizes of dimensions are the model's.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "precision",
        label: "precision",
        help: "Number format of parameters and of arithmetic",
        group: Group::Main,
        stated: true,
        ..field!(precision)
    },
    Setting {
        name: "optimizer",
        label: "optimizer",
        help: "Optimizer",
        group: Group::Main,
        stated: true,
        ..field!(optimizer)
    },
    Setting {
        name: "device",
        label: "device",
        about: "estimated for this GPU",
        help: "GPU to estimate for; `highwater devices` lists them",
        kind: Kind::Device,
        variable: "DEVICE",
        group: Group::Card,
        scope: Scope::Machine,
        stated: true,
        ..field!(device)
    },
    Setting {
        name: "capacity",
        label: "total memory",
        about: "of the GPU, as PyTorch reports it",
        help: "Total memory of that GPU as PyTorch reports it, such as `23.64GiB`",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(capacity)
    },
    Setting {
        name: "context",
        label: "CUDA context",
        about: "CUDA and its libraries in the training process",
        help: "CUDA context and libraries of the training process there",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(context)
    },
    Setting {
        name: "other-processes",
        label: "other processes",
        about: "memory that they use on the GPU",
        help: "Memory that other processes use on it",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(other_processes)
    },
    Setting {
        name: "allowed",
        label: "limit of the process",
        about: "as set_per_process_memory_fraction gives it",
        help: "What the process may reserve, under `set_per_process_memory_fraction`",
        group: Group::Card,
        scope: Scope::Card,
        ..field!(allowed)
    },
    Setting {
        name: "alloc-conf",
        label: "allocator settings",
        about: "PYTORCH_CUDA_ALLOC_CONF",
        help: "Settings of the allocator, as in `PYTORCH_CUDA_ALLOC_CONF`",
        variable: "SETTINGS",
        example: "max_split_size_mb:512",
        group: Group::Card,
        scope: Scope::Machine,
        ..field!(alloc_conf)
    },
    Setting {
        name: "loss",
        label: "loss",
        help: "What the outputs are compared with",
        settles: &["assumed-loss"],
        ..field!(loss)
    },
    Setting {
        name: "checkpoint",
        label: "checkpointing",
        about: "blocks are run again in backward instead of being kept",
        help: "Activation checkpointing: `none`, `blocks`, or N for every Nth block",
        ..field!(checkpoint)
    },
    Setting {
        name: "accumulate",
        label: "gradient accumulation",
        about: "batches per optimizer step",
        help: "Batches per optimizer step",
        ..field!(accumulate)
    },
    Setting {
        name: "freeze",
        label: "frozen",
        about: "modules or parameters that are not trained",
        help: "Parameters that are not trained: `layer1`, `*.embeddings`",
        example: "encoder, *.embeddings",
        ..field!(freeze)
    },
    Setting {
        name: "lora",
        label: "LoRA adapters",
        about: "linear layers with adapters; nothing else is trained",
        help: "Linear layers with LoRA adapters; nothing else is trained: `q_proj`, a path, or `all-linear`",
        example: "all-linear",
        offers: &["all-linear", "q_proj, v_proj"],
        group: Group::Adapters,
        ..field!(lora)
    },
    Setting {
        name: "lora-rank",
        label: "LoRA rank",
        about: "rank of each adapter",
        help: "Rank of these adapters",
        group: Group::Adapters,
        ..field!(lora_rank)
    },
    Setting {
        name: "lora-dropout",
        label: "LoRA dropout",
        about: "in front of each adapter",
        help: "Dropout in front of these adapters",
        group: Group::Adapters,
        ..field!(lora_dropout)
    },
    Setting {
        name: "lora-model-type",
        label: "LoRA in the model's type",
        about: "instead of fp32: autocast_adapter_dtype=False",
        help: "Adapters in the model's type instead of fp32",
        group: Group::Adapters,
        ..field!(lora_model_type)
    },
    Setting {
        name: "dora",
        label: "DoRA",
        about: "adapters that also train the length of each output's weights",
        help: "Adapters of DoRA instead of plain LoRA",
        group: Group::Adapters,
        ..field!(dora)
    },
    Setting {
        name: "modules-to-save",
        label: "modules to save",
        about: "trained as a whole besides adapters",
        help: "Modules that are trained as a whole besides adapters (`modules_to_save`)",
        example: "lm_head",
        group: Group::Adapters,
        ..field!(modules_to_save)
    },
    Setting {
        name: "input-require-grads",
        label: "input gradients",
        about: "enable_input_require_grads, for checkpointing with reentry",
        help: "The result of the input embeddings requires a gradient (`enable_input_require_grads`)",
        group: Group::Adapters,
        ..field!(input_require_grads)
    },
    Setting {
        name: "quantize",
        label: "quantised weights",
        about: "of linear layers below adapters, by bitsandbytes",
        help: "Quantise the weights of linear layers, which needs adapters (QLoRA)",
        group: Group::Adapters,
        ..field!(quantize)
    },
    Setting {
        name: "double-quantize",
        label: "double quantisation",
        about: "of the statistics of 4-bit weights",
        help: "Quantise the statistics of 4-bit weights once more",
        group: Group::Adapters,
        ..field!(double_quantize)
    },
    Setting {
        name: "compute-type",
        label: "4-bit compute type",
        about: "bnb_4bit_compute_dtype",
        help: "Type in which layers with 4-bit weights compute",
        group: Group::Adapters,
        ..field!(compute_type)
    },
    Setting {
        name: "optimizer-impl",
        label: "optimizer implementation",
        help: "Implementation of the optimizer",
        ..field!(optimizer_impl)
    },
    Setting {
        name: "weight-decay",
        label: "weight decay",
        about: "for optimizers whose default is off",
        help: "Use weight decay in optimizers whose default is off",
        ..field!(weight_decay)
    },
    Setting {
        name: "clip-grad-norm",
        label: "clip gradients",
        about: "by their total norm",
        help: "Clip the norm of all gradients before the step",
        ..field!(clip_grad_norm)
    },
    Setting {
        name: "ema",
        label: "EMA of weights",
        about: "kept next to the weights",
        help: "Keep an exponential moving average (EMA) of the weights",
        ..field!(ema)
    },
    Setting {
        name: "zero-grad",
        label: "zero_grad",
        help: "Where gradients are cleared",
        variable: "WHERE",
        ..field!(zero_grad)
    },
    Setting {
        name: "loop",
        label: "loop",
        help: "Whether the step is a function, so that logits and loss are freed when it returns",
        variable: "STYLE",
        ..field!(loop_style)
    },
    Setting {
        name: "memory-format",
        label: "memory format",
        help: "Memory format of images and convolution weights",
        ..field!(memory_format)
    },
    Setting {
        name: "attention",
        label: "attention",
        help: "How attention runs: fused or eager",
        settles: &["attention-mask", "spelled-out-attention"],
        ..field!(attention)
    },
    Setting {
        name: "dropout",
        label: "dropout",
        help: "Whether dropout runs; exports for inference do not have it",
        variable: "WHETHER",
        settles: &["assumed-dropout", "no-dropout"],
        ..field!(dropout)
    },
    Setting {
        name: "in-place",
        label: "in-place activations",
        help: "Whether activations overwrite their input; `auto` follows torchvision's models",
        variable: "WHETHER",
        settles: &["assumed-in-place"],
        ..field!(in_place)
    },
    Setting {
        name: "recover",
        label: "recovery",
        help: "Whether to recover what the exporter removed or decomposed",
        variable: "WHETHER",
        scope: Scope::Export,
        ..field!(recover)
    },
    Setting {
        name: "pytorch",
        label: "PyTorch",
        about: "version to simulate",
        help: "Version of PyTorch: 2.15, 2.9 (to 2.14) or 2.8 (and before)",
        variable: "VERSION",
        scope: Scope::Machine,
        stated: true,
        ..field!(pytorch)
    },
    Setting {
        name: "cudnn",
        label: "cuDNN",
        about: "version to simulate",
        help: "Version of cuDNN: 9 or 8, which gives most convolutions in single precision no workspace",
        variable: "VERSION",
        scope: Scope::Machine,
        ..field!(cudnn)
    },
];
