//! Attention, by the projections that are printed, and PyTorch's own layer around it.

use super::Done;
use crate::diagnostic::Severity;
use crate::formats::printed::text::Printed;
use crate::formats::printed::translate::{Row, kind_of, width_in};
use crate::formats::spec::{Join, Value};

/// `nn.TransformerEncoderLayer`; a print does not say `norm_first`.
pub(super) fn encoder_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let own = it.child("self_attn");
    // The layer hands its share to attention, which does not print it.
    let share = it.child("dropout1").and_then(share_of).unwrap_or(0.0);
    let attends = |row: &mut Row<'_, '_>| {
        if let Some(own) = own {
            row.named(own, |row| multihead(row, own, share))?;
        }
        row.each(it, &["dropout1"])
    };
    // `x + self._sa_block(x)`: the sum lies in memory as its first operand does.
    row.branch(Join::Add, 1, &[&|_| Ok(()), &attends])?;
    row.each(it, &["norm1"])?;
    let feeds = |row: &mut Row<'_, '_>| {
        row.each(it, &["linear1"])?;
        row.call("relu", &[])?;
        row.each(it, &["dropout", "linear2", "dropout2"])
    };
    row.branch(Join::Add, 1, &[&|_| Ok(()), &feeds])?;
    row.each(it, &["norm2"])
}

/// `nn.MultiheadAttention` of a sequence with itself, with `batch_first=True` and `need_weights=False`.
pub(super) fn multihead(row: &mut Row<'_, '_>, it: &Printed, dropout: f64) -> Done {
    let Some(out) = it.child("out_proj") else { return Ok(()) };
    let width = row.x.width().unwrap_or(1).max(1);
    let head =
        [64, 32, 80, 96, 16, 8].into_iter().find(|&n| width.is_multiple_of(n)).unwrap_or(width);
    let message = say!(
        "a print does not state how many heads `{class}` (line {line}) has, nor `batch_first` and `need_weights`; \
         heads of {head}, True and False are assumed",
        class = it.class,
        line = it.place.line,
        head
    );
    row.note(Severity::Info, "assumed-heads", message);
    let bias = out.argument("bias", None) != Some(&Value::Flag(false));
    let arguments = [
        ("num_heads", Value::from(width.div_euclid(head).max(1))),
        ("bias", Value::Flag(bias)),
        ("dropout", Value::Number(dropout)),
        ("sequence_first", Value::Flag(true)),
    ];
    row.call("attention", &arguments)
}

/// What a dropout drops.
fn share_of(dropout: &Printed) -> Option<f64> {
    match dropout.argument("p", Some(0))? {
        Value::Number(share) => Some(*share),
        _ => None,
    }
}

/// Attention without its projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attends {
    ToAll,
    ToBefore,
    /// And queries and keys are rotated.
    Rotary,
}

/// Self-attention by its projections, wherever they are: of `own`, and the last of `last`.
pub(super) fn attention(
    row: &mut Row<'_, '_>,
    own: &Printed,
    last: &Printed,
    kind: Attends,
) -> Done {
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
        let message = say!(
            "a print does not state how many heads `{class}` (line {line}) has; heads of {head} are assumed",
            class = own.class,
            line = own.place.line,
            head
        );
        row.note(Severity::Info, "assumed-heads", message);
    }
    let share = |names: &[&str]| share_of(own.any_child(names)?);
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
