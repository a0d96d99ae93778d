//! Encoders with a decoder: T5 and BART.
#![expect(
    clippy::too_many_lines,
    reason = "a family is read beside the file of transformers that it follows, from top to end"
)]

use super::model::{Model, Task};
use super::parts::{Act, Attention, Implementation, by_head, causal_mask, rms_norm, rows};
use super::program::{Program, Tensor};
use super::settings::Settings;
use crate::error::Error;
use crate::graph::Attribute;

/// Sizes of T5.
#[derive(Clone, Copy, Debug)]
struct T5 {
    width: u64,
    inner: u64,
    head_width: u64,
    hidden: u64,
    layers: [u64; 2],
    buckets: u64,
    act: Act,
    gated: bool,
    drop: f64,
    attention: Attention,
}

/// `modeling_t5.py`.
pub(super) fn t5(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["d_model", "hidden_size"], 512)?;
    let heads = c.count(&["num_heads", "num_attention_heads"], 8)?;
    let head_width = c.count(&["d_kv"], 64)?;
    let layers = c.layers(&["num_layers", "num_hidden_layers"], 6)?;
    let vocab = c.count(&["vocab_size"], 32128)?;
    let stated = c.word(&["feed_forward_proj"]).unwrap_or("relu");
    let (gated, act) = match stated {
        "relu" => (false, Act::Relu),
        "gelu" => (false, Act::Gelu),
        "gated-gelu" => (true, Act::NewGelu),
        "gated-silu" => (true, Act::Silu),
        _ => {
            return Err(
                c.fault("feed_forward_proj", "known are relu, gelu, gated-gelu, gated-silu")
            );
        }
    };
    let drop = c.number(&["dropout_rate"], 0.1);
    let t5 = T5 {
        width,
        inner: heads.saturating_mul(head_width),
        head_width,
        hidden: c.count(&["d_ff"], 2048)?,
        layers: [layers, c.layers(&["num_decoder_layers"], layers)?],
        buckets: c.count(&["relative_attention_num_buckets"], 32)?,
        act,
        gated,
        drop,
        attention: Attention {
            implementation: m.implementation,
            heads,
            groups: 1,
            dropout: drop,
            contiguous: true,
            softcap: false,
        },
    };
    let tokens = m.tokens("input_ids", 512);
    if m.task != Task::Seq2Seq {
        return Err(
            c.fault("architectures", "T5 is known with the head of ForConditionalGeneration")
        );
    }
    let p = &mut m.program;
    p.new_embedding("shared", vocab, width);
    for (name, layers) in ["encoder", "decoder"].into_iter().zip(t5.layers) {
        p.tie(&format!("{name}.embed_tokens.weight"), "shared.weight");
        p.within(name, |p| t5.new_stack(p, layers, name == "decoder"));
    }
    m.new_head(c, "lm_head", "shared.weight", [width, vocab], true)?;
    let p = &mut m.program;
    let encoded = p.module("encoder", |p| t5.stack(p, tokens, None));
    let x = p.bind("hidden_states", encoded);
    let shifted = p.op("torch.ShiftRight", &[tokens]);
    let shifted = p.bind("decoder_input_ids", shifted);
    let x = p.module("decoder", |p| t5.stack(p, shifted, Some(x)));
    let mut x = p.bind("sequence_output", x);
    if c.flag(&["scale_decoder_outputs"], c.flag(&["tie_word_embeddings"], true)) {
        x = p.scale(x);
        x = p.bind("sequence_output", x);
    }
    let logits = p.linear("lm_head", x);
    let logits = p.bind("lm_logits", logits);
    m.returned.push(encoded);
    Ok(logits)
}

impl T5 {
    fn new_stack(&self, p: &mut Program, layers: u64, decodes: bool) {
        let attention = |p: &mut Program, name: &str, biased: bool| {
            p.within(name, |p| {
                for name in ["q", "k", "v"] {
                    p.new_linear(name, self.width, self.inner, false);
                }
                p.new_linear("o", self.inner, self.width, false);
                if biased {
                    let heads = self.attention.heads;
                    p.new_embedding("relative_attention_bias", self.buckets, heads);
                }
            });
            p.new_norm("layer_norm", self.width, false);
        };
        for layer in 0..layers {
            p.within(&format!("block.{layer}"), |p| {
                p.within("layer.0", |p| attention(p, "SelfAttention", layer == 0));
                if decodes {
                    p.within("layer.1", |p| attention(p, "EncDecAttention", false));
                }
                p.within(if decodes { "layer.2" } else { "layer.1" }, |p| {
                    p.within("DenseReluDense", |p| {
                        let inner: &[&str] = if self.gated { &["wi_0", "wi_1"] } else { &["wi"] };
                        for name in inner {
                            p.new_linear(name, self.width, self.hidden, false);
                        }
                        p.new_linear("wo", self.hidden, self.width, false);
                    });
                    p.new_norm("layer_norm", self.width, false);
                });
            });
        }
        p.new_norm("final_layer_norm", self.width, false);
    }

    fn stack(&self, p: &mut Program, tokens: Tensor, encoded: Option<Tensor>) -> Tensor {
        let words = p.embedding("embed_tokens", tokens);
        let words = p.bind("inputs_embeds", words);
        let eager = self.attention.implementation == Implementation::Eager;
        let mask = (eager && encoded.is_some()).then(|| {
            let mask = causal_mask(p, tokens);
            p.bind("attention_mask", mask)
        });
        let x = p.dropout("dropout", words, self.drop);
        let mut x = p.bind("hidden_states", x);
        let [encoder_layers, decoder_layers] = self.layers;
        let layers = if encoded.is_some() { decoder_layers } else { encoder_layers };
        let (mut own_bias, mut cross_bias) = (None, None);
        for layer in 0..layers {
            let y = p.module(&format!("block.{layer}"), |p| {
                let y = p.module("layer.0", |p| {
                    self.layer(
                        p,
                        "SelfAttention",
                        x,
                        None,
                        tokens,
                        &mut own_bias,
                        (mask, encoded.is_some()),
                    )
                });
                let mut y = p.bind("hidden_states", y);
                if let Some(encoded) = encoded {
                    y = p.module("layer.1", |p| {
                        self.layer(
                            p,
                            "EncDecAttention",
                            y,
                            Some(encoded),
                            tokens,
                            &mut cross_bias,
                            (None, false),
                        )
                    });
                    y = p.bind("hidden_states", y);
                }
                let last = if encoded.is_some() { "layer.2" } else { "layer.1" };
                let y = p.module(last, |p| self.dense(p, y));
                p.bind("hidden_states", y)
            });
            x = p.bind("hidden_states", y);
            if let Some(bias) = own_bias {
                p.bind("position_bias", bias);
            }
            if let Some(bias) = cross_bias {
                p.bind("encoder_decoder_position_bias", bias);
            }
        }
        let x = rms_norm(p, "final_layer_norm", x);
        let x = p.bind("hidden_states", x);
        let x = p.dropout("dropout", x, self.drop);
        p.bind("hidden_states", x)
    }

    #[expect(clippy::too_many_arguments, reason = "what `T5Block` gives to a layer")]
    fn layer(
        &self,
        p: &mut Program,
        name: &str,
        x: Tensor,
        encoded: Option<Tensor>,
        tokens: Tensor,
        bias: &mut Option<Tensor>,
        (mask, causal): (Option<Tensor>, bool),
    ) -> Tensor {
        let normed = rms_norm(p, "layer_norm", x);
        let normed = p.bind("normed_hidden_states", normed);
        let y = p.module(name, |p| {
            let heads = self.attention.heads;
            let q = p.linear("q", normed);
            let q = by_head(p, q, heads, self.head_width);
            p.bind("query_states", q);
            let source = encoded.unwrap_or(normed);
            let k = p.linear("k", source);
            let k = by_head(p, k, heads, self.head_width);
            p.bind("key_states", k);
            let v = p.linear("v", source);
            let v = by_head(p, v, heads, self.head_width);
            p.bind("value_states", v);
            let position_bias = bias.unwrap_or_else(|| match encoded {
                Some(_) => {
                    let [zeros] = p.run(
                        "torch.PositionBias",
                        &[tokens],
                        &[("heads", Attribute::Int(super::program::signed(heads)))],
                    );
                    zeros
                }
                None => Self::computed_bias(p, tokens, !causal),
            });
            *bias = Some(position_bias);
            p.bind("position_bias", position_bias);
            let y = self.attended(p, [q, k, v], position_bias, mask, causal);
            let y = p.bind("attn_output", y);
            let y = rows(p, y, self.inner);
            let y = p.bind("attn_output", y);
            let y = p.linear("o", y);
            p.bind("attn_output", y)
        });
        let y = p.bind("attention_output", y);
        let dropped = p.dropout("dropout", y, self.drop);
        let y = p.add(x, dropped);
        p.bind("attention_output", y)
    }

    /// `attention_interface` with a bias of positions.
    fn attended(
        &self,
        p: &mut Program,
        qkv: [Tensor; 3],
        bias: Tensor,
        mask: Option<Tensor>,
        causal: bool,
    ) -> Tensor {
        if self.attention.implementation == Implementation::Eager {
            return self.attention.run_with(p, qkv, [Some(bias), mask]);
        }
        p.function(|p| {
            let mask = p.function(|p| {
                let merged = if causal {
                    let [visible] = p.run("torch.CausalPairs", &[bias], &[]);
                    let visible = p.bind("causal_mask", visible);
                    let least = p.number();
                    let merged = p.op("Where", &[visible, bias, least]);
                    p.bind("position_bias_mask", merged)
                } else {
                    bias
                };
                p.op("torch.Contiguous", &[merged])
            });
            p.bind("attention_mask", mask);
            self.attention.run(p, qkv, Some(mask))
        })
    }

    /// `T5Attention.compute_bias`.
    fn computed_bias(p: &mut Program, tokens: Tensor, both_ways: bool) -> Tensor {
        p.function(|p| {
            let context = p.op("torch.Arange", &[tokens]);
            let context = p.unsqueeze(context, 1);
            let zero = p.int(0);
            let context = p.add(context, zero);
            p.bind("context_position", context);
            let memory = p.op("torch.Arange", &[tokens]);
            let memory = p.unsqueeze(memory, 0);
            p.bind("memory_position", memory);
            let relative = p.op("Sub", &[memory, context]);
            let relative = p.bind("relative_position", relative);
            let bucket = p.function(|p| buckets(p, relative, both_ways));
            let bucket = p.bind("relative_position_bucket", bucket);
            let values = p.embedding("relative_attention_bias", bucket);
            let values = p.bind("values", values);
            let values = p.permute(values, &[2, 0, 1]);
            p.unsqueeze(values, 0)
        })
    }

    fn dense(&self, p: &mut Program, x: Tensor) -> Tensor {
        let y = rms_norm(p, "layer_norm", x);
        let y = p.bind("forwarded_states", y);
        let y = p.module("DenseReluDense", |p| {
            let h = if self.gated {
                let gate = p.linear("wi_0", y);
                let gate = self.act.call(p, "act", gate);
                let gate = p.bind("hidden_gelu", gate);
                let linear = p.linear("wi_1", y);
                let linear = p.bind("hidden_linear", linear);
                p.mul(gate, linear)
            } else {
                let h = p.linear("wi", y);
                let h = p.bind("hidden_states", h);
                self.act.call(p, "act", h)
            };
            let h = p.bind("hidden_states", h);
            let h = p.dropout("dropout", h, self.drop);
            let h = p.bind("hidden_states", h);
            let h = p.linear("wo", h);
            p.bind("hidden_states", h)
        });
        let y = p.bind("forwarded_states", y);
        let y = p.dropout("dropout", y, self.drop);
        let y = p.add(x, y);
        p.bind("hidden_states", y)
    }
}

/// `_relative_position_bucket`.
fn buckets(p: &mut Program, relative: Tensor, both_ways: bool) -> Tensor {
    let (zero, number) = (p.int(0), p.int(8));
    let mut before = None;
    let distance = if both_ways {
        let later = p.op("Greater", &[relative, zero]);
        let later = p.with("Cast", &[later], "to", 7);
        let later = p.mul(later, number);
        let later = p.add(later, zero);
        before = Some(p.bind("relative_buckets", later));
        p.op("Abs", &[relative])
    } else {
        let zeros = p.mul(relative, zero);
        let least = p.op("Min", &[relative, zeros]);
        p.op("Neg", &[least])
    };
    let distance = p.bind("relative_position", distance);
    let small = p.op("Less", &[distance, number]);
    let small = p.bind("is_small", small);
    let fraction = p.float(distance);
    let half = p.number();
    let fraction = p.op("Div", &[fraction, half]);
    let log = p.op("Log", &[fraction]);
    let log = p.op("Div", &[log, half]);
    let log = p.op("Mul", &[log, half]);
    let large = p.with("Cast", &[log], "to", 7);
    let large = p.add(large, number);
    let large = p.bind("relative_position_if_large", large);
    let full = p.mul(large, zero);
    let large = p.op("Min", &[large, full]);
    let large = p.bind("relative_position_if_large", large);
    let chosen = p.op("Where", &[small, distance, large]);
    match before {
        Some(before) => p.with("Add", &[before, chosen], "in_place", 1),
        None => p.add(chosen, zero),
    }
}

/// Sizes of BART.
#[derive(Clone, Copy, Debug)]
struct Bart {
    width: u64,
    act: Act,
    drop: f64,
    act_drop: f64,
    implementation: Implementation,
    attention_drop: f64,
}

/// `modeling_bart.py`.
pub(super) fn bart(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["d_model", "hidden_size"], 1024)?;
    let vocab = c.count(&["vocab_size"], 50265)?;
    let length = c.count(&["max_position_embeddings"], 1024)?;
    let bart = Bart {
        width,
        act: Act::of(c, &["activation_function"], Act::Gelu)?,
        drop: c.number(&["dropout"], 0.1),
        act_drop: c.number(&["activation_dropout"], 0.0),
        implementation: m.implementation,
        attention_drop: c.number(&["attention_dropout"], 0.0),
    };
    if m.task != Task::Seq2Seq {
        return Err(
            c.fault("architectures", "BART is known with the head of ForConditionalGeneration")
        );
    }
    let mut sides = Vec::new();
    for side in ["encoder", "decoder"] {
        let layers = c.layers(&[&format!("{side}_layers")], 12)?;
        let heads = c.count(&[&format!("{side}_attention_heads")], 16)?;
        let hidden = c.count(&[&format!("{side}_ffn_dim")], 4096)?;
        c.divide(width, heads, "attention heads and d_model")?;
        sides.push((side, layers, heads, hidden));
    }
    let tokens = m.tokens("input_ids", length);
    let p = &mut m.program;
    p.buffer("final_logits_bias", crate::tensor::DType::Float32, &[1, vocab]);
    p.within("model", |p| {
        p.new_embedding("shared", vocab, width);
        for &(side, layers, _, hidden) in &sides {
            p.within(side, |p| {
                p.new_embedding("embed_positions", length.saturating_add(2), width);
                for layer in 0..layers {
                    p.within(&format!("layers.{layer}"), |p| {
                        bart.new_layer(p, hidden, side == "decoder");
                    });
                }
                p.new_norm("layernorm_embedding", width, true);
            });
            p.tie(&format!("{side}.embed_tokens.weight"), "model.shared.weight");
        }
    });
    m.new_head(c, "lm_head", "model.shared.weight", [width, vocab], true)?;
    let p = &mut m.program;
    let shifted = p.op("torch.ShiftRight", &[tokens]);
    let shifted = p.bind("decoder_input_ids", shifted);
    let mut returned = None;
    let x = p.module("model", |p| {
        let mut encoded = None;
        for &(side, layers, heads, _) in &sides {
            let read = if encoded.is_some() { shifted } else { tokens };
            let y = p.module(side, |p| bart.side(p, read, encoded, layers, heads));
            returned = returned.or(Some(y));
            encoded = Some(
                p.bind(if side == "encoder" { "encoder_outputs" } else { "decoder_outputs" }, y),
            );
        }
        encoded.unwrap_or(tokens)
    });
    let x = p.bind("outputs", x);
    let logits = p.linear("lm_head", x);
    let logits = p.bind("lm_logits", logits);
    let bias = p.get("final_logits_bias");
    let logits = p.add(logits, bias);
    let logits = p.bind("lm_logits", logits);
    m.returned.extend(returned);
    Ok(logits)
}

impl Bart {
    fn new_layer(&self, p: &mut Program, hidden: u64, decodes: bool) {
        let attention = |p: &mut Program, name: &str| {
            p.within(name, |p| {
                for name in ["k_proj", "v_proj", "q_proj", "out_proj"] {
                    p.new_linear(name, self.width, self.width, true);
                }
            });
            p.new_norm(&format!("{name}_layer_norm"), self.width, true);
        };
        attention(p, "self_attn");
        if decodes {
            attention(p, "encoder_attn");
        }
        p.new_linear("fc1", self.width, hidden, true);
        p.new_linear("fc2", hidden, self.width, true);
        p.new_norm("final_layer_norm", self.width, true);
    }

    fn side(
        &self,
        p: &mut Program,
        tokens: Tensor,
        encoded: Option<Tensor>,
        layers: u64,
        heads: u64,
    ) -> Tensor {
        let words = p.module("embed_tokens", |p| {
            let weight = p.get("weight");
            let words = p.with("Gather", &[weight, tokens], "axis", 0);
            p.scale(words)
        });
        let words = p.bind("inputs_embeds", words);
        let mut mask = None;
        let places = if encoded.is_none() {
            p.module("embed_positions", |p| {
                let range = p.op("torch.Arange", &[tokens]);
                let shape = p.shape_of(tokens);
                let range = p.op("Expand", &[range, shape]);
                let range = p.bind("position_ids", range);
                let two = p.int(2);
                let range = p.add(range, two);
                let weight = p.get("weight");
                p.with("Gather", &[weight, range], "axis", 0)
            })
        } else {
            let range = p.op("torch.Arange", &[tokens]);
            let zero = p.int(0);
            let range = p.add(range, zero);
            let range = p.bind("position_ids", range);
            let ones = p.op("torch.Ones", &[tokens]);
            p.bind("attention_mask", ones);
            p.op("torch.PaddingTest", &[ones]);
            if self.implementation == Implementation::Eager {
                let made = causal_mask(p, tokens);
                mask = Some(p.bind("attention_mask", made));
            } else {
                p.unbind("attention_mask");
            }
            p.module("embed_positions", |p| {
                let range = p.unsqueeze(range, 0);
                let two = p.int(2);
                let range = p.add(range, two);
                let weight = p.get("weight");
                p.with("Gather", &[weight, range], "axis", 0)
            })
        };
        let places = p.bind("embed_pos", places);
        let x = p.add(words, places);
        let x = p.bind("hidden_states", x);
        let x = p.layer_norm("layernorm_embedding", x);
        let x = p.bind("hidden_states", x);
        let x = p.drop_out(x, self.drop);
        let mut x = p.bind("hidden_states", x);
        for layer in 0..layers {
            let y = p.module(&format!("layers.{layer}"), |p| {
                let mut y = self.attended(p, "self_attn", x, x, heads, mask);
                if let Some(encoded) = encoded {
                    y = self.attended(p, "encoder_attn", y, encoded, heads, None);
                }
                p.bind("residual", y);
                let h = p.linear("fc1", y);
                let h = self.act.call(p, "activation_fn", h);
                let h = p.bind("hidden_states", h);
                let h = p.drop_out(h, self.act_drop);
                let h = p.bind("hidden_states", h);
                let h = p.linear("fc2", h);
                let h = p.bind("hidden_states", h);
                let h = p.drop_out(h, self.drop);
                let h = p.bind("hidden_states", h);
                let h = p.add(y, h);
                let h = p.bind("hidden_states", h);
                let h = p.layer_norm("final_layer_norm", h);
                p.bind("hidden_states", h)
            });
            x = p.bind("hidden_states", y);
        }
        x
    }

    /// Attention, its residual sum and the norm behind that.
    #[expect(clippy::too_many_arguments, reason = "what a layer of BART gives to it")]
    fn attended(
        &self,
        p: &mut Program,
        name: &str,
        x: Tensor,
        source: Tensor,
        heads: u64,
        mask: Option<Tensor>,
    ) -> Tensor {
        let attention = Attention {
            implementation: self.implementation,
            heads,
            groups: 1,
            dropout: self.attention_drop,
            contiguous: true,
            softcap: false,
        };
        let head_width = self.width.checked_div(heads).unwrap_or(1);
        p.bind("residual", x);
        let y = p.module(name, |p| {
            let q = p.linear("q_proj", x);
            let q = by_head(p, q, heads, head_width);
            p.bind("query_states", q);
            let k = p.linear("k_proj", source);
            let k = p.bind("key_states", k);
            let v = p.linear("v_proj", source);
            let v = p.bind("value_states", v);
            let k = by_head(p, k, heads, head_width);
            p.bind("key_states", k);
            let v = by_head(p, v, heads, head_width);
            p.bind("value_states", v);
            let y = attention.run(p, [q, k, v], mask);
            let y = p.bind("attn_output", y);
            let y = rows(p, y, self.width);
            let y = p.bind("attn_output", y);
            let y = p.linear("out_proj", y);
            p.bind("attn_output", y)
        });
        let y = p.bind("hidden_states", y);
        let y = p.drop_out(y, self.drop);
        let y = p.bind("hidden_states", y);
        let y = p.add(x, y);
        let y = p.bind("hidden_states", y);
        let y = p.layer_norm(&format!("{name}_layer_norm"), y);
        p.bind("hidden_states", y)
    }
}
