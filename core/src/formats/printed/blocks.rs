//! Classes whose `forward` is known: one row each, by class name and the names of what is inside.
//!
//! A print has no residual sums, no concatenations and no calls of functions. The rows say them, in
//! the words of torchvision's, timm's and transformers' own `forward`.

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
const TABLE: &[Block] = &[
    Block {
        classes: &["BasicBlock", "Bottleneck"],
        children: &["conv1", "bn1", "conv2", "bn2"],
        forward: torchvision::resnet_block,
    },
    Block {
        classes: &["MBConv", "FusedMBConv"],
        children: &["block", "stochastic_depth"],
        forward: torchvision::mobile_block,
    },
    Block {
        classes: &["InvertedResidual", "DepthwiseSeparableConv", "EdgeResidual"],
        children: &["bn1", "bn2", "conv_pw|conv_exp"],
        forward: timm::mobile_block,
    },
    Block {
        classes: &["Bottleneck"],
        children: &["conv1", "conv2", "conv3", "act3"],
        forward: timm::regnet_block,
    },
    Block { classes: &["BatchNormAct2d"], children: &["act"], forward: timm::norm_and_act },
    Block { classes: &["SelectAdaptivePool2d"], children: &[], forward: timm::pool },
    Block {
        classes: &["SwinTransformer"],
        children: &["features", "norm", "head"],
        forward: torchvision::swin,
    },
    Block {
        classes: &["SwinTransformer"],
        children: &["patch_embed", "layers", "norm", "head"],
        forward: timm::swin,
    },
    Block {
        classes: &["SwinTransformerBlock"],
        children: &["norm1", "attn", "norm2", "mlp"],
        forward: torchvision::swin_block,
    },
    Block {
        classes: &["PatchMerging"],
        children: &["reduction", "norm"],
        forward: torchvision::patch_merging,
    },
    Block {
        classes: &["InvertedResidual", "_InvertedResidual"],
        children: &["conv|block|layers"],
        forward: torchvision::mobile_block,
    },
    Block {
        classes: &["CNBlock"],
        children: &["block", "stochastic_depth"],
        forward: torchvision::convnext_block,
    },
    Block {
        classes: &["ConvNeXtBlock"],
        children: &["conv_dw", "norm", "mlp"],
        forward: timm::timm_convnext_block,
    },
    Block {
        classes: &["SqueezeExcitation"],
        children: &["fc1", "fc2"],
        forward: torchvision::squeeze_excitation,
    },
    Block {
        classes: &["SqueezeExcite", "SEModule"],
        children: &["conv_reduce|fc1", "conv_expand|fc2"],
        forward: torchvision::squeeze_excitation,
    },
    Block {
        classes: &["_DenseLayer"],
        children: &["norm1", "conv1", "norm2", "conv2"],
        forward: torchvision::dense_layer,
    },
    Block {
        classes: &["DenseNet"],
        children: &["features", "classifier"],
        forward: torchvision::densenet,
    },
    Block {
        classes: &["BasicConv2d"],
        children: &["conv", "bn"],
        forward: torchvision::basic_conv,
    },
    Block {
        classes: &["Fire"],
        children: &["squeeze", "expand1x1", "expand3x3"],
        forward: torchvision::fire,
    },
    Block {
        classes: &["Inception"],
        children: &["branch1", "branch2", "branch3", "branch4"],
        forward: torchvision::googlenet_block,
    },
    Block {
        classes: &["InceptionA", "InceptionB", "InceptionC", "InceptionD", "InceptionE"],
        children: &[],
        forward: torchvision::inception_block,
    },
    Block {
        classes: &["ResBottleneckBlock"],
        children: &["f", "activation"],
        forward: torchvision::regnet_block,
    },
    Block {
        classes: &["ResNet", "RegNet", "EfficientNet", "ConvNeXt", "MobileNetV3", "VGG", "AlexNet"],
        children: &["avgpool"],
        forward: torchvision::with_flatten,
    },
    Block {
        classes: &["VisionTransformer"],
        children: &["conv_proj", "encoder", "heads"],
        forward: torchvision::vision_transformer,
    },
    Block {
        classes: &["Encoder"],
        children: &["dropout", "layers", "ln"],
        forward: torchvision::vision_encoder,
    },
    Block {
        classes: &["EncoderBlock"],
        children: &["ln_1", "self_attention", "ln_2", "mlp"],
        forward: torchvision::vision_block,
    },
    Block {
        classes: &["VisionTransformer"],
        children: &["patch_embed", "blocks", "head"],
        forward: timm::timm_vision_transformer,
    },
    Block { classes: &["PatchEmbed"], children: &["proj"], forward: timm::patch_embed },
    Block {
        classes: &["Block"],
        children: &["norm1", "attn", "norm2", "mlp"],
        forward: timm::timm_block,
    },
    Block { classes: &["LayerScale"], children: &[], forward: timm::layer_scale },
    Block {
        classes: &["Attention"],
        children: &["qkv", "proj"],
        forward: |row, it| attention(row, it, it, Attends::ToAll),
    },
    Block {
        classes: &["MultiheadAttention"],
        children: &["out_proj"],
        forward: |row, it| attention::multihead(row, it, 0.0),
    },
    Block {
        classes: &["TransformerEncoderLayer"],
        children: &["self_attn", "linear1", "linear2", "norm1", "norm2"],
        forward: attention::encoder_layer,
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
        forward: transformers::bert_layer,
    },
    Block {
        classes: &["BertPooler", "RobertaPooler"],
        children: &["dense"],
        forward: transformers::pooler,
    },
    Block {
        classes: &["RobertaEmbeddings", "BertEmbeddings", "ElectraEmbeddings"],
        children: &["word_embeddings", "LayerNorm"],
        forward: transformers::bert_embeddings,
    },
    Block {
        classes: &["TransformerBlock"],
        children: &["attention", "sa_layer_norm", "ffn", "output_layer_norm"],
        forward: transformers::distilbert_layer,
    },
    Block {
        classes: &["FFN"],
        children: &["lin1", "lin2", "activation"],
        forward: |row, it| row.each(it, &["lin1", "activation", "lin2", "dropout"]),
    },
    Block {
        classes: &["DistilBertForMaskedLM"],
        children: &["distilbert", "vocab_projector"],
        forward: transformers::distilbert_head,
    },
    Block {
        classes: &["GPT2Block"],
        children: &["ln_1", "attn", "ln_2", "mlp"],
        forward: transformers::gpt2_block,
    },
    Block {
        classes: &["GPT2MLP"],
        children: &["c_fc", "c_proj"],
        forward: |row, it| row.each(it, &["c_fc", "act", "c_proj", "dropout"]),
    },
    Block {
        classes: &["OPTDecoderLayer"],
        children: &["self_attn", "fc1", "fc2"],
        forward: transformers::opt_layer,
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
        forward: transformers::neox_layer,
    },
    Block {
        classes: &["GPTNeoXMLP"],
        children: &["dense_h_to_4h", "dense_4h_to_h"],
        forward: |row, it| row.each(it, &["dense_h_to_4h", "act", "dense_4h_to_h"]),
    },
    Block {
        classes: &[],
        children: &["self_attn", "mlp", "input_layernorm", "post_attention_layernorm"],
        forward: transformers::llama_layer,
    },
    Block {
        classes: &[],
        children: &["gate_proj", "up_proj", "down_proj"],
        forward: transformers::gated_mlp,
    },
    Block {
        classes: &[],
        children: &["predictions|transform", "decoder|predictions"],
        forward: transformers::mlm_head,
    },
    Block {
        classes: &["RobertaLMHead"],
        children: &["dense", "decoder"],
        forward: transformers::roberta_head,
    },
    Block { classes: &[], children: &["lm_head"], forward: transformers::causal_head },
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
