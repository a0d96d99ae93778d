//! Models that read pictures: `ViT`, `DeiT` and `ConvNeXt`.
#![expect(
    clippy::too_many_lines,
    reason = "a family is read beside the file of transformers that it follows, from top to end"
)]

use super::model::{Model, Task, labels};
use super::parts::{Act, Attention, by_head, rows};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::graph::Attribute;

/// `nn.Conv2d` in the module that runs, with a square window.
pub(super) fn convolution(p: &mut Program, x: Tensor, window: &Window) -> Tensor {
    convolution_over(p, x, window, 2)
}

/// `nn.Conv1d` in the module that runs.
pub(super) fn convolution_1d(p: &mut Program, x: Tensor, window: &Window) -> Tensor {
    convolution_over(p, x, window, 1)
}

fn convolution_over(p: &mut Program, x: Tensor, window: &Window, dims: usize) -> Tensor {
    let inputs: Vec<Tensor> = [x, p.get("weight")].into_iter().chain(p.own("bias")).collect();
    let Window { kernel, stride, padding, groups } = *window;
    let each = |n: u64| Attribute::Ints(vec![signed(n); dims]);
    let pads = std::iter::repeat_n(signed(padding), dims.saturating_mul(2)).collect();
    let attributes = [
        ("kernel_shape", each(kernel)),
        ("strides", each(stride)),
        ("pads", Attribute::Ints(pads)),
        ("dilations", each(1)),
        ("group", Attribute::Int(signed(groups))),
    ];
    let [y] = p.run("Conv", &inputs, &attributes);
    y
}

/// The window of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) kernel: u64,
    pub(super) stride: u64,
    pub(super) padding: u64,
    pub(super) groups: u64,
}

/// A picture's side, channels, and the side of its patches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture {
    pub(super) side: u64,
    pub(super) channels: u64,
    pub(super) patch: u64,
}

impl Picture {
    pub(super) fn of(c: Settings<'_>, [side, patch]: [u64; 2]) -> Result<Self, Error> {
        let side = c.counts(&["image_size"], &[side])?;
        let side = match side.as_slice() {
            [side, rest @ ..] if rest.iter().all(|other| other == side) && *side > 0 => *side,
            _ => return Err(c.fault("image_size", "pictures are taken to be square")),
        };
        Ok(Self {
            side,
            channels: c.count(&["num_channels"], 3)?,
            patch: c.count(&["patch_size"], patch)?,
        })
    }

    /// COUNT: patches on a side.
    pub(super) const fn row(&self) -> u64 {
        match self.side.checked_div(self.patch) {
            Some(row) => row,
            None => 0,
        }
    }

    pub(super) const fn patches(&self) -> u64 {
        self.row().saturating_mul(self.row())
    }

    pub(super) fn new_projection(&self, p: &mut Program, name: &str, width: u64, bias: bool) {
        p.within(name, |p| {
            p.parameter("weight", &[width, self.channels, self.patch, self.patch]);
            if bias {
                p.parameter("bias", &[width]);
            }
        });
    }

    /// `projection(pixel_values).flatten(2).transpose(1, 2)`.
    pub(super) fn embed(&self, p: &mut Program, name: &str, x: Tensor) -> Tensor {
        let window = Window { kernel: self.patch, stride: self.patch, padding: 0, groups: 1 };
        let y = p.module(name, |p| convolution(p, x, &window));
        let y = p.reshape(y, &[0, 0, -1]);
        p.permute(y, &[0, 2, 1])
    }
}

/// `modeling_vit.py`.
pub(super) fn vit(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    picture_encoder(c, m, false)
}

/// `modeling_deit.py`: as `ViT`, with a second token in front.
pub(super) fn deit(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    picture_encoder(c, m, true)
}

fn picture_encoder(c: Settings<'_>, m: &mut Model, distils: bool) -> Result<Tensor, Error> {
    let width = c.count(&["hidden_size"], 768)?;
    let layers = c.layers(&["num_hidden_layers"], 12)?;
    let heads = c.count(&["num_attention_heads"], 12)?;
    let head_width = c.divide(width, heads, "num_attention_heads and hidden_size")?;
    let hidden = c.count(&["intermediate_size"], 3072)?;
    let act = Act::of(c, &["hidden_act"], Act::Gelu)?;
    let drop = c.number(&["hidden_dropout_prob"], 0.0);
    let qkv_bias = c.flag(&["qkv_bias"], true);
    let labels = labels(c)?;
    let picture = Picture::of(c, [224, 16])?;
    let attention = Attention {
        implementation: m.implementation,
        heads,
        groups: 1,
        dropout: c.number(&["attention_probs_dropout_prob"], 0.0),
        contiguous: true,
        softcap: false,
    };
    let pixels = m.numbers("pixel_values", &[picture.channels, picture.side, picture.side]);
    let base = m.base(if distils { "deit" } else { "vit" });
    let task = m.task;
    let p = &mut m.program;
    let tokens = if distils { 2 } else { 1 };
    p.within(base, |p| {
        p.within("embeddings", |p| {
            p.parameter("cls_token", &[1, 1, width]);
            if distils {
                p.parameter("distillation_token", &[1, 1, width]);
            }
            let places = picture.patches().saturating_add(tokens);
            p.parameter("position_embeddings", &[1, places, width]);
            p.within("patch_embeddings", |p| picture.new_projection(p, "projection", width, true));
        });
        for layer in 0..layers {
            p.within(&format!("layers.{layer}"), |p| {
                p.within("attention", |p| {
                    for name in ["q_proj", "k_proj", "v_proj"] {
                        p.new_linear(name, width, width, qkv_bias);
                    }
                    p.new_linear("o_proj", width, width, true);
                });
                p.new_norm("layernorm_before", width, true);
                p.new_norm("layernorm_after", width, true);
                p.within("mlp", |p| {
                    p.new_linear("fc1", width, hidden, true);
                    p.new_linear("fc2", hidden, width, true);
                });
            });
        }
        p.new_norm("layernorm", width, true);
        if task == Task::Base {
            p.within("pooler", |p| p.new_linear("dense", width, width, true));
        }
    });
    if task != Task::Base {
        p.new_linear("classifier", width, labels, true);
    }
    let x = p.module(base, |p| {
        let x = p.module("embeddings", |p| {
            let x = p.module("patch_embeddings", |p| picture.embed(p, "projection", pixels));
            let x = p.bind("embeddings", x);
            let (batch, others) = (p.size(pixels, 0), p.ints(&[1, 1]));
            let sizes = p.concat(&[batch, others], 0);
            let mut parts = Vec::new();
            for name in
                ["cls_token", "distillation_token"].into_iter().take(if distils { 2 } else { 1 })
            {
                let token = p.get(name);
                parts.push(p.op("Expand", &[token, sizes]));
            }
            parts.push(x);
            let x = p.concat(&parts, 1);
            let x = p.bind("embeddings", x);
            let places = p.get("position_embeddings");
            let x = p.add(x, places);
            let x = p.bind("embeddings", x);
            let x = p.dropout("dropout", x, drop);
            p.bind("embeddings", x)
        });
        p.bind("embedding_output", x);
        let mut x = p.bind("hidden_states", x);
        for layer in 0..layers {
            let y = p.module(&format!("layers.{layer}"), |p| {
                p.bind("residual", x);
                let y = p.layer_norm("layernorm_before", x);
                let y = p.bind("hidden_states", y);
                let y = p.module("attention", |p| {
                    let q = p.linear("q_proj", y);
                    let q = by_head(p, q, heads, head_width);
                    p.bind("query_states", q);
                    let k = p.linear("k_proj", y);
                    let k = by_head(p, k, heads, head_width);
                    p.bind("key_states", k);
                    let v = p.linear("v_proj", y);
                    let v = by_head(p, v, heads, head_width);
                    p.bind("value_states", v);
                    let y = attention.run(p, [q, k, v], None);
                    let y = p.bind("attn_output", y);
                    let y = rows(p, y, width);
                    let y = p.bind("attn_output", y);
                    let y = p.linear("o_proj", y);
                    p.bind("attn_output", y)
                });
                let y = p.bind("hidden_states", y);
                let y = p.dropout("dropout", y, drop);
                let y = p.bind("hidden_states", y);
                let x = p.add(y, x);
                let x = p.bind("hidden_states", x);
                p.bind("residual", x);
                let y = p.layer_norm("layernorm_after", x);
                let y = p.bind("hidden_states", y);
                let y = p.module("mlp", |p| {
                    let y = p.linear("fc1", y);
                    let y = p.bind("hidden_states", y);
                    let y = act.call(p, "activation_fn", y);
                    let y = p.bind("hidden_states", y);
                    let y = p.linear("fc2", y);
                    p.bind("hidden_states", y)
                });
                let y = p.bind("hidden_states", y);
                let y = p.dropout("dropout", y, drop);
                let y = p.bind("hidden_states", y);
                let x = p.add(y, x);
                p.bind("hidden_states", x)
            });
            x = p.bind("hidden_states", y);
        }
        let x = p.layer_norm("layernorm", x);
        let x = p.bind("sequence_output", x);
        if task != Task::Base {
            return x;
        }
        p.module("pooler", |p| {
            let first = p.select(x, 1, 0);
            let first = p.bind("first_token_tensor", first);
            let y = p.linear("dense", first);
            let y = p.bind("pooled_output", y);
            Act::Tanh.call(p, "activation", y)
        })
    });
    if task == Task::Base {
        return Ok(x);
    }
    let x = p.bind("sequence_output", x);
    let first = p.select(x, 1, 0);
    let first = p.bind("pooled_output", first);
    Ok(p.linear("classifier", first))
}

/// `modeling_convnext.py`.
pub(super) fn convnext(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let widths = c.counts(&["hidden_sizes"], &[96, 192, 384, 768])?;
    let depths = c.counts(&["depths"], &[3, 3, 9, 3])?;
    let act = Act::of(c, &["hidden_act"], Act::Gelu)?;
    let scales = c.number(&["layer_scale_init_value"], 1e-6) > 0.0;
    let drops = c.number(&["drop_path_rate"], 0.0) > 0.0;
    let labels = labels(c)?;
    let picture = Picture::of(c, [224, 4])?;
    let (Some(&first), Some(&last)) = (widths.first(), widths.last()) else {
        return Err(c.fault("hidden_sizes", "a width for each stage"));
    };
    if widths.len() != depths.len() || widths.contains(&0) || depths.iter().any(|&n| n > 256) {
        return Err(c.fault("depths", "a number of layers for each of `hidden_sizes`"));
    }
    let pixels = m.numbers("pixel_values", &[picture.channels, picture.side, picture.side]);
    let base = m.base("convnext");
    let task = m.task;
    let p = &mut m.program;
    p.within(base, |p| {
        p.within("embeddings", |p| {
            picture.new_projection(p, "patch_embeddings", first, true);
            p.new_norm("layernorm", first, true);
        });
        let mut before = first;
        for (stage, (&width, &depth)) in widths.iter().zip(&depths).enumerate() {
            p.within(&format!("encoder.stages.{stage}"), |p| {
                if stage > 0 {
                    p.new_norm("downsampling_layer.0", before, true);
                    p.within("downsampling_layer.1", |p| {
                        p.parameter("weight", &[width, before, 2, 2]);
                        p.parameter("bias", &[width]);
                    });
                }
                for layer in 0..depth {
                    p.within(&format!("layers.{layer}"), |p| {
                        if scales {
                            p.parameter("layer_scale_parameter", &[width]);
                        }
                        p.within("dwconv", |p| {
                            p.parameter("weight", &[width, 1, 7, 7]);
                            p.parameter("bias", &[width]);
                        });
                        p.new_norm("layernorm", width, true);
                        p.new_linear("pwconv1", width, width.saturating_mul(4), true);
                        p.new_linear("pwconv2", width.saturating_mul(4), width, true);
                    });
                }
            });
            before = width;
        }
        p.new_norm("layernorm", last, true);
    });
    if task != Task::Base {
        p.new_linear("classifier", last, labels, true);
    }
    // The norm of `channels_first`.
    let norm_first = |p: &mut Program, name: &str, x: Tensor| {
        p.module(name, |p| {
            let x = p.permute(x, &[0, 2, 3, 1]);
            let x = p.bind("features", x);
            let inputs: Vec<Tensor> =
                [x, p.get("weight")].into_iter().chain(p.own("bias")).collect();
            let y = p.with("LayerNormalization", &inputs, "axis", -1);
            let y = p.bind("features", y);
            let y = p.permute(y, &[0, 3, 1, 2]);
            p.bind("features", y)
        })
    };
    let layer = |p: &mut Program, x: Tensor, width: u64| {
        p.bind("residual", x);
        let window = Window { kernel: 7, stride: 1, padding: 3, groups: width };
        let y = p.module("dwconv", |p| convolution(p, x, &window));
        let y = p.bind("features", y);
        let y = p.permute(y, &[0, 2, 3, 1]);
        let y = p.bind("features", y);
        let y = p.layer_norm("layernorm", y);
        let y = p.bind("features", y);
        let y = p.linear("pwconv1", y);
        let y = p.bind("features", y);
        let y = act.call(p, "act", y);
        let y = p.bind("features", y);
        let y = p.linear("pwconv2", y);
        let mut y = p.bind("features", y);
        if scales {
            let scale = p.get("layer_scale_parameter");
            y = p.mul(scale, y);
            y = p.bind("features", y);
        }
        let y = p.permute(y, &[0, 3, 1, 2]);
        let mut y = p.bind("features", y);
        if drops {
            y = p.module("drop_path", |p| p.op("torch.DropPath", &[y]));
        }
        let y = p.add(x, y);
        p.bind("features", y)
    };
    let x = p.module(base, |p| {
        let x = p.module("embeddings", |p| {
            let window =
                Window { kernel: picture.patch, stride: picture.patch, padding: 0, groups: 1 };
            let x = p.module("patch_embeddings", |p| convolution(p, pixels, &window));
            let x = p.bind("embeddings", x);
            let x = norm_first(p, "layernorm", x);
            p.bind("embeddings", x)
        });
        let x = p.bind("embedding_output", x);
        let x = p.module("encoder", |p| {
            let mut x = x;
            for (stage, (&width, &depth)) in widths.iter().zip(&depths).enumerate() {
                let y = p.module(&format!("stages.{stage}"), |p| {
                    let mut x = x;
                    if stage > 0 {
                        x = norm_first(p, "downsampling_layer.0", x);
                        x = p.bind("features", x);
                        let window = Window { kernel: 2, stride: 2, padding: 0, groups: 1 };
                        x = p.module("downsampling_layer.1", |p| convolution(p, x, &window));
                        x = p.bind("features", x);
                    }
                    for index in 0..depth {
                        x = p.module(&format!("layers.{index}"), |p| layer(p, x, width));
                        x = p.bind("features", x);
                    }
                    x
                });
                x = p.bind("hidden_states", y);
            }
            x
        });
        let x = p.bind("last_hidden_state", x);
        let axes = p.ints(&[-2, -1]);
        let mean = p.with("ReduceMean", &[x, axes], "keepdims", 0);
        let y = p.layer_norm("layernorm", mean);
        p.bind("pooled_output", y)
    });
    if task == Task::Base {
        return Ok(x);
    }
    let x = p.bind("pooled_output", x);
    Ok(p.linear("classifier", x))
}
