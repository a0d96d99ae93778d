//! Encoders of text: BERT and its relatives.
#![expect(
    clippy::too_many_lines,
    reason = "a family is read beside the file of transformers that it follows, from top to end"
)]

use super::model::{Model, Task, labels};
use super::parts::{Act, Attention, project, rows};
use super::program::{Program, Tensor};
use super::settings::Settings;
use crate::error::Error;
use crate::tensor::DType;

/// Which of BERT's relatives it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kin {
    Bert,
    Roberta,
    Electra,
}

/// Sizes that BERT and its relatives have.
#[derive(Clone, Copy, Debug)]
struct Bert {
    kin: Kin,
    width: u64,
    /// Width of the embeddings.
    narrow: u64,
    layers: u64,
    head_width: u64,
    hidden: u64,
    vocab: u64,
    length: u64,
    types: u64,
    act: Act,
    drop: f64,
    classifier_drop: f64,
    labels: u64,
    attention: Attention,
}

/// `modeling_bert.py`.
pub(super) fn bert(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Ok(Bert::of(c, m, Kin::Bert)?.program(m))
}

/// `modeling_roberta.py`.
pub(super) fn roberta(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Ok(Bert::of(c, m, Kin::Roberta)?.program(m))
}

/// `modeling_electra.py`.
pub(super) fn electra(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    Ok(Bert::of(c, m, Kin::Electra)?.program(m))
}

impl Bert {
    fn of(c: Settings<'_>, m: &Model, kin: Kin) -> Result<Self, Error> {
        let [width, layers, heads, hidden] =
            if kin == Kin::Electra { [256, 12, 4, 1024] } else { [768, 12, 12, 3072] };
        let width = c.count(&["hidden_size"], width)?;
        let heads = c.count(&["num_attention_heads"], heads)?;
        let drop = c.number(&["hidden_dropout_prob"], 0.1);
        let narrow = if kin == Kin::Electra { c.count(&["embedding_size"], 128)? } else { width };
        Ok(Self {
            kin,
            width,
            narrow,
            layers: c.layers(&["num_hidden_layers"], layers)?,
            head_width: c.divide(width, heads, "num_attention_heads and hidden_size")?,
            hidden: c.count(&["intermediate_size"], hidden)?,
            vocab: c.count(&["vocab_size"], if kin == Kin::Roberta { 50265 } else { 30522 })?,
            length: c.count(&["max_position_embeddings"], 512)?,
            types: c.count(&["type_vocab_size"], 2)?,
            act: Act::of(c, &["hidden_act"], Act::Gelu)?,
            drop,
            classifier_drop: c.number(&["classifier_dropout"], drop),
            labels: labels(c)?,
            attention: Attention {
                implementation: m.implementation,
                heads,
                groups: 1,
                dropout: c.number(&["attention_probs_dropout_prob"], 0.1),
                contiguous: true,
                softcap: false,
            },
        })
    }

    fn program(&self, m: &mut Model) -> Tensor {
        let is_roberta = self.kin == Kin::Roberta;
        // Numbers of padding stand before the first position.
        let longest = if is_roberta { self.length.saturating_sub(2) } else { self.length };
        let tokens = m.tokens("input_ids", longest);
        let base = m.base(match self.kin {
            Kin::Bert => "bert",
            Kin::Roberta => "roberta",
            Kin::Electra => "electra",
        });
        let task = m.task;
        let pools = task == Task::Base && self.kin != Kin::Electra
            || task == Task::Classification && self.kin == Kin::Bert;
        let p = &mut m.program;
        p.within(base, |p| {
            self.new_embeddings(p);
            if self.narrow != self.width {
                p.new_linear("embeddings_project", self.narrow, self.width, true);
            }
            for layer in 0..self.layers {
                p.within(&format!("encoder.layer.{layer}"), |p| self.new_layer(p));
            }
            if pools {
                p.within("pooler", |p| p.new_linear("dense", self.width, self.width, true));
            }
        });
        self.new_head(p, task, base);
        let mut pooled = None;
        let x = p.module(base, |p| {
            let x = p.module("embeddings", |p| self.embeddings(p, tokens));
            let mut x = p.bind("embedding_output", x);
            if self.narrow != self.width {
                x = p.linear("embeddings_project", x);
                x = p.bind("embedding_output", x);
            }
            let x = p.module("encoder", |p| {
                let mut x = x;
                for layer in 0..self.layers {
                    let y = p.module(&format!("layer.{layer}"), |p| self.layer(p, x));
                    x = p.bind("hidden_states", y);
                }
                x
            });
            let x = p.bind("sequence_output", x);
            if pools {
                pooled = Some(p.module("pooler", |p| {
                    let first = p.select(x, 1, 0);
                    let first = p.bind("first_token_tensor", first);
                    let y = p.linear("dense", first);
                    let y = p.bind("pooled_output", y);
                    Act::Tanh.call(p, "activation", y)
                }));
            }
            x
        });
        let x = p.bind("sequence_output", x);
        self.head(p, task, x, pooled)
    }

    fn new_embeddings(&self, p: &mut Program) {
        p.within("embeddings", |p| {
            p.new_embedding("word_embeddings", self.vocab, self.narrow);
            if self.kin != Kin::Roberta {
                p.new_embedding("position_embeddings", self.length, self.narrow);
            }
            p.new_embedding("token_type_embeddings", self.types, self.narrow);
            p.new_norm("LayerNorm", self.narrow, true);
            p.buffer("position_ids", DType::Int64, &[1, self.length]);
            p.buffer("token_type_ids", DType::Int64, &[1, self.length]);
            if self.kin == Kin::Roberta {
                p.new_embedding("position_embeddings", self.length, self.narrow);
            }
        });
    }

    fn embeddings(&self, p: &mut Program, tokens: Tensor) -> Tensor {
        let places = if self.kin == Kin::Roberta {
            numbered(p, tokens)
        } else {
            let (buffer, length) = (p.get("position_ids"), p.size(tokens, 1));
            p.slice_to(buffer, 1, length)
        };
        let places = p.bind("position_ids", places);
        let mut buffered = p.get("token_type_ids");
        if self.kin == Kin::Roberta {
            let (batch, width) = (p.size(tokens, 0), p.ints(&[1]));
            let sizes = p.concat(&[batch, width], 0);
            buffered = p.op("Expand", &[buffered, sizes]);
        }
        let types = p.with("GatherElements", &[buffered, places], "axis", 1);
        let types = p.bind("buffered_token_type_ids", types);
        let shape = p.shape_of(tokens);
        let types = p.op("Expand", &[types, shape]);
        let types = p.bind("token_type_ids", types);
        let words = p.embedding("word_embeddings", tokens);
        let words = p.bind("inputs_embeds", words);
        let types = p.embedding("token_type_embeddings", types);
        let types = p.bind("token_type_embeddings", types);
        let x = p.add(words, types);
        let x = p.bind("embeddings", x);
        let places = p.embedding("position_embeddings", places);
        let places = p.bind("position_embeddings", places);
        let x = p.add(x, places);
        let x = p.bind("embeddings", x);
        let x = p.layer_norm("LayerNorm", x);
        let x = p.bind("embeddings", x);
        let x = p.dropout("dropout", x, self.drop);
        p.bind("embeddings", x)
    }

    fn new_layer(&self, p: &mut Program) {
        p.within("attention", |p| {
            p.within("self", |p| {
                for name in ["query", "key", "value"] {
                    p.new_linear(name, self.width, self.width, true);
                }
            });
            p.within("output", |p| {
                p.new_linear("dense", self.width, self.width, true);
                p.new_norm("LayerNorm", self.width, true);
            });
        });
        p.within("intermediate", |p| p.new_linear("dense", self.width, self.hidden, true));
        p.within("output", |p| {
            p.new_linear("dense", self.hidden, self.width, true);
            p.new_norm("LayerNorm", self.width, true);
        });
    }

    fn layer(&self, p: &mut Program, x: Tensor) -> Tensor {
        let y = p.module("attention", |p| {
            let y = p.module("self", |p| {
                let q = project(
                    p,
                    ["query", "query_layer"],
                    x,
                    [self.attention.heads, self.head_width],
                );
                let k =
                    project(p, ["key", "key_layer"], x, [self.attention.heads, self.head_width]);
                let v = project(
                    p,
                    ["value", "value_layer"],
                    x,
                    [self.attention.heads, self.head_width],
                );
                let y = self.attention.run(p, [q, k, v], None);
                let y = p.bind("attn_output", y);
                let y = rows(p, y, self.width);
                p.bind("attn_output", y)
            });
            let y = p.bind("attention_output", y);
            p.module("output", |p| self.output(p, y, x))
        });
        let y = p.bind("attention_output", y);
        p.function(|p| {
            let h = p.module("intermediate", |p| {
                let h = p.linear("dense", y);
                let h = p.bind("hidden_states", h);
                self.act.call(p, "intermediate_act_fn", h)
            });
            let h = p.bind("intermediate_output", h);
            p.module("output", |p| self.output(p, h, y))
        })
    }

    /// `BertSelfOutput`, `BertOutput`.
    fn output(&self, p: &mut Program, x: Tensor, input: Tensor) -> Tensor {
        p.bind("input_tensor", input);
        let x = p.linear("dense", x);
        let x = p.bind("hidden_states", x);
        let x = p.dropout("dropout", x, self.drop);
        let x = p.bind("hidden_states", x);
        let sum = p.add(x, input);
        let y = p.layer_norm("LayerNorm", sum);
        p.bind("hidden_states", y)
    }

    fn new_head(&self, p: &mut Program, task: Task, base: &str) {
        let embedding = format!("{base}.embeddings.word_embeddings.weight");
        match (task, self.kin) {
            (Task::MaskedLm, Kin::Bert) => p.within("cls.predictions", |p| {
                p.parameter("bias", &[self.vocab]);
                p.within("transform", |p| {
                    p.new_linear("dense", self.width, self.width, true);
                    p.new_norm("LayerNorm", self.width, true);
                });
                p.tie("decoder.weight", &embedding);
                p.tie("decoder.bias", "cls.predictions.bias");
            }),
            (Task::MaskedLm, Kin::Roberta) => p.within("lm_head", |p| {
                p.parameter("bias", &[self.vocab]);
                p.new_linear("dense", self.width, self.width, true);
                p.new_norm("layer_norm", self.width, true);
                p.tie("decoder.weight", &embedding);
                p.tie("decoder.bias", "lm_head.bias");
            }),
            (Task::MaskedLm, Kin::Electra) => {
                p.within("generator_predictions", |p| {
                    p.new_norm("LayerNorm", self.narrow, true);
                    p.new_linear("dense", self.width, self.narrow, true);
                });
                p.tie("generator_lm_head.weight", &embedding);
                p.within("generator_lm_head", |p| p.parameter("bias", &[self.vocab]));
            }
            (Task::Classification, Kin::Roberta | Kin::Electra) => {
                p.within("classifier", |p| {
                    p.new_linear("dense", self.width, self.width, true);
                    p.new_linear("out_proj", self.width, self.labels, true);
                });
            }
            (Task::Classification | Task::TokenClassification, _) => {
                p.new_linear("classifier", self.width, self.labels, true);
            }
            _ => {}
        }
    }

    fn head(&self, p: &mut Program, task: Task, x: Tensor, pooled: Option<Tensor>) -> Tensor {
        match (task, self.kin) {
            (Task::MaskedLm, Kin::Bert) => p.module("cls", |p| {
                p.module("predictions", |p| {
                    let x = p.module("transform", |p| {
                        let x = p.linear("dense", x);
                        let x = p.bind("hidden_states", x);
                        let x = self.act.call(p, "transform_act_fn", x);
                        let x = p.bind("hidden_states", x);
                        let x = p.layer_norm("LayerNorm", x);
                        p.bind("hidden_states", x)
                    });
                    let x = p.bind("hidden_states", x);
                    let x = p.linear("decoder", x);
                    p.bind("hidden_states", x)
                })
            }),
            (Task::MaskedLm, Kin::Roberta) => p.module("lm_head", |p| {
                let x = p.linear("dense", x);
                let x = p.bind("x", x);
                let x = Act::Gelu.run(p, x);
                let x = p.bind("x", x);
                let x = p.layer_norm("layer_norm", x);
                let x = p.bind("x", x);
                let x = p.linear("decoder", x);
                p.bind("x", x)
            }),
            (Task::MaskedLm, Kin::Electra) => {
                let x = p.module("generator_predictions", |p| {
                    let x = p.linear("dense", x);
                    let x = p.bind("hidden_states", x);
                    let x = Act::Gelu.call(p, "activation", x);
                    let x = p.bind("hidden_states", x);
                    let x = p.layer_norm("LayerNorm", x);
                    p.bind("hidden_states", x)
                });
                let x = p.bind("prediction_scores", x);
                p.linear("generator_lm_head", x)
            }
            (Task::Classification, Kin::Roberta | Kin::Electra) => p.module("classifier", |p| {
                let x = p.select(x, 1, 0);
                let x = p.bind("x", x);
                let x = p.dropout("dropout", x, self.classifier_drop);
                let x = p.bind("x", x);
                let x = p.linear("dense", x);
                let x = p.bind("x", x);
                let act = if self.kin == Kin::Electra { Act::Gelu } else { Act::Tanh };
                let x = act.run(p, x);
                let x = p.bind("x", x);
                let x = p.dropout("dropout", x, self.classifier_drop);
                let x = p.bind("x", x);
                p.linear("out_proj", x)
            }),
            (Task::Classification | Task::TokenClassification, _) => {
                let x = pooled.unwrap_or(x);
                let x = p.dropout("dropout", x, self.classifier_drop);
                let x = p.bind("pooled_output", x);
                p.linear("classifier", x)
            }
            _ => x,
        }
    }
}

/// `create_position_ids_from_input_ids`: padding is not counted.
fn numbered(p: &mut Program, tokens: Tensor) -> Tensor {
    p.function(|p| {
        let padding = p.int(1);
        let real = p.op("Equal", &[tokens, padding]);
        let mask = p.with("Cast", &[real], "to", 6);
        let mask = p.bind("mask", mask);
        let axis = p.int(1);
        let sums = p.op("CumSum", &[mask, axis]);
        let zero = p.int(0);
        let sums = p.add(sums, zero);
        let indices = p.mul(sums, mask);
        let indices = p.bind("incremental_indices", indices);
        let indices = p.with("Cast", &[indices], "to", 7);
        p.add(indices, padding)
    })
}

/// `modeling_distilbert.py`.
pub(super) fn distilbert(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["dim", "hidden_size"], 768)?;
    let hidden = c.count(&["hidden_dim", "intermediate_size"], 3072)?;
    let layers = c.layers(&["n_layers", "num_hidden_layers"], 6)?;
    let heads = c.count(&["n_heads", "num_attention_heads"], 12)?;
    let head_width = c.divide(width, heads, "n_heads and dim")?;
    let vocab = c.count(&["vocab_size"], 30522)?;
    let length = c.count(&["max_position_embeddings"], 512)?;
    let drop = c.number(&["dropout"], 0.1);
    let classifier_drop = c.number(&["seq_classif_dropout"], 0.2);
    let act = Act::of(c, &["activation"], Act::Gelu)?;
    let labels = labels(c)?;
    let attention = Attention {
        implementation: m.implementation,
        heads,
        groups: 1,
        dropout: c.number(&["attention_dropout"], 0.1),
        contiguous: true,
        softcap: false,
    };
    let tokens = m.tokens("input_ids", length);
    let base = m.base("distilbert");
    let task = m.task;
    let p = &mut m.program;
    p.within(base, |p| {
        p.within("embeddings", |p| {
            p.new_embedding("word_embeddings", vocab, width);
            p.new_embedding("position_embeddings", length, width);
            p.new_norm("LayerNorm", width, true);
            p.buffer("position_ids", DType::Int64, &[1, length]);
        });
        for layer in 0..layers {
            p.within(&format!("transformer.layer.{layer}"), |p| {
                p.within("attention", |p| {
                    for name in ["q_lin", "k_lin", "v_lin", "out_lin"] {
                        p.new_linear(name, width, width, true);
                    }
                });
                p.new_norm("sa_layer_norm", width, true);
                p.within("ffn", |p| {
                    p.new_linear("lin1", width, hidden, true);
                    p.new_linear("lin2", hidden, width, true);
                });
                p.new_norm("output_layer_norm", width, true);
            });
        }
    });
    match task {
        Task::MaskedLm => {
            p.new_linear("vocab_transform", width, width, true);
            p.new_norm("vocab_layer_norm", width, true);
            p.tie("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight");
            p.within("vocab_projector", |p| p.parameter("bias", &[vocab]));
        }
        Task::Classification => {
            p.new_linear("pre_classifier", width, width, true);
            p.new_linear("classifier", width, labels, true);
        }
        Task::TokenClassification => p.new_linear("classifier", width, labels, true),
        _ => {}
    }
    let x = p.module(base, |p| {
        let x = p.module("embeddings", |p| {
            let words = p.embedding("word_embeddings", tokens);
            let words = p.bind("inputs_embeds", words);
            let (buffer, size) = (p.get("position_ids"), p.size(tokens, 1));
            let places = p.slice_to(buffer, 1, size);
            let places = p.embedding("position_embeddings", places);
            let places = p.bind("position_embeddings", places);
            let x = p.add(words, places);
            let x = p.bind("embeddings", x);
            let x = p.layer_norm("LayerNorm", x);
            let x = p.bind("embeddings", x);
            let x = p.dropout("dropout", x, drop);
            p.bind("embeddings", x)
        });
        let x = p.bind("embeddings", x);
        p.module("transformer", |p| {
            let mut x = x;
            for layer in 0..layers {
                let y = p.module(&format!("layer.{layer}"), |p| {
                    let y = p.module("attention", |p| {
                        let q = project(p, ["q_lin", "query_layer"], x, [heads, head_width]);
                        let k = project(p, ["k_lin", "key_layer"], x, [heads, head_width]);
                        let v = project(p, ["v_lin", "value_layer"], x, [heads, head_width]);
                        let y = attention.run(p, [q, k, v], None);
                        let y = p.bind("attn_output", y);
                        let y = rows(p, y, width);
                        let y = p.bind("attn_output", y);
                        let y = p.linear("out_lin", y);
                        p.bind("attn_output", y)
                    });
                    let y = p.bind("attention_output", y);
                    let sum = p.add(y, x);
                    let y = p.layer_norm("sa_layer_norm", sum);
                    let y = p.bind("attention_output", y);
                    let h = p.module("ffn", |p| {
                        p.function(|p| {
                            let h = p.linear("lin1", y);
                            let h = p.bind("x", h);
                            let h = act.call(p, "activation", h);
                            let h = p.bind("x", h);
                            let h = p.linear("lin2", h);
                            let h = p.bind("x", h);
                            let h = p.dropout("dropout", h, drop);
                            p.bind("x", h)
                        })
                    });
                    let h = p.bind("ffn_output", h);
                    let sum = p.add(h, y);
                    let h = p.layer_norm("output_layer_norm", sum);
                    p.bind("ffn_output", h)
                });
                x = p.bind("hidden_states", y);
            }
            x
        })
    });
    let x = p.bind("hidden_states", x);
    Ok(match task {
        Task::MaskedLm => {
            let x = p.linear("vocab_transform", x);
            let x = p.bind("prediction_logits", x);
            let x = act.call(p, "activation", x);
            let x = p.bind("prediction_logits", x);
            let x = p.layer_norm("vocab_layer_norm", x);
            let x = p.bind("prediction_logits", x);
            let x = p.linear("vocab_projector", x);
            p.bind("prediction_logits", x)
        }
        Task::Classification => {
            let x = p.select(x, 1, 0);
            let x = p.bind("pooled_output", x);
            let x = p.linear("pre_classifier", x);
            let x = p.bind("pooled_output", x);
            let x = Act::Relu.run(p, x);
            let x = p.bind("pooled_output", x);
            let x = p.dropout("dropout", x, classifier_drop);
            let x = p.bind("pooled_output", x);
            p.linear("classifier", x)
        }
        Task::TokenClassification => {
            let x = p.dropout("dropout", x, drop);
            let x = p.bind("sequence_output", x);
            p.linear("classifier", x)
        }
        _ => x,
    })
}

/// `modeling_albert.py`: all layers of a group are one.
pub(super) fn albert(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let width = c.count(&["hidden_size"], 4096)?;
    let narrow = c.count(&["embedding_size"], 128)?;
    let hidden = c.count(&["intermediate_size"], 16384)?;
    let layers = c.layers(&["num_hidden_layers"], 12)?;
    let groups = c.layers(&["num_hidden_groups"], 1)?;
    let inner = c.layers(&["inner_group_num"], 1)?;
    let heads = c.count(&["num_attention_heads"], 64)?;
    let drop = c.number(&["hidden_dropout_prob"], 0.0);
    let act = Act::of(c, &["hidden_act"], Act::NewGelu)?;
    let bert = Bert {
        kin: Kin::Bert,
        width,
        narrow,
        layers,
        head_width: c.divide(width, heads, "num_attention_heads and hidden_size")?,
        hidden,
        vocab: c.count(&["vocab_size"], 30000)?,
        length: c.count(&["max_position_embeddings"], 512)?,
        types: c.count(&["type_vocab_size"], 2)?,
        act,
        drop,
        classifier_drop: c.number(&["classifier_dropout_prob"], 0.1),
        labels: labels(c)?,
        attention: Attention {
            implementation: m.implementation,
            heads,
            groups: 1,
            dropout: c.number(&["attention_probs_dropout_prob"], 0.0),
            contiguous: true,
            softcap: false,
        },
    };
    if m.task == Task::TokenClassification {
        return Err(c.fault(
            "architectures",
            "ALBERT is known with ForMaskedLM, ForSequenceClassification and bare",
        ));
    }
    let tokens = m.tokens("input_ids", bert.length);
    let base = m.base("albert");
    let task = m.task;
    let pools = !matches!(task, Task::MaskedLm | Task::Answers);
    let p = &mut m.program;
    p.within(base, |p| {
        bert.new_embeddings(p);
        p.within("encoder", |p| {
            p.new_linear("embedding_hidden_mapping_in", narrow, width, true);
            for group in 0..groups {
                for layer in 0..inner {
                    p.within(&format!("albert_layer_groups.{group}.albert_layers.{layer}"), |p| {
                        p.new_norm("full_layer_layer_norm", width, true);
                        p.within("attention", |p| {
                            for name in ["query", "key", "value", "dense"] {
                                p.new_linear(name, width, width, true);
                            }
                            p.new_norm("LayerNorm", width, true);
                        });
                        p.new_linear("ffn", width, hidden, true);
                        p.new_linear("ffn_output", hidden, width, true);
                    });
                }
            }
        });
        if pools {
            p.new_linear("pooler", width, width, true);
        }
    });
    match task {
        Task::MaskedLm => p.within("predictions", |p| {
            p.parameter("bias", &[bert.vocab]);
            p.new_norm("LayerNorm", narrow, true);
            p.new_linear("dense", width, narrow, true);
            p.tie("decoder.weight", "albert.embeddings.word_embeddings.weight");
            p.tie("decoder.bias", "predictions.bias");
        }),
        Task::Classification => p.new_linear("classifier", width, bert.labels, true),
        _ => {}
    }
    let mut pooled = None;
    let x = p.module(base, |p| {
        let x = p.module("embeddings", |p| bert.embeddings(p, tokens));
        let x = p.bind("embedding_output", x);
        let x = p.module("encoder", |p| {
            let x = p.linear("embedding_hidden_mapping_in", x);
            let mut x = p.bind("hidden_states", x);
            for layer in 0..layers {
                let group = layer.saturating_mul(groups).checked_div(layers).unwrap_or(0);
                let y = p.module(&format!("albert_layer_groups.{group}"), |p| {
                    let mut y = x;
                    for layer in 0..inner {
                        y = p
                            .module(&format!("albert_layers.{layer}"), |p| bert.shared_layer(p, y));
                        y = p.bind("hidden_states", y);
                    }
                    y
                });
                x = p.bind("hidden_states", y);
            }
            x
        });
        let x = p.bind("sequence_output", x);
        if pools {
            let first = p.select(x, 1, 0);
            let y = p.linear("pooler", first);
            let y = Act::Tanh.call(p, "pooler_activation", y);
            pooled = Some(p.bind("pooled_output", y));
        }
        x
    });
    let x = p.bind("sequence_outputs", x);
    Ok(match (task, pooled) {
        (Task::MaskedLm, _) => p.module("predictions", |p| {
            let x = p.linear("dense", x);
            let x = p.bind("hidden_states", x);
            let x = act.call(p, "activation", x);
            let x = p.bind("hidden_states", x);
            let x = p.layer_norm("LayerNorm", x);
            let x = p.bind("hidden_states", x);
            let x = p.linear("decoder", x);
            p.bind("hidden_states", x)
        }),
        (Task::Classification, Some(pooled)) => {
            let pooled = p.dropout("dropout", pooled, bert.classifier_drop);
            let pooled = p.bind("pooled_output", pooled);
            p.linear("classifier", pooled)
        }
        _ => x,
    })
}

impl Bert {
    /// `AlbertLayer`.
    fn shared_layer(&self, p: &mut Program, x: Tensor) -> Tensor {
        let y = p.module("attention", |p| {
            let q =
                project(p, ["query", "query_layer"], x, [self.attention.heads, self.head_width]);
            let k = project(p, ["key", "key_layer"], x, [self.attention.heads, self.head_width]);
            let v =
                project(p, ["value", "value_layer"], x, [self.attention.heads, self.head_width]);
            let y = self.attention.run(p, [q, k, v], None);
            let y = p.bind("attn_output", y);
            let y = rows(p, y, self.width);
            let y = p.bind("attn_output", y);
            let y = p.linear("dense", y);
            let y = p.bind("attn_output", y);
            let y = p.dropout("output_dropout", y, self.drop);
            let y = p.bind("attn_output", y);
            let sum = p.add(x, y);
            let y = p.layer_norm("LayerNorm", sum);
            p.bind("attn_output", y)
        });
        let y = p.bind("attention_output", y);
        let h = p.function(|p| {
            let h = p.linear("ffn", y);
            let h = p.bind("ffn_output", h);
            let h = self.act.call(p, "activation", h);
            let h = p.bind("ffn_output", h);
            let h = p.linear("ffn_output", h);
            p.bind("ffn_output", h)
        });
        let h = p.bind("ffn_output", h);
        let sum = p.add(h, y);
        let y = p.layer_norm("full_layer_layer_norm", sum);
        p.bind("hidden_states", y)
    }
}
