//! Decoders that are built otherwise than Llama: OPT, GPT-NeoX, Phi, GPT-Neo.
#![expect(
    clippy::too_many_lines,
    reason = "a family is read beside the file of transformers that it follows, from top to end"
)]

use super::model::Model;
use super::parts::{
    Act, Attention, Implementation, by_head, causal_mask, feed_forward, new_rotary, positions,
    project, rotary, rows, turned,
};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::tensor::DType;

/// A mask where attention is spelled out; else none is made.
fn mask_of(p: &mut Program, implementation: Implementation, tokens: Tensor) -> Option<Tensor> {
    (implementation == Implementation::Eager).then(|| {
        let mask = causal_mask(p, tokens);
        p.bind("causal_mask", mask)
    })
}

/// `modeling_opt.py`.
pub(super) fn opt(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["hidden_size"], 768)?;
    let layers = c.layers(&["num_hidden_layers"], 12)?;
    let heads = c.count(&["num_attention_heads"], 12)?;
    let head_width = c.divide(width, heads, "num_attention_heads and hidden_size")?;
    let hidden = c.count(&["ffn_dim"], 3072)?;
    let vocab = c.count(&["vocab_size"], 50272)?;
    let length = c.count(&["max_position_embeddings"], 2048)?;
    let narrow = c.count(&["word_embed_proj_dim"], width)?;
    let before = c.flag(&["do_layer_norm_before"], true);
    let bias = c.flag(&["enable_bias"], true);
    let last_norm = before && !c.flag(&["_remove_final_layer_norm"], false);
    let drop = c.number(&["dropout"], 0.1);
    let act = Act::of(c, &["activation_function"], Act::Relu)?;
    let attention = Attention {
        implementation: m.implementation,
        heads,
        groups: 1,
        dropout: c.number(&["attention_dropout"], 0.0),
        contiguous: true,
        softcap: false,
    };
    let tokens = m.tokens("input_ids", length);
    let base = m.base("model");
    m.program.within(base, |p| {
        p.within("decoder", |p| {
            p.new_embedding("embed_tokens", vocab, narrow);
            p.new_embedding("embed_positions", length.saturating_add(2), width);
            if narrow != width {
                p.new_linear("project_out", width, narrow, false);
                p.new_linear("project_in", narrow, width, false);
            }
            if last_norm {
                p.new_norm("final_layer_norm", width, true);
            }
            for layer in 0..layers {
                p.within(&format!("layers.{layer}"), |p| {
                    p.within("self_attn", |p| {
                        for name in ["k_proj", "v_proj", "q_proj", "out_proj"] {
                            p.new_linear(name, width, width, bias);
                        }
                    });
                    p.new_norm("self_attn_layer_norm", width, true);
                    p.new_linear("fc1", width, hidden, bias);
                    p.new_linear("fc2", hidden, width, bias);
                    p.new_norm("final_layer_norm", width, true);
                });
            }
        });
    });
    m.new_head(c, "lm_head", "model.decoder.embed_tokens.weight", [narrow, vocab], true)?;
    let implementation = m.implementation;
    let decoder = |p: &mut Program| {
        let words = p.embedding("embed_tokens", tokens);
        let mut words = p.bind("inputs_embeds", words);
        let ones = p.op("torch.Ones", &[tokens]);
        let ones = p.bind("position_attention_mask", ones);
        let axis = p.int(1);
        let sums = p.op("CumSum", &[ones, axis]);
        let sums = p.bind("position_ids", sums);
        let product = p.mul(sums, ones);
        let one = p.number();
        let shifted = p.op("Sub", &[product, one]);
        let places = p.with("Cast", &[shifted], "to", 7);
        let places = p.bind("position_ids", places);
        let mask = mask_of(p, implementation, tokens);
        let places = p.module("embed_positions", |p| {
            let two = p.int(2);
            let rows = p.add(places, two);
            p.function(|p| {
                let weight = p.get("weight");
                p.with("Gather", &[weight, rows], "axis", 0)
            })
        });
        let places = p.bind("pos_embeds", places);
        if narrow != width {
            words = p.linear("project_in", words);
            words = p.bind("inputs_embeds", words);
        }
        let x = p.add(words, places);
        let mut x = p.bind("hidden_states", x);
        for layer in 0..layers {
            let y = p.module(&format!("layers.{layer}"), |p| {
                p.bind("residual", x);
                let mut y = x;
                if before {
                    y = p.layer_norm("self_attn_layer_norm", y);
                    y = p.bind("hidden_states", y);
                }
                let y = p.module("self_attn", |p| {
                    let q = p.linear("q_proj", y);
                    let q = p.scale(q);
                    let q = p.bind("query_states", q);
                    let q = by_head(p, q, heads, head_width);
                    let q = p.bind("query_states", q);
                    let k = p.linear("k_proj", y);
                    let k = p.bind("key_states", k);
                    let v = p.linear("v_proj", y);
                    let v = p.bind("value_states", v);
                    let k = by_head(p, k, heads, head_width);
                    let k = p.bind("key_states", k);
                    let v = by_head(p, v, heads, head_width);
                    let v = p.bind("value_states", v);
                    let y = attention.run(p, [q, k, v], mask);
                    let y = p.bind("attn_output", y);
                    let y = rows(p, y, width);
                    let y = p.bind("attn_output", y);
                    let y = p.linear("out_proj", y);
                    p.bind("attn_output", y)
                });
                let y = p.bind("hidden_states", y);
                let y = p.drop_out(y, drop);
                let y = p.bind("hidden_states", y);
                let y = p.add(x, y);
                let mut y = p.bind("hidden_states", y);
                if !before {
                    y = p.layer_norm("self_attn_layer_norm", y);
                    y = p.bind("hidden_states", y);
                }
                let flat = p.reshape(y, &[-1, signed(width)]);
                let flat = p.bind("hidden_states", flat);
                p.bind("residual", flat);
                let mut h = flat;
                if before {
                    h = p.layer_norm("final_layer_norm", h);
                    h = p.bind("hidden_states", h);
                }
                let h = p.linear("fc1", h);
                let h = p.bind("hidden_states", h);
                let h = act.call(p, "activation_fn", h);
                let h = p.bind("hidden_states", h);
                let h = p.linear("fc2", h);
                let h = p.bind("hidden_states", h);
                let h = p.drop_out(h, drop);
                let h = p.bind("hidden_states", h);
                let sum = p.add(flat, h);
                let shape = p.shape_of(y);
                let sum = p.op("Reshape", &[sum, shape]);
                let mut x = p.bind("hidden_states", sum);
                if !before {
                    x = p.layer_norm("final_layer_norm", x);
                    x = p.bind("hidden_states", x);
                }
                x
            });
            x = p.bind("hidden_states", y);
        }
        if last_norm {
            x = p.layer_norm("final_layer_norm", x);
            x = p.bind("hidden_states", x);
        }
        if narrow != width {
            x = p.linear("project_out", x);
            x = p.bind("hidden_states", x);
        }
        x
    };
    let x = m.program.module(base, |p| p.module("decoder", decoder));
    Ok(m.head("lm_head", x))
}

/// A part of rotary positions: how many of a head's dimensions turn.
#[expect(clippy::float_arithmetic, reason = "a share of a width that is stated, and no bytes")]
fn rotary_width(
    c: Settings<'_>,
    head_width: u64,
    names: &[&str],
    default: f64,
) -> Result<u64, Error> {
    let stated = c.part("rope_parameters").or_else(|| c.part("rope_scaling"));
    let stated = stated.filter(|part| part.has("partial_rotary_factor"));
    let share = stated.map_or_else(
        || c.number(names, default),
        |part| part.number(&["partial_rotary_factor"], default),
    );
    // Shares are eighths and the like: the whole number below, and even.
    let width = (0..=head_width).rev().find(|&n| {
        let (Ok(n), Ok(all)) = (u32::try_from(n), u32::try_from(head_width)) else { return false };
        f64::from(n) <= share * f64::from(all)
    });
    let width = width.unwrap_or(head_width);
    if width >= 2 && width.is_multiple_of(2) {
        return Ok(width);
    }
    Err(c.fault("partial_rotary_factor", "an even number of dimensions has to turn"))
}

/// `apply_rotary_pos_emb` of GPT-NeoX: the rest of a head is put back behind what turns.
fn rotate_part(
    p: &mut Program,
    [q, k]: [Tensor; 2],
    [cos, sin]: [Tensor; 2],
    [part, whole]: [u64; 2],
) -> [Tensor; 2] {
    p.function(|p| {
        p.bind("q", q);
        p.bind("k", k);
        let (cos, sin) = (p.unsqueeze(cos, 1), p.unsqueeze(sin, 1));
        let cut = |p: &mut Program, x| {
            [p.slice(x, -1, 0, signed(part)), p.slice(x, -1, signed(part), signed(whole))]
        };
        let [q_rot, q_pass] = cut(p, q);
        let [k_rot, k_pass] = cut(p, k);
        let q_embed = turned(p, q_rot, [cos, sin], part);
        let q_embed = p.bind("q_embed", q_embed);
        let k_embed = turned(p, k_rot, [cos, sin], part);
        let k_embed = p.bind("k_embed", k_embed);
        let q = p.concat(&[q_embed, q_pass], -1);
        let q = p.bind("q_embed", q);
        let k = p.concat(&[k_embed, k_pass], -1);
        [q, p.bind("k_embed", k)]
    })
}

/// `modeling_gpt_neox.py`.
pub(super) fn gpt_neox(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["hidden_size"], 6144)?;
    let layers = c.layers(&["num_hidden_layers"], 44)?;
    let heads = c.count(&["num_attention_heads"], 64)?;
    let head_width = c.divide(width, heads, "num_attention_heads and hidden_size")?;
    let hidden = c.count(&["intermediate_size"], 24576)?;
    let vocab = c.count(&["vocab_size"], 50432)?;
    let length = c.count(&["max_position_embeddings"], 2048)?;
    let part = rotary_width(c, head_width, &["rotary_pct", "partial_rotary_factor"], 0.25)?;
    let parallel = c.flag(&["use_parallel_residual"], true);
    let bias = c.flag(&["attention_bias"], true);
    let drop = c.number(&["hidden_dropout"], 0.0);
    let act = Act::of(c, &["hidden_act"], Act::Gelu)?;
    let attention = Attention {
        implementation: m.implementation,
        heads,
        groups: 1,
        dropout: c.number(&["attention_dropout"], 0.0),
        contiguous: true,
        softcap: false,
    };
    let tokens = m.tokens("input_ids", length);
    let base = m.base("gpt_neox");
    m.program.within(base, |p| {
        p.new_embedding("embed_in", vocab, width);
        for layer in 0..layers {
            p.within(&format!("layers.{layer}"), |p| {
                p.new_norm("input_layernorm", width, true);
                p.new_norm("post_attention_layernorm", width, true);
                p.within("attention", |p| {
                    p.new_linear("query_key_value", width, width.saturating_mul(3), bias);
                    p.new_linear("dense", width, width, bias);
                });
                p.within("mlp", |p| {
                    p.new_linear("dense_h_to_4h", width, hidden, true);
                    p.new_linear("dense_4h_to_h", hidden, width, true);
                });
            });
        }
        p.new_norm("final_layer_norm", width, true);
        new_rotary(p, "rotary_emb", part);
    });
    let head = if c.word(&["model_type"]).is_some() && m.task != super::model::Task::Base {
        "lm_head"
    } else {
        "embed_out"
    };
    m.new_head(c, head, "gpt_neox.embed_in.weight", [width, vocab], false)?;
    let implementation = m.implementation;
    let x = m.program.module(base, |p| {
        let words = p.embedding("embed_in", tokens);
        let words = p.bind("inputs_embeds", words);
        let places = positions(p, tokens);
        let places = p.bind("position_ids", places);
        p.op("torch.PackedSequences", &[tokens]);
        let mask = mask_of(p, implementation, tokens);
        let x = p.dropout("emb_dropout", words, drop);
        let mut x = p.bind("hidden_states", x);
        let tables = rotary(p, "rotary_emb", "inv_freq", places);
        p.bind("cos", tables[0]);
        p.bind("sin", tables[1]);
        for layer in 0..layers {
            let y = p.module(&format!("layers.{layer}"), |p| {
                let normed = p.layer_norm("input_layernorm", x);
                let y = p.module("attention", |p| {
                    let all = p.linear("query_key_value", normed);
                    let third = head_width.saturating_mul(3);
                    let all = by_head(p, all, heads, third);
                    p.bind("qkv", all);
                    let [q, k, v] = p.split(all, [head_width; 3], -1);
                    p.bind("query_states", q);
                    p.bind("key_states", k);
                    p.bind("value_states", v);
                    let [q, k] = rotate_part(p, [q, k], tables, [part, head_width]);
                    p.bind("query_states", q);
                    p.bind("key_states", k);
                    let y = attention.run(p, [q, k, v], mask);
                    let y = p.bind("attn_output", y);
                    let y = rows(p, y, width);
                    let y = p.bind("attn_output", y);
                    let y = p.linear("dense", y);
                    p.bind("attn_output", y)
                });
                let y = p.bind("attn_output", y);
                let y = p.dropout("post_attention_dropout", y, drop);
                let mut y = p.bind("attn_output", y);
                if !parallel {
                    y = p.add(y, x);
                    y = p.bind("attn_output", y);
                }
                let normed = p.layer_norm("post_attention_layernorm", if parallel { x } else { y });
                let h = p.module("mlp", |p| {
                    feed_forward(p, ["dense_h_to_4h", "act", "dense_4h_to_h"], normed, act, 0.0)
                });
                let h = p.bind("mlp_output", h);
                let h = p.dropout("post_mlp_dropout", h, drop);
                let h = p.bind("mlp_output", h);
                let sum = p.add(h, y);
                let sum = if parallel { p.add(sum, x) } else { sum };
                p.bind("hidden_states", sum)
            });
            x = p.bind("hidden_states", y);
        }
        let x = p.layer_norm("final_layer_norm", x);
        p.bind("hidden_states", x)
    });
    Ok(m.head(head, x))
}

/// `modeling_phi.py`.
pub(super) fn phi(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["hidden_size"], 2048)?;
    let layers = c.layers(&["num_hidden_layers"], 24)?;
    let heads = c.count(&["num_attention_heads"], 32)?;
    let kv_heads = c.count(&["num_key_value_heads"], heads)?;
    let groups = c.divide(heads, kv_heads, "num_key_value_heads and num_attention_heads")?;
    let head_width = c.divide(width, heads, "num_attention_heads and hidden_size")?;
    let hidden = c.count(&["intermediate_size"], 8192)?;
    let vocab = c.count(&["vocab_size"], 51200)?;
    let length = c.count(&["max_position_embeddings"], 2048)?;
    let part = rotary_width(c, head_width, &["partial_rotary_factor"], 0.5)?;
    let qk_norm = c.flag(&["qk_layernorm"], false);
    let [resid, embd] = [c.number(&["resid_pdrop"], 0.0), c.number(&["embd_pdrop"], 0.0)];
    let act = Act::of(c, &["hidden_act"], Act::NewGelu)?;
    let attention = Attention {
        implementation: m.implementation,
        heads,
        groups,
        dropout: c.number(&["attention_dropout"], 0.0),
        contiguous: true,
        softcap: false,
    };
    let kv_width = kv_heads.saturating_mul(head_width);
    let tokens = m.tokens("input_ids", length);
    let base = m.base("model");
    m.program.within(base, |p| {
        p.new_embedding("embed_tokens", vocab, width);
        for layer in 0..layers {
            p.within(&format!("layers.{layer}"), |p| {
                p.within("self_attn", |p| {
                    p.new_linear("q_proj", width, width, true);
                    p.new_linear("k_proj", width, kv_width, true);
                    p.new_linear("v_proj", width, kv_width, true);
                    p.new_linear("dense", width, width, true);
                    if qk_norm {
                        p.new_norm("q_layernorm", head_width, true);
                        p.new_norm("k_layernorm", head_width, true);
                    }
                });
                p.within("mlp", |p| {
                    p.new_linear("fc1", width, hidden, true);
                    p.new_linear("fc2", hidden, width, true);
                });
                p.new_norm("input_layernorm", width, true);
            });
        }
        new_rotary(p, "rotary_emb", part);
        p.new_norm("final_layernorm", width, true);
    });
    m.new_biased_head(c, "lm_head", "model.embed_tokens.weight", [width, vocab])?;
    let implementation = m.implementation;
    let x = m.program.module(base, |p| {
        let words = p.embedding("embed_tokens", tokens);
        let words = p.bind("inputs_embeds", words);
        let places = positions(p, tokens);
        let places = p.bind("position_ids", places);
        p.op("torch.PackedSequences", &[tokens]);
        let mask = mask_of(p, implementation, tokens);
        let words = p.dropout("embed_dropout", words, embd);
        let words = p.bind("inputs_embeds", words);
        let mut x = p.bind("hidden_states", words);
        let tables = rotary(p, "rotary_emb", "inv_freq", places);
        p.bind("cos", tables[0]);
        p.bind("sin", tables[1]);
        for layer in 0..layers {
            let y = p.module(&format!("layers.{layer}"), |p| {
                p.bind("residual", x);
                let normed = p.layer_norm("input_layernorm", x);
                let normed = p.bind("hidden_states", normed);
                let y = p.module("self_attn", |p| {
                    let mut q = project(p, ["q_proj", "query_states"], normed, [heads, head_width]);
                    let mut k =
                        project(p, ["k_proj", "key_states"], normed, [kv_heads, head_width]);
                    let v = project(p, ["v_proj", "value_states"], normed, [kv_heads, head_width]);
                    if qk_norm {
                        q = p.layer_norm("q_layernorm", q);
                        q = p.bind("query_states", q);
                        k = p.layer_norm("k_layernorm", k);
                        k = p.bind("key_states", k);
                    }
                    let cut = |p: &mut Program, x| {
                        let (part, whole) = (signed(part), signed(head_width));
                        [p.slice(x, -1, 0, part), p.slice(x, -1, part, whole)]
                    };
                    let [q_rot, q_pass] = cut(p, q);
                    p.bind("query_rot", q_rot);
                    p.bind("query_pass", q_pass);
                    let [k_rot, k_pass] = cut(p, k);
                    p.bind("key_rot", k_rot);
                    p.bind("key_pass", k_pass);
                    let [q_rot, k_rot] = super::parts::rotate(p, [q_rot, k_rot], tables, part);
                    p.bind("query_rot", q_rot);
                    p.bind("key_rot", k_rot);
                    let q = p.concat(&[q_rot, q_pass], -1);
                    let q = p.bind("query_states", q);
                    let k = p.concat(&[k_rot, k_pass], -1);
                    let k = p.bind("key_states", k);
                    let y = attention.run(p, [q, k, v], mask);
                    let y = p.bind("attn_output", y);
                    let y = rows(p, y, width);
                    let y = p.bind("attn_output", y);
                    let y = p.linear("dense", y);
                    p.bind("attn_output", y)
                });
                let y = p.bind("attn_outputs", y);
                let y = p.dropout("resid_dropout", y, resid);
                let y = p.bind("attn_outputs", y);
                let h = p.module("mlp", |p| {
                    feed_forward(p, ["fc1", "activation_fn", "fc2"], normed, act, 0.0)
                });
                let h = p.dropout("resid_dropout", h, resid);
                let h = p.bind("feed_forward_hidden_states", h);
                let sum = p.add(y, h);
                let sum = p.add(sum, x);
                p.bind("hidden_states", sum)
            });
            x = p.bind("hidden_states", y);
        }
        let x = p.layer_norm("final_layernorm", x);
        p.bind("hidden_states", x)
    });
    Ok(m.head("lm_head", x))
}

/// `modeling_gpt_neo.py`, which spells attention out always.
pub(super) fn gpt_neo(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["hidden_size"], 2048)?;
    let layers = c.layers(&["num_layers", "num_hidden_layers"], 24)?;
    let heads = c.count(&["num_heads", "num_attention_heads"], 16)?;
    let head_width = c.divide(width, heads, "num_heads and hidden_size")?;
    let hidden = c.count(&["intermediate_size"], width.saturating_mul(4))?;
    let vocab = c.count(&["vocab_size"], 50257)?;
    let length = c.count(&["max_position_embeddings"], 2048)?;
    let act = Act::of(c, &["activation_function"], Act::NewGelu)?;
    let [resid, embd] = [c.number(&["resid_dropout"], 0.0), c.number(&["embed_dropout"], 0.0)];
    let attention_drop = c.number(&["attention_dropout"], 0.0);
    let tokens = m.tokens("input_ids", length);
    let base = m.base("transformer");
    m.program.within(base, |p| {
        p.new_embedding("wte", vocab, width);
        p.new_embedding("wpe", length, width);
        for layer in 0..layers {
            p.within(&format!("h.{layer}"), |p| {
                p.new_norm("ln_1", width, true);
                p.within("attn.attention", |p| {
                    p.buffer("bias", DType::Bool, &[1, 1, length, length]);
                    for name in ["k_proj", "v_proj", "q_proj"] {
                        p.new_linear(name, width, width, false);
                    }
                    p.new_linear("out_proj", width, width, true);
                });
                p.new_norm("ln_2", width, true);
                p.within("mlp", |p| {
                    p.new_linear("c_fc", width, hidden, true);
                    p.new_linear("c_proj", hidden, width, true);
                });
            });
        }
        p.new_norm("ln_f", width, true);
    });
    m.new_head(c, "lm_head", "transformer.wte.weight", [width, vocab], true)?;
    let attend = |p: &mut Program, y: Tensor, mask: Tensor| {
        let q = p.linear("q_proj", y);
        p.bind("query", q);
        let k = p.linear("k_proj", y);
        p.bind("key", k);
        let v = p.linear("v_proj", y);
        p.bind("value", v);
        let q = by_head(p, q, heads, head_width);
        let q = p.bind("query", q);
        let k = by_head(p, k, heads, head_width);
        let k = p.bind("key", k);
        let v = by_head(p, v, heads, head_width);
        let v = p.bind("value", v);
        let y = p.function(|p| {
            p.bind("query", q);
            p.bind("key", k);
            let turned = p.permute(k, &[0, 1, 3, 2]);
            let scores = p.op("MatMul", &[q, turned]);
            let scores = p.bind("attn_weights", scores);
            let (buffer, size) = (p.get("bias"), p.size(tokens, 1));
            let visible = p.slice_to(buffer, 2, size);
            let visible = p.slice_to(visible, 3, size);
            let least = p.op("torch.Scalar", &[scores]);
            let least = p.bind("mask_value", least);
            let scores = p.op("Where", &[visible, scores, least]);
            let scores = p.bind("attn_weights", scores);
            let scores = p.add(scores, mask);
            let scores = p.bind("attn_weights", scores);
            let weights = p.softmax(scores);
            let weights = p.bind("attn_weights", weights);
            let weights = p.drop_out(weights, attention_drop);
            let weights = p.bind("attn_weights", weights);
            let y = p.op("MatMul", &[weights, v]);
            let y = p.bind("attn_output", y);
            // The weights are returned.
            (y, weights)
        });
        let (y, weights) = y;
        p.bind("attn_weights", weights);
        let y = p.bind("attn_output", y);
        let y = p.function(|p| {
            let y = p.permute(y, &[0, 2, 1, 3]);
            let y = p.op("torch.Contiguous", &[y]);
            let y = p.bind("tensor", y);
            p.reshape(y, &[0, 0, signed(width)])
        });
        let y = p.bind("attn_output", y);
        let y = p.linear("out_proj", y);
        let y = p.bind("attn_output", y);
        let y = p.dropout("resid_dropout", y, resid);
        (p.bind("attn_output", y), weights)
    };
    let x = m.program.module(base, |p| {
        let words = p.embedding("wte", tokens);
        let words = p.bind("inputs_embeds", words);
        let places = positions(p, tokens);
        let places = p.bind("position_ids", places);
        p.op("torch.PackedSequences", &[tokens]);
        let mask = causal_mask(p, tokens);
        let mask = p.bind("causal_mask", mask);
        let places = p.embedding("wpe", places);
        let places = p.bind("position_embeds", places);
        let x = p.add(words, places);
        let x = p.bind("hidden_states", x);
        let x = p.dropout("drop", x, embd);
        let mut x = p.bind("hidden_states", x);
        for layer in 0..layers {
            let (y, weights) = p.module(&format!("h.{layer}"), |p| {
                p.bind("residual", x);
                let y = p.layer_norm("ln_1", x);
                let y = p.bind("hidden_states", y);
                let (y, weights) =
                    p.module("attn", |p| p.module("attention", |p| attend(p, y, mask)));
                p.bind("attn_weights", weights);
                let y = p.bind("attn_output", y);
                let x = p.add(y, x);
                let x = p.bind("hidden_states", x);
                p.bind("residual", x);
                let y = p.layer_norm("ln_2", x);
                let y = p.bind("hidden_states", y);
                let y =
                    p.module("mlp", |p| feed_forward(p, ["c_fc", "act", "c_proj"], y, act, resid));
                let y = p.bind("feed_forward_hidden_states", y);
                let x = p.add(x, y);
                (p.bind("hidden_states", x), weights)
            });
            // `outputs = block(…)` holds the weights until the next block has returned.
            p.bind("outputs", weights);
            x = p.bind("hidden_states", y);
        }
        let x = p.layer_norm("ln_f", x);
        let x = p.bind("hidden_states", x);
        p.reshape(x, &[0, 0, signed(width)])
    });
    Ok(m.head("lm_head", x))
}
