//! The patterns, each tried at its last node.

use std::collections::BTreeMap;

use super::names;
use super::norms::is_constant;
use super::{DOMAIN, View};
use crate::config::{Attention, Config};
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Graph, Node, NodeId, ValueId};
use crate::sentence::Sentence;

/// Attention that the exporter decomposed, or that a model spells out in the same way.
const LIKE_FUSED: &str = "attention that scales queries and keys";

type Found = (&'static str, Node);

/// Puts the operator that ran in place of each pattern.
pub(super) fn find_again(view: &mut View<'_>, config: &Config) {
    let mut found: BTreeMap<&'static str, usize> = BTreeMap::new();
    let roots = roots(view.graph());
    let ids: Vec<NodeId> = view.nodes().map(|(at, _)| at).collect();
    for at in ids {
        // Patterns are tried at their last node, so that what they read is already recovered.
        if let Some((name, node)) = find(view, at, &roots) {
            *found.entry(name).or_insert(0) += 1;
            view.replace(at, node);
        }
    }
    for (name, count) in found {
        view.found_again(&Sentence::name(name), count);
        if name == LIKE_FUSED && config.attention == Attention::Auto {
            view.say(
                Severity::Warning,
                "assumed-attention",
                say!("attention that scales queries and keys is assumed to be F.scaled_dot_product_attention; if the \
                 model spells it out, scores take memory, too: set attention to eager"),
            );
        }
    }
    let is_masked = |node: &Node| node.op == "Attention" && node.int("masked").is_some();
    if view.nodes().any(|(_, node)| is_masked(node)) {
        view.say(
            Severity::Info,
            "attention-mask",
            say!("attention masks are assumed to be causal or all ones, so that PyTorch passes a flag and \
             no tensor"),
        );
    }
}

/// Which values are roots, also in another type. Nodes that make roots of numbers are folded, and not in a view.
fn roots(graph: &Graph) -> Vec<bool> {
    let mut roots = vec![false; graph.values.len()];
    for node in &graph.nodes {
        let reads_root = || node.input(0).and_then(|id| roots.get(id.0)).is_some_and(|root| *root);
        let is_root = node.op == "Sqrt" || node.op == "Cast" && reads_root();
        if let Some(slot) = node.output(0).filter(|_| is_root).and_then(|id| roots.get_mut(id.0)) {
            *slot = true;
        }
    }
    roots
}

/// The recovery that ends at this node, if there is one.
fn find(view: &View<'_>, at: NodeId, roots: &[bool]) -> Option<Found> {
    let node = view.node(at)?;
    if !node.domain.is_empty() {
        return None;
    }
    match node.op.as_str() {
        "MatMul" => attention(view, node, roots).or_else(|| linear(view, node)),
        "Add" => linear_with_bias(view, node)
            .or_else(|| functional_linear(view, node))
            .or_else(|| group_norm(view, node))
            .or_else(|| baddbmm(view, node)),
        "Mul" => gelu(view, node)
            .or_else(|| gelu_of_keras(view, node))
            .or_else(|| silu(view, node))
            .or_else(|| stochastic_depth(view, node))
            .or_else(|| bloom_gelu(view, node)),
        "Reciprocal" | "Div" => rsqrt(view, node),
        "SoftmaxCrossEntropyLoss" => linear_loss(view, node),
        "ConstantOfShape" => filled_mask(view, node),
        "Gather" => table_rows(view, node),
        _ => None,
    }
}

pub(super) fn torch(op: &str, like: &Node, inputs: Vec<Option<ValueId>>) -> Node {
    Node {
        name: like.name.clone(),
        op: op.to_owned(),
        domain: DOMAIN.to_owned(),
        inputs,
        outputs: like.outputs.clone(),
        attributes: BTreeMap::new(),
        module: like.module.clone(),
        origin: like.origin.clone(),
        trip: like.trip,
    }
}

/// A product with a trained matrix, perhaps transposed first: `linear` without a bias.
fn linear(view: &View<'_>, node: &Node) -> Option<Found> {
    let (x, matrix) = (node.input(0)?, node.input(1)?);
    let weight = weight_of(view, matrix)?;
    if view.dims(weight)?.len() != 2 || view.dims(x)?.len() < 2 {
        return None;
    }
    let mut found = torch("Linear", node, vec![Some(x), Some(weight)]);
    let transposed = i64::from(weight != matrix);
    found.attributes.insert("transposed".to_owned(), Attribute::Int(transposed));
    Some(("linear", found))
}

/// The initializer behind a matrix, past one `Transpose`.
fn weight_of(view: &View<'_>, matrix: ValueId) -> Option<ValueId> {
    if view.is_initializer(matrix) {
        return Some(matrix);
    }
    let source = view.made_by(matrix, "Transpose")?.input(0)?;
    view.is_initializer(source).then_some(source)
}

/// The bias right behind such a product belongs to it: a parameter, or in the exporter's own order, in
/// front, what was joined of several (`BEiT`'s and Swin v2's, whose keys have none).
fn linear_with_bias(view: &View<'_>, node: &Node) -> Option<Found> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (product, bias) = [(a, b), (b, a)].into_iter().find(|&(product, bias)| {
        (view.is_initializer(bias) || (bias == a && view.made_by(bias, "Concat").is_some()))
            && view.dims(bias).is_some_and(|dims| dims.len() == 1)
            && view.producer(product).is_some_and(|n| n.domain == DOMAIN && n.op == "Linear")
    })?;
    let linear = view.producer(product)?;
    if !view.read_once(product)
        || linear.inputs.len() != 2
        || view.dims(bias)? != last_dim(view, product)?
    {
        return None;
    }
    let mut found = torch("Linear", node, vec![linear.input(0), linear.input(1), Some(bias)]);
    found.module.clone_from(&linear.module);
    found.attributes.clone_from(&linear.attributes);
    Some(("linear with bias", found))
}

/// `F.linear` with a matrix that was computed, whose transposed product stands behind the bias in the older
/// exporter's order; the newer one names the call.
fn functional_linear(view: &View<'_>, node: &Node) -> Option<Found> {
    let names_it = node.origin.as_ref().is_some_and(|o| o.aten.starts_with("aten.linear."));
    let (mut bias, mut product) = (node.input(0)?, node.input(1)?);
    if names_it {
        (bias, product) = (product, bias);
    }
    let matmul = view.made_by(product, "MatMul").filter(|_| view.read_once(product))?;
    let transposed = view.made_by(matmul.input(1)?, "Transpose")?;
    let (x, weight) = (matmul.input(0)?, transposed.input(0)?);
    let fits = view.dims(weight)?.len() == 2
        && !view.dims(x)?.is_empty()
        && view.dims(bias)? == view.dims(weight)?.get(..1)?;
    let mut found = torch("Linear", node, vec![Some(x), Some(weight), Some(bias)]);
    found.attributes.insert("transposed".to_owned(), Attribute::Int(1));
    fits.then_some(("linear with bias", found))
}

fn last_dim<'a>(view: &'a View<'_>, value: ValueId) -> Option<&'a [u64]> {
    let dims = view.dims(value)?;
    dims.get(dims.len().checked_sub(1)?..)
}

/// `table[indices]` of a parameter; `nn.Embedding` calls its own `weight`.
fn table_rows(view: &View<'_>, node: &Node) -> Option<Found> {
    let (table, indices) = (node.input(0)?, node.input(1)?);
    let value = view.graph().value(table)?;
    let is_table = view.is_initializer(table)
        && value.has_state_name()
        && value.name.ends_with("_table")
        && view.dims(table)?.len() == 2
        && !view.dims(indices)?.is_empty();
    let is_by_row = node.int("axis").unwrap_or(0) == 0;
    let inputs = vec![Some(table), Some(indices)];
    (is_table && is_by_row).then(|| ("indexing of a table", torch("TableRows", node, inputs)))
}

/// `x / sqrt(2) → Erf → + 1 → · x → · 1/2` is `gelu`.
fn gelu(view: &View<'_>, node: &Node) -> Option<Found> {
    let product = operand_beside_number(view, node, 0.5)?;
    let product = view.made_by(product, "Mul")?;
    let (a, b) = (product.input(0)?, product.input(1)?);
    let (x, shifted) = [(a, b), (b, a)]
        .into_iter()
        .find(|&(_, shifted)| view.made_by(shifted, "Add").is_some())?;
    let curve = operand_beside_number(view, view.made_by(shifted, "Add")?, 1.0)?;
    let is_gelu = is_erf_of(view, curve, x) || is_tanh_of_cubic(view, curve, x).is_some();
    is_gelu.then(|| ("gelu", torch("Gelu", node, vec![Some(x)])))
}

/// `x · 1/2 · erfc(-x · √1/2)`, as Keras spells it out.
fn gelu_of_keras(view: &View<'_>, node: &Node) -> Option<Found> {
    let (curve, half) = made_and_other(view, node, "Erfc")?;
    let x = operand_beside_number(view, view.made_by(half, "Mul")?, 0.5)?;
    let scaled = view.made_by(view.producer(curve)?.input(0)?, "Mul")?;
    let mut operands = scaled.inputs.iter().flatten();
    let negated = operands.find_map(|&value| view.made_by(value, "Neg"))?;
    (negated.input(0) == Some(x)).then(|| ("gelu", torch("Gelu", node, vec![Some(x)])))
}

/// `erf(x / √2)`.
fn is_erf_of(view: &View<'_>, curve: ValueId, x: ValueId) -> bool {
    let scaled = view.made_by(curve, "Erf").and_then(|node| view.producer(node.input(0)?));
    scaled.is_some_and(|n| (n.op == "Div" || n.op == "Mul") && n.inputs.contains(&Some(x)))
}

/// `tanh(c · (x + d · x·(x·x)))`, as the older exporter writes `gelu(approximate="tanh")`. The
/// activation that transformers spells out has a power there, and stays what it is.
fn is_tanh_of_cubic(view: &View<'_>, curve: ValueId, x: ValueId) -> Option<()> {
    let scaled = view.producer(view.made_by(curve, "Tanh")?.input(0)?)?;
    let (sum, _) = made_and_other(view, scaled, "Add")?;
    let cubic = view.made_by(beside(view.producer(sum)?, x)?, "Mul")?;
    let (cube, _) = made_and_other(view, cubic, "Mul")?;
    let square = view.made_by(beside(view.producer(cube)?, x)?, "Mul")?;
    square.inputs.iter().all(|input| *input == Some(x)).then_some(())
}

/// `x · 1/2 · (1 + tanh(…))` in Bloom's `BloomGelu`, which is a function with a backward of its own;
/// transformers' `FastGELUActivation` is written alike, and recognised by its name.
fn bloom_gelu(view: &View<'_>, node: &Node) -> Option<Found> {
    let (shifted, half) = made_and_other(view, node, "Add")?;
    let curve = operand_beside_number(view, view.producer(shifted)?, 1.0)?;
    let x = operand_beside_number(view, view.made_by(half, "Mul")?, 0.5)?;
    let is_bloom = node.module.ends_with(".gelu_impl") && view.made_by(curve, "Tanh").is_some();
    is_bloom.then(|| ("Bloom's gelu", torch("BloomGelu", node, vec![Some(x)])))
}

/// `α · (a @ b) + β · bias` of batches of matrices is `baddbmm`, whose two factors every exporter
/// writes.
fn baddbmm(view: &View<'_>, node: &Node) -> Option<Found> {
    let scaled = |value: ValueId| {
        let product = view.made_by(value, "Mul").filter(|_| view.read_once(value))?;
        let (a, b) = (product.input(0)?, product.input(1)?);
        match (view.number(a), view.number(b)) {
            (None, Some(factor)) => Some((a, factor)),
            (Some(factor), None) => Some((b, factor)),
            _ => None,
        }
    };
    let ((product, alpha), (bias, beta)) = (scaled(node.input(0)?)?, scaled(node.input(1)?)?);
    let product = view.made_by(product, "MatMul").filter(|_| view.read_once(product))?;
    let (a, b) = (product.input(0)?, product.input(1)?);
    if [a, b].into_iter().any(|value| view.dims(value).is_none_or(|dims| dims.len() != 3)) {
        return None;
    }
    let scales = |factor: f64| factor.to_bits() != 1_f64.to_bits();
    let mut found = torch("Baddbmm", node, vec![Some(bias), Some(a), Some(b)]);
    found.attributes.insert("scales".to_owned(), Attribute::Int(i64::from(scales(alpha))));
    if scales(beta) {
        found.attributes.insert("scales_bias".to_owned(), Attribute::Int(1));
    }
    // `F.multi_head_attention_forward` that no module calls, whose frame nothing tells.
    let is_scaled = view.made_by(a, "Mul").is_some_and(|scaled| scaled.module == node.module);
    let has = |name: &&str| view.is_initializer_named(&format!("{}.{name}", node.module));
    if is_scaled && !["in_proj_weight", "in_proj_bias", "q_proj_weight"].iter().any(has) {
        found.attributes.insert("scales_queries".to_owned(), Attribute::Int(1));
    }
    Some(("baddbmm", found))
}

/// `F.linear_cross_entropy`, which may run in chunks where the classes have one dimension: a trace does not tell.
fn linear_loss(view: &View<'_>, node: &Node) -> Option<Found> {
    let product = names::product_of_loss(view, node)?;
    let is_flat = view.dims(product.output(0)?) == view.dims(node.input(0)?);
    let mut found = node.clone();
    found.attributes.insert("may_chunk".to_owned(), Attribute::Int(1));
    is_flat.then_some(("linear_cross_entropy", found))
}

/// The other operand, where one is this value.
fn beside(node: &Node, value: ValueId) -> Option<ValueId> {
    match (node.input(0)?, node.input(1)?) {
        (a, b) if a == value => Some(b),
        (a, b) if b == value => Some(a),
        _ => None,
    }
}

/// The other operand, where one is this number.
fn operand_beside_number(view: &View<'_>, node: &Node, number: f64) -> Option<ValueId> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let is = |value| view.number(value).is_some_and(|n| n.to_bits() == number.to_bits());
    if is(b) {
        Some(a)
    } else if is(a) {
        Some(b)
    } else {
        None
    }
}

/// `Reshape → InstanceNormalization → Reshape → · weight → + bias` is `group_norm`.
fn group_norm(view: &View<'_>, node: &Node) -> Option<Found> {
    let (scaled, bias) = made_and_other(view, node, "Mul")?;
    let (normed, weight) = made_and_other(view, view.producer(scaled)?, "Reshape")?;
    let norm = view.made_by(view.producer(normed)?.input(0)?, "InstanceNormalization")?;
    let grouped = norm.input(0)?;
    let x = view.made_by(grouped, "Reshape")?.input(0)?;
    let groups = i64::try_from(*view.dims(grouped)?.get(1)?).ok()?;
    let state = |value| {
        let source = view.made_by(value, "Unsqueeze").and_then(|node| node.input(0));
        source.unwrap_or(value)
    };
    let is_whole = view.dims(x)? == view.dims(normed)?;
    let there = |value, idle| (!is_constant(view, value, idle)).then_some(value);
    let inputs = vec![Some(x), there(state(weight), 1.0), there(state(bias), 0.0)];
    let mut found = torch("GroupNormalization", node, inputs);
    found.domain = String::new();
    found.attributes.insert("num_groups".to_owned(), Attribute::Int(groups));
    is_whole.then_some(("group_norm", found))
}

/// The operand that this operator makes, and the other one.
fn made_and_other(view: &View<'_>, node: &Node, op: &str) -> Option<(ValueId, ValueId)> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    [(a, b), (b, a)].into_iter().find(|&(made, _)| view.made_by(made, op).is_some())
}

/// `x · sigmoid(x)` is `silu`; a model that spells it out would keep one tensor more.
fn silu(view: &View<'_>, node: &Node) -> Option<Found> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (x, _) = [(a, b), (b, a)].into_iter().find(|&(x, gate)| {
        view.read_once(gate)
            && view.made_by(gate, "Sigmoid").is_some_and(|sigmoid| sigmoid.input(0) == Some(x))
    })?;
    Some(("silu", torch("Silu", node, vec![Some(x)])))
}

/// `x · (uniform < p) / p` is `x * empty(…).bernoulli_(p).div_(p)`: `torchvision.ops.stochastic_depth`
/// and timm's `drop_path`, whose noise is written in place.
fn stochastic_depth(view: &View<'_>, node: &Node) -> Option<Found> {
    let (x, noise) = made_and_other(view, node, "Div").map(|(noise, x)| (x, noise))?;
    let drawn = view.made_by(view.made_by(noise, "Div")?.input(0)?, "Cast")?.input(0)?;
    let uniform = view.made_by(drawn, "Less")?.input(0)?;
    let is_random = view.producer(uniform).is_some_and(|n| n.op.starts_with("RandomUniform"));
    let is_per_sample = view.dims(noise)?.iter().skip(1).all(|&n| n == 1);
    (is_random && is_per_sample)
        .then(|| ("stochastic_depth", torch("StochasticDepth", node, vec![Some(x)])))
}

/// `1 / Sqrt(x)` is `rsqrt`.
fn rsqrt(view: &View<'_>, node: &Node) -> Option<Found> {
    let root = if node.op == "Reciprocal" { node.input(0)? } else { divided_one(view, node)? };
    let x = view.made_by(root, "Sqrt").filter(|_| view.read_once(root))?.input(0)?;
    Some(("rsqrt", torch("Rsqrt", node, vec![Some(x)])))
}

/// The divisor of one.
fn divided_one(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let is_one = view.number(node.input(0)?).is_some_and(|n| n.to_bits() == 1_f64.to_bits());
    if is_one { node.input(1) } else { None }
}

/// `(q·√s)(k·√s)ᵀ → [+ mask] → Softmax → [NaN guard] → [Dropout] → · v`.
///
/// Exporters scale both operands; a model that spells attention out scales the scores once, and is
/// left as it is. So is one of a dynamo file whose call is another. Without a call or a root in the graph, a model
/// that scales both operands itself looks the same.
fn attention(view: &View<'_>, node: &Node, roots: &[bool]) -> Option<Found> {
    let (mut weights, v) = (node.input(0)?, node.input(1)?);
    let mut drops = false;
    if let Some(dropout) = view.made_by(weights, "Dropout") {
        weights = dropout.input(0)?;
        drops = true;
    }
    if let Some(guard) = view.made_by(weights, "Where") {
        view.made_by(guard.input(0)?, "IsNaN")?;
        weights = guard.input(2)?;
    }
    let mut scores = view.made_by(weights, "Softmax")?.input(0)?;
    let mut mask = None;
    if let Some(add) = view.made_by(scores, "Add") {
        (scores, mask) = (add.input(0)?, add.input(1));
        if view.made_by(scores, "MatMul").is_none() {
            (scores, mask) = (add.input(1)?, add.input(0));
        }
    }
    let product = view.made_by(scores, "MatMul")?;
    let q = scaled(view, product.input(0)?)?;
    let k = scaled(view, product.input(1)?)?;
    // The dynamo exporter names the call; TorchScript's takes the root of the scale in the graph.
    let call = node.origin.as_ref().map_or("", |origin| &origin.aten);
    let names_it = call.contains("scaled_dot_product");
    if !call.is_empty() && !names_it {
        return None;
    }
    let is_root = |id: &ValueId| roots.get(id.0).copied().unwrap_or(false);
    let is_by_root = |side| {
        let scaling = product.input(side).and_then(|operand| view.producer(operand));
        scaling.is_some_and(|scaling| scaling.inputs.iter().flatten().any(is_root))
    };
    let is_certain = names_it || (is_by_root(0) && is_by_root(1));
    let mut found = fused_attention(view, node, [q, k, v], drops)?;
    if let Some(mask) = mask {
        if is_tensor(view, mask) {
            found.inputs.push(Some(mask));
        } else {
            found.attributes.insert("masked".to_owned(), Attribute::Int(1));
        }
    }
    Some((if is_certain { "scaled_dot_product_attention" } else { LIKE_FUSED }, found))
}

/// One call in place of the product `node`, of queries, of keys as the scores read them, and of values.
pub(super) fn fused_attention(
    view: &View<'_>,
    node: &Node,
    [q, k, v]: [ValueId; 3],
    drops: bool,
) -> Option<Node> {
    let (key, order) = match view.made_by(k, "Transpose") {
        Some(transpose) => (transpose.input(0)?, transpose.ints("perm")?.to_vec()),
        // The key's own transpose was that of the product, and both are gone.
        None => (k, (0..i64::try_from(view.dims(k)?.len()).ok()?).collect()),
    };
    let shared = |value| grouped(view, value).unwrap_or(value);
    let inputs = vec![Some(q), Some(shared(key)), Some(shared(v))];
    let mut found = torch("Attention", node, inputs);
    found.attributes.insert("drops".to_owned(), Attribute::Int(i64::from(drops)));
    found.attributes.insert("key_order".to_owned(), Attribute::Ints(key_order(&order)?));
    Some(found)
}

/// Whether a mask is there as a tensor: it is trained, or was filled with a number. What follows from
/// the model's inputs is left to a flag of the kernel.
pub(super) fn is_tensor(view: &View<'_>, mask: ValueId) -> bool {
    view.producer(mask).is_some_and(|node| node.op == "ZerosLike") || view.depends_on_floats(mask)
}

/// A mask of zeros for attention, as T5's cross-attention makes one in the type of the queries.
fn filled_mask(view: &View<'_>, node: &Node) -> Option<Found> {
    let mask = node.output(0)?;
    let reader = view.readers(mask).first().and_then(|at| view.node(*at))?;
    let scores = view.made_by(beside(reader, mask).filter(|_| reader.op == "Add")?, "MatMul")?;
    let q = scaled(view, scores.input(0)?)?;
    let is_float = view.typed.ty(mask).is_some_and(|ty| ty.dtype.is_floating());
    let is_filled = is_float && view.dims(mask)?.len() == 4 && view.dims(q)?.len() == 4;
    is_filled.then(|| ("a mask of zeros", torch("ZerosLike", node, vec![Some(q)])))
}

/// Heads that are shared: `Unsqueeze → Expand → Reshape` repeats them for the exporter only, the
/// kernel is given the few (`enable_gqa`).
pub(super) fn grouped(view: &View<'_>, value: ValueId) -> Option<ValueId> {
    let expanded = view.made_by(value, "Reshape")?.input(0)?;
    let unsqueezed = view.made_by(expanded, "Expand")?.input(0)?;
    let few = view.made_by(unsqueezed, "Unsqueeze")?.input(0)?;
    let (few_dims, dims) = (view.dims(few)?, view.dims(value)?);
    (few_dims.len() == dims.len() && few_dims.len() == 4).then_some(few)
}

/// What is multiplied by the root of the scale.
pub(super) fn scaled(view: &View<'_>, value: ValueId) -> Option<ValueId> {
    let node = view.producer(value).filter(|n| n.op == "Mul" || n.op == "Div")?;
    let (a, b) = (node.input(0)?, node.input(1)?);
    let is_scalar = |v| view.dims(v).is_some_and(|dims| dims.iter().all(|&n| n == 1));
    match (is_scalar(a), is_scalar(b)) {
        (false, true) => Some(a),
        (true, false) => Some(b),
        _ => None,
    }
}

/// The exporter merges the key's own transpose with that of the product: undo the latter.
fn key_order(order: &[i64]) -> Option<Vec<i64>> {
    let mut order = order.to_vec();
    let rank = order.len();
    if rank < 2 {
        return None;
    }
    order.swap(rank - 1, rank - 2);
    Some(order)
}
