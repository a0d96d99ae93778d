//! Local functions put in place of their calls
//! (<https://onnx.ai/onnx/repo-docs/IR.html>, "Functions").
//!
//! - A formal input or output becomes what the call gives; a name inside the body is prefixed with
//!   the call's, so that each call has its own values.
//! - An attribute of the body that refers to one of the function's takes the call's, else the
//!   function's default, else is left out.
//! - A function that calls itself is refused; so is a model that unfolds beyond a limit.
//!
//! Bodies of control flow are unfolded in the same way. A value of a body has a unique name in the whole model:
//! the name in the file, or, if another body has it already, that name with a number.

use crate::order::IntoOrdered as _;
use std::borrow::Cow;
use std::collections::BTreeMap;

use onnx_ir::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};

use crate::error::{Error, ErrorKind};

/// COUNT: nodes after inlining.
const NODES_MAX: usize = 250_000;
/// SIZE: bytes of all names after inlining.
const TEXT_MAX: usize = 256 << 20;
/// COUNT: calls and bodies inside each other.
const DEPTH_MAX: usize = 64;

/// A name as it stands in the file, or with the prefix of a call.
pub(super) type Name<'m> = Cow<'m, str>;

/// A node of the model with all functions inlined.
pub(super) struct FlatNode<'m> {
    /// The node in the file.
    pub(super) proto: &'m NodeProto,
    /// The innermost call around it that tells its module.
    pub(super) caller: Option<&'m NodeProto>,
    pub(super) name: Name<'m>,
    /// Names of values; empty where an optional one is left out.
    pub(super) inputs: Vec<Name<'m>>,
    pub(super) outputs: Vec<Name<'m>>,
    /// Attributes under the names of this node.
    pub(super) attributes: Vec<(&'m str, &'m AttributeProto)>,
    /// Its bodies of control flow, under the names of their attributes.
    pub(super) bodies: Vec<(&'m str, FlatBody<'m>)>,
}

impl FlatNode<'_> {
    /// Whether it holds a number instead of running.
    pub(super) fn is_constant(&self) -> bool {
        self.proto.op_type == "Constant" && domain(&self.proto.domain).is_empty()
    }
}

/// A body of control flow, all functions inlined.
pub(super) struct FlatBody<'m> {
    /// The body in the file.
    pub(super) proto: &'m GraphProto,
    pub(super) initializers: Vec<(Name<'m>, &'m TensorProto)>,
    pub(super) inputs: Vec<Name<'m>>,
    pub(super) outputs: Vec<Name<'m>>,
    pub(super) nodes: Vec<FlatNode<'m>>,
}

/// Nodes of a model, and the types that function bodies declare under their inlined names.
pub(super) struct FlatModel<'m> {
    pub(super) nodes: Vec<FlatNode<'m>>,
    pub(super) declared: Vec<(Name<'m>, &'m ValueInfoProto)>,
}

/// Inlines all calls of the model's main graph.
///
/// # Errors
/// When functions call each other in a circle, or the result is too large.
pub(super) fn inline<'m>(
    model: &'m ModelProto,
    main: &'m GraphProto,
) -> Result<FlatModel<'m>, Error> {
    let mut functions = BTreeMap::new();
    for function in &model.functions {
        let key = (domain(&function.domain), function.name.as_str(), function.overload.as_str());
        let body = Function {
            inputs: &function.input,
            outputs: &function.output,
            defaults: &function.attribute_proto,
            nodes: &function.node,
            declared: &function.value_info,
        };
        functions.insert(key, body);
    }
    let flat = FlatModel { nodes: Vec::new(), declared: Vec::new() };
    let mut inliner = Inliner {
        main,
        functions,
        flat,
        active: Vec::new(),
        depth: 0,
        prefixes: BTreeMap::new(),
        taken: BTreeMap::new(),
        n_nodes: 0,
        text: 0,
    };
    let outermost = Scope::default();
    for node in &main.node {
        inliner.expand(node, &outermost)?;
    }
    Ok(inliner.flat)
}

/// A domain under its short name.
pub(super) fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Domain, name and overload.
type Key<'m> = (&'m str, &'m str, &'m str);

#[derive(Clone, Copy)]
struct Function<'m> {
    inputs: &'m [String],
    outputs: &'m [String],
    defaults: &'m [AttributeProto],
    nodes: &'m [NodeProto],
    declared: &'m [ValueInfoProto],
}

/// What names mean inside one call; outside all calls they mean themselves.
#[derive(Default)]
struct Scope<'m> {
    /// What names begin with that mean nothing else.
    prefix: String,
    /// See [`FlatNode::caller`].
    caller: Option<&'m NodeProto>,
    values: BTreeMap<&'m str, Name<'m>>,
    attributes: BTreeMap<&'m str, &'m AttributeProto>,
}

impl<'m> Scope<'m> {
    fn value(&self, name: &'m str) -> Name<'m> {
        self.values.get(name).cloned().unwrap_or_else(|| self.prefixed(name))
    }

    fn prefixed(&self, name: &'m str) -> Name<'m> {
        if name.is_empty() || self.prefix.is_empty() {
            return Cow::Borrowed(name);
        }
        Cow::Owned(format!("{}{name}", self.prefix))
    }

    /// The node's attributes, with references resolved.
    fn attributes(&self, node: &'m NodeProto) -> Vec<(&'m str, &'m AttributeProto)> {
        let resolve = |attribute: &'m AttributeProto| {
            let given = match attribute.ref_attr_name.as_str() {
                "" => Some(attribute),
                reference => self.attributes.get(reference).copied(),
            };
            given.map(|given| (attribute.name.as_str(), given))
        };
        node.attribute.iter().filter_map(resolve).collect()
    }
}

struct Inliner<'m> {
    main: &'m GraphProto,
    functions: BTreeMap<Key<'m>, Function<'m>>,
    flat: FlatModel<'m>,
    /// Calls that are being unfolded, outermost first.
    active: Vec<Key<'m>>,
    /// COUNT: calls and bodies that are being unfolded.
    depth: usize,
    /// COUNT: calls by prefix, to keep those apart that have the same name.
    prefixes: BTreeMap<String, usize>,
    /// COUNT: names of the main graph and of what bodies make, to keep them apart likewise; empty
    /// before the first body.
    taken: BTreeMap<String, usize>,
    /// COUNT: nodes so far, in bodies too.
    n_nodes: usize,
    /// SIZE: bytes of names made so far.
    text: usize,
}

impl<'m> Inliner<'m> {
    fn expand(&mut self, node: &'m NodeProto, scope: &Scope<'m>) -> Result<(), Error> {
        let key = (domain(&node.domain), node.op_type.as_str(), node.overload.as_str());
        match self.functions.get(&key).copied() {
            Some(function) => self.call(node, scope, key, function),
            None => self.keep(node, scope),
        }
    }

    /// A node that stays one.
    fn keep(&mut self, node: &'m NodeProto, scope: &Scope<'m>) -> Result<(), Error> {
        let attributes = scope.attributes(node);
        let mut bodies = Vec::new();
        for (name, attribute) in &attributes {
            if let Some(body) = attribute.g.as_ref() {
                bodies.push((*name, self.body(body, scope)?));
            }
        }
        let flat = FlatNode {
            proto: node,
            caller: scope.caller,
            name: scope.prefixed(&node.name),
            inputs: node.input.iter().map(|name| scope.value(name)).collect(),
            outputs: node.output.iter().map(|name| scope.value(name)).collect(),
            attributes,
            bodies,
        };
        let names = [&flat.inputs, &flat.outputs];
        self.text +=
            flat.name.len() + names.into_iter().flatten().map(|name| name.len()).sum::<usize>();
        self.flat.nodes.push(flat);
        self.n_nodes += 1;
        if self.n_nodes > NODES_MAX || self.text > TEXT_MAX {
            return Err(unfolds());
        }
        Ok(())
    }

    /// A body of control flow: it reads what is around it, and names of its own.
    fn body(&mut self, body: &'m GraphProto, around: &Scope<'m>) -> Result<FlatBody<'m>, Error> {
        let made = (body.node.iter()).flat_map(|node| node.output.iter().map(String::as_str));
        let made = made.chain(body.input.iter().map(|input| input.name.as_str()));
        let made = made.chain(body.initializer.iter().map(|tensor| tensor.name.as_str()));
        let own = made.filter(|name| !name.is_empty()).into_set();
        if self.taken.is_empty() {
            self.taken = names(self.main);
        }
        let mut values = around.values.clone();
        for name in own {
            let inner = self.name_of_its_own(around.prefixed(name));
            self.text += inner.len();
            values.insert(name, inner);
        }
        let inner = Scope {
            prefix: around.prefix.clone(),
            caller: around.caller,
            values,
            attributes: around.attributes.clone(),
        };
        self.text += inner.values.len();
        self.n_nodes += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX || self.text > TEXT_MAX {
            return Err(unfolds());
        }
        for declared in body.value_info.iter().chain(&body.output).chain(&body.input) {
            self.flat.declared.push((inner.value(&declared.name), declared));
        }
        let outer = std::mem::take(&mut self.flat.nodes);
        body.node.iter().try_for_each(|node| self.expand(node, &inner))?;
        let nodes = std::mem::replace(&mut self.flat.nodes, outer);
        self.depth -= 1;
        let initializers = body.initializer.iter();
        Ok(FlatBody {
            proto: body,
            initializers: initializers.map(|tensor| (inner.value(&tensor.name), tensor)).collect(),
            inputs: body.input.iter().map(|input| inner.value(&input.name)).collect(),
            outputs: body.output.iter().map(|output| inner.value(&output.name)).collect(),
            nodes,
        })
    }

    /// The name, or the name with a number that nothing has.
    fn name_of_its_own(&mut self, name: Name<'m>) -> Name<'m> {
        let count = self.taken.entry(name.clone().into_owned()).or_default();
        *count += 1;
        match *count {
            1 => name,
            count => Cow::Owned(format!("{name}#{count}")),
        }
    }

    /// A call: the function's nodes in its place.
    fn call(
        &mut self,
        node: &'m NodeProto,
        scope: &Scope<'m>,
        key: Key<'m>,
        function: Function<'m>,
    ) -> Result<(), Error> {
        if self.active.contains(&key) {
            return Err(Error::new(
                ErrorKind::InvalidGraph,
                say!("the function \"{key}\" calls itself", key = key.1),
            ));
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(unfolds());
        }
        let prefix = self.prefix(node, scope);
        self.text += prefix.len();
        if self.text > TEXT_MAX {
            return Err(unfolds());
        }
        let mut values = BTreeMap::new();
        for (formal, actual) in function.outputs.iter().zip(&node.output) {
            // An output that nobody asks for is still a value of the body, under a name of its own.
            if !actual.is_empty() {
                values.insert(formal.as_str(), scope.value(actual));
            }
        }
        for (index, formal) in function.inputs.iter().enumerate() {
            let actual = node.input.get(index).map(|name| scope.value(name));
            values.insert(formal.as_str(), actual.unwrap_or_default());
        }
        let defaults = function.defaults.iter();
        let mut attributes =
            defaults.map(|attribute| (attribute.name.as_str(), attribute)).into_map();
        attributes.extend(scope.attributes(node));
        let tells_its_module = !node.metadata_props.is_empty() || node.name.contains('/');
        let caller = scope.caller.filter(|_| !tells_its_module).unwrap_or(node);
        let inner = Scope { prefix, caller: Some(caller), values, attributes };
        for declared in function.declared {
            self.flat.declared.push((inner.value(&declared.name), declared));
        }
        self.active.push(key);
        for node in function.nodes {
            self.expand(node, &inner)?;
        }
        self.active.pop();
        self.depth -= 1;
        Ok(())
    }

    /// What names of this call's body begin with.
    fn prefix(&mut self, node: &NodeProto, scope: &Scope<'_>) -> String {
        let output = || node.output.iter().find(|name| !name.is_empty());
        let label = Some(&node.name).filter(|name| !name.is_empty()).or_else(output);
        let label = label.unwrap_or(&node.op_type);
        let prefix = format!("{}{label}/", scope.prefix);
        let count = self.prefixes.entry(prefix.clone()).or_default();
        *count += 1;
        if *count == 1 { prefix } else { format!("{}{label}#{count}/", scope.prefix) }
    }
}

/// What a graph itself makes, is given and has as weights.
fn names(graph: &GraphProto) -> BTreeMap<String, usize> {
    let made = graph.node.iter().flat_map(|node| node.output.iter());
    let given = graph.input.iter().map(|input| &input.name);
    let weights = graph.initializer.iter().map(|tensor| &tensor.name);
    made.chain(given).chain(weights).map(|name| (name.clone(), 1)).into_map()
}

fn unfolds() -> Error {
    let message = say!(
        "the model unfolds to more than {nodes_max} operators, or to huge names",
        nodes_max = NODES_MAX
    );
    Error::new(ErrorKind::TooLarge, message)
}
