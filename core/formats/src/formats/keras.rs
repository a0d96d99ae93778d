//! Keras 2 and 3 → [`Spec`]: `model.to_json()`, or the `config.json` of a `.keras` archive.
//!
//! - The graph is stated, so nothing is guessed: sequential models, and functional ones by
//!   `inbound_nodes` in both grammars.
//! - The estimate is for the model that PyTorch would run: channels are the second dimension, a fused `activation`
//!   is a call of its own, and `padding="same"` is the padding that gives the same sizes.
//! - A `Lambda` holds code, which is never run: it is refused by name, as is every class that is not
//!   in `layers`.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use super::spec::tree::{self, Content, Tree, fault};
use super::spec::{Draft, Flow, Input, Layer, Spec};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, Place};
use crate::graph::Dim;

mod layers;
mod model;

use layers::Row;

/// SIZE: what an open dimension is where nobody says: sides of pictures, and lengths.
const OPEN: [(&str, u64); 4] = [("H", 224), ("W", 224), ("D", 16), ("L", 512)];

/// Whether a text is a model of Keras: an outermost mapping with `class_name` and `config`.
pub(super) fn is_keras(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('{')
        && text.contains("\"class_name\"")
        && text.contains("\"config\"")
        && text.contains("\"layers\"")
        && ["\"Sequential\"", "\"Functional\"", "\"Model\""].iter().any(|it| text.contains(it))
}

/// Reads a model of Keras.
///
/// # Errors
/// With the place, when a layer is not known here, or the text is no model of Keras.
pub(super) fn read(text: &str) -> Result<Spec, Error> {
    let text = text.trim_start_matches('\u{feff}');
    let tree = tree::parse(text)?;
    let class = word(&tree, "class_name").unwrap_or_default();
    let config = get(&tree, "config").unwrap_or(&tree);
    // The first Keras wrote a sequential model's layers without a mapping around.
    let entries = get(config, "layers").unwrap_or(config);
    let Content::List(entries) = &entries.content else {
        return Err(fault(tree.place, say!("a model of Keras has a list of `layers`")));
    };
    let is_sequential = class == "Sequential";
    let first = entries.iter().find_map(data_format).unwrap_or_else(|| "channels_last".to_owned());
    let channels_last = first == "channels_last";
    let mut spec = Spec {
        name: word(config, "name").filter(|name| is_name(name)).unwrap_or_default(),
        ..Spec::default()
    };
    let nodes = nodes(entries)?;
    let order = Order { channels_last, signals: nodes.iter().any(Node::slides) };
    inputs(&mut spec, config, &nodes, is_sequential, order)?;
    let (draft, flows) = Draft::new(&spec)?;
    let mut row = Row::new(draft, order);
    let named = spec.inputs.iter().map(|input| input.name.clone());
    let made = named.zip(flows).into_map();
    let made = row.model(&nodes, is_sequential, made)?;
    let outputs = outputs(config, &row.layers, &made)?;
    let (layers, notes) = (row.layers, row.notes);
    spec.layers = layers;
    spec.outputs = outputs;
    spec.diagnostics.extend(notes);
    let last = nodes.iter().rfind(|node| node.class != "InputLayer");
    let ends = last.filter(|node| {
        node.class == "Softmax" || word(node.config, "activation").as_deref() == Some("softmax")
    });
    if let Some(last) = ends {
        let message = say!(
            "`{name}` ends in a softmax, which is kept; `cross_entropy` of PyTorch has one of its own, so that \
             one would leave it out there",
            name = last.name
        );
        spec.diagnostics.push(Diagnostic::new(Severity::Info, "keras-softmax", message));
    }
    if says(&tree, "mask_zero") || nodes.iter().any(|node| node.class == "Masking") {
        spec.diagnostics.push(Diagnostic::new(
            Severity::Info,
            "keras-mask",
            say!(
                "steps of padding are masked; what is estimated are whole sequences, without masks"
            ),
        ));
    }
    if channels_last {
        spec.diagnostics.push(Diagnostic::new(
            Severity::Info,
            "keras-channels",
            say!("the model has channels last, as Keras does; what is estimated is the same model in \
             PyTorch, with channels second and contiguous memory"),
        ));
    }
    Ok(spec)
}

/// How sizes lie in the file.
#[derive(Clone, Copy, Debug)]
struct Order {
    channels_last: bool,
    /// Whether `[N, L, C]` is a signal, whose channels come second in PyTorch.
    signals: bool,
}

/// A layer of the file.
#[derive(Debug)]
struct Node<'t> {
    name: String,
    class: String,
    config: &'t Tree,
    /// What each call of it reads; nothing in a sequential model.
    calls: Vec<Vec<Origin>>,
    /// Whether a call asks for a causal mask.
    causal: bool,
    place: Place,
}

impl Node<'_> {
    /// Whether it slides over a signal `[N, L, C]`, whose channels come second in PyTorch.
    fn slides(&self) -> bool {
        let slides = self.class.contains("Conv1D") || self.class.contains("Pooling1D");
        let inside = || get(self.config, "layers").and_then(|tree| nodes(list(tree)).ok());
        slides && !self.class.starts_with("Global")
            || self.is_model() && inside().is_some_and(|nodes| nodes.iter().any(Self::slides))
    }

    /// Whether it is a model inside a model.
    fn is_model(&self) -> bool {
        ["Sequential", "Functional", "Model"].contains(&self.class.as_str())
    }
}

/// A tensor that is read: which layer made it, in which of its calls, and which of its results it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    layer: String,
    call: usize,
    result: i64,
}

impl Origin {
    /// Name of the result in the spec: `dense`, and `dense--2` for its second call.
    fn name(&self) -> String {
        called(&self.layer, self.call)
    }
}

fn called(layer: &str, call: usize) -> String {
    match call {
        0 => layer.to_owned(),
        call => format!("{layer}--{}", call.saturating_add(1)),
    }
}

fn list(tree: &Tree) -> &[Tree] {
    match &tree.content {
        Content::List(items) => items,
        _ => &[],
    }
}

/// The layers of a model, with names that a spec may have.
fn nodes(entries: &[Tree]) -> Result<Vec<Node<'_>>, Error> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    for entry in entries {
        let config = get(entry, "config").unwrap_or(entry);
        let class = word(entry, "class_name")
            .ok_or_else(|| fault(entry.place, say!("a layer has a `class_name`")))?;
        let name = word(entry, "name").or_else(|| word(config, "name"));
        let name = plain(&name.unwrap_or_else(|| format!("layer{}", nodes.len())));
        let inbound = get(entry, "inbound_nodes");
        nodes.push(Node {
            name,
            class,
            config,
            calls: inbound.map(calls).unwrap_or_default(),
            causal: inbound.is_some_and(|tree| says(tree, "use_causal_mask")),
            place: entry.place,
        });
    }
    // `tokens != 0`, which makes a mask.
    let read: Vec<String> =
        nodes.iter().flat_map(|node| &node.calls).flatten().map(|it| it.layer.clone()).collect();
    nodes.retain(|node| node.class != "NotEqual" || read.contains(&node.name));
    Ok(nodes)
}

/// A name of Keras's as a spec may have it.
fn plain(name: &str) -> String {
    name.chars().map(|c| if is_name_char(c) { c } else { '_' }).take(60).collect()
}

/// Whether a flag of this name is set anywhere inside.
fn says(tree: &Tree, flag: &str) -> bool {
    match &tree.content {
        Content::List(items) => items.iter().any(|item| says(item, flag)),
        Content::Map(entries) => entries.iter().any(|(key, value)| {
            key.text == flag && value.content == Content::Flag(true) || says(value, flag)
        }),
        _ => false,
    }
}

fn get<'t>(tree: &'t Tree, key: &str) -> Option<&'t Tree> {
    match &tree.content {
        Content::Map(entries) => {
            entries.iter().find(|(known, _)| known.text == key).map(|(_, value)| value)
        }
        _ => None,
    }
}

fn word(tree: &Tree, key: &str) -> Option<String> {
    match &get(tree, key)?.content {
        Content::Text(text) => Some(text.clone()),
        _ => None,
    }
}

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 60 && name.chars().all(is_name_char)
}

fn data_format(entry: &Tree) -> Option<String> {
    word(get(entry, "config")?, "data_format")
}

/// Calls of a layer, each with what it reads.
///
/// Keras 2: `[[["conv", 0, 0, {}]]]`. Keras 3: `[{"args": [… "keras_history": ["conv", 0, 0]]}]`.
fn calls(tree: &Tree) -> Vec<Vec<Origin>> {
    let calls = list(tree).iter().map(|call| {
        let mut found = Vec::new();
        origins(call, &mut found);
        found
    });
    calls.filter(|found| !found.is_empty()).collect()
}

fn origins(tree: &Tree, found: &mut Vec<Origin>) {
    match &tree.content {
        Content::List(items) => match items.as_slice() {
            [
                Tree { content: Content::Text(name), .. },
                Tree { content: Content::Int(call), .. },
                rest @ ..,
            ] => {
                let result = match rest.first().map(|tree| &tree.content) {
                    Some(Content::Int(n)) => *n,
                    _ => 0,
                };
                let call = usize::try_from(*call).unwrap_or(0);
                found.push(Origin { layer: plain(name), call, result });
                // Keras 2 has further tensors among a call's words: `{"value": ["x", 0, 0]}`.
                rest.iter()
                    .filter(|item| matches!(item.content, Content::Map(_)))
                    .for_each(|item| origins(item, found));
            }
            items => items.iter().for_each(|item| origins(item, found)),
        },
        // Masks say which steps are padding; kernels on whole sequences do not read them.
        Content::Map(entries) => entries
            .iter()
            .filter(|(key, _)| !key.text.ends_with("mask"))
            .for_each(|(_, value)| origins(value, found)),
        _ => {}
    }
}

/// Inputs, in PyTorch's order of dimensions.
fn inputs(
    spec: &mut Spec,
    config: &Tree,
    nodes: &[Node<'_>],
    is_sequential: bool,
    order: Order,
) -> Result<(), Error> {
    let stated = |tree: &Tree| {
        ["batch_shape", "batch_input_shape"].iter().find_map(|key| get(tree, key)).cloned()
    };
    let read_by_embedding = |name: &str| {
        let reads = |node: &&Node<'_>| node.calls.iter().flatten().any(|from| from.layer == name);
        nodes.iter().filter(reads).any(|node| node.class == "Embedding")
    };
    let mut shapes: Vec<(String, Tree, bool)> = Vec::new();
    for node in nodes.iter().filter(|node| node.class == "InputLayer") {
        let shape = stated(node.config)
            .ok_or_else(|| fault(node.place, say!("`{name}` has no shape", name = node.name)))?;
        shapes.push((node.name.clone(), shape, read_by_embedding(&node.name)));
    }
    if shapes.is_empty() && is_sequential {
        let first = nodes.first().and_then(|node| stated(node.config));
        let shape = first.or_else(|| get(config, "build_input_shape").cloned());
        shapes.extend(shape.map(|shape| ("x".to_owned(), shape, false)));
    }
    if shapes.is_empty() {
        return Err(fault(
            config.place,
            say!(
                "the model does not state its input; add an `InputLayer` or `build` it before saving"
            ),
        ));
    }
    for (name, shape, _) in shapes {
        let Content::List(items) = &shape.content else {
            return Err(fault(shape.place, say!("a shape is a list")));
        };
        let rank = items.len();
        if !(2..=5).contains(&rank) {
            return Err(fault(
                shape.place,
                say!("inputs of {rank} dimensions are not read here", rank),
            ));
        }
        let mut dims = vec![Dim::Named("N".to_owned())];
        let spatial: &[&str] = match rank {
            5 => &["D", "H", "W"],
            4 => &["H", "W"],
            3 => &["L"],
            _ => &[],
        };
        let moves = order.channels_last && (rank >= 4 || rank == 3 && order.signals);
        let mut rest: Vec<&Tree> = items.iter().skip(1).collect();
        if moves && let Some(channels) = rest.pop() {
            rest.insert(0, channels);
        }
        let is_first = moves || !order.channels_last;
        for (axis, item) in rest.into_iter().enumerate() {
            let open = if is_first { axis.checked_sub(1) } else { Some(axis) };
            let name = open.and_then(|axis| spatial.get(axis)).copied();
            dims.push(match (&item.content, name) {
                (Content::Int(n), _) if (1..=1 << 31).contains(n) => {
                    Dim::Known(u64::try_from(*n).unwrap_or(1))
                }
                (Content::Null, name) => {
                    let name = name.unwrap_or("L");
                    let usual = OPEN.iter().find(|(known, _)| *known == name);
                    spec.dims.insert(name.to_owned(), usual.map_or(1, |(_, size)| *size));
                    Dim::Named(name.to_owned())
                }
                _ => return Err(fault(item.place, say!("{kind} is no size", kind = item.kind()))),
            });
        }
        spec.inputs.push(Input { name, dims, dtype: None, place: shape.place });
    }
    Ok(())
}

/// Results by name.
type Made = BTreeMap<String, Flow>;

/// Names of the results that are returned, where those are not the last.
fn outputs(config: &Tree, layers: &[Layer], made: &Made) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    if let Some(outputs) = get(config, "output_layers") {
        origins(outputs, &mut found);
    }
    let names: Vec<String> = found.iter().map(Origin::name).collect();
    if let Some(missing) = names.iter().find(|name| !made.contains_key(*name)) {
        return Err(fault(config.place, say!("nothing makes the output `{missing}`", missing)));
    }
    let last = layers.last().and_then(|layer| layer.name.as_deref());
    match names.as_slice() {
        [only] if Some(only.as_str()) == last => Ok(Vec::new()),
        _ => Ok(names),
    }
}
