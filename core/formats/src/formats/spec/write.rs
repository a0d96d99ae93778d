//! [`Spec`] → YAML: writes an opened model as a spec that can be read again.

use std::fmt;

use super::kinds::Value;
use super::parse::settings;
use super::{Body, Join, Layer, Spec};
use crate::config::{self, Config};
use crate::graph::Dim;
use crate::tensor::DType;

impl fmt::Display for Spec {
    /// As YAML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            writeln!(f, "name: {}", text(&self.name))?;
        }
        f.write_str("input:\n")?;
        for input in &self.inputs {
            let dims: Vec<String> = input
                .dims
                .iter()
                .enumerate()
                .map(|(axis, dim)| match dim {
                    Dim::Known(n) => n.to_string(),
                    Dim::Named(name) => text(name),
                    Dim::Unknown => format!("dim{axis}"),
                })
                .collect();
            let (name, dims) = (text(&input.name), dims.join(", "));
            match input.dtype {
                None => writeln!(f, "  {name}: [{dims}]")?,
                Some(dtype) => {
                    writeln!(f, "  {name}: {{shape: [{dims}], dtype: {}}}", dtype_name(dtype))?;
                }
            }
        }
        if !self.dims.is_empty() {
            let dims = self.dims.iter().map(|(name, size)| format!("{}: {size}", text(name)));
            writeln!(f, "dims: {{{}}}", dims.collect::<Vec<_>>().join(", "))?;
        }
        f.write_str(if self.layers.is_empty() { "layers: []\n" } else { "layers:\n" })?;
        layers(f, &self.layers, 1)?;
        if !self.outputs.is_empty() {
            writeln!(f, "outputs: {}", names(&self.outputs))?;
        }
        train(f, &self.train)
    }
}

fn layers(f: &mut fmt::Formatter<'_>, list: &[Layer], depth: usize) -> fmt::Result {
    list.iter().try_for_each(|it| layer(f, it, depth))
}

fn layer(f: &mut fmt::Formatter<'_>, layer: &Layer, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let list = |f: &mut fmt::Formatter<'_>, key: &str, list: &[Layer]| {
        if list.is_empty() {
            return writeln!(f, "{key}: []");
        }
        writeln!(f, "{key}:")?;
        layers(f, list, depth.saturating_add(2))
    };
    write!(f, "{indent}- ")?;
    match &layer.body {
        Body::Module(module) => {
            let name = module.kind().name;
            let arguments: Vec<String> = module
                .arguments
                .iter()
                .map(|(name, value)| format!("{name}: {}", value_text(value)))
                .collect();
            let bare = layer.name.is_none() && layer.from.is_none();
            match (arguments.as_slice(), bare) {
                ([], true) => writeln!(f, "{name}")?,
                ([], false) => writeln!(f, "{name}:")?,
                (arguments, _) => writeln!(f, "{name}: {{{}}}", arguments.join(", "))?,
            }
        }
        Body::Sequential(body) => list(f, "sequential", body)?,
        Body::Repeat { count, block } => {
            writeln!(f, "repeat: {count}")?;
            write!(f, "{indent}  ")?;
            list(f, "block", block)?;
        }
        Body::Residual { body, shortcut, inplace } => {
            list(f, "residual", body)?;
            if !shortcut.is_empty() {
                write!(f, "{indent}  ")?;
                list(f, "shortcut", shortcut)?;
            }
            if *inplace {
                writeln!(f, "{indent}  inplace: true")?;
            }
        }
        Body::Branch { arms, join, dim } => {
            writeln!(f, "branch:{}", if arms.is_empty() { " []" } else { "" })?;
            for arm in arms {
                if arm.is_empty() {
                    writeln!(f, "{indent}    - []")?;
                } else {
                    writeln!(f, "{indent}    -")?;
                    layers(f, arm, depth.saturating_add(3))?;
                }
            }
            writeln!(f, "{indent}  join: {}", join.name())?;
            if *join == Join::Concat {
                writeln!(f, "{indent}  dim: {dim}")?;
            }
        }
        Body::Join { join, with, dim } => {
            writeln!(f, "{}: {}", join.name(), names(with))?;
            if *join == Join::Concat && *dim != 1 {
                writeln!(f, "{indent}  dim: {dim}")?;
            }
        }
    }
    for (key, value) in [("name", &layer.name), ("from", &layer.from)] {
        if let Some(value) = value {
            writeln!(f, "{indent}  {key}: {}", text(value))?;
        }
    }
    Ok(())
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Int(n) => n.to_string(),
        Value::Ints(list) => {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            format!("[{}]", list.join(", "))
        }
        Value::Number(x) => x.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Word(word) => text(word),
    }
}

fn names(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|name| text(name)).collect::<Vec<_>>().join(", "))
}

/// A text, in quotes where YAML would read it as something else.
fn text(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let is_other = ["true", "false", "null"].contains(&text.to_ascii_lowercase().as_str());
    if is_word && !is_other {
        return text.to_owned();
    }
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c.is_control() => " ".to_owned(),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

fn dtype_name(dtype: DType) -> String {
    dtype.to_string()
}

/// What is not the default.
fn train(f: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    let changed: Vec<_> = settings().filter(|setting| setting.is_changed(config)).collect();
    if !changed.is_empty() {
        f.write_str("train:\n")?;
    }
    changed.into_iter().try_for_each(|setting| {
        let value = match setting.value(config) {
            config::Value::Names(list) => names(&list),
            config::Value::Text(value) => text(&value),
            value => value.text(),
        };
        writeln!(f, "  {}: {value}", setting.key())
    })
}
