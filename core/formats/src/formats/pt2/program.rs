//! The part of the schema that is read (`torch/_export/serde/schema.py`).
//!
//! Unions are objects of one key, `{"as_tensor": {"name": "x"}}`. Between versions keys are added and seldom
//! removed, so the JSON is looked up by key and not deserialised into fixed types.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use serde_json::Value;

use super::archive::Archive;
use crate::error::{Error, ErrorKind};
use crate::graph::{DeclaredType, Dim};
use crate::sentence::Sentence;
use crate::tensor::DType;

/// An exported program.
#[derive(Debug)]
pub(super) struct ExportedProgram<'j> {
    /// Nodes, inputs, outputs and types.
    pub(super) graph: &'j Value,
    /// What the inputs and outputs are to the module.
    pub(super) signature: &'j Value,
    /// `2.15.0`; may be empty.
    pub(super) torch: &'j str,
    /// `8.20`, for messages.
    pub(super) schema: String,
    /// By name of a parameter or a buffer, the file that holds it: shared where it is tied.
    pub(super) files: BTreeMap<&'j str, &'j str>,
}

impl<'j> ExportedProgram<'j> {
    /// Finds the parts.
    ///
    /// # Errors
    /// When one is missing.
    pub(super) fn new(archive: &'j Archive) -> Result<Self, Error> {
        let program = &archive.program;
        let version = |key| program.pointer(&format!("/schema_version/{key}"));
        let version = |key| version(key).and_then(Value::as_u64);
        let schema = match (version("major"), version("minor")) {
            (Some(major), Some(minor)) => format!("{major}.{minor}"),
            (Some(major), None) => major.to_string(),
            _ => "of no version".to_owned(),
        };
        let part = |path: &str| {
            program.pointer(path).ok_or_else(|| {
                let key = path.trim_start_matches('/').replace('/', ".");
                refusal(&schema, &say!("`{key}` is missing", key))
            })
        };
        let graph = part("/graph_module/graph")?;
        let signature = part("/graph_module/signature")?;
        let config = archive.weights.as_ref().and_then(|weights| weights.get("config"));
        let files = config.and_then(Value::as_object).into_iter().flatten();
        // Tensors of the meta device lie nowhere: PyTorch writes one file for all of them, and they are not tied by it.
        let is_stored = |entry: &&Value| {
            entry.pointer("/tensor_meta/device/type").and_then(Value::as_str) != Some("meta")
        };
        let files = files.filter_map(|(name, entry)| {
            let file = Some(entry).filter(is_stored)?.get("path_name").and_then(Value::as_str)?;
            Some((name.as_str(), file))
        });
        Ok(Self {
            graph,
            signature,
            torch: program.get("torch_version").and_then(Value::as_str).unwrap_or(""),
            files: files.into_map(),
            schema: schema.clone(),
        })
    }

    /// An error about the program.
    pub(super) fn refuse(&self, what: &Sentence) -> Error {
        refusal(&self.schema, what)
    }
}

fn refusal(schema: &str, what: &Sentence) -> Error {
    let message = say!(
        "the exported program (schema {schema}) cannot be read: {what}; save it again with a current \
         PyTorch, `torch.export.save(torch.export.export(model.train(), args), \"model.pt2\")`",
        schema,
        what
    );
    Error::new(ErrorKind::InvalidGraph, message)
}

/// Elements of a list; none where there is no list.
pub(super) fn list<'j>(value: &'j Value, key: &str) -> &'j [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A text; empty where there is none.
pub(super) fn text<'j>(value: &'j Value, key: &str) -> &'j str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

/// The names of tensors that an argument is, in order; `None` for one left out of a list.
pub(super) fn tensors(argument: &Value) -> Vec<Option<&str>> {
    let Some((kind, value)) = single(argument) else { return Vec::new() };
    match kind {
        "as_tensor" => vec![value.get("name").and_then(Value::as_str)],
        "as_tensors" => {
            let all = value.as_array().map_or(&[][..], Vec::as_slice);
            all.iter().map(|value| value.get("name").and_then(Value::as_str)).collect()
        }
        "as_optional_tensors" => {
            let all = value.as_array().map_or(&[][..], Vec::as_slice);
            all.iter().map(|value| value.pointer("/as_tensor/name")?.as_str()).collect()
        }
        "as_optional_tensor" => vec![value.pointer("/as_tensor/name").and_then(Value::as_str)],
        _ => Vec::new(),
    }
}

/// Key and value of a union.
pub(super) fn single(union: &Value) -> Option<(&str, &Value)> {
    let mut entries = union.as_object()?.iter();
    entries.next().map(|(key, value)| (key.as_str(), value))
}

/// `ScalarType` of the schema, which counts from an unknown type at 0.
pub(super) fn dtype(code: i64) -> Option<DType> {
    Some(match code {
        1 => DType::UInt8,
        2 => DType::Int8,
        3 => DType::Int16,
        4 => DType::Int32,
        5 => DType::Int64,
        6 => DType::Float16,
        7 => DType::Float32,
        8 => DType::Float64,
        10 => DType::Complex64,
        11 => DType::Complex128,
        12 => DType::Bool,
        13 => DType::BFloat16,
        28 => DType::UInt16,
        29..=32 => DType::Float8,
        _ => return None,
    })
}

/// The type of a tensor, its open dimensions under the names of their symbols.
pub(super) fn declared(meta: &Value, names: &BTreeMap<String, String>) -> DeclaredType {
    let dims = meta.get("sizes").and_then(Value::as_array).map(|sizes| {
        let dim = |size: &Value| match size.get("as_int").and_then(Value::as_u64) {
            Some(n) => Dim::Known(n),
            None => symbol(size).map_or(Dim::Unknown, |symbol| {
                Dim::Named(names.get(symbol).map_or(symbol, String::as_str).to_owned())
            }),
        };
        sizes.iter().map(dim).collect()
    });
    DeclaredType { dtype: meta.get("dtype").and_then(Value::as_i64).and_then(dtype), dims }
}

/// The symbol that a size is: `Symbol('s77', positive=True, integer=True)`, earlier `s77`.
pub(super) fn symbol(size: &Value) -> Option<&str> {
    let text = size.pointer("/as_expr/expr_str").and_then(Value::as_str)?;
    let name = match text.strip_prefix("Symbol('") {
        Some(rest) => {
            let (name, rest) = rest.split_once('\'')?;
            let ends = rest.find(')').is_some_and(|at| at.saturating_add(1) == rest.len());
            ends.then_some(name)?
        }
        None => text,
    };
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && name.parse::<u64>().is_err()).then_some(name)
}

/// Path and class of the innermost module, and all paths from the outermost, from
/// `L__self__,,Net;L__self__conv1,conv1,torch.nn.modules.conv.Conv2d`.
pub(super) fn modules(stack: &str) -> (String, String, Vec<String>) {
    let mut scopes = Vec::new();
    let mut class = "";
    for entry in stack.split(';').filter(|entry| !entry.is_empty()) {
        let mut parts = entry.splitn(3, ',');
        let (_key, path) = (parts.next(), parts.next().unwrap_or(""));
        class = parts.next().unwrap_or("");
        scopes.push(plain(path));
    }
    (scopes.last().cloned().unwrap_or_default(), class.to_owned(), scopes)
}

/// `layer1.0` for `layer1.0`, for `L['self'].layer1['0']`, and for `layer1.0@1`, a second call.
fn plain(path: &str) -> String {
    let path = path.strip_prefix("L['self']").unwrap_or(path);
    let path = path.replace("['", ".").replace("']", "").replace('[', ".").replace(']', "");
    let parts = path.split('.').filter(|part| !part.is_empty());
    let parts = parts.map(|part| part.split_once('@').map_or(part, |(name, _)| name));
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::{modules, plain, symbol};
    use serde_json::json;

    #[test]
    fn paths_of_all_versions_are_the_modules() {
        for (path, expected) in [
            ("", ""),
            ("layer1.0.conv1", "layer1.0.conv1"),
            ("L['self'].layer1['0'].conv1", "layer1.0.conv1"),
            ("relu@1", "relu"),
            ("h.0.act@2", "h.0.act"),
        ] {
            assert_eq!(plain(path), expected);
        }
        let (path, class, scopes) = modules("L__self__,,Net;L__self__a_b,a.b,nn.Linear");
        assert_eq!((path.as_str(), class.as_str(), scopes.len()), ("a.b", "nn.Linear", 2));
    }

    #[test]
    fn symbols_are_told_from_expressions() {
        for (text, expected) in [
            ("Symbol('s77', positive=True, integer=True)", Some("s77")),
            ("s0", Some("s0")),
            ("batch", Some("batch")),
            ("Mul(Integer(12), Symbol('s77', positive=True, integer=True))", None),
            ("2*s0", None),
            ("12", None),
        ] {
            assert_eq!(symbol(&json!({"as_expr": {"expr_str": text}})), expected, "{text}");
        }
    }
}
