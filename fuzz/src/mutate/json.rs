//! Changes of values by their keys, for JSON.

use serde_json::{Map, Value, json};

use super::{Corpus, INPUT_MAX, bytes, text};
use crate::random::Random;

/// Changes values, keys and elements; once in twenty times, and where the input is no JSON, bytes.
pub fn mutate(corpus: &Corpus, input: &[u8], random: &mut Random) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice(input) else {
        return bytes::mutate(corpus, input, random);
    };
    if random.once_in(20) {
        return bytes::mutate(corpus, input, random);
    }
    let donor = if random.once_in(3) {
        serde_json::from_slice(corpus.donor(random)).unwrap_or_default()
    } else {
        Value::Null
    };
    for _ in 0..random.edits() {
        let at = random.below(count(&value));
        if let Some(place) = nth(&mut value, &mut { at }) {
            edit(place, &donor, corpus, random);
        }
    }
    let mut bytes = serde_json::to_vec(&value).unwrap_or_default();
    bytes.truncate(INPUT_MAX);
    bytes
}

/// COUNT: values in a value, itself among them.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The value at a position, outer ones first.
fn nth<'v>(value: &'v mut Value, at: &mut usize) -> Option<&'v mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|item| nth(item, at)),
        _ => None,
    }
}

fn edit(value: &mut Value, donor: &Value, corpus: &Corpus, random: &mut Random) {
    if random.once_in(8) {
        *value = any(corpus, random);
        return;
    }
    match value {
        Value::Null => *value = any(corpus, random),
        Value::Bool(flag) => *flag = !*flag,
        Value::Number(_) => *value = number(random),
        Value::String(string) if random.once_in(2) => {
            corpus.word(random).clone_into(string);
        }
        Value::String(string) => *string = text::changed(string, corpus, random),
        Value::Array(items) => edit_items(items, corpus, random),
        Value::Object(fields) => edit_fields(fields, donor, corpus, random),
    }
}

fn edit_items(items: &mut Vec<Value>, corpus: &Corpus, random: &mut Random) {
    let (at, other) = (random.below(items.len()), random.below(items.len()));
    match random.below(6) {
        _ if items.is_empty() => items.push(any(corpus, random)),
        0 => drop(items.remove(at)),
        1 => items.swap(at, other),
        2 => items.insert(at, any(corpus, random)),
        3 => items.truncate(at),
        _ => {
            let count = if random.once_in(30) { random.below(2000) } else { 1 };
            let item = items[at].clone();
            items.splice(other..other, std::iter::repeat_n(item, count));
        }
    }
}

fn edit_fields(
    fields: &mut Map<String, Value>,
    donor: &Value,
    corpus: &Corpus,
    random: &mut Random,
) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    let key = random.one_of(&keys).cloned().unwrap_or_default();
    match random.below(6) {
        0 => drop(fields.remove(&key)),
        1 => {
            let value = fields.remove(&key).unwrap_or_default();
            fields.insert(corpus.word(random).to_owned(), value);
        }
        2 => {
            let value = fields.get(&key).cloned().unwrap_or_default();
            let other = random.one_of(&keys).cloned().unwrap_or_default();
            fields.insert(other, value);
        }
        3 => {
            let value = any(corpus, random);
            fields.insert(corpus.word(random).to_owned(), value);
        }
        _ => {
            if let Some((key, value)) = field_of(donor, random) {
                fields.insert(key, value);
            }
        }
    }
}

/// A key and its value, from anywhere in a donor.
fn field_of(donor: &Value, random: &mut Random) -> Option<(String, Value)> {
    match donor {
        Value::Array(items) => field_of(random.one_of(items)?, random),
        Value::Object(fields) => {
            let (key, value) = fields.iter().nth(random.below(fields.len()))?;
            let inner = if random.once_in(2) { field_of(value, random) } else { None };
            Some(inner.unwrap_or_else(|| (key.clone(), value.clone())))
        }
        _ => None,
    }
}

fn number(random: &mut Random) -> Value {
    match random.below(10) {
        6.. => json!(random.below(12)),
        0 => json!([0.0, -1.0, 0.5, 1e300, 1e-300, 1.5][random.below(6)]),
        1 => json!(-(random.size() >> 1).cast_signed()),
        _ => json!(random.size()),
    }
}

fn any(corpus: &Corpus, random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Null,
        1 => json!(random.once_in(2)),
        2 | 3 => number(random),
        4 => json!(corpus.word(random)),
        5 => json!([number(random), number(random)]),
        6 => json!({ (corpus.word(random)): number(random) }),
        _ => {
            let depth = random.below(100);
            (0..depth).fold(json!([]), |inner, _| json!([inner]))
        }
    }
}
