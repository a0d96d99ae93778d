//! Weights as servers hold them: 16 bits, or quantised with scales and zero points.
//!
//! Sources: transformers, `utils/quantization_config.py`; vLLM, `model_executor/layers/quantization`; the keys of
//! published configurations.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bytes::Bytes;
use crate::config::choice;
use crate::device::Device;
use crate::sentence::Sentence;

choice! {
    /// How the weights of linear layers are stored.
    pub enum Format ("format of weights") {
        /// bfloat16.
        Bf16 = "bf16", "bfloat16", "16 bits",
        /// float16.
        Fp16 = "fp16", "float16", "16 bits",
        /// 32-bit floats.
        Fp32 = "fp32", "float32", "32 bits",
        /// AWQ: 4 bits, with a scale and a zero point for each group of inputs.
        Awq = "awq", "AWQ", "4 bits, with a scale and a zero point for each group of inputs",
        /// GPTQ, also `compressed-tensors` with integers: 4 bits, with a scale for each group.
        Gptq = "gptq", "GPTQ", "4 bits, with a scale for each group of inputs",
        /// GPTQ with 8 bits.
        Gptq8 = "gptq-int8", "GPTQ, 8 bits", "8 bits, with a scale for each group of inputs",
        /// 8-bit floats, with a scale for a tensor or each output.
        Fp8 = "fp8", "FP8", "8-bit floats, with a scale for each output",
        /// 8-bit floats, with a scale for each 128 × 128 block.
        Fp8Block = "fp8-block", "FP8, blocks", "8-bit floats, with a scale for each block of 128 × 128",
        /// 8-bit integers for weights and activations, with a scale for each output.
        Int8 = "int8", "INT8", "8-bit integers, with a scale for each output",
        /// bitsandbytes' `LLM.int8()`.
        Bnb8 = "bnb-int8", "LLM.int8", "8-bit integers of bitsandbytes, with a scale for each output",
        /// bitsandbytes' 4-bit floats, with a scale for each 64 weights.
        Nf4 = "nf4", "NF4", "4-bit floats of bitsandbytes, with a scale for each 64 weights",
        /// 4-bit floats with a scale for each 32, in experts alone.
        Mxfp4 = "mxfp4", "MXFP4", "4-bit floats with a scale for each 32 weights, in experts alone",
        /// 4-bit floats with a scale for each 16.
        Nvfp4 = "nvfp4", "NVFP4", "4-bit floats with a scale for each 16 weights",
    }
}

/// Ends of models' names, the longest first, and how their weights are stored.
const ENDS: [(&str, Format); 21] = [
    ("-quantized.w4a16", Format::Gptq),
    ("-quantized.w8a16", Format::Gptq8),
    ("-quantized.w8a8", Format::Int8),
    ("-unsloth-bnb-4bit", Format::Nf4),
    ("-fp8-dynamic", Format::Fp8),
    ("-awq-int4", Format::Awq),
    ("-gptq-int4", Format::Gptq),
    ("-gptq-int8", Format::Gptq8),
    ("-bnb-4bit", Format::Nf4),
    ("-bnb-8bit", Format::Bnb8),
    ("-awq-4bit", Format::Awq),
    ("-w4a16", Format::Gptq),
    ("-w8a16", Format::Gptq8),
    ("-w8a8", Format::Int8),
    ("-nvfp4", Format::Nvfp4),
    ("-mxfp4", Format::Mxfp4),
    ("-gptq", Format::Gptq),
    ("-int8", Format::Int8),
    ("-fp8", Format::Fp8),
    ("-awq", Format::Awq),
    ("-nf4", Format::Nf4),
];

impl Format {
    /// All names, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|format| format.name())
    }

    /// The format that people call so.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase().replace('_', "-");
        let is_called =
            |format: &&Self| format.name() == text || format.others().contains(&text.as_str());
        Self::ALL.iter().find(is_called).copied()
    }

    /// Its other names.
    const fn others(self) -> &'static [&'static str] {
        match self {
            Self::Bf16 => &["bfloat16"],
            Self::Fp16 => &["float16", "half"],
            Self::Fp32 => &["float32"],
            Self::Awq => &["awq-marlin"],
            Self::Gptq => &["gptq-int4", "w4a16", "int4"],
            Self::Gptq8 => &["w8a16"],
            Self::Fp8 => &["fp8-dynamic"],
            Self::Int8 => &["w8a8"],
            Self::Bnb8 => &["llm-int8", "bnb-8bit"],
            Self::Nf4 => &["bnb-4bit", "bitsandbytes", "bnb"],
            Self::Fp8Block | Self::Mxfp4 | Self::Nvfp4 => &[],
        }
    }

    /// COUNT: bits of a weight, without scales.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Fp32 => 32,
            Self::Bf16 | Self::Fp16 => 16,
            Self::Gptq8 | Self::Fp8 | Self::Fp8Block | Self::Int8 | Self::Bnb8 => 8,
            Self::Awq | Self::Gptq | Self::Nf4 | Self::Mxfp4 | Self::Nvfp4 => 4,
        }
    }

    /// What to know about the format on a GPU.
    ///
    /// # Errors
    /// When vLLM has no kernels for it there: why, as a sentence.
    pub(super) fn on(self, device: &Device) -> Result<Option<Sentence>, Sentence> {
        let (gpu, name) = (device.name, self.name());
        let capability = device.compute_capability;
        let (needed, native) = match self {
            Self::Bf16 if capability < (8, 0) => {
                return Ok(Some(say!(
                    "{gpu} has no bfloat16: the server runs the weights as float16.",
                    gpu
                )));
            }
            Self::Bf16 | Self::Fp16 | Self::Fp32 => return Ok(None),
            Self::Awq => ((7, 5), (8, 0)),
            Self::Gptq | Self::Gptq8 => ((6, 0), (8, 0)),
            Self::Int8 => ((7, 5), (7, 5)),
            Self::Bnb8 | Self::Nf4 => ((7, 0), (7, 0)),
            Self::Fp8 | Self::Fp8Block => ((8, 0), (8, 9)),
            Self::Mxfp4 => ((8, 0), (9, 0)),
            Self::Nvfp4 => ((8, 0), (10, 0)),
        };
        let text = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        if capability < needed {
            return Err(say!(
                "{gpu} has compute capability {has}, and {name} weights need {needed} or later.",
                gpu,
                has = text(capability),
                name,
                needed = text(needed)
            ));
        }
        if capability >= native {
            return Ok(None);
        }
        Ok(Some(match self {
            Self::Awq | Self::Gptq | Self::Gptq8 => say!(
                "Marlin's kernels need compute capability 8.0, so {name} runs with slower ones on {gpu}.",
                name,
                gpu
            ),
            _ => say!(
                "{gpu} does not compute in {name}: Marlin's kernels restore the weights to 16 bits as they multiply.",
                gpu,
                name
            ),
        }))
    }
}

/// How a model's weights are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// The linear layers.
    pub format: Format,
    /// COUNT: inputs that share a scale.
    group: u64,
    /// Whether scales of bitsandbytes are quantised, too.
    is_double: bool,
    /// Modules that keep 16 bits: names, ends of names, or patterns behind `re:`.
    kept: Vec<String>,
}

/// What a tensor is to the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The table of embeddings.
    Embedding,
    /// The output layer.
    Head,
    /// A linear layer.
    Linear,
    /// The linear layers of all experts.
    Experts,
    /// The choice of experts, which keeps 16 bits.
    Router,
    /// Normalisation, biases, tables.
    Other,
}

/// Some tensors that a server stores as one.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    /// Name of the module, such as `model.layers.0.mlp.up_proj`.
    pub(super) module: String,
    /// What it is.
    pub(super) role: Role,
    /// COUNT: weights.
    pub(super) numel: u64,
    /// COUNT: outputs of all parts, each with a scale of its own where outputs have one.
    pub(super) outputs: u64,
    /// Whether each GPU has a part of it under tensor parallelism.
    pub(super) is_split: bool,
    /// The name that all parts of it share.
    pub(super) fused: String,
    /// COUNT: weights of keys and values, of which each GPU has a head or more.
    pub(super) keys: u64,
    /// COUNT: heads of keys and values.
    pub(super) kv_heads: u64,
    /// COUNT: experts; 0 where there are none.
    pub(super) experts: u64,
    /// COUNT: features of the residual stream.
    pub(super) hidden: u64,
}

impl Weight {
    /// Adds another part.
    pub(super) fn join(&mut self, other: &Self) {
        self.numel = self.numel.saturating_add(other.numel);
        self.outputs = self.outputs.saturating_add(other.outputs);
        self.keys = self.keys.saturating_add(other.keys);
    }

    /// COUNT: weights on each of `tp` GPUs.
    fn on_each(&self, tp: u64) -> u64 {
        if !self.is_split {
            return self.numel;
        }
        let others = self.numel.saturating_sub(self.keys).div_ceil(tp.max(1));
        others.saturating_add(self.keys.div_ceil(tp.min(self.kv_heads).max(1)))
    }
}

impl Weight {
    /// COUNT: weights of the experts on each of `parts` GPUs as the kernels for mxfp4 pad them: the residual stream to
    /// 256, and the features of an expert to 128 in Marlin's kernels, to 256 in `FlashInfer`'s on Blackwell, to 64 in
    /// Triton's on Hopper.
    fn padded(&self, parts: u64, device: &Device) -> u64 {
        let tile = match device.compute_capability {
            (9, _) => 64,
            (10, _) => 256,
            _ => 128,
        };
        let others = self.numel.checked_div(self.experts.saturating_mul(self.hidden)).unwrap_or(0);
        // Gate and up, fused, are padded apart.
        let gates = if self.module.ends_with("gate_up_proj") { 2 } else { 1 };
        let features = others.div_ceil(parts).div_ceil(gates).next_multiple_of(tile);
        let hidden = self.hidden.next_multiple_of(256);
        self.experts.saturating_mul(hidden).saturating_mul(features.saturating_mul(gates))
    }
}

impl Weights {
    /// A format with its usual groups.
    pub fn of(format: Format) -> Self {
        Self { format, group: 128, is_double: false, kept: Vec::new() }
    }

    /// The format of a name such as `Qwen2.5-32B-Instruct-AWQ`, and the name without it.
    pub fn of_name(name: &str) -> Option<(Self, &str)> {
        let lower = name.to_ascii_lowercase();
        let (end, format) = ENDS.iter().find(|(end, _)| lower.ends_with(end))?;
        let rest = name.len().checked_sub(end.len())?;
        Some((Self::of(*format), name.get(..rest)?))
    }

    /// What a configuration states under `quantization_config`; `None` where it states no known method.
    pub(super) fn read(config: &Value) -> Option<Self> {
        let word = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
        let count = |key: &str| config.get(key).and_then(Value::as_u64);
        let is_set = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
        let bits = count("bits").or_else(|| count("w_bit")).unwrap_or(4);
        let mut group = count("group_size").or_else(|| count("q_group_size"));
        let method = word("quant_method").to_ascii_lowercase();
        let format = match method.as_str() {
            "awq" => Format::Awq,
            "gptq" | "auto-round" if bits == 8 => Format::Gptq8,
            "gptq" | "auto-round" => Format::Gptq,
            "fp8" if config.get("weight_block_size").is_some_and(Value::is_array) => {
                Format::Fp8Block
            }
            "fp8" | "fbgemm_fp8" => Format::Fp8,
            "mxfp4" => Format::Mxfp4,
            "bitsandbytes" if is_set("load_in_8bit") => Format::Bnb8,
            "bitsandbytes" => Format::Nf4,
            "compressed-tensors" | "compressed_tensors" => {
                let groups = config.get("config_groups").and_then(Value::as_object);
                let first = groups.and_then(|groups| groups.values().next());
                let of = |part: &str, key: &str| {
                    first.and_then(|group| group.get(part)).and_then(|part| part.get(key))
                };
                group = of("weights", "group_size").and_then(Value::as_u64).or(group);
                let bits = of("weights", "num_bits").and_then(Value::as_u64).unwrap_or(8);
                let is_float = of("weights", "type").and_then(Value::as_str) == Some("float");
                let has_activations =
                    of("input_activations", "num_bits").and_then(Value::as_u64) == Some(8);
                let strategy = of("weights", "strategy").and_then(Value::as_str);
                match (is_float, bits) {
                    (true, 4) if word("format").contains("mxfp4") => Format::Mxfp4,
                    (true, 4) => Format::Nvfp4,
                    (true, _) if strategy == Some("block") => Format::Fp8Block,
                    (true, _) => Format::Fp8,
                    (false, 4) => Format::Gptq,
                    (false, _) if has_activations => Format::Int8,
                    (false, _) => Format::Gptq8,
                }
            }
            _ => return None,
        };
        let lists = ["modules_to_not_convert", "ignore", "ignored_layers", "llm_int8_skip_modules"];
        let names = lists.iter().filter_map(|key| config.get(key).and_then(Value::as_array));
        let kept = names.flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let group = group.filter(|group| *group > 0).unwrap_or(128);
        let is_double = is_set("bnb_4bit_use_double_quant");
        Some(Self { format, group, is_double, kept })
    }

    /// SIZE: a weight on each of `tp` GPUs of this kind.
    pub(super) fn size(&self, weight: &Weight, tp: u64, device: &Device) -> Bytes {
        let parts = if weight.is_split { tp.max(1) } else { 1 };
        let (n, outputs) = (weight.on_each(tp), weight.outputs.div_ceil(parts));
        let per = |elements: u64, bytes: u64| Bytes(bytes).times(elements);
        let whole = if self.format == Format::Fp32 { per(n, 4) } else { per(n, 2) };
        let is_quantised = match weight.role {
            Role::Linear => self.format != Format::Mxfp4,
            Role::Experts => true,
            Role::Embedding | Role::Head | Role::Router | Role::Other => false,
        };
        if !is_quantised || self.keeps(&weight.module) {
            return whole;
        }
        let groups = n.div_ceil(self.group);
        let half = Bytes(n.div_ceil(2));
        match self.format {
            Format::Bf16 | Format::Fp16 | Format::Fp32 => whole,
            Format::Awq => half + per(groups, 2) + Bytes(groups.div_ceil(2)),
            Format::Gptq => half + per(groups, 2),
            Format::Gptq8 => Bytes(n) + per(groups, 2),
            Format::Fp8 | Format::Int8 | Format::Bnb8 => Bytes(n) + per(outputs, 4),
            Format::Fp8Block => Bytes(n) + per(n.div_ceil(128 * 128), 4),
            Format::Nf4 if self.is_double => {
                let blocks = n.div_ceil(64);
                half + Bytes(blocks) + per(blocks.div_ceil(256), 4)
            }
            Format::Nf4 => half + per(n.div_ceil(64), 4),
            Format::Mxfp4 => {
                let padded = weight.padded(parts, device);
                Bytes(padded.div_ceil(2)) + Bytes(padded.div_ceil(32))
            }
            Format::Nvfp4 => half + Bytes(n.div_ceil(16)),
        }
    }

    /// Whether a module keeps 16 bits.
    fn keeps(&self, module: &str) -> bool {
        self.kept.iter().any(|kept| match kept.strip_prefix("re:") {
            // Published patterns begin and end in `.*`.
            Some(pattern) => {
                let core = pattern.trim_start_matches(".*").trim_end_matches(['$']);
                let core = core.trim_end_matches(".*").replace('\\', "");
                !core.is_empty() && module.contains(core.as_str())
            }
            None => module == kept || module.ends_with(&format!(".{kept}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, Role, Weight, Weights};
    use crate::device;

    #[test]
    fn names_end_in_formats() {
        let of = |name| Weights::of_name(name).map(|(weights, rest)| (weights.format, rest));
        assert_eq!(of("qwen2.5-32b-awq"), Some((Format::Awq, "qwen2.5-32b")));
        assert_eq!(
            of("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4"),
            Some((Format::Gptq, "Qwen/Qwen2.5-32B-Instruct"))
        );
        assert_eq!(of("llama-3.1-8b"), None);
    }

    #[test]
    fn configurations_state_formats() {
        let of = |text: &str| {
            Weights::read(&serde_json::from_str(text).unwrap()).map(|weights| weights.format)
        };
        assert_eq!(of(r#"{"quant_method": "awq", "bits": 4}"#), Some(Format::Awq));
        assert_eq!(of(r#"{"quant_method": "gptq", "bits": 8}"#), Some(Format::Gptq8));
        let block = r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#;
        assert_eq!(of(block), Some(Format::Fp8Block));
        assert_eq!(of(r#"{"quant_method": "hqq"}"#), None);
        let compressed = r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights":
            {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}}}"#;
        assert_eq!(of(compressed), Some(Format::Int8));
    }

    /// 4 bits, 16 bits of scale and 4 of zero point for 128 weights.
    #[test]
    fn scales_are_counted() {
        let weight = Weight {
            module: "model.layers.0.mlp.down_proj".to_owned(),
            role: Role::Linear,
            numel: 128 * 1024,
            outputs: 128,
            is_split: true,
            fused: "model.layers.0.mlp.down_proj".to_owned(),
            keys: 0,
            kv_heads: 8,
            experts: 0,
            hidden: 1024,
        };
        let device = device::find("a100-80gb").unwrap();
        let size = |weights: &Weights, tp| weights.size(&weight, tp, device).0;
        assert_eq!(size(&Weights::of(Format::Awq), 1), 64 * 1024 + 1024 * 2 + 512);
        assert_eq!(size(&Weights::of(Format::Fp8), 2), 64 * 1024 + 64 * 4);
        let kept = Weights { kept: vec!["down_proj".to_owned()], ..Weights::of(Format::Awq) };
        assert_eq!(size(&kept, 1), 256 * 1024);
    }
}
