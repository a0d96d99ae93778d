//! Decoders: GPT-2, and all that is built as Llama.
#![expect(
    clippy::too_many_lines,
    reason = "a family is read beside the file of transformers that it follows, from top to end"
)]

use super::model::Model;
use super::parts::Implementation;
use super::parts::{
    Act, Attention, by_head, causal_mask, new_rotary, offset_rms_norm, positions, rms_norm, rotary,
    rotate, rows,
};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::tensor::DType;

/// Kinds of layers that have rotary tables of their own, in the order of their registration.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

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

/// What tells Llama's relatives from each other.
#[derive(Clone, Copy, Debug)]
struct Relative {
    width: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    hidden: u64,
    vocab: u64,
    length: u64,
    /// Whether projections of queries, keys and values have a bias; that of the output.
    bias: [bool; 2],
    qk_norm: bool,
    tied: bool,
    /// Width of a head where it is not stated; 0 where that follows from the others.
    head_width: u64,
    gemma: Option<Gemma>,
}

/// Which Gemma it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gemma {
    One,
    Two,
    Three,
}

/// Llama's relatives have no defaults in common but these.
const USUAL: Relative = Relative {
    width: 4096,
    layers: 32,
    heads: 32,
    kv_heads: 0,
    hidden: 11008,
    vocab: 32000,
    length: 2048,
    bias: [false; 2],
    qk_norm: false,
    tied: false,
    head_width: 0,
    gemma: None,
};

/// `modeling_llama.py`.
pub(super) fn llama(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Relative { bias: [c.flag(&["attention_bias"], false); 2], ..USUAL }.program(c, m)
}

/// `modeling_mistral.py`.
pub(super) fn mistral(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Relative { kv_heads: 8, hidden: 14336, length: 131_072, ..USUAL }.program(c, m)
}

/// `modeling_qwen2.py`.
pub(super) fn qwen2(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let relative = Relative {
        kv_heads: 32,
        hidden: 22016,
        vocab: 151_936,
        length: 32768,
        bias: [true, false],
        ..USUAL
    };
    relative.program(c, m)
}

/// `modeling_qwen3.py`.
pub(super) fn qwen3(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let relative = Relative {
        kv_heads: 32,
        hidden: 22016,
        vocab: 151_936,
        length: 32768,
        bias: [c.flag(&["attention_bias"], false); 2],
        qk_norm: true,
        head_width: 128,
        ..USUAL
    };
    relative.program(c, m)
}

/// `modeling_gemma.py`.
pub(super) fn gemma(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let relative = Relative {
        width: 3072,
        layers: 28,
        heads: 16,
        kv_heads: 16,
        hidden: 24576,
        vocab: 256_000,
        length: 8192,
        bias: [c.flag(&["attention_bias"], false); 2],
        tied: true,
        head_width: 256,
        gemma: Some(Gemma::One),
        ..USUAL
    };
    relative.program(c, m)
}

/// `modeling_gemma2.py`, which spells attention out unless told otherwise.
pub(super) fn gemma2(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    if !c.has("_attn_implementation") && !c.has("attn_implementation") {
        m.implementation = Implementation::Eager;
    }
    let relative = Relative {
        width: 2304,
        layers: 26,
        heads: 8,
        kv_heads: 4,
        hidden: 9216,
        vocab: 256_000,
        length: 8192,
        bias: [c.flag(&["attention_bias"], false); 2],
        tied: true,
        head_width: 256,
        gemma: Some(Gemma::Two),
        ..USUAL
    };
    relative.program(c, m)
}

/// `modeling_gemma3.py`, without pictures.
pub(super) fn gemma3(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let relative = Relative {
        width: 2304,
        layers: 26,
        heads: 8,
        kv_heads: 4,
        hidden: 9216,
        vocab: 262_208,
        length: 131_072,
        bias: [c.flag(&["attention_bias"], false); 2],
        qk_norm: true,
        tied: true,
        head_width: 256,
        gemma: Some(Gemma::Three),
    };
    relative.program(c, m)
}

impl Relative {
    fn program(&self, c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
        let width = c.count(&["hidden_size"], self.width)?;
        let layers = c.layers(&["num_hidden_layers"], self.layers)?;
        let heads = c.count(&["num_attention_heads"], self.heads)?;
        let kv_default = if self.kv_heads == 0 { heads } else { self.kv_heads };
        let kv_heads = c.count(&["num_key_value_heads"], kv_default)?;
        let groups = c.divide(heads, kv_heads, "num_key_value_heads and num_attention_heads")?;
        let head_width = match c.maybe(&["head_dim"])? {
            Some(stated) => stated,
            None if self.head_width > 0 => self.head_width,
            None => c.divide(width, heads, "num_attention_heads and hidden_size")?,
        };
        let hidden = c.count(&["intermediate_size"], self.hidden)?;
        let vocab = c.count(&["vocab_size"], self.vocab)?;
        let length = c.count(&["max_position_embeddings"], self.length)?;
        let usual = if self.gemma.is_some() { Act::Gelu } else { Act::Silu };
        let act = match Act::of(c, &["hidden_activation", "hidden_act"], usual)? {
            // Gemma's first configurations name the exact function and mean that with tanh.
            Act::NewGelu if self.gemma.is_some() => Act::Gelu,
            act => act,
        };
        let norm = if self.gemma.is_some() { offset_rms_norm } else { rms_norm };
        let sandwich = matches!(self.gemma, Some(Gemma::Two | Gemma::Three));
        let (caps_scores, caps_logits) = match self.gemma {
            Some(Gemma::Two) => (true, true),
            Some(Gemma::Three) => {
                (c.has("attn_logit_softcapping"), c.has("final_logit_softcapping"))
            }
            _ => (false, false),
        };
        let window = c.maybe(&["sliding_window"])?;
        if let Some(window) = window.filter(|_| !c.has("use_sliding_window")) {
            m.say(
                "assumed-window",
                format!(
                    "sequences are taken to be shorter than the attention's window of {window}"
                ),
            );
        }
        let mlp_bias = c.flag(&["mlp_bias"], false);
        let [qkv_bias, o_bias] = self.bias;
        let attention = Attention {
            implementation: m.implementation,
            heads,
            groups,
            dropout: c.number(&["attention_dropout"], 0.0),
            contiguous: true,
            softcap: caps_scores,
        };
        let tokens = m.tokens("input_ids", length);
        let base = m.base("model");
        let (q_width, kv_width) =
            (heads.saturating_mul(head_width), kv_heads.saturating_mul(head_width));
        m.program.within(base, |p| {
            p.within("embed_tokens", |p| {
                p.parameter("weight", &[vocab, width]);
                if self.gemma.is_some() {
                    p.buffer("embed_scale", DType::Float32, &[]);
                }
            });
            for layer in 0..layers {
                p.within(&format!("layers.{layer}"), |p| {
                    p.within("self_attn", |p| {
                        p.new_linear("q_proj", width, q_width, qkv_bias);
                        p.new_linear("k_proj", width, kv_width, qkv_bias);
                        p.new_linear("v_proj", width, kv_width, qkv_bias);
                        p.new_linear("o_proj", q_width, width, o_bias);
                        if self.qk_norm {
                            p.new_norm("q_norm", head_width, false);
                            p.new_norm("k_norm", head_width, false);
                        }
                    });
                    p.within("mlp", |p| {
                        p.new_linear("gate_proj", width, hidden, mlp_bias);
                        p.new_linear("up_proj", width, hidden, mlp_bias);
                        p.new_linear("down_proj", hidden, width, mlp_bias);
                    });
                    p.new_norm("input_layernorm", width, false);
                    p.new_norm("post_attention_layernorm", width, false);
                    if sandwich {
                        p.new_norm("pre_feedforward_layernorm", width, false);
                        p.new_norm("post_feedforward_layernorm", width, false);
                    }
                });
            }
            p.new_norm("norm", width, false);
            if self.gemma == Some(Gemma::Three) {
                p.within("rotary_emb", |p| {
                    for name in KINDS.iter().flat_map(|kind| {
                        [format!("{kind}_inv_freq"), format!("{kind}_original_inv_freq")]
                    }) {
                        p.buffer(&name, DType::Float32, &[head_width.div_euclid(2)]);
                    }
                });
            } else {
                new_rotary(p, "rotary_emb", head_width);
            }
        });
        m.new_head(c, "lm_head", "model.embed_tokens.weight", [width, vocab], self.tied)?;
        let eager = m.implementation == Implementation::Eager;
        let x = m.program.module(base, |p| {
            let words = p.module("embed_tokens", |p| {
                let weight = p.get("weight");
                let words = p.with("Gather", &[weight, tokens], "axis", 0);
                match p.own("embed_scale") {
                    Some(scale) => p.mul(words, scale),
                    None => words,
                }
            });
            let words = p.bind("inputs_embeds", words);
            let places = positions(p, tokens);
            let places = p.bind("position_ids", places);
            p.op("torch.PackedSequences", &[tokens]);
            let mask = eager.then(|| {
                let mask = causal_mask(p, tokens);
                p.bind("causal_mask", mask)
            });
            let mut masks = [mask; 2];
            if sandwich {
                // The mask of windows is made beside the other.
                p.op("torch.PackedSequences", &[tokens]);
                if eager {
                    let mask = causal_mask(p, tokens);
                    masks = [masks[0], Some(p.bind("sliding_mask", mask))];
                }
            }
            let mut x = p.bind("hidden_states", words);
            let mut tables = [[places; 2]; 2];
            if self.gemma == Some(Gemma::Three) {
                for (slot, kind) in tables.iter_mut().zip(KINDS) {
                    *slot = rotary(p, "rotary_emb", &format!("{kind}_inv_freq"), places);
                }
                for (name, table) in
                    ["cos_1", "sin_1", "cos_2", "sin_2"].into_iter().zip(tables.iter().flatten())
                {
                    p.bind(name, *table);
                }
            } else {
                tables = [rotary(p, "rotary_emb", "inv_freq", places); 2];
                let [[cos, sin], _] = tables;
                p.bind("cos", cos);
                p.bind("sin", sin);
            }
            for layer in 0..layers {
                let is_full = self.is_full(layer);
                let [full, sliding] = masks;
                let mask = if is_full { full } else { sliding };
                let [of_full, of_sliding] = tables;
                let tables = if is_full { of_full } else { of_sliding };
                let y = p.module(&format!("layers.{layer}"), |p| {
                    p.bind("residual", x);
                    let y = norm(p, "input_layernorm", x);
                    let y = p.bind("hidden_states", y);
                    let y = p.module("self_attn", |p| {
                        let late = self.gemma.is_some();
                        let project = |p: &mut Program, name: &str, norm: &str, heads| {
                            let y = p.linear(name, y);
                            if !self.qk_norm || late || norm.is_empty() {
                                return by_head(p, y, heads, head_width);
                            }
                            let y = p.reshape(y, &[0, 0, signed(heads), signed(head_width)]);
                            let y = rms_norm(p, norm, y);
                            p.permute(y, &[0, 2, 1, 3])
                        };
                        let q = project(p, "q_proj", "q_norm", heads);
                        p.bind("query_states", q);
                        let k = project(p, "k_proj", "k_norm", kv_heads);
                        p.bind("key_states", k);
                        let v = project(p, "v_proj", "", kv_heads);
                        p.bind("value_states", v);
                        let (mut q, mut k) = (q, k);
                        if self.qk_norm && late {
                            q = norm(p, "q_norm", q);
                            p.bind("query_states", q);
                            k = norm(p, "k_norm", k);
                            p.bind("key_states", k);
                        }
                        let [q, k] = rotate(p, [q, k], tables, head_width);
                        p.bind("query_states", q);
                        p.bind("key_states", k);
                        let y = attention.run(p, [q, k, v], mask);
                        let y = p.bind("attn_output", y);
                        let y = rows(p, y, q_width);
                        let y = p.bind("attn_output", y);
                        let y = p.linear("o_proj", y);
                        p.bind("attn_output", y)
                    });
                    let mut y = p.bind("hidden_states", y);
                    if sandwich {
                        y = norm(p, "post_attention_layernorm", y);
                        y = p.bind("hidden_states", y);
                    }
                    let x = p.add(x, y);
                    let x = p.bind("hidden_states", x);
                    p.bind("residual", x);
                    let before = if sandwich {
                        "pre_feedforward_layernorm"
                    } else {
                        "post_attention_layernorm"
                    };
                    let y = norm(p, before, x);
                    let y = p.bind("hidden_states", y);
                    let y = p.module("mlp", |p| {
                        let gate = p.linear("gate_proj", y);
                        let gate = act.call(p, "act_fn", gate);
                        let up = p.linear("up_proj", y);
                        let y = p.mul(gate, up);
                        p.linear("down_proj", y)
                    });
                    let mut y = p.bind("hidden_states", y);
                    if sandwich {
                        y = norm(p, "post_feedforward_layernorm", y);
                        y = p.bind("hidden_states", y);
                    }
                    let x = p.add(x, y);
                    p.bind("hidden_states", x)
                });
                x = p.bind("hidden_states", y);
            }
            let x = norm(p, "norm", x);
            p.bind("hidden_states", x)
        });
        let mut logits = m.head("lm_head", x);
        if caps_logits {
            let p = &mut m.program;
            logits = p.bind("logits", logits);
            let number = p.number();
            logits = p.op("Div", &[logits, number]);
            logits = p.bind("logits", logits);
            logits = p.op("Tanh", &[logits]);
            logits = p.bind("logits", logits);
            logits = p.scale(logits);
            logits = p.bind("logits", logits);
        }
        Ok(logits)
    }

    /// Whether a layer's attention has no window, as the configurations' `layer_types` are by default.
    fn is_full(&self, layer: u64) -> bool {
        match self.gemma {
            Some(Gemma::Two) => layer.wrapping_rem(2) == 1,
            Some(Gemma::Three) => layer.wrapping_rem(6) == 5,
            _ => true,
        }
    }
}
