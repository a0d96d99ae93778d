//! Cases of shape rules as lines of text.
//!
//! `Gather float32[2,3] int64[1]:0 axis=1`: operator, inputs (with elements after a colon, `-` for
//! one left out), attributes; `@9` sets the version of the operator set. The result is written the
//! same way, folded elements included.

use crate::graph::{Attribute, Elements, Literal, Node, ValueId};
use crate::ops::{Inference, Made, lookup};
use crate::tensor::{DType, TensorType};

/// Runs the rule of the operator in `call` and compares with `expected`: outputs, or part of the
/// error after `error: `.
#[track_caller]
pub(super) fn check(call: &str, expected: &str) {
    let n_outputs = expected.split_whitespace().count();
    let found = run(call, n_outputs);
    match (expected.strip_prefix("error: "), found) {
        (None, Ok(found)) => assert_eq!(found, expected, "{call}"),
        (Some(part), Err(error)) => assert!(error.contains(part), "{call}: {error}"),
        (_, found) => panic!("{call}: {found:?} where {expected} is expected"),
    }
}

fn run(call: &str, n_outputs: usize) -> Result<String, String> {
    let mut words = call.split_whitespace();
    let op = words.next().unwrap().to_owned();
    let mut node = Node { op, outputs: vec![Some(ValueId(99)); n_outputs], ..Node::default() };
    let (mut types, mut elements, mut opset) = (Vec::new(), Vec::new(), 20);
    for word in words {
        if let Some(version) = word.strip_prefix('@') {
            opset = version.parse().unwrap();
        } else if let Some((name, value)) = word.split_once('=') {
            node.attributes.insert(name.to_owned(), attribute(value));
        } else if word == "-" {
            node.inputs.push(None);
        } else {
            let (ty, folded) = tensor(word);
            node.inputs.push(Some(ValueId(types.len())));
            types.push(Some(ty));
            elements.push(folded);
        }
    }
    let row = lookup("", &node.op).expect("the operator has a row");
    let n = node.inputs.len();
    assert!(row.inputs.contains(&n), "{call}: {n} inputs");
    let mut inference = Inference::new(&node, opset, &types, &elements);
    (row.infer)(&mut inference).map_err(|error| error.to_string())?;
    let (made, _) = inference.finish();
    Ok(made.iter().map(show).collect::<Vec<_>>().join(" "))
}

fn show(made: &Made) -> String {
    let Some(ty) = &made.ty else { return "?".to_owned() };
    let elements = match &made.elements {
        None => String::new(),
        Some(Elements::Ints(list)) => format!(":{}", join(list)),
        Some(Elements::Floats(list)) => format!(":{}", join(list)),
    };
    format!("{}[{}]{elements}", ty.dtype, join(&ty.dims))
}

fn join<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok().expect("a number")).collect()
}

fn tensor(word: &str) -> (TensorType, Option<Elements>) {
    let (ty, elements) = match word.split_once(':') {
        Some((ty, elements)) => (ty, Some(elements)),
        None => (word, None),
    };
    let (name, dims) = ty.strip_suffix(']').and_then(|ty| ty.split_once('[')).expect("a type");
    let dtype: DType = serde_json::from_str(&format!("\"{name}\"")).expect("an element type");
    let elements = elements.map(|list| {
        if dtype.is_floating() {
            Elements::Floats(numbers(list))
        } else {
            Elements::Ints(numbers(list))
        }
    });
    (TensorType::new(dtype, numbers(dims)), elements)
}

/// `3`, `0.5`, `[1,2]`, `[0.5]`, a tensor as above, or a text.
fn attribute(value: &str) -> Attribute {
    if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        if list.contains('.') {
            return Attribute::Floats(numbers(list));
        }
        return Attribute::Ints(numbers(list));
    }
    if value.contains("]:") {
        let (ty, elements) = tensor(value);
        return Attribute::Tensor(Literal { dtype: ty.dtype, dims: ty.dims, elements });
    }
    let int = value.parse().map(Attribute::Int);
    int.or_else(|_| value.parse().map(Attribute::Float))
        .unwrap_or_else(|_| Attribute::String(value.to_owned()))
}
