//! How many tokens and requests a server keeps on a GPU: the memory of vLLM, `SGLang` and llama.cpp.
//!
//! - A server loads the weights, keeps some memory for its work, and gives the rest to the KV cache.
//! - [`Served`] has the facts about a model: its weights by tensor, from the program of its family, and what the cache
//!   stores of a token, from the keys of its configuration.
//! - [`Serving`] has the settings of the server. [`answer`] computes a [`Row`] for each GPU.
//! - Rules and their sources: `docs/inference.md`. The measured errors: `tests/fixtures/serving/errors.txt`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::{Bytes, grouped};
use crate::config::choice;
use crate::device::{Context, Device};
use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;

mod cache;
mod context;
mod gguf;
mod model;
mod profile;
mod sglang;
mod vllm;
mod weights;

pub use self::cache::KvType;
pub use self::context::tokens;
pub use self::gguf::{Header, header};
pub use self::model::Served;
pub use self::profile::Sampler;
pub use self::vllm::Release;
pub use self::weights::{Format, Weights};

choice! {
    /// A server.
    #[derive(Default)]
    pub enum Engine ("server") {
        /// vLLM with its V1 engine.
        #[default]
        Vllm = "vllm", "vLLM", "gives the cache what a profile run leaves of its share",
        /// `SGLang`.
        Sglang = "sglang", "SGLang", "gives weights and cache a share, and leaves the rest for work",
        /// llama.cpp's server.
        LlamaCpp = "llama.cpp", "llama.cpp", "allocates the cache of the whole context",
    }
}

/// How a server is started; `None` is the server's default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The server.
    pub engine: Engine,
    /// COUNT: tokens of the longest request, prompt and answer.
    pub context: u64,
    /// Share of the GPU that the server may use: vLLM's `gpu_memory_utilization`, `SGLang`'s `mem_fraction_static`.
    pub utilization: Option<Share>,
    /// Type of the cache's elements.
    pub kv_type: KvType,
    /// The weights, where they are not stored as the configuration states.
    pub weights: Option<Weights>,
    /// COUNT: GPUs that share each layer.
    pub tp: u64,
    /// COUNT: requests in a batch.
    pub max_num_seqs: Option<u64>,
    /// COUNT: tokens in a batch.
    pub max_num_batched_tokens: Option<u64>,
    /// Whether no CUDA graphs are captured.
    pub is_eager: bool,
    /// The release of vLLM.
    pub vllm: Release,
    /// How vLLM samples.
    pub sampler: Option<Sampler>,
    /// COUNT: tokens in a block of the cache.
    pub block: Option<u64>,
    /// COUNT: layers that llama.cpp offloads to the GPU.
    pub gpu_layers: Option<u64>,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            engine: Engine::Vllm,
            context: 0,
            utilization: None,
            kv_type: KvType::Auto,
            weights: None,
            tp: 1,
            max_num_seqs: None,
            max_num_batched_tokens: None,
            is_eager: false,
            vllm: Release::default(),
            sampler: None,
            block: None,
            gpu_layers: None,
        }
    }
}

/// A decimal fraction, in ten thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub u64);

impl Share {
    /// COUNT: parts of a whole.
    const WHOLE: u64 = 10_000;

    /// The fraction that a text such as `0.9` states: above 0, at most 1.
    pub fn parse(text: &str) -> Option<Self> {
        let (parts, _) = crate::bytes::decimal(text, Self::WHOLE)?;
        (1..=Self::WHOLE).contains(&parts.0).then_some(Self(parts.0))
    }

    /// SIZE: this share of a size.
    pub fn of(self, whole: Bytes) -> Bytes {
        let part = u128::from(whole.0).saturating_mul(self.0.into()).div_euclid(Self::WHOLE.into());
        Bytes(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// As people write it: `0.9`.
    pub fn text(self) -> String {
        let digits = format!("{:04}", self.0.rem_euclid(Self::WHOLE));
        let digits = digits.trim_end_matches('0');
        let whole = self.0.div_euclid(Self::WHOLE);
        if digits.is_empty() { whole.to_string() } else { format!("{whole}.{digits}") }
    }
}

/// Whether a server starts and serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// At least one request of the whole context.
    Serves,
    /// The server has a cache, but one that is too small for a request of the whole context.
    CacheTooSmall,
    /// Weights and work leave no cache.
    NoCache,
    /// The GPU lacks the kernels.
    Unsupported,
}

/// What a server has on one GPU. Sizes are of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Id of the GPU.
    pub device: String,
    /// Its name.
    pub name: String,
    /// Whether it serves.
    pub fit: Fit,
    /// SIZE: memory of the GPU, as the driver reports it.
    pub total: Bytes,
    /// SIZE: what the server may use.
    pub budget: Bytes,
    /// SIZE: weights, and the tables of positions.
    pub weights: Bytes,
    /// SIZE: what the largest batch needs for a while. Zero where the engine does not measure it.
    pub activations: Bytes,
    /// SIZE: libraries and communication.
    pub non_torch: Context,
    /// SIZE: CUDA graphs, where the budget counts them.
    pub graphs: Context,
    /// SIZE: the cache.
    pub cache: Bytes,
    /// SIZE: what is lacking for one request of the whole context.
    pub lacking: Bytes,
    /// COUNT: tokens of the cache, as the server logs them.
    pub tokens: u64,
    /// COUNT: tokens at the most and at the least of what is known as a range.
    pub tokens_range: [u64; 2],
    /// COUNT: hundredths of requests of the whole context that the cache keeps at once.
    pub concurrency: u64,
    /// COUNT: requests at once: whole ones, and no more than a batch has.
    pub requests: u64,
    /// COUNT: tokens in a batch.
    pub max_num_batched_tokens: u64,
    /// COUNT: requests in a batch.
    pub max_num_seqs: u64,
    /// What to know about this GPU.
    pub notes: Vec<Sentence>,
}

/// The answer for all GPUs that are asked about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the model.
    pub model: String,
    /// The server and its release.
    pub engine: String,
    /// How the weights are stored: `awq`.
    pub weights: String,
    /// COUNT: tokens of a request.
    pub context: u64,
    /// COUNT: GPUs that share each layer.
    pub tp: u64,
    /// SIZE: what the cache stores of a token on each GPU, all layers that keep it.
    pub bytes_per_token: Bytes,
    /// A row for each GPU.
    pub rows: Vec<Row>,
    /// What is assumed for all of them.
    pub assumptions: Vec<Sentence>,
}

/// What a server has on each of these GPUs.
///
/// # Errors
/// When the settings contradict the model: a context longer than its positions, or a number of GPUs that does not
/// divide its heads.
pub fn answer(
    model: &Served,
    settings: &Serving,
    devices: &[&'static Device],
) -> Result<Answer, Error> {
    check(model, settings)?;
    if model.is_gguf() && settings.engine != Engine::LlamaCpp {
        let message = say!(
            "a GGUF file is served by llama.cpp here; set `--engine llama.cpp`, or name the model itself"
        );
        return Err(Error::new(ErrorKind::BadConfig, message).about("engine"));
    }
    let weights = settings.weights.clone().unwrap_or_else(|| model.weights.clone());
    let rows = devices.iter().map(|device| row(model, settings, &weights, device)).collect();
    let engine = match settings.engine {
        Engine::Vllm => format!("vLLM {}", settings.vllm),
        other => other.label().to_owned(),
    };
    Ok(Answer {
        model: model.name.clone(),
        engine,
        weights: if model.is_gguf() { "gguf" } else { weights.format.name() }.to_owned(),
        context: settings.context,
        tp: settings.tp,
        bytes_per_token: model.cache.bytes_per_token(settings.kv_type, settings.tp),
        rows,
        assumptions: model.assumptions.clone(),
    })
}

fn row(model: &Served, settings: &Serving, weights: &Weights, device: &'static Device) -> Row {
    let mut row = match settings.engine {
        Engine::Vllm => vllm::row(model, settings, weights, device),
        Engine::Sglang => sglang::row(model, settings, weights, device),
        Engine::LlamaCpp => gguf::row(model, settings, weights, device),
    };
    if settings.engine == Engine::LlamaCpp {
        return row;
    }
    match weights.format.on(device) {
        Ok(note) => row.notes.extend(note),
        Err(reason) => {
            row.fit = Fit::Unsupported;
            row.notes.insert(0, reason);
        }
    }
    row
}

/// Refuses settings that no server accepts.
fn check(model: &Served, settings: &Serving) -> Result<(), Error> {
    let refuse = |setting, message| Err(Error::new(ErrorKind::BadConfig, message).about(setting));
    let (context, tp) = (settings.context, settings.tp);
    if let Some(positions) = model.positions.filter(|positions| context > *positions) {
        let (context, positions) = (grouped(context), grouped(positions));
        let message = say!(
            "the context of {context} tokens is longer than the model's {positions} positions; set \
             `--context {positions}` or less",
            context,
            positions
        );
        return refuse("context", message);
    }
    if context == 0 {
        return refuse("context", say!("a request has one token or more"));
    }
    if tp == 0 || !model.heads.is_multiple_of(tp) {
        let heads = model.heads;
        let fits: Vec<String> =
            (1..=16).filter(|tp| heads.is_multiple_of(*tp)).map(|tp: u64| tp.to_string()).collect();
        let fits = fits.join(", ");
        let message = say!(
            "{tp} GPUs do not divide the model's {heads} attention heads; `--tp` can be {fits}",
            tp,
            heads,
            fits
        );
        return refuse("tp", message);
    }
    Ok(())
}

impl Answer {
    /// The answer for a GPU, in a sentence.
    pub fn sentence(&self, row: &Row) -> Sentence {
        let gpu =
            if self.tp > 1 { format!("{} × {}", self.tp, row.name) } else { row.name.clone() };
        let (engine, model) = (self.engine.as_str(), self.model.as_str());
        let (tokens, context) = (grouped(row.tokens), grouped(self.context));
        match row.fit {
            Fit::Serves if row.requests == 1 => say!(
                "On {gpu}, {engine} serves {model} with {tokens} tokens of cache: 1 request of {context} tokens at \
                 once.",
                gpu,
                engine,
                model,
                tokens,
                context
            ),
            Fit::Serves => say!(
                "On {gpu}, {engine} serves {model} with {tokens} tokens of cache: {requests} requests of {context} \
                 tokens at once.",
                gpu,
                engine,
                model,
                tokens,
                requests = grouped(row.requests),
                context
            ),
            Fit::CacheTooSmall => say!(
                "On {gpu}, {engine} has {tokens} tokens of cache for {model}, too few for a request of {context} \
                 tokens: {lacking} are lacking.",
                gpu,
                engine,
                tokens,
                model,
                context,
                lacking = row.lacking
            ),
            Fit::NoCache => say!(
                "{model} does not fit on {gpu} in {engine}: weights and work take {taken} of {budget}.",
                model,
                gpu,
                engine,
                taken = row.taken(),
                budget = row.budget
            ),
            Fit::Unsupported => {
                row.notes.first().cloned().unwrap_or_else(|| say!("{gpu} is not supported.", gpu))
            }
        }
    }
}

impl Row {
    /// SIZE: all that the server keeps but its cache.
    pub fn taken(&self) -> Bytes {
        self.weights + self.activations + self.non_torch.likely + self.graphs.likely
    }
}

/// Another way to start a server, and what it gives on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The change, as it is written on the command line: `--kv-type fp8`.
    pub flag: String,
    /// All settings with it.
    pub settings: Serving,
    /// What the server has.
    pub row: Row,
}

/// The smallest change of the settings with which a request of the whole context fits on a GPU, and the row that it
/// gives; `None` where it fits already, or where no single change is enough.
pub fn smallest_change(
    model: &Served,
    settings: &Serving,
    device: &'static Device,
) -> Option<(String, Row)> {
    let serves = |row: &Row| row.fit == Fit::Serves;
    if answer(model, settings, &[device]).ok()?.rows.iter().any(serves) {
        return None;
    }
    let change = changes(model, settings, device).into_iter().find(|change| serves(&change.row))?;
    Some((change.flag, change.row))
}

/// What single changes of the settings give on a GPU, the smallest change first.
pub fn changes(model: &Served, settings: &Serving, device: &'static Device) -> Vec<Change> {
    let row = |settings: &Serving| answer(model, settings, &[device]).ok()?.rows.pop();
    let variants = variants(model, settings).into_iter();
    let answered = variants
        .filter_map(|(flag, settings)| Some(Change { row: row(&settings)?, flag, settings }));
    answered.collect()
}

/// Changes of the settings, the smallest first.
fn variants(model: &Served, settings: &Serving) -> Vec<(String, Serving)> {
    let with = |flag: String, change: &dyn Fn(&mut Serving)| {
        let mut changed = settings.clone();
        change(&mut changed);
        (flag, changed)
    };
    let mut all = Vec::new();
    for share in [9500, 9800] {
        let share = Share(share);
        if settings.utilization.is_none_or(|now| now < share) {
            let flag = format!("--utilization {}", share.text());
            all.push(with(flag, &|settings| settings.utilization = Some(share)));
        }
    }
    for rows in [64, 16] {
        if settings.max_num_seqs.is_none_or(|now| now > rows) {
            let flag = format!("--max-num-seqs {rows}");
            all.push(with(flag, &|settings| settings.max_num_seqs = Some(rows)));
        }
    }
    if settings.kv_type == KvType::Auto {
        let flag = "--kv-type fp8".to_owned();
        all.push(with(flag, &|settings| settings.kv_type = KvType::Fp8));
    }
    for format in [Format::Fp8, Format::Awq] {
        let now = settings.weights.as_ref().unwrap_or(&model.weights).format;
        if !model.is_gguf() && now.bits() > format.bits() {
            let flag = format!("--weights {}", format.name());
            all.push(with(flag, &|settings| settings.weights = Some(Weights::of(format))));
        }
    }
    for shorter in [2, 4, 8] {
        let context = settings.context.div_euclid(shorter);
        let flag = format!("--context {context}");
        all.push(with(flag, &|settings| settings.context = context.max(1)));
    }
    for tp in [2, 4, 8] {
        if tp > settings.tp {
            all.push(with(format!("--tp {tp}"), &|settings| settings.tp = tp));
        }
    }
    all
}

impl Serving {
    /// What starts the server in a shell; weights in another format are another checkpoint, which a comment states.
    pub fn command(&self, model: &Served) -> String {
        let text = |count: &dyn fmt::Display| Some(count.to_string());
        let share = self.utilization.map(Share::text);
        let fp8 = (self.kv_type == KvType::Fp8).then(|| "fp8_e4m3".to_owned());
        let tp = (self.tp > 1).then(|| self.tp.to_string());
        let [rows, tokens] = [self.max_num_seqs, self.max_num_batched_tokens]
            .map(|count| count.map(|count| count.to_string()));
        let (start, flags): (&str, &[(&str, Option<String>)]) = match self.engine {
            Engine::Vllm => (
                "vllm serve",
                &[
                    ("--max-model-len", text(&self.context)),
                    ("--gpu-memory-utilization", share),
                    ("--kv-cache-dtype", fp8),
                    ("--tensor-parallel-size", tp),
                    ("--max-num-seqs", rows),
                    ("--max-num-batched-tokens", tokens),
                    ("--block-size", self.block.map(|block| block.to_string())),
                    ("--enforce-eager", self.is_eager.then(String::new)),
                ],
            ),
            Engine::Sglang => (
                "python -m sglang.launch_server --model-path",
                &[
                    ("--context-length", text(&self.context)),
                    ("--mem-fraction-static", share),
                    ("--kv-cache-dtype", fp8),
                    ("--tp-size", tp),
                    ("--max-running-requests", rows),
                    ("--chunked-prefill-size", tokens),
                ],
            ),
            Engine::LlamaCpp => (
                "llama-server --model",
                &[
                    ("--ctx-size", text(&self.context)),
                    ("--n-gpu-layers", self.gpu_layers.map(|layers| layers.to_string())),
                ],
            ),
        };
        let stated = flags.iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        let stated: String = stated
            .map(|(flag, value)| format!(" \\\n  {flag} {value}").trim_end().to_owned())
            .collect();
        let other = self.weights.as_ref().filter(|weights| **weights != model.weights);
        let other = other.map_or_else(String::new, |weights| {
            format!("# MODEL: a checkpoint in {}\n", weights.format.name())
        });
        let name = if other.is_empty() { model.name.as_str() } else { "MODEL" };
        let name = if name.contains(' ') { "MODEL" } else { name };
        format!("{other}{start} {name}{stated}\n")
    }
}
