//! Blocks of transformers' models, where they stand in models of other classes.

use super::Done;
use super::attention::{Attends, attention};
use crate::formats::printed::text::Printed;
use crate::formats::printed::translate::Row;
use crate::formats::spec::{Join, Value};

/// Word, type and position: all are looked up, and added.
pub(super) fn bert_embeddings(row: &mut Row<'_, '_>, it: &Printed) -> Done {
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
pub(super) fn bert_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
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
pub(super) fn pooler(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.call("select", &[])?;
    row.each(it, &["dense", "activation"])
}

pub(super) fn mlm_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["predictions", "transform"])?;
    it.child("decoder").map_or(Ok(()), |decoder| row.tied_head(decoder))
}

pub(super) fn roberta_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["dense"])?;
    row.call("gelu", &[])?;
    row.each(it, &["layer_norm"])?;
    it.child("decoder").map_or(Ok(()), |decoder| row.tied_head(decoder))
}

pub(super) fn distilbert_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("attention") else { return row.all(&it.children) };
    row.residual(false, |row| attention(row, own, own, Attends::ToAll), |_| Ok(()))?;
    row.each(it, &["sa_layer_norm"])?;
    row.residual(false, |row| row.each(it, &["ffn"]), |_| Ok(()))?;
    row.each(it, &["output_layer_norm"])
}

pub(super) fn distilbert_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["distilbert", "vocab_transform", "activation", "vocab_layer_norm"])?;
    it.child("vocab_projector").map_or(Ok(()), |head| row.tied_head(head))
}

pub(super) fn gpt2_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("attn") else { return row.all(&it.children) };
    let body = |row: &mut Row<'_, '_>| {
        row.each(it, &["ln_1"])?;
        attention(row, own, own, Attends::ToBefore)?;
        row.each(own, &["resid_dropout"])
    };
    row.residual(false, body, |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["ln_2", "mlp"]), |_| Ok(()))
}

pub(super) fn opt_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
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
pub(super) fn neox_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
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
pub(super) fn llama_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some(own) = it.child("self_attn") else { return row.all(&it.children) };
    let body = |row: &mut Row<'_, '_>| {
        row.each(it, &["input_layernorm"])?;
        attention(row, own, own, Attends::Rotary)
    };
    row.residual(false, body, |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["post_attention_layernorm", "mlp"]), |_| Ok(()))
}

/// `down(act(gate(x)) * up(x))`.
pub(super) fn gated_mlp(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let gate = |row: &mut Row<'_, '_>| row.each(it, &["gate_proj", "act_fn"]);
    row.branch(Join::Mul, 1, &[&gate, &|row| row.each(it, &["up_proj"])])?;
    row.each(it, &["down_proj"])
}

/// The head of a language model, behind all else.
pub(super) fn causal_head(row: &mut Row<'_, '_>, it: &Printed) -> Done {
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
