//! Attention as the user chose it: fused, or spelled out as in transformers' `eager`.
//!
//! A file has the variant with which it was exported. Older code, and older versions of transformers, have only
//! the other.

use super::patterns::{fused_attention, is_tensor, scaled};
use super::{DOMAIN, View};
use crate::config::{Attention, Config};
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::tensor::{DType, TensorType};

/// Turns attention into what is asked for.
pub(super) fn obey(view: &mut View<'_>, config: &Config) {
    let (found, others, message) = match config.attention {
        Attention::Auto => return,
        Attention::Eager => {
            let found = fused(view);
            let message = say!(
                "{count} times, attention is assumed to run spelled out, as the setting asks",
                count = found.len()
            );
            (found, spelled_out(view).len(), message)
        }
        Attention::Sdpa | Attention::Flash => {
            let found = spelled_out(view);
            let message = say!(
                "{count} times, attention is assumed to run fused, as the setting asks",
                count = found.len()
            );
            (found, fused(view).len(), message)
        }
    };
    let count = found.len();
    for (at, node) in found {
        view.replace(at, node);
    }
    if config.attention == Attention::Eager {
        add_masks(view);
    }
    if count > 0 {
        view.say(Severity::Info, "attention-setting", message);
    } else if others == 0 {
        let message = say!("the setting of attention changes nothing: no attention was recognised");
        view.say(Severity::Warning, "attention-setting", message);
    }
}

/// Fused attention, as it is spelled out.
fn fused(view: &View<'_>) -> Vec<(NodeId, Node)> {
    let is_fused = |node: &Node| node.op == "Attention" && node.domain == DOMAIN;
    let spell_out = |node: &Node| {
        let mut node = node.clone();
        node.attributes.insert("eager".to_owned(), Attribute::Int(1));
        node
    };
    let fused = view.nodes().filter(|(_, node)| is_fused(node));
    fused.map(|(at, node)| (at, spell_out(node))).collect()
}

/// Where a flag stands for the mask of the fused kernel, what is spelled out adds a tensor, made once for
/// all layers (`masking_utils.eager_mask`).
fn add_masks(view: &mut View<'_>) {
    let is_masked = |node: &Node| {
        node.int("eager").is_some() && node.int("masked").is_some() && node.input(3).is_none()
    };
    let masked: Vec<NodeId> =
        view.nodes().filter(|(_, node)| is_masked(node)).map(|(at, _)| at).collect();
    let mut mask = None;
    for at in masked {
        let Some(mut node) = view.node(at).cloned() else { continue };
        mask = mask.or_else(|| causal_mask(view, &node));
        node.inputs.resize(3, None);
        node.inputs.push(mask);
        view.replace(at, node);
    }
}

/// A mask for tokens `[N, L]`, made behind the first node, as attention of this kind adds it.
fn causal_mask(view: &mut View<'_>, attention: &Node) -> Option<ValueId> {
    let scores = view.dims(attention.input(0)?)?;
    let &[_, _, length, _] = scores else { return None };
    let is_tokens = |&value: &ValueId| {
        view.typed.ty(value).is_some_and(|ty| {
            !ty.dtype.is_floating() && ty.rank() == 2 && ty.dims.last() == Some(&length)
        })
    };
    let tokens = view.graph().inputs.iter().copied().find(is_tokens)?;
    let batch = *view.dims(tokens)?.first()?;
    let ty = TensorType::new(DType::Float32, vec![batch, 1, length, length]);
    let mask = view.add_value("attention_mask_4d".to_owned(), ty, None);
    let node = Node {
        name: "attention_mask_4d".to_owned(),
        op: "CausalMask".to_owned(),
        domain: DOMAIN.to_owned(),
        inputs: vec![Some(tokens)],
        outputs: vec![Some(mask)],
        ..Node::default()
    };
    view.behind.entry(NodeId(0)).or_default().push(node);
    view.nodes_changed = true;
    Some(mask)
}

/// Attention that is spelled out, as one fused call.
fn spelled_out(view: &View<'_>) -> Vec<(NodeId, Node)> {
    view.nodes().filter_map(|(at, node)| Some((at, whole(view, node)?))).collect()
}

/// `q kᵀ → scaled, masked, cast in any order → Softmax → [cast] → [Dropout] → · v`, the product of
/// queries or the queries themselves scaled once.
fn whole(view: &View<'_>, node: &Node) -> Option<Node> {
    if node.op != "MatMul" || !node.domain.is_empty() {
        return None;
    }
    let (mut weights, v) = (node.input(0)?, node.input(1)?);
    let mut drops = false;
    while let Some(maker) = view.producer(weights).filter(|n| n.op == "Dropout" || n.op == "Cast") {
        drops |= maker.op == "Dropout";
        weights = maker.input(0)?;
    }
    let mut scores = view.made_by(weights, "Softmax")?.input(0)?;
    let mut mask = None;
    let product = loop {
        let maker = view.producer(scores)?;
        let (a, b) = (maker.input(0)?, maker.input(1));
        let is_as_large = |value: ValueId| view.dims(value) == view.dims(scores);
        scores = match maker.op.as_str() {
            "MatMul" => break maker,
            "Cast" => a,
            "Mul" | "Div" => scaled(view, scores)?,
            "Add" if is_as_large(a) => {
                mask = b;
                a
            }
            "Add" => {
                mask = Some(a);
                b?
            }
            // `masked_fill`, and `where` of the scores and the least number.
            "MaskedFill" | "masked_fill" => {
                mask = b;
                a
            }
            "Where" => {
                mask = Some(a);
                let chosen = [b?, maker.input(2)?];
                chosen
                    .into_iter()
                    .find(|&value| is_as_large(value) && view.number(value).is_none())?
            }
            _ => return None,
        };
    };
    let unscaled = |value: ValueId| scaled(view, value).unwrap_or(value);
    let (q, k) = (unscaled(product.input(0)?), unscaled(product.input(1)?));
    let mut found = fused_attention(view, node, [q, k, v], drops)?;
    match mask {
        Some(mask) if is_tensor(view, mask) && view.typed.ty(mask)?.dtype.is_floating() => {
            found.inputs.push(Some(mask));
        }
        Some(_) => {
            found.attributes.insert("masked".to_owned(), Attribute::Int(1));
        }
        None => {}
    }
    Some(found)
}
