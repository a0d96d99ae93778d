//! Changes of fields, dimensions, operators and wires, for ONNX.
//!
//! Field numbers are those of <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>.

use super::{Corpus, INPUT_MAX, bytes};
use crate::random::Random;

/// COUNT: messages in each other that are decoded; deeper ones stay bytes.
const DEPTH_MAX: usize = 24;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    Dim,
    Function,
    Other,
}

#[derive(Clone, Debug)]
struct Field {
    number: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(Vec<u8>),
    Message(Kind, Vec<Field>),
}

/// Changes fields; once in twenty times, and where the input is no protocol buffer, bytes.
pub fn mutate(corpus: &Corpus, input: &[u8], random: &mut Random) -> Vec<u8> {
    if random.once_in(20) {
        return bytes::mutate(corpus, input, random);
    }
    let Some(mut model) = decode(Kind::Model, input, 0) else {
        return bytes::mutate(corpus, input, random);
    };
    for _ in 0..random.edits() {
        match random.below(10) {
            0 => drop(add_node(&mut model, corpus, random)),
            1 | 2 => rename(&mut model, corpus, random),
            _ => {
                let at = random.below(count(&model));
                if let Some((kind, fields)) = nth(Kind::Model, &mut model, &mut { at }) {
                    edit(kind, fields, corpus, random);
                }
            }
        }
    }
    let mut bytes = Vec::with_capacity(input.len());
    encode(&model, &mut bytes);
    bytes.truncate(INPUT_MAX);
    bytes
}

/// What a field of a message holds; `None` where it is no message.
const fn inside(kind: Kind, number: u64) -> Option<Kind> {
    Some(match (kind, number) {
        (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Kind::Graph,
        (Kind::Model, 8 | 14) | (Kind::Function, 9) => Kind::Other,
        (Kind::Model, 25) => Kind::Function,
        (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
        (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) => Kind::Tensor,
        (Kind::Graph, 11..=13) => Kind::Value,
        (Kind::Node, 5) => Kind::Attribute,
        (Kind::Value, 2) | (Kind::Attribute, 14) | (Kind::TensorType, 1) => Kind::Type,
        (Kind::Type, 1 | 4 | 8 | 9) => Kind::TensorType,
        (Kind::TensorType, 2) => Kind::Shape,
        (Kind::Shape, 1) => Kind::Dim,
        _ => return None,
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn decode(kind: Kind, mut bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = key >> 3;
        let content = match key & 7 {
            0 => Content::Varint(varint(&mut bytes)?),
            1 => {
                let (&head, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Content::Fixed64(head)
            }
            5 => {
                let (&head, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Content::Fixed32(head)
            }
            2 => {
                let size = usize::try_from(varint(&mut bytes)?).ok()?;
                let (body, rest) = bytes.split_at_checked(size)?;
                bytes = rest;
                let kind = inside(kind, number).filter(|_| depth < DEPTH_MAX);
                let message = kind
                    .and_then(|kind| Some(Content::Message(kind, decode(kind, body, depth + 1)?)));
                message.unwrap_or_else(|| Content::Bytes(body.to_vec()))
            }
            _ => return None,
        };
        fields.push(Field { number, content });
    }
    Some(fields)
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

fn encode(fields: &[Field], bytes: &mut Vec<u8>) {
    for Field { number, content } in fields {
        let key = |wire: u64| number << 3 | wire;
        match content {
            Content::Varint(value) => {
                put_varint(bytes, key(0));
                put_varint(bytes, *value);
            }
            Content::Fixed64(value) => {
                put_varint(bytes, key(1));
                bytes.extend(value);
            }
            Content::Fixed32(value) => {
                put_varint(bytes, key(5));
                bytes.extend(value);
            }
            Content::Bytes(value) => put_bytes(bytes, key(2), value),
            Content::Message(_, fields) => {
                let mut inner = Vec::new();
                encode(fields, &mut inner);
                put_bytes(bytes, key(2), &inner);
            }
        }
    }
}

fn put_bytes(bytes: &mut Vec<u8>, key: u64, value: &[u8]) {
    put_varint(bytes, key);
    put_varint(bytes, u64::try_from(value.len()).unwrap_or(0));
    bytes.extend(value);
}

/// COUNT: messages, the outermost among them.
fn count(fields: &[Field]) -> usize {
    let inner = fields.iter().map(|field| match &field.content {
        Content::Message(_, fields) => count(fields),
        _ => 0,
    });
    1 + inner.sum::<usize>()
}

/// The message at a position, outer ones first.
fn nth<'f>(
    kind: Kind,
    fields: &'f mut Vec<Field>,
    at: &mut usize,
) -> Option<(Kind, &'f mut Vec<Field>)> {
    if *at == 0 {
        return Some((kind, fields));
    }
    *at -= 1;
    fields.iter_mut().find_map(|field| match &mut field.content {
        Content::Message(kind, fields) => nth(*kind, fields, at),
        _ => None,
    })
}

fn edit(kind: Kind, fields: &mut Vec<Field>, corpus: &Corpus, random: &mut Random) {
    let (at, other) = (random.below(fields.len()), random.below(fields.len()));
    match random.below(12) {
        0 if !fields.is_empty() => drop(fields.remove(at)),
        1 if !fields.is_empty() => fields.swap(at, other),
        2 if !fields.is_empty() => {
            let count = if random.once_in(40) { random.below(500) } else { 1 };
            let field = fields[at].clone();
            fields.splice(other..other, std::iter::repeat_n(field, count));
        }
        3 => {
            if let Some(field) = taken(kind, corpus, random) {
                fields.insert(at, field);
            }
        }
        4 => fields.insert(at, unusual(kind, random)),
        _ => {
            if let Some(field) = fields.get_mut(at) {
                change(kind, field, corpus, random);
            }
        }
    }
}

fn change(kind: Kind, field: &mut Field, corpus: &Corpus, random: &mut Random) {
    match &mut field.content {
        Content::Varint(value) if kind == Kind::Tensor && field.number == 2 => {
            *value = random.size() % 24;
        }
        Content::Varint(value) => *value = random.size(),
        Content::Fixed64(value) => *value = random.next().to_le_bytes(),
        Content::Fixed32(value) => {
            let values = [0.0, -1.0, 0.5, 2.0, f32::NAN, f32::INFINITY, 1e30];
            *value = values[random.below(values.len())].to_le_bytes();
        }
        Content::Bytes(value) if kind == Kind::Tensor && field.number != 8 => {
            let size = random.below(64);
            if random.once_in(2) {
                value.truncate(size);
            } else {
                value.extend(random.size().to_le_bytes());
            }
        }
        Content::Bytes(value) => *value = corpus.word(random).as_bytes().to_vec(),
        Content::Message(..) => {}
    }
}

/// A field of a message of the same kind in another seed.
fn taken(kind: Kind, corpus: &Corpus, random: &mut Random) -> Option<Field> {
    let mut donor = decode(Kind::Model, corpus.donor(random), 0)?;
    let messages = count(&donor);
    for _ in 0..8 {
        let mut at = random.below(messages);
        let (found, fields) = nth(Kind::Model, &mut donor, &mut at)?;
        if found == kind {
            return random.one_of(fields).cloned();
        }
    }
    None
}

/// A field that a message of this kind may have, with a value that few files have.
fn unusual(kind: Kind, random: &mut Random) -> Field {
    let numbers: &[u64] = match kind {
        Kind::Tensor => &[1, 1, 1, 2, 14],
        Kind::Attribute => &[3, 8, 20],
        Kind::Dim | Kind::TensorType => &[1],
        Kind::Model | Kind::Other => &[1, 2, 5],
        _ => &[1, 2, 3, 4, 5, 6, 7, 8],
    };
    let number = random.one_of(numbers).copied().unwrap_or(1);
    Field { number, content: Content::Varint(random.size()) }
}

/// Names of the values of a graph: outputs of nodes, initializers, inputs.
fn names(graph: &[Field]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for field in graph {
        if let Content::Message(kind, fields) = &field.content {
            let named = |number: u64| {
                fields.iter().filter(move |field| field.number == number).filter_map(|field| {
                    if let Content::Bytes(name) = &field.content {
                        Some(name.clone())
                    } else {
                        None
                    }
                })
            };
            match kind {
                Kind::Node => names.extend(named(2)),
                Kind::Tensor => names.extend(named(8)),
                Kind::Value => names.extend(named(1)),
                _ => {}
            }
        }
    }
    names
}

fn graph(model: &mut [Field]) -> Option<&mut Vec<Field>> {
    model.iter_mut().find_map(|field| match &mut field.content {
        Content::Message(Kind::Graph, fields) => Some(fields),
        _ => None,
    })
}

/// Another operator for a node, or another value for one of its inputs or outputs, or for the graph's output.
fn rename(model: &mut [Field], corpus: &Corpus, random: &mut Random) {
    let Some(graph) = graph(model) else { return };
    let names = names(graph);
    let at = random.below(graph.len());
    let Some(Field { content: Content::Message(kind, fields), .. }) = graph.get_mut(at) else {
        return;
    };
    let at = random.below(fields.len());
    let Some(Field { number, content: Content::Bytes(text) }) = fields.get_mut(at) else { return };
    match (*kind, *number) {
        (Kind::Node, 4) => *text = operator(corpus, random).unwrap_or_default(),
        (Kind::Node, 1 | 2) | (Kind::Value, 1) | (Kind::Tensor, 8) => {
            *text = random.one_of(&names).cloned().unwrap_or_default();
        }
        _ => {}
    }
}

/// A node of another seed, as fields.
fn node(corpus: &Corpus, random: &mut Random) -> Option<Vec<Field>> {
    let mut donor = decode(Kind::Model, corpus.donor(random), 0)?;
    let graph = graph(&mut donor)?;
    let nodes: Vec<&Vec<Field>> = graph
        .iter()
        .filter_map(|field| match &field.content {
            Content::Message(Kind::Node, fields) => Some(fields),
            _ => None,
        })
        .collect();
    random.one_of(&nodes).map(|fields| (*fields).clone())
}

fn operator(corpus: &Corpus, random: &mut Random) -> Option<Vec<u8>> {
    let node = node(corpus, random)?;
    node.into_iter().find(|field| field.number == 4).and_then(|field| match field.content {
        Content::Bytes(text) => Some(text),
        _ => None,
    })
}

/// A node of another seed, reading values of this graph; its first output becomes an output of the graph.
fn add_node(model: &mut [Field], corpus: &Corpus, random: &mut Random) -> Option<()> {
    let mut fields = node(corpus, random)?;
    let graph = graph(model)?;
    let names = names(graph);
    let output = format!("new{}", random.below(1000)).into_bytes();
    for field in &mut fields {
        if let (1, Content::Bytes(text)) = (field.number, &mut field.content) {
            *text = random.one_of(&names).cloned().unwrap_or_default();
        }
    }
    let first = fields.iter_mut().find(|field| field.number == 2)?;
    first.content = Content::Bytes(output.clone());
    // Nodes are in the order of their use: the new one comes behind all others.
    graph.push(Field { number: 1, content: Content::Message(Kind::Node, fields) });
    let is_output = |field: &&mut Field| field.number == 12;
    if let Some(Field { content: Content::Message(_, value), .. }) =
        graph.iter_mut().find(is_output)
    {
        value.retain(|field| field.number != 1 && field.number != 2);
        value.push(Field { number: 1, content: Content::Bytes(output) });
    }
    Some(())
}
