//! What transformers' families share: activations, norms, rotary positions, attention.

use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::graph::Attribute;
use crate::tensor::DType;

/// `_attn_implementation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Implementation {
    /// `torch.nn.functional.scaled_dot_product_attention`.
    Sdpa,
    /// The product, softmax and product that the family's file spells out.
    Eager,
}

/// An activation of `ACT2FN` (`transformers/activations.py`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// `nn.functional.gelu`, exact or with tanh, as one operator.
    Gelu,
    /// `NewGELUActivation`: spelled out with tanh.
    NewGelu,
    /// `QuickGELUActivation`: `x * sigmoid(1.702 * x)`.
    QuickGelu,
    Silu,
    Relu,
    Tanh,
    /// `ReLUSquaredActivation`.
    Relu2,
}

impl Act {
    /// The word of a configuration.
    pub(super) fn of(c: Settings<'_>, names: &[&str], default: Self) -> Result<Self, Error> {
        let Some(word) = c.word(names) else { return Ok(default) };
        Ok(match word {
            "gelu" | "gelu_pytorch_tanh" => Self::Gelu,
            "gelu_new" => Self::NewGelu,
            "quick_gelu" => Self::QuickGelu,
            "silu" | "swish" => Self::Silu,
            "relu" => Self::Relu,
            "tanh" => Self::Tanh,
            "relu2" => Self::Relu2,
            _ => {
                let name = names.iter().find(|name| c.has(name)).unwrap_or(&"hidden_act");
                let known = "known are gelu, gelu_new, gelu_pytorch_tanh, quick_gelu, relu, relu2, \
                             silu and tanh";
                return Err(c.fault(name, known));
            }
        })
    }

    pub(super) fn call(self, p: &mut Program, name: &str, x: Tensor) -> Tensor {
        p.module(name, |p| self.run(p, x))
    }

    pub(super) fn run(self, p: &mut Program, x: Tensor) -> Tensor {
        match self {
            Self::Gelu => p.op("Gelu", &[x]),
            Self::Silu => p.op("torch.Silu", &[x]),
            Self::Relu => p.op("Relu", &[x]),
            Self::Tanh => p.op("Tanh", &[x]),
            Self::NewGelu => {
                let half = p.scale(x);
                let three = p.number();
                let cube = p.op("Pow", &[x, three]);
                let cube = p.scale(cube);
                let inner = p.add(x, cube);
                let inner = p.scale(inner);
                let tanh = p.op("Tanh", &[inner]);
                let one = p.number();
                let outer = p.add(tanh, one);
                p.mul(half, outer)
            }
            Self::QuickGelu => {
                let scaled = p.scale(x);
                let gate = p.op("Sigmoid", &[scaled]);
                p.mul(x, gate)
            }
            Self::Relu2 => {
                let relu = p.op("Relu", &[x]);
                let relu = p.bind("relu_applied", relu);
                let two = p.number();
                p.op("Pow", &[relu, two])
            }
        }
    }
}

/// `LlamaRMSNorm`, which is written by hand in every family.
pub(super) fn rms_norm(p: &mut Program, name: &str, x: Tensor) -> Tensor {
    p.module(name, |p| {
        let x = p.float(x);
        let x = p.bind("hidden_states", x);
        let two = p.number();
        let squares = p.op("Pow", &[x, two]);
        let axes = p.ints(&[-1]);
        let mean = p.with("ReduceMean", &[squares, axes], "keepdims", 1);
        let variance = p.bind("variance", mean);
        let epsilon = p.number();
        let sum = p.add(variance, epsilon);
        let root = p.op("torch.Rsqrt", &[sum]);
        let y = p.mul(x, root);
        let y = p.bind("hidden_states", y);
        let y = p.float(y);
        let weight = p.get("weight");
        p.mul(weight, y)
    })
}

/// `GemmaRMSNorm`, whose weight is an offset from one.
pub(super) fn offset_rms_norm(p: &mut Program, name: &str, x: Tensor) -> Tensor {
    p.module(name, |p| {
        let wide = p.float(x);
        let y = p.function(|p| {
            p.bind("x", wide);
            let two = p.number();
            let squares = p.op("Pow", &[wide, two]);
            let axes = p.ints(&[-1]);
            let mean = p.with("ReduceMean", &[squares, axes], "keepdims", 1);
            let sum = p.add(mean, two);
            let root = p.op("torch.Rsqrt", &[sum]);
            p.mul(wide, root)
        });
        let y = p.bind("output", y);
        let weight = p.get("weight");
        let one = p.number();
        let weight = p.float(weight);
        let weight = p.add(weight, one);
        let y = p.mul(y, weight);
        let y = p.bind("output", y);
        p.float(y)
    })
}

/// `torch.arange(L) + 0`, with a dimension in front: positions of a sequence whose numbers are `x`.
pub(super) fn positions(p: &mut Program, x: Tensor) -> Tensor {
    let range = p.op("torch.Arange", &[x]);
    let zero = p.int(0);
    let range = p.add(range, zero);
    p.unsqueeze(range, 0)
}

/// The rotary module registers its frequencies twice.
pub(super) fn new_rotary(p: &mut Program, name: &str, width: u64) {
    p.within(name, |p| {
        let half = [width.div_euclid(2)];
        p.buffer("inv_freq", DType::Float32, &half);
        p.buffer("original_inv_freq", DType::Float32, &half);
    });
}

/// `LlamaRotaryEmbedding`: cosines and sines.
pub(super) fn rotary(
    p: &mut Program,
    name: &str,
    frequencies: &str,
    positions: Tensor,
) -> [Tensor; 2] {
    p.module(name, |p| {
        let positions = p.unsqueeze(positions, -1);
        let positions = p.float(positions);
        let inv_freq = p.get(frequencies);
        let freqs = p.mul(positions, inv_freq);
        let freqs = p.bind("freqs", freqs);
        let emb = p.concat(&[freqs, freqs], -1);
        let emb = p.bind("emb", emb);
        let cos = p.op("Cos", &[emb]);
        let cos = p.scale(cos);
        let cos = p.bind("cos", cos);
        let sin = p.op("Sin", &[emb]);
        let sin = p.scale(sin);
        let sin = p.bind("sin", sin);
        [p.float(cos), p.float(sin)]
    })
}

/// `apply_rotary_pos_emb(q, k, cos, sin)`; `width` is that of a head.
pub(super) fn rotate(
    p: &mut Program,
    [q, k]: [Tensor; 2],
    [cos, sin]: [Tensor; 2],
    width: u64,
) -> [Tensor; 2] {
    p.function(|p| {
        p.bind("q", q);
        p.bind("k", k);
        let (cos, sin) = (p.unsqueeze(cos, 1), p.unsqueeze(sin, 1));
        let q_embed = turned(p, q, [cos, sin], width);
        let q_embed = p.bind("q_embed", q_embed);
        let k_embed = turned(p, k, [cos, sin], width);
        [q_embed, p.bind("k_embed", k_embed)]
    })
}

/// `x * cos + rotate_half(x) * sin`.
pub(super) fn turned(p: &mut Program, x: Tensor, [cos, sin]: [Tensor; 2], width: u64) -> Tensor {
    let straight = p.mul(x, cos);
    let half = signed(width.div_euclid(2));
    let rotated = p.function(|p| {
        let (front, back) = (p.slice(x, -1, 0, half), p.slice(x, -1, half, signed(width)));
        let negated = p.op("Neg", &[back]);
        p.concat(&[negated, front], -1)
    });
    let crossed = p.mul(rotated, sin);
    p.add(straight, crossed)
}

/// `repeat_kv`.
pub(super) fn repeat_kv(p: &mut Program, x: Tensor, heads: u64, groups: u64) -> Tensor {
    if groups == 1 {
        return x;
    }
    p.function(|p| {
        let y = p.unsqueeze(x, 2);
        let times = p.ints(&[1, 1, signed(groups), 1, 1]);
        let y = p.op("Expand", &[y, times]);
        let [batch, length, width] = [0, 2, 3].map(|axis| p.size(x, axis));
        let all = p.ints(&[signed(heads)]);
        let target = p.concat(&[batch, all, length, width], 0);
        p.op("Reshape", &[y, target])
    })
}

/// `dropout_add(x, residual, …)` of Bloom and Falcon.
pub(super) fn dropout_add(p: &mut Program, x: Tensor, residual: Tensor, drop: f64) -> Tensor {
    p.function(|p| {
        p.bind("x", x);
        let out = p.drop_out(x, drop);
        let out = p.bind("out", out);
        p.add(residual, out)
    })
}

/// How attention is run, and what of its own module it reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attention {
    pub(super) implementation: Implementation,
    pub(super) heads: u64,
    /// Queries for each head of keys.
    pub(super) groups: u64,
    /// Probability at which weights are dropped out.
    pub(super) dropout: f64,
    /// Whether the family's eager function ends in `contiguous`.
    pub(super) contiguous: bool,
    /// Whether scores go through `tanh`.
    pub(super) softcap: bool,
}

impl Attention {
    /// `attention_interface(self, query, key, value, mask, …)`: `[N, L, heads, width]`.
    pub(super) fn run(
        &self,
        p: &mut Program,
        [q, k, v]: [Tensor; 3],
        mask: Option<Tensor>,
    ) -> Tensor {
        match self.implementation {
            Implementation::Sdpa => p.function(|p| {
                p.bind("query", q);
                p.bind("key", k);
                p.bind("value", v);
                self.fused(p, [q, k, v], mask)
            }),
            Implementation::Eager => self.run_with(p, [q, k, v], [mask, None]),
        }
    }

    /// The same, spelled out, with what is added to the scores.
    pub(super) fn run_with(
        &self,
        p: &mut Program,
        [q, k, v]: [Tensor; 3],
        added: [Option<Tensor>; 2],
    ) -> Tensor {
        p.function(|p| {
            p.bind("query", q);
            p.bind("key", k);
            p.bind("value", v);
            self.spelled_out(p, [q, k, v], added)
        })
    }

    /// `integrations/sdpa_attention.py`.
    fn fused(&self, p: &mut Program, [q, k, v]: [Tensor; 3], mask: Option<Tensor>) -> Tensor {
        let [mut k, mut v] = [k, v];
        if mask.is_some() && self.groups > 1 {
            k = repeat_kv(p, k, self.heads, self.groups);
            k = p.bind("key", k);
            v = repeat_kv(p, v, self.heads, self.groups);
            v = p.bind("value", v);
        }
        let drops = i64::from(self.dropout > 0.0);
        let inputs: Vec<Tensor> = [q, k, v].into_iter().chain(mask).collect();
        let y = p.with("torch.Attention", &inputs, "drops", drops);
        let y = p.bind("attn_output", y);
        let y = p.permute(y, &[0, 2, 1, 3]);
        p.op("torch.Contiguous", &[y])
    }

    /// `eager_attention_forward`.
    fn spelled_out(
        &self,
        p: &mut Program,
        [q, k, v]: [Tensor; 3],
        added: [Option<Tensor>; 2],
    ) -> Tensor {
        let k = repeat_kv(p, k, self.heads, self.groups);
        let k = p.bind("key_states", k);
        let v = repeat_kv(p, v, self.heads, self.groups);
        let v = p.bind("value_states", v);
        let turned = p.permute(k, &[0, 1, 3, 2]);
        let scores = p.op("MatMul", &[q, turned]);
        let scores = p.scale(scores);
        let mut weights = p.bind("attn_weights", scores);
        if self.softcap {
            let number = p.number();
            let capped = p.op("Div", &[weights, number]);
            let capped = p.bind("attn_weights", capped);
            let capped = p.op("Tanh", &[capped]);
            let capped = p.bind("attn_weights", capped);
            let capped = p.scale(capped);
            weights = p.bind("attn_weights", capped);
        }
        for more in added.into_iter().flatten() {
            let sum = p.add(weights, more);
            weights = p.bind("attn_weights", sum);
        }
        let softmax = p.softmax(weights);
        let softmax = p.bind("attn_weights", softmax);
        let dropped = p.drop_out(softmax, self.dropout);
        let dropped = p.bind("attn_weights", dropped);
        let y = p.op("MatMul", &[dropped, v]);
        let y = p.bind("attn_output", y);
        let y = p.permute(y, &[0, 2, 1, 3]);
        if self.contiguous { p.op("torch.Contiguous", &[y]) } else { y }
    }
}

/// `x.view(N, L, heads, width).transpose(1, 2)`.
pub(super) fn by_head(p: &mut Program, x: Tensor, heads: u64, width: u64) -> Tensor {
    let x = p.reshape(x, &[0, 0, signed(heads), signed(width)]);
    p.permute(x, &[0, 2, 1, 3])
}

/// `name = self.module(x).view(N, L, heads, width).transpose(1, 2)`.
pub(super) fn project(
    p: &mut Program,
    [module, name]: [&'static str; 2],
    x: Tensor,
    [heads, width]: [u64; 2],
) -> Tensor {
    let y = p.linear(module, x);
    let y = by_head(p, y, heads, width);
    p.bind(name, y)
}

/// `GPT2MLP` with linear layers: both are called by their names, and so is the activation.
pub(super) fn feed_forward(
    p: &mut Program,
    [first, between, second]: [&str; 3],
    x: Tensor,
    act: Act,
    drop: f64,
) -> Tensor {
    let h = p.linear(first, x);
    let h = p.bind("hidden_states", h);
    let h = act.call(p, between, h);
    let h = p.bind("hidden_states", h);
    let h = p.linear(second, h);
    let h = p.bind("hidden_states", h);
    let h = p.dropout("dropout", h, drop);
    p.bind("hidden_states", h)
}

/// `x.reshape(N, L, -1).contiguous()`.
pub(super) fn rows(p: &mut Program, x: Tensor, width: u64) -> Tensor {
    let x = p.reshape(x, &[0, 0, signed(width)]);
    p.op("torch.Contiguous", &[x])
}

/// The mask that an eager model of `L` tokens adds to its scores.
pub(super) fn causal_mask(p: &mut Program, tokens: Tensor) -> Tensor {
    let [mask] = p.run("torch.CausalMask", &[tokens], &[("axis", Attribute::Int(1))]);
    mask
}
