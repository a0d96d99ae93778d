//! [`LEVERS`]: every change that is tried, with the Python code for it.

use std::num::NonZeroU64;

use super::{Cost, Lever};
use crate::allocator::Conf;
use crate::config::{
    Checkpoint, Compile, Config, DataParallel, Implementation, InPlace, Kernels, LoopStyle,
    LossKernel, MemoryFormat, Optimizer, Precision, PyTorch, Quantize, ZeroGrad,
};
use crate::step::optimizer;
use crate::tensor::DType;

/// Every lever, the cheapest first.
pub const LEVERS: &[Lever] = &[
    ZERO_GRAD_START,
    STEP_FUNCTION,
    FUSED,
    IN_PLACE,
    GROWING_SEGMENTS,
    LIGER,
    BUCKET_VIEW,
    FOR_LOOP,
    UPDATE,
    FUSED_HEAD,
    COMPILE,
    CHANNELS_LAST,
    AMP_BF16,
    AMP_FP16,
    ACCUMULATE,
    ZERO_1,
    FSDP,
    CHECKPOINT_HALF,
    EMA_ON_CPU,
    HALF,
    CHECKPOINT,
    CPU_OFFLOAD,
    EIGHT_BIT,
    LION,
    ADAFACTOR,
    SGD_MOMENTUM,
    BF16,
    LORA,
    QLORA,
    FREEZE,
];

const ZERO_GRAD_START: Lever = Lever {
    id: "zero-grad-start",
    title: "Clear gradients before the forward pass",
    cost: Cost::Nothing,
    change: |config, _| {
        (config.clears() != ZeroGrad::Start && is_own(config)).then_some(())?;
        config.zero_grad = ZeroGrad::Start;
        Some(())
    },
    code: |_, _| "optimizer.zero_grad(set_to_none=True)  # first line of each step\n".to_owned(),
};

const STEP_FUNCTION: Lever = Lever {
    id: "step-function",
    title: "Delete logits and loss after each step",
    cost: Cost::Nothing,
    change: |config, _| {
        is_own(config).then_some(())?;
        config.loop_style = LoopStyle::Function;
        Some(())
    },
    code: |_, _| "optimizer.step()\ndel output, loss  # last line of each step\n".to_owned(),
};

const FUSED: Lever = Lever {
    id: "fused",
    title: "Use the fused optimizer",
    cost: Cost::Nothing,
    change: |config, _| {
        walks_over_lists(config)?;
        optimizer::is_fusible(config.optimizer).then_some(())?;
        config.optimizer_impl = Implementation::Fused;
        Some(())
    },
    code: |config, _| constructor(config, ", fused=True"),
};

const IN_PLACE: Lever = Lever {
    id: "in-place",
    title: "Use in-place activations",
    cost: Cost::Nothing,
    change: |config, _| {
        config.in_place = InPlace::On;
        Some(())
    },
    code: |_, _| {
        "for module in model.modules():\n    if hasattr(module, \"inplace\"):\n        \
         module.inplace = True\n# and sums in forward(): x += shortcut\n"
            .to_owned()
    },
};

const GROWING_SEGMENTS: Lever = Lever {
    id: "expandable-segments",
    title: "Use expandable segments",
    cost: Cost::Nothing,
    change: |config, _| {
        let conf = Conf::read(&config.alloc_conf).ok()?;
        (!conf.on(None, None).expandable_segments).then_some(())?;
        // Of a setting that is said twice, the last one counts.
        if !config.alloc_conf.is_empty() {
            config.alloc_conf.push(',');
        }
        config.alloc_conf.push_str("expandable_segments:True");
        Some(())
    },
    code: |config, _| {
        let conf = &config.alloc_conf;
        format!(
            "import os\nos.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"{conf}\"  # before torch is imported\n"
        )
    },
};

const COMPILE: Lever = Lever {
    id: "compile",
    title: "Compile the model",
    cost: Cost::Little,
    change: |config, _| {
        (config.compile == Compile::None && config.never_compiled_with().is_none()).then_some(())?;
        config.compile = Compile::Inductor;
        Some(())
    },
    code: |_, _| "model.compile()  # Inductor, in its default mode\n".to_owned(),
};

const FOR_LOOP: Lever = Lever {
    id: "for-loop",
    title: "Use foreach=False",
    cost: Cost::Little,
    change: |config, _| {
        walks_over_lists(config)?;
        optimizer::is_foreach(config.optimizer).then_some(())?;
        config.optimizer_impl = Implementation::ForLoop;
        Some(())
    },
    code: |config, _| constructor(config, ", foreach=False"),
};

const UPDATE: Lever = Lever {
    id: "pytorch",
    title: "Update PyTorch",
    cost: Cost::Little,
    change: |config, _| {
        config.pytorch = PyTorch::LATEST;
        Some(())
    },
    code: |_, _| "# pip install \"torch>=2.15\"\n".to_owned(),
};

const FUSED_HEAD: Lever = Lever {
    id: "fused-head",
    title: "Compute the loss without all logits",
    cost: Cost::Little,
    change: |config, facts| {
        (facts.guesses_next_token && config.loss_kernel == LossKernel::Torch).then_some(())?;
        config.loss_kernel = LossKernel::Fused;
        Some(())
    },
    code: |_, _| {
        "from trl import SFTTrainer  # from TRL 1.15 on its loss is fused with the output head\n\n\
         trainer = SFTTrainer(model=model, train_dataset=dataset)\n\
         # or: from cut_cross_entropy import linear_cross_entropy\n"
            .to_owned()
    },
};

const LIGER: Lever = Lever {
    id: "liger",
    title: "Use Liger's kernels",
    cost: Cost::Nothing,
    change: |config, facts| {
        let is_plain = config.loss_kernel == LossKernel::Torch && config.kernels == Kernels::Torch;
        // It has layers of its own for families with a gate.
        let is_known = facts.guesses_next_token && facts.has_layer("gate_proj");
        (is_known && is_plain).then_some(())?;
        config.loss_kernel = LossKernel::Liger;
        config.kernels = Kernels::Liger;
        Some(())
    },
    code: |_, _| {
        "from liger_kernel.transformers import AutoLigerKernelForCausalLM\n\n\
         model = AutoLigerKernelForCausalLM.from_pretrained(name)\n\
         # transformers' Trainer: TrainingArguments(use_liger_kernel=True)\n"
            .to_owned()
    },
};

const CHANNELS_LAST: Lever = Lever {
    id: "channels-last",
    title: "Use the channels-last memory format",
    cost: Cost::Little,
    change: |config, facts| {
        facts.has_images.then_some(())?;
        config.memory_format = MemoryFormat::ChannelsLast;
        Some(())
    },
    code: |_, _| {
        "model = model.to(memory_format=torch.channels_last)\n\
         x = x.to(memory_format=torch.channels_last)  # each batch\n"
            .to_owned()
    },
};

const AMP_BF16: Lever = Lever {
    id: "amp-bf16",
    title: "Use autocast to bfloat16",
    cost: Cost::Little,
    change: |config, facts| {
        (config.precision == Precision::Fp32 && facts.has_bfloat16).then_some(())?;
        config.precision = Precision::AmpBf16;
        Some(())
    },
    code: |_, _| {
        "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n    output = model(x)\n    \
         loss = loss_fn(output, target)\nloss.backward()\n"
            .to_owned()
    },
};

const AMP_FP16: Lever = Lever {
    id: "amp-fp16",
    title: "Use autocast to float16 with a scaled loss",
    cost: Cost::Little,
    change: |config, facts| {
        (config.precision == Precision::Fp32 && !facts.has_bfloat16).then_some(())?;
        config.precision = Precision::AmpFp16;
        Some(())
    },
    code: |config, _| {
        let mut code = "scaler = torch.amp.GradScaler(\"cuda\")  # once, before the loop\n\n\
                        with torch.autocast(\"cuda\", dtype=torch.float16):\n    \
                        output = model(x)\n    loss = loss_fn(output, target)\n\
                        scaler.scale(loss).backward()\n"
            .to_owned();
        if config.clips() {
            code += "scaler.unscale_(optimizer)  # before the norm is clipped\n";
        }
        code + "scaler.step(optimizer)\nscaler.update()\n"
    },
};

const ACCUMULATE: Lever = Lever {
    id: "accumulate",
    title: "Accumulate gradients over smaller batches",
    cost: Cost::Little,
    change: |config, facts| {
        let batch = config.dims.get_mut(facts.batch.as_deref()?)?;
        // Of an odd batch, what `chunk` makes: the larger half sets the peak.
        (*batch >= 2).then_some(())?;
        *batch = batch.div_ceil(2);
        config.accumulate = config.accumulate.checked_mul(NonZeroU64::new(2)?)?;
        Some(())
    },
    code: |config, facts| {
        let count = config.accumulate;
        let batch = facts.batch.as_ref().and_then(|batch| config.dims.get(batch));
        let size = batch.map_or_else(String::new, |size| format!("  # {size} samples at most"));
        let statistics = if facts.has_batch_norm {
            "# BatchNorm takes its statistics over each part.\n"
        } else {
            ""
        };
        format!(
            "{statistics}for x, target in loader:  # on the CPU still\n    \
             for part, goal in zip(x.chunk({count}), target.chunk({count})):{size}\n        \
             part, goal = part.cuda(), goal.cuda()\n        \
             loss = loss_fn(model(part), goal) * len(part) / len(x)\n        \
             loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
        )
    },
};

const CHECKPOINT_HALF: Lever = Lever {
    id: "checkpoint-half",
    title: "Gradient checkpointing, every second block",
    cost: Cost::Little,
    change: |config, _| {
        (config.checkpoint == Checkpoint::None).then_some(())?;
        config.checkpoint = Checkpoint::Every(NonZeroU64::new(2)?);
        Some(())
    },
    code: |_, _| {
        "from torch.utils.checkpoint import checkpoint\n\n\
         for i, block in enumerate(self.blocks):\n    if i % 2 == 0:\n        \
         x = checkpoint(block, x, use_reentrant=False)\n    else:\n        x = block(x)\n"
            .to_owned()
    },
};

const BUCKET_VIEW: Lever = Lever {
    id: "bucket-view",
    title: "Keep gradients in DDP's buckets",
    cost: Cost::Nothing,
    change: |config, _| {
        has_buckets(config)?;
        config.bucket_view = true;
        Some(())
    },
    code: |_, _| {
        "model = DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)\n"
            .to_owned()
    },
};

const ZERO_1: Lever = Lever {
    id: "zero-1",
    title: "Share the optimizer's state out between the GPUs",
    cost: Cost::Little,
    change: |config, _| {
        has_buckets(config)?;
        config.data_parallel = DataParallel::Zero1;
        Some(())
    },
    code: |config, _| {
        let made = optimizer::constructor(config.optimizer, "").unwrap_or_default();
        let class = made.split_once('(').map_or("torch.optim.AdamW", |(class, _)| class);
        format!(
            "from torch.distributed.optim import ZeroRedundancyOptimizer\n\n\
             optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class={class}, lr=lr)\n"
        )
    },
};

const FSDP: Lever = Lever {
    id: "fsdp",
    title: "Shard parameters, gradients and optimizer state",
    cost: Cost::Little,
    change: |config, _| {
        has_buckets(config)?;
        config.data_parallel = DataParallel::Fsdp;
        Some(())
    },
    code: |config, _| sharded(config),
};

const CPU_OFFLOAD: Lever = Lever {
    id: "cpu-offload",
    title: "Keep shards and optimizer state on the CPU",
    cost: Cost::Host,
    change: |config, _| {
        (config.is_parallel() && config.data_parallel.shards_parameters()).then_some(())?;
        config.cpu_offload = true;
        Some(())
    },
    code: |config, _| sharded(config),
};

const EMA_ON_CPU: Lever = Lever {
    id: "ema-on-cpu",
    title: "Keep the EMA of weights on the CPU",
    cost: Cost::Little,
    change: |config, _| {
        config.ema = false;
        Some(())
    },
    code: |_, _| {
        "from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn\n\n\
         ema = AveragedModel(model, device=\"cpu\", multi_avg_fn=get_ema_multi_avg_fn(0.999))\n"
            .to_owned()
    },
};

const CHECKPOINT: Lever = Lever {
    id: "checkpoint",
    title: "Gradient checkpointing, every block",
    cost: Cost::Time,
    change: |config, _| {
        config.checkpoint = Checkpoint::Blocks;
        Some(())
    },
    code: |_, _| {
        "from torch.utils.checkpoint import checkpoint\n\n\
         for block in self.blocks:\n    x = checkpoint(block, x, use_reentrant=False)\n\
         # transformers: model.gradient_checkpointing_enable()\n"
            .to_owned()
    },
};

const EIGHT_BIT: Lever = Lever {
    id: "adamw-8bit",
    title: "Use 8-bit optimizer state",
    cost: Cost::Training,
    change: |config, _| {
        let optimizer = match config.optimizer {
            Optimizer::Adam => Optimizer::Adam8bit,
            Optimizer::AdamW => Optimizer::AdamW8bit,
            _ => return None,
        };
        exchange(config, optimizer);
        Some(())
    },
    code: |config, _| {
        let made = optimizer::constructor(config.optimizer, "").unwrap_or_default();
        format!("import bitsandbytes as bnb\n\noptimizer = {made}\n")
    },
};

const LION: Lever = Lever {
    id: "lion",
    title: "Train with Lion",
    cost: Cost::Training,
    change: |config, _| {
        keeps_two_copies(config)?;
        exchange(config, Optimizer::Lion);
        Some(())
    },
    code: |_, _| {
        "from timm.optim import Lion\n\n\
         optimizer = Lion(model.parameters(), lr=lr / 10)  # smaller steps than Adam's\n"
            .to_owned()
    },
};

const ADAFACTOR: Lever = Lever {
    id: "adafactor",
    title: "Train with Adafactor",
    cost: Cost::Training,
    change: |config, _| {
        keeps_two_copies(config)?;
        exchange(config, Optimizer::Adafactor);
        Some(())
    },
    code: |_, _| "optimizer = torch.optim.Adafactor(model.parameters(), lr=lr)\n".to_owned(),
};

const SGD_MOMENTUM: Lever = Lever {
    id: "sgd-momentum",
    title: "Train with SGD and momentum",
    cost: Cost::Training,
    change: |config, _| {
        keeps_two_copies(config)?;
        exchange(config, Optimizer::SgdMomentum);
        Some(())
    },
    code: |config, _| constructor(config, ""),
};

const HALF: Lever = Lever {
    id: "half",
    title: "Load the model in 16 bits",
    cost: Cost::Little,
    change: |config, facts| {
        let is_whole = config.precision.converts_to().is_none();
        (is_whole && !config.workload.trains()).then_some(())?;
        config.precision = if facts.has_bfloat16 { Precision::Bf16 } else { Precision::Fp16 };
        Some(())
    },
    code: |config, _| {
        let dtype = if config.precision == Precision::Fp16 { "float16" } else { "bfloat16" };
        format!(
            "model = model.to(torch.{dtype})  # or from_pretrained(name, dtype=torch.{dtype})\n"
        )
    },
};

const BF16: Lever = Lever {
    id: "bf16",
    title: "Train in pure bfloat16",
    cost: Cost::Training,
    change: |config, facts| {
        config.workload.trains().then_some(())?;
        (config.precision.converts_to().is_none() && facts.has_bfloat16).then_some(())?;
        config.precision = Precision::Bf16;
        Some(())
    },
    code: |_, _| {
        "model = model.to(torch.bfloat16)  # before the optimizer is made\n\
         x = x.to(torch.bfloat16)  # each batch, unless it is token ids\n"
            .to_owned()
    },
};

const LORA: Lever = Lever {
    id: "lora",
    title: "Train with LoRA adapters",
    cost: Cost::Training,
    change: |config, facts| {
        (config.workload.trains() && config.lora.is_empty() && config.freeze.is_empty())
            .then_some(())?;
        let targets = ADAPTED.iter().filter(|target| facts.has_layer(target));
        config.lora = targets.map(|&target| target.to_owned()).collect();
        (!config.lora.is_empty()).then_some(())
    },
    code: |config, _| {
        format!(
            "from peft import LoraConfig, get_peft_model\n\n\
             model = get_peft_model(model, LoraConfig(r={}, target_modules=[{}]))\n",
            config.lora_rank,
            quoted(&config.lora)
        )
    },
};

const QLORA: Lever = Lever {
    id: "qlora",
    title: "Train LoRA adapters on 4-bit weights",
    cost: Cost::Training,
    change: |config, facts| {
        (config.workload.trains() && config.quantize == Quantize::None).then_some(())?;
        if config.lora.is_empty() {
            (LORA.change)(config, facts)?;
        }
        config.quantize = Quantize::Nf4;
        config.double_quantize = true;
        Some(())
    },
    code: |config, facts| {
        let adapters = (LORA.code)(config, facts);
        let compute = config.computes_in();
        format!(
            "from transformers import BitsAndBytesConfig\n\n\
             bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\",\n    \
             bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.{compute})\n\
             model = Model.from_pretrained(name, quantization_config=bits, dtype=torch.{compute})\n\
             {adapters}"
        )
    },
};

const FREEZE: Lever = Lever {
    id: "freeze",
    title: "Train the head only",
    cost: Cost::Training,
    change: |config, facts| {
        (config.lora.is_empty() && config.freeze.is_empty()).then_some(())?;
        config.freeze = facts.all_but_the_head()?;
        Some(())
    },
    code: |config, _| {
        format!(
            "frozen = {{{}}}\nfor name, parameter in model.named_parameters():\n    \
             if name.split(\".\")[0] in frozen:\n        parameter.requires_grad_(False)\n",
            quoted(&config.freeze)
        )
    },
};

/// Linear layers of attention by the last part of their names, as `peft` adapts them by default.
const ADAPTED: &[&str] = &[
    "q_proj",
    "v_proj",
    "query",
    "value",
    "q_lin",
    "v_lin",
    "q",
    "v",
    "c_attn",
    "query_key_value",
    "qkv",
];

/// Whether it is one of several ranks that have all parameters and gradients, which go through buckets.
fn has_buckets(config: &Config) -> Option<()> {
    let is_whole = matches!(config.data_parallel, DataParallel::Ddp | DataParallel::Zero1);
    (is_whole && config.is_parallel() && config.ranks().ok()?.tensor == 1).then_some(())
}

/// The model under FSDP, with the policies of a configuration.
fn sharded(config: &Config) -> String {
    let mut imports = vec!["fully_shard"];
    let mut arguments = String::new();
    let type_of =
        |name: &str, dtype: Option<DType>| dtype.map(|dtype| format!("{name}=torch.{dtype}"));
    let types = [
        type_of("param_dtype", config.param_type.dtype()),
        type_of("reduce_dtype", config.reduce_type.dtype()),
    ];
    let types: Vec<_> = types.into_iter().flatten().collect();
    if !types.is_empty() {
        imports.push("MixedPrecisionPolicy");
        arguments = [", mp_policy=MixedPrecisionPolicy(", &types.join(", "), ")"].concat();
    }
    if config.cpu_offload {
        imports.push("CPUOffloadPolicy");
        arguments += ", offload_policy=CPUOffloadPolicy()";
    }
    imports.sort_unstable();
    format!(
        "from torch.distributed.fsdp import {}\n\n\
         for block in blocks:  # such as model.model.layers\n    fully_shard(block{arguments})\n\
         fully_shard(model{arguments})  # in place of DDP, and before the optimizer is made\n",
        imports.join(", ")
    )
}

/// `"a", "b"`.
fn quoted(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(", ")
}

/// Whether the optimizer steps over all parameters at once, with temporaries of the same size.
fn walks_over_lists(config: &Config) -> Option<()> {
    matches!(config.walks(), Implementation::Auto | Implementation::Foreach).then_some(())
}

/// Whether the loop is written by hand, and no library's.
const fn is_own(config: &Config) -> bool {
    matches!(config.loop_style, LoopStyle::Inline | LoopStyle::Function)
}

/// Whether the optimizer's state is more than one copy of the parameters.
fn keeps_two_copies(config: &Config) -> Option<()> {
    (optimizer::copies(config.optimizer) >= 2).then_some(())
}

/// Another optimizer, run as PyTorch would by itself.
const fn exchange(config: &mut Config, optimizer: Optimizer) {
    config.optimizer = optimizer;
    config.optimizer_impl = Implementation::Auto;
}

/// The optimizer as it is, with one more argument.
fn constructor(config: &Config, argument: &str) -> String {
    let decay = if config.weight_decay { ", weight_decay=weight_decay" } else { "" };
    let made = optimizer::constructor(config.optimizer, &format!("{decay}{argument}"));
    made.map_or_else(String::new, |made| format!("optimizer = {made}\n"))
}
