//! [`Printed`] → parameters by name, as modules register them.

use super::text::Printed;
use super::translate::{kind_of, width_in};
use crate::formats::hf_config::named::Clues;
use crate::formats::spec::Value;

/// COUNT: parameters that are listed at most; no model of a known family has more.
const PARAMETERS_MAX: usize = 100_000;

/// Parameters, dropouts and activations of a printed model.
pub(in crate::formats) fn named(root: &Printed) -> Clues {
    let mut named = Clues { class: Some(root.class.clone()), ..Clues::default() };
    for child in &root.children {
        visit(child, "", &mut named);
    }
    named
}

fn visit(module: &Printed, around: &str, named: &mut Clues) {
    // `(0-11): 12 x Layer(`.
    let range = module.name.split_once('-').filter(|_| module.count > 1);
    let first = range.and_then(|(first, _)| first.parse::<u64>().ok());
    for index in 0..module.count {
        if named.parameters.len() > PARAMETERS_MAX {
            return;
        }
        let name = first
            .map_or_else(|| module.name.clone(), |first| first.saturating_add(index).to_string());
        let path = if around.is_empty() { name } else { format!("{around}.{name}") };
        if module.children.is_empty() {
            leaf(module, path, named);
        } else {
            for child in &module.children {
                visit(child, &path, named);
            }
        }
    }
}

fn leaf(module: &Printed, path: String, named: &mut Clues) {
    let number = |name: &str, position| match module.argument(name, Some(position)) {
        Some(Value::Int(n)) => u64::try_from(*n).ok(),
        _ => None,
    };
    let flag = |name| module.argument(name, None) != Some(&Value::Flag(false));
    let kind = kind_of(module);
    let width = kind.and_then(|kind| width_in(module, kind));
    let weight = match (kind.map_or("", |kind| kind.name), width) {
        ("linear", Some(takes)) if module.class == "Conv1D" => {
            number("nf", 0).map(|makes| vec![takes, makes])
        }
        ("linear", Some(takes)) => number("out_features", 1).map(|makes| vec![makes, takes]),
        ("embedding", _) => number("num_embeddings", 0)
            .zip(number("embedding_dim", 1))
            .map(|(rows, width)| vec![rows, width]),
        ("layernorm" | "rmsnorm", Some(width)) => Some(vec![width]),
        ("conv2d", Some(takes)) => {
            number("out_channels", 1).zip(window(module)).map(|(makes, [height, width])| {
                let groups = number("groups", usize::MAX).unwrap_or(1).max(1);
                vec![makes, takes.div_euclid(groups), height, width]
            })
        }
        ("dropout", _) => {
            let share = match module.argument("p", Some(0)) {
                Some(Value::Number(share)) => *share,
                Some(Value::Int(1)) => 1.0,
                _ => 0.0,
            };
            named.dropouts.insert(path, share);
            return;
        }
        ("batchnorm2d", _) => None,
        (kind, _) => {
            if let Some(word) = activation(&module.class, kind) {
                named.activations.insert(path.clone(), word);
            }
            None
        }
    };
    let Some(weight) = weight else {
        named.opaque.insert(path);
        return;
    };
    let has_bias = match kind.map_or("", |kind| kind.name) {
        "embedding" | "rmsnorm" => false,
        _ => flag("bias"),
    };
    if has_bias && let Some(&first) = weight.first() {
        let makes = if module.class == "Conv1D" { weight.last().copied() } else { Some(first) };
        named.parameters.insert(format!("{path}.bias"), makes.into_iter().collect());
    }
    named.parameters.insert(format!("{path}.weight"), weight);
}

fn window(module: &Printed) -> Option<[u64; 2]> {
    let size = |n: &i64| u64::try_from(*n).ok();
    match module.argument("kernel_size", Some(2))? {
        Value::Int(n) => Some([size(n)?; 2]),
        Value::Ints(list) => match list.as_slice() {
            [height, width] => Some([size(height)?, size(width)?]),
            _ => None,
        },
        _ => None,
    }
}

/// The word by which configurations call an activation; a class that none has stays what it is.
fn activation(class: &str, kind: &str) -> Option<String> {
    let known = ["gelu", "gelu_new", "silu", "relu", "tanh"].contains(&kind);
    let is_fast = class == "FastGELUActivation";
    match class {
        "QuickGELUActivation" => Some("quick_gelu".to_owned()),
        "ReLUSquaredActivation" => Some("relu2".to_owned()),
        _ if known && !is_fast => Some(kind.to_owned()),
        _ if class.contains("LU") => Some(class.to_owned()),
        _ => None,
    }
}
