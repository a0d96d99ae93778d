//! Bloom: `modeling_bloom.py`, which spells attention out always.

use super::model::Model;
use super::parts::{causal_mask, dropout_add};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;

/// Sizes of a Bloom.
#[derive(Debug)]
struct Bloom {
    width: u64,
    layers: u64,
    heads: u64,
    head_width: u64,
    vocab: u64,
    /// Whether residual sums begin behind the norms.
    post_norm: bool,
    hidden_drop: f64,
    attention_drop: f64,
}

pub(super) fn bloom(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    m.spells_out();
    let width = c.count(&["hidden_size", "n_embed"], 64)?;
    let heads = c.count(&["n_head", "num_attention_heads"], 8)?;
    let bloom = Bloom {
        width,
        layers: c.layers(&["n_layer", "num_hidden_layers"], 2)?,
        heads,
        head_width: c.divide(width, heads, "n_head and hidden_size")?,
        vocab: c.count(&["vocab_size"], 250_880)?,
        post_norm: c.flag(&["apply_residual_connection_post_layernorm"], false),
        hidden_drop: c.number(&["hidden_dropout"], 0.0),
        attention_drop: c.number(&["attention_dropout"], 0.0),
    };
    if c.flag(&["slow_but_exact"], false) && c.count(&["pretraining_tp"], 1)? > 1 {
        return Err(c.fault("slow_but_exact", "products in slices are not known here"));
    }
    bloom.program(c, m)
}

impl Bloom {
    fn program(&self, c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
        let length = c.count(&["seq_length"], 2048)?;
        let tokens = m.tokens("input_ids", length);
        let base = m.base("transformer");
        m.program.within(base, |p| {
            p.new_embedding("word_embeddings", self.vocab, self.width);
            p.new_norm("word_embeddings_layernorm", self.width, true);
            for layer in 0..self.layers {
                p.within(&format!("h.{layer}"), |p| self.new_layer(p));
            }
            p.new_norm("ln_f", self.width, true);
        });
        let sizes = [self.width, self.vocab];
        m.new_head(c, "lm_head", "transformer.word_embeddings.weight", sizes, true)?;
        let x = m.program.module(base, |p| {
            let words = p.embedding("word_embeddings", tokens);
            let words = p.bind("inputs_embeds", words);
            let x = p.layer_norm("word_embeddings_layernorm", words);
            let mut x = p.bind("hidden_states", x);
            let alibi = self.alibi(p, tokens);
            let mask = causal_mask(p, tokens);
            let mask = p.bind("causal_mask", mask);
            for layer in 0..self.layers {
                let (y, weights) =
                    p.module(&format!("h.{layer}"), |p| self.layer(p, x, alibi, mask));
                p.bind("outputs", weights);
                x = p.bind("hidden_states", y);
            }
            let x = p.layer_norm("ln_f", x);
            p.bind("hidden_states", x)
        });
        Ok(m.head("lm_head", x))
    }

    /// Biases by head: `[N * heads, 1, L]`.
    fn alibi(&self, p: &mut Program, tokens: Tensor) -> Tensor {
        let slopes = p.with("torch.AlibiSlopes", &[], "heads", signed(self.heads));
        let slopes = p.bind("slopes", slopes);
        let slopes = p.reshape(slopes, &[-1, 1, 1]);
        let range = p.op("torch.Arange", &[tokens]);
        let biases = p.mul(slopes, range);
        p.bind("alibi", biases);
        let (n, heads) = (p.size(tokens, 0), p.ints(&[signed(self.heads)]));
        let rows = p.mul(n, heads);
        let (one, length) = (p.ints(&[1]), p.size(tokens, 1));
        let shape = p.concat(&[rows, one, length], 0);
        let repeated = p.with("torch.Empty", &[shape], "dtype", 1);
        p.bind("alibi", repeated)
    }

    fn new_layer(&self, p: &mut Program) {
        let (width, hidden) = (self.width, self.width.saturating_mul(4));
        p.new_norm("input_layernorm", width, true);
        p.within("self_attention", |p| {
            p.new_linear("query_key_value", width, width.saturating_mul(3), true);
            p.new_linear("dense", width, width, true);
        });
        p.new_norm("post_attention_layernorm", width, true);
        p.within("mlp", |p| {
            p.new_linear("dense_h_to_4h", width, hidden, true);
            p.new_linear("dense_4h_to_h", hidden, width, true);
        });
    }

    fn layer(&self, p: &mut Program, x: Tensor, alibi: Tensor, mask: Tensor) -> (Tensor, Tensor) {
        let normed = p.layer_norm("input_layernorm", x);
        let normed = p.bind("layernorm_output", normed);
        let residual = if self.post_norm { normed } else { x };
        p.bind("residual", residual);
        let (y, weights) =
            p.module("self_attention", |p| self.attend(p, [normed, residual], alibi, mask));
        let y = p.bind("attention_output", y);
        p.bind("attn_weights", weights);
        let normed = p.layer_norm("post_attention_layernorm", y);
        let normed = p.bind("layernorm_output", normed);
        let residual = if self.post_norm { normed } else { y };
        p.bind("residual", residual);
        let y = p.module("mlp", |p| {
            let h = p.linear("dense_h_to_4h", normed);
            let h = p.module("gelu_impl", |p| p.op("torch.BloomGelu", &[h]));
            let h = p.bind("hidden_states", h);
            let h = p.linear("dense_4h_to_h", h);
            let h = p.bind("intermediate_output", h);
            let y = dropout_add(p, h, residual, self.hidden_drop);
            p.bind("output", y)
        });
        (p.bind("output", y), weights)
    }

    /// `BloomAttention`: its output, and its weights.
    fn attend(
        &self,
        p: &mut Program,
        [x, residual]: [Tensor; 2],
        alibi: Tensor,
        mask: Tensor,
    ) -> (Tensor, Tensor) {
        let (heads, width) = (signed(self.heads), signed(self.head_width));
        let all = p.linear("query_key_value", x);
        p.bind("fused_qkv", all);
        let all = p.reshape(all, &[0, 0, heads, 3, width]);
        // Samples and heads together: `[N * heads, L, width]`.
        let [q, k, v] =
            [("query_layer", 0), ("key_layer", 1), ("value_layer", 2)].map(|(name, part)| {
                let t = p.select(all, 3, part);
                let t = p.permute(t, &[0, 2, 1, 3]);
                let (all, length, each) = (p.ints(&[-1]), p.size(t, 2), p.ints(&[width]));
                let target = p.concat(&[all, length, each], 0);
                let t = p.op("Reshape", &[t, target]);
                p.bind(name, t)
            });
        let k = p.permute(k, &[0, 2, 1]);
        let scores = p.with("torch.Baddbmm", &[alibi, q, k], "scales", 1);
        let scores = p.bind("attention_scores", scores);
        let by_head = self.by_head(p, scores);
        let sum = p.add(by_head, mask);
        let sum = p.bind("attn_weights", sum);
        let weights = p.softmax(sum);
        let weights = p.bind("attention_probs", weights);
        let weights = p.drop_out(weights, self.attention_drop);
        let weights = p.bind("attention_probs", weights);
        let (all, shape) = (p.ints(&[-1]), p.shape_of(scores));
        let (start, end, axis) = (p.ints(&[1]), p.ints(&[3]), p.ints(&[0]));
        let matrix = p.op("Slice", &[shape, start, end, axis]);
        let target = p.concat(&[all, matrix], 0);
        let flat = p.op("Reshape", &[weights, target]);
        let y = p.op("MatMul", &[flat, v]);
        let y = p.bind("context_layer", y);
        let y = self.by_head(p, y);
        let y = p.permute(y, &[0, 2, 1, 3]);
        let y = p.reshape(y, &[0, 0, signed(self.width)]);
        let y = p.bind("context_layer", y);
        let y = p.linear("dense", y);
        p.bind("output_tensor", y);
        let y = dropout_add(p, y, residual, self.hidden_drop);
        (p.bind("output_tensor", y), weights)
    }

    /// `[N * heads, A, B]` as `[N, heads, A, B]`.
    fn by_head(&self, p: &mut Program, x: Tensor) -> Tensor {
        let front = p.ints(&[-1, signed(self.heads)]);
        let (rows, columns) = (p.size(x, 1), p.size(x, 2));
        let target = p.concat(&[front, rows, columns], 0);
        p.op("Reshape", &[x, target])
    }
}
