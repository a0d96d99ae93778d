//! vLLM's V1 engine: what it reserves, and what it leaves to the KV cache.
//!
//! cache = total × utilisation − weights − peak of the profile run − memory outside PyTorch, and from 0.21 on − an
//! estimate of the CUDA graphs. Source: `vllm/v1/worker/gpu_worker.py`, `vllm/engine/arg_utils.py`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::config::PyTorch;
use crate::device::{Context, Device};

use super::cache::{Division, Terms};
use super::model::Served;
use super::profile::{self, Batch, Sampler};
use super::weights::{Format, Weights};
use super::{Fit, Row, Serving, Share};

/// A release of vLLM: the second number of `0.11.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Release(u64);

/// The newest release of whose logs the rules were checked with many models.
impl Default for Release {
    fn default() -> Self {
        Self(19)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0.{}", self.0)
    }
}

impl Release {
    /// The first release whose default is the V1 engine.
    const FIRST: u64 = 8;

    /// The release of a text such as `0.11` or `v0.10.1.1`, from 0.8 on.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().trim_start_matches('v').strip_prefix("0.")?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        (Self::FIRST..1000).contains(&minor).then_some(Self(minor))
    }

    /// Whether layers with windows keep only what they reach.
    const fn has_hybrid(self) -> bool {
        self.0 >= 10
    }

    /// Whether buffers of experts are kept from one layer to the next.
    const fn keeps_expert_buffers(self) -> bool {
        self.0 >= 17
    }

    /// Whether the budget counts CUDA graphs, and tokens are logged as requests at once × context.
    const fn counts_graphs(self) -> bool {
        self.0 >= 21
    }

    /// The default of `gpu_memory_utilization`.
    const fn utilization(self) -> Share {
        Share(if self.0 >= 21 { 9200 } else { 9000 })
    }

    /// How a sample is restricted to the most likely tokens where `FlashInfer` is not chosen.
    const fn sampler(self) -> Sampler {
        if self.0 >= 17 { Sampler::Triton } else { Sampler::Sort }
    }

    /// COUNT: tokens and requests in a batch of the server on a GPU.
    fn batch(self, device: &Device) -> (u64, u64) {
        let is_large = device.capacity >= Bytes::mib(70 << 10) && !device.words.contains(&"a100");
        match (is_large, self.0) {
            (true, ..9) => (8192, 256),
            (true, _) => (8192, 1024),
            (false, _) => (2048, 256),
        }
    }

    /// SIZE: memory outside PyTorch: CUDA's modules, and NCCL between several GPUs. The ranges are those of the logs in
    /// `tests/fixtures/serving/logs.csv`.
    const fn non_torch(self, tp: u64) -> Context {
        match (self.0 >= 18, tp > 1) {
            (false, false) => Context::mib(20, 133, 205),
            (false, true) => Context::mib(140, 563, 625),
            (true, false) => Context::mib(70, 256, 471),
            (true, true) => Context::mib(2109, 2130, 2222),
        }
    }
}

/// SIZE: estimates of CUDA graphs in logs.
const GRAPHS: Context = Context::mib(41, 594, 1587);

/// What vLLM has on a GPU.
pub(super) fn row(
    model: &Served,
    settings: &Serving,
    weights: &Weights,
    device: &'static Device,
) -> Row {
    let (release, tp) = (settings.vllm, settings.tp);
    let budget = settings.utilization.unwrap_or_else(|| release.utilization()).of(device.capacity);
    let (tokens, rows) = release.batch(device);
    let batched = settings.max_num_batched_tokens.unwrap_or(tokens);
    let seqs = settings.max_num_seqs.unwrap_or(rows).min(batched);
    // Triton's kernels for mxfp4 have no such buffers.
    let keeps_expert_buffers = release.keeps_expert_buffers() && weights.format != Format::Mxfp4;
    let batch = Batch { tokens: batched, rows: seqs, tp, keeps_expert_buffers };
    let sampler = settings.sampler.unwrap_or_else(|| release.sampler());
    let workspace = device.cublas_workspace(PyTorch::new(2, 9));
    let activations = profile::peak(model, batch, sampler, device.multiprocessors, workspace);
    let graphs =
        if release.counts_graphs() && !settings.is_eager { GRAPHS } else { Context::default() };
    let non_torch = release.non_torch(tp);
    let terms = Terms {
        kv: settings.kv_type,
        tp,
        block: settings.block.unwrap_or(16),
        context: settings.context,
        batched,
        has_hybrid: release.has_hybrid(),
    };
    let parts = Parts {
        budget,
        weights: profile::blocks(model.sizes(weights, tp, device).into_iter()),
        activations,
        non_torch,
        graphs,
    };
    finish(device, &parts, [batched, seqs], |size| {
        let division = model.cache.divide(size, terms);
        let tokens = if release.counts_graphs() {
            division.concurrency.saturating_mul(terms.context).div_euclid(100)
        } else {
            division.tokens
        };
        Division { tokens, ..division }
    })
}

/// What a server's memory is divided into, but for the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// SIZE: what the server may use.
    pub(super) budget: Bytes,
    /// SIZE: weights.
    pub(super) weights: Bytes,
    /// SIZE: what a batch needs for a while.
    pub(super) activations: Bytes,
    /// SIZE: libraries and communication.
    pub(super) non_torch: Context,
    /// SIZE: CUDA graphs that the budget counts.
    pub(super) graphs: Context,
}

/// The row of a GPU: the cache is what is left of the budget.
pub(super) fn finish(
    device: &'static Device,
    parts: &Parts,
    [batched, seqs]: [u64; 2],
    divide: impl Fn(Bytes) -> Division,
) -> Row {
    let Parts { budget, weights, activations, non_torch, graphs } = *parts;
    let left = |other: Bytes| budget.saturating_sub(weights + activations + other);
    let cache = left(non_torch.likely + graphs.likely);
    let division = divide(cache);
    let least = divide(left(non_torch.most + graphs.most)).tokens;
    let most = divide(left(non_torch.least + graphs.least)).tokens;
    let fit = match division {
        Division { concurrency: 100.., .. } => Fit::Serves,
        Division { blocks: 1.., .. } => Fit::CacheTooSmall,
        _ => Fit::NoCache,
    };
    let taken = weights + activations + non_torch.likely + graphs.likely;
    let needed = taken + division.request;
    let requests = division.concurrency.div_euclid(100).min(seqs);
    Row {
        device: device.id.to_owned(),
        name: format!("{} ({})", bare(device), device.nameplate),
        fit,
        total: device.capacity,
        budget,
        weights,
        activations,
        non_torch,
        graphs,
        cache,
        lacking: if fit == Fit::Serves { Bytes::ZERO } else { needed.saturating_sub(budget) },
        tokens: division.tokens,
        tokens_range: [least, most],
        concurrency: division.concurrency,
        requests,
        max_num_batched_tokens: batched,
        max_num_seqs: seqs,
        notes: Vec::new(),
    }
}

/// The name of a GPU without its memory, which follows in brackets.
fn bare(device: &Device) -> &'static str {
    device.name.strip_suffix(device.nameplate).unwrap_or(device.name).trim_end()
}

#[cfg(test)]
mod tests {
    use super::Release;

    #[test]
    fn releases_are_read() {
        let of = |text| Release::parse(text).map(|release| release.to_string());
        assert_eq!(of("0.11").as_deref(), Some("0.11"));
        assert_eq!(of("v0.10.1.1").as_deref(), Some("0.10"));
        assert_eq!([of("0.5"), of("1.0"), of("x")], [None, None, None]);
    }
}
