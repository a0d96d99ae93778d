//! What the command line and the schema of specs say of each setting; the page has shorter texts.

use super::setting::{Kind, Setting};

/// Help on one setting.
struct Help {
    /// Its name.
    setting: &'static str,
    /// Placeholder of its value; empty for that of its kind.
    variable: &'static str,
    /// What it does: no full stop.
    text: &'static str,
}

const fn help(setting: &'static str, variable: &'static str, text: &'static str) -> Help {
    Help { setting, variable, text }
}

const HELP: &[Help] = &[
    help(
        "workload",
        "",
        "What is run: training, inference without gradients, or generation of tokens",
    ),
    help(
        "new-tokens",
        "",
        "Tokens that generation writes behind each prompt, whose length is `--seq`",
    ),
    help(
        "gpus",
        "",
        "GPUs of the job; each has a process (rank), and the answer is that of the fullest",
    ),
    help(
        "mesh",
        "AXES",
        "Ranks along each axis, such as `replicate=2,dp=4`; by itself all are data parallel",
    ),
    help(
        "data-parallel",
        "",
        "How ranks that read different batches share the model; `auto` is the simplest that fits",
    ),
    help("rank", "N", "Rank whose memory is shown"),
    help("schedule", "", "Order of forwards and backwards of a pipeline's micro-batches"),
    help(
        "micro-batches",
        "N",
        "Micro-batches that a pipeline divides `--batch` into; `auto` is as many as stages",
    ),
    help("bucket-cap", "MIB", "Gradients that DDP reduces at a time, in MiB (`bucket_cap_mb`)"),
    help("bucket-view", "", "Gradients are views of DDP's buckets (`gradient_as_bucket_view`)"),
    help(
        "find-unused",
        "",
        "DDP looks for parameters that a forward does not use (`find_unused_parameters`)",
    ),
    help(
        "no-sync",
        "",
        "Gradients that are accumulated are reduced with the last batch only (`no_sync`)",
    ),
    help(
        "reshard",
        "WHETHER",
        "Whether FSDP frees gathered blocks behind their forward (`reshard_after_forward`)",
    ),
    help("param-type", "", "Type in which FSDP gathers parameters and computes (`param_dtype`)"),
    help("reduce-type", "", "Type in which FSDP reduces gradients (`reduce_dtype`)"),
    help(
        "cpu-offload",
        "",
        "FSDP keeps shards of parameters, gradients and optimizer state on the host",
    ),
    help("use-orig-params", "", "FSDP1 gives the optimizer each parameter by itself"),
    help("precision", "", "Number format of parameters and of arithmetic"),
    help("optimizer", "", "Optimizer"),
    help("device", "", "GPU to estimate for; `highwater devices` lists them"),
    help("capacity", "", "Total memory of that GPU as PyTorch reports it, such as `23.64GiB`"),
    help("context", "", "CUDA context and libraries of the training process there"),
    help("other-processes", "", "Memory that other processes use on it"),
    help("allowed", "", "What the process may reserve, under `set_per_process_memory_fraction`"),
    help("alloc-conf", "SETTINGS", "Settings of the allocator, as in `PYTORCH_CUDA_ALLOC_CONF`"),
    help("objective", "", "What the model is trained on: a batch of DPO counts pairs of texts"),
    help("task", "", "Head of a model by name or configuration, such as `sequence-classification`"),
    help("loss", "", "What the outputs are compared with"),
    help(
        "loss-kernel",
        "",
        "How a language model's loss is computed: of all logits, or without ever making them",
    ),
    help("loss-chunk", "", "Tokens whose logits exist at a time, with `--loss-kernel chunked`"),
    help("kernels", "", "Kernels of norms, gates and rotary positions: transformers' or Liger's"),
    help("checkpoint", "", "Activation checkpointing: `none`, `blocks`, or N for every Nth block"),
    help(
        "checkpoint-reentry",
        "",
        "Checkpointing with reentry (`use_reentrant`); `auto` is transformers' default of the time",
    ),
    help(
        "checkpoint-offload",
        "",
        "What a checkpointed block is given waits in the host's memory, as unsloth and axolotl have it",
    ),
    help("accumulate", "", "Batches per optimizer step"),
    help("freeze", "", "Parameters that are not trained: `layer1`, `*.embeddings`"),
    help(
        "lora",
        "",
        "Linear layers with LoRA adapters; nothing else is trained: `q_proj`, a path, or `all-linear`",
    ),
    help("lora-rank", "", "Rank of these adapters"),
    help("lora-dropout", "", "Dropout in front of these adapters"),
    help("lora-model-type", "", "Adapters in the model's type instead of fp32"),
    help("dora", "", "Adapters of DoRA instead of plain LoRA"),
    help(
        "modules-to-save",
        "",
        "Modules that are trained as a whole besides adapters (`modules_to_save`)",
    ),
    help(
        "input-require-grads",
        "",
        "The result of the input embeddings requires a gradient (`enable_input_require_grads`)",
    ),
    help("quantize", "", "Quantise the weights of linear layers, which needs adapters (QLoRA)"),
    help("double-quantize", "", "Quantise the statistics of 4-bit weights once more"),
    help("compute-type", "", "Type in which layers with 4-bit weights compute"),
    help("optimizer-impl", "", "Implementation of the optimizer"),
    help("weight-decay", "", "Use weight decay in optimizers whose default is off"),
    help(
        "optimizer-in-backward",
        "",
        "Update each parameter as soon as its gradient is there, and free the gradient",
    ),
    help(
        "compile",
        "",
        "Whether the model goes through `torch.compile`, in its default mode with Inductor; the optimizer does not",
    ),
    help("clip-grad-norm", "", "Clip the norm of all gradients before the step"),
    help("ema", "", "Keep an exponential moving average (EMA) of the weights"),
    help("zero-grad", "WHERE", "Where gradients are cleared"),
    help(
        "loop",
        "STYLE",
        "Whose training loop runs: what it frees when, and its defaults for clipping, `zero_grad` and batches",
    ),
    help(
        "batches",
        "WHEN",
        "When batches come to the GPU: one stays, each is moved, or the next is prefetched",
    ),
    help("keep-outputs", "", "Steps whose outputs stay on the GPU, as for metrics"),
    help("evaluation", "", "Run a validation pass without gradients between steps"),
    help("memory-format", "", "Memory format of images and convolution weights"),
    help("attention", "", "How attention runs: fused or eager"),
    help("dropout", "WHETHER", "Whether dropout runs; exports for inference do not have it"),
    help(
        "in-place",
        "WHETHER",
        "Whether activations overwrite their input; `auto` follows torchvision's models",
    ),
    help("recover", "WHETHER", "Whether to recover what the exporter removed or decomposed"),
    help("pytorch", "VERSION", "Version of PyTorch, such as `2.6`, or a date, such as `2023-10`"),
    help(
        "transformers",
        "VERSION",
        "Version of transformers, such as `4.46`; `auto` is the one of PyTorch's time",
    ),
    help(
        "cudnn",
        "VERSION",
        "Version of cuDNN: 9 or 8, which gives most convolutions in single precision no workspace",
    ),
    help(
        "tf32",
        "WHERE",
        "Products of fp32 numbers in TF32, which changes times only; `auto` is PyTorch's default of the time",
    ),
    help(
        "module-loading",
        "WHEN",
        "When CUDA loads kernels: lazily, or eagerly with a larger context",
    ),
];

impl Setting {
    /// What it does: no full stop.
    pub fn help(&self) -> &'static str {
        self.find_help().map_or("", |help| help.text)
    }

    /// Placeholder of its value on the command line.
    pub fn variable(&self) -> &'static str {
        let own = self.find_help().map_or("", |help| help.variable);
        match self.kind {
            _ if !own.is_empty() => own,
            Kind::Choice(_) => "NAME",
            Kind::Suggestion(_) => "WHAT",
            Kind::Device => "DEVICE",
            Kind::Flag => "",
            Kind::Count => "N",
            Kind::Size => "SIZE",
            Kind::Names => "PATTERN",
            Kind::Text => "TEXT",
        }
    }

    fn find_help(&self) -> Option<&'static Help> {
        HELP.iter().find(|help| help.setting == self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SETTINGS;

    #[test]
    fn every_setting_has_its_help() {
        let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        let helped: Vec<&str> = HELP.iter().map(|help| help.setting).collect();
        assert_eq!(names, helped);
        assert!(HELP.iter().all(|help| !help.text.is_empty()));
    }
}
