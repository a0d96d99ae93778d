//! Where a node came from in PyTorch: the module's path, and the call behind it.
//!
//! - The dynamo exporter writes it down, as texts of Python lists in the node's metadata
//!   (`pkg.torch.onnx.name_scopes`, `class_hierarchy`, `fx_node`; older ones only `namespace`).
//! - The TorchScript exporter puts the scopes into the node's name. A container that is itself called repeats its
//!   name (`/layer1/layer1.0/conv1/Conv`), one that is only indexed does not (`/transformer/h.0/attn/Gemm`), and a
//!   module called again gets a number (`/relu_1/Relu`). Parameter names and earlier scopes distinguish these
//!   cases.
//! - The dynamo exporter also states the module's parameters and buffers, those included that
//!   folding removed (`graph_signature` of the exported program).
//! - In other files, the names of the parameters that a node reads show its module.

use crate::order::IntoOrdered as _;
use std::collections::BTreeSet;

use onnx_ir::{GraphProto, NodeProto};

use crate::graph::{Member, Origin};

/// COUNT: characters of a name in which scopes are looked for.
const NAME_MAX: usize = 2 << 10;
/// COUNT: scopes inside each other.
const SCOPES_MAX: usize = 64;
/// Stands where a node came from no module.
const NO_MODULE: &str = "_empty_nn_module_stack_from_metadata_hook";

/// What the dynamo exporter noted about the call behind a node.
pub(super) fn origin(node: &NodeProto) -> Option<Origin> {
    let note = |key: &str| {
        let entry = node.metadata_props.iter().find(|entry| entry.key == key);
        entry.map_or("", |entry| entry.value.as_str())
    };
    let mut classes = python_list(note("pkg.torch.onnx.class_hierarchy"));
    let mut scopes = python_list(note("pkg.torch.onnx.name_scopes"));
    if classes.is_empty() && scopes.is_empty() {
        for part in note("namespace").split('/') {
            if let Some((scope, class)) = part.split_once(": ") {
                scopes.push(scope.to_owned());
                classes.push(class.to_owned());
            }
        }
    }
    let call = note("pkg.torch.onnx.fx_node").to_owned();
    let aten = classes.pop().unwrap_or_default();
    let class = classes.pop().unwrap_or_default();
    let class = if class == NO_MODULE { String::new() } else { class };
    let origin = Origin { aten, class, scopes, call, ..Origin::default() };
    (origin != Origin::default()).then_some(origin)
}

/// Parameters and buffers of the exported module.
///
/// A line of the signature reads `p_fc_weight: PARAMETER target='fc.weight'`, or `BUFFER` likewise.
pub(super) fn members(graph: &GraphProto) -> Vec<(String, Member)> {
    const KEY: &str = "pkg.torch.export.ExportedProgram.graph_signature";
    let signature = graph.metadata_props.iter().find(|entry| entry.key == KEY);
    let lines = signature.into_iter().flat_map(|entry| entry.value.lines());
    let member = |line: &str| {
        let (_argument, statement) = line.split_once(": ")?;
        let (kind, target) = statement.split_once(" target='")?;
        let kind = match kind {
            "PARAMETER" => Member::Parameter,
            "BUFFER" => Member::Buffer,
            _ => return None,
        };
        Some((target.split_once('\'')?.0.to_owned(), kind))
    };
    lines.filter_map(member).collect()
}

/// Path of the module in which a call was made.
pub(super) fn module_of(origin: &Origin) -> String {
    let Some(scope) = origin.scopes.iter().rev().nth(1).filter(|&scope| scope != NO_MODULE) else {
        return String::new();
    };
    // A module called again is told apart by `@1`.
    let parts = scope.split('.').map(|part| part.split_once('@').map_or(part, |(name, _)| name));
    parts.collect::<Vec<_>>().join(".")
}

/// Texts of a Python list as `repr` writes it: `['', 'm', "m's"]`.
fn python_list(text: &str) -> Vec<String> {
    let mut list = Vec::new();
    let mut characters = text.trim().chars();
    while let Some(quote) = characters.find(|c| matches!(c, '\'' | '"')) {
        let mut item = String::new();
        while let Some(c) = characters.next() {
            match c {
                '\\' => item.extend(characters.next()),
                c if c == quote => break,
                c => item.push(c),
            }
        }
        list.push(item);
    }
    list
}

/// Module paths from names.
pub(super) struct Modules<'m> {
    /// Names of parameters and buffers, in order.
    parameters: BTreeSet<&'m str>,
    /// Paths of modules met so far.
    seen: BTreeSet<String>,
    /// The scopes asked for last and their path: nodes of a module stand together.
    last: (String, String),
}

impl<'m> Modules<'m> {
    pub(super) fn new(parameters: impl IntoIterator<Item = &'m str>) -> Self {
        Self {
            parameters: parameters.into_iter().into_set(),
            seen: BTreeSet::new(),
            last: Default::default(),
        }
    }

    /// The path that a node's name tells; `None` when it has no scopes.
    pub(super) fn of_node_name(&mut self, name: &str) -> Option<String> {
        let (scopes, _operator) = name.rsplit_once('/')?;
        let scopes = scopes.strip_prefix('/').unwrap_or(scopes);
        if name.len() > NAME_MAX || scopes.split('/').count() > SCOPES_MAX {
            return None;
        }
        if self.last.0 == scopes {
            return Some(self.last.1.clone());
        }
        let (mut path, mut outer) = (String::new(), "");
        for scope in scopes.split('/').filter(|scope| !scope.is_empty()) {
            (path, outer) = self.enter(&path, outer, scope);
            if !self.seen.contains(&path) {
                self.seen.insert(path.clone());
            }
        }
        self.last = (scopes.to_owned(), path.clone());
        Some(path)
    }

    /// Path and plain name of `scope` inside `path`, whose own plain name is `outer`.
    fn enter<'n>(&self, path: &str, outer: &str, scope: &'n str) -> (String, &'n str) {
        let whole = self.join(path, outer, scope);
        if self.has_parameters(&whole) {
            return (whole, scope);
        }
        if let Some((stem, number)) = scope.rsplit_once('_')
            && !stem.is_empty()
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            let again = self.join(path, outer, stem);
            if self.seen.contains(&again) || self.has_parameters(&again) {
                return (again, stem);
            }
        }
        (whole, scope)
    }

    /// `scope` below `path`, where a container may have repeated its name.
    fn join(&self, path: &str, outer: &str, scope: &str) -> String {
        if path.is_empty() {
            return scope.to_owned();
        }
        let below = format!("{path}.{scope}");
        let index = scope.strip_prefix(outer).and_then(|rest| rest.strip_prefix('.'));
        match index {
            Some(index) => {
                let inside = format!("{path}.{index}");
                let is_below = self.has_parameters(&below) && !self.has_parameters(&inside);
                if is_below { below } else { inside }
            }
            None => below,
        }
    }

    fn has_parameters(&self, path: &str) -> bool {
        let start = format!("{path}.");
        self.parameters.range(start.as_str()..).next().is_some_and(|name| name.starts_with(&start))
    }
}

/// The module that owns a parameter: `layer1.0.conv1` of `layer1.0.conv1.weight`.
pub(super) fn module_of_parameter(name: &str) -> Option<&str> {
    if name.len() > NAME_MAX || name.contains("::") || name.contains('/') {
        return None;
    }
    name.rsplit_once('.').map(|(module, _)| module).filter(|module| !module.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Modules, module_of_parameter, python_list};

    /// One tool for all cases: names in file order, and the paths they tell.
    #[track_caller]
    fn check(parameters: &[&str], names: &[(&str, Option<&str>)]) {
        let mut modules = Modules::new(parameters.iter().copied());
        for (name, expected) in names {
            assert_eq!(modules.of_node_name(name).as_deref(), *expected, "{name}");
        }
    }

    #[test]
    fn containers_that_are_called_repeat_their_name() {
        check(
            &["layer1.0.conv1.weight"],
            &[
                ("/conv1/Conv", Some("conv1")),
                ("/layer1/layer1.0/conv1/Conv", Some("layer1.0.conv1")),
                ("/features/features.1/features.1.0/attn/MatMul_3", Some("features.1.0.attn")),
                ("/transformer/h.0/attn/c_attn/Gemm", Some("transformer.h.0.attn.c_attn")),
                (
                    "/blocks.0/layers.0/layers/mbconv/layers/conv_a/conv_a.0/Conv",
                    Some("blocks.0.layers.0.layers.mbconv.layers.conv_a.0"),
                ),
                ("/Flatten", Some("")),
                ("Constant_568", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn parameters_tell_a_list_inside_a_module_of_its_name() {
        check(
            &["conv.conv.0.weight"],
            &[("/conv/conv.0/Conv", Some("conv.conv.0")), ("/pool/pool.0/MaxPool", Some("pool.0"))],
        );
    }

    #[test]
    fn numbers_of_repeated_calls_are_dropped_and_names_kept() {
        check(
            &["ln_1.weight", "ln.weight", "head.fc.weight"],
            &[
                ("/relu/Relu", Some("relu")),
                ("/relu_1/Relu", Some("relu")),
                ("/ln/LayerNormalization", Some("ln")),
                ("/ln_1/LayerNormalization", Some("ln_1")),
                ("/dropout_2/Dropout", Some("dropout_2")),
                ("/head_1/fc/Gemm", Some("head.fc")),
                ("/head_1/head.0/Gemm", Some("head.0")),
            ],
        );
    }

    #[test]
    fn python_lists_are_read_with_both_quotes() {
        assert_eq!(python_list("['', 'm', \"it's\", 'a\\'b']"), ["", "m", "it's", "a'b"]);
        assert_eq!(python_list("['cut off"), ["cut off"]);
        assert!(python_list("[]").is_empty());
    }

    #[test]
    fn parameters_name_their_module() {
        assert_eq!(module_of_parameter("layer1.0.conv1.weight"), Some("layer1.0.conv1"));
        assert_eq!(module_of_parameter("onnx::MatMul_12"), None);
        assert_eq!(module_of_parameter("weight"), None);
    }
}
