//! Where a node came from in PyTorch: the module's path, and the call behind it.
//!
//! - The dynamo exporter writes it down, as texts of Python lists in the node's metadata
//!   (`pkg.torch.onnx.name_scopes`, `class_hierarchy`, `fx_node`; older ones only `namespace`).
//! - The TorchScript exporter puts the scopes into the node's name. A container that is itself
//!   called repeats its name (`/layer1/layer1.0/conv1/Conv`), one that is only indexed does not
//!   (`/transformer/h.0/attn/Gemm`), and a module called again gets a number (`/relu_1/Relu`).
//!   Parameter names and the scopes met before tell the cases apart.
//! - Other files tell by the names of the parameters that a node reads.

use std::collections::BTreeSet;

use onnx_ir::NodeProto;

use crate::graph::Origin;

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
    let origin = Origin { aten, class, scopes, call };
    (origin != Origin::default()).then_some(origin)
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
}

impl<'m> Modules<'m> {
    pub(super) fn new(parameters: impl IntoIterator<Item = &'m str>) -> Self {
        Self { parameters: parameters.into_iter().collect(), seen: BTreeSet::new() }
    }

    /// The path that a node's name tells; `None` when it has no scopes.
    pub(super) fn from_node_name(&mut self, name: &str) -> Option<String> {
        let (scopes, _operator) = name.rsplit_once('/')?;
        let scopes = scopes.strip_prefix('/').unwrap_or(scopes);
        if name.len() > NAME_MAX || scopes.split('/').count() > SCOPES_MAX {
            return None;
        }
        let (mut path, mut outer) = (String::new(), "");
        for scope in scopes.split('/').filter(|scope| !scope.is_empty()) {
            (path, outer) = self.enter(&path, outer, scope);
            if !self.seen.contains(&path) {
                self.seen.insert(path.clone());
            }
        }
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
