//! GPT-J: `modeling_gptj.py`, whose attention is spelled out unless the flash-attention package runs it.

use super::model::Model;
use super::parts::{Act, causal_mask, feed_forward, positions};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::tensor::DType;

/// Sizes of a GPT-J.
#[derive(Debug)]
struct GptJ {
    width: u64,
    layers: u64,
    heads: u64,
    head_width: u64,
    /// Dimensions of a head that turn.
    turns: u64,
    hidden: u64,
    vocab: u64,
    length: u64,
    act: Act,
    resid_drop: f64,
    embd_drop: f64,
    attention_drop: f64,
}

pub(super) fn gptj(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    m.spells_out();
    let width = c.count(&["n_embd", "hidden_size"], 4096)?;
    let heads = c.count(&["n_head", "num_attention_heads"], 16)?;
    let head_width = c.divide(width, heads, "n_head and n_embd")?;
    let turns = c.count(&["rotary_dim"], 64)?;
    if turns > head_width || !turns.is_multiple_of(2) {
        return Err(c.fault("rotary_dim", "an even number of a head's dimensions has to turn"));
    }
    let gptj = GptJ {
        width,
        layers: c.layers(&["n_layer", "num_hidden_layers"], 28)?,
        heads,
        head_width,
        turns,
        hidden: c.count(&["n_inner"], width.saturating_mul(4))?,
        vocab: c.count(&["vocab_size"], 50400)?,
        length: c.count(&["n_positions", "max_position_embeddings"], 2048)?,
        act: Act::of(c, &["activation_function"], Act::NewGelu)?,
        resid_drop: c.number(&["resid_pdrop"], 0.0),
        embd_drop: c.number(&["embd_pdrop"], 0.0),
        attention_drop: c.number(&["attn_pdrop"], 0.0),
    };
    gptj.program(c, m)
}

impl GptJ {
    fn program(&self, c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
        let tokens = m.tokens("input_ids", self.length);
        let base = m.base("transformer");
        m.program.within(base, |p| {
            p.new_embedding("wte", self.vocab, self.width);
            for layer in 0..self.layers {
                p.within(&format!("h.{layer}"), |p| self.new_layer(p));
            }
            p.new_norm("ln_f", self.width, true);
        });
        m.new_biased_head(c, "lm_head", "transformer.wte.weight", [self.width, self.vocab])?;
        let x = m.program.module(base, |p| {
            let words = p.embedding("wte", tokens);
            let words = p.bind("inputs_embeds", words);
            let places = positions(p, tokens);
            let places = p.bind("position_ids", places);
            p.op("torch.PackedSequences", &[tokens]);
            let mask = causal_mask(p, tokens);
            let mask = p.bind("causal_mask", mask);
            let x = p.dropout("drop", words, self.embd_drop);
            let mut x = p.bind("hidden_states", x);
            for layer in 0..self.layers {
                let (y, weights) =
                    p.module(&format!("h.{layer}"), |p| self.layer(p, x, mask, places));
                p.bind("outputs", weights);
                x = p.bind("hidden_states", y);
            }
            let x = p.layer_norm("ln_f", x);
            p.bind("hidden_states", x)
        });
        Ok(m.head("lm_head", x))
    }

    fn new_layer(&self, p: &mut Program) {
        p.new_norm("ln_1", self.width, true);
        p.within("attn", |p| {
            for name in ["k_proj", "v_proj", "q_proj", "out_proj"] {
                p.new_linear(name, self.width, self.width, false);
            }
            p.buffer("embed_positions", DType::Float32, &[self.length, self.turns]);
        });
        p.within("mlp", |p| {
            p.new_linear("fc_in", self.width, self.hidden, true);
            p.new_linear("fc_out", self.hidden, self.width, true);
        });
    }

    fn layer(&self, p: &mut Program, x: Tensor, mask: Tensor, places: Tensor) -> (Tensor, Tensor) {
        p.bind("residual", x);
        let normed = p.layer_norm("ln_1", x);
        let normed = p.bind("hidden_states", normed);
        let (y, weights) = p.module("attn", |p| self.attend(p, normed, mask, places));
        let y = p.bind("attn_outputs", y);
        p.bind("attn_weights", weights);
        let h = p.module("mlp", |p| {
            feed_forward(p, ["fc_in", "act", "fc_out"], normed, self.act, self.resid_drop)
        });
        let h = p.bind("feed_forward_hidden_states", h);
        let sum = p.add(y, h);
        let sum = p.add(sum, x);
        (p.bind("hidden_states", sum), weights)
    }

    /// `GPTJAttention`: its output, and its weights.
    fn attend(&self, p: &mut Program, x: Tensor, mask: Tensor, places: Tensor) -> (Tensor, Tensor) {
        let [q, k, v] =
            [("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")].map(|(name, module)| {
                let y = p.linear(module, x);
                let y = p.bind(name, y);
                p.reshape(y, &[0, 0, signed(self.heads), signed(self.head_width)])
            });
        let v = p.permute(v, &[0, 2, 1, 3]);
        let tables = self.tables(p, places, k);
        let k = self.turned(p, k, tables, ["k_rot", "k_pass"]);
        let q = self.turned(p, q, tables, ["q_rot", "q_pass"]);
        let (k, q) = (self.joined(p, k), self.joined(p, q));
        p.bind("key", k);
        p.bind("query", q);
        let (k, q) = (p.permute(k, &[0, 2, 1, 3]), p.permute(q, &[0, 2, 1, 3]));
        let (y, weights) = p.function(|p| {
            // Scores are computed in single precision.
            let q = p.float(q);
            let q = p.bind("query", q);
            let k = p.float(k);
            let k = p.bind("key", k);
            let turned = p.permute(k, &[0, 1, 3, 2]);
            let scores = p.op("MatMul", &[q, turned]);
            let scores = p.bind("attn_weights", scores);
            let number = p.number();
            let scores = p.op("Div", &[scores, number]);
            let scores = p.bind("attn_weights", scores);
            let scores = p.add(scores, mask);
            let scores = p.bind("attn_weights", scores);
            let weights = p.softmax(scores);
            let weights = p.bind("attn_weights", weights);
            let weights = p.op("CastLike", &[weights, v]);
            let weights = p.bind("attn_weights", weights);
            let weights = p.dropout("attn_dropout", weights, self.attention_drop);
            let weights = p.bind("attn_weights", weights);
            (p.op("MatMul", &[weights, v]), weights)
        });
        p.bind("attn_weights", weights);
        let y = p.bind("attn_output", y);
        let y = p.function(|p| {
            let y = p.permute(y, &[0, 2, 1, 3]);
            let y = p.op("torch.Contiguous", &[y]);
            p.reshape(y, &[0, 0, signed(self.width)])
        });
        let y = p.bind("attn_output", y);
        let y = p.linear("out_proj", y);
        let y = p.bind("attn_output", y);
        let y = p.dropout("resid_dropout", y, self.resid_drop);
        (p.bind("attn_output", y), weights)
    }

    /// Sines and cosines of the positions, `[1, L, turns / 2]` each, gathered from the buffer.
    fn tables(&self, p: &mut Program, places: Tensor, like: Tensor) -> [Tensor; 2] {
        let all = p.ints(&[1, signed(self.length), signed(self.turns)]);
        let table = p.with("torch.Empty", &[all], "dtype", 1);
        let table = p.bind("embed_positions", table);
        let (one, length, width) = (p.ints(&[1]), p.size(places, 1), p.ints(&[signed(self.turns)]));
        let shape = p.concat(&[one, length, width], 0);
        let repeated = p.with("torch.Empty", &[shape], "dtype", 7);
        let repeated = p.bind("repeated_position_ids", repeated);
        let rows = p.with("GatherElements", &[table, repeated], "axis", 1);
        let rows = p.op("CastLike", &[rows, like]);
        let rows = p.bind("sincos", rows);
        p.split(rows, [self.turns.div_euclid(2); 2], -1)
    }

    /// What turns of queries or keys, turned, and what does not.
    fn turned(
        &self,
        p: &mut Program,
        x: Tensor,
        tables: [Tensor; 2],
        names: [&'static str; 2],
    ) -> [Tensor; 2] {
        let (turns, all) = (signed(self.turns), signed(self.head_width));
        let [rot, pass] = [p.slice(x, -1, 0, turns), p.slice(x, -1, turns, all)];
        let turned = p.function(|p| {
            // `repeat_interleave(…, 2, 3)`
            let [sin, cos] = [("sin", 0), ("cos", 1)].map(|(name, which)| {
                let table = if which == 0 { tables[0] } else { tables[1] };
                let table = p.unsqueeze(table, 2);
                let table = p.unsqueeze(table, -1);
                let twice = p.ints(&[1, 1, 1, 1, 2]);
                let wide = p.op("Expand", &[table, twice]);
                let wide = p.reshape(wide, &[0, 0, 0, turns]);
                p.bind(name, wide)
            });
            let straight = p.mul(rot, cos);
            let crossed = p.function(|p| {
                let [even, odd] = [0, 1].map(|start| {
                    let bounds = [start, turns, -1, 2].map(|n| p.ints(&[n]));
                    p.op("Slice", &[rot, bounds[0], bounds[1], bounds[2], bounds[3]])
                });
                let negated = p.op("Neg", &[odd]);
                let (negated, even) = (p.unsqueeze(negated, -1), p.unsqueeze(even, -1));
                let pairs = p.concat(&[negated, even], -1);
                p.reshape(pairs, &[0, 0, 0, turns])
            });
            let crossed = p.mul(crossed, sin);
            p.add(straight, crossed)
        });
        [p.bind(names[0], turned), p.bind(names[1], pass)]
    }

    fn joined(&self, p: &mut Program, [rot, pass]: [Tensor; 2]) -> Tensor {
        if self.turns == self.head_width { rot } else { p.concat(&[rot, pass], -1) }
    }
}
