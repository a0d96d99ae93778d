//! `SGLang`: a fraction of the GPU's memory is for weights and the KV cache; the rest is left for work and CUDA graphs.
//!
//! cache = what is free after loading − total × (1 − fraction). The default fraction follows from the memory that the
//! server reserves. Source: `sglang/srt/server_args.py` and `model_executor/model_runner.py`.

use crate::bytes::Bytes;
use crate::device::{Context, Device};

use super::cache::Division;
use super::model::Served;
use super::profile;
use super::vllm::{Parts, finish};
use super::weights::Weights;
use super::{Row, Serving, Share};

/// COUNT: requests that run at once at most, where nothing limits them.
const REQUESTS: u64 = 4096;

/// What `SGLang` has on a GPU.
pub(super) fn row(
    model: &Served,
    settings: &Serving,
    weights: &Weights,
    device: &'static Device,
) -> Row {
    let (total, tp) = (device.capacity, settings.tp);
    let (chunk, requests) = batch(total, tp);
    let chunk = settings.max_num_batched_tokens.unwrap_or(chunk);
    let captured = settings.max_num_seqs.map_or(requests, |seqs| seqs.min(requests));
    let kept = match settings.utilization {
        Some(fraction) => total.saturating_sub(fraction.of(total)),
        None => reserved(total, chunk, captured, tp),
    };
    let parts = Parts {
        budget: total.saturating_sub(kept),
        weights: profile::blocks(model.sizes(weights, tp, device).into_iter()),
        activations: Bytes::ZERO,
        non_torch: communication(device, tp),
        graphs: Context::default(),
    };
    let per_token = model.cache.bytes_per_token(settings.kv_type, tp);
    let request = per_token.times(settings.context);
    let seqs = settings.max_num_seqs.unwrap_or(REQUESTS);
    let divide = |size: Bytes| {
        let tokens = size.0.checked_div(per_token.0).unwrap_or(0);
        let hundredths = tokens.saturating_mul(100);
        Division {
            blocks: tokens,
            tokens,
            concurrency: hundredths.checked_div(settings.context).unwrap_or(0),
            request,
        }
    };
    finish(device, &parts, [chunk, seqs], divide)
}

/// COUNT: tokens of a prefilled chunk, and requests of the largest CUDA graph, by the GPU's memory.
fn batch(total: Bytes, tp: u64) -> (u64, u64) {
    let gib = total.0 >> 30;
    let by_gpus = |few: u64, many: u64| if tp < 4 { few } else { many };
    match gib {
        ..20 => (2048, 8),
        20..35 => (2048, by_gpus(24, 80)),
        35..60 => (4096, by_gpus(32, 160)),
        60..160 => (8192, by_gpus(256, 512)),
        _ => (16_384, 512),
    }
}

/// SIZE: what is left for work and graphs by default: 512 MiB, 1.5 MiB for each token of a chunk, 2 for each request of
/// the largest graph, and 128 for each GPU; 10 GiB at least on GPUs of more than 60.
fn reserved(total: Bytes, chunk: u64, requests: u64, tp: u64) -> Bytes {
    let chunk = Bytes::kib(1536).times(chunk.max(2048));
    let sum = Bytes::mib(512) + chunk + Bytes::mib(2).times(requests) + Bytes::mib(128).times(tp);
    let sum = if total > Bytes::mib(60 << 10) { sum.max(Bytes::mib(10 << 10)) } else { sum };
    // The fraction is rounded to thousandths.
    let left = total.saturating_sub(sum);
    let thousandths = left.parts_of(total, 1000);
    total.saturating_sub(Share(thousandths.saturating_mul(10)).of(total))
}

/// SIZE: the CUDA context, which the free memory lacks from the start, and NCCL.
fn communication(device: &Device, tp: u64) -> Context {
    let context = device.context_range(false);
    let nccl = if tp > 1 { Bytes::mib(400) } else { Bytes::ZERO };
    Context {
        least: context.least + nccl,
        likely: context.likely + nccl,
        most: context.most + nccl,
    }
}

#[cfg(test)]
mod tests {
    use super::reserved;
    use crate::bytes::Bytes;

    #[test]
    fn memory_is_reserved_for_work() {
        let total = Bytes::mib(24_000);
        let kept = reserved(total, 2048, 24, 1);
        assert!(kept.0.abs_diff(Bytes::mib(512 + 3072 + 48 + 128).0) < Bytes::mib(24).0, "{kept}");
    }
}
