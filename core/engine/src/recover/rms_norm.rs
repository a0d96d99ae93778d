//! Root-mean-square normalisation that a model spells out.
//!
//! transformers' `LlamaRMSNorm` and its many copies, `T5LayerNorm` and `GemmaRMSNorm` compute in single precision
//! for any precision of the model. Exports are mostly made in single precision, where these casts do nothing; in
//! other types they are real. The Python function also has variables that keep its values alive, so the chain
//! becomes one operator.

use super::View;
use super::patterns::torch;
use crate::config::Config;
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::tensor::DType;

/// Puts one operator in place of each chain.
pub(super) fn find_again(view: &mut View<'_>, config: &Config) {
    let keeps_casts = view.nodes().any(|(_, node)| is_idle_cast(view, node));
    let found: Vec<(NodeId, Found)> =
        view.nodes().filter_map(|(at, node)| Some((at, find(view, node, keeps_casts)?))).collect();
    view.found_again(&say!("an RMS norm that is spelled out"), found.len());
    let is_half = config.converts_to().is_some_and(|dtype| dtype != DType::Float32);
    if is_half && found.iter().any(|(_, found)| found.assumed) {
        view.say(
            Severity::Info,
            "assumed-norm-precision",
            say!("RMS norms are assumed to compute in single precision, as those of transformers do: the \
             file does not have the casts that would tell"),
        );
    }
    for (at, found) in found {
        // Patterns end at different nodes, so that none replaces another's.
        view.replace(at, found.node);
    }
}

/// A chain that was found.
struct Found {
    node: Node,
    /// Whether nothing in the file says in which precision it runs.
    assumed: bool,
}

/// A cast from single precision to single precision: `x.to(torch.float32)` of a model that is in it.
fn is_idle_cast(view: &View<'_>, node: &Node) -> bool {
    let is_single = |value: Option<ValueId>| {
        value.and_then(|value| view.typed.ty(value)).is_some_and(|ty| ty.dtype == DType::Float32)
    };
    node.op == "Cast" && is_single(node.input(0)) && is_single(node.output(0))
}

/// The chain that ends at this node. Gemma's cast back stays behind it, and does nothing.
fn find(view: &View<'_>, node: &Node, keeps_casts: bool) -> Option<Found> {
    if node.op != "Mul" || !node.domain.is_empty() {
        return None;
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    [(a, b), (b, a)].into_iter().find_map(|(normed, factor)| {
        let scale = scale_of(view, factor)?;
        let shape = view.dims(normed)?;
        if view.dims(scale.weight)? != shape.get(shape.len().checked_sub(1)?..)? {
            return None;
        }
        let closing = view.made_by(normed, "Cast").filter(|_| view.read_once(normed));
        let core = core_of(view, closing.map_or(Some(normed), |cast| cast.input(0))?)?;
        let keeps_input =
            if keeps_casts { closing.is_none() } else { is_of_class(node, "T5LayerNorm") };
        let flags = [
            ("upcasts", core.opens || !keeps_casts),
            ("keeps_input", keeps_input && !scale.is_shifted),
            ("plus_one", scale.is_shifted),
            ("weight_first", factor == a),
        ];
        let mut found = torch("SpelledRmsNorm", node, vec![Some(core.x), Some(scale.weight)]);
        for (name, flag) in flags {
            found.attributes.insert(name.to_owned(), Attribute::Int(i64::from(flag)));
        }
        Some(Found { node: found, assumed: !core.opens && !keeps_casts })
    })
}

fn is_of_class(node: &Node, class: &str) -> bool {
    node.origin.as_ref().is_some_and(|origin| origin.class.ends_with(class))
}

/// The trained factor.
struct Scale {
    weight: ValueId,
    /// Whether it is `1 + weight`.
    is_shifted: bool,
}

fn scale_of(view: &View<'_>, factor: ValueId) -> Option<Scale> {
    if view.is_initializer(factor) {
        return Some(Scale { weight: factor, is_shifted: false });
    }
    let sum = view.made_by(factor, "Add")?;
    let (a, b) = (sum.input(0)?, sum.input(1)?);
    let is_one = |value| view.number(value).is_some_and(|n| n.to_bits() == 1_f64.to_bits());
    let weight = if is_one(b) { a } else { Some(b).filter(|_| is_one(a))? };
    let weight = view.made_by(weight, "Cast").and_then(|cast| cast.input(0)).unwrap_or(weight);
    view.is_initializer(weight).then_some(Scale { weight, is_shifted: true })
}

/// `x · rsqrt(mean(x², -1) + ε)`.
struct Core {
    x: ValueId,
    /// Whether a cast of `x` stands in front.
    opens: bool,
}

fn core_of(view: &View<'_>, value: ValueId) -> Option<Core> {
    let product = view.made_by(value, "Mul").filter(|_| view.read_once(value))?;
    let (a, b) = (product.input(0)?, product.input(1)?);
    [(a, b), (b, a)].into_iter().find_map(|(x, scale)| {
        let rsqrt = view.producer(scale).filter(|n| n.op == "Rsqrt" && view.read_once(scale))?;
        let sum = view.made_by(rsqrt.input(0)?, "Add").filter(|_| alone(view, rsqrt))?;
        let mean = [sum.input(0)?, sum.input(1)?].into_iter().find_map(|value| {
            view.made_by(value, "ReduceMean").filter(|_| view.read_once(value))
        })?;
        let power = view.made_by(mean.input(0)?, "Pow").filter(|_| alone(view, mean))?;
        let is_square = view.number(power.input(1)?)?.to_bits() == 2_f64.to_bits();
        let is_by_row = {
            let (rows, x) = (view.dims(mean.output(0)?)?, view.dims(x)?);
            let (_, front) = x.split_last()?;
            rows.split_last() == Some((&1, front))
        };
        let opening = view.made_by(power.input(0)?, "Cast").and_then(|cast| cast.input(0));
        let is_of_x = power.input(0) == Some(x) || opening == Some(x);
        (is_square && is_by_row && is_of_x && x != scale).then(|| {
            let source = opening.unwrap_or(x);
            Core { x: source, opens: opening.is_some() }
        })
    })
}

/// Whether a node alone reads its first input.
fn alone(view: &View<'_>, node: &Node) -> bool {
    node.input(0).is_some_and(|input| view.read_once(input))
}
