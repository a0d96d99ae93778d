//! Keras 2 and 3 → [`Spec`]: `model.to_json()`, or the `config.json` of a `.keras` archive.
//!
//! - The graph is stated, so nothing is guessed: sequential models, and functional ones by
//!   `inbound_nodes` in both grammars.
//! - What is estimated is the model that PyTorch would run: channels lie second, a fused `activation`
//!   is a call of its own, and `padding="same"` is the padding that gives the same sizes.
//! - A `Lambda` holds code, which is never run: it is refused by name, as is every class that is not
//!   in `layers`.

use std::collections::BTreeMap;

use super::spec::tree::{self, Content, Tree, fault, shortened};
use super::spec::{Draft, Flow, Input, Layer, Spec};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, Place};
use crate::graph::Dim;

mod layers;

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
        return Err(fault(tree.place, "a model of Keras has a list of `layers`"));
    };
    let is_sequential = class == "Sequential";
    let first = entries.iter().find_map(data_format).unwrap_or_else(|| "channels_last".to_owned());
    let channels_last = first == "channels_last";
    let mut spec = Spec {
        name: word(config, "name").filter(|name| is_name(name)).unwrap_or_default(),
        ..Spec::default()
    };
    let mut nodes = Vec::new();
    for entry in entries {
        let own = get(entry, "config").unwrap_or(entry);
        let class = word(entry, "class_name")
            .ok_or_else(|| fault(entry.place, "a layer has a `class_name`"))?;
        let name = word(entry, "name").or_else(|| word(own, "name"));
        let name = name.unwrap_or_else(|| format!("layer{}", nodes.len()));
        let name: String =
            name.chars().map(|c| if is_name_char(c) { c } else { '_' }).take(60).collect();
        let inbound = get(entry, "inbound_nodes").map(calls).unwrap_or_default();
        if inbound.len() > 1 {
            let message = format!(
                "`{name}` is called {} times; a layer that is shared is not read here",
                inbound.len()
            );
            return Err(fault(entry.place, message));
        }
        let sources = inbound.into_iter().next().unwrap_or_default();
        nodes.push(Node { name, class, config: own, sources, place: entry.place });
    }
    let signals = entries.iter().any(|entry| {
        word(entry, "class_name")
            .is_some_and(|class| class.contains("Conv1D") || class.contains("Pooling1D"))
    });
    let order = Order { channels_last, signals };
    inputs(&mut spec, config, &nodes, is_sequential, order)?;
    let translated = translate(&spec, &nodes, is_sequential, order)?;
    spec.layers = translated.layers;
    spec.outputs = outputs(config, &spec);
    spec.diagnostics.extend(translated.notes);
    let last = nodes.iter().rfind(|node| node.class != "InputLayer");
    let ends = last.filter(|node| {
        node.class == "Softmax" || word(node.config, "activation").as_deref() == Some("softmax")
    });
    if let Some(last) = ends {
        let message = format!(
            "`{}` ends in a softmax, which is kept; `cross_entropy` of PyTorch has one of its own, so that \
             one would leave it out there",
            last.name
        );
        spec.diagnostics.push(Diagnostic::new(Severity::Info, "keras-softmax", message));
    }
    if channels_last {
        spec.diagnostics.push(Diagnostic::new(
            Severity::Info,
            "keras-channels",
            "the model has channels last, as Keras does; what is estimated is the same model in \
             PyTorch, with channels second and contiguous memory",
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
    sources: Vec<String>,
    place: Place,
}

struct Translated {
    layers: Vec<Layer>,
    notes: Vec<Diagnostic>,
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

/// Calls of a layer, each with the names of the layers that it reads.
///
/// Keras 2: `[[["conv", 0, 0, {}]]]`. Keras 3: `[{"args": [… "keras_history": ["conv", 0, 0]]}]`.
fn calls(tree: &Tree) -> Vec<Vec<String>> {
    let Content::List(items) = &tree.content else { return Vec::new() };
    items
        .iter()
        .map(|call| {
            let mut names = Vec::new();
            sources(call, &mut names);
            names
        })
        .filter(|names| !names.is_empty())
        .collect()
}

fn sources(tree: &Tree, names: &mut Vec<String>) {
    match &tree.content {
        Content::List(items) => match items.as_slice() {
            [
                Tree { content: Content::Text(name), .. },
                Tree { content: Content::Int(_), .. },
                ..,
            ] => {
                names.push(name.chars().map(|c| if is_name_char(c) { c } else { '_' }).collect());
            }
            items => items.iter().for_each(|item| sources(item, names)),
        },
        Content::Map(entries) => entries.iter().for_each(|(_, value)| sources(value, names)),
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
        let reads = |node: &&Node<'_>| node.sources.iter().any(|source| source == name);
        nodes.iter().filter(reads).any(|node| node.class == "Embedding")
    };
    let mut shapes: Vec<(String, Tree, bool)> = Vec::new();
    for node in nodes.iter().filter(|node| node.class == "InputLayer") {
        let shape = stated(node.config)
            .ok_or_else(|| fault(node.place, format!("`{}` has no shape", node.name)))?;
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
            "the model does not say what it reads; add an `InputLayer` or `build` it before saving",
        ));
    }
    for (name, shape, _) in shapes {
        let Content::List(items) = &shape.content else {
            return Err(fault(shape.place, "a shape is a list"));
        };
        let rank = items.len();
        if !(2..=5).contains(&rank) {
            return Err(fault(
                shape.place,
                format!("inputs of {rank} dimensions are not read here"),
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
                _ => return Err(fault(item.place, format!("{} is no size", item.kind()))),
            });
        }
        spec.inputs.push(Input { name, dims, dtype: None, place: shape.place });
    }
    Ok(())
}

/// Layers in the order in which they can run.
fn translate(
    spec: &Spec,
    nodes: &[Node<'_>],
    is_sequential: bool,
    order: Order,
) -> Result<Translated, Error> {
    let (draft, flows) = Draft::new(spec)?;
    let mut known: BTreeMap<String, Flow> = BTreeMap::new();
    let named = spec.inputs.iter().map(|input| input.name.clone());
    known.extend(named.zip(flows.iter().cloned()));
    let mut row = Row::new(draft, order);
    let mut before = spec.inputs.first().map(|input| input.name.clone()).unwrap_or_default();
    let mut waiting: Vec<&Node<'_>> =
        nodes.iter().filter(|node| node.class != "InputLayer").collect();
    while !waiting.is_empty() {
        let mut left = Vec::new();
        let count = waiting.len();
        for node in waiting {
            let sources: Vec<String> = if is_sequential || node.sources.is_empty() {
                vec![before.clone()]
            } else {
                node.sources.clone()
            };
            let Some(flows) = sources
                .iter()
                .map(|source| known.get(source).cloned())
                .collect::<Option<Vec<Flow>>>()
            else {
                left.push(node);
                continue;
            };
            let y = row.layer(node, &sources, &flows, &before)?;
            if known.insert(node.name.clone(), y).is_some() {
                let message = format!("two layers are called `{}`", shortened(&node.name));
                return Err(fault(node.place, message));
            }
            before.clone_from(&node.name);
        }
        if left.len() == count {
            let node = left.first().copied();
            let (place, name) =
                node.map_or_else(Default::default, |it| (it.place, it.name.clone()));
            return Err(fault(place, format!("nothing makes what `{name}` reads")));
        }
        waiting = left;
    }
    Ok(Translated { layers: row.layers, notes: row.notes })
}

/// Names of the layers that are returned, where those are not the last.
fn outputs(config: &Tree, spec: &Spec) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(outputs) = get(config, "output_layers") {
        sources(outputs, &mut names);
    }
    let last = spec.layers.last().and_then(|layer| layer.name.as_deref());
    if let [only] = names.as_slice()
        && Some(only.as_str()) == last
    {
        names.clear();
    }
    names
}
