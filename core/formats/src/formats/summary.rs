//! Tables of torchinfo and torchsummary → [`Spec`].
//!
//! text → `table` (rows: class, sizes, parameters, depth) → `solve` (arguments that give those numbers)
//! → the same modules as those of a print
//!
//! - A table has the output size and the number of parameters of each layer, and no kernels. Windows, strides and
//!   padding are chosen to give both. If several choices do, the usual one is assumed and reported.
//! - Rows are in the order of the forward. Containers repeat the numbers of their parts and are not counted twice.

use crate::order::IntoOrdered as _;

use super::Fidelity;
use super::printed::{self, Printed};
use super::spec::{Input, Spec};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{Dim, Member};

mod solve;
mod table;

pub(super) use table::is_summary;
use table::{Row, Table};

/// Classes of torchvision's whose activations overwrite what they read.
const OVERWRITING: [&str; 9] = [
    "BasicBlock",
    "Bottleneck",
    "InvertedResidual",
    "MBConv",
    "VGG",
    "AlexNet",
    "SqueezeNet",
    "DenseNet",
    "Conv2dNormActivation",
];

/// Classes and names.
type Names = &'static [(&'static str, &'static str)];

/// Names that parts of known blocks have, by the order of their class.
const NAMES: &[(&[&str], Names)] = &[
    (
        &["BasicBlock", "Bottleneck"],
        &[
            ("Conv2d", "conv#"),
            ("BatchNorm2d", "bn#"),
            ("ReLU", "relu"),
            ("Sequential", "downsample"),
        ],
    ),
    (&["InvertedResidual"], &[("Sequential", "conv")]),
    (&["MBConv"], &[("Sequential", "block"), ("StochasticDepth", "stochastic_depth")]),
];

/// Reads a table, and says how much of the model it tells.
///
/// # Errors
/// When the table has no layers, or says neither what the model reads nor what its first layer makes.
pub(super) fn read(text: &str) -> Result<(Spec, Fidelity), Error> {
    let table = table::parse(text)?;
    let overwrites = table.rows.iter().any(|row| OVERWRITING.contains(&row.class.as_str()));
    let rows = if table.is_flat { blocks_of(&table.rows) } else { tree(&table.rows) };
    let input = input(&table)?;
    let mut solver = solve::Solver::new(&input, overwrites);
    let mut root = solver.modules(rows);
    let notes = solver.notes();
    let only = (root.len() == 1).then(|| root.pop()).flatten();
    let root = only.unwrap_or_else(|| Printed::new("", "Sequential", root));
    finish(&root, &table, &input, notes, overwrites)
}

fn finish(
    root: &Printed,
    table: &Table,
    input: &[u64],
    notes: Vec<Diagnostic>,
    overwrites: bool,
) -> Result<(Spec, Fidelity), Error> {
    let mut dims = vec![Dim::Named("N".to_owned())];
    let is_tokens = root.leaves().next().is_some_and(|leaf| leaf.class == "Embedding");
    let names: &[&str] = match (input.len(), is_tokens) {
        (1, true) => &["L"],
        (3, _) => &["", "H", "W"],
        (2, _) => &["", "L"],
        (4, _) => &["", "D", "H", "W"],
        _ => &[],
    };
    let mut spec = Spec { name: root.class.clone(), ..Spec::default() };
    for (axis, &size) in input.iter().enumerate() {
        let name = names.get(axis).copied().unwrap_or_default();
        // A model with a layer of the size of a picture is for pictures of that size.
        dims.push(if name.is_empty() {
            Dim::Known(size)
        } else {
            spec.dims.insert(name.to_owned(), size);
            Dim::Named(name.to_owned())
        });
    }
    if let Some(batch) = table.batch {
        spec.dims.insert("N".to_owned(), batch);
    }
    spec.inputs = vec![Input { name: "x".to_owned(), dims, dtype: None, place: root.place }];
    let printed::Translated { mut spec, unknown, .. } = printed::translated(root, vec![spec])?;
    // Sizes and parameters are those of the table, which a print does not have.
    spec.diagnostics.extend(printed::unsure(&unknown, Fidelity::ApproximateOrder));
    spec.diagnostics.extend(notes);
    let how = if overwrites {
        say!("overwrite what they read, as in torchvision's models")
    } else {
        say!("do not overwrite what they read")
    };
    let message = say!(
        "a table has no kernels, strides and padding: those are taken that give its sizes and \
         parameters; activations are assumed to {how}; calls of functions (`x + y`, `torch.cat`) are \
         known for known blocks only",
        how
    );
    spec.diagnostics.push(Diagnostic::new(Severity::Warning, "solved-table", message));
    if let Some(total) = table.total {
        spec.diagnostics.extend(compare(&spec, total));
    }
    Ok((spec, Fidelity::ApproximateOrder))
}

/// Whether the parameters are those of the table's last lines.
fn compare(spec: &Spec, total: u64) -> Option<Diagnostic> {
    let graph = spec.lower().ok()?;
    let parameters = graph.members.iter().filter(|(_, kind)| *kind == Member::Parameter);
    let parameters = parameters.map(|(name, _)| name.as_str()).into_set();
    let ours = graph.values.iter().filter(|value| parameters.contains(value.name.as_str()));
    let ours = ours
        .filter_map(|value| value.initializer.as_ref())
        .map(|literal| literal.dims.iter().fold(1_u64, |all, &n| all.saturating_mul(n)));
    let ours = ours.fold(0, u64::saturating_add);
    (ours != total).then(|| {
        let message = say!(
            "the table counts {total} parameters, and what was read of it has {ours}",
            total,
            ours
        );
        Diagnostic::new(Severity::Warning, "parameters-differ", message)
    })
}

/// What one sample is, without the batch.
fn input(table: &Table) -> Result<Vec<u64>, Error> {
    if let Some(shape) = table.rows.iter().find_map(|row| row.input.as_ref()) {
        return Ok(shape.iter().skip(1).copied().collect());
    }
    let first = table.rows.iter().find(|row| !row.is_container && !row.output.is_empty());
    let Some(first) = first else {
        return Err(Error::new(
            ErrorKind::NoGraph,
            say!("the table has no layer with an output's shape"),
        ));
    };
    solve::first_input(first, table.input_size).ok_or_else(|| {
        Error::new(
            ErrorKind::NoGraph,
            say!("the table does not have the model's input; print it with `col_names=(\"input_size\", \
             \"output_size\", \"num_params\")`"),
        )
    })
}

/// Puts the innermost node that is open into the one around it.
fn close<'t>(open: &mut Vec<Node<'t>>, done: &mut Vec<Node<'t>>) {
    if let Some(node) = open.pop() {
        match open.last_mut() {
            Some(around) => around.children.push(node),
            None => done.push(node),
        }
    }
}

/// Rows by their depth, inside each other.
fn tree(rows: &[Row]) -> Vec<Node<'_>> {
    let mut open: Vec<Node<'_>> = Vec::new();
    let mut done: Vec<Node<'_>> = Vec::new();
    for row in rows {
        while open.last().is_some_and(|node| node.row.depth >= row.depth) {
            close(&mut open, &mut done);
        }
        open.push(Node { row, class: row.class.clone(), children: Vec::new() });
    }
    while !open.is_empty() {
        close(&mut open, &mut done);
    }
    done
}

/// Rows without depth: a block stands behind its parts.
fn blocks_of(rows: &[Row]) -> Vec<Node<'_>> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    for row in rows {
        let class = row.class.as_str();
        let count = match class {
            "BasicBlock" => 6_usize,
            "Bottleneck" => 9,
            _ => {
                if !row.is_container {
                    nodes.push(Node { row, class: row.class.clone(), children: Vec::new() });
                }
                continue;
            }
        };
        // A way around has a convolution and a norm of its own, before the last activation.
        let from_end = |n: usize| {
            nodes.len().checked_sub(n).and_then(|at| nodes.get(at)).map(|node| node.class.clone())
        };
        let classes: Vec<String> = (2..=5).filter_map(from_end).collect();
        let has_way = classes == ["BatchNorm2d", "Conv2d", "BatchNorm2d", "Conv2d"];
        let count = if has_way { count.saturating_add(2) } else { count };
        let Some(at) = nodes.len().checked_sub(count) else { continue };
        let mut parts = nodes.split_off(at);
        if has_way && let Some(last) = parts.pop() {
            let way = parts.split_off(parts.len().saturating_sub(2));
            parts.push(Node { row, class: "Sequential".to_owned(), children: way });
            parts.push(last);
        }
        nodes.push(Node { row, class: row.class.clone(), children: parts });
    }
    nodes
}

/// A row and those inside of it.
#[derive(Debug)]
struct Node<'t> {
    row: &'t Row,
    class: String,
    children: Vec<Self>,
}

/// The name that a part has in a block that is known.
fn name_of(around: &str, class: &str, nth: usize) -> Option<String> {
    let (_, names) = NAMES.iter().find(|(classes, _)| classes.contains(&around))?;
    let (_, name) = names.iter().find(|(known, _)| *known == class)?;
    Some(name.replace('#', &nth.to_string()))
}
