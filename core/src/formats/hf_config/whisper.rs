//! Whisper: an encoder of sound, and a decoder of text.

use super::model::{Model, Task};
use super::parts::{Act, Attention, Implementation, causal_mask, rows};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use super::vision::{Window, convolution_1d};
use crate::error::Error;

/// Sizes of the model.
#[derive(Clone, Copy, Debug)]
struct Whisper {
    width: u64,
    bins: u64,
    sources: u64,
    targets: u64,
    vocab: u64,
    encoder: Side,
    decoder: Side,
    act: Act,
    drop: f64,
    act_drop: f64,
    attention_drop: f64,
    implementation: Implementation,
}

/// Sizes of the encoder, or of the decoder.
#[derive(Clone, Copy, Debug)]
struct Side {
    layers: u64,
    heads: u64,
    hidden: u64,
}

/// What attention reads besides its own input.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    /// States of the encoder.
    encoded: Option<Tensor>,
    mask: Option<Tensor>,
}

/// `WhisperForConditionalGeneration` of `modeling_whisper.py`.
pub(super) fn whisper(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    if m.task != Task::Seq2Seq {
        return Err(
            c.fault("architectures", "Whisper is known with the head of ForConditionalGeneration")
        );
    }
    if c.flag(&["apply_spec_augment"], false) {
        m.say(
            "assumed-augmentation",
            "`apply_spec_augment` masks the features in place and takes nothing of note: left out",
        );
    }
    let whisper = Whisper::of(c, m)?;
    let sound = m.numbers("input_features", &[whisper.bins, whisper.sources.saturating_mul(2)]);
    let labels = m.tokens("labels", whisper.targets);
    // Sinusoids that never change: `requires_grad_(False)`.
    m.frozen.push("model.encoder.embed_positions".to_owned());
    let p = &mut m.program;
    p.within("model.encoder", |p| whisper.new_encoder(p));
    p.within("model.decoder", |p| whisper.new_decoder(p));
    m.new_head(
        c,
        "proj_out",
        "model.decoder.embed_tokens.weight",
        [whisper.width, whisper.vocab],
        true,
    )?;
    let p = &mut m.program;
    let tokens = p.op("torch.ShiftRight", &[labels]);
    let tokens = p.bind("decoder_input_ids", tokens);
    let [x, encoded] = p.module("model", |p| {
        let encoded = p.module("encoder", |p| whisper.encode(p, sound));
        let encoded = p.bind("encoder_outputs", encoded);
        [p.module("decoder", |p| whisper.decode(p, tokens, encoded)), encoded]
    });
    let x = p.bind("outputs", x);
    let logits = p.linear("proj_out", x);
    m.returned.push(encoded);
    Ok(p.bind("lm_logits", logits))
}

impl Whisper {
    fn of(c: Settings<'_>, m: &Model) -> Result<Self, Error> {
        let width = c.count(&["d_model", "hidden_size"], 384)?;
        let side = |name: &str| -> Result<Side, Error> {
            let heads = c.count(&[&format!("{name}_attention_heads")], 6)?;
            c.divide(width, heads, "attention heads and d_model")?;
            Ok(Side {
                layers: c.layers(&[&format!("{name}_layers")], 4)?,
                heads,
                hidden: c.count(&[&format!("{name}_ffn_dim")], 1536)?,
            })
        };
        Ok(Self {
            width,
            bins: c.count(&["num_mel_bins"], 80)?,
            sources: c.count(&["max_source_positions"], 1500)?,
            targets: c.count(&["max_target_positions"], 448)?,
            vocab: c.count(&["vocab_size"], 51865)?,
            encoder: side("encoder")?,
            decoder: side("decoder")?,
            act: Act::of(c, &["activation_function"], Act::Gelu)?,
            drop: c.number(&["dropout"], 0.0),
            act_drop: c.number(&["activation_dropout"], 0.0),
            attention_drop: c.number(&["attention_dropout"], 0.0),
            implementation: m.implementation,
        })
    }

    fn new_encoder(&self, p: &mut Program) {
        for (name, channels) in [("conv1", self.bins), ("conv2", self.width)] {
            p.within(name, |p| {
                p.parameter("weight", &[self.width, channels, 3]);
                p.parameter("bias", &[self.width]);
            });
        }
        p.new_embedding("embed_positions", self.sources, self.width);
        self.new_layers(p, self.encoder, &["self_attn"]);
        p.new_norm("layer_norm", self.width, true);
    }

    fn new_decoder(&self, p: &mut Program) {
        p.new_embedding("embed_tokens", self.vocab, self.width);
        p.new_embedding("embed_positions", self.targets, self.width);
        self.new_layers(p, self.decoder, &["self_attn", "encoder_attn"]);
        p.new_norm("layer_norm", self.width, true);
    }

    fn new_layers(&self, p: &mut Program, side: Side, attentions: &[&str]) {
        for layer in 0..side.layers {
            p.within(&format!("layers.{layer}"), |p| {
                for name in attentions {
                    p.within(name, |p| {
                        p.new_linear("k_proj", self.width, self.width, false);
                        for name in ["v_proj", "q_proj", "out_proj"] {
                            p.new_linear(name, self.width, self.width, true);
                        }
                    });
                    p.new_norm(&format!("{name}_layer_norm"), self.width, true);
                }
                p.new_linear("fc1", self.width, side.hidden, true);
                p.new_linear("fc2", side.hidden, self.width, true);
                p.new_norm("final_layer_norm", self.width, true);
            });
        }
    }

    fn encode(&self, p: &mut Program, sound: Tensor) -> Tensor {
        let mut x = sound;
        for (name, stride) in [("conv1", 1), ("conv2", 2)] {
            let window = Window { kernel: 3, stride, padding: 1, groups: 1 };
            let y = p.module(name, |p| convolution_1d(p, x, &window));
            let y = p.op("Gelu", &[y]);
            x = p.bind("inputs_embeds", y);
        }
        let x = p.permute(x, &[0, 2, 1]);
        let x = p.bind("inputs_embeds", x);
        let every = p.op("torch.Arange", &[x]);
        let every = p.bind("all_positions", every);
        let places = p.embedding("embed_positions", every);
        let x = p.add(x, places);
        let x = p.bind("hidden_states", x);
        let x = p.drop_out(x, self.drop);
        let mut x = p.bind("hidden_states", x);
        for layer in 0..self.encoder.layers {
            let y = p.module(&format!("layers.{layer}"), |p| {
                let x = self.attended(p, "self_attn", x, self.encoder.heads, Reads::default());
                self.dense(p, x)
            });
            x = p.bind("hidden_states", y);
        }
        let x = p.layer_norm("layer_norm", x);
        p.bind("hidden_states", x)
    }

    fn decode(&self, p: &mut Program, tokens: Tensor, encoded: Tensor) -> Tensor {
        let words = p.embedding("embed_tokens", tokens);
        let words = p.bind("inputs_embeds", words);
        let range = p.op("torch.Arange", &[tokens]);
        let zero = p.int(0);
        let range = p.add(range, zero);
        let range = p.bind("position_ids", range);
        let range = p.unsqueeze(range, 0);
        let (batch, one) = (p.size(tokens, 0), p.ints(&[1]));
        let times = p.concat(&[batch, one], 0);
        let places = p.op("Tile", &[range, times]);
        let places = p.bind("position_ids", places);
        let places = p.module("embed_positions", |p| {
            let weight = p.get("weight");
            p.op("torch.TableRows", &[weight, places])
        });
        let places = p.bind("positions", places);
        let x = p.add(words, places);
        let x = p.bind("hidden_states", x);
        let x = p.drop_out(x, self.drop);
        let mut x = p.bind("hidden_states", x);
        p.op("torch.PackedSequences", &[tokens]);
        let mask = (self.implementation == Implementation::Eager).then(|| {
            let mask = causal_mask(p, tokens);
            p.bind("causal_mask", mask)
        });
        let own = Reads { encoded: None, mask };
        let cross = Reads { encoded: Some(encoded), mask: None };
        for layer in 0..self.decoder.layers {
            let y = p.module(&format!("layers.{layer}"), |p| {
                let x = self.attended(p, "self_attn", x, self.decoder.heads, own);
                let x = self.attended(p, "encoder_attn", x, self.decoder.heads, cross);
                self.dense(p, x)
            });
            x = p.bind("hidden_states", y);
        }
        let x = p.layer_norm("layer_norm", x);
        p.bind("hidden_states", x)
    }

    /// A norm, attention, and their residual sum.
    fn attended(&self, p: &mut Program, name: &str, x: Tensor, heads: u64, reads: Reads) -> Tensor {
        p.bind("residual", x);
        let y = p.layer_norm(&format!("{name}_layer_norm"), x);
        let y = p.bind("hidden_states", y);
        let y = p.module(name, |p| self.attend(p, y, heads, reads));
        let y = p.bind("hidden_states", y);
        let y = p.drop_out(y, self.drop);
        let y = p.bind("hidden_states", y);
        let x = p.add(x, y);
        p.bind("hidden_states", x)
    }

    fn attend(&self, p: &mut Program, x: Tensor, heads: u64, reads: Reads) -> Tensor {
        let attention = Attention {
            implementation: self.implementation,
            heads,
            groups: 1,
            dropout: self.attention_drop,
            contiguous: true,
            softcap: false,
        };
        let each = self.width.checked_div(heads).unwrap_or(1);
        let by_head = |p: &mut Program, x: Tensor| {
            let x = p.reshape(x, &[0, 0, signed(heads), signed(each)]);
            let x = p.permute(x, &[0, 2, 1, 3]);
            p.op("torch.Contiguous", &[x])
        };
        let q = p.linear("q_proj", x);
        let q = p.scale(q);
        let q = by_head(p, q);
        p.bind("query_states", q);
        let source = reads.encoded.unwrap_or(x);
        let k = p.linear("k_proj", source);
        let k = by_head(p, k);
        p.bind("key_states", k);
        let v = p.linear("v_proj", source);
        let v = by_head(p, v);
        p.bind("value_states", v);
        let y = attention.run(p, [q, k, v], reads.mask);
        let y = p.bind("attn_output", y);
        let y = rows(p, y, self.width);
        let y = p.bind("attn_output", y);
        let y = p.linear("out_proj", y);
        p.bind("attn_output", y)
    }

    /// A norm, the layer's two products, and their residual sum.
    fn dense(&self, p: &mut Program, x: Tensor) -> Tensor {
        p.bind("residual", x);
        let h = p.layer_norm("final_layer_norm", x);
        let h = p.bind("hidden_states", h);
        let h = p.linear("fc1", h);
        let h = self.act.call(p, "activation_fn", h);
        let h = p.bind("hidden_states", h);
        let h = p.drop_out(h, self.act_drop);
        let h = p.bind("hidden_states", h);
        let h = p.linear("fc2", h);
        let h = p.bind("hidden_states", h);
        let h = p.drop_out(h, self.drop);
        let h = p.bind("hidden_states", h);
        let x = p.add(x, h);
        p.bind("hidden_states", x)
    }
}
