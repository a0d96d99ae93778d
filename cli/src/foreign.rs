//! Flags of other tools that people type here: which of ours means the same.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags, and what to write instead.
const FOREIGN: &[(&[&str], &str)] = &[
    (
        &["bf16"],
        "use `--precision bf16-amp` for a bf16 model under autocast, `amp-bf16` for an fp32 model under it, or `bf16`",
    ),
    (
        &["fp16", "half"],
        "use `--precision amp-fp16` for autocast with a gradient scaler, or `fp16` for everything in fp16",
    ),
    (&["fp32", "no-amp"], "use `--precision fp32`"),
    (&["amp"], "use `--precision amp-bf16` or `amp-fp16`"),
    (&["dtype", "torch-dtype", "mixed-precision"], "use `--precision`"),
    (&["batch-size", "bs", "per-device-train-batch-size", "micro-batch-size"], "use `--batch`"),
    (
        &[
            "seq-len",
            "seq-length",
            "sequence-length",
            "sequence-len",
            "max-length",
            "max-seq-length",
            "cutoff-len",
        ],
        "use `--seq`",
    ),
    (&["imgsz", "resolution", "input-size"], "use `--image-size`"),
    (&["num-labels", "num-classes", "nb-classes"], "use `--dim classes=N`"),
    (&["head"], "use `--task`, such as `--task sequence-classification`"),
    (
        &["max-target-length", "max-source-length", "generation-max-length"],
        "use `--seq` for the encoder and `--dim target=N` for the decoder",
    ),
    (
        &["gradient-checkpointing", "activation-checkpointing", "checkpointing", "recompute"],
        "use `--checkpoint blocks`",
    ),
    (&["gradient-accumulation-steps", "grad-accum"], "use `--accumulate`"),
    (&["optim", "opt"], "use `--optimizer`"),
    (&["max-grad-norm", "clip"], "use `--clip-grad-norm`"),
    (&["lora-r", "r"], "use `--lora-rank`, with `--lora` for the layers"),
    (
        &["qlora", "load-in-4bit", "4bit"],
        "use `--lora all-linear --quantize nf4 --double-quantize`",
    ),
    (
        &["load-in-8bit", "8bit"],
        "use `--lora all-linear --quantize int8`; for 8-bit optimizer state `--optimizer adamw-8bit`",
    ),
    (&["use-liger-kernel", "liger"], "use `--kernels liger --loss-kernel liger`"),
    (&["flash-attn", "flash-attention"], "use `--attention flash`"),
    (&["num-gpus", "nproc-per-node", "num-processes", "world-size"], "use `--gpus`"),
    (&["ddp", "distributed-data-parallel"], "use `--gpus N --data-parallel ddp`"),
    (&["fsdp", "fsdp2", "fully-shard"], "use `--gpus N --data-parallel fsdp`"),
    (
        &["zero", "zero-stage", "deepspeed"],
        "DeepSpeed is not simulated yet; of PyTorch's own there are `--gpus N --data-parallel zero-1` and `fsdp`",
    ),
    (
        &["tp", "tensor-parallel-size", "tensor-model-parallel-size"],
        "use `--mesh tp=N`, with `--gpus` for all of them",
    ),
    (&["dp", "data-parallel-size"], "use `--gpus`, or `--mesh dp=N` next to other axes"),
    (
        &["pp", "pipeline-parallel-size", "pipeline-model-parallel-size"],
        "pipelines are not simulated yet: leave them out",
    ),
    (&["inference", "infer", "serve", "generate"], "use `--workload inference`"),
    (&["torch-compile", "compile-mode"], "use `--compile inductor`"),
    (
        &["dpo", "grpo", "ppo", "orpo", "rlhf"],
        "training on preferences or rewards is not simulated yet; supervised fine-tuning is",
    ),
];

/// A sentence for a flag that is another tool's; `None` for any other mistake.
pub(crate) fn explain(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = given.trim_start_matches('-').replace('_', "-");
    let name = name.split('=').next().unwrap_or_default();
    let instead = FOREIGN.iter().find(|(names, _)| names.contains(&name)).map(|(_, text)| text)?;
    Some(format!("there is no `{given}` here: {instead}"))
}
