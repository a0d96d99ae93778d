//! [`Tree`] → [`Spec`]. For an unknown key, the error proposes the nearest known one.

use super::kinds::{self, LayerKind, Takes, Value, did_you_mean};
use super::tree::{Content, Key, Tree, fault, shortened};
use super::{Body, Input, Join, Layer, Module, Spec};
use crate::config::{self, Config, Named, SETTINGS, Scope, Setting};
use crate::error::{Error, Place};
use crate::graph::Dim;
use crate::sentence::Sentence;
use crate::tensor::DType;

/// SIZE: elements along a dimension, at most.
const DIM_MAX: i64 = 1 << 31;

/// Keys of a spec: name, and what it is for.
pub(super) const KEYS: [(&str, &str); 8] = [
    ("highwater", "version of the language: 1"),
    ("name", "name of the model"),
    ("input", "dimensions of the input, `[N, 3, 224, 224]`, or of several by name"),
    ("dims", "sizes of named dimensions"),
    ("layers", "the layers, each reading what the one before it made"),
    ("outputs", "names of the layers whose results are returned; without it, the last one"),
    ("loss", "what the outputs are compared with"),
    ("train", "how the model is trained, unless the command line sets it"),
];

/// Keys of an entry in addition to its layer.
const BESIDE: [&str; 2] = ["name", "from"];

/// What `train` may say: what holds of any model. Figures of one card are not a spec's to know.
pub(super) fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| matches!(setting.scope, Scope::Training | Scope::Machine))
}

/// The value of a setting, as [`Setting::set`] reads it.
fn setting_text(kind: config::Kind, tree: &Tree) -> Result<String, Sentence> {
    match kind {
        config::Kind::Choice(values) => word(values, tree),
        config::Kind::Suggestion(_) if tree.content == Content::Null => Ok("none".to_owned()),
        config::Kind::Suggestion(_) => version(tree),
        config::Kind::Flag => flag(tree).map(|flag| flag.to_string()),
        config::Kind::Count => count(tree).map(|count| count.to_string()),
        config::Kind::Names => texts(tree).map(|names| names.join("\n")),
        _ => text(tree),
    }
}

fn word(values: &'static [Named], tree: &Tree) -> Result<String, Sentence> {
    let text = match &tree.content {
        Content::Text(text) => text.clone(),
        Content::Int(n) => n.to_string(),
        Content::Number(x) => x.to_string(),
        // YAML reads `off` as a text, but `true` as none.
        Content::Flag(true) => "on".to_owned(),
        Content::Flag(false) => "off".to_owned(),
        _ => return Err(say!("{kind} is no word", kind = tree.kind())),
    };
    let wanted = kinds::plain_word(&text);
    let found = values.iter().find(|value| kinds::plain_word(value.name) == wanted);
    found.map(|value| value.name.to_owned()).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|value| value.name).collect();
        let meant = did_you_mean(&text, names.iter().copied());
        say!(
            "`{text}` is none of {names}{meant}",
            text = shortened(&text),
            names = names.join(", "),
            meant
        )
    })
}

/// A text, or a version that reads as a number.
fn version(tree: &Tree) -> Result<String, Sentence> {
    let Content::Number(number) = tree.content else { return text(tree) };
    let text = number.to_string();
    if text.ends_with(".1") {
        return Err(say!(
            "the number {text} may be {text} or {text}0: write it in quotation marks",
            text
        ));
    }
    Ok(text)
}

fn flag(tree: &Tree) -> Result<bool, Sentence> {
    match tree.content {
        Content::Flag(flag) => Ok(flag),
        _ => Err(say!("{kind} is not true or false", kind = tree.kind())),
    }
}

fn count(tree: &Tree) -> Result<std::num::NonZeroU64, Sentence> {
    let number = match tree.content {
        Content::Int(n) => u64::try_from(n).ok().and_then(std::num::NonZeroU64::new),
        _ => None,
    };
    number.ok_or_else(|| say!("{kind} is no whole number from 1", kind = tree.kind()))
}

fn texts(tree: &Tree) -> Result<Vec<String>, Sentence> {
    match &tree.content {
        Content::Text(text) => Ok(vec![text.clone()]),
        Content::List(items) => items.iter().map(text).collect(),
        _ => Err(say!("{kind} is no list of names", kind = tree.kind())),
    }
}

fn text(tree: &Tree) -> Result<String, Sentence> {
    match &tree.content {
        Content::Text(text) => Ok(text.clone()),
        Content::Int(n) => Ok(n.to_string()),
        _ => Err(say!("{kind} is no text", kind = tree.kind())),
    }
}

/// Reads the outermost mapping.
pub(super) fn spec(tree: &Tree) -> Result<Spec, Error> {
    let entries = mapping(tree, &say!("a spec is a mapping with `input` and `layers`"))?;
    let mut spec = Spec::default();
    for (key, value) in entries {
        let name = if key.text == "inputs" { "input" } else { key.text.as_str() };
        match name {
            "highwater" => {
                if value.content != Content::Int(1) {
                    let message =
                        say!("{kind} is no version of the language; write 1", kind = value.kind());
                    return Err(fault(value.place, message));
                }
            }
            "name" => spec.name = text(value).map_err(|message| fault(value.place, message))?,
            "input" => spec.inputs = inputs(value)?,
            "dims" => dims(&mut spec, value)?,
            "layers" => spec.layers = layers(value)?,
            "outputs" => {
                spec.outputs = texts(value).map_err(|message| fault(value.place, message))?;
            }
            "loss" => set(&mut spec.train, "loss", key.place, value)?,
            "train" => {
                for (key, value) in mapping(
                    value,
                    &say!(
                        "`train` is a mapping, such as `{example}`",
                        example = "{optimizer: sgd}"
                    ),
                )? {
                    set(&mut spec.train, &key.text, key.place, value)?;
                }
            }
            _ => return Err(unknown_key(key, &say!("a spec"), &KEYS.map(|(name, _)| name))),
        }
    }
    Ok(spec)
}

fn set(config: &mut Config, name: &str, place: Place, value: &Tree) -> Result<(), Error> {
    let wanted = kinds::plain_word(name);
    let found = settings().find(|setting| kinds::plain_word(setting.name) == wanted);
    let Some(setting) = found else {
        let names: Vec<String> = settings().map(Setting::key).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let meant = did_you_mean(name, names.iter().copied());
        let (name, names) = (shortened(name), names.join(", "));
        let message =
            say!("`train` has no setting `{name}`{meant}; it has {names}", name, meant, names);
        return Err(fault(place, message));
    };
    let read = setting_text(setting.kind, value)
        .and_then(|text| setting.set(config, &text).map_err(|error| error.sentence()));
    read.map_err(|message| {
        fault(value.place, say!("`{name}`: {message}", name = setting.key(), message))
    })
}

fn mapping<'t>(tree: &'t Tree, wanted: &Sentence) -> Result<&'t [(Key, Tree)], Error> {
    match &tree.content {
        Content::Map(entries) => Ok(entries),
        _ => {
            Err(fault(tree.place, say!("{wanted}, and here is {kind}", wanted, kind = tree.kind())))
        }
    }
}

fn list<'t>(tree: &'t Tree, wanted: &Sentence) -> Result<&'t [Tree], Error> {
    match &tree.content {
        Content::List(items) => Ok(items),
        _ => {
            Err(fault(tree.place, say!("{wanted}, and here is {kind}", wanted, kind = tree.kind())))
        }
    }
}

fn unknown_key(key: &Key, of: &Sentence, known: &[&str]) -> Error {
    let meant = did_you_mean(&key.text, known.iter().copied());
    let name = shortened(&key.text);
    fault(
        key.place,
        say!(
            "{of} has no key `{name}`{meant}; it has {known}",
            of,
            name,
            meant,
            known = known.join(", ")
        ),
    )
}

/// `[N, 784]`, or by name: `{tokens: [N, 1024], dtype: int64}`, `{x: {shape: […], dtype: …}}`.
fn inputs(tree: &Tree) -> Result<Vec<Input>, Error> {
    if let Content::List(_) = tree.content {
        return Ok(vec![input("x", tree, tree.place, None)?]);
    }
    let entries = mapping(tree, &say!("`input` is a list of dimensions, `[N, 3, 224, 224]`"))?;
    let common = entries.iter().find(|(key, _)| key.text == "dtype").map(|(_, tree)| dtype(tree));
    let common = common.transpose()?;
    let mut inputs = Vec::new();
    for (key, value) in entries.iter().filter(|(key, _)| key.text != "dtype") {
        let Content::Map(parts) = &value.content else {
            inputs.push(input(&key.text, value, key.place, common)?);
            continue;
        };
        let mut own = common;
        let mut shape = None;
        for (part, value) in parts {
            match part.text.as_str() {
                "shape" => shape = Some(value),
                "dtype" => own = Some(dtype(value)?),
                _ => return Err(unknown_key(part, &say!("an input"), &["shape", "dtype"])),
            }
        }
        let shape = shape.ok_or_else(|| fault(key.place, say!("an input has a `shape`")))?;
        inputs.push(input(&key.text, shape, key.place, own)?);
    }
    Ok(inputs)
}

fn input(name: &str, tree: &Tree, place: Place, dtype: Option<DType>) -> Result<Input, Error> {
    checked_name(name, place)?;
    let items =
        list(tree, &say!("the dimensions of an input are a list, such as `[N, 3, 224, 224]`"))?;
    if items.len() > 8 {
        return Err(fault(tree.place, say!("an input has at most 8 dimensions")));
    }
    let mut dims = Vec::new();
    for item in items {
        dims.push(match &item.content {
            Content::Int(n) if (1..=DIM_MAX).contains(n) => {
                Dim::Known(u64::try_from(*n).unwrap_or(1))
            }
            Content::Text(name) => {
                checked_name(name, item.place)?;
                Dim::Named(name.clone())
            }
            _ => {
                let message =
                    say!("{kind} is no dimension: write a number or a name", kind = item.kind());
                return Err(fault(item.place, message));
            }
        });
    }
    Ok(Input { name: name.to_owned(), dims, dtype, place })
}

fn dtype(tree: &Tree) -> Result<DType, Error> {
    const NAMES: [(&str, DType); 16] = [
        ("float32", DType::Float32),
        ("f32", DType::Float32),
        ("float64", DType::Float64),
        ("f64", DType::Float64),
        ("float16", DType::Float16),
        ("f16", DType::Float16),
        ("bfloat16", DType::BFloat16),
        ("bf16", DType::BFloat16),
        ("int64", DType::Int64),
        ("i64", DType::Int64),
        ("long", DType::Int64),
        ("int32", DType::Int32),
        ("i32", DType::Int32),
        ("uint8", DType::UInt8),
        ("u8", DType::UInt8),
        ("bool", DType::Bool),
    ];
    let name = match &tree.content {
        Content::Text(text) => text.strip_prefix("torch.").unwrap_or(text),
        _ => "",
    };
    let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    found.ok_or_else(|| {
        let message = say!("{kind} is no element type; write float32 or int64", kind = tree.kind());
        fault(tree.place, message)
    })
}

fn dims(spec: &mut Spec, tree: &Tree) -> Result<(), Error> {
    for (key, value) in
        mapping(tree, &say!("`dims` is a mapping, such as `{example}`", example = "{N: 32}"))?
    {
        match value.content {
            Content::Int(n) if (1..=DIM_MAX).contains(&n) => {
                spec.dims.insert(key.text.clone(), u64::try_from(n).unwrap_or(1));
            }
            _ => {
                let message = say!(
                    "the size of `{text}` is {kind}",
                    text = shortened(&key.text),
                    kind = value.kind()
                );
                return Err(fault(
                    value.place,
                    say!("{message}; write a whole number from 1", message),
                ));
            }
        }
    }
    Ok(())
}

/// A name of a layer, an input or a dimension.
fn checked_name(name: &str, place: Place) -> Result<(), Error> {
    const LONGEST: usize = 64;
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(is_word) {
        let wanted = say!("take letters, digits and `_`, at most {longest}", longest = LONGEST);
        return Err(fault(
            place,
            say!("`{name}` is no name: {wanted}", name = shortened(name), wanted),
        ));
    }
    Ok(())
}

fn layers(tree: &Tree) -> Result<Vec<Layer>, Error> {
    list(tree, &say!("layers are a list, each behind a `-`"))?.iter().map(layer).collect()
}

fn layer(tree: &Tree) -> Result<Layer, Error> {
    let entries = match &tree.content {
        Content::Text(name) => {
            let kind = known_layer(name, tree.place)?;
            let body = Body::Module(Module { kind, arguments: std::collections::BTreeMap::new() });
            return Ok(Layer { place: tree.place, ..Layer::new(body) });
        }
        Content::Map(entries) => entries,
        _ => {
            let message =
                say!("{kind} is no layer: write `relu` or `linear: 10`", kind = tree.kind());
            return Err(fault(tree.place, message));
        }
    };
    let structure = |name: &str| kinds::STRUCTURES.iter().any(|(known, _)| *known == name);
    let is_beside = |key: &Key| BESIDE.contains(&key.text.as_str());
    // A structure may have keys of its own that are names of layers too.
    let own = entries.iter().find(|(key, _)| structure(&key.text));
    let own = own.or_else(|| entries.iter().find(|(key, _)| !is_beside(key)));
    let Some((key, value)) = own else {
        return Err(fault(
            tree.place,
            say!("here is no layer, only its name; add one: `linear: 10`"),
        ));
    };
    let others: Vec<&(Key, Tree)> =
        entries.iter().filter(|(other, _)| other.text != key.text && !is_beside(other)).collect();
    let body = if structure(&key.text) {
        arrangement(key, value, &others)?
    } else {
        let kind = known_layer(&key.text, key.place)?;
        if let Some((other, _)) = others.first() {
            return Err(not_beside(kind, other));
        }
        Body::Module(Module { kind, arguments: arguments(kind, value)? })
    };
    let beside = |wanted: &str| -> Result<Option<String>, Error> {
        let Some((_, value)) = entries.iter().find(|(key, _)| key.text == wanted) else {
            return Ok(None);
        };
        let name = text(value).map_err(|message| fault(value.place, message))?;
        checked_name(&name, value.place)?;
        Ok(Some(name))
    };
    Ok(Layer { name: beside("name")?, from: beside("from")?, body, place: key.place })
}

/// Two layers in one mapping, or an argument that is not indented.
fn not_beside(kind: &'static LayerKind, other: &Key) -> Error {
    let name = shortened(&other.text);
    if let Ok(argument) = kind.argument(&other.text) {
        let (layer, argument) = (kind.name, argument.name);
        let message = say!(
            "`{name}` belongs into the layer: `{example}`",
            name,
            example = format!("{layer}: {{{argument}: …}}")
        );
        return fault(other.place, message);
    }
    let message = say!(
        "`{layer}` and `{name}` stand in one entry; begin each layer with a `-`, and next to a layer \
         write only `name` and `from`",
        layer = kind.name,
        name
    );
    fault(other.place, message)
}

fn known_layer(name: &str, place: Place) -> Result<&'static LayerKind, Error> {
    kinds::find(name).ok_or_else(|| fault(place, kinds::unknown_layer(name)))
}

fn arrangement(key: &Key, value: &Tree, others: &[&(Key, Tree)]) -> Result<Body, Error> {
    let find = |name: &str| others.iter().find(|(key, _)| key.text == name).map(|(_, tree)| tree);
    let allow = |names: &[&str]| {
        let unknown = others.iter().find(|(key, _)| !names.contains(&key.text.as_str()));
        let all: Vec<&str> = names.iter().chain(&BESIDE).copied().collect();
        unknown.map_or(Ok(()), |(other, _)| {
            Err(unknown_key(other, &Sentence::name(&format!("`{}`", key.text)), &all))
        })
    };
    let dim = |default: i64| match find("dim").map(|tree| (&tree.content, tree.place)) {
        None => Ok(default),
        Some((Content::Int(n), _)) if (-8..8).contains(n) => Ok(*n),
        Some((_, place)) => Err(fault(place, say!("`dim` is the number of a dimension"))),
    };
    Ok(match key.text.as_str() {
        "sequential" => {
            allow(&[])?;
            Body::Sequential(layers(value)?)
        }
        "repeat" => {
            allow(&["block"])?;
            let count = count(value).map_err(|message| fault(value.place, message))?.get();
            let block = find("block").ok_or_else(|| {
                fault(key.place, say!("`repeat` needs a `block`: the layers that repeat"))
            })?;
            Body::Repeat { count, block: layers(block)? }
        }
        "residual" => {
            allow(&["shortcut", "inplace"])?;
            let shortcut = find("shortcut").map(layers).transpose()?.unwrap_or_default();
            let inplace = find("inplace").map(|tree| flag(tree).map_err(|m| fault(tree.place, m)));
            let inplace = inplace.transpose()?.unwrap_or(false);
            Body::Residual { body: layers(value)?, shortcut, inplace }
        }
        "branch" => {
            allow(&["join", "dim"])?;
            let arms = list(value, &say!("`branch` is a list of lists of layers"))?;
            let arms = arms.iter().map(layers).collect::<Result<Vec<_>, _>>()?;
            let join = find("join").map_or(Ok(Join::Concat), join)?;
            Body::Branch { arms, join, dim: dim(1)? }
        }
        name => {
            allow(if name == "concat" { &["dim"] } else { &[] })?;
            let with = texts(value).map_err(|message| fault(value.place, message))?;
            let join = Join::ALL.into_iter().find(|join| join.name() == name);
            Body::Join { join: join.unwrap_or(Join::Concat), with, dim: dim(1)? }
        }
    })
}

fn join(tree: &Tree) -> Result<Join, Error> {
    let name = text(tree).unwrap_or_default();
    Join::ALL.into_iter().find(|join| join.name() == name).ok_or_else(|| {
        fault(tree.place, say!("{kind} is none of concat, add, mul", kind = tree.kind()))
    })
}

/// Arguments by name, or in the table's order; a single one needs no list.
fn arguments(
    kind: &'static LayerKind,
    tree: &Tree,
) -> Result<std::collections::BTreeMap<&'static str, Value>, Error> {
    let mut arguments = std::collections::BTreeMap::new();
    let mut given: Vec<(&'static kinds::Argument, &Tree)> = Vec::new();
    let takes_list = |argument: &kinds::Argument| matches!(argument.takes, Takes::Ints);
    match &tree.content {
        Content::Null => {}
        Content::Map(entries) => {
            for (key, value) in entries {
                let argument =
                    kind.argument(&key.text).map_err(|message| fault(key.place, message))?;
                if given.iter().any(|(known, _)| known.name == argument.name) {
                    let message = say!("`{name}` is given twice", name = argument.name);
                    return Err(fault(key.place, message));
                }
                given.push((argument, value));
            }
        }
        Content::List(items) if !kind.arguments.first().is_some_and(takes_list) => {
            if items.len() > kind.arguments.len() {
                let message = say!(
                    "`{name}` takes at most {most} arguments, and here are {given}",
                    name = kind.name,
                    most = kind.arguments.len(),
                    given = items.len()
                );
                return Err(fault(tree.place, message));
            }
            given.extend(kind.arguments.iter().zip(items));
        }
        _ => {
            let first = kind.arguments.first().ok_or_else(|| {
                fault(tree.place, say!("`{name}` takes no arguments", name = kind.name))
            })?;
            given.push((first, tree));
        }
    }
    for (argument, tree) in given {
        let at = |message: Sentence| {
            fault(tree.place, say!("{message}, not {kind}", message, kind = tree.kind()))
        };
        let value = value(tree).ok_or_else(|| {
            let message = say!(
                "`{name}` of `{layer}` is {kind}: {about}",
                name = argument.name,
                layer = kind.name,
                kind = tree.kind(),
                about = Sentence::of(argument.about)
            );
            fault(tree.place, message)
        })?;
        arguments.insert(argument.name, argument.accept(value).map_err(at)?);
    }
    Ok(arguments)
}

fn value(tree: &Tree) -> Option<Value> {
    Some(match &tree.content {
        Content::Int(n) => Value::Int(*n),
        Content::Number(x) => Value::Number(*x),
        Content::Flag(flag) => Value::Flag(*flag),
        Content::Text(text) => Value::Word(text.clone()),
        Content::List(items) => {
            let numbers = items.iter().map(|item| match item.content {
                Content::Int(n) => Some(n),
                _ => None,
            });
            Value::Ints(numbers.collect::<Option<Vec<_>>>()?)
        }
        Content::Null | Content::Map(_) => return None,
    })
}
