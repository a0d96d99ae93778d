//! The packed projection of `nn.MultiheadAttention`: one product makes queries, keys and values.
//!
//! `_in_projection_packed` (`torch/nn/functional.py`) ends in `unflatten(-1, (3, E)).unsqueeze(0).transpose(0,
//! -2).squeeze(-2).contiguous()`: a copy that exporters remove, because ONNX has no strides. Without it, each of
//! the three would be copied later, in addition to the product instead of replacing it.

use super::patterns::torch;
use super::weights::{is_folded, is_made_up, linear};
use super::{View, merged};
use crate::config::Config;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::tensor::{DType, TensorType};

/// Puts the copy back.
pub(super) fn copy(view: &mut View<'_>, _: &Config) {
    let packed: Vec<(ValueId, Node)> = view
        .nodes()
        .filter_map(|(_, node)| {
            let value = packed(view, node)?;
            Some((value, torch("Contiguous", node, Vec::new())))
        })
        .collect();
    let mut count = 0;
    for (value, copy) in packed {
        count += usize::from(view.insert_behind(value, copy).is_some());
    }
    view.found_again(&say!("the packed projection of nn.MultiheadAttention"), count);
}

/// A product of the projection: its node, its matrix and how wide it is, and where its bias is added.
type Product = (NodeId, ValueId, u64, Option<NodeId>);

/// Joins the parts of the packed weight, and of its bias, which constant folding stored apart where queries, keys
/// and values are not made of one tensor: `w.split([E, 2 * E])` and `w.chunk(3)`.
pub(super) fn rejoin(view: &mut View<'_>, _: &Config) {
    let multiplies = |node: &Node| {
        let matrix = node.input(1).filter(|_| node.op == "MatMul" && !node.module.is_empty());
        matrix.is_some_and(|matrix| is_made_up(view, matrix))
    };
    // Modules that multiply by several such matrices themselves.
    let mut modules: Vec<String> = Vec::new();
    let mut before = "";
    for (_, node) in view.nodes().filter(|(_, node)| multiplies(node)) {
        if node.module == before && modules.last() != Some(&node.module) {
            modules.push(node.module.clone());
        }
        before = &node.module;
    }
    modules.retain(|module| !view.is_initializer_named(&format!("{module}.in_proj_weight")));
    for module in modules {
        if let Some((width, products)) = products(view, &module) {
            join(view, &module, width, &products);
        }
    }
}

/// The width of the module, and its products, if these are all of its projection. They run in the module itself,
/// as does that with the output's matrix, which has no name where it has no bias.
fn products(view: &View<'_>, module: &str) -> Option<(u64, Vec<Product>)> {
    let mut nodes = view.nodes().filter(|(_, node)| node.module == module);
    let out = format!("{module}.out_proj.weight");
    let is_out = |value: &ValueId| view.graph().value_name(*value) == out;
    let out = nodes.find_map(|(_, node)| node.inputs.iter().flatten().copied().find(is_out));
    let mut found: Vec<Product> = Vec::new();
    for (at, node) in view.nodes().filter(|(_, node)| node.module == module && node.op == "MatMul")
    {
        let Some(matrix) = node.input(1).filter(|&matrix| is_made_up(view, matrix)) else {
            continue;
        };
        let Some(&[_, outer]) = view.dims(matrix) else { continue };
        let sum = node.output(0).and_then(|product| match view.readers(product) {
            &[at] => view.node(at).filter(|node| node.op == "Add").map(|node| (at, node)),
            _ => None,
        });
        let is_bias = |node: &Node| node.input(0).is_some_and(|x| is_folded_bias(view, x, outer));
        let bias = sum.and_then(|(at, node)| is_bias(node).then_some(at));
        found.push((at, matrix, outer, bias));
    }
    let out = match out {
        Some(out) => out,
        None => found.pop()?.1,
    };
    let width = *view.dims(out)?.first()?;
    let is_wide = |product: &Product| view.dims(product.1) == Some(&[width, product.2]);
    let whole = found.iter().map(|product| product.2).sum::<u64>();
    let is_projection = found.iter().all(is_wide) && Some(whole) == width.checked_mul(3);
    is_projection.then_some((width, found))
}

fn is_folded_bias(view: &View<'_>, value: ValueId, width: u64) -> bool {
    let is_made =
        is_folded(view, value) || view.graph().value_name(value).starts_with("onnx::Add_");
    is_made && view.is_initializer(value) && view.dims(value) == Some(&[width])
}

fn join(view: &mut View<'_>, module: &str, width: u64, products: &[Product]) -> Option<()> {
    let first = products.first()?;
    let before = NodeId(first.0.0.checked_sub(1)?);
    let like = view.node(first.0)?.clone();
    let dtype = view.typed.ty(first.1)?.dtype;
    let outer = width.checked_mul(3)?;
    let wide: Vec<u64> = products.iter().map(|product| product.2).collect();
    let name = format!("{module}.in_proj_weight");
    if let [(at, matrix, ..)] = products {
        // Whole, and turned; others than the layers' own write such a projection, too.
        if !module.ends_with("self_attn") {
            return None;
        }
        let linear = linear(&like, like.input(0), *matrix);
        view.reshape_state(*matrix, &[outer, width]);
        view.rename_free(*matrix, &name);
        view.replace(*at, linear);
        return Some(());
    }
    let matrices = parts(view, &like, (name, dtype), &[outer, width], (before, &wide));
    let biases = if products.iter().all(|product| product.3.is_some()) {
        let name = format!("{module}.in_proj_bias");
        parts(view, &like, (name, dtype), &[outer], (before, &wide))
    } else {
        Vec::new()
    };
    for (at, (product, matrix)) in products.iter().zip(matrices).enumerate() {
        let x = view.node(product.0)?.input(0);
        let bias = biases.get(at).copied().zip(product.3);
        let last = bias.map_or(product.0, |(_, sum)| sum);
        let mut linear = linear(view.node(last)?, x, matrix);
        linear.inputs.extend(bias.map(|(bias, _)| Some(bias)));
        view.replace(last, linear);
    }
    Some(())
}

/// A parameter, and its parts along the first dimension.
fn parts(
    view: &mut View<'_>,
    like: &Node,
    (name, dtype): (String, DType),
    dims: &[u64],
    (before, sizes): (NodeId, &[u64]),
) -> Vec<ValueId> {
    let whole = view.add_state(name.clone(), dtype, dims.to_vec());
    let part = |(at, &size): (usize, &u64)| {
        let mut dims = dims.to_vec();
        dims.iter_mut().take(1).for_each(|first| *first = size);
        view.add_value(format!("{name}/{at}"), TensorType::new(dtype, dims), None)
    };
    let parts: Vec<ValueId> = sizes.iter().enumerate().map(part).collect();
    let mut split = torch("Split", like, vec![Some(whole)]);
    split.outputs = parts.iter().copied().map(Some).collect();
    split.attributes.insert("axis".to_owned(), Attribute::Int(0));
    view.behind.entry(before).or_default().push(split);
    view.nodes_changed = true;
    parts
}

/// Gives each product an argument of its own where a tensor without a batch is projected: queries, keys and values
/// get their batch of one apart (`multi_head_attention_forward`), which exporters write once.
pub(super) fn separate(view: &mut View<'_>, _: &Config) {
    let is_product = |node: &Node| matches!(node.op.as_str(), "MatMul" | "Gemm" | "Linear");
    let mut shared: Vec<(NodeId, String, Vec<NodeId>)> = Vec::new();
    for (at, node) in view.nodes() {
        let readers = node.output(0).map_or(&[][..], |value| view.readers(value));
        let are_products = readers.iter().all(|at| view.node(*at).is_some_and(is_product));
        let is_whole = node.op == "Unsqueeze" && readers.len() > 1 && are_products;
        if is_whole && view.is_initializer_named(&format!("{}.in_proj_weight", node.module)) {
            shared.push((at, node.module.clone(), readers.to_vec()));
        }
    }
    for (at, module, readers) in shared {
        for &reader in readers.iter().skip(1) {
            merged::copy(view, at, &module, (at, &[reader]));
        }
    }
}

/// `Unsqueeze → Transpose → Squeeze`, of which only the three parts are read, or the two of a memory.
fn packed(view: &View<'_>, squeeze: &Node) -> Option<ValueId> {
    if squeeze.op != "Squeeze" {
        return None;
    }
    let moved = view.made_by(squeeze.input(0)?, "Transpose")?;
    view.made_by(moved.input(0)?, "Unsqueeze")?;
    let packed = squeeze.output(0)?;
    let is_part = |reader: &Node| reader.op == "Gather" && reader.int("axis").unwrap_or(0) == 0;
    let readers = view.readers(packed);
    let are_parts = readers.iter().all(|at| view.node(*at).is_some_and(is_part));
    let parts = *view.dims(packed)?.first()?;
    let are_all = (2..=3).contains(&parts) && u64::try_from(readers.len()) == Ok(parts);
    (are_all && are_parts).then_some(packed)
}
