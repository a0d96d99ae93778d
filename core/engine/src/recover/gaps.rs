//! Dropout in front of classifiers, recognised by numbers that are missing.
//!
//! The children of an `nn.Sequential` are numbered. One that has left neither node nor parameter was removed by
//! the exporter: `Identity` or dropout. In front of a linear layer of a classifier (`classifier.1` where there is
//! no `classifier.0`) it is dropout. Inside of blocks it is left alone: there, the dropout of torchvision's and
//! diffusers' transformers has the probability zero (`mlp.2`, `ff.net.1`). Elsewhere a child that is missing
//! between an activation and a linear layer is reported.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};

use super::View;
use super::removed::EXPORT_HINT;
use crate::config::{Config, Dropout};
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Node, ValueId};

/// Puts dropout back where such a child is missing.
pub(super) fn fill(view: &mut View<'_>, config: &Config) {
    if config.drops() == Dropout::Off || view.nodes().any(|(_, node)| node.op == "Dropout") {
        return;
    }
    let present = children(view);
    let places = view.nodes().filter_map(|(_, node)| place(view, node, &present));
    let places = places.into_map();
    warn(view, &places.values().cloned().into_set());
    let mut count = 0;
    for (value, module) in places {
        let dropout = Node {
            name: format!("{module}/Dropout"),
            op: "Dropout".to_owned(),
            attributes: BTreeMap::from([("ratio".to_owned(), Attribute::Float(0.5))]),
            module,
            ..Node::default()
        };
        count += usize::from(view.insert_behind(value, dropout).is_some());
    }
    if count > 0 {
        let message = say!(
            "{count} modules are missing in front of the classifier's layers, and are assumed to be \
             dropout, which exports for inference do not have",
            count
        );
        view.say(Severity::Info, "assumed-dropout", message);
    }
}

/// Says which children are missing inside of blocks, but for those that are `found`.
fn warn(view: &View<'_>, found: &BTreeSet<String>) {
    let graph = view.graph();
    let state = graph.values.iter().filter(|value| value.initializer.is_some());
    let paths = state.map(|value| value.name.rsplit_once('.').map_or("", |(module, _)| module));
    let present: BTreeSet<&str> =
        paths.chain(view.nodes().map(|(_, node)| node.module.as_str())).into_set();
    let missing = view.nodes().filter_map(|(_, node)| {
        let (container, number) = node.module.rsplit_once('.')?;
        let number: u32 = number.parse().ok()?;
        let made = view.producer(node.input(0)?)?;
        let gap = format!("{container}.{}", number.checked_sub(1)?);
        let follows = made.module == format!("{container}.{}", number.checked_sub(2)?);
        let is_gap = matches!(node.op.as_str(), "Gemm" | "Linear" | "MatMul")
            && follows
            && !present.contains(gap.as_str())
            && !found.contains(&gap)
            && !["mlp", "ff.net"].iter().any(|known| container.ends_with(known));
        is_gap.then_some(gap)
    });
    let missing: BTreeSet<String> = missing.into_set();
    if let Some(first) = missing.first() {
        let message = say!(
            "{n} modules between an activation and a linear layer left nothing in the file, the first is \
             `{first}`: if they are dropout, each keeps a mask and a result more; {export_hint}",
            n = missing.len(),
            first,
            export_hint = EXPORT_HINT
        );
        view.say(Severity::Warning, "missing-modules", message);
    }
}

/// Numbered children that left something, by container at the top of the model.
fn children<'v>(view: &'v View<'_>) -> BTreeSet<(&'v str, u32)> {
    let names = view.graph().values.iter().filter(|value| value.initializer.is_some());
    let names = names.map(|value| value.name.as_str());
    names.chain(view.nodes().map(|(_, node)| node.module.as_str())).filter_map(child).into_set()
}

/// `classifier` and 1 for `classifier.1.weight`.
fn child(path: &str) -> Option<(&str, u32)> {
    let (container, rest) = path.split_once('.')?;
    let number = rest.split_once('.').map_or(rest, |(number, _)| number);
    Some((container, number.parse().ok()?))
}

/// What such a layer reads, and the module that is missing in front of it.
fn place(
    view: &View<'_>,
    node: &Node,
    present: &BTreeSet<(&str, u32)>,
) -> Option<(ValueId, String)> {
    let (container, number) = child(&node.module)?;
    let before = number.checked_sub(1)?;
    let x = node.input(0)?;
    let is_layer = match node.op.as_str() {
        "Gemm" | "Linear" => view.dims(x)?.len() == 2,
        "Conv" => container == "classifier",
        _ => false,
    };
    let is_missing = is_layer && !present.contains(&(container, before));
    (is_missing && view.producer(x).is_some()).then(|| (x, format!("{container}.{before}")))
}
