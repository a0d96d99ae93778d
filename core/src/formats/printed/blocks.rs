//! Classes whose `forward` is known: one row each, by class name and the names of what is inside.
//!
//! A print has no residual sums, no concatenations and no calls of functions. The rows say them, in
//! the words of torchvision's, timm's and transformers' own `forward`.

use super::text::Printed;
use super::translate::{Row, kind_of, width_in};
use crate::diagnostic::Severity;
use crate::error::Error;
use crate::formats::spec::{Join, Value};

/// A row of the table.
pub(super) struct Block {
    /// Names of classes; none where the children alone tell.
    classes: &'static [&'static str],
    /// Children that it has; of `a|b`, one of them.
    children: &'static [&'static str],
    /// What it runs.
    pub(super) forward: fn(&mut Row<'_, '_>, &Printed) -> Result<(), Error>,
}

/// Modules that run what they hold in the order in which it stands.
const IN_ORDER: &[&str] = &[
    "Sequential",
    "ModuleList",
    "Conv2dNormActivation",
    "Conv3dNormActivation",
    "ConvNormActivation",
    "ConvBNReLU",
    "ConvBNActivation",
    "ConvNormAct",
    "SimpleStemIN",
    "ResStemIN",
    "AnyStage",
    "BottleneckTransform",
    "MLPBlock",
    "MLP",
    "Mlp",
    "_Transition",
    "_DenseBlock",
    "ResNet",
    "VGG",
    "AlexNet",
    "SqueezeNet",
    "MobileNetV2",
    "MobileNetV3",
    "EfficientNet",
    "ConvNeXt",
    "RegNet",
    "MNASNet",
    "GoogLeNet",
    "Inception3",
    "BatchNormAct2d",
    "SelectAdaptivePool2d",
    "FastAdaptiveAvgPool",
    "FastAdaptiveAvgPool2d",
    "ConvNeXtStage",
    "NormMlpClassifierHead",
    "ClassifierHead",
    "BertLayer",
    "BertAttention",
    "BertIntermediate",
    "RobertaIntermediate",
    "PositionwiseFeedForward",
    "FFN",
    "MLP",
    "GPT2MLP",
    "Transformer",
    "TransformerEncoder",
    "GPTNeoXMLP",
];

/// How names of classes end that run what they hold in order: models and heads of transformers.
const IN_ORDER_ENDS: &[&str] = &[
    "ForCausalLM",
    "ForMaskedLM",
    "LMHeadModel",
    "MLMHead",
    "LMHead",
    "LMPredictionHead",
    "PredictionHeadTransform",
    "Embeddings",
    "Encoder",
    "Decoder",
    "ForSequenceClassification",
    "BertModel",
    "ertaModel",
    "GPT2Model",
    "LlamaModel",
    "MistralModel",
    "Qwen2Model",
    "Qwen3Model",
    "OPTModel",
    "GPTNeoXModel",
    "BertIntermediate",
];

/// Whether the parts of a class are known to run in order.
pub(super) fn runs_in_order(class: &str) -> bool {
    IN_ORDER.contains(&class) || IN_ORDER_ENDS.iter().any(|end| class.ends_with(end))
}

/// All blocks, the more particular first.
const TABLE: &[Block] = &[
    Block {
        classes: &["BasicBlock", "Bottleneck"],
        children: &["conv1", "bn1", "conv2", "bn2"],
        forward: resnet_block,
    },
    Block {
        classes: &["MBConv", "FusedMBConv"],
        children: &["block", "stochastic_depth"],
        forward: mobile_block,
    },
    Block {
        classes: &["InvertedResidual", "_InvertedResidual"],
        children: &["conv|block|layers"],
        forward: mobile_block,
    },
    Block {
        classes: &["CNBlock"],
        children: &["block", "stochastic_depth"],
        forward: convnext_block,
    },
    Block {
        classes: &["ConvNeXtBlock"],
        children: &["conv_dw", "norm", "mlp"],
        forward: timm_convnext_block,
    },
    Block {
        classes: &["SqueezeExcitation"],
        children: &["fc1", "fc2"],
        forward: squeeze_excitation,
    },
    Block {
        classes: &["SqueezeExcite", "SEModule"],
        children: &["conv_reduce|fc1", "conv_expand|fc2"],
        forward: squeeze_excitation,
    },
    Block {
        classes: &["_DenseLayer"],
        children: &["norm1", "conv1", "norm2", "conv2"],
        forward: dense_layer,
    },
    Block { classes: &["DenseNet"], children: &["features", "classifier"], forward: densenet },
    Block { classes: &["BasicConv2d"], children: &["conv", "bn"], forward: basic_conv },
    Block { classes: &["Fire"], children: &["squeeze", "expand1x1", "expand3x3"], forward: fire },
    Block {
        classes: &["Inception"],
        children: &["branch1", "branch2", "branch3", "branch4"],
        forward: googlenet_block,
    },
    Block {
        classes: &["InceptionA", "InceptionB", "InceptionC", "InceptionD", "InceptionE"],
        children: &[],
        forward: inception_block,
    },
    Block {
        classes: &["ResBottleneckBlock"],
        children: &["f", "activation"],
        forward: regnet_block,
    },
    Block {
        classes: &["ResNet", "RegNet", "EfficientNet", "ConvNeXt", "MobileNetV3", "VGG", "AlexNet"],
        children: &["avgpool"],
        forward: with_flatten,
    },
    Block {
        classes: &["VisionTransformer"],
        children: &["conv_proj", "encoder", "heads"],
        forward: vision_transformer,
    },
    Block {
        classes: &["Encoder"],
        children: &["dropout", "layers", "ln"],
        forward: vision_encoder,
    },
    Block {
        classes: &["EncoderBlock"],
        children: &["ln_1", "self_attention", "ln_2", "mlp"],
        forward: vision_block,
    },
    Block {
        classes: &["VisionTransformer"],
        children: &["patch_embed", "blocks", "head"],
        forward: timm_vision_transformer,
    },
    Block { classes: &["PatchEmbed"], children: &["proj"], forward: patch_embed },
    Block {
        classes: &["Block"],
        children: &["norm1", "attn", "norm2", "mlp"],
        forward: timm_block,
    },
    Block { classes: &["LayerScale"], children: &[], forward: layer_scale },
    Block {
        classes: &["Attention"],
        children: &["qkv", "proj"],
        forward: |row, it| attention(row, it, it, Attends::ToAll),
    },
    Block {
        classes: &["MultiheadAttention"],
        children: &["out_proj"],
        forward: |row, it| attention(row, it, it, Attends::ToAll),
    },
    Block {
        classes: &["TransformerEncoderLayer"],
        children: &["self_attn", "linear1", "linear2", "norm1", "norm2"],
        forward: encoder_layer,
    },
    Block {
        classes: &[
            "BertLayer",
            "RobertaLayer",
            "ElectraLayer",
            "CamembertLayer",
            "XLMRobertaLayer",
        ],
        children: &["attention", "intermediate", "output"],
        forward: bert_layer,
    },
    Block { classes: &["BertPooler", "RobertaPooler"], children: &["dense"], forward: pooler },
    Block {
        classes: &["RobertaEmbeddings", "BertEmbeddings", "ElectraEmbeddings"],
        children: &["word_embeddings", "LayerNorm"],
        forward: bert_embeddings,
    },
    Block {
        classes: &["TransformerBlock"],
        children: &["attention", "sa_layer_norm", "ffn", "output_layer_norm"],
        forward: distilbert_layer,
    },
    Block {
        classes: &["FFN"],
        children: &["lin1", "lin2", "activation"],
        forward: |row, it| row.each(it, &["lin1", "activation", "lin2", "dropout"]),
    },
    Block {
        classes: &["DistilBertForMaskedLM"],
        children: &["distilbert", "vocab_projector"],
        forward: distilbert_head,
    },
    Block {
        classes: &["GPT2Block"],
        children: &["ln_1", "attn", "ln_2", "mlp"],
        forward: gpt2_block,
    },
    Block {
        classes: &["GPT2MLP"],
        children: &["c_fc", "c_proj"],
        forward: |row, it| row.each(it, &["c_fc", "act", "c_proj", "dropout"]),
    },
    Block {
        classes: &["OPTDecoderLayer"],
        children: &["self_attn", "fc1", "fc2"],
        forward: opt_layer,
    },
    Block {
        classes: &["OPTDecoder"],
        children: &["embed_tokens", "layers"],
        forward: |row, it| {
            row.each(it, &["embed_tokens", "embed_positions", "layers", "final_layer_norm"])
        },
    },
    Block {
        classes: &["GPTNeoXLayer"],
        children: &["attention", "mlp", "input_layernorm"],
        forward: neox_layer,
    },
    Block {
        classes: &["GPTNeoXMLP"],
        children: &["dense_h_to_4h", "dense_4h_to_h"],
        forward: |row, it| row.each(it, &["dense_h_to_4h", "act", "dense_4h_to_h"]),
    },
    Block {
        classes: &[],
        children: &["self_attn", "mlp", "input_layernorm", "post_attention_layernorm"],
        forward: llama_layer,
    },
    Block { classes: &[], children: &["gate_proj", "up_proj", "down_proj"], forward: gated_mlp },
    Block {
        classes: &[],
        children: &["predictions|transform", "decoder|predictions"],
        forward: mlm_head,
    },
    Block { classes: &["RobertaLMHead"], children: &["dense", "decoder"], forward: roberta_head },
    Block { classes: &[], children: &["lm_head"], forward: causal_head },
];

/// The row of a module.
pub(super) fn find(module: &Printed) -> Option<&'static Block> {
    TABLE.iter().find(|block| {
        let class = block.classes.is_empty() || block.classes.contains(&module.class.as_str());
        let is_block = !block.classes.is_empty() || !block.children.is_empty();
        let has = |child: &&'static str| child.split('|').any(|name| module.child(name).is_some());
        class && is_block && block.children.iter().all(has)
    })
}

type Done = Result<(), Error>;

const INPLACE: [(&str, Value); 1] = [("inplace", Value::Flag(true))];

fn int(n: i64) -> Value {
    Value::Int(n)
}

/// torchvision's and timm's residual blocks: `out += identity`, and the activation behind it.
fn resnet_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let last = if it.child("conv3").is_some() { 3 } else { 2 };
    let relu = it.any_child(&["relu", "act"]);
    row.residual(
        true,
        |row| {
            for n in 1..=last {
                row.each(it, &[&format!("conv{n}"), &format!("bn{n}")])?;
                if n == 2 {
                    row.each(it, &["drop_block"])?;
                }
                if n < last {
                    match it.child(&format!("act{n}")).or(relu) {
                        Some(act) => row.module(act)?,
                        None => row.call("relu", &INPLACE)?,
                    }
                    if n == 2 {
                        row.each(it, &["aa"])?;
                    }
                }
            }
            row.each(it, &["se", "drop_path"])
        },
        |row| row.each(it, &["downsample"]),
    )?;
    match it.child(&format!("act{last}")).or(relu) {
        Some(act) => row.module(act),
        None => row.call("relu", &INPLACE),
    }
}

/// `x + self.conv(x)`, where nothing changes its size. Later classes add in place.
fn mobile_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let inplace = it.child("block").is_some();
    row.residual_if_alike(inplace, |row| {
        row.each(it, &["conv", "layers", "block", "stochastic_depth"])
    })
}

/// torchvision's `ConvNeXt`: channels last between two `Permute`, a scale for each channel.
fn convnext_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(
        true,
        |row| {
            let modules = it.child("block").map_or(&[][..], |block| &block.children);
            let mut last = false;
            for module in modules {
                if module.class == "Permute" {
                    let order = if last { vec![0, 3, 1, 2] } else { vec![0, 2, 3, 1] };
                    row.call("permute", &[("dims", Value::Ints(order))])?;
                    last = !last;
                } else {
                    row.module(module)?;
                }
            }
            row.call("layer_scale", &[("dim", int(1))])?;
            row.each(it, &["stochastic_depth"])
        },
        |_| Ok(()),
    )
}

/// timm's `ConvNeXt`, with linear layers over channels that lie last.
fn timm_convnext_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(
        false,
        |row| {
            row.each(it, &["conv_dw"])?;
            row.call("permute", &[("dims", Value::Ints(vec![0, 2, 3, 1]))])?;
            row.each(it, &["norm", "mlp"])?;
            row.call("permute", &[("dims", Value::Ints(vec![0, 3, 1, 2]))])?;
            row.call("layer_scale", &[("dim", int(1))])?;
            row.each(it, &["drop_path"])
        },
        |row| row.each(it, &["shortcut"]),
    )
}

/// `scale * x`, where the scale is made of the mean of each channel.
fn squeeze_excitation(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let scale = |row: &mut Row<'_, '_>| {
        if it.child("avgpool").is_none() {
            row.call("global_avgpool", &[])?;
        }
        row.each(
            it,
            &[
                "avgpool",
                "conv_reduce",
                "fc1",
                "bn",
                "activation",
                "act1",
                "act",
                "conv_expand",
                "fc2",
                "scale_activation",
                "gate",
            ],
        )
    };
    row.branch(Join::Mul, 1, &[&scale, &|_| Ok(())])
}

/// What comes in, and 32 channels more; `torch.cat` of all before is written as one of both.
fn dense_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let new = |row: &mut Row<'_, '_>| {
        row.each(it, &["norm1", "relu1", "conv1", "norm2", "relu2", "conv2"])
    };
    row.branch(Join::Concat, 1, &[&|_| Ok(()), &new])
}

fn densenet(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["features"])?;
    row.call("relu", &INPLACE)?;
    row.call("global_avgpool", &[])?;
    row.call("flatten", &[])?;
    row.each(it, &["classifier"])
}

fn basic_conv(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["conv", "bn"])?;
    row.call("relu", &INPLACE)
}

fn fire(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["squeeze", "squeeze_activation"])?;
    let one = |row: &mut Row<'_, '_>| row.each(it, &["expand1x1", "expand1x1_activation"]);
    let three = |row: &mut Row<'_, '_>| row.each(it, &["expand3x3", "expand3x3_activation"]);
    row.branch(Join::Concat, 1, &[&one, &three])
}

fn googlenet_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.branch(
        Join::Concat,
        1,
        &[
            &|row| row.each(it, &["branch1"]),
            &|row| row.each(it, &["branch2"]),
            &|row| row.each(it, &["branch3"]),
            &|row| row.each(it, &["branch4"]),
        ],
    )
}

/// Inception v3: ways by the names of their layers, `branch3x3dbl_2` behind `branch3x3dbl_1`; `_2a` and
/// `_2b` are two ways again; a pool that is called as a function.
fn inception_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let names = |way: usize| -> &'static [&'static str] {
        match (it.class.as_str(), way) {
            ("InceptionA" | "InceptionC" | "InceptionE", 0) => &["branch1x1"],
            ("InceptionA", 1) => &["branch5x5_1", "branch5x5_2"],
            ("InceptionA", 2) | ("InceptionB", 1) => {
                &["branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"]
            }
            ("InceptionB", 0) => &["branch3x3"],
            ("InceptionC", 1) => &["branch7x7_1", "branch7x7_2", "branch7x7_3"],
            ("InceptionC", 2) => &[
                "branch7x7dbl_1",
                "branch7x7dbl_2",
                "branch7x7dbl_3",
                "branch7x7dbl_4",
                "branch7x7dbl_5",
            ],
            ("InceptionD", 0) => &["branch3x3_1", "branch3x3_2"],
            ("InceptionD", 1) => {
                &["branch7x7x3_1", "branch7x7x3_2", "branch7x7x3_3", "branch7x7x3_4"]
            }
            ("InceptionE", 1) => &["branch3x3_1"],
            ("InceptionE", 2) => &["branch3x3dbl_1", "branch3x3dbl_2"],
            _ => &[],
        }
    };
    let split = |row: &mut Row<'_, '_>, a: &str, b: &str| {
        row.branch(Join::Concat, 1, &[&|row| row.each(it, &[a]), &|row| row.each(it, &[b])])
    };
    let first = |row: &mut Row<'_, '_>| row.each(it, names(0));
    let second = |row: &mut Row<'_, '_>| {
        row.each(it, names(1))?;
        if it.child("branch3x3_2a").is_some() {
            split(row, "branch3x3_2a", "branch3x3_2b")?;
        }
        Ok(())
    };
    let third = |row: &mut Row<'_, '_>| {
        row.each(it, names(2))?;
        if it.child("branch3x3dbl_3a").is_some() {
            split(row, "branch3x3dbl_3a", "branch3x3dbl_3b")?;
        }
        Ok(())
    };
    if ["InceptionB", "InceptionD"].contains(&it.class.as_str()) {
        let pool = |row: &mut Row<'_, '_>| {
            row.call("maxpool2d", &[("kernel_size", int(3)), ("stride", int(2))])
        };
        return row.branch(Join::Concat, 1, &[&first, &second, &pool]);
    }
    let pool = |row: &mut Row<'_, '_>| {
        let window = [("kernel_size", int(3)), ("stride", int(1)), ("padding", int(1))];
        row.call("avgpool2d", &window)?;
        row.each(it, &["branch_pool"])
    };
    row.branch(Join::Concat, 1, &[&first, &second, &third, &pool])
}

fn regnet_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(false, |row| row.each(it, &["f"]), |row| row.each(it, &["proj"]))?;
    row.each(it, &["activation"])
}

/// `torch.flatten(x, 1)` behind the pool.
fn with_flatten(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    for module in &it.children {
        row.module(module)?;
        let flattens = module.children.is_empty() && module.name == "avgpool";
        if flattens && it.class != "ConvNeXt" {
            row.call("flatten", &[])?;
        }
    }
    Ok(())
}

fn sequence_of_patches(row: &mut Row<'_, '_>) -> Done {
    row.call("flatten", &[("start_dim", int(2))])?;
    row.call("transpose", &[("dim0", int(1)), ("dim1", int(2))])
}

fn vision_transformer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["conv_proj"])?;
    sequence_of_patches(row)?;
    row.call("class_token", &[])?;
    row.each(it, &["encoder"])?;
    row.call("select", &[])?;
    row.each(it, &["heads"])
}

fn vision_encoder(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.call("positional_embedding", &[])?;
    row.each(it, &["dropout", "layers", "ln"])
}

fn vision_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(false, |row| row.each(it, &["ln_1", "self_attention", "dropout"]), |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["ln_2", "mlp"]), |_| Ok(()))
}

fn patch_embed(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["proj"])?;
    sequence_of_patches(row)?;
    row.each(it, &["norm"])
}

fn timm_vision_transformer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["patch_embed"])?;
    row.call("class_token", &[])?;
    row.call("positional_embedding", &[])?;
    row.each(it, &["pos_drop", "patch_drop", "norm_pre", "blocks", "norm"])?;
    row.call("select", &[])?;
    row.each(it, &["fc_norm", "head_drop", "head"])
}

fn timm_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(false, |row| row.each(it, &["norm1", "attn", "ls1", "drop_path1"]), |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["norm2", "mlp", "ls2", "drop_path2"]), |_| Ok(()))
}

fn layer_scale(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.as_kind(it, "layer_scale", &[])
}

/// `nn.TransformerEncoderLayer`; a print does not say `norm_first`.
fn encoder_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(false, |row| row.each(it, &["self_attn", "dropout1"]), |_| Ok(()))?;
    row.each(it, &["norm1"])?;
    row.residual(
        false,
        |row| {
            row.each(it, &["linear1"])?;
            row.call("relu", &[])?;
            row.each(it, &["dropout", "linear2", "dropout2"])
        },
        |_| Ok(()),
    )?;
    row.each(it, &["norm2"])
}

/// Word, type and position: all are looked up, and added.
fn bert_embeddings(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(
        it,
        &[
            "word_embeddings",
            "token_type_embeddings",
            "position_embeddings",
            "LayerNorm",
            "dropout",
        ],
    )
}

/// Attention, a sum, a norm; an MLP, a sum, a norm.
fn bert_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some((around, output)) = it.child("attention").zip(it.child("output")) else {
        return row.all(&it.children);
    };
    if let Some((own, last)) = around.child("self").zip(around.child("output")) {
        let body = |row: &mut Row<'_, '_>| {
            attention(row, own, last, Attends::ToAll)?;
            row.each(last, &["dropout"])
        };
        row.residual(false, body, |_| Ok(()))?;
        row.each(last, &["LayerNorm"])?;
    }
    let body = |row: &mut Row<'_, '_>| {
        row.each(it, &["intermediate"])?;
        row.each(output, &["dense", "dropout"])
    };
    row.residual(false, body, |_| Ok(()))?;
    row.each(output, &["LayerNorm"])
}

/// The first token's state.
fn pooler(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.call("select", &[])?;
    row.each(it, &["dense", "activation"])
}

fn mlm_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["predictions", "transform"])?;
    it.child("decoder").map_or(Ok(()), |decoder| row.tied_head(decoder))
}

fn roberta_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["dense"])?;
    row.call("gelu", &[])?;
    row.each(it, &["layer_norm"])?;
    it.child("decoder").map_or(Ok(()), |decoder| row.tied_head(decoder))
}

fn distilbert_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("attention") else { return row.all(&it.children) };
    row.residual(false, |row| attention(row, own, own, Attends::ToAll), |_| Ok(()))?;
    row.each(it, &["sa_layer_norm"])?;
    row.residual(false, |row| row.each(it, &["ffn"]), |_| Ok(()))?;
    row.each(it, &["output_layer_norm"])
}

fn distilbert_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["distilbert", "vocab_transform", "activation", "vocab_layer_norm"])?;
    it.child("vocab_projector").map_or(Ok(()), |head| row.tied_head(head))
}

fn gpt2_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("attn") else { return row.all(&it.children) };
    let body = |row: &mut Row<'_, '_>| {
        row.each(it, &["ln_1"])?;
        attention(row, own, own, Attends::ToBefore)?;
        row.each(own, &["resid_dropout"])
    };
    row.residual(false, body, |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["ln_2", "mlp"]), |_| Ok(()))
}

fn opt_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("self_attn") else { return row.all(&it.children) };
    let body = |row: &mut Row<'_, '_>| {
        row.each(it, &["self_attn_layer_norm"])?;
        attention(row, own, own, Attends::ToBefore)?;
        row.call("dropout", &[("p", Value::Number(0.1))])
    };
    row.residual(false, body, |_| Ok(()))?;
    let body = |row: &mut Row<'_, '_>| {
        row.each(it, &["final_layer_norm", "fc1", "activation_fn", "fc2"])?;
        row.call("dropout", &[("p", Value::Number(0.1))])
    };
    row.residual(false, body, |_| Ok(()))
}

/// `x + attn(ln1(x)) + mlp(ln2(x))`.
fn neox_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("attention") else { return row.all(&it.children) };
    let attended = |row: &mut Row<'_, '_>| {
        row.each(it, &["input_layernorm"])?;
        attention(row, own, own, Attends::Rotary)?;
        row.each(it, &["post_attention_dropout"])
    };
    let other = |row: &mut Row<'_, '_>| {
        row.each(it, &["post_attention_layernorm", "mlp", "post_mlp_dropout"])
    };
    row.branch(Join::Add, 1, &[&other, &attended, &|_| Ok(())])
}

/// Layers in Llama's manner: Llama, Mistral, Qwen, and many more.
fn llama_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("self_attn") else { return row.all(&it.children) };
    let body = |row: &mut Row<'_, '_>| {
        row.each(it, &["input_layernorm"])?;
        attention(row, own, own, Attends::Rotary)
    };
    row.residual(false, body, |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["post_attention_layernorm", "mlp"]), |_| Ok(()))
}

/// `down(act(gate(x)) * up(x))`.
fn gated_mlp(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let gate = |row: &mut Row<'_, '_>| row.each(it, &["gate_proj", "act_fn"]);
    row.branch(Join::Mul, 1, &[&gate, &|row| row.each(it, &["up_proj"])])?;
    row.each(it, &["down_proj"])
}

/// The head of a language model, behind all else.
fn causal_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    for module in it.children.iter().filter(|module| module.name != "lm_head") {
        row.module(module)?;
    }
    let Some(head) = it.child("lm_head") else { return Ok(()) };
    if !head.children.is_empty() {
        return row.module(head);
    }
    // Llama's kin share the table in small models with large vocabularies only.
    let is_llama = it.leaves().any(|leaf| leaf.name == "gate_proj");
    let rows = head.argument("out_features", Some(1));
    let large = matches!(rows, Some(Value::Int(n)) if *n > 100_000);
    let is_apart = it.class.starts_with("GPTNeoX");
    let shares =
        !is_apart && !is_llama || large && row.x.width().is_some_and(|width| width <= 3072);
    if shares { row.tied_head(head) } else { row.module(head) }
}

/// What attention is beside its projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attends {
    ToAll,
    ToBefore,
    /// And queries and keys are rotated.
    Rotary,
}

/// Self-attention by its projections, wherever they are: of `own`, and the last of `last`.
fn attention(row: &mut Row<'_, '_>, own: &Printed, last: &Printed, kind: Attends) -> Done {
    let (causal, rotary) = (kind != Attends::ToAll, kind == Attends::Rotary);
    let out = |module: &Printed| match module
        .argument("out_features", Some(1))
        .or_else(|| module.argument("nf", None))
    {
        Some(Value::Int(n)) => u64::try_from(*n).ok(),
        _ => None,
    };
    let biased = |module: Option<&Printed>| {
        module.is_none_or(|it| it.argument("bias", None) != Some(&Value::Flag(false)))
    };
    let fused = own.any_child(&["qkv", "c_attn", "query_key_value"]);
    let query = own.any_child(&["q_proj", "query", "q_lin"]);
    let key = own.any_child(&["k_proj", "key", "k_lin"]);
    let result = last.any_child(&["o_proj", "out_proj", "out_lin", "proj", "c_proj", "dense"]);
    let width = row.x.width().unwrap_or(1);
    let queries = query.and_then(out).unwrap_or(width).max(1);
    let keys = key.and_then(out).unwrap_or(queries).max(1);
    let norm = own.child("q_norm").and_then(|norm| width_in(norm, kind_of(norm)?));
    let head = norm.unwrap_or_else(|| {
        let usual = if rotary && width > 2048 { 128 } else { 64 };
        let divides = |n: &u64| queries.is_multiple_of(*n) && keys.is_multiple_of(*n);
        [usual, 64, 80, 96, 32, 128, 16, 8].into_iter().find(divides).unwrap_or(queries)
    });
    if norm.is_none() {
        let message = format!(
            "a print does not say how many heads `{}` (line {}) has; heads of {head} are assumed",
            own.class, own.place.line
        );
        row.note(Severity::Info, "assumed-heads", message);
    }
    let share = |names: &[&str]| {
        let dropout = own.any_child(names)?;
        match dropout.argument("p", Some(0))? {
            Value::Number(p) => Some(*p),
            _ => None,
        }
    };
    let dropout = share(&["attn_dropout", "attn_drop", "dropout", "attention_dropout"]);
    let drop_out = share(&["proj_drop"]);
    let first = fused.or(query);
    let mut arguments = vec![
        ("num_heads", Value::from(queries.div_euclid(head.max(1)).max(1))),
        ("kv_heads", Value::from(keys.div_euclid(head.max(1)).max(1))),
        ("head_dim", Value::from(head)),
        ("causal", Value::Flag(causal)),
        ("rotary", Value::Flag(rotary)),
        ("bias", Value::Flag(biased(first))),
        ("out_bias", Value::Flag(biased(result))),
        ("fused_qkv", Value::Flag(query.is_none())),
        ("dropout", Value::Number(dropout.unwrap_or(0.0))),
        ("out_dropout", Value::Number(drop_out.unwrap_or(0.0))),
    ];
    if norm.is_some() {
        arguments.push(("qk_norm", Value::from("composite_rmsnorm")));
    }
    row.as_kind(own, "attention", &arguments)
}
