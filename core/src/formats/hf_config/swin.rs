//! Swin: attention within windows, which every other layer shifts.

use super::model::{Model, Task, labels};
use super::parts::{Act, Attention, by_head, rows};
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use super::vision::Picture;
use crate::error::Error;
use crate::graph::Attribute;
use crate::tensor::DType;

/// Sizes of the model.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of the configuration's")]
struct Swin {
    picture: Picture,
    stages: Vec<Stage>,
    window: u64,
    qkv_bias: bool,
    absolute: bool,
    act: Act,
    drop: f64,
    drops_paths: bool,
    labels: u64,
}

/// `SwinStage`.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// Patches on a side.
    side: u64,
    width: u64,
    hidden: u64,
    layers: u64,
    head_width: u64,
    attention: Attention,
    /// Layers in the stages before.
    before: u64,
    /// Whether a stage comes behind it.
    merges: bool,
}

/// `modeling_swin.py`.
pub(super) fn swin(c: Settings<'_>, m: &mut Model) -> Result<Tensor, Error> {
    let swin = Swin::of(c, m)?;
    let Picture { channels, side, .. } = swin.picture;
    let pixels = m.numbers("pixel_values", &[channels, side, side]);
    let base = m.base("swin");
    let classifies = m.task != Task::Base;
    let p = &mut m.program;
    p.within(base, |p| swin.register(p));
    if classifies {
        p.new_linear("classifier", swin.last_width(), swin.labels, true);
    }
    let [states, pooled] = p.module(base, |p| swin.forward(p, pixels));
    if !classifies {
        return Ok(pooled);
    }
    p.bind("outputs", states);
    let pooled = p.bind("pooled_output", pooled);
    Ok(p.linear("classifier", pooled))
}

impl Swin {
    fn of(c: Settings<'_>, m: &Model) -> Result<Self, Error> {
        let picture = Picture::of(c, [224, 4])?;
        let width = c.count(&["embed_dim"], 96)?;
        let depths = c.counts(&["depths"], &[2, 2, 6, 2])?;
        let heads = c.counts(&["num_heads", "num_attention_heads"], &[3, 6, 12, 24])?;
        let window = c.count(&["window_size"], 7)?;
        let halves = halves(c, "mlp_ratio", 8)?;
        if depths.len() != heads.len() || depths.is_empty() || depths.len() > 8 {
            return Err(c.fault("num_heads", "a number of heads for each of `depths`"));
        }
        let mut side = picture.row();
        let (mut width, mut before) = (width, 0_u64);
        let mut stages = Vec::new();
        for (index, (&layers, &heads)) in depths.iter().zip(&heads).enumerate() {
            if side < window || layers > 256 {
                return Err(c.fault(
                    "depths",
                    "windows have to fit into what each stage is given, and 256 layers into a stage",
                ));
            }
            let attention = Attention {
                implementation: m.implementation,
                heads,
                groups: 1,
                dropout: c.number(&["attention_probs_dropout_prob"], 0.0),
                contiguous: true,
                softcap: false,
            };
            stages.push(Stage {
                side,
                width,
                hidden: width.saturating_mul(halves).div_euclid(2),
                layers,
                head_width: c.divide(width, heads, "num_heads and the width of a stage")?,
                attention,
                before,
                merges: index.saturating_add(1) < depths.len(),
            });
            before = before.saturating_add(layers);
            (side, width) = (side.div_ceil(2), width.saturating_mul(2));
        }
        Ok(Self {
            picture,
            stages,
            window,
            qkv_bias: c.flag(&["qkv_bias"], true),
            absolute: c.flag(&["use_absolute_embeddings"], false),
            act: Act::of(c, &["hidden_act"], Act::Gelu)?,
            drop: c.number(&["hidden_dropout_prob"], 0.0),
            drops_paths: c.number(&["drop_path_rate"], 0.1) > 0.0,
            labels: labels(c)?,
        })
    }

    fn first_width(&self) -> u64 {
        self.stages.first().map_or(1, |stage| stage.width)
    }

    fn last_width(&self) -> u64 {
        self.stages.last().map_or(1, |stage| stage.width)
    }

    /// COUNT: places in a window.
    const fn area(&self) -> u64 {
        self.window.saturating_mul(self.window)
    }

    fn register(&self, p: &mut Program) {
        let width = self.first_width();
        p.within("embeddings", |p| {
            if self.absolute {
                p.parameter("position_embeddings", &[1, self.picture.patches(), width]);
            }
            p.within("patch_embeddings", |p| {
                self.picture.new_projection(p, "projection", width, true);
            });
            p.new_norm("norm", width, true);
        });
        for (index, stage) in self.stages.iter().enumerate() {
            p.within(&format!("encoder.layers.{index}"), |p| self.new_stage(p, stage));
        }
        p.new_norm("layernorm", self.last_width(), true);
    }

    fn new_stage(&self, p: &mut Program, stage: &Stage) {
        let width = stage.width;
        let distances = self.window.saturating_mul(2).saturating_sub(1);
        for layer in 0..stage.layers {
            p.within(&format!("blocks.{layer}"), |p| {
                p.within("attention", |p| {
                    for name in ["q_proj", "k_proj", "v_proj"] {
                        p.new_linear(name, width, width, self.qkv_bias);
                    }
                    p.new_linear("o_proj", width, width, true);
                    p.within("relative_position_bias", |p| {
                        let rows = distances.saturating_mul(distances);
                        let heads = stage.attention.heads;
                        p.parameter("relative_position_bias_table", &[rows, heads]);
                        let places = self.area().saturating_mul(self.area());
                        p.buffer("relative_position_index", DType::Int64, &[places]);
                    });
                });
                p.new_norm("layernorm_before", width, true);
                p.new_norm("layernorm_after", width, true);
                p.within("mlp", |p| {
                    p.new_linear("fc1", width, stage.hidden, true);
                    p.new_linear("fc2", stage.hidden, width, true);
                });
            });
        }
        if stage.merges {
            p.within("downsample", |p| {
                let four = width.saturating_mul(4);
                p.new_linear("reduction", four, width.saturating_mul(2), false);
                p.new_norm("norm", four, true);
            });
        }
    }

    /// The last states, and their mean.
    fn forward(&self, p: &mut Program, pixels: Tensor) -> [Tensor; 2] {
        let x = p.module("embeddings", |p| {
            let x = p.module("patch_embeddings", |p| self.picture.embed(p, "projection", pixels));
            let x = p.bind("embeddings", x);
            let x = p.layer_norm("norm", x);
            let mut x = p.bind("embeddings", x);
            if self.absolute {
                let places = p.get("position_embeddings");
                x = p.add(x, places);
                x = p.bind("embeddings", x);
            }
            let x = p.dropout("dropout", x, self.drop);
            p.bind("embeddings", x)
        });
        let x = p.bind("embedding_output", x);
        let x = p.module("encoder", |p| {
            let mut x = x;
            for (index, stage) in self.stages.iter().enumerate() {
                let name = format!("layers.{index}");
                let [y, picture] = p.module(&name, |p| self.stage(p, stage, x));
                x = p.bind("hidden_states", y);
                p.bind("reshaped_hidden_state", picture);
            }
            x
        });
        let x = p.layer_norm("layernorm", x);
        let x = p.bind("sequence_output", x);
        let turned = p.permute(x, &[0, 2, 1]);
        let axes = p.ints(&[-1]);
        let mean = p.with("ReduceMean", &[turned, axes], "keepdims", 1);
        let mean = p.bind("pooled_output", mean);
        let mean = p.with("Flatten", &[mean], "axis", 1);
        [x, p.bind("pooled_output", mean)]
    }

    /// `SwinStage.forward`: its states, and the same as a picture.
    fn stage(&self, p: &mut Program, stage: &Stage, x: Tensor) -> [Tensor; 2] {
        let mut x = x;
        for layer in 0..stage.layers {
            let y = p.module(&format!("blocks.{layer}"), |p| self.layer(p, stage, layer, x));
            x = p.bind("hidden_states", y);
        }
        let (mut side, mut width) = (stage.side, stage.width);
        p.bind("hidden_states_before_downsampling", x);
        if stage.merges {
            let y = p.module("downsample", |p| merge(p, x, side, width));
            x = p.bind("hidden_states", y);
            (side, width) = (side.div_ceil(2), width.saturating_mul(2));
        }
        let picture = p.reshape(x, &[0, signed(side), signed(side), signed(width)]);
        let picture = p.permute(picture, &[0, 3, 1, 2]);
        let picture = p.op("torch.Contiguous", &[picture]);
        [x, p.bind("reshaped_hidden_states", picture)]
    }

    /// `SwinLayer.forward`.
    fn layer(&self, p: &mut Program, stage: &Stage, layer: u64, input: Tensor) -> Tensor {
        let (side, width, window) = (stage.side, stage.width, self.window);
        // Where one window is the whole picture nothing is shifted.
        let shifts = layer % 2 == 1 && side > window && window > 1;
        p.bind("shortcut", input);
        let x = p.layer_norm("layernorm_before", input);
        let x = p.bind("hidden_states", x);
        let x = p.reshape(x, &[0, signed(side), signed(side), signed(width)]);
        let x = p.bind("hidden_states", x);
        let padded = side.next_multiple_of(window);
        let missing = signed(padded.saturating_sub(side));
        let pads = p.ints(&[0, 0, 0, 0, 0, missing, missing, 0]);
        let x = p.op("Pad", &[x, pads]);
        let x = p.bind("hidden_states", x);
        let rolled = if shifts { roll(p, x) } else { x };
        let windows = p.function(|p| partitioned(p, rolled, padded, window, width));
        let windows = p.reshape(windows, &[-1, signed(self.area()), signed(width)]);
        let windows = p.bind("hidden_states_windows", windows);
        let mask = shifts.then(|| {
            let mask = p.function(|p| self.mask(p, x, padded));
            p.bind("attn_mask", mask)
        });
        let y = p.module("attention", |p| self.attention(p, stage, [windows, x], mask, padded));
        let y = p.bind("attention_output", y);
        let y = p.dropout("dropout", y, self.drop);
        let y = p.bind("attention_output", y);
        let y = p.function(|p| {
            let n = signed(padded.checked_div(window).unwrap_or(1));
            let y = p.reshape(y, &[-1, n, n, signed(window), signed(window), signed(width)]);
            let y = p.bind("windows", y);
            let y = p.permute(y, &[0, 1, 3, 2, 4, 5]);
            let y = p.op("torch.Contiguous", &[y]);
            p.reshape(y, &[-1, signed(padded), signed(padded), signed(width)])
        });
        let y = if shifts { roll(p, y) } else { y };
        let mut y = p.bind("attention_windows", y);
        if padded > side {
            let cut = p.slice(y, 1, 0, signed(side));
            let cut = p.slice(cut, 2, 0, signed(side));
            y = p.op("torch.Contiguous", &[cut]);
            y = p.bind("attention_windows", y);
        }
        let y = p.reshape(y, &[0, -1, signed(width)]);
        let mut y = p.bind("attention_windows", y);
        if self.drops_paths && stage.before.saturating_add(layer) > 0 {
            y = p.module("drop_path", |p| p.op("torch.DropPath", &[y]));
        }
        let x = p.add(input, y);
        let x = p.bind("hidden_states", x);
        p.bind("residual", x);
        let y = p.layer_norm("layernorm_after", x);
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
        let y = p.dropout("dropout", y, self.drop);
        let x = p.add(y, x);
        p.bind("hidden_states", x)
    }

    /// `get_attn_mask`: which places of a shifted window were neighbours before, `[windows, area, area]`.
    fn mask(&self, p: &mut Program, x: Tensor, side: u64) -> Tensor {
        let mut regions = [("h_idx", "h_region", 1), ("w_idx", "w_region", 2)].map(|names| {
            let (index, _, axis) = names;
            let range = p.with("torch.Arange", &[x], "axis", axis);
            (p.bind(index, range), names)
        });
        for (range, (_, name, _)) in &mut regions {
            let number = p.int(1);
            let mut beyond = || {
                let beyond = p.op("GreaterOrEqual", &[*range, number]);
                p.with("Cast", &[beyond], "to", 7)
            };
            let (windows, shifts) = (beyond(), beyond());
            let region = p.add(windows, shifts);
            *range = p.bind(name, region);
        }
        let [(rows, _), (columns, _)] = regions;
        let (three, axes) = (p.int(3), p.ints(&[0, 2, 3]));
        let rows = p.op("Unsqueeze", &[rows, axes]);
        let rows = p.mul(rows, three);
        let axes = p.ints(&[0, 1, 3]);
        let columns = p.op("Unsqueeze", &[columns, axes]);
        let image = p.add(rows, columns);
        let image = p.float(image);
        let image = p.bind("img_mask", image);
        let windows = p.function(|p| partitioned(p, image, side, self.window, 1));
        let windows = p.reshape(windows, &[-1, signed(self.area())]);
        let windows = p.bind("mask_windows", windows);
        let (across, along) = (p.unsqueeze(windows, 1), p.unsqueeze(windows, 2));
        let mask = p.op("Sub", &[across, along]);
        let mask = p.bind("attn_mask", mask);
        let zero = p.number();
        let apart = p.op("Equal", &[mask, zero]);
        let filled = p.op("torch.MaskedFill", &[mask, apart]);
        let near = p.op("Equal", &[mask, zero]);
        let filled = p.op("torch.MaskedFill", &[filled, near]);
        p.bind("attn_mask", filled)
    }

    /// `SwinAttention.forward` of windows; the second tensor has the batch.
    fn attention(
        &self,
        p: &mut Program,
        stage: &Stage,
        [x, batched]: [Tensor; 2],
        mask: Option<Tensor>,
        side: u64,
    ) -> Tensor {
        let Stage { attention, head_width, width, .. } = *stage;
        let mut states = |projection: &str, name: &'static str| {
            let y = p.linear(projection, x);
            let y = by_head(p, y, attention.heads, head_width);
            p.bind(name, y)
        };
        let q = states("q_proj", "query_states");
        let k = states("k_proj", "key_states");
        let v = states("v_proj", "value_states");
        let area = signed(self.area());
        let bias = p.module("relative_position_bias", |p| {
            let (table, index) =
                (p.get("relative_position_bias_table"), p.get("relative_position_index"));
            let bias = p.op("torch.TableRows", &[table, index]);
            let bias = p.bind("relative_position_bias", bias);
            let bias = p.reshape(bias, &[area, area, -1]);
            let bias = p.bind("relative_position_bias", bias);
            let bias = p.permute(bias, &[2, 0, 1]);
            let bias = p.op("torch.Contiguous", &[bias]);
            p.unsqueeze(bias, 0)
        });
        let bias = p.bind("relative_position_bias", bias);
        let combined = match mask {
            Some(mask) => {
                let row = side.checked_div(self.window).unwrap_or(1);
                let windows = signed(row.saturating_mul(row));
                let mask = p.reshape(mask, &[1, windows, 1, area, area]);
                let (batch, others) = (p.size(batched, 0), p.ints(&[windows, 1, area, area]));
                let sizes = p.concat(&[batch, others], 0);
                let mask = p.op("Expand", &[mask, sizes]);
                let mask = p.reshape(mask, &[-1, 1, area, area]);
                let mask = p.bind("attention_mask", mask);
                p.add(bias, mask)
            }
            None => bias,
        };
        let combined = p.bind("combined_mask", combined);
        let y = attention.run(p, [q, k, v], Some(combined));
        let y = p.bind("attn_output", y);
        let y = rows(p, y, width);
        let y = p.bind("attn_output", y);
        let y = p.linear("o_proj", y);
        p.bind("attn_output", y)
    }
}

/// `window_partition` of a picture `[N, side, side, width]`.
fn partitioned(p: &mut Program, x: Tensor, side: u64, window: u64, width: u64) -> Tensor {
    let (n, window) = (signed(side.checked_div(window).unwrap_or(1)), signed(window));
    let x = p.reshape(x, &[0, n, window, n, window, signed(width)]);
    let x = p.bind("input_feature", x);
    let x = p.permute(x, &[0, 1, 3, 2, 4, 5]);
    let x = p.op("torch.Contiguous", &[x]);
    let x = p.reshape(x, &[-1, window, window, signed(width)]);
    p.bind("windows", x)
}

/// `cyclic_shift`, along both sides of a picture.
fn roll(p: &mut Program, x: Tensor) -> Tensor {
    let [y] = p.run("torch.Roll", &[x], &[("dims", Attribute::Int(2))]);
    y
}

/// `SwinPatchMerging.forward`.
fn merge(p: &mut Program, x: Tensor, side: u64, width: u64) -> Tensor {
    let (sides, width) = (signed(side), signed(width));
    let x = p.reshape(x, &[0, sides, sides, width]);
    let mut x = p.bind("input_feature", x);
    if side % 2 == 1 {
        let pads = p.ints(&[0, 0, 0, 0, 0, 1, 1, 0]);
        x = p.op("Pad", &[x, pads]);
        x = p.bind("input_feature", x);
    }
    let mut parts = Vec::new();
    for (row, column) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let [starts, ends, axes, steps] =
            [[row, column], [i64::MAX; 2], [1, 2], [2, 2]].map(|list| p.ints(&list));
        parts.push(p.op("Slice", &[x, starts, ends, axes, steps]));
    }
    let joined = p.concat(&parts, -1);
    let joined = p.bind("input_feature", joined);
    let joined = p.reshape(joined, &[0, -1, width.saturating_mul(4)]);
    let joined = p.bind("input_feature", joined);
    let x = p.layer_norm("norm", joined);
    let x = p.bind("input_feature", x);
    let x = p.linear("reduction", x);
    p.bind("input_feature", x)
}

/// COUNT: halves in a factor, of which there have to be whole ones.
fn halves(c: Settings<'_>, name: &str, usual: u64) -> Result<u64, Error> {
    const KNOWN: [(f64, u64); 7] =
        [(1.0, 2), (1.5, 3), (2.0, 4), (2.5, 5), (3.0, 6), (3.5, 7), (4.0, 8)];
    if !c.has(name) {
        return Ok(usual);
    }
    if let Ok(Some(n)) = c.maybe(&[name]) {
        return Ok(n.saturating_mul(2));
    }
    let stated = c.number(&[name], 0.0).to_bits();
    let found = KNOWN.iter().find(|(factor, _)| factor.to_bits() == stated);
    found.map(|&(_, n)| n).ok_or_else(|| c.fault(name, "known are halves, from 1.0 to 4.0"))
}
