//! CLIP: a text and a picture encoder, and the loss of both.

use super::model::{Model, Task};
use super::parts::{Act, Attention, Implementation, by_head, causal_mask, rows};
use super::program::{Program, Tensor};
use super::settings::Settings;
use super::vision::Picture;
use crate::error::Error;
use crate::graph::Attribute;
use crate::tensor::DType;

/// `CLIPEncoder`.
#[derive(Clone, Copy, Debug)]
struct Encoder {
    width: u64,
    layers: u64,
    hidden: u64,
    head_width: u64,
    act: Act,
    attention: Attention,
}

/// `CLIPTextModel`.
#[derive(Clone, Copy, Debug)]
struct Text {
    encoder: Encoder,
    vocab: u64,
    length: u64,
    /// Whether the end of a text is the largest number in it, as the first configurations have it.
    ends_largest: bool,
}

/// `CLIPVisionModel`.
#[derive(Clone, Copy, Debug)]
struct Vision {
    encoder: Encoder,
    picture: Picture,
}

/// `CLIPModel`, or the half that `architectures` names, of `modeling_clip.py`.
pub(super) fn clip(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let name = m.program.graph.name.as_str();
    if name.starts_with("CLIPText") {
        return text_model(part(c, "text_config"), m);
    }
    if name.starts_with("CLIPVision") {
        return vision_model(part(c, "vision_config"), m);
    }
    if m.task != Task::Contrastive {
        return Err(c.fault(
            "architectures",
            "CLIP is known as CLIPModel, and as its text and vision models with and without projection",
        ));
    }
    let text = Text::of(part(c, "text_config"), m)?;
    let vision = Vision::of(part(c, "vision_config"), m)?;
    let projected = c.count(&["projection_dim"], 512)?;
    let pixels = vision.input(m);
    let tokens = text.input(m);
    let p = &mut m.program;
    p.parameter("logit_scale", &[]);
    p.within("text_model", |p| text.register(p));
    p.within("vision_model", |p| vision.register(p));
    p.new_linear("visual_projection", vision.encoder.width, projected, false);
    p.new_linear("text_projection", text.encoder.width, projected, false);
    let [pictures, picture_embeds] =
        p.function(|p| pooled(p, "vision_model", "visual_projection", |p| vision.run(p, pixels)));
    p.release(&[pictures]);
    let [texts, text_embeds] =
        p.function(|p| pooled(p, "text_model", "text_projection", |p| text.run(p, tokens)));
    let picture_unit = normalised(p, picture_embeds);
    let picture_unit = p.bind("image_embeds", picture_unit);
    let text_unit = normalised(p, text_embeds);
    let text_unit = p.bind("text_embeds", text_unit);
    let turned = p.permute(picture_unit, &[1, 0]);
    let logits = p.op("MatMul", &[text_unit, turned]);
    let logits = p.bind("logits_per_text", logits);
    let scale = p.get("logit_scale");
    let scale = p.op("Exp", &[scale]);
    let logits = p.mul(logits, scale);
    let logits = p.bind("logits_per_text", logits);
    let loss = p.function(|p| contrastive(p, logits));
    m.returned.extend([
        logits,
        text_unit,
        picture_unit,
        texts,
        text_embeds,
        pictures,
        picture_embeds,
    ]);
    Ok(loss)
}

/// `CLIPTextModel`, `CLIPTextModelWithProjection`.
pub(super) fn text_model(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let text = Text::of(c, m)?;
    let tokens = text.input(m);
    let takes = text.encoder.width;
    half(
        c,
        m,
        ["text_model", "text_projection"],
        takes,
        |p| text.register(p),
        |p| text.run(p, tokens),
    )
}

/// `CLIPVisionModel`, `CLIPVisionModelWithProjection`.
pub(super) fn vision_model(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let vision = Vision::of(c, m)?;
    let pixels = vision.input(m);
    let takes = vision.encoder.width;
    let names = ["vision_model", "visual_projection"];
    half(c, m, names, takes, |p| vision.register(p), |p| vision.run(p, pixels))
}

/// One of the two models, with its projection where its class has that.
fn half(
    c: Settings<'_>,
    m: &mut Model,
    [name, projection]: [&str; 2],
    takes: u64,
    register: impl FnOnce(&mut Program),
    forward: impl FnOnce(&mut Program) -> [Tensor; 2],
) -> Result<Tensor, Error> {
    let makes = c.count(&["projection_dim"], 512)?;
    let p = &mut m.program;
    if !p.graph.name.ends_with("WithProjection") {
        register(p);
        let [_, pooled] = forward(p);
        return Ok(pooled);
    }
    p.within(name, register);
    p.new_linear(projection, takes, makes, false);
    let [_, embeds] = pooled(p, name, projection, forward);
    Ok(embeds)
}

/// `text_config`, or where the older `text_config_dict` is stated, that: its values go first.
fn part<'a>(c: Settings<'a>, name: &str) -> Settings<'a> {
    c.part(&format!("{name}_dict")).or_else(|| c.part(name)).unwrap_or(Settings::EMPTY)
}

/// The last states of a model, and what its projection makes of the pooled ones.
fn pooled(
    p: &mut Program,
    name: &str,
    projection: &str,
    forward: impl FnOnce(&mut Program) -> [Tensor; 2],
) -> [Tensor; 2] {
    let [states, pooled] = p.module(name, forward);
    let pooled = p.bind("pooled_output", pooled);
    [states, p.linear(projection, pooled)]
}

/// `x / _get_vector_norm(x)`.
fn normalised(p: &mut Program, x: Tensor) -> Tensor {
    let norm = p.function(|p| {
        let number = p.number();
        let squares = p.op("Pow", &[x, number]);
        let squares = p.bind("square_tensor", squares);
        let axes = p.ints(&[-1]);
        let sums = p.with("ReduceSum", &[squares, axes], "keepdims", 1);
        let sums = p.bind("sum_tensor", sums);
        let root = p.op("Pow", &[sums, number]);
        p.bind("normed_tensor", root)
    });
    p.op("Div", &[x, norm])
}

/// `image_text_contrastive_loss`.
fn contrastive(p: &mut Program, similarity: Tensor) -> Tensor {
    let one_side = |p: &mut Program, scores: Tensor| {
        let labels = p.with("torch.Arange", &[scores], "axis", 0);
        p.op("SoftmaxCrossEntropyLoss", &[scores, labels])
    };
    let captions = one_side(p, similarity);
    let captions = p.bind("caption_loss", captions);
    let turned = p.permute(similarity, &[1, 0]);
    let images = one_side(p, turned);
    let images = p.bind("image_loss", images);
    let sum = p.add(captions, images);
    let two = p.number();
    p.op("Div", &[sum, two])
}

impl Encoder {
    fn of(c: Settings<'_>, m: &Model, usual: [u64; 3]) -> Result<Self, Error> {
        let [width, hidden, heads] = usual;
        let width = c.count(&["hidden_size"], width)?;
        let heads = c.count(&["num_attention_heads"], heads)?;
        Ok(Self {
            width,
            layers: c.layers(&["num_hidden_layers"], 12)?,
            hidden: c.count(&["intermediate_size"], hidden)?,
            head_width: c.divide(width, heads, "num_attention_heads and hidden_size")?,
            act: Act::of(c, &["hidden_act"], Act::QuickGelu)?,
            attention: Attention {
                implementation: m.implementation,
                heads,
                groups: 1,
                dropout: c.number(&["attention_dropout"], 0.0),
                contiguous: true,
                softcap: false,
            },
        })
    }

    fn register(&self, p: &mut Program) {
        for layer in 0..self.layers {
            p.within(&format!("encoder.layers.{layer}"), |p| {
                p.within("self_attn", |p| {
                    for name in ["k_proj", "v_proj", "q_proj", "out_proj"] {
                        p.new_linear(name, self.width, self.width, true);
                    }
                });
                p.new_norm("layer_norm1", self.width, true);
                p.within("mlp", |p| {
                    p.new_linear("fc1", self.width, self.hidden, true);
                    p.new_linear("fc2", self.hidden, self.width, true);
                });
                p.new_norm("layer_norm2", self.width, true);
            });
        }
    }

    fn run(&self, p: &mut Program, x: Tensor, mask: Option<Tensor>) -> Tensor {
        p.module("encoder", |p| {
            let mut x = x;
            for layer in 0..self.layers {
                let y = p.module(&format!("layers.{layer}"), |p| self.layer(p, x, mask));
                x = p.bind("hidden_states", y);
            }
            x
        })
    }

    fn layer(&self, p: &mut Program, x: Tensor, mask: Option<Tensor>) -> Tensor {
        p.bind("residual", x);
        let y = p.layer_norm("layer_norm1", x);
        let y = p.bind("hidden_states", y);
        let y = p.module("self_attn", |p| self.attend(p, y, mask));
        let y = p.bind("hidden_states", y);
        let x = p.add(x, y);
        let x = p.bind("hidden_states", x);
        p.bind("residual", x);
        let y = p.layer_norm("layer_norm2", x);
        let y = p.bind("hidden_states", y);
        let y = p.module("mlp", |p| {
            let y = p.linear("fc1", y);
            let y = p.bind("hidden_states", y);
            let y = self.act.call(p, "activation_fn", y);
            let y = p.bind("hidden_states", y);
            let y = p.linear("fc2", y);
            p.bind("hidden_states", y)
        });
        let y = p.bind("hidden_states", y);
        let x = p.add(x, y);
        p.bind("hidden_states", x)
    }

    fn attend(&self, p: &mut Program, x: Tensor, mask: Option<Tensor>) -> Tensor {
        let mut projected = |name: &str, bound: &'static str| {
            let y = p.linear(name, x);
            p.bind(bound, y)
        };
        let q = projected("q_proj", "queries");
        let k = projected("k_proj", "keys");
        let v = projected("v_proj", "values");
        let [q, k, v] = [q, k, v].map(|t| by_head(p, t, self.attention.heads, self.head_width));
        let y = self.attention.run(p, [q, k, v], mask);
        let y = p.bind("attn_output", y);
        let y = rows(p, y, self.width);
        let y = p.bind("attn_output", y);
        let y = p.linear("out_proj", y);
        p.bind("attn_output", y)
    }
}

impl Text {
    fn of(c: Settings<'_>, m: &Model) -> Result<Self, Error> {
        Ok(Self {
            encoder: Encoder::of(c, m, [512, 2048, 8])?,
            vocab: c.count(&["vocab_size"], 49408)?,
            length: c.count(&["max_position_embeddings"], 77)?,
            ends_largest: matches!(c.above_zero(&["eos_token_id"]), Ok(Some(2))),
        })
    }

    fn input(&self, m: &mut Model) -> Tensor {
        m.tokens("input_ids", self.length)
    }

    fn register(&self, p: &mut Program) {
        p.within("embeddings", |p| {
            p.new_embedding("token_embedding", self.vocab, self.encoder.width);
            p.new_embedding("position_embedding", self.length, self.encoder.width);
            p.buffer("position_ids", DType::Int64, &[1, self.length]);
        });
        self.encoder.register(p);
        p.new_norm("final_layer_norm", self.encoder.width, true);
    }

    /// The last states, and those at the end of each text.
    fn run(&self, p: &mut Program, tokens: Tensor) -> [Tensor; 2] {
        let x = p.module("embeddings", |p| {
            let (buffer, length) = (p.get("position_ids"), p.size(tokens, 1));
            let places = p.slice_to(buffer, 1, length);
            let words = p.embedding("token_embedding", tokens);
            let words = p.bind("inputs_embeds", words);
            let places = p.embedding("position_embedding", places);
            let places = p.bind("position_embeddings", places);
            let x = p.add(words, places);
            p.bind("embeddings", x)
        });
        let x = p.bind("hidden_states", x);
        let eager = self.encoder.attention.implementation == Implementation::Eager;
        let mask = eager.then(|| {
            let mask = causal_mask(p, tokens);
            p.bind("attention_mask", mask)
        });
        let x = self.encoder.run(p, x, mask);
        let x = p.layer_norm("final_layer_norm", x);
        let x = p.bind("last_hidden_state", x);
        let texts = p.with("torch.Arange", &[x], "axis", 0);
        let small = p.with("Cast", &[tokens], "to", 6);
        let ends = if self.ends_largest {
            small
        } else {
            let end = p.int(2);
            let is_end = p.op("Equal", &[small, end]);
            p.with("Cast", &[is_end], "to", 6)
        };
        let axis = [("axis", Attribute::Int(-1)), ("keepdims", Attribute::Int(0))];
        let [ends] = p.run("ArgMax", &[ends], &axis);
        [x, p.op("torch.IndexPairs", &[x, texts, ends])]
    }
}

impl Vision {
    fn of(c: Settings<'_>, m: &Model) -> Result<Self, Error> {
        Ok(Self {
            encoder: Encoder::of(c, m, [768, 3072, 12])?,
            picture: Picture::of(c, [224, 32])?,
        })
    }

    fn input(&self, m: &mut Model) -> Tensor {
        let Picture { channels, side, .. } = self.picture;
        m.numbers("pixel_values", &[channels, side, side])
    }

    const fn places(&self) -> u64 {
        self.picture.patches().saturating_add(1)
    }

    fn register(&self, p: &mut Program) {
        let width = self.encoder.width;
        p.within("embeddings", |p| {
            p.parameter("class_embedding", &[width]);
            self.picture.new_projection(p, "patch_embedding", width, false);
            p.new_embedding("position_embedding", self.places(), width);
            p.buffer("position_ids", DType::Int64, &[1, self.places()]);
        });
        p.new_norm("pre_layrnorm", width, true);
        self.encoder.register(p);
        p.new_norm("post_layernorm", width, true);
    }

    /// The last states, and those of the class token.
    fn run(&self, p: &mut Program, pixels: Tensor) -> [Tensor; 2] {
        let x = p.module("embeddings", |p| {
            let patches = self.picture.embed(p, "patch_embedding", pixels);
            let patches = p.bind("patch_embeds", patches);
            let (batch, others) = (p.size(pixels, 0), p.ints(&[1, 1]));
            let sizes = p.concat(&[batch, others], 0);
            let class = p.get("class_embedding");
            let class = p.op("Expand", &[class, sizes]);
            let x = p.concat(&[class, patches], 1);
            let x = p.bind("embeddings", x);
            let places = p.get("position_ids");
            let places = p.embedding("position_embedding", places);
            let x = p.add(x, places);
            p.bind("embeddings", x)
        });
        let x = p.bind("hidden_states", x);
        let x = p.layer_norm("pre_layrnorm", x);
        let x = p.bind("hidden_states", x);
        let x = self.encoder.run(p, x, None);
        let x = p.bind("last_hidden_state", x);
        let first = p.select(x, 1, 0);
        let first = p.bind("pooled_output", first);
        let pooled = p.layer_norm("post_layernorm", first);
        [x, p.bind("pooled_output", pooled)]
    }
}
