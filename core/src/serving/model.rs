//! Facts about a model that a server runs: its weights by tensor, from the program of its family, and what the cache
//! stores, from the keys of its configuration.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bytes::Bytes;
use crate::config::Library;
use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::formats::{self, catalogue};
use crate::graph::{Graph, Member};
use crate::sentence::Sentence;

use super::cache::{Cache, Reach};
use super::gguf::{Header, Tensor, Value as Stated};
use super::weights::{Format, Role, Weight, Weights};

/// Experts of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Experts {
    /// COUNT: experts that compute each token.
    pub(super) chosen: u64,
    /// COUNT: features between the two projections of an expert.
    pub(super) intermediate: u64,
}

/// What a server needs to know about a model.
#[derive(Clone, Debug)]
pub struct Served {
    /// The name in answers.
    pub name: String,
    /// How the weights are published.
    pub weights: Weights,
    /// COUNT: tokens of the longest text.
    pub positions: Option<u64>,
    /// COUNT: heads of queries.
    pub heads: u64,
    /// What is assumed about the model.
    pub assumptions: Vec<Sentence>,
    pub(super) tensors: Vec<Weight>,
    pub(super) vocabulary: u64,
    pub(super) hidden: u64,
    pub(super) head_dim: u64,
    /// COUNT: features of the feed-forward network; 0 where all layers have experts alone.
    pub(super) intermediate: u64,
    /// COUNT: projections into the feed-forward network: 2 where one is a gate.
    pub(super) gates: u64,
    /// Whether a layer has a feed-forward network without experts.
    pub(super) has_dense_layers: bool,
    pub(super) experts: Option<Experts>,
    pub(super) cache: Cache,
    /// SIZE: tables of rotary positions.
    pub(super) tables: Bytes,
    /// COUNT: weights that multi-head latent attention keeps a second time, by head.
    pub(super) absorbed: u64,
    /// The tensors of a GGUF file.
    pub(super) stored: Option<Vec<Tensor>>,
}

/// COUNT: layers that a file may state.
const LAYERS_MAX: u64 = 1024;

/// Families whose positions are learned or are slopes, so that there is no table of rotary positions.
const WITHOUT_ROTARY: [&str; 6] = ["bloom", "gpt2", "gpt_neo", "mpt", "opt", "xglm"];

/// Families in which a layer of this number looks back over the whole text, and the others over a window.
const PATTERNS: [(&str, u64); 6] = [
    ("cohere2", 4),
    ("exaone4", 4),
    ("gemma2", 2),
    ("gemma3_text", 6),
    ("gpt_oss", 2),
    ("olmo3", 4),
];

/// Families whose window is off unless `use_sliding_window` is on.
const WINDOW_OFF: [&str; 3] = ["qwen2", "qwen3", "qwen3_moe"];

/// Families that are published in a format that the catalogue's configurations leave out.
const PUBLISHED: [(&str, Format); 3] = [
    ("deepseek_v3", Format::Fp8Block),
    ("gpt_oss", Format::Mxfp4),
    ("minimax_m2", Format::Fp8Block),
];

/// Projections that servers run as one, by the last part of their names, and what that one is called.
const FUSED: [(&str, &str); 10] = [
    ("q_proj", "qkv_proj"),
    ("k_proj", "qkv_proj"),
    ("v_proj", "qkv_proj"),
    ("query", "qkv_proj"),
    ("key", "qkv_proj"),
    ("value", "qkv_proj"),
    ("gate_proj", "gate_up_proj"),
    ("up_proj", "gate_up_proj"),
    ("q_a_proj", "fused_qkv_a_proj"),
    ("kv_a_proj_with_mqa", "fused_qkv_a_proj"),
];

/// Projections into a feed-forward network.
const INTO: [&str; 6] = ["gate_up_proj", "c_fc", "dense_h_to_4h", "fc1", "fc_in", "up_proj"];

impl Served {
    /// The model of a name: of the catalogue, or of the Hub, which may end in the format of its weights, such as
    /// `Qwen/Qwen2.5-32B-Instruct-AWQ`. `None` for other names.
    ///
    /// # Errors
    /// When the model is no decoder.
    pub fn named(name: &str) -> Result<Option<Self>, Error> {
        let name = catalogue::of_address(name);
        let find = |name: &str| {
            let tail = name.rsplit('/').next().unwrap_or(name);
            catalogue::find(name).or_else(|| catalogue::find(tail))
        };
        let (entry, weights) = match (find(name), Weights::of_name(name)) {
            (Some(entry), _) => (entry, None),
            (None, Some((weights, plain))) => match find(plain) {
                Some(entry) => (entry, Some(weights)),
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        let text = entry.configuration();
        let served = Self::of_configuration(Some(&text), entry.name, true)?;
        let weights = weights.unwrap_or_else(|| served.weights.clone());
        Ok(Some(Self { weights, ..served }))
    }

    /// A model that was opened: its configuration, with the weights as they are published where it is of the
    /// catalogue.
    ///
    /// # Errors
    /// As [`Served::read`]; and when the model was not written of a configuration.
    pub fn of_configuration(
        configuration: Option<&str>,
        name: &str,
        is_published: bool,
    ) -> Result<Self, Error> {
        let configuration = configuration.ok_or_else(|| {
            let message = say!(
                "a server's model is a name or a `config.json`: the file that is open has no configuration"
            );
            Error::new(ErrorKind::WrongFormat, message)
        })?;
        let mut served = Self::read(configuration, name)?;
        let whole: Option<Value> =
            serde_json::from_str(configuration).ok().filter(|_| is_published);
        let family = whole.as_ref().and_then(|whole| whole.get("model_type")?.as_str());
        if let Some((_, format)) = PUBLISHED.iter().find(|(known, _)| family == Some(*known)) {
            served.weights = Weights::of(*format);
        }
        Ok(served)
    }

    /// The model of a `config.json`.
    ///
    /// # Errors
    /// When the text is no configuration of a decoder that can be read here.
    pub fn read(configuration: &str, name: &str) -> Result<Self, Error> {
        let wrong = |message| Error::new(ErrorKind::WrongFormat, message);
        let text = configuration.trim_start_matches('\u{feff}');
        let mut whole: Value = serde_json::from_str(text).map_err(|error| {
            wrong(say!(
                "a server's model is read from its `config.json`; this is none: {error}",
                error
            ))
        })?;
        let stated = whole.as_object_mut().and_then(|whole| whole.remove("quantization_config"));
        let graph = formats::with_library(&whole.to_string(), Library::default())?;
        let keys = Keys(whole.get("text_config").unwrap_or(&whole));
        refuse_without_decoder(&whole, &graph, name)?;
        let mut weights = Weights::of(match keys.word(&["dtype", "torch_dtype"]) {
            Some("float16") => Format::Fp16,
            _ => Format::Bf16,
        });
        if let Some(stated) = stated.filter(|stated| !stated.is_null()) {
            weights = Weights::read(&stated).ok_or_else(|| {
                let method = stated.get("quant_method").and_then(Value::as_str).unwrap_or("?");
                let known = Format::ALL.iter().map(|format| format.name());
                let known = known.collect::<Vec<_>>().join(", ");
                wrong(say!(
                    "`quantization_config` states the method `{method}`, which is unknown here; remove it and set \
                     `--weights` to one of {known}",
                    method,
                    known
                ))
            })?;
        }
        Self::of(&keys, &graph, weights, name)
    }

    /// The model of a GGUF file.
    ///
    /// # Errors
    /// When the header lacks what the cache depends on.
    pub fn gguf(header: Header, name: &str) -> Result<Self, Error> {
        let Header { metadata, tensors } = header;
        let family = match metadata.get("general.architecture") {
            Some(Stated::Text(family)) => family.clone(),
            _ => String::new(),
        };
        let maybe = |key: &str| match metadata.get(&format!("{family}.{key}")) {
            Some(Stated::Number(count)) => Some(*count),
            _ => None,
        };
        let count = |key: &str| {
            maybe(key).filter(|count| *count > 0).ok_or_else(|| {
                let message = say!(
                    "the header lacks `{family}.{key}`, so that its cache is unknown; it may be no decoder",
                    family = &family,
                    key
                );
                Error::new(ErrorKind::NoGraph, message)
            })
        };
        let (layers, heads) = (count("block_count")?, count("attention.head_count")?);
        let hidden = count("embedding_length")?;
        let kv_heads = maybe("attention.head_count_kv").unwrap_or(heads);
        let head_dim = hidden.checked_div(heads).unwrap_or(1);
        let key = maybe("attention.key_length").unwrap_or(head_dim);
        let value = maybe("attention.value_length").unwrap_or(head_dim);
        let window = maybe("attention.sliding_window").filter(|window| *window > 0);
        let mut assumptions = Vec::new();
        if window.is_some() {
            assumptions.push(say!(
                "The file states a sliding window, but not which layers have it: all are assumed to keep every token."
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            weights: Weights::of(Format::Fp16),
            positions: maybe("context_length"),
            heads,
            assumptions,
            tensors: Vec::new(),
            vocabulary: 0,
            hidden,
            head_dim: key,
            intermediate: 0,
            gates: 1,
            has_dense_layers: false,
            experts: None,
            tables: Bytes::ZERO,
            absorbed: 0,
            cache: Cache {
                layers: repeated(Reach::All, layers.min(LAYERS_MAX)),
                heads: kv_heads,
                width: key.saturating_add(value),
                latent: None,
            },
            stored: Some(tensors),
        })
    }

    /// Whether the model is a GGUF file.
    pub const fn is_gguf(&self) -> bool {
        self.stored.is_some()
    }

    fn of(keys: &Keys<'_>, graph: &Graph, weights: Weights, name: &str) -> Result<Self, Error> {
        let lacks =
            |key| Error::new(ErrorKind::WrongFormat, say!("the configuration lacks `{key}`", key));
        let heads = keys
            .count(&["num_attention_heads", "n_head", "n_heads", "num_heads"])
            .ok_or_else(|| lacks("num_attention_heads"))?;
        let kv_heads = keys.kv_heads(heads);
        let mut tensors = tensors(graph, kv_heads);
        let table = tensors.iter().find(|tensor| tensor.role == Role::Embedding);
        let (vocabulary, hidden) = table
            .and_then(|table| Some((table.outputs, table.numel.checked_div(table.outputs)?)))
            .ok_or_else(|| lacks("vocab_size"))?;
        for tensor in &mut tensors {
            tensor.hidden = hidden;
        }
        let head_dim =
            keys.count(&["head_dim"]).unwrap_or_else(|| hidden.checked_div(heads).unwrap_or(1));
        let positions = graph.positions.or_else(|| keys.positions());
        let latent = keys
            .count(&["kv_lora_rank"])
            .map(|rank| rank.saturating_add(keys.count(&["qk_rope_head_dim"]).unwrap_or(64)));
        let layers = keys
            .count(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"])
            .ok_or_else(|| lacks("num_hidden_layers"))?;
        let layers = keys.reaches(layers, positions);
        let into = tensors.iter().filter(|tensor| tensor.role == Role::Linear);
        let into = into.filter_map(|tensor| {
            let tail = tensor.fused.rsplit('.').next().unwrap_or_default();
            INTO.contains(&tail).then_some((tensor.outputs, tail == "gate_up_proj"))
        });
        let (outputs, is_gated) = into.max().unwrap_or((0, false));
        let gates = if is_gated { 2 } else { 1 };
        let intermediate = outputs.div_euclid(gates);
        let absorbed = tensors.iter().filter(|tensor| tensor.module.ends_with("kv_b_proj"));
        let absorbed = absorbed.map(|tensor| tensor.numel).fold(0, u64::saturating_add);
        let mut assumptions = Vec::new();
        if graph.diagnostics.iter().any(|diagnostic| diagnostic.code == "text-part") {
            assumptions.push(say!(
                "Only the part for text is counted: weights and work for pictures or sound are left out."
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            weights,
            positions,
            heads,
            assumptions,
            vocabulary,
            hidden,
            head_dim,
            intermediate,
            gates,
            has_dense_layers: intermediate > 0,
            experts: keys.experts(graph, hidden),
            tables: keys.tables(positions, head_dim),
            absorbed: if latent.is_some() { absorbed } else { 0 },
            stored: None,
            cache: Cache { layers, heads: kv_heads, width: head_dim.saturating_mul(2), latent },
            tensors,
        })
    }

    /// SIZE: the weights on each of `tp` GPUs of this kind, tensor by tensor.
    pub(super) fn sizes(&self, weights: &Weights, tp: u64, device: &Device) -> Vec<Bytes> {
        let mut sizes: Vec<Bytes> =
            self.tensors.iter().map(|tensor| weights.size(tensor, tp, device)).collect();
        sizes.push(self.tables);
        sizes.push(Bytes(2).times(self.absorbed.div_ceil(tp.max(1))));
        sizes
    }
}

/// The keys of a configuration.
struct Keys<'a>(&'a Value);

impl Keys<'_> {
    fn count(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| self.0.get(name)?.as_u64()).filter(|count| *count > 0)
    }

    fn word(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.0.get(name)?.as_str())
    }

    fn is_set(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool) == Some(true)
    }

    fn family(&self) -> &str {
        self.word(&["model_type"]).unwrap_or_default()
    }

    fn positions(&self) -> Option<u64> {
        self.count(&["max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"])
    }

    fn kv_heads(&self, heads: u64) -> u64 {
        if self.is_set("multi_query") && !self.is_set("new_decoder_architecture") {
            return 1;
        }
        self.count(&["num_key_value_heads", "num_kv_heads"]).unwrap_or(heads)
    }

    /// How far each layer looks back.
    fn reaches(&self, layers: u64, positions: Option<u64>) -> Vec<Reach> {
        let family = self.family();
        let is_off = WINDOW_OFF.contains(&family) && !self.is_set("use_sliding_window");
        let window = self
            .count(&["sliding_window"])
            .filter(|window| !is_off && positions.is_none_or(|positions| *window < positions));
        let chunk = self.count(&["attention_chunk_size"]);
        let short = chunk.map(Reach::Chunk).or_else(|| window.map(Reach::Window));
        let Some(short) = short else { return repeated(Reach::All, layers) };
        let kinds = self.0.get("layer_types").and_then(Value::as_array);
        let usual = PATTERNS.iter().find(|(known, _)| *known == family).map(|(_, every)| *every);
        let every = self.count(&["sliding_window_pattern"]).or(usual);
        let every = every.or_else(|| chunk.map(|_| 4));
        let of = |layer: u64| {
            let kind = usize::try_from(layer).ok().and_then(|at| kinds?.get(at)?.as_str());
            let is_full = match (kind, every) {
                (Some(kind), _) => kind == "full_attention",
                (None, Some(every)) => layer.saturating_add(1).is_multiple_of(every),
                (None, None) => false,
            };
            if is_full { Reach::All } else { short }
        };
        (0..layers).map(of).collect()
    }

    /// The experts, where the weights have some.
    fn experts(&self, graph: &Graph, hidden: u64) -> Option<Experts> {
        let down = graph.values.iter().find_map(|value| {
            let dims = &value.initializer.as_ref()?.dims;
            (value.name.ends_with("down_proj") && dims.len() == 3).then_some(dims)
        })?;
        let other = down.iter().skip(1).find(|size| **size != hidden);
        let intermediate = other.or_else(|| down.last()).copied()?;
        let names = ["num_experts_per_tok", "experts_per_token", "moe_k", "num_experts_per_token"];
        Some(Experts { chosen: self.count(&names).unwrap_or(1), intermediate })
    }

    /// SIZE: cosines and sines of all positions in 16 bits, once for each kind of layer that has its own.
    fn tables(&self, positions: Option<u64>, head_dim: u64) -> Bytes {
        let family = self.family();
        if WITHOUT_ROTARY.contains(&family) || self.is_set("alibi") {
            return Bytes::ZERO;
        }
        let factor = ["partial_rotary_factor", "rotary_pct"];
        let factor = factor.iter().find_map(|name| self.0.get(name));
        let part = factor.and_then(|factor| super::Share::parse(&factor.to_string()));
        let width = self.count(&["qk_rope_head_dim", "rotary_dim"]);
        let width =
            width.unwrap_or_else(|| part.map_or(head_dim, |part| part.of(Bytes(head_dim)).0));
        let kinds = if family == "gemma3_text" { 2 } else { 1 };
        Bytes(2).times(positions.unwrap_or(0)).times(width).times(kinds)
    }
}

fn repeated(reach: Reach, layers: u64) -> Vec<Reach> {
    (0..layers).map(|_| reach).collect()
}

/// Refuses a model that writes no text.
fn refuse_without_decoder(whole: &Value, graph: &Graph, name: &str) -> Result<(), Error> {
    let class = whole.get("architectures").and_then(|names| names.get(0)).and_then(Value::as_str);
    let class = class.unwrap_or(graph.name.as_str());
    let is_encoder_decoder = whole.get("is_encoder_decoder").and_then(Value::as_bool) == Some(true)
        || graph.values.iter().any(|value| value.name.contains("encoder_attn"))
        || graph.values.iter().any(|value| value.name.contains("EncDecAttention"));
    let writes = ["ForCausalLM", "LMHeadModel", "ForConditionalGeneration"];
    if !is_encoder_decoder && writes.iter().any(|end| class.ends_with(end)) {
        return Ok(());
    }
    let message = if is_encoder_decoder {
        say!(
            "{name} has an encoder and a decoder, and servers keep two caches for it, which are not computed here; \
             name a model that has a decoder alone, such as llama-3.1-8b",
            name
        )
    } else {
        say!(
            "{name} ({class}) has no decoder, so a server keeps no KV cache for it; name a model that writes text, \
             whose class ends in ForCausalLM",
            name,
            class
        )
    };
    Err(Error::new(ErrorKind::NoGraph, message))
}

/// The weights as a server stores them, in the order of the model.
fn tensors(graph: &Graph, kv_heads: u64) -> Vec<Weight> {
    let members = graph.members_by_name();
    let mut all: Vec<Weight> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for value in &graph.values {
        let Some(literal) = &value.initializer else { continue };
        if members.get(&value.name) != Some(&Member::Parameter) {
            continue;
        }
        let weight = weight(&value.name, &literal.dims, kv_heads);
        let place = places.get(&weight.fused).copied();
        if let Some(other) = place.and_then(|place| all.get_mut(place)) {
            other.join(&weight);
        } else {
            places.insert(weight.fused.clone(), all.len());
            all.push(weight);
        }
    }
    all
}

/// A tensor of the model's program.
fn weight(name: &str, dims: &[u64], kv_heads: u64) -> Weight {
    let (parent, leaf) = name.rsplit_once('.').unwrap_or(("", name));
    let module = if matches!(leaf, "weight" | "bias") { parent } else { name };
    let (path, tail) = module.rsplit_once('.').unwrap_or(("", module));
    let is_bias = leaf == "bias" || leaf.ends_with("_bias");
    let role = match (dims.len(), tail) {
        (2, "embed_tokens" | "wte" | "word_embeddings" | "embed_in") => Role::Embedding,
        (2, "lm_head" | "embed_out") => Role::Head,
        (2, "gate" | "router" | "shared_expert_gate") => Role::Router,
        (2, "wpe" | "embed_positions") => Role::Other,
        (3, _) if !is_bias => Role::Experts,
        (2, _) if !is_bias => Role::Linear,
        _ => Role::Other,
    };
    let fused = FUSED.iter().find(|(part, _)| *part == tail).map(|(_, whole)| *whole);
    let is_whole = matches!(role, Role::Router) || fused == Some("fused_qkv_a_proj");
    // Biases of projections that are split by their outputs are split, too.
    let is_split = match role {
        Role::Other => is_bias && (fused.is_some() || dims.len() == 2),
        _ => !is_whole,
    };
    let mut sizes = dims.to_vec();
    if let (Role::Embedding | Role::Head, Some(rows)) = (role, sizes.first_mut()) {
        *rows = rows.next_multiple_of(64);
    }
    let numel = crate::tensor::numel(&sizes);
    let key_or_value = matches!(tail, "k_proj" | "v_proj" | "key" | "value");
    Weight {
        module: module.to_owned(),
        fused: match fused {
            Some(whole) => format!("{path}.{whole}.{leaf}").replace(".weight", ""),
            None => name.replace(".weight", ""),
        },
        role,
        numel,
        outputs: sizes.first().copied().unwrap_or(1),
        is_split,
        keys: if key_or_value { numel } else { 0 },
        kv_heads,
        experts: if role == Role::Experts { sizes.first().copied().unwrap_or(0) } else { 0 },
        hidden: 0,
    }
}
