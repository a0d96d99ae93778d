//! DeBERTa-v2 and v3: attention with products of contents and of relative positions.

use super::model::{Model, Task, labels};
use super::parts::Act;
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use super::vision::{Window, convolution_1d};
use crate::error::Error;
use crate::tensor::DType;

/// Sizes of the model.
#[derive(Clone, Copy, Debug)]
struct Deberta {
    width: u64,
    /// Width of the embeddings.
    narrow: u64,
    layers: u64,
    heads: u64,
    head_width: u64,
    hidden: u64,
    vocab: u64,
    length: u64,
    types: Option<u64>,
    /// Whether positions are added to the embeddings too.
    places: bool,
    act: Act,
    drop: f64,
    attention_drop: f64,
    relative: Option<Relative>,
    conv: Option<Conv>,
}

/// Relative positions.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of the configuration's")]
struct Relative {
    /// The farthest distance that has an embedding of its own.
    span: u64,
    /// Whether far positions share embeddings.
    buckets: bool,
    /// Whether positions go through the projections of contents.
    shares: bool,
    content_to_position: bool,
    position_to_content: bool,
    /// Whether the embeddings are normalised.
    norm: bool,
}

/// `ConvLayer`, behind the first layer.
#[derive(Clone, Copy, Debug)]
struct Conv {
    window: Window,
    act: Act,
}

/// `modeling_deberta_v2.py`.
pub(super) fn deberta_v2(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let deberta = Deberta::of(c)?;
    let head = Head::of(c, m.task, &deberta)?;
    let tokens = m.tokens("input_ids", deberta.length);
    let base = m.base("deberta");
    let p = &mut m.program;
    p.within(base, |p| deberta.register(p));
    head.register(p, base);
    let x = p.module(base, |p| deberta.forward(p, tokens));
    let x = p.bind("sequence_output", x);
    Ok(head.forward(p, x))
}

impl Deberta {
    fn of(c: Settings<'_>) -> Result<Self, Error> {
        let width = c.count(&["hidden_size"], 1536)?;
        let heads = c.count(&["num_attention_heads"], 24)?;
        let even = c.divide(width, heads, "num_attention_heads and hidden_size")?;
        let length = c.count(&["max_position_embeddings"], 512)?;
        let conv = match c.above_zero(&["conv_kernel_size"])? {
            None => None,
            Some(kernel) => {
                let padding = kernel.saturating_sub(1).div_euclid(2);
                let groups = c.count(&["conv_groups"], 1)?;
                c.divide(width, groups, "conv_groups and hidden_size")?;
                let window = Window { kernel, stride: 1, padding, groups };
                Some(Conv { window, act: Act::of(c, &["conv_act"], Act::Tanh)? })
            }
        };
        Ok(Self {
            width,
            narrow: c.count(&["embedding_size"], width)?,
            layers: c.layers(&["num_hidden_layers"], 24)?,
            heads,
            head_width: c.count(&["attention_head_size"], even)?,
            hidden: c.count(&["intermediate_size"], 6144)?,
            vocab: c.count(&["vocab_size"], 128_100)?,
            length,
            types: c.above_zero(&["type_vocab_size"])?,
            places: c.flag(&["position_biased_input"], true),
            act: Act::of(c, &["hidden_act"], Act::Gelu)?,
            drop: c.number(&["hidden_dropout_prob"], 0.1),
            attention_drop: c.number(&["attention_probs_dropout_prob"], 0.1),
            relative: Relative::of(c, length)?,
            conv,
        })
    }

    const fn inner(&self) -> u64 {
        self.heads.saturating_mul(self.head_width)
    }

    fn register(&self, p: &mut Program) {
        p.within("embeddings", |p| {
            p.new_embedding("word_embeddings", self.vocab, self.narrow);
            if self.places {
                p.new_embedding("position_embeddings", self.length, self.narrow);
            }
            if let Some(types) = self.types {
                p.new_embedding("token_type_embeddings", types, self.narrow);
            }
            if self.narrow != self.width {
                p.new_linear("embed_proj", self.narrow, self.width, false);
            }
            p.new_norm("LayerNorm", self.width, true);
            p.buffer("position_ids", DType::Int64, &[1, self.length]);
        });
        p.within("encoder", |p| {
            for layer in 0..self.layers {
                p.within(&format!("layer.{layer}"), |p| self.new_layer(p));
            }
            if let Some(relative) = self.relative {
                p.new_embedding("rel_embeddings", relative.rows(), self.width);
            }
            if self.relative.is_some_and(|relative| relative.norm) {
                p.new_norm("LayerNorm", self.width, true);
            }
            if let Some(conv) = self.conv {
                p.within("conv", |p| {
                    p.within("conv", |p| {
                        let Window { kernel, groups, .. } = conv.window;
                        let read = self.width.checked_div(groups).unwrap_or(1);
                        p.parameter("weight", &[self.width, read, kernel]);
                        p.parameter("bias", &[self.width]);
                    });
                    p.new_norm("LayerNorm", self.width, true);
                });
            }
        });
    }

    fn new_layer(&self, p: &mut Program) {
        let output = |p: &mut Program, takes: u64| {
            p.within("output", |p| {
                p.new_linear("dense", takes, self.width, true);
                p.new_norm("LayerNorm", self.width, true);
            });
        };
        p.within("attention", |p| {
            p.within("self", |p| {
                for name in ["query_proj", "key_proj", "value_proj"] {
                    p.new_linear(name, self.width, self.inner(), true);
                }
                if let Some(relative) = self.relative.filter(|relative| !relative.shares) {
                    if relative.content_to_position {
                        p.new_linear("pos_key_proj", self.width, self.inner(), true);
                    }
                    if relative.position_to_content {
                        p.new_linear("pos_query_proj", self.width, self.inner(), true);
                    }
                }
            });
            output(p, self.inner());
        });
        p.within("intermediate", |p| p.new_linear("dense", self.width, self.hidden, true));
        output(p, self.hidden);
    }

    fn forward(&self, p: &mut Program, tokens: Tensor) -> Tensor {
        p.op("torch.PaddedEnds", &[tokens]);
        let mask = p.op("torch.Ones", &[tokens]);
        let mask = p.bind("attention_mask", mask);
        let types = p.op("torch.ZerosLike", &[tokens]);
        let types = p.bind("token_type_ids", types);
        let x = p.module("embeddings", |p| self.embeddings(p, [tokens, types, mask]));
        let x = p.bind("embedding_output", x);
        let mut states = vec![x];
        p.module("encoder", |p| self.encoder(p, mask, &mut states));
        // `encoder_outputs` has them until the model returns.
        p.release(&states);
        states.last().copied().unwrap_or(x)
    }

    fn embeddings(&self, p: &mut Program, [tokens, types, mask]: [Tensor; 3]) -> Tensor {
        let words = p.embedding("word_embeddings", tokens);
        let words = p.bind("inputs_embeds", words);
        let mut x = p.bind("embeddings", words);
        if self.places {
            let (buffer, length) = (p.get("position_ids"), p.size(tokens, 1));
            let places = p.slice_to(buffer, 1, length);
            let places = p.embedding("position_embeddings", places);
            let places = p.bind("position_embeddings", places);
            x = p.add(x, places);
            x = p.bind("embeddings", x);
        } else {
            let zeros = p.op("torch.ZerosLike", &[words]);
            p.bind("position_embeddings", zeros);
        }
        if self.types.is_some() {
            let types = p.embedding("token_type_embeddings", types);
            let types = p.bind("token_type_embeddings", types);
            x = p.add(x, types);
            x = p.bind("embeddings", x);
        }
        if self.narrow != self.width {
            x = p.linear("embed_proj", x);
            x = p.bind("embeddings", x);
        }
        let x = p.layer_norm("LayerNorm", x);
        let x = p.bind("embeddings", x);
        let mask = p.unsqueeze(mask, 2);
        let x = p.mul(x, mask);
        let x = p.bind("embeddings", x);
        let x = p.dropout("dropout", x, self.drop);
        p.bind("embeddings", x)
    }

    /// Appends what each layer makes to `all_hidden_states`.
    fn encoder(&self, p: &mut Program, input_mask: Tensor, states: &mut Vec<Tensor>) {
        let Some(&input) = states.first() else { return };
        let mask = p.unsqueeze(input_mask, 1);
        let (across, along) = (p.unsqueeze(mask, 2), p.unsqueeze(mask, 3));
        let mask = p.mul(across, along);
        let mask = p.bind("attention_mask", mask);
        let relative = self.relative.map(|relative| {
            let places = p.function(|p| relative.positions(p, input));
            let places = p.bind("relative_pos", places);
            let weight = p.module("rel_embeddings", |p| p.get("weight"));
            let table = if relative.norm { p.layer_norm("LayerNorm", weight) } else { weight };
            [places, p.bind("rel_embeddings", table)]
        });
        let mut x = input;
        for layer in 0..self.layers {
            let y = p.module(&format!("layer.{layer}"), |p| self.layer(p, x, mask, relative));
            x = p.bind("output_states", y);
            if let (0, Some(conv)) = (layer, self.conv) {
                let y = p.module("conv", |p| self.convolve(p, conv, [input, x, input_mask]));
                x = p.bind("output_states", y);
            }
            states.push(x);
        }
    }

    /// `ConvLayer.forward`.
    fn convolve(&self, p: &mut Program, conv: Conv, [x, residual, mask]: [Tensor; 3]) -> Tensor {
        let turned = p.permute(x, &[0, 2, 1]);
        let turned = p.op("torch.Contiguous", &[turned]);
        let y = p.module("conv", |p| convolution_1d(p, turned, &conv.window));
        let y = p.permute(y, &[0, 2, 1]);
        let y = p.op("torch.Contiguous", &[y]);
        let y = p.bind("out", y);
        let one = p.number();
        let hidden = p.op("Sub", &[one, mask]);
        let hidden = p.with("Cast", &[hidden], "to", 9);
        let hidden = p.bind("rmask", hidden);
        let hidden = p.unsqueeze(hidden, -1);
        let shape = p.shape_of(x);
        let hidden = p.op("Expand", &[hidden, shape]);
        let y = p.with("torch.MaskedFill", &[y, hidden], "in_place", 1);
        let y = p.dropout("dropout", y, self.drop);
        let y = conv.act.run(p, y);
        let y = p.bind("out", y);
        let sum = p.add(residual, y);
        let sum = p.bind("layer_norm_input", sum);
        let y = p.layer_norm("LayerNorm", sum);
        let y = p.bind("output", y);
        let mask = p.unsqueeze(mask, 2);
        p.mul(y, mask)
    }

    fn layer(
        &self,
        p: &mut Program,
        x: Tensor,
        mask: Tensor,
        relative: Option<[Tensor; 2]>,
    ) -> Tensor {
        let y = p.module("attention", |p| {
            let y = p.module("self", |p| self.attention(p, x, mask, relative));
            let y = p.bind("self_output", y);
            p.module("output", |p| self.output(p, y, x))
        });
        let y = p.bind("attention_output", y);
        let h = p.module("intermediate", |p| {
            let h = p.linear("dense", y);
            let h = p.bind("hidden_states", h);
            self.act.call(p, "intermediate_act_fn", h)
        });
        let h = p.bind("intermediate_output", h);
        p.module("output", |p| self.output(p, h, y))
    }

    /// `DebertaV2SelfOutput`, `DebertaV2Output`.
    fn output(&self, p: &mut Program, x: Tensor, input: Tensor) -> Tensor {
        let x = p.linear("dense", x);
        let x = p.bind("hidden_states", x);
        let x = p.dropout("dropout", x, self.drop);
        let x = p.bind("hidden_states", x);
        let sum = p.add(x, input);
        let y = p.layer_norm("LayerNorm", sum);
        p.bind("hidden_states", y)
    }

    /// `DisentangledSelfAttention.forward`.
    fn attention(
        &self,
        p: &mut Program,
        x: Tensor,
        mask: Tensor,
        relative: Option<[Tensor; 2]>,
    ) -> Tensor {
        let q = self.projected(p, "query_proj", x);
        let q = p.bind("query_layer", q);
        let k = self.projected(p, "key_proj", x);
        let k = p.bind("key_layer", k);
        let v = self.projected(p, "value_proj", x);
        let v = p.bind("value_layer", v);
        let turned = p.permute(k, &[0, 2, 1]);
        let turned = scaled(p, turned);
        let scores = p.op("torch.Bmm", &[q, turned]);
        let mut scores = p.bind("attention_scores", scores);
        if let (Some(settings), Some([places, table])) = (self.relative, relative) {
            let table = p.dropout("pos_dropout", table, self.drop);
            let table = p.bind("rel_embeddings", table);
            let bias = p.function(|p| self.bias(p, settings, [q, k], [places, table]));
            if let Some(bias) = bias {
                let bias = p.bind("rel_att", bias);
                scores = p.add(scores, bias);
                scores = p.bind("attention_scores", scores);
            }
        }
        let [rows, columns] = [1, 2].map(|axis| p.size(scores, axis));
        let (open, heads) = (p.ints(&[-1]), p.ints(&[signed(self.heads)]));
        let target = p.concat(&[open, heads, rows, columns], 0);
        let scores = p.op("Reshape", &[scores, target]);
        let scores = p.bind("attention_scores", scores);
        let mask = p.with("Cast", &[mask], "to", 9);
        let mask = p.bind("attention_mask", mask);
        let hidden = p.op("Not", &[mask]);
        let scores = p.op("torch.MaskedFill", &[scores, hidden]);
        let scores = p.bind("attention_scores", scores);
        let weights = p.softmax(scores);
        let weights = p.bind("attention_probs", weights);
        let weights = p.dropout("dropout", weights, self.attention_drop);
        let weights = p.bind("attention_probs", weights);
        let flat = p.concat(&[open, rows, columns], 0);
        let flat = p.op("Reshape", &[weights, flat]);
        let y = p.op("torch.Bmm", &[flat, v]);
        let y = p.bind("context_layer", y);
        let width = p.ints(&[signed(self.head_width)]);
        let target = p.concat(&[open, heads, rows, width], 0);
        let y = p.op("Reshape", &[y, target]);
        let y = p.permute(y, &[0, 2, 1, 3]);
        let y = p.op("torch.Contiguous", &[y]);
        let y = p.bind("context_layer", y);
        let y = p.reshape(y, &[0, 0, signed(self.inner())]);
        p.bind("context_layer", y)
    }

    /// `transpose_for_scores` of a projection: `[N * heads, L, width]`.
    fn projected(&self, p: &mut Program, name: &str, x: Tensor) -> Tensor {
        let x = p.linear(name, x);
        let x = p.reshape(x, &[0, 0, signed(self.heads), signed(self.head_width)]);
        let x = p.permute(x, &[0, 2, 1, 3]);
        let x = p.op("torch.Contiguous", &[x]);
        let (open, length) = (p.ints(&[-1]), p.size(x, 2));
        let width = p.ints(&[signed(self.head_width)]);
        let target = p.concat(&[open, length, width], 0);
        p.op("Reshape", &[x, target])
    }

    /// `disentangled_attention_bias`; nothing where neither product is wanted.
    fn bias(
        &self,
        p: &mut Program,
        relative: Relative,
        [q, k]: [Tensor; 2],
        [places, table]: [Tensor; 2],
    ) -> Option<Tensor> {
        let places = p.unsqueeze(places, 1);
        let table = p.slice(table, 0, 0, signed(relative.rows()));
        let table = p.unsqueeze(table, 0);
        let [mut keys, mut queries] = [None, None];
        if relative.shares {
            queries = Some(self.repeated(p, ["query_proj", "pos_query_layer"], table, q));
            keys = Some(self.repeated(p, ["key_proj", "pos_key_layer"], table, q));
        } else {
            if relative.content_to_position {
                keys = Some(self.repeated(p, ["pos_key_proj", "pos_key_layer"], table, q));
            }
            if relative.position_to_content {
                queries = Some(self.repeated(p, ["pos_query_proj", "pos_query_layer"], table, q));
            }
        }
        let mut score = None;
        let zero = p.int(0);
        if let Some(keys) = keys.filter(|_| relative.content_to_position) {
            let turned = p.permute(keys, &[0, 2, 1]);
            let products = p.op("torch.Bmm", &[q, turned]);
            let products = p.bind("c2p_att", products);
            let shifted = p.add(places, zero);
            let index = p.op("Clip", &[shifted]);
            let index = p.bind("c2p_pos", index);
            let picked = picked(p, products, index);
            let picked = p.bind("c2p_att", picked);
            let quotient = scaled(p, picked);
            let sum = p.add(quotient, zero);
            score = Some(p.bind("score", sum));
        }
        if let Some(queries) = queries.filter(|_| relative.position_to_content) {
            let negated = p.op("Neg", &[places]);
            let shifted = p.add(negated, zero);
            let index = p.op("Clip", &[shifted]);
            let index = p.bind("p2c_pos", index);
            let turned = p.permute(queries, &[0, 2, 1]);
            let products = p.op("torch.Bmm", &[k, turned]);
            let products = p.bind("p2c_att", products);
            let picked = picked(p, products, index);
            let picked = p.permute(picked, &[0, 2, 1]);
            let picked = p.bind("p2c_att", picked);
            let quotient = scaled(p, picked);
            let sum = match score {
                Some(score) => p.with("Add", &[score, quotient], "in_place", 1),
                None => p.add(quotient, zero),
            };
            score = Some(p.bind("score", sum));
        }
        score
    }

    /// A projection of the embeddings of positions, once for each text.
    fn repeated(
        &self,
        p: &mut Program,
        [projection, name]: [&'static str; 2],
        table: Tensor,
        q: Tensor,
    ) -> Tensor {
        let one = self.projected(p, projection, table);
        let (rows, heads) = (p.size(q, 0), p.ints(&[signed(self.heads)]));
        let (texts, ones) = (p.op("Div", &[rows, heads]), p.ints(&[1, 1]));
        let times = p.concat(&[texts, ones], 0);
        let all = p.op("Tile", &[one, times]);
        p.bind(name, all)
    }
}

/// `x / scale`, where the scale lies on the host.
fn scaled(p: &mut Program, x: Tensor) -> Tensor {
    let scale = p.number();
    p.op("Div", &[x, scale])
}

/// `torch.gather(products, -1, index)`, where every head and text has the same index `[1, 1, L, L]`.
fn picked(p: &mut Program, products: Tensor, index: Tensor) -> Tensor {
    let (all, row) = (p.size(products, 0), p.size(index, 2));
    let column = p.size(index, 3);
    let index = p.select(index, 0, 0);
    let target = p.concat(&[all, row, column], 0);
    let index = p.op("Expand", &[index, target]);
    p.with("GatherElements", &[products, index], "axis", -1)
}

impl Relative {
    fn of(c: Settings<'_>, length: u64) -> Result<Option<Self>, Error> {
        if !c.flag(&["relative_attention"], false) {
            return Ok(None);
        }
        let words = |name: &str| c.words(name).join("|").to_ascii_lowercase();
        let has = |name: &str, word: &str| words(name).split('|').any(|part| part.trim() == word);
        let farthest = c.above_zero(&["max_relative_positions"])?.unwrap_or(length);
        let buckets = c.above_zero(&["position_buckets"])?;
        Ok(Some(Self {
            span: buckets.unwrap_or(farthest),
            buckets: buckets.is_some(),
            shares: c.flag(&["share_att_key"], false),
            content_to_position: has("pos_att_type", "c2p"),
            position_to_content: has("pos_att_type", "p2c"),
            norm: has("norm_rel_ebd", "layer_norm"),
        }))
    }

    /// COUNT: embeddings, of both signs.
    const fn rows(&self) -> u64 {
        self.span.saturating_mul(2)
    }

    /// `build_relative_position` for states `[N, L, width]`: `[1, L, L]`.
    fn positions(self, p: &mut Program, x: Tensor) -> Tensor {
        let queries = p.op("torch.Arange", &[x]);
        let queries = p.bind("q_ids", queries);
        let keys = p.op("torch.Arange", &[x]);
        let keys = p.bind("k_ids", keys);
        let (queries, keys) = (p.unsqueeze(queries, 1), p.unsqueeze(keys, 0));
        let places = p.op("Sub", &[queries, keys]);
        let mut places = p.bind("rel_pos_ids", places);
        if self.buckets {
            let buckets = p.function(|p| bucketed(p, places));
            places = p.bind("rel_pos_ids", buckets);
            places = p.with("Cast", &[places], "to", 7);
            places = p.bind("rel_pos_ids", places);
        }
        p.unsqueeze(places, 0)
    }
}

/// `make_log_bucket_position`.
fn bucketed(p: &mut Program, relative: Tensor) -> Tensor {
    let (number, half) = (p.int(8), p.number());
    let sign = p.op("Sign", &[relative]);
    let sign = p.bind("sign", sign);
    let below = p.op("Less", &[relative, number]);
    let above = p.op("Greater", &[relative, number]);
    let near = p.op("And", &[below, above]);
    let least = p.op("torch.Scalar", &[relative]);
    let distance = p.op("Abs", &[relative]);
    let distance = p.op("Where", &[near, least, distance]);
    let distance = p.bind("abs_pos", distance);
    // A quotient of integers is a tensor of floats.
    let quotient = p.float(distance);
    let log = p.op("Log", &[quotient]);
    let log = p.op("Div", &[log, half]);
    let log = p.scale(log);
    let log = p.op("Ceil", &[log]);
    let log = p.add(log, half);
    let log = p.bind("log_pos", log);
    let near = p.op("LessOrEqual", &[distance, number]);
    let plain = p.float(relative);
    let signed = p.mul(log, sign);
    let bucket = p.op("Where", &[near, plain, signed]);
    p.bind("bucket_pos", bucket)
}

/// What a class of the family puts on top.
#[derive(Clone, Copy, Debug)]
struct Head {
    task: Task,
    /// `LegacyDebertaV2OnlyMLMHead`, whose decoder is a module.
    legacy: bool,
    width: u64,
    narrow: u64,
    vocab: u64,
    labels: u64,
    act: Act,
    drop: f64,
    pooler: u64,
    pooler_drop: f64,
    pooler_act: Act,
}

impl Head {
    fn of(c: Settings<'_>, task: Task, model: &Deberta) -> Result<Self, Error> {
        let classifies = task == Task::Classification;
        let drop = model.drop;
        Ok(Self {
            task,
            legacy: c.flag(&["legacy"], true),
            width: model.width,
            narrow: model.narrow,
            vocab: model.vocab,
            labels: labels(c)?,
            act: model.act,
            drop: if classifies { c.number(&["cls_dropout"], drop) } else { drop },
            pooler: c.count(&["pooler_hidden_size"], model.width)?,
            pooler_drop: c.number(&["pooler_dropout"], 0.0),
            pooler_act: Act::of(c, &["pooler_hidden_act"], Act::Gelu)?,
        })
    }

    fn register(&self, p: &mut Program, base: &str) {
        let embedding = format!("{base}.embeddings.word_embeddings.weight");
        match self.task {
            Task::MaskedLm if self.legacy => p.within("cls.predictions", |p| {
                p.parameter("bias", &[self.vocab]);
                p.within("transform", |p| {
                    p.new_linear("dense", self.width, self.narrow, true);
                    p.new_norm("LayerNorm", self.narrow, true);
                });
                p.tie("decoder.weight", &embedding);
                p.tie("decoder.bias", "cls.predictions.bias");
            }),
            Task::MaskedLm => p.within("lm_predictions.lm_head", |p| {
                p.parameter("bias", &[self.vocab]);
                p.new_linear("dense", self.width, self.width, true);
                p.new_norm("LayerNorm", self.width, true);
                p.tie("word_embeddings", &embedding);
            }),
            Task::Classification => {
                let width = self.pooler;
                p.within("pooler", |p| p.new_linear("dense", width, width, true));
                p.new_linear("classifier", width, self.labels, true);
            }
            Task::TokenClassification => {
                p.new_linear("classifier", self.width, self.labels, true);
            }
            _ => {}
        }
    }

    fn forward(&self, p: &mut Program, x: Tensor) -> Tensor {
        match self.task {
            Task::MaskedLm if self.legacy => p.module("cls", |p| {
                p.module("predictions", |p| {
                    let x = p.module("transform", |p| self.transform(p, x));
                    let x = p.bind("hidden_states", x);
                    let x = p.linear("decoder", x);
                    p.bind("hidden_states", x)
                })
            }),
            Task::MaskedLm => p.module("lm_predictions", |p| {
                p.module("lm_head", |p| {
                    let x = self.transform(p, x);
                    let table = p.get("word_embeddings");
                    let table = p.permute(table, &[1, 0]);
                    let product = p.op("MatMul", &[x, table]);
                    let bias = p.get("bias");
                    let x = p.add(product, bias);
                    p.bind("hidden_states", x)
                })
            }),
            Task::Classification => {
                let x = p.module("pooler", |p| {
                    let first = p.select(x, 1, 0);
                    let first = p.bind("context_token", first);
                    let first = p.dropout("dropout", first, self.pooler_drop);
                    let first = p.bind("context_token", first);
                    let y = p.linear("dense", first);
                    let y = p.bind("pooled_output", y);
                    let y = self.pooler_act.run(p, y);
                    p.bind("pooled_output", y)
                });
                let x = p.bind("pooled_output", x);
                let x = p.dropout("dropout", x, self.drop);
                let x = p.bind("pooled_output", x);
                p.linear("classifier", x)
            }
            Task::TokenClassification => {
                let x = p.dropout("dropout", x, self.drop);
                let x = p.bind("sequence_output", x);
                p.linear("classifier", x)
            }
            _ => x,
        }
    }

    fn transform(&self, p: &mut Program, x: Tensor) -> Tensor {
        let x = p.linear("dense", x);
        let x = p.bind("hidden_states", x);
        let x = self.act.call(p, "transform_act_fn", x);
        let x = p.bind("hidden_states", x);
        let x = p.layer_norm("LayerNorm", x);
        p.bind("hidden_states", x)
    }
}
