//! The layers that a spec may name, one row each: name, PyTorch's class, arguments, and what runs.
//!
//! A row is all there is to say of a layer. Names are read without case, `_` and `nn.`, so that
//! `Conv2d`, `conv2d` and `nn.Conv2d` are one; arguments have PyTorch's names, and short ones.

use super::lower::{Args, Lowering, Tensor, blocks, layers};
use crate::error::Error;

/// A layer: one row of the table.
#[derive(Debug)]
pub struct Kind {
    /// Name in a spec: `conv2d`.
    pub name: &'static str,
    /// Further names.
    pub aliases: &'static [&'static str],
    /// The class of PyTorch that it stands for, `nn.Conv2d`; empty where it is an idiom and no class.
    pub class: &'static str,
    /// What it is: one line without a full stop.
    pub about: &'static str,
    /// Arguments, in the order in which they may be given as a list.
    pub arguments: &'static [Argument],
    /// Adds what it runs to a graph.
    pub(super) lower: Rule,
}

/// Adds the nodes of a layer to a graph.
pub(super) type Rule = fn(&mut Lowering<'_>, &Args<'_>, &Tensor) -> Result<Tensor, Error>;

/// An argument of a layer.
#[derive(Debug)]
pub struct Argument {
    /// Name: PyTorch's, where it has one.
    pub name: &'static str,
    /// Shorter names.
    pub aliases: &'static [&'static str],
    /// What it may be.
    pub takes: Takes,
    /// What it is where nobody says.
    pub default: Default,
    /// What it is for: no full stop.
    pub about: &'static str,
}

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// A number from 1.
    Count,
    /// A number from 0, or one for each dimension.
    Counts,
    /// Padding: as [`Takes::Counts`], or `same`.
    Padding,
    /// A dimension, counted from the back if negative.
    Index,
    /// Numbers that may be negative.
    Ints,
    /// `true` or `false`.
    Flag,
    /// A number from 0 to 1.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name of an earlier layer.
    Name,
}

/// What an argument is where nobody says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// It has to be said.
    Needed,
    /// It follows from something else: in words.
    Derived(&'static str),
    /// A number.
    Int(i64),
    /// A share.
    Share(f64),
    /// Whether.
    Flag(bool),
    /// A word.
    Word(&'static str),
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Int(i64),
    /// Several.
    Ints(Vec<i64>),
    /// A number with a fraction.
    Number(f64),
    /// Whether.
    Flag(bool),
    /// A word or a name.
    Word(String),
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),+) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}
value_from!(i64 => Int, Vec<i64> => Ints, f64 => Number, bool => Flag, &str => Word, String => Word);

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// SIZE: the largest number in a spec.
const LARGEST: i64 = 1 << 31;

impl Argument {
    /// The value, if this argument may be that.
    pub(super) fn accept(&self, value: Value) -> Result<Value, String> {
        let expected = || {
            let name = self.name;
            match self.takes {
                Takes::Count => format!("`{name}` is a whole number from 1"),
                Takes::Counts => format!("`{name}` is a whole number, or a list of them"),
                Takes::Padding => format!("`{name}` is a whole number, a list of them, or `same`"),
                Takes::Index => format!("`{name}` is the number of a dimension"),
                Takes::Ints => format!("`{name}` is a list of whole numbers"),
                Takes::Flag => format!("`{name}` is true or false"),
                Takes::Share => format!("`{name}` is a number from 0 to 1"),
                Takes::Word(words) => format!("`{name}` is one of {}", words.join(", ")),
                Takes::Name => format!("`{name}` is the name of an earlier layer"),
            }
        };
        let sizes = |list: &[i64]| {
            !list.is_empty() && list.len() <= 8 && list.iter().all(|n| (0..=LARGEST).contains(n))
        };
        let holds = match (self.takes, &value) {
            (Takes::Count, Value::Int(n)) => (1..=LARGEST).contains(n),
            (Takes::Counts | Takes::Padding, Value::Int(n)) => (0..=LARGEST).contains(n),
            (Takes::Counts | Takes::Padding, Value::Ints(list)) => sizes(list),
            (Takes::Padding, Value::Word(word)) => word == "same",
            (Takes::Index, Value::Int(n)) => (-8..8).contains(n),
            (Takes::Ints, Value::Ints(list)) => {
                list.len() <= 8 && list.iter().all(|n| (-8..=LARGEST).contains(n))
            }
            (Takes::Flag, Value::Flag(_)) | (Takes::Name, Value::Word(_)) => true,
            (Takes::Share, Value::Int(n)) => (0..=1).contains(n),
            (Takes::Share, Value::Number(x)) => (0.0..=1.0).contains(x),
            (Takes::Word(words), Value::Word(word)) => {
                let wanted = plain_word(word);
                let known = words.iter().find(|known| plain_word(known) == wanted);
                return known.map(|known| Value::Word((*known).to_owned())).ok_or_else(expected);
            }
            (Takes::Ints, Value::Int(n)) => return Ok(Value::Ints(vec![*n])),
            _ => false,
        };
        if holds { Ok(value) } else { Err(expected()) }
    }
}

impl Kind {
    /// The argument of this name.
    pub(super) fn argument(&self, name: &str) -> Result<&'static Argument, String> {
        let wanted = plain(name);
        let found = self.arguments.iter().find(|argument| {
            plain(argument.name) == wanted || argument.aliases.contains(&wanted.as_str())
        });
        found.ok_or_else(|| {
            let names: Vec<&str> = self.arguments.iter().map(|argument| argument.name).collect();
            let known = match names.as_slice() {
                [] => format!("`{}` takes no arguments", self.name),
                names => format!("it takes {}", names.join(", ")),
            };
            let advice = match name {
                "in_channels" | "in_features" | "num_features" | "normalized_shape"
                | "num_channels" => {
                    "; sizes of what comes in follow from the layer before".to_owned()
                }
                _ => did_you_mean(name, names.iter().copied()),
            };
            format!("`{}` has no argument `{name}`: {known}{advice}", self.name)
        })
    }
}

/// A name without what people vary: case, `_`, `-`, `nn.`.
pub(super) fn plain(name: &str) -> String {
    plain_word(name.rsplit('.').next().unwrap_or(name))
}

/// A word without what people vary in it: case, `_` and `-`.
pub(super) fn plain_word(word: &str) -> String {
    let kept = word.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    kept.take(64).map(|c| c.to_ascii_lowercase()).collect()
}

/// The layer of this name.
pub fn find(name: &str) -> Option<&'static Kind> {
    let wanted = plain(name);
    TABLE.iter().find(|kind| {
        plain(kind.name) == wanted
            || plain(kind.class) == wanted && !kind.class.is_empty()
            || kind.aliases.contains(&wanted.as_str())
    })
}

/// That there is no such layer.
pub(super) fn unknown_layer(name: &str) -> String {
    let names = TABLE.iter().map(|kind| kind.name).chain(STRUCTURES.map(|(name, _)| name));
    let meant = did_you_mean(name, names);
    let name = super::tree::shortened(name);
    if meant.is_empty() {
        return format!("there is no layer `{name}`; docs/spec.md lists all of them");
    }
    format!("there is no layer `{name}`{meant}")
}

/// `; did you mean …?`, where something is near.
pub(super) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let wanted = plain(name);
    let near = known
        .map(|known| (distance(&wanted, &plain(known)), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3).min(3));
    near.min().map_or_else(String::new, |(_, known)| format!("; did you mean `{known}`?"))
}

/// Edits that make one word the other (Levenshtein's distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i.saturating_add(1)];
        for ((y, &diagonal), &above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or(0);
            let replaced = diagonal.saturating_add(usize::from(x != *y));
            next.push(replaced.min(above.saturating_add(1)).min(left.saturating_add(1)));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// Arrangements of layers: name, and what it is.
pub const STRUCTURES: [(&str, &str); 7] = [
    ("sequential", "layers in a row, as one module"),
    ("repeat", "the layers of `block` so many times, each with parameters of its own"),
    (
        "residual",
        "`body(x) + x`, or `body(x) + shortcut(x)` with a `shortcut`; `inplace: true` for `+=`",
    ),
    (
        "branch",
        "several lists of layers that read the same, met by `join` (concat, add, mul) along `dim`",
    ),
    ("concat", "the result before and those of the named layers, along `dim` (1)"),
    ("add", "the result before plus those of the named layers"),
    ("mul", "the result before times those of the named layers"),
];

const NEEDED: Default = Default::Needed;
const NO: Default = Default::Flag(false);
const YES: Default = Default::Flag(true);

const fn arg(
    name: &'static str,
    aliases: &'static [&'static str],
    takes: Takes,
    default: Default,
    about: &'static str,
) -> Argument {
    Argument { name, aliases, takes, default, about }
}

const OUT_CHANNELS: Argument =
    arg("out_channels", &["out"], Takes::Count, NEEDED, "channels that come out");
const KERNEL: Argument =
    arg("kernel_size", &["k", "kernel"], Takes::Counts, NEEDED, "size of the window");
const STRIDE: Argument =
    arg("stride", &["s"], Takes::Counts, Default::Int(1), "step of the window");
const PADDING: Argument =
    arg("padding", &["p", "pad"], Takes::Padding, Default::Int(0), "zeros on each side");
const DILATION: Argument =
    arg("dilation", &["d"], Takes::Counts, Default::Int(1), "distance of the window's elements");
const GROUPS: Argument =
    arg("groups", &["g"], Takes::Count, Default::Int(1), "groups of channels that do not meet");
const BIAS: Argument = arg("bias", &[], Takes::Flag, YES, "whether there is a bias");
const INPLACE: Argument = arg("inplace", &[], Takes::Flag, NO, "whether the input is overwritten");
const CEIL: Argument =
    arg("ceil_mode", &["ceil"], Takes::Flag, NO, "whether a last window may reach beyond the end");

const CONV: &[Argument] = &[OUT_CHANNELS, KERNEL, STRIDE, PADDING, DILATION, GROUPS, BIAS];
const CONV_TRANSPOSE: &[Argument] = &[
    OUT_CHANNELS,
    KERNEL,
    STRIDE,
    arg("padding", &["p", "pad"], Takes::Counts, Default::Int(0), "what is cut off on each side"),
    arg("output_padding", &["op"], Takes::Counts, Default::Int(0), "what is added at the end"),
    DILATION,
    GROUPS,
    BIAS,
];
const POOL_STRIDE: Argument =
    arg("stride", &["s"], Takes::Counts, Default::Derived("as kernel_size"), "step of the window");
const MAX_POOL: &[Argument] = &[
    KERNEL,
    POOL_STRIDE,
    arg("padding", &["p", "pad"], Takes::Counts, Default::Int(0), "padding on each side"),
    DILATION,
    CEIL,
];
const AVERAGE_POOL: &[Argument] = &[
    KERNEL,
    POOL_STRIDE,
    arg("padding", &["p", "pad"], Takes::Counts, Default::Int(0), "zeros on each side"),
    CEIL,
];
const AFFINE: Argument = arg("affine", &[], Takes::Flag, NO, "whether there are weight and bias");
const DIM: Argument = arg("dim", &[], Takes::Index, Default::Int(-1), "dimension along which");
const P: Argument = arg("p", &[], Takes::Share, Default::Share(0.5), "probability");
const SCALE: Argument =
    arg("scale_factor", &["scale"], Takes::Count, NEEDED, "how many times larger");

const HEADS: Argument = arg("num_heads", &["heads"], Takes::Count, NEEDED, "heads of the queries");
const KV_HEADS: Argument = arg(
    "kv_heads",
    &["kvheads", "numkvheads", "numkeyvalueheads"],
    Takes::Count,
    Default::Derived("as num_heads"),
    "heads of keys and values",
);
const HEAD_DIM: Argument = arg(
    "head_dim",
    &["headdim"],
    Takes::Count,
    Default::Derived("width / num_heads"),
    "width of a head",
);
const CAUSAL: Argument = arg("causal", &[], Takes::Flag, NO, "whether later positions are masked");
const WEIGHT_DROPOUT: Argument =
    arg("dropout", &[], Takes::Share, Default::Share(0.0), "dropout of the attention weights");
const ROTARY: Argument =
    arg("rotary", &["rope"], Takes::Flag, NO, "whether queries and keys are rotated");
const NORMS: &[&str] = &["layernorm", "rmsnorm"];
const QK_NORM: Argument = arg(
    "qk_norm",
    &["qknorm"],
    Takes::Word(&["none", "layernorm", "rmsnorm"]),
    Default::Word("none"),
    "norm of queries and keys, by head",
);
const FUSED: Argument = arg(
    "fused_qkv",
    &["fused", "fusedqkv"],
    Takes::Flag,
    YES,
    "whether one layer makes queries, keys and values",
);
const IMPLEMENTATION: Argument = arg(
    "implementation",
    &["impl"],
    Takes::Word(&["sdpa", "eager"]),
    Default::Word("sdpa"),
    "`scaled_dot_product_attention`, or spelled out",
);
const HIDDEN: Argument = arg(
    "hidden",
    &["hiddenfeatures", "intermediatesize", "ff", "dff"],
    Takes::Count,
    Default::Derived("4 * width"),
    "width in between",
);
const ACTIVATIONS: &[&str] =
    &["gelu", "relu", "silu", "tanh", "sigmoid", "leakyrelu", "elu", "hardswish", "mish", "relu6"];
const ACT: Argument =
    arg("act", &["activation"], Takes::Word(ACTIVATIONS), Default::Word("gelu"), "activation");

const fn row(
    name: &'static str,
    class: &'static str,
    about: &'static str,
    arguments: &'static [Argument],
    lower: Rule,
) -> Kind {
    Kind { name, aliases: &[], class, about, arguments, lower }
}

/// All layers, in the order in which people read of them.
pub const TABLE: &[Kind] = &[
    Kind {
        aliases: &["dense", "fc"],
        ..row(
            "linear",
            "nn.Linear",
            "`x @ weight.T + bias` over the last dimension",
            &[
                arg("out_features", &["out"], Takes::Count, NEEDED, "features that come out"),
                BIAS,
                arg(
                    "tie",
                    &[],
                    Takes::Name,
                    Default::Derived("its own weight"),
                    "embedding or linear layer whose weight is used",
                ),
            ],
            layers::linear,
        )
    },
    row("conv1d", "nn.Conv1d", "convolution over `[N, C, L]`", CONV, |l, a, x| {
        layers::conv(l, a, x, 1)
    }),
    row("conv2d", "nn.Conv2d", "convolution over `[N, C, H, W]`", CONV, |l, a, x| {
        layers::conv(l, a, x, 2)
    }),
    row("conv3d", "nn.Conv3d", "convolution over `[N, C, D, H, W]`", CONV, |l, a, x| {
        layers::conv(l, a, x, 3)
    }),
    row(
        "conv_transpose1d",
        "nn.ConvTranspose1d",
        "transposed convolution over `[N, C, L]`",
        CONV_TRANSPOSE,
        |l, a, x| layers::conv_transpose(l, a, x, 1),
    ),
    row(
        "conv_transpose2d",
        "nn.ConvTranspose2d",
        "transposed convolution over `[N, C, H, W]`",
        CONV_TRANSPOSE,
        |l, a, x| layers::conv_transpose(l, a, x, 2),
    ),
    row(
        "conv_transpose3d",
        "nn.ConvTranspose3d",
        "transposed convolution over `[N, C, D, H, W]`",
        CONV_TRANSPOSE,
        |l, a, x| layers::conv_transpose(l, a, x, 3),
    ),
    row(
        "batchnorm1d",
        "nn.BatchNorm1d",
        "batch normalisation of `[N, C]` or `[N, C, L]`",
        &[],
        layers::batch_norm,
    ),
    Kind {
        aliases: &["batchnorm", "bn"],
        ..row(
            "batchnorm2d",
            "nn.BatchNorm2d",
            "batch normalisation of `[N, C, H, W]`",
            &[],
            layers::batch_norm,
        )
    },
    row(
        "batchnorm3d",
        "nn.BatchNorm3d",
        "batch normalisation of `[N, C, D, H, W]`",
        &[],
        layers::batch_norm,
    ),
    row(
        "layernorm",
        "nn.LayerNorm",
        "layer normalisation of the last dimension",
        &[BIAS],
        layers::layer_norm,
    ),
    row(
        "rmsnorm",
        "nn.RMSNorm",
        "root-mean-square normalisation of the last dimension",
        &[],
        layers::rms_norm,
    ),
    row(
        "groupnorm",
        "nn.GroupNorm",
        "group normalisation of `[N, C, …]`",
        &[arg("num_groups", &["groups"], Takes::Count, NEEDED, "groups of channels")],
        layers::group_norm,
    ),
    row(
        "instancenorm1d",
        "nn.InstanceNorm1d",
        "instance normalisation of `[N, C, L]`",
        &[AFFINE],
        layers::instance_norm,
    ),
    row(
        "instancenorm2d",
        "nn.InstanceNorm2d",
        "instance normalisation of `[N, C, H, W]`",
        &[AFFINE],
        layers::instance_norm,
    ),
    row(
        "instancenorm3d",
        "nn.InstanceNorm3d",
        "instance normalisation of `[N, C, D, H, W]`",
        &[AFFINE],
        layers::instance_norm,
    ),
    row("relu", "nn.ReLU", "`max(x, 0)`", &[INPLACE], |l, a, x| {
        layers::activation(l, a, x, "Relu")
    }),
    row("relu6", "nn.ReLU6", "`min(max(x, 0), 6)`", &[INPLACE], |l, a, x| {
        layers::activation(l, a, x, "Clip")
    }),
    Kind {
        aliases: &["lrelu"],
        ..row("leaky_relu", "nn.LeakyReLU", "`max(x, slope * x)`", &[INPLACE], |l, a, x| {
            layers::activation(l, a, x, "LeakyRelu")
        })
    },
    row("prelu", "nn.PReLU", "`leaky_relu` with a trained slope", &[], layers::prelu),
    row("elu", "nn.ELU", "exponential linear unit", &[INPLACE], |l, a, x| {
        layers::activation(l, a, x, "Elu")
    }),
    row("selu", "nn.SELU", "scaled exponential linear unit", &[INPLACE], |l, a, x| {
        layers::activation(l, a, x, "Selu")
    }),
    row(
        "celu",
        "nn.CELU",
        "continuously differentiable exponential linear unit",
        &[INPLACE],
        |l, a, x| layers::activation(l, a, x, "Celu"),
    ),
    row(
        "gelu",
        "nn.GELU",
        "Gaussian error linear unit",
        &[arg(
            "approximate",
            &[],
            Takes::Word(&["none", "tanh"]),
            Default::Word("none"),
            "how it is computed, which changes no memory",
        )],
        |l, a, x| layers::activation(l, a, x, "Gelu"),
    ),
    Kind {
        aliases: &["swish"],
        ..row("silu", "nn.SiLU", "`x * sigmoid(x)` as one operator", &[INPLACE], |l, a, x| {
            layers::activation(l, a, x, "Silu")
        })
    },
    row("mish", "nn.Mish", "`x * tanh(softplus(x))` as one operator", &[INPLACE], |l, a, x| {
        layers::activation(l, a, x, "Mish")
    }),
    row("hardswish", "nn.Hardswish", "piecewise `silu`", &[INPLACE], |l, a, x| {
        layers::activation(l, a, x, "HardSwish")
    }),
    row("hardsigmoid", "nn.Hardsigmoid", "piecewise `sigmoid`", &[INPLACE], |l, a, x| {
        layers::activation(l, a, x, "HardSigmoid")
    }),
    row("sigmoid", "nn.Sigmoid", "logistic function", &[], |l, a, x| {
        layers::activation(l, a, x, "Sigmoid")
    }),
    row("tanh", "nn.Tanh", "hyperbolic tangent", &[], |l, a, x| {
        layers::activation(l, a, x, "Tanh")
    }),
    row("softplus", "nn.Softplus", "`log(1 + exp(x))`", &[], |l, a, x| {
        layers::activation(l, a, x, "Softplus")
    }),
    row("softmax", "nn.Softmax", "exponentials that sum to one", &[DIM], |l, a, x| {
        layers::activation(l, a, x, "Softmax")
    }),
    row("log_softmax", "nn.LogSoftmax", "logarithm of `softmax`", &[DIM], |l, a, x| {
        layers::activation(l, a, x, "LogSoftmax")
    }),
    row("maxpool1d", "nn.MaxPool1d", "largest of a window", MAX_POOL, |l, a, x| {
        layers::pool(l, a, x, (1, "MaxPool"))
    }),
    Kind {
        aliases: &["maxpool"],
        ..row("maxpool2d", "nn.MaxPool2d", "largest of a window", MAX_POOL, |l, a, x| {
            layers::pool(l, a, x, (2, "MaxPool"))
        })
    },
    row("maxpool3d", "nn.MaxPool3d", "largest of a window", MAX_POOL, |l, a, x| {
        layers::pool(l, a, x, (3, "MaxPool"))
    }),
    row("avgpool1d", "nn.AvgPool1d", "mean of a window", AVERAGE_POOL, |l, a, x| {
        layers::pool(l, a, x, (1, "AveragePool"))
    }),
    Kind {
        aliases: &["avgpool"],
        ..row("avgpool2d", "nn.AvgPool2d", "mean of a window", AVERAGE_POOL, |l, a, x| {
            layers::pool(l, a, x, (2, "AveragePool"))
        })
    },
    row("avgpool3d", "nn.AvgPool3d", "mean of a window", AVERAGE_POOL, |l, a, x| {
        layers::pool(l, a, x, (3, "AveragePool"))
    }),
    row(
        "adaptive_avgpool2d",
        "nn.AdaptiveAvgPool2d",
        "means of equal windows, of a size that comes out",
        &[arg("output_size", &["out"], Takes::Counts, NEEDED, "size that comes out")],
        layers::adaptive_average_pool,
    ),
    Kind {
        aliases: &["gap"],
        ..row(
            "global_avgpool",
            "",
            "mean over all positions: `nn.AdaptiveAvgPool2d(1)`",
            &[],
            |l, _, x| layers::global_pool(l, x, "GlobalAveragePool"),
        )
    },
    row(
        "global_maxpool",
        "",
        "largest of all positions: `nn.AdaptiveMaxPool2d(1)`",
        &[],
        |l, _, x| layers::global_pool(l, x, "GlobalMaxPool"),
    ),
    row("dropout", "nn.Dropout", "zeros at random", &[P, INPLACE], layers::dropout),
    Kind {
        aliases: &["stochasticdepth"],
        ..row(
            "drop_path",
            "",
            "drops a sample's whole tensor, as timm's `DropPath` does",
            &[arg("p", &[], Takes::Share, Default::Share(0.1), "probability")],
            layers::drop_path,
        )
    },
    row(
        "embedding",
        "nn.Embedding",
        "rows of a table by number",
        &[
            arg("num_embeddings", &["vocab", "num"], Takes::Count, NEEDED, "rows"),
            arg("embedding_dim", &["dim"], Takes::Count, NEEDED, "width of a row"),
        ],
        layers::embedding,
    ),
    row(
        "positional_embedding",
        "",
        "adds a trained vector for each position: `x + weight`",
        &[
            arg(
                "length",
                &["len"],
                Takes::Count,
                Default::Derived("the input's length"),
                "positions that there are vectors for",
            ),
            arg(
                "lookup",
                &[],
                Takes::Flag,
                NO,
                "whether they are an `nn.Embedding` that is looked up, as in GPT",
            ),
        ],
        layers::positional_embedding,
    ),
    row(
        "class_token",
        "",
        "puts a trained vector in front of a sequence",
        &[],
        layers::class_token,
    ),
    row(
        "patch_embed",
        "",
        "a picture as a sequence of patches: `Conv2d`, `flatten(2)`, `transpose(1, 2)`",
        &[
            arg("embed_dim", &["dim", "out"], Takes::Count, NEEDED, "width of a patch"),
            arg("patch_size", &["patch"], Takes::Counts, NEEDED, "side of a patch"),
        ],
        layers::patch_embed,
    ),
    row(
        "flatten",
        "nn.Flatten",
        "several dimensions as one",
        &[
            arg("start_dim", &["start"], Takes::Index, Default::Int(1), "first of them"),
            arg("end_dim", &["end"], Takes::Index, Default::Int(-1), "last of them"),
        ],
        layers::flatten,
    ),
    row(
        "reshape",
        "",
        "other dimensions for the same elements",
        &[arg(
            "shape",
            &[],
            Takes::Ints,
            NEEDED,
            "sizes; 0 keeps the one that is there, -1 takes what is left",
        )],
        layers::reshape,
    ),
    row(
        "permute",
        "",
        "dimensions in another order",
        &[arg("dims", &[], Takes::Ints, NEEDED, "the order")],
        layers::permute,
    ),
    row(
        "transpose",
        "",
        "two dimensions, exchanged",
        &[
            arg("dim0", &[], Takes::Index, NEEDED, "one"),
            arg("dim1", &[], Takes::Index, NEEDED, "the other"),
        ],
        layers::transpose,
    ),
    row(
        "select",
        "",
        "one place along a dimension: `x[:, 0]`",
        &[
            arg("dim", &[], Takes::Index, Default::Int(1), "dimension"),
            arg("index", &[], Takes::Index, Default::Int(0), "place"),
        ],
        layers::select,
    ),
    row(
        "mean",
        "",
        "mean over a dimension",
        &[
            arg("dim", &[], Takes::Index, NEEDED, "dimension"),
            arg("keepdim", &[], Takes::Flag, NO, "whether it stays, of size 1"),
        ],
        layers::mean,
    ),
    row(
        "upsample",
        "nn.Upsample",
        "a larger picture",
        &[
            SCALE,
            arg(
                "mode",
                &[],
                Takes::Word(&["nearest", "bilinear"]),
                Default::Word("nearest"),
                "how",
            ),
        ],
        layers::upsample,
    ),
    row(
        "pixel_shuffle",
        "nn.PixelShuffle",
        "channels as a larger picture",
        &[arg("upscale_factor", &["scale"], Takes::Count, NEEDED, "how many times larger")],
        layers::pixel_shuffle,
    ),
    row("identity", "nn.Identity", "what comes in", &[], |_, _, x| Ok(x.clone())),
    Kind {
        aliases: &["selfattention"],
        ..row(
            "attention",
            "",
            "self-attention with its projections",
            &[
                HEADS,
                KV_HEADS,
                HEAD_DIM,
                CAUSAL,
                BIAS,
                WEIGHT_DROPOUT,
                arg(
                    "out_dropout",
                    &["projdropout"],
                    Takes::Share,
                    Default::Share(0.0),
                    "dropout of the result",
                ),
                ROTARY,
                QK_NORM,
                FUSED,
                IMPLEMENTATION,
            ],
            blocks::attention,
        )
    },
    row(
        "mlp",
        "",
        "`fc2(act(fc1(x)))`",
        &[
            HIDDEN,
            ACT,
            BIAS,
            arg(
                "act_dropout",
                &[],
                Takes::Share,
                Default::Share(0.0),
                "dropout behind the activation",
            ),
            arg("dropout", &[], Takes::Share, Default::Share(0.0), "dropout of the result"),
        ],
        blocks::mlp,
    ),
    Kind {
        aliases: &["swiglu"],
        ..row(
            "gated_mlp",
            "",
            "`down(act(gate(x)) * up(x))`",
            &[
                HIDDEN,
                arg(
                    "act",
                    &["activation"],
                    Takes::Word(ACTIVATIONS),
                    Default::Word("silu"),
                    "activation",
                ),
                arg("bias", &[], Takes::Flag, NO, "whether there are biases"),
                arg("dropout", &[], Takes::Share, Default::Share(0.0), "dropout of the result"),
            ],
            blocks::gated_mlp,
        )
    },
    Kind {
        aliases: &["block", "transformer", "transformerencoderlayer"],
        ..row(
            "transformer_block",
            "",
            "attention and an MLP, each with a norm and a residual sum",
            &[
                HEADS,
                HIDDEN,
                KV_HEADS,
                HEAD_DIM,
                CAUSAL,
                BIAS,
                arg(
                    "dropout",
                    &[],
                    Takes::Share,
                    Default::Share(0.0),
                    "dropout of attention weights and of both results",
                ),
                arg(
                    "drop_path",
                    &[],
                    Takes::Share,
                    Default::Share(0.0),
                    "`drop_path` of both results",
                ),
                arg("norm", &[], Takes::Word(NORMS), Default::Word("layernorm"), "norm"),
                arg(
                    "order",
                    &[],
                    Takes::Word(&["pre", "post"]),
                    Default::Word("pre"),
                    "norms before the layers, or behind the sums",
                ),
                arg("gated", &[], Takes::Flag, NO, "whether the MLP is `gated_mlp`"),
                arg(
                    "act",
                    &["activation"],
                    Takes::Word(ACTIVATIONS),
                    Default::Derived("gelu, or silu if gated"),
                    "activation",
                ),
                ROTARY,
                QK_NORM,
                FUSED,
                IMPLEMENTATION,
            ],
            blocks::transformer_block,
        )
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let mut seen = BTreeSet::new();
        for kind in TABLE {
            let names = [kind.name, kind.class].into_iter().chain(kind.aliases.iter().copied());
            let names: BTreeSet<String> =
                names.filter(|name| !name.is_empty()).map(plain).collect();
            for name in names {
                assert_eq!(find(&name).map(|found| found.name), Some(kind.name), "{name}");
                assert!(seen.insert(name.clone()), "{name} twice");
            }
            let mut arguments = BTreeSet::new();
            for argument in kind.arguments {
                let names = argument.aliases.iter().copied().chain([argument.name]);
                let names: BTreeSet<String> = names.map(plain).collect();
                for name in names {
                    assert!(arguments.insert(name.clone()), "{}: {name} twice", kind.name);
                }
                for alias in argument.aliases {
                    assert_eq!(plain(alias), **alias, "{}: aliases are plain", kind.name);
                }
            }
        }
        for (name, _) in STRUCTURES {
            assert!(!seen.contains(name), "{name} is a layer and an arrangement");
        }
    }

    #[test]
    fn near_names_are_proposed() {
        for (name, expected) in [
            ("conv2", "; did you mean `conv2d`?"),
            ("batchnrom2d", "; did you mean `batchnorm2d`?"),
            ("residul", "; did you mean `residual`?"),
            ("xyz", ""),
        ] {
            let names = TABLE.iter().map(|kind| kind.name).chain(STRUCTURES.map(|(name, _)| name));
            assert_eq!(did_you_mean(name, names), expected, "{name}");
        }
    }
}
