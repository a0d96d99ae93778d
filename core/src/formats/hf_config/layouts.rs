//! The layout of each family: where its parameters show its sizes. One row each, by the names of transformers 5.

/// Where a setting of a configuration shows. Paths are those under the family's base.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setting {
    /// A dimension of a parameter.
    Size(&'static str, usize),
    /// Rows of a parameter but for so many.
    Less(&'static str, u64),
    /// One dimension divided by another.
    Ratio((&'static str, usize), (&'static str, usize)),
    /// The side of a picture: places but for so many in front, and patches of that projection.
    Side(&'static str, &'static str, u64),
    /// Modules in a list.
    Count(&'static str),
    /// Whether there is a parameter.
    Has(&'static str),
    /// Whether there is none.
    Lacks(&'static str),
    /// What follows if there is a parameter.
    Word(&'static str, &'static str),
    /// What a dropout drops.
    Drop(&'static str),
    /// Which activation a module is.
    Act(&'static str),
}

/// How many heads there are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heads {
    /// One of the settings tells.
    Told,
    /// Heads of the usual width.
    Usual {
        key: &'static str,
        /// Width of all queries.
        queries: (&'static str, usize),
        /// Setting and width of all keys, where they may be fewer.
        keys: Option<(&'static str, (&'static str, usize))>,
        /// A norm of heads, whose size is the width of one.
        norm: Option<&'static str>,
        /// The usual width, by that of all queries.
        width: fn(u64) -> u64,
    },
}

/// A family: one row of the table.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) model_type: &'static str,
    /// How names of its classes begin.
    pub(super) class: &'static str,
    /// The model inside of one with a head.
    pub(super) base: &'static str,
    /// How the names end of parameters that tell the family in a file.
    pub(super) marks: &'static [&'static str],
    /// Such that it has not.
    pub(super) without: &'static [&'static str],
    /// COUNT: words that the vocabulary of a file has at least; families with the same names differ so.
    pub(super) least_words: u64,
    /// Older names.
    pub(super) renamed: &'static [(&'static str, &'static str)],
    pub(super) settings: &'static [(&'static str, Setting)],
    pub(super) heads: Heads,
    /// The usual head.
    pub(super) head: &'static str,
    /// How its parameters' names begin; none where a file need not have any.
    pub(super) heads_of_files: &'static [&'static str],
    /// The table of words that a head may share.
    pub(super) words: Option<&'static str>,
    /// Whether published models of so many words and that width share it.
    pub(super) ties: Option<fn(u64, u64) -> bool>,
}

use Setting::{Act, Count, Drop, Has, Lacks, Less, Ratio, Side, Size, Word};

const QUERY: &str = "layers.0.self_attn.q_proj.weight";
const KEY: &str = "layers.0.self_attn.k_proj.weight";
const WORDS: &str = "embed_tokens.weight";

/// Where Llama and its relatives have their sizes.
const LLAMA: &[(&str, Setting)] = &[
    ("vocab_size", Size(WORDS, 0)),
    ("hidden_size", Size(WORDS, 1)),
    ("num_hidden_layers", Count("layers")),
    ("intermediate_size", Size("layers.0.mlp.gate_proj.weight", 0)),
    ("attention_bias", Has("layers.0.self_attn.o_proj.bias")),
    ("mlp_bias", Has("layers.0.mlp.gate_proj.bias")),
    ("hidden_act", Act("layers.0.mlp.act_fn")),
    ("hidden_activation", Act("layers.0.mlp.act_fn")),
];

const LLAMA_HEADS: Heads = Heads::Usual {
    key: "num_attention_heads",
    queries: (QUERY, 0),
    keys: Some(("num_key_value_heads", (KEY, 0))),
    norm: Some("layers.0.self_attn.q_norm.weight"),
    width: |width| if width > 2048 { 128 } else { 64 },
};

const LLAMA_LIKE: Layout = Layout {
    model_type: "llama",
    class: "Llama",
    base: "model",
    marks: &["layers.0.self_attn.q_proj.weight", "layers.0.mlp.gate_proj.weight"],
    without: &[
        "layers.0.self_attn.q_proj.bias",
        "layers.0.self_attn.q_norm.weight",
        "layers.0.pre_feedforward_layernorm.weight",
        "layers.0.mlp.experts.0.gate_proj.weight",
    ],
    least_words: 0,
    renamed: &[],
    settings: LLAMA,
    heads: LLAMA_HEADS,
    head: "ForCausalLM",
    heads_of_files: &[],
    words: Some(WORDS),
    // Llama 3.2 and Qwen to 3B do, older and larger ones do not.
    ties: Some(|vocab, width| vocab > 100_000 && width <= 3072),
};

const GEMMA: Layout = Layout {
    model_type: "gemma",
    class: "Gemma",
    heads: Heads::Usual {
        key: "num_attention_heads",
        queries: (QUERY, 0),
        keys: Some(("num_key_value_heads", (KEY, 0))),
        norm: Some("layers.0.self_attn.q_norm.weight"),
        width: |width| if width >= 1024 { 256 } else { 64 },
    },
    ties: Some(|_, _| true),
    ..LLAMA_LIKE
};

const BERT: &[(&str, Setting)] = &[
    ("vocab_size", Size("embeddings.word_embeddings.weight", 0)),
    ("embedding_size", Size("embeddings.word_embeddings.weight", 1)),
    ("hidden_size", Size("encoder.layer.0.attention.self.query.weight", 0)),
    ("max_position_embeddings", Size("embeddings.position_embeddings.weight", 0)),
    ("type_vocab_size", Size("embeddings.token_type_embeddings.weight", 0)),
    ("num_hidden_layers", Count("encoder.layer")),
    ("intermediate_size", Size("encoder.layer.0.intermediate.dense.weight", 0)),
    ("hidden_dropout_prob", Drop("embeddings.dropout")),
    ("attention_probs_dropout_prob", Drop("encoder.layer.0.attention.self.dropout")),
    ("classifier_dropout", Drop("dropout")),
    ("hidden_act", Act("encoder.layer.0.intermediate.intermediate_act_fn")),
];

const BERT_LIKE: Layout = Layout {
    model_type: "bert",
    class: "Bert",
    base: "bert",
    marks: &[
        "embeddings.token_type_embeddings.weight",
        "encoder.layer.0.attention.self.query.weight",
        "encoder.layer.0.attention.output.LayerNorm.weight",
    ],
    without: &["embeddings_project.weight"],
    least_words: 0,
    renamed: &[("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")],
    settings: BERT,
    heads: Heads::Usual {
        key: "num_attention_heads",
        queries: ("encoder.layer.0.attention.self.query.weight", 0),
        keys: None,
        norm: None,
        width: |width| if width.is_multiple_of(384) && width < 768 { 32 } else { 64 },
    },
    head: "ForMaskedLM",
    heads_of_files: &["cls.predictions.", "lm_head.", "generator_predictions."],
    words: None,
    ties: None,
};

const PICTURES: Layout = Layout {
    model_type: "vit",
    class: "ViT",
    base: "vit",
    marks: &[
        "embeddings.patch_embeddings.projection.weight",
        "embeddings.cls_token",
        "layers.0.attention.q_proj.weight",
    ],
    without: &["embeddings.distillation_token"],
    least_words: 0,
    renamed: &[
        ("encoder.layer.", "layers."),
        (".attention.attention.query.", ".attention.q_proj."),
        (".attention.attention.key.", ".attention.k_proj."),
        (".attention.attention.value.", ".attention.v_proj."),
        (".attention.output.dense.", ".attention.o_proj."),
        (".intermediate.dense.", ".mlp.fc1."),
        (".output.dense.", ".mlp.fc2."),
        (".intermediate.intermediate_act_fn", ".mlp.activation_fn"),
    ],
    settings: &[
        ("hidden_size", Size("embeddings.patch_embeddings.projection.weight", 0)),
        ("num_channels", Size("embeddings.patch_embeddings.projection.weight", 1)),
        ("patch_size", Size("embeddings.patch_embeddings.projection.weight", 2)),
        (
            "image_size",
            Side(
                "embeddings.position_embeddings",
                "embeddings.patch_embeddings.projection.weight",
                1,
            ),
        ),
        ("num_hidden_layers", Count("layers")),
        ("intermediate_size", Size("layers.0.mlp.fc1.weight", 0)),
        ("qkv_bias", Has("layers.0.attention.q_proj.bias")),
        ("hidden_dropout_prob", Drop("embeddings.dropout")),
        ("hidden_act", Act("layers.0.mlp.activation_fn")),
    ],
    heads: Heads::Usual {
        key: "num_attention_heads",
        queries: ("layers.0.attention.q_proj.weight", 0),
        keys: None,
        norm: None,
        width: |_| 64,
    },
    head: "ForImageClassification",
    heads_of_files: &["classifier."],
    words: None,
    ties: None,
};

/// All families that tell themselves; of those with the same marks, the first whose program fits.
pub(super) const LAYOUTS: &[Layout] = &[
    Layout {
        model_type: "gpt2",
        class: "GPT2",
        base: "transformer",
        marks: &["h.0.attn.c_attn.weight", "h.0.mlp.c_fc.weight", "wpe.weight"],
        without: &[],
        settings: &[
            ("vocab_size", Size("wte.weight", 0)),
            ("n_embd", Size("wte.weight", 1)),
            ("n_positions", Size("wpe.weight", 0)),
            ("n_layer", Count("h")),
            ("n_inner", Size("h.0.mlp.c_fc.weight", 1)),
            ("embd_pdrop", Drop("drop")),
            ("attn_pdrop", Drop("h.0.attn.attn_dropout")),
            ("resid_pdrop", Drop("h.0.attn.resid_dropout")),
            ("activation_function", Act("h.0.mlp.act")),
        ],
        heads: Heads::Usual {
            key: "n_head",
            queries: ("wte.weight", 1),
            keys: None,
            norm: None,
            width: |_| 64,
        },
        head: "LMHeadModel",
        words: Some("wte.weight"),
        ties: Some(|_, _| true),
        ..LLAMA_LIKE
    },
    // Gemma has Llama's names and more words.
    Layout { least_words: 256_000, ..GEMMA },
    LLAMA_LIKE,
    Layout {
        model_type: "mistral",
        class: "Mistral",
        // Its files have Llama's names, and Llama's program is the same.
        least_words: u64::MAX,
        ties: Some(|_, _| false),
        heads: Heads::Usual {
            key: "num_attention_heads",
            queries: (QUERY, 0),
            keys: Some(("num_key_value_heads", (KEY, 0))),
            norm: None,
            width: |width| if width >= 2048 { 128 } else { 64 },
        },
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "qwen2",
        class: "Qwen2",
        marks: &["layers.0.self_attn.q_proj.bias", "layers.0.mlp.gate_proj.weight"],
        without: &["layers.0.self_attn.o_proj.bias"],
        heads: Heads::Usual {
            key: "num_attention_heads",
            queries: (QUERY, 0),
            keys: Some(("num_key_value_heads", (KEY, 0))),
            norm: None,
            width: |width| if width >= 1536 { 128 } else { 64 },
        },
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "qwen3",
        class: "Qwen3",
        marks: &["layers.0.self_attn.q_norm.weight", "layers.0.mlp.gate_proj.weight"],
        without: &["layers.0.pre_feedforward_layernorm.weight"],
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "gemma2",
        class: "Gemma2",
        marks: &["layers.0.pre_feedforward_layernorm.weight"],
        without: &["layers.0.self_attn.q_norm.weight"],
        ..GEMMA
    },
    Layout {
        model_type: "gemma3_text",
        class: "Gemma3",
        marks: &["layers.0.pre_feedforward_layernorm.weight", "layers.0.self_attn.q_norm.weight"],
        without: &[],
        ..GEMMA
    },
    // RoBERTa has BERT's names, too: the head or the base tells it.
    Layout {
        model_type: "roberta",
        class: "Roberta",
        base: "roberta",
        marks: &["roberta.embeddings.token_type_embeddings.weight"],
        ..BERT_LIKE
    },
    Layout {
        without: &[
            "embeddings_project.weight",
            "roberta.embeddings.token_type_embeddings.weight",
            "electra.embeddings.token_type_embeddings.weight",
        ],
        ..BERT_LIKE
    },
    Layout {
        model_type: "electra",
        class: "Electra",
        base: "electra",
        marks: &["electra.embeddings.token_type_embeddings.weight"],
        without: &[],
        ..BERT_LIKE
    },
    Layout {
        model_type: "distilbert",
        class: "DistilBert",
        base: "distilbert",
        marks: &["transformer.layer.0.attention.q_lin.weight"],
        without: &[],
        settings: &[
            ("vocab_size", Size("embeddings.word_embeddings.weight", 0)),
            ("dim", Size("embeddings.word_embeddings.weight", 1)),
            ("max_position_embeddings", Size("embeddings.position_embeddings.weight", 0)),
            ("n_layers", Count("transformer.layer")),
            ("hidden_dim", Size("transformer.layer.0.ffn.lin1.weight", 0)),
            ("dropout", Drop("embeddings.dropout")),
            ("attention_dropout", Drop("transformer.layer.0.attention.dropout")),
            ("seq_classif_dropout", Drop("dropout")),
            ("activation", Act("transformer.layer.0.ffn.activation")),
        ],
        heads: Heads::Usual {
            key: "n_heads",
            queries: ("transformer.layer.0.attention.q_lin.weight", 0),
            keys: None,
            norm: None,
            width: |_| 64,
        },
        heads_of_files: &["vocab_transform."],
        ..BERT_LIKE
    },
    Layout {
        model_type: "opt",
        class: "OPT",
        marks: &["decoder.embed_positions.weight", "decoder.layers.0.self_attn_layer_norm.weight"],
        without: &["encoder.layers.0.fc1.weight", "decoder.layers.0.encoder_attn.q_proj.weight"],
        settings: &[
            ("vocab_size", Size("decoder.embed_tokens.weight", 0)),
            ("word_embed_proj_dim", Size("decoder.embed_tokens.weight", 1)),
            ("hidden_size", Size("decoder.layers.0.fc1.weight", 1)),
            ("max_position_embeddings", Less("decoder.embed_positions.weight", 2)),
            ("num_hidden_layers", Count("decoder.layers")),
            ("ffn_dim", Size("decoder.layers.0.fc1.weight", 0)),
            ("enable_bias", Has("decoder.layers.0.fc1.bias")),
            ("do_layer_norm_before", Has("decoder.final_layer_norm.weight")),
            ("activation_function", Act("decoder.layers.0.activation_fn")),
        ],
        heads: Heads::Usual {
            key: "num_attention_heads",
            queries: ("decoder.layers.0.self_attn.q_proj.weight", 0),
            keys: None,
            norm: None,
            width: |width| match width {
                0..=2048 => 64,
                2049..=2560 => 80,
                _ => 128,
            },
        },
        words: Some("decoder.embed_tokens.weight"),
        ties: Some(|_, _| true),
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "gpt_neox",
        class: "GPTNeoX",
        base: "gpt_neox",
        marks: &["embed_in.weight", "layers.0.attention.query_key_value.weight"],
        without: &[],
        renamed: &[("embed_out.", "lm_head.")],
        settings: &[
            ("vocab_size", Size("embed_in.weight", 0)),
            ("hidden_size", Size("embed_in.weight", 1)),
            ("num_hidden_layers", Count("layers")),
            ("intermediate_size", Size("layers.0.mlp.dense_h_to_4h.weight", 0)),
            ("attention_bias", Has("layers.0.attention.query_key_value.bias")),
            ("hidden_dropout", Drop("emb_dropout")),
            ("hidden_act", Act("layers.0.mlp.act")),
        ],
        heads: Heads::Usual {
            key: "num_attention_heads",
            queries: ("layers.0.attention.dense.weight", 1),
            keys: None,
            norm: None,
            width: |width| match width {
                0..=1024 => 64,
                2560 => 80,
                6144 => 96,
                _ => 128,
            },
        },
        words: Some("embed_in.weight"),
        ties: Some(|_, _| false),
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "gpt_neo",
        class: "GPTNeo",
        base: "transformer",
        marks: &["h.0.attn.attention.q_proj.weight"],
        without: &[],
        settings: &[
            ("vocab_size", Size("wte.weight", 0)),
            ("hidden_size", Size("wte.weight", 1)),
            ("max_position_embeddings", Size("wpe.weight", 0)),
            ("num_layers", Count("h")),
            ("intermediate_size", Size("h.0.mlp.c_fc.weight", 0)),
            ("embed_dropout", Drop("drop")),
            ("attention_dropout", Drop("h.0.attn.attention.attn_dropout")),
            ("resid_dropout", Drop("h.0.attn.attention.resid_dropout")),
            ("activation_function", Act("h.0.mlp.act")),
        ],
        heads: Heads::Usual {
            key: "num_heads",
            queries: ("h.0.attn.attention.q_proj.weight", 0),
            keys: None,
            norm: None,
            width: |width| if width < 2048 { 64 } else { 128 },
        },
        words: Some("wte.weight"),
        ties: Some(|_, _| true),
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "phi",
        class: "Phi",
        marks: &["layers.0.self_attn.dense.weight", "layers.0.mlp.fc1.weight"],
        without: &[],
        settings: &[
            ("vocab_size", Size(WORDS, 0)),
            ("hidden_size", Size(WORDS, 1)),
            ("num_hidden_layers", Count("layers")),
            ("intermediate_size", Size("layers.0.mlp.fc1.weight", 0)),
            ("qk_layernorm", Has("layers.0.self_attn.q_layernorm.weight")),
            ("resid_pdrop", Drop("layers.0.resid_dropout")),
            ("embd_pdrop", Drop("embed_dropout")),
            ("hidden_act", Act("layers.0.mlp.activation_fn")),
        ],
        heads: Heads::Usual {
            key: "num_attention_heads",
            queries: (QUERY, 0),
            keys: None,
            norm: Some("layers.0.self_attn.q_layernorm.weight"),
            width: |width| if width == 2560 { 80 } else { 64 },
        },
        ties: Some(|_, _| false),
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "t5",
        class: "T5",
        base: "",
        marks: &[
            "shared.weight",
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "decoder.block.0.layer.1.EncDecAttention.q.weight",
        ],
        without: &[],
        settings: &[
            ("vocab_size", Size("shared.weight", 0)),
            ("d_model", Size("shared.weight", 1)),
            ("num_layers", Count("encoder.block")),
            ("num_decoder_layers", Count("decoder.block")),
            (
                "relative_attention_num_buckets",
                Size("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 0),
            ),
            (
                "num_heads",
                Size("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 1),
            ),
            (
                "d_kv",
                Ratio(
                    ("encoder.block.0.layer.0.SelfAttention.q.weight", 0),
                    ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 1),
                ),
            ),
            ("d_ff", Size("encoder.block.0.layer.1.DenseReluDense.wo.weight", 1)),
            (
                "feed_forward_proj",
                Word("encoder.block.0.layer.1.DenseReluDense.wi_0.weight", "gated-gelu"),
            ),
            ("tie_word_embeddings", Lacks("encoder.block.0.layer.1.DenseReluDense.wi_0.weight")),
            ("dropout_rate", Drop("encoder.dropout")),
        ],
        heads: Heads::Told,
        head: "ForConditionalGeneration",
        words: Some("shared.weight"),
        ties: None,
        ..LLAMA_LIKE
    },
    Layout {
        model_type: "bart",
        class: "Bart",
        marks: &[
            "shared.weight",
            "encoder.layernorm_embedding.weight",
            "decoder.layers.0.encoder_attn.q_proj.weight",
        ],
        without: &[],
        settings: &[
            ("vocab_size", Size("shared.weight", 0)),
            ("d_model", Size("shared.weight", 1)),
            ("max_position_embeddings", Less("encoder.embed_positions.weight", 2)),
            ("encoder_layers", Count("encoder.layers")),
            ("decoder_layers", Count("decoder.layers")),
            ("encoder_ffn_dim", Size("encoder.layers.0.fc1.weight", 0)),
            ("decoder_ffn_dim", Size("decoder.layers.0.fc1.weight", 0)),
            ("activation_function", Act("encoder.layers.0.activation_fn")),
        ],
        heads: Heads::Usual {
            key: "encoder_attention_heads",
            queries: ("encoder.layers.0.self_attn.q_proj.weight", 0),
            keys: Some((
                "decoder_attention_heads",
                ("decoder.layers.0.self_attn.q_proj.weight", 0),
            )),
            norm: None,
            width: |_| 64,
        },
        head: "ForConditionalGeneration",
        words: Some("shared.weight"),
        ties: Some(|_, _| true),
        ..LLAMA_LIKE
    },
    PICTURES,
    Layout {
        model_type: "deit",
        class: "DeiT",
        base: "deit",
        marks: &[
            "embeddings.patch_embeddings.projection.weight",
            "embeddings.distillation_token",
            "layers.0.attention.q_proj.weight",
        ],
        without: &[],
        ..PICTURES
    },
];
