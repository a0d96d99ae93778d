//! The oracle's way of saying what was run, in our words.

use std::fs;
use std::io::Read as _;
use std::num::NonZeroU64;

use highwater_core::config::{
    Checkpoint, Compile, ComputeType, Implementation, InPlace, Kernels, LoopStyle, LossChoice,
    LossKernel, MemoryFormat, MicroBatches, Objective, Optimizer, Precision, PyTorch, Rank, Switch,
    Workload, ZeroGrad,
};
use highwater_core::{Config, Model, device};
use serde_json::Value;

use crate::Result;

/// A model, packed or not.
pub(crate) fn open(path: &str) -> Result<Model> {
    Ok(highwater_core::open(&mut read(path)?.as_slice(), path)?)
}

/// A file, unpacked if it is a gzip.
pub(crate) fn read(path: &str) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

/// The configuration of a recorded run; an error names what has no counterpart here.
pub(crate) fn configuration(model: &Model, row: &Value) -> Result<Config> {
    let size = |key: &str| row[key].as_u64();
    let text = |key: &str| row[key].as_str();
    let dims = model.open_dims().into_iter().filter_map(|dim| {
        let chosen = match dim.name.as_str() {
            _ if dim.batch => size("batch"),
            // Of a print.
            "H" | "W" => size("size"),
            // It follows the batch.
            _ if dim.default == 1 => return None,
            _ => size("seq"),
        };
        Some((dim.name, chosen.unwrap_or(dim.default)))
    });
    let optimizer = match text("optimizer").ok_or("a run without an optimizer")? {
        "sgd" => Optimizer::SgdMomentum,
        "sgd0" => Optimizer::Sgd,
        "AdamW8bit" => Optimizer::AdamW8bit,
        "PagedAdamW8bit" => Optimizer::PagedAdamW8bit,
        "PagedAdamW32bit" => Optimizer::PagedAdamW32bit,
        class => class.to_lowercase().parse()?,
    };
    let optimizer_impl = match (row["fused"].as_bool(), size("foreach")) {
        (Some(true), _) => Implementation::Fused,
        (_, Some(0)) => Implementation::ForLoop,
        (_, Some(_)) => Implementation::Foreach,
        _ => Implementation::Auto,
    };
    let zero_grad = match text("zero_grad") {
        Some("backward") => ZeroGrad::BeforeBackward,
        Some("end") => ZeroGrad::End,
        _ => ZeroGrad::Auto,
    };
    let loop_style = text("style").map_or(Ok(LoopStyle::Inline), str::parse)?;
    let pytorch = text("torch").map_or(Ok(PyTorch::LATEST), str::parse)?;
    Ok(Config {
        dims: dims.collect(),
        accumulate: size("accumulate").and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN),
        freeze: [model.defaults().freeze.clone(), names(row, "freeze")].concat(),
        loss: text("loss").map_or_else(|| Ok(model.defaults().loss), str::parse::<LossChoice>)?,
        precision: precision(row),
        memory_format: if row["channels_last"] == true {
            MemoryFormat::ChannelsLast
        } else {
            MemoryFormat::Contiguous
        },
        optimizer,
        optimizer_impl,
        in_place: text("in_place").map_or(Ok(InPlace::Auto), str::parse)?,
        zero_grad,
        loop_style,
        clip_grad_norm: if row["clip"].as_f64().is_some_and(|norm| norm > 0.0) {
            Switch::On
        } else {
            Switch::Auto
        },
        checkpoint_reentry: if row["reentrant"] == true { Switch::On } else { Switch::Auto },
        objective: text("objective").map_or(Ok(Objective::Supervised), str::parse)?,
        checkpoint_offload: row["offload"] == true,
        optimizer_in_backward: row["in_backward"] == true,
        compile: if text("compile").is_some() { Compile::Inductor } else { Compile::None },
        loss_kernel: text("loss_kernel").map_or(Ok(LossKernel::Torch), str::parse)?,
        kernels: text("kernels").map_or(Ok(Kernels::Torch), str::parse)?,
        evaluation: row["evaluation"] == true,
        checkpoint: if row["checkpoint"] == true { Checkpoint::Blocks } else { Checkpoint::None },
        pytorch,
        device: device(row)?,
        ..ranks(row, adapted(row, workload(row))?)?
    })
}

/// How several GPUs share a recorded run.
fn ranks(row: &Value, default: Config) -> Result<Config> {
    let count = |key: &str| row[key].as_u64().and_then(NonZeroU64::new);
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let is = |key: &str| row[key] == true;
    if row["gpus"].as_u64().unwrap_or(1) < 2 {
        return Ok(default);
    }
    let chosen = |key: &str| row[key].as_str().unwrap_or("auto");
    Ok(Config {
        gpus: count("gpus").unwrap_or(NonZeroU64::MIN),
        mesh: text("mesh").parse()?,
        data_parallel: chosen("data_parallel").parse()?,
        rank: Rank(row["rank"].as_u64()),
        schedule: text("schedule").parse().unwrap_or(default.schedule),
        micro_batches: MicroBatches(count("micro_batches")),
        bucket_view: is("gradient_as_bucket_view"),
        find_unused: is("find_unused_parameters"),
        no_sync: is("no_sync"),
        reshard: chosen("reshard").parse()?,
        param_type: chosen("param_type").parse()?,
        reduce_type: chosen("reduce_type").parse()?,
        cpu_offload: is("cpu_offload"),
        use_orig_params: is("use_orig_params"),
        ..default
    })
}

/// Types of a recorded run.
fn precision(row: &Value) -> Precision {
    let masters = row["masters"] == true;
    match (row["amp"].as_str(), row["dtype"].as_str()) {
        (_, Some("float16")) if masters => Precision::Fp16Master,
        (_, Some("bfloat16")) if masters => Precision::Bf16Master,
        (Some("float16"), Some("float16")) => Precision::Fp16Amp,
        (Some("bfloat16"), Some("bfloat16")) => Precision::Bf16Amp,
        (Some("float16"), _) => Precision::AmpFp16,
        (Some("bfloat16"), _) => Precision::AmpBf16,
        (_, Some("float16")) => Precision::Fp16,
        (_, Some("bfloat16")) => Precision::Bf16,
        _ => Precision::Fp32,
    }
}

fn names(row: &Value, key: &str) -> Vec<String> {
    let list = row[key].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What was run, and nothing else.
fn workload(row: &Value) -> Config {
    let usual = Config::default();
    let new_tokens = row["new_tokens"].as_u64().and_then(NonZeroU64::new);
    let workload = match (new_tokens, row["inference"] == true) {
        (Some(_), _) => Workload::Generation,
        (None, true) => Workload::Inference,
        (None, false) => Workload::Training,
    };
    Config { workload, new_tokens: new_tokens.unwrap_or(usual.new_tokens), ..usual }
}

/// Adapters of a recorded run, and the weights below them.
fn adapted(row: &Value, default: Config) -> Result<Config> {
    let size = |key: &str| row[key].as_u64();
    let text = |key: &str| row[key].as_str();
    Ok(Config {
        lora: names(row, "lora"),
        lora_rank: size("lora_rank").and_then(NonZeroU64::new).unwrap_or(default.lora_rank),
        lora_dropout: row["lora_dropout"] == true,
        lora_model_type: row["lora_model_type"] == true,
        dora: row["dora"] == true,
        modules_to_save: names(row, "modules_to_save"),
        input_require_grads: row["input_require_grads"] == true,
        quantize: text("quantize").map_or(Ok(default.quantize), str::parse)?,
        double_quantize: row["double_quantize"] == true,
        compute_type: match text("compute_type") {
            Some("float32") => ComputeType::Fp32,
            Some("float16") => ComputeType::Fp16,
            Some("bfloat16") => ComputeType::Bf16,
            _ => default.compute_type,
        },
        ..default
    })
}

/// `a100.txt`, the table of workspaces that the oracle was given, names the device.
fn device(row: &Value) -> Result<String> {
    let table = row["conv_table"].as_str().unwrap_or("a100.txt");
    let stem = table.split('.').next().unwrap_or(table);
    let id = match stem {
        "a100" => "a100-80gb",
        "h100" => "h100-80gb",
        "rtx3090" => "rtx-3090",
        "rtx4090" => "rtx-4090",
        other => other,
    };
    match device::lookup(id) {
        Some(device) => Ok(device.id.to_owned()),
        None => Err(format!("no device `{id}` for the table {table}").into()),
    }
}
