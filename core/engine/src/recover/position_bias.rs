//! Relative position biases, which constant folding computed from a small table.
//!
//! Windows of `side²` places (Swin, `GCViT`), or those and a class token (`BEiT`), have a table with a row for
//! each distance and a column for each head, `table[index].view(n, n, heads).permute(2, 0, 1).contiguous()[None]`.
//! Neither the table nor the index depends on the input, so exporters store the result: `n²` numbers for each
//! head, without a name, in place of a few trained rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::patterns::torch;
use super::weights::is_unnamed;
use super::{View, is_within};
use crate::config::Config;
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Member, Node, NodeId, ValueId};
use crate::tensor::{DType, TensorType};

/// A bias that folding made.
struct Folded {
    value: ValueId,
    /// The first node that reads it.
    at: NodeId,
    /// Whether it is `[n², heads]` still, as the index gives it.
    is_rows: bool,
    heads: u64,
    places: u64,
    rows: u64,
    /// What the table is called.
    table: String,
}

/// Puts table and index back.
pub(super) fn restore(view: &mut View<'_>, _: &Config) {
    let is_picture = |&id: &ValueId| view.dims(id).is_some_and(|dims| dims.len() > 3);
    if !view.graph().inputs.iter().any(is_picture) {
        return;
    }
    let found: Vec<Folded> = view.nodes().filter_map(|(at, node)| folded(view, at, node)).collect();
    let count = found.iter().filter(|bias| unfold(view, bias).is_some()).count();
    if count > 0 {
        let message = say!(
            "{count} relative position biases, which the exporter stored as it computed them, are assumed to come \
             from trained tables with a row for each distance",
            count
        );
        view.say(Severity::Info, "recovered-parameters", message);
    }
}

fn folded(view: &View<'_>, at: NodeId, node: &Node) -> Option<Folded> {
    if !matches!(node.op.as_str(), "Add" | "Reshape") {
        return None;
    }
    let is_bias = |&value: &ValueId| {
        is_unnamed(view, value)
            && view.readers(value).first() == Some(&at)
            && view.typed.ty(value).is_some_and(|ty| ty.dtype.is_floating())
    };
    let value = node.inputs.iter().flatten().copied().find(is_bias)?;
    let (is_rows, heads, places) = match (node.op.as_str(), view.dims(value)?) {
        ("Reshape", &[pairs, heads]) if !view.graph().members.is_empty() => {
            let places = pairs.isqrt();
            (places.checked_mul(places)? == pairs).then_some((true, heads, places))?
        }
        ("Add", &[heads, rows, columns] | &[1, heads, rows, columns]) if rows == columns => {
            is_score(view, node.output(0)?).then_some((false, heads, rows))?
        }
        _ => return None,
    };
    let side = places.isqrt();
    let distances = side.checked_mul(2)?.checked_sub(1)?.checked_pow(2)?;
    let rows = match places.checked_sub(side.checked_mul(side)?)? {
        0 => distances,
        // From and to the class token, and of it to itself.
        1 => distances.checked_add(3)?,
        _ => return None,
    };
    let table = table_of(view, &node.module)?;
    (side > 2).then_some(Folded { value, at, is_rows, heads, places, rows, table })
}

/// Whether attention's softmax reads a value, perhaps with a mask for windows added.
fn is_score(view: &View<'_>, mut value: ValueId) -> bool {
    /// COUNT: a view, a mask, a view back, and some more.
    const STEPS: usize = 6;
    for _ in 0..STEPS {
        let [at] = *view.readers(value) else { return false };
        let Some(node) = view.node(at) else { return false };
        match (node.op.as_str(), node.output(0)) {
            ("Softmax", _) => return true,
            ("Add" | "Reshape" | "Cast", Some(output)) => value = output,
            _ => return false,
        }
    }
    false
}

/// The name of the module's table: of the parameters that a signature lists, one that the file lacks.
fn table_of(view: &View<'_>, module: &str) -> Option<String> {
    const LEAF: &str = "relative_position_bias_table";
    if view.graph().members.is_empty() {
        return Some(format!("{module}.{LEAF}"));
    }
    let is_table = |(name, kind): &&(String, Member)| {
        *kind == Member::Parameter
            && name.ends_with(LEAF)
            && is_within(name, module)
            && !view.is_initializer_named(name)
    };
    view.graph().members.iter().find(is_table).map(|(name, _)| name.clone())
}

fn unfold(view: &mut View<'_>, bias: &Folded) -> Option<()> {
    let like = view.node(bias.at)?.clone();
    let before = NodeId(bias.at.0.checked_sub(1)?);
    let dtype = view.typed.ty(bias.value)?.dtype;
    let pairs = bias.places.checked_mul(bias.places)?;
    let index = bias.table.replace("_bias_table", "_index");
    let table = view.add_state(bias.table.clone(), dtype, vec![bias.rows, bias.heads]);
    let index = view.add_state(index, DType::Int64, vec![pairs]);
    let mut steps: Vec<(Node, Vec<u64>)> =
        vec![(torch("TableRows", &like, vec![Some(table), Some(index)]), vec![pairs, bias.heads])];
    if !bias.is_rows {
        let (places, heads) = (bias.places, bias.heads);
        let own = |op: &str| Node { domain: String::new(), ..torch(op, &like, vec![None]) };
        let perm = Attribute::Ints(vec![2, 0, 1]);
        let turned =
            Node { attributes: BTreeMap::from([("perm".to_owned(), perm)]), ..own("Transpose") };
        let dims = vec![heads, places, places];
        steps.push((own("Reshape"), vec![places, places, heads]));
        steps.push((turned, dims.clone()));
        steps.push((torch("Contiguous", &like, vec![None]), dims.clone()));
        if view.dims(bias.value)?.len() > dims.len() {
            steps.push((own("Reshape"), view.dims(bias.value)?.to_vec()));
        }
    }
    Arc::make_mut(&mut view.graph).values.get_mut(bias.value.0)?.initializer = None;
    let last = steps.len().checked_sub(1)?;
    let mut made = None;
    let mut nodes = Vec::new();
    for (at, (mut node, dims)) in steps.into_iter().enumerate() {
        let ty = TensorType::new(dtype, dims);
        let output = if at == last {
            bias.value
        } else {
            view.add_value(format!("{}/{at}", bias.table), ty, None)
        };
        if let Some(input) = node.inputs.first_mut().filter(|input| input.is_none()) {
            *input = made;
        }
        node.outputs = vec![Some(output)];
        view.rests_on_reason(output);
        made = Some(output);
        nodes.push(node);
    }
    view.behind.entry(before).or_default().extend(nodes);
    view.nodes_changed = true;
    Some(())
}
