//! The rows of the table of layers.

use super::super::lower::{again, blocks, layers};
use super::{Argument, Default, LayerKind, Rule, Takes};

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
    Takes::Word(&["none", "layernorm", "rmsnorm", "composite_rmsnorm"]),
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
const RECURRENT: &[Argument] = &[
    arg(
        "hidden_size",
        &["hiddensize", "hidden", "units"],
        Takes::Count,
        NEEDED,
        "width of the state",
    ),
    arg("num_layers", &["numlayers", "layers"], Takes::Count, Default::Int(1), "layers"),
    BIAS,
    arg("bidirectional", &[], Takes::Flag, NO, "whether it also runs from the end"),
    arg("last", &[], Takes::Flag, NO, "whether only the last step goes on: `y[:, -1]`"),
];
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
) -> LayerKind {
    LayerKind { name, aliases: &[], class, about, arguments, lower }
}

/// All layers, in the order in which people read of them.
pub const TABLE: &[LayerKind] = &[
    LayerKind {
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
    LayerKind {
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
        &[arg(
            "composite",
            &[],
            Takes::Flag,
            NO,
            "whether it is spelled out in Python, as models of transformers do",
        )],
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
    LayerKind {
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
    row(
        "gelu_new",
        "",
        "`0.5 * x * (1 + tanh(√(2/π) * (x + 0.044715 * x ** 3)))`, spelled out, as in GPT-2",
        &[],
        layers::gelu_new,
    ),
    LayerKind {
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
    LayerKind {
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
    LayerKind {
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
    row(
        "zero_pad",
        "",
        "zeros around a picture or a signal",
        &[arg(
            "padding",
            &["p", "pad"],
            Takes::Counts,
            NEEDED,
            "zeros on all sides, on both sides of each dimension, or first in front and then behind",
        )],
        layers::zero_pad,
    ),
    LayerKind {
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
    LayerKind {
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
        "type_embedding",
        "",
        "adds a trained vector for the type of each token, as in BERT; all are of type 0",
        &[arg("types", &["rows"], Takes::Count, NEEDED, "types that there are vectors for")],
        layers::type_embedding,
    ),
    row(
        "layer_scale",
        "",
        "times a trained number for each channel",
        &[arg("dim", &[], Takes::Index, Default::Int(-1), "dimension of the channels")],
        layers::layer_scale,
    ),
    row(
        "stand_in",
        "",
        "for what is unknown: the same tensor with another size, made without memory",
        &[
            arg("size", &[], Takes::Count, NEEDED, "the size"),
            arg("dim", &[], Takes::Index, Default::Int(-1), "its dimension"),
        ],
        layers::stand_in,
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
    row("lstm", "nn.LSTM", "long short-term memory over `[N, L, C]`", RECURRENT, |l, a, x| {
        layers::recurrent(l, a, x, 4)
    }),
    row("gru", "nn.GRU", "gated recurrent unit over `[N, L, C]`", RECURRENT, |l, a, x| {
        layers::recurrent(l, a, x, 3)
    }),
    row("rnn", "nn.RNN", "`tanh(W x + R h)` over `[N, L, C]`", RECURRENT, |l, a, x| {
        layers::recurrent(l, a, x, 1)
    }),
    row(
        "again",
        "",
        "an earlier layer once more, with the same parameters",
        &[arg("layer", &["name"], Takes::Name, NEEDED, "its name")],
        again,
    ),
    LayerKind {
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
                arg(
                    "out_bias",
                    &[],
                    Takes::Flag,
                    Default::Derived("as bias"),
                    "whether the last projection has a bias",
                ),
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
                arg(
                    "sequence_first",
                    &["sequencefirst"],
                    Takes::Flag,
                    NO,
                    "whether it runs with the sequence before the batch, as `nn.MultiheadAttention` does",
                ),
            ],
            blocks::attention,
        )
    },
    LayerKind {
        aliases: &["crossattn"],
        ..row(
            "cross_attention",
            "",
            "attention to another sequence, with its projections",
            &[
                HEADS,
                arg("context", &["memory"], Takes::Name, NEEDED, "layer that keys and values read"),
                KV_HEADS,
                HEAD_DIM,
                BIAS,
                WEIGHT_DROPOUT,
                IMPLEMENTATION,
            ],
            blocks::cross_attention,
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
    LayerKind {
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
    LayerKind {
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
