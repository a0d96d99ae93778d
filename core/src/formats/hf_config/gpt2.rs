//! GPT-2.
#![expect(
    clippy::too_many_lines,
    reason = "a family is read beside the file of transformers that it follows, from top to end"
)]

use super::model::Model;
use super::parts::{Act, Attention, Implementation, by_head, causal_mask, positions, rows};
use super::program::{Program, Tensor};
use super::settings::Settings;
use crate::error::Error;

/// `modeling_gpt2.py`.
pub(super) fn gpt2(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["n_embd", "hidden_size"], 768)?;
    let layers = c.layers(&["n_layer", "num_hidden_layers"], 12)?;
    let heads = c.count(&["n_head", "num_attention_heads"], 12)?;
    let vocab = c.count(&["vocab_size"], 50257)?;
    let length = c.count(&["n_positions", "max_position_embeddings", "n_ctx"], 1024)?;
    let hidden = c.count(&["n_inner"], width.saturating_mul(4))?;
    let head_width = c.divide(width, heads, "n_head and n_embd")?;
    let act = Act::of(c, &["activation_function"], Act::NewGelu)?;
    let embd = c.number(&["embd_pdrop"], 0.1);
    let resid = c.number(&["resid_pdrop"], 0.1);
    let attention = Attention {
        implementation: m.implementation,
        heads,
        groups: 1,
        dropout: c.number(&["attn_pdrop"], 0.1),
        contiguous: false,
        softcap: false,
    };
    let tokens = m.tokens("input_ids", length);
    let base = m.base("transformer");
    let p = &mut m.program;
    let conv1d = |p: &mut Program, name: &str, takes: u64, makes: u64| {
        p.within(name, |p| {
            p.parameter("weight", &[takes, makes]);
            p.parameter("bias", &[makes]);
        });
    };
    p.within(base, |p| {
        p.new_embedding("wte", vocab, width);
        p.new_embedding("wpe", length, width);
        for layer in 0..layers {
            p.within(&format!("h.{layer}"), |p| {
                p.new_norm("ln_1", width, true);
                p.within("attn", |p| {
                    conv1d(p, "c_attn", width, width.saturating_mul(3));
                    conv1d(p, "c_proj", width, width);
                });
                p.new_norm("ln_2", width, true);
                p.within("mlp", |p| {
                    conv1d(p, "c_fc", width, hidden);
                    conv1d(p, "c_proj", hidden, width);
                });
            });
        }
        p.new_norm("ln_f", width, true);
    });
    m.new_head(c, "lm_head", "transformer.wte.weight", [width, vocab], true)?;
    let eager = m.implementation == Implementation::Eager;
    let x = m.program.module(base, |p| {
        let words = p.embedding("wte", tokens);
        let words = p.bind("inputs_embeds", words);
        let places = positions(p, tokens);
        let places = p.bind("position_ids", places);
        let places = p.embedding("wpe", places);
        let places = p.bind("position_embeds", places);
        let x = p.add(words, places);
        let mut x = p.bind("hidden_states", x);
        p.op("torch.PackedSequences", &[tokens]);
        let mask = eager.then(|| {
            let mask = causal_mask(p, tokens);
            p.bind("causal_mask", mask)
        });
        x = p.dropout("drop", x, embd);
        x = p.bind("hidden_states", x);
        for layer in 0..layers {
            let y = p.module(&format!("h.{layer}"), |p| {
                p.bind("residual", x);
                let y = p.layer_norm("ln_1", x);
                let y = p.bind("hidden_states", y);
                let y = p.module("attn", |p| {
                    let all = p.conv1d("c_attn", y);
                    let [q, k, v] = p.split(all, [width; 3], 2);
                    p.bind("query_states", q);
                    let k = by_head(p, k, heads, head_width);
                    p.bind("key_states", k);
                    let v = by_head(p, v, heads, head_width);
                    p.bind("value_states", v);
                    let q = by_head(p, q, heads, head_width);
                    p.bind("query_states", q);
                    let y = attention.run(p, [q, k, v], mask);
                    let y = p.bind("attn_output", y);
                    let y = rows(p, y, width);
                    let y = p.bind("attn_output", y);
                    let y = p.conv1d("c_proj", y);
                    let y = p.bind("attn_output", y);
                    let y = p.dropout("resid_dropout", y, resid);
                    p.bind("attn_output", y)
                });
                let y = p.bind("attn_output", y);
                let x = p.add(y, x);
                let x = p.bind("hidden_states", x);
                p.bind("residual", x);
                let y = p.layer_norm("ln_2", x);
                let y = p.bind("hidden_states", y);
                let y = p.module("mlp", |p| {
                    let y = p.conv1d("c_fc", y);
                    let y = p.bind("hidden_states", y);
                    let y = act.call(p, "act", y);
                    let y = p.bind("hidden_states", y);
                    let y = p.conv1d("c_proj", y);
                    let y = p.bind("hidden_states", y);
                    let y = p.dropout("dropout", y, resid);
                    p.bind("hidden_states", y)
                });
                let y = p.bind("feed_forward_hidden_states", y);
                let x = p.add(x, y);
                p.bind("hidden_states", x)
            });
            x = p.bind("hidden_states", y);
        }
        let x = p.layer_norm("ln_f", x);
        p.bind("hidden_states", x)
    });
    Ok(m.head("lm_head", x))
}
