//! What the KV cache stores, and how servers divide it into blocks.
//!
//! Source: vLLM, `v1/core/kv_cache_utils.py` and `v1/kv_cache_interface.py`: layers of one kind share a group; groups
//! have the same number of layers, and a block of the pool is a page of each layer of one group.

use crate::bytes::Bytes;
use crate::config::choice;

choice! {
    /// Type of the elements of the cache.
    #[derive(Default)]
    pub enum KvType ("type of the cache") {
        /// That of the model's activations: 16 bits.
        #[default]
        Auto = "auto", "16 bits", "the type of the model's activations",
        /// 8-bit floats.
        Fp8 = "fp8", "fp8", "8-bit floats",
    }
}

impl KvType {
    /// The type of a name: `auto`, `fp8`, or a kind of either.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "auto" | "bf16" | "bfloat16" | "fp16" | "float16" | "half" | "f16" => Self::Auto,
            "fp8" | "fp8_e4m3" | "fp8_e5m2" | "fp8-e4m3" | "fp8-e5m2" => Self::Fp8,
            _ => return None,
        })
    }

    /// SIZE: an element.
    const fn size(self) -> Bytes {
        Bytes(match self {
            Self::Auto => 2,
            Self::Fp8 => 1,
        })
    }
}

/// How far a layer looks back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Over the whole text.
    All,
    /// COUNT: over this number of tokens.
    Window(u64),
    /// COUNT: over its chunk of this number of tokens.
    Chunk(u64),
}

impl Reach {
    /// COUNT: blocks that a request of `context` tokens keeps in a group, while batches of `batched` tokens are
    /// computed.
    fn blocks(self, context: u64, batched: u64, block: u64) -> u64 {
        let within = |tokens: u64| tokens.min(context).div_ceil(block.max(1));
        match self {
            Self::All => within(context),
            Self::Window(window) => {
                within(window.saturating_sub(1).saturating_add(batched)).saturating_add(1)
            }
            Self::Chunk(chunk) => within(chunk.saturating_add(batched)),
        }
    }
}

/// What the cache stores of each token.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Each layer that attends.
    pub(super) layers: Vec<Reach>,
    /// COUNT: heads of keys and values.
    pub(super) heads: u64,
    /// COUNT: elements of a key and its value in a head.
    pub(super) width: u64,
    /// COUNT: elements that a layer stores in place of keys and values, for multi-head latent attention.
    pub(super) latent: Option<u64>,
}

/// The cache as a server divides it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// COUNT: blocks.
    pub(super) blocks: u64,
    /// COUNT: tokens, where every layer keeps all of them.
    pub(super) tokens: u64,
    /// COUNT: hundredths of requests at once.
    pub(super) concurrency: u64,
    /// SIZE: what a request of the whole context keeps.
    pub(super) request: Bytes,
}

impl Cache {
    /// SIZE: a token in a layer, on each of `tp` GPUs: each has one head or more. A latent is on all of them.
    fn per_layer(&self, kv: KvType, tp: u64) -> Bytes {
        let heads = self.heads.div_ceil(tp.max(1)).max(1);
        kv.size().times(self.latent.unwrap_or_else(|| heads.saturating_mul(self.width)))
    }

    /// SIZE: a token, in all layers that keep it.
    pub(super) fn bytes_per_token(&self, kv: KvType, tp: u64) -> Bytes {
        let all = self.layers.iter().filter(|layer| **layer == Reach::All).count();
        let layers = if all == 0 { self.layers.len() } else { all };
        self.per_layer(kv, tp).times(count(layers))
    }

    /// SIZE: a request of `context` tokens where each layer keeps only what it reaches, without blocks.
    pub(super) fn request(&self, kv: KvType, tp: u64, context: u64) -> Bytes {
        let kept = |layer: &Reach| match *layer {
            Reach::All => context,
            Reach::Window(reach) | Reach::Chunk(reach) => reach.min(context),
        };
        let tokens = self.layers.iter().map(kept).fold(0, u64::saturating_add);
        self.per_layer(kv, tp).times(tokens)
    }

    /// The kinds of layers and the layers of each.
    fn kinds(&self) -> Vec<(Reach, u64)> {
        let mut kinds: Vec<(Reach, u64)> = Vec::new();
        for layer in &self.layers {
            match kinds.iter_mut().find(|(reach, _)| reach == layer) {
                Some((_, layers)) => *layers = layers.saturating_add(1),
                None => kinds.push((*layer, 1)),
            }
        }
        kinds.sort_unstable();
        kinds
    }

    /// The reach of each group, and the layers of a group. Groups have as many layers as the rarest kind; if no kind is
    /// rarer than four fifths of another, as many as the most frequent. A server without hybrid groups treats all
    /// layers as if they reached over the whole text.
    fn groups(&self, has_hybrid: bool) -> (Vec<Reach>, u64) {
        let kinds = self.kinds();
        let layers = count(self.layers.len());
        match kinds.as_slice() {
            [(reach, _)] => (vec![*reach], layers),
            _ if !has_hybrid => (vec![Reach::All], layers),
            _ => {
                let fewest = kinds.iter().map(|(_, layers)| *layers).min().unwrap_or(1).max(1);
                let most = kinds.iter().map(|(_, layers)| *layers).max().unwrap_or(1);
                let is_alike = most.saturating_mul(4) < fewest.saturating_mul(5);
                let size = if is_alike { most } else { fewest };
                let groups = kinds
                    .iter()
                    .flat_map(|(reach, layers)| (0..layers.div_ceil(size)).map(move |_| *reach));
                (groups.collect(), size)
            }
        }
    }

    /// A cache of `size` bytes on each GPU, divided into blocks.
    pub(super) fn divide(&self, size: Bytes, terms: Terms) -> Division {
        let Terms { kv, tp, block, context, batched, has_hybrid } = terms;
        let (groups, layers) = self.groups(has_hybrid);
        let page = self.per_layer(kv, tp).times(block);
        let per_block = page.times(layers);
        let blocks = size.0.checked_div(per_block.0).unwrap_or(0);
        let needed = groups.iter().map(|reach| reach.blocks(context, batched, block));
        let needed = needed.fold(0, u64::saturating_add);
        let of_group = blocks.checked_div(count(groups.len())).unwrap_or(0);
        Division {
            blocks,
            tokens: of_group.saturating_mul(block),
            concurrency: blocks.saturating_mul(100).checked_div(needed).unwrap_or(0),
            request: per_block.times(needed),
        }
    }
}

/// How the cache is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Type of its elements.
    pub(super) kv: KvType,
    /// COUNT: GPUs that share each layer.
    pub(super) tp: u64,
    /// COUNT: tokens of a block.
    pub(super) block: u64,
    /// COUNT: tokens of a request.
    pub(super) context: u64,
    /// COUNT: tokens of a batch.
    pub(super) batched: u64,
    /// Whether layers that look back over less keep less.
    pub(super) has_hybrid: bool,
}

/// COUNT: as 64 bits.
pub(super) fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Cache, KvType, Reach, Terms};
    use crate::bytes::Bytes;

    fn terms(tp: u64, context: u64) -> Terms {
        Terms { kv: KvType::Auto, tp, block: 16, context, batched: 2048, has_hybrid: true }
    }

    /// gpt-oss-120b on four A100s, vLLM 0.10.1.1: 45.32 GiB were 2,640,144 tokens, and 284.25 requests.
    #[test]
    fn layers_with_windows_are_groups() {
        let layers = [Reach::Window(128), Reach::All].repeat(18);
        let cache = Cache { layers, heads: 8, width: 128, latent: None };
        let division = cache.divide(Bytes(48_661_757_952), terms(4, 16_384));
        assert_eq!((division.tokens, division.concurrency), (2_640_064, 28_424));
    }

    /// Qwen2-7B, vLLM 0.10.1.1: 93,872 tokens, 5.73 requests.
    #[test]
    fn layers_that_are_alike_are_one_group() {
        let cache = Cache { layers: vec![Reach::All; 28], heads: 4, width: 256, latent: None };
        let division = cache.divide(Bytes(57_344 * 93_872), terms(1, 16_384));
        assert_eq!((division.tokens, division.concurrency), (93_872, 572));
        assert_eq!(division.request, Bytes(57_344 * 16_384));
        assert_eq!(cache.bytes_per_token(KvType::Auto, 8), Bytes(28 * 256 * 2));
    }
}
