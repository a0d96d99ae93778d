//! Classes whose `forward` is known: one row each, by class name and the names of the children.
//!
//! A print has no residual sums, no concatenations and no calls of functions. The rows add them, as in the
//! `forward` of torchvision, timm and transformers.

use super::text::Printed;
use super::translate::Row;
use crate::error::Error;
use crate::formats::spec::Value;

mod attention;
mod timm;
mod torchvision;
mod transformers;

use attention::{Attends, attention};

/// A row of the table.
pub(super) struct KnownModule {
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
    "ConvBnAct",
    "RegStage",
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
    "SwinTransformerStage",
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
const TABLE: &[KnownModule] = &[
    KnownModule {
        classes: &["BasicBlock", "Bottleneck"],
        children: &["conv1", "bn1", "conv2", "bn2"],
        forward: torchvision::resnet_block,
    },
    KnownModule {
        classes: &["MBConv", "FusedMBConv"],
        children: &["block", "stochastic_depth"],
        forward: torchvision::mobile_block,
    },
    KnownModule {
        classes: &["InvertedResidual", "DepthwiseSeparableConv", "EdgeResidual"],
        children: &["bn1", "bn2", "conv_pw|conv_exp"],
        forward: timm::mobile_block,
    },
    KnownModule {
        classes: &["Bottleneck"],
        children: &["conv1", "conv2", "conv3", "act3"],
        forward: timm::regnet_block,
    },
    KnownModule { classes: &["BatchNormAct2d"], children: &["act"], forward: timm::norm_and_act },
    KnownModule { classes: &["SelectAdaptivePool2d"], children: &[], forward: timm::pool },
    KnownModule {
        classes: &["SwinTransformer"],
        children: &["features", "norm", "head"],
        forward: torchvision::swin,
    },
    KnownModule {
        classes: &["SwinTransformer"],
        children: &["patch_embed", "layers", "norm", "head"],
        forward: timm::swin,
    },
    KnownModule {
        classes: &["SwinTransformerBlock"],
        children: &["norm1", "attn", "norm2", "mlp"],
        forward: torchvision::swin_block,
    },
    KnownModule {
        classes: &["PatchMerging"],
        children: &["reduction", "norm"],
        forward: torchvision::patch_merging,
    },
    KnownModule {
        classes: &["InvertedResidual", "_InvertedResidual"],
        children: &["conv|block|layers"],
        forward: torchvision::mobile_block,
    },
    KnownModule {
        classes: &["CNBlock"],
        children: &["block", "stochastic_depth"],
        forward: torchvision::convnext_block,
    },
    KnownModule {
        classes: &["ConvNeXtBlock"],
        children: &["conv_dw", "norm", "mlp"],
        forward: timm::timm_convnext_block,
    },
    KnownModule {
        classes: &["SqueezeExcitation"],
        children: &["fc1", "fc2"],
        forward: torchvision::squeeze_excitation,
    },
    KnownModule {
        classes: &["SqueezeExcite", "SEModule"],
        children: &["conv_reduce|fc1", "conv_expand|fc2"],
        forward: torchvision::squeeze_excitation,
    },
    KnownModule {
        classes: &["_DenseLayer"],
        children: &["norm1", "conv1", "norm2", "conv2"],
        forward: torchvision::dense_layer,
    },
    KnownModule {
        classes: &["DenseNet"],
        children: &["features", "classifier"],
        forward: torchvision::densenet,
    },
    KnownModule {
        classes: &["BasicConv2d"],
        children: &["conv", "bn"],
        forward: torchvision::basic_conv,
    },
    KnownModule {
        classes: &["Fire"],
        children: &["squeeze", "expand1x1", "expand3x3"],
        forward: torchvision::fire,
    },
    KnownModule {
        classes: &["Inception"],
        children: &["branch1", "branch2", "branch3", "branch4"],
        forward: torchvision::googlenet_block,
    },
    KnownModule {
        classes: &["InceptionA", "InceptionB", "InceptionC", "InceptionD", "InceptionE"],
        children: &[],
        forward: torchvision::inception_block,
    },
    KnownModule {
        classes: &["ResBottleneckBlock"],
        children: &["f", "activation"],
        forward: torchvision::regnet_block,
    },
    KnownModule {
        classes: &["ResNet", "RegNet", "EfficientNet", "ConvNeXt", "MobileNetV3", "VGG", "AlexNet"],
        children: &["avgpool"],
        forward: torchvision::with_flatten,
    },
    KnownModule {
        classes: &["VisionTransformer"],
        children: &["conv_proj", "encoder", "heads"],
        forward: torchvision::vision_transformer,
    },
    KnownModule {
        classes: &["Encoder"],
        children: &["dropout", "layers", "ln"],
        forward: torchvision::vision_encoder,
    },
    KnownModule {
        classes: &["EncoderBlock"],
        children: &["ln_1", "self_attention", "ln_2", "mlp"],
        forward: torchvision::vision_block,
    },
    KnownModule {
        classes: &["VisionTransformer"],
        children: &["patch_embed", "blocks", "head"],
        forward: timm::timm_vision_transformer,
    },
    KnownModule { classes: &["PatchEmbed"], children: &["proj"], forward: timm::patch_embed },
    KnownModule {
        classes: &["Block"],
        children: &["norm1", "attn", "norm2", "mlp"],
        forward: timm::timm_block,
    },
    KnownModule { classes: &["LayerScale"], children: &[], forward: timm::layer_scale },
    KnownModule {
        classes: &["Attention"],
        children: &["qkv", "proj"],
        forward: |row, it| attention(row, it, it, Attends::ToAll),
    },
    KnownModule {
        classes: &["MultiheadAttention"],
        children: &["out_proj"],
        forward: |row, it| attention::multihead(row, it, 0.0),
    },
    KnownModule {
        classes: &["TransformerEncoderLayer"],
        children: &["self_attn", "linear1", "linear2", "norm1", "norm2"],
        forward: attention::encoder_layer,
    },
    KnownModule {
        classes: &[
            "BertLayer",
            "RobertaLayer",
            "ElectraLayer",
            "CamembertLayer",
            "XLMRobertaLayer",
        ],
        children: &["attention", "intermediate", "output"],
        forward: transformers::bert_layer,
    },
    KnownModule {
        classes: &["BertPooler", "RobertaPooler"],
        children: &["dense"],
        forward: transformers::pooler,
    },
    KnownModule {
        classes: &["RobertaEmbeddings", "BertEmbeddings", "ElectraEmbeddings"],
        children: &["word_embeddings", "LayerNorm"],
        forward: transformers::bert_embeddings,
    },
    KnownModule {
        classes: &["TransformerBlock"],
        children: &["attention", "sa_layer_norm", "ffn", "output_layer_norm"],
        forward: transformers::distilbert_layer,
    },
    KnownModule {
        classes: &["FFN"],
        children: &["lin1", "lin2", "activation"],
        forward: |row, it| row.each(it, &["lin1", "activation", "lin2", "dropout"]),
    },
    KnownModule {
        classes: &["DistilBertForMaskedLM"],
        children: &["distilbert", "vocab_projector"],
        forward: transformers::distilbert_head,
    },
    KnownModule {
        classes: &["GPT2Block"],
        children: &["ln_1", "attn", "ln_2", "mlp"],
        forward: transformers::gpt2_block,
    },
    KnownModule {
        classes: &["GPT2MLP"],
        children: &["c_fc", "c_proj"],
        forward: |row, it| row.each(it, &["c_fc", "act", "c_proj", "dropout"]),
    },
    KnownModule {
        classes: &["OPTDecoderLayer"],
        children: &["self_attn", "fc1", "fc2"],
        forward: transformers::opt_layer,
    },
    KnownModule {
        classes: &["OPTDecoder"],
        children: &["embed_tokens", "layers"],
        forward: |row, it| {
            row.each(it, &["embed_tokens", "embed_positions", "layers", "final_layer_norm"])
        },
    },
    KnownModule {
        classes: &["GPTNeoXLayer"],
        children: &["attention", "mlp", "input_layernorm"],
        forward: transformers::neox_layer,
    },
    KnownModule {
        classes: &["GPTNeoXMLP"],
        children: &["dense_h_to_4h", "dense_4h_to_h"],
        forward: |row, it| row.each(it, &["dense_h_to_4h", "act", "dense_4h_to_h"]),
    },
    KnownModule {
        classes: &[],
        children: &["self_attn", "mlp", "input_layernorm", "post_attention_layernorm"],
        forward: transformers::llama_layer,
    },
    KnownModule {
        classes: &[],
        children: &["gate_proj", "up_proj", "down_proj"],
        forward: transformers::gated_mlp,
    },
    KnownModule {
        classes: &[],
        children: &["predictions|transform", "decoder|predictions"],
        forward: transformers::mlm_head,
    },
    KnownModule {
        classes: &["RobertaLMHead"],
        children: &["dense", "decoder"],
        forward: transformers::roberta_head,
    },
    KnownModule { classes: &[], children: &["lm_head"], forward: transformers::causal_head },
];

/// The row of a module.
pub(super) fn find(module: &Printed) -> Option<&'static KnownModule> {
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
