//! Llama, and all that is built as it.

use super::experts::Experts;
use super::model::{Model, Task};
use super::parts::{
    Act, Attention, Implementation, by_head, causal_mask, new_rotary, offset_rms_norm, positions,
    rms_norm, rotary, rotate, rows,
};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::tensor::DType;

/// Kinds of layers that have rotary tables of their own, in the order of their registration.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

/// What tells Llama's relatives from each other.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one difference")]
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
    /// Whether a layer has several feed-forward parts, of which a token passes through a few.
    mixes: bool,
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
    mixes: false,
};

/// `modeling_llama.py`.
pub(super) fn llama(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Relative { bias: [c.flag(&["attention_bias"], false); 2], ..USUAL }.program(c, m)
}

/// `modeling_mistral.py`.
pub(super) fn mistral(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Relative { kv_heads: 8, hidden: 14336, length: 131_072, ..USUAL }.program(c, m)
}

/// `modeling_mixtral.py`.
pub(super) fn mixtral(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Relative { kv_heads: 8, hidden: 14336, length: 131_072, mixes: true, ..USUAL }.program(c, m)
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
    if !m.is_asked {
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
        ..USUAL
    };
    relative.program(c, m)
}

impl Relative {
    fn program(self, c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
        Llama::of(self, c, m)?.program(c, m)
    }
}

/// A relative with its sizes.
#[derive(Debug)]
struct Llama {
    kin: Relative,
    width: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    head_width: u64,
    hidden: u64,
    vocab: u64,
    length: u64,
    act: Act,
    mlp_bias: bool,
    attention: Attention,
    experts: Option<Experts>,
    caps_logits: bool,
}

/// What the layers share: masks and rotary tables of layers without a window and of those with one.
#[derive(Clone, Copy)]
struct Shared {
    masks: [Option<Tensor>; 2],
    tables: [[Tensor; 2]; 2],
}

impl Llama {
    fn of(kin: Relative, c: Settings<'_>, m: &mut Model) -> Result<Self, Error> {
        let width = c.count(&["hidden_size"], kin.width)?;
        let heads = c.count(&["num_attention_heads"], kin.heads)?;
        let kv_default = if kin.kv_heads == 0 { heads } else { kin.kv_heads };
        let kv_heads = c.count(&["num_key_value_heads"], kv_default)?;
        let head_width = match c.maybe(&["head_dim"])? {
            Some(stated) => stated,
            None if kin.head_width > 0 => kin.head_width,
            None => c.divide(width, heads, "num_attention_heads and hidden_size")?,
        };
        let usual = if kin.gemma.is_some() { Act::Gelu } else { Act::Silu };
        let act = match Act::of(c, &["hidden_activation", "hidden_act"], usual)? {
            // Gemma's first configurations name the exact function and mean that with tanh.
            Act::NewGelu if kin.gemma.is_some() => Act::Gelu,
            act => act,
        };
        let (caps_scores, caps_logits) = match kin.gemma {
            Some(Gemma::Two) => (true, true),
            Some(Gemma::Three) => {
                (c.has("attn_logit_softcapping"), c.has("final_logit_softcapping"))
            }
            _ => (false, false),
        };
        say_windows(c, m)?;
        let hidden = c.count(&["intermediate_size"], kin.hidden)?;
        let experts = if kin.mixes { Some(Experts::of(c, m, [width, hidden], act)?) } else { None };
        Ok(Self {
            kin,
            width,
            layers: c.layers(&["num_hidden_layers"], kin.layers)?,
            heads,
            kv_heads,
            head_width,
            hidden,
            vocab: c.count(&["vocab_size"], kin.vocab)?,
            length: c.count(&["max_position_embeddings"], kin.length)?,
            act,
            mlp_bias: c.flag(&["mlp_bias"], false),
            attention: Attention {
                implementation: m.implementation,
                heads,
                groups: c.divide(heads, kv_heads, "num_key_value_heads and num_attention_heads")?,
                dropout: c.number(&["attention_dropout"], 0.0),
                contiguous: true,
                softcap: caps_scores,
            },
            experts,
            caps_logits,
        })
    }

    fn program(&self, c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
        let tokens = m.tokens("input_ids", self.length);
        let base = m.base("model");
        m.program.within(base, |p| self.register(p));
        let tied = self.kin.tied;
        m.new_head(c, "lm_head", "model.embed_tokens.weight", [self.width, self.vocab], tied)?;
        let x = m.program.module(base, |p| {
            let words = embed(p, tokens);
            let shared = self.shared(p, tokens);
            let mut x = p.bind("hidden_states", words);
            for layer in 0..self.layers {
                let y = p.module(&format!("layers.{layer}"), |p| {
                    self.layer(p, x, shared, self.kin.is_full(layer))
                });
                x = p.bind("hidden_states", y);
            }
            let x = self.norm(p, "norm", x);
            p.bind("hidden_states", x)
        });
        let logits = m.head("lm_head", x);
        Ok(if self.caps_logits && m.task == Task::CausalLm {
            cap(&mut m.program, logits)
        } else {
            logits
        })
    }

    /// Whether norms stand behind both parts of a layer too.
    const fn sandwich(&self) -> bool {
        matches!(self.kin.gemma, Some(Gemma::Two | Gemma::Three))
    }

    fn norm(&self, p: &mut Program, name: &str, x: Tensor) -> Tensor {
        if self.kin.gemma.is_some() { offset_rms_norm(p, name, x) } else { rms_norm(p, name, x) }
    }

    fn register(&self, p: &mut Program) {
        p.within("embed_tokens", |p| {
            p.parameter("weight", &[self.vocab, self.width]);
            if self.kin.gemma.is_some() {
                p.buffer("embed_scale", DType::Float32, &[]);
            }
        });
        for layer in 0..self.layers {
            p.within(&format!("layers.{layer}"), |p| self.new_layer(p));
        }
        p.new_norm("norm", self.width, false);
        if self.kin.gemma == Some(Gemma::Three) {
            p.within("rotary_emb", |p| {
                for name in KINDS.iter().flat_map(|kind| {
                    [format!("{kind}_inv_freq"), format!("{kind}_original_inv_freq")]
                }) {
                    p.buffer(&name, DType::Float32, &[self.head_width.div_euclid(2)]);
                }
            });
        } else {
            new_rotary(p, "rotary_emb", self.head_width);
        }
    }

    fn new_layer(&self, p: &mut Program) {
        let width = self.width;
        let [qkv_bias, o_bias] = self.kin.bias;
        let q_width = self.heads.saturating_mul(self.head_width);
        let kv_width = self.kv_heads.saturating_mul(self.head_width);
        p.within("self_attn", |p| {
            p.new_linear("q_proj", width, q_width, qkv_bias);
            p.new_linear("k_proj", width, kv_width, qkv_bias);
            p.new_linear("v_proj", width, kv_width, qkv_bias);
            p.new_linear("o_proj", q_width, width, o_bias);
            if self.kin.qk_norm {
                p.new_norm("q_norm", self.head_width, false);
                p.new_norm("k_norm", self.head_width, false);
            }
        });
        p.within("mlp", |p| {
            if let Some(experts) = &self.experts {
                return experts.register(p);
            }
            p.new_linear("gate_proj", width, self.hidden, self.mlp_bias);
            p.new_linear("up_proj", width, self.hidden, self.mlp_bias);
            p.new_linear("down_proj", self.hidden, width, self.mlp_bias);
        });
        p.new_norm("input_layernorm", width, false);
        p.new_norm("post_attention_layernorm", width, false);
        if self.sandwich() {
            p.new_norm("pre_feedforward_layernorm", width, false);
            p.new_norm("post_feedforward_layernorm", width, false);
        }
    }

    fn shared(&self, p: &mut Program, tokens: Tensor) -> Shared {
        let places = positions(p, tokens);
        let places = p.bind("position_ids", places);
        p.op("torch.PackedSequences", &[tokens]);
        let eager = self.attention.implementation == Implementation::Eager;
        let mask = eager.then(|| {
            let mask = causal_mask(p, tokens);
            p.bind("causal_mask", mask)
        });
        let mut masks = [mask; 2];
        if self.sandwich() {
            // The mask of windows is made beside the other.
            p.op("torch.PackedSequences", &[tokens]);
            if eager {
                let windowed = causal_mask(p, tokens);
                masks = [mask, Some(p.bind("sliding_mask", windowed))];
            }
        }
        p.bind("hidden_states", places);
        let mut tables = [[places; 2]; 2];
        if self.kin.gemma == Some(Gemma::Three) {
            for (slot, kind) in tables.iter_mut().zip(KINDS) {
                *slot = rotary(p, "rotary_emb", &format!("{kind}_inv_freq"), places);
            }
            for (name, table) in
                ["cos_1", "sin_1", "cos_2", "sin_2"].into_iter().zip(tables.iter().flatten())
            {
                p.bind(name, *table);
            }
        } else {
            let [cos, sin] = rotary(p, "rotary_emb", "inv_freq", places);
            tables = [[p.bind("cos", cos), p.bind("sin", sin)]; 2];
        }
        Shared { masks, tables }
    }

    fn layer(&self, p: &mut Program, x: Tensor, shared: Shared, is_full: bool) -> Tensor {
        let ([full_mask, window_mask], [full, windowed]) = (shared.masks, shared.tables);
        let (mask, tables) = if is_full { (full_mask, full) } else { (window_mask, windowed) };
        p.bind("residual", x);
        let y = self.norm(p, "input_layernorm", x);
        let y = p.bind("hidden_states", y);
        let y = p.module("self_attn", |p| self.attend(p, y, mask, tables));
        let mut y = p.bind("hidden_states", y);
        if self.sandwich() {
            y = self.norm(p, "post_attention_layernorm", y);
            y = p.bind("hidden_states", y);
        }
        let x = p.add(x, y);
        let x = p.bind("hidden_states", x);
        p.bind("residual", x);
        let before =
            if self.sandwich() { "pre_feedforward_layernorm" } else { "post_attention_layernorm" };
        let y = self.norm(p, before, x);
        let y = p.bind("hidden_states", y);
        let y = p.module("mlp", |p| self.feed_forward(p, y));
        let mut y = p.bind("hidden_states", y);
        if self.sandwich() {
            y = self.norm(p, "post_feedforward_layernorm", y);
            y = p.bind("hidden_states", y);
        }
        let x = p.add(x, y);
        p.bind("hidden_states", x)
    }

    fn attend(
        &self,
        p: &mut Program,
        x: Tensor,
        mask: Option<Tensor>,
        tables: [Tensor; 2],
    ) -> Tensor {
        // Gemma's norms stand behind all projections, Qwen's each behind its own.
        let late = self.kin.gemma.is_some();
        let project = |p: &mut Program, name: &str, norm: &str, heads| {
            let y = p.linear(name, x);
            if !self.kin.qk_norm || late || norm.is_empty() {
                return by_head(p, y, heads, self.head_width);
            }
            let y = p.reshape(y, &[0, 0, signed(heads), signed(self.head_width)]);
            let y = rms_norm(p, norm, y);
            p.permute(y, &[0, 2, 1, 3])
        };
        let q = project(p, "q_proj", "q_norm", self.heads);
        let mut q = p.bind("query_states", q);
        let k = project(p, "k_proj", "k_norm", self.kv_heads);
        let mut k = p.bind("key_states", k);
        let v = project(p, "v_proj", "", self.kv_heads);
        p.bind("value_states", v);
        if self.kin.qk_norm && late {
            q = self.norm(p, "q_norm", q);
            p.bind("query_states", q);
            k = self.norm(p, "k_norm", k);
            p.bind("key_states", k);
        }
        let [q, k] = rotate(p, [q, k], tables, self.head_width);
        p.bind("query_states", q);
        p.bind("key_states", k);
        let y = self.attention.run(p, [q, k, v], mask);
        let y = p.bind("attn_output", y);
        let y = rows(p, y, self.heads.saturating_mul(self.head_width));
        let y = p.bind("attn_output", y);
        let y = p.linear("o_proj", y);
        p.bind("attn_output", y)
    }

    fn feed_forward(&self, p: &mut Program, x: Tensor) -> Tensor {
        if let Some(experts) = &self.experts {
            return experts.forward(p, x);
        }
        let gate = p.linear("gate_proj", x);
        let gate = self.act.call(p, "act_fn", gate);
        let up = p.linear("up_proj", x);
        let y = p.mul(gate, up);
        p.linear("down_proj", y)
    }
}

/// The embedding, which Gemma scales.
fn embed(p: &mut Program, tokens: Tensor) -> Tensor {
    let words = p.module("embed_tokens", |p| {
        let weight = p.get("weight");
        let words = p.with("Gather", &[weight, tokens], "axis", 0);
        match p.own("embed_scale") {
            Some(scale) => p.mul(words, scale),
            None => words,
        }
    });
    p.bind("inputs_embeds", words)
}

/// `logits = tanh(logits / cap) * cap`.
fn cap(p: &mut Program, logits: Tensor) -> Tensor {
    let logits = p.bind("logits", logits);
    let number = p.number();
    let logits = p.op("Div", &[logits, number]);
    let logits = p.bind("logits", logits);
    let logits = p.op("Tanh", &[logits]);
    let logits = p.bind("logits", logits);
    let logits = p.scale(logits);
    p.bind("logits", logits)
}

/// Windows of attention are longer than the sequence, or are not used.
fn say_windows(c: Settings<'_>, m: &mut Model) -> Result<(), Error> {
    let used = !c.has("use_sliding_window") || c.flag(&["use_sliding_window"], false);
    if let Some(window) = c.maybe(&["sliding_window"])?.filter(|_| used) {
        m.say(
            "assumed-window",
            format!("sequences are taken to be shorter than the attention's window of {window}"),
        );
    }
    Ok(())
}

impl Relative {
    /// Whether a layer's attention has no window, as the configurations' `layer_types` are by default.
    const fn is_full(&self, layer: u64) -> bool {
        match self.gemma {
            Some(Gemma::Two) => layer.wrapping_rem(2) == 1,
            Some(Gemma::Three) => layer.wrapping_rem(6) == 5,
            _ => true,
        }
    }
}
