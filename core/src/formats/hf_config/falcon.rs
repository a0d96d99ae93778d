//! Falcon: `modeling_falcon.py`.

use super::model::Model;
use super::parts::{
    Act, Implementation, causal_mask, dropout_add, new_rotary, positions, rotary, rotate,
};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::graph::Attribute;

/// How queries, keys and values lie in the one product that makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heads {
    /// Each head has its own keys and values.
    Own,
    /// All share those of one (`multi_query`).
    One,
    /// Groups share theirs (`new_decoder_architecture`).
    Groups(u64),
}

/// Sizes and switches of a Falcon.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the configuration")]
struct Falcon {
    eager: bool,
    width: u64,
    layers: u64,
    heads: u64,
    head_width: u64,
    hidden: u64,
    vocab: u64,
    kind: Heads,
    /// Whether positions are biases of the scores instead of rotations.
    alibi: bool,
    /// Whether attention and feed-forward part stand side by side, and with two norms.
    parallel: bool,
    two_norms: bool,
    bias: bool,
    act: Act,
    hidden_drop: f64,
    attention_drop: f64,
}

/// What the layers share.
#[derive(Clone, Copy)]
struct Shared {
    mask: Tensor,
    /// Biases by head: `[N * heads, 1, L]`.
    alibi: Option<Tensor>,
    tables: [Tensor; 2],
}

pub(super) fn falcon(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Falcon::of(c, m)?.program(c, m)
}

/// `FalconLinear`: a product with the transposed weight, and the bias is added out of place.
fn linear(p: &mut Program, name: &str, x: Tensor) -> Tensor {
    p.module(name, |p| {
        let weight = p.get("weight");
        let y = p.with("torch.Linear", &[x, weight], "transposed", 1);
        let y = p.bind("hidden_states", y);
        match p.own("bias") {
            Some(bias) => p.add(y, bias),
            None => y,
        }
    })
}

impl Falcon {
    fn of(c: Settings<'_>, m: &Model) -> Result<Self, Error> {
        let width = c.count(&["hidden_size", "n_embed"], 4544)?;
        let heads = c.count(&["num_attention_heads", "n_head"], 71)?;
        let grouped = c.flag(&["new_decoder_architecture"], false);
        let kv_heads = c.count(&["num_kv_heads", "n_head_kv"], heads)?;
        let kind = if grouped {
            Heads::Groups(c.divide(heads, kv_heads, "num_kv_heads and num_attention_heads")?)
        } else if c.flag(&["multi_query"], true) {
            Heads::One
        } else {
            Heads::Own
        };
        let parallel = c.flag(&["parallel_attn"], true);
        let norms = c.count(&["num_ln_in_parallel_attn"], if grouped { 2 } else { 1 })?;
        if grouped && !parallel {
            return Err(c.fault("parallel_attn", "the new architecture is known in parallel only"));
        }
        Ok(Self {
            eager: m.implementation == Implementation::Eager,
            width,
            layers: c.layers(&["num_hidden_layers", "n_layer"], 32)?,
            heads,
            head_width: c.divide(width, heads, "num_attention_heads and hidden_size")?,
            hidden: c.count(&["ffn_hidden_size"], width.saturating_mul(4))?,
            vocab: c.count(&["vocab_size"], 65024)?,
            kind,
            alibi: c.flag(&["alibi"], false),
            parallel,
            two_norms: grouped && norms == 2,
            bias: c.flag(&["bias"], false),
            act: Act::of(c, &["activation"], Act::Gelu)?,
            hidden_drop: c.number(&["hidden_dropout"], 0.0),
            attention_drop: c.number(&["attention_dropout"], 0.0),
        })
    }

    fn program(&self, c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
        let length = c.count(&["max_position_embeddings"], 2048)?;
        let tokens = m.tokens("input_ids", length);
        let base = m.base("transformer");
        m.program.within(base, |p| {
            p.new_embedding("word_embeddings", self.vocab, self.width);
            for layer in 0..self.layers {
                p.within(&format!("h.{layer}"), |p| self.new_layer(p));
            }
            p.new_norm("ln_f", self.width, true);
            new_rotary(p, "rotary_emb", self.head_width);
        });
        let sizes = [self.width, self.vocab];
        m.new_head(c, "lm_head", "transformer.word_embeddings.weight", sizes, true)?;
        let x = m.program.module(base, |p| {
            let words = p.embedding("word_embeddings", tokens);
            let words = p.bind("inputs_embeds", words);
            let shared = self.shared(p, tokens);
            let mut x = p.bind("hidden_states", words);
            for layer in 0..self.layers {
                let y = p.module(&format!("h.{layer}"), |p| self.layer(p, x, shared));
                x = p.bind("hidden_states", y);
            }
            let x = p.layer_norm("ln_f", x);
            p.bind("hidden_states", x)
        });
        Ok(m.head("lm_head", x))
    }

    fn new_layer(&self, p: &mut Program) {
        let shared = match self.kind {
            Heads::Own => self.heads.saturating_mul(2),
            Heads::One => 2,
            Heads::Groups(size) => self.heads.checked_div(size).unwrap_or(1).saturating_mul(2),
        };
        let all = self.heads.saturating_add(shared).saturating_mul(self.head_width);
        p.within("self_attention", |p| {
            p.new_linear("query_key_value", self.width, all, self.bias);
            p.new_linear("dense", self.width, self.width, self.bias);
        });
        p.within("mlp", |p| {
            p.new_linear("dense_h_to_4h", self.width, self.hidden, self.bias);
            p.new_linear("dense_4h_to_h", self.hidden, self.width, self.bias);
        });
        let norms: &[&str] = match (self.parallel, self.two_norms) {
            (false, _) => &["post_attention_layernorm", "input_layernorm"],
            (true, true) => &["ln_attn", "ln_mlp"],
            (true, false) => &["input_layernorm"],
        };
        for norm in norms {
            p.new_norm(norm, self.width, true);
        }
    }

    fn shared(&self, p: &mut Program, tokens: Tensor) -> Shared {
        let heads = [("heads", Attribute::Int(signed(self.heads)))];
        let alibi = self.alibi.then(|| {
            let shape = p.shape_of(tokens);
            let ones = p.with("torch.Empty", &[shape], "dtype", 7);
            p.bind("mask", ones);
            let [alibi] = p.run("torch.Alibi", &[tokens], &heads);
            p.bind("alibi", alibi)
        });
        let places = positions(p, tokens);
        let places = p.bind("position_ids", places);
        let mask = match alibi {
            Some(_) => {
                let [mask] = p.run("torch.AlibiMask", &[tokens], &heads);
                mask
            }
            None if self.eager => causal_mask(p, tokens),
            None => p.op("torch.VisiblePairs", &[tokens]),
        };
        let mask = p.bind("causal_mask", mask);
        let [cos, sin] = rotary(p, "rotary_emb", "inv_freq", places);
        let tables = [p.bind("cos", cos), p.bind("sin", sin)];
        Shared { mask, alibi, tables }
    }

    fn layer(&self, p: &mut Program, x: Tensor, shared: Shared) -> Tensor {
        let mut residual = p.bind("residual", x);
        let first = if self.two_norms { "ln_attn" } else { "input_layernorm" };
        let normed = p.layer_norm(first, x);
        let normed = p.bind("attention_layernorm_out", normed);
        let mut mlp_input = normed;
        if self.two_norms {
            mlp_input = p.layer_norm("ln_mlp", x);
            p.bind("mlp_layernorm_out", mlp_input);
        }
        let (y, weights) = p.module("self_attention", |p| self.attend(p, normed, shared));
        let y = p.bind("attention_output", y);
        if let Some(weights) = weights {
            p.bind("attn_weights", weights);
        }
        if !self.parallel {
            residual = dropout_add(p, y, residual, self.attention_drop);
            p.bind("residual", residual);
            mlp_input = p.layer_norm("post_attention_layernorm", residual);
            p.bind("mlp_layernorm_out", mlp_input);
        }
        let mut h = p.module("mlp", |p| {
            let h = linear(p, "dense_h_to_4h", mlp_input);
            let h = self.act.call(p, "act", h);
            let h = p.bind("x", h);
            let h = linear(p, "dense_4h_to_h", h);
            p.bind("x", h)
        });
        p.bind("mlp_output", h);
        if self.parallel {
            [h] = p.run("Add", &[h, y], &[("in_place", Attribute::Int(1))]);
            p.bind("mlp_output", h);
        }
        dropout_add(p, h, residual, self.hidden_drop)
    }

    /// `FalconAttention`: its output, and its weights where they are spelled out.
    fn attend(&self, p: &mut Program, x: Tensor, shared: Shared) -> (Tensor, Option<Tensor>) {
        let all = linear(p, "query_key_value", x);
        p.bind("fused_qkv", all);
        let [q, k, v] = p.function(|p| self.split(p, all));
        p.bind("query_layer", q);
        p.bind("key_layer", k);
        p.bind("value_layer", v);
        let [mut q, mut k, v] = [q, k, v].map(|t| p.permute(t, &[0, 2, 1, 3]));
        if shared.alibi.is_none() {
            [q, k] = rotate(p, [q, k], shared.tables, self.head_width);
            p.bind("query_layer", q);
            p.bind("key_layer", k);
        }
        let (y, weights) = if self.eager {
            let (y, weights) = self.spelled_out(p, [q, k, v], shared);
            (y, Some(weights))
        } else {
            let drops = i64::from(self.alibi && self.attention_drop > 0.0);
            (p.with("torch.Attention", &[q, k, v, shared.mask], "drops", drops), None)
        };
        let y = p.bind("attn_output", y);
        let y = p.permute(y, &[0, 2, 1, 3]);
        let y = p.reshape(y, &[0, 0, signed(self.width)]);
        let y = p.bind("attn_output", y);
        let y = linear(p, "dense", y);
        (p.bind("attn_output", y), weights)
    }

    /// `_split_heads`: `[N, L, heads, width]` each.
    fn split(&self, p: &mut Program, all: Tensor) -> [Tensor; 3] {
        let (heads, width) = (signed(self.heads), signed(self.head_width));
        match self.kind {
            Heads::Own => {
                let all = p.reshape(all, &[0, 0, heads, 3, width]);
                [0, 1, 2].map(|part| p.select(all, 3, part))
            }
            Heads::One => {
                let all = p.reshape(all, &[0, 0, heads.saturating_add(2), width]);
                let q = p.slice(all, 2, 0, heads);
                [
                    q,
                    p.with("torch.Place", &[all], "axis", 2),
                    p.with("torch.Place", &[all], "axis", 2),
                ]
            }
            Heads::Groups(size) => {
                let size = signed(size);
                let all = p.reshape(all, &[0, 0, -1, size.saturating_add(2), width]);
                let q = p.slice(all, 3, 0, size);
                let [k, v] = [(); 2].map(|()| p.with("torch.Place", &[all], "axis", 3));
                let shape = p.shape_of(q);
                let [k, v] = [k, v].map(|t| p.op("Expand", &[t, shape]));
                p.bind("key", k);
                p.bind("value", v);
                let [q, k, v] = [q, k, v].map(|t| p.reshape(t, &[0, 0, heads, width]));
                p.bind("query", q);
                [q, p.bind("key", k), p.bind("value", v)]
            }
        }
    }

    /// The product, softmax and product, some of them in place; the weights are returned.
    fn spelled_out(
        &self,
        p: &mut Program,
        [q, k, v]: [Tensor; 3],
        shared: Shared,
    ) -> (Tensor, Tensor) {
        let in_place = [("in_place", Attribute::Int(1))];
        let turned = p.permute(k, &[0, 1, 3, 2]);
        let mut scores = p.op("MatMul", &[q, turned]);
        p.bind("attention_scores", scores);
        if let Some(alibi) = shared.alibi {
            p.bind("matmul_result", scores);
            let rows = p.ints(&[signed(self.heads), 1]);
            let (n, length) = (p.ints(&[-1]), p.size(alibi, 2));
            let target = p.concat(&[n, rows, length], 0);
            let alibi = p.op("Reshape", &[alibi, target]);
            scores = p.add(scores, alibi);
        }
        let number = p.number();
        [scores] = p.run("Div", &[scores, number], &in_place);
        p.bind(if self.alibi { "attention_logits" } else { "attention_scores" }, scores);
        let sum = p.add(scores, shared.mask);
        let weights = p.softmax(sum);
        p.bind(if self.alibi { "attention_probs" } else { "attention_scores" }, weights);
        let drop = if self.alibi { self.attention_drop } else { 0.0 };
        let weights = p.drop_out(weights, drop);
        if self.alibi {
            p.bind("attention_probs", weights);
        }
        (p.op("MatMul", &[weights, v]), weights)
    }
}
