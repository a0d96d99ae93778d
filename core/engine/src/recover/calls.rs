//! Calls that the dynamo exporter decomposed into ONNX operators, recovered from the metadata of their nodes.
//!
//! Each node of a call carries its text (`pkg.torch.onnx.fx_node`): the ATen operator, and its arguments in
//! the order of `native_functions.yaml`, which is that of the parameters in `aten/formula/operators.txt`. So
//! all nodes of a call become the one node that the same call of an exported program (`.pt2`) becomes.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use super::View;
use super::patterns::torch;
use crate::aten::formula::{self, Row};
use crate::basis::Reason;
use crate::calls;
use crate::config::Config;
use crate::decimal;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::ops::{self, Inference};
use crate::sentence::Sentence;
use crate::tensor::TensorType;

/// What differs from PyTorch and nothing puts back: calls by the start of their names, modules of `torch.nn`
/// by their class, or such a call in such a module; and the entry of `tests/operators.txt` that shows it.
const UNPROVEN: &[(&str, &str, &str)] = &[
    ("aten._native_batch_norm_legit_functional.", "", "native_batch_norm"),
    ("aten._upsample_bilinear2d_aa.", "", "_upsample_bilinear2d_aa"),
    ("aten.native_group_norm.", "", "native_group_norm"),
    ("aten.sign.", "", "sgn"),
    ("aten.softmax.", "MultiheadAttention", "nn.MultiheadAttention"),
    ("", "RNN", "nn.RNN"),
    ("", "TransformerDecoderLayer", "nn.Transformer"),
    ("", "TransformerEncoderLayer", "nn.TransformerEncoder"),
];

/// Marks what is known to differ from PyTorch, where it stands as the exporter wrote it.
pub(super) fn mark(view: &mut View<'_>, _: &Config) {
    let mut marked: Vec<(ValueId, &'static str)> = Vec::new();
    for (_, node) in view.nodes() {
        let Some(origin) = node.origin.as_ref().filter(|_| node.domain.is_empty()) else {
            continue;
        };
        let class = origin.class.strip_prefix("torch.nn.modules.").unwrap_or("");
        let class = class.rsplit_once('.').map_or("", |(_, class)| class);
        let row = UNPROVEN.iter().find(|(call, of, _)| {
            // The module itself calls `F.batch_norm`, which is another kernel.
            let is_own = call.contains("batch_norm") && class.starts_with("BatchNorm");
            origin.aten.starts_with(call) && (of.is_empty() && !is_own || *of == class)
        });
        let Some((call, class, _)) = row else { continue };
        let name = if call.is_empty() { class } else { call.trim_end_matches('.') };
        let is_float =
            |value: &ValueId| view.typed.ty(*value).is_some_and(|ty| ty.dtype.is_floating());
        marked.extend(node.outputs.iter().flatten().copied().filter(is_float).map(|v| (v, name)));
    }
    for (value, name) in marked {
        super::rests_on(&mut view.reasons, value, &Reason::Operator(name.to_owned()));
    }
}

/// Nodes by the text of their call, without those that make numbers.
pub(super) fn groups<'v>(view: &'v View<'_>) -> BTreeMap<&'v str, Vec<NodeId>> {
    let mut groups: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    for (at, node) in view.nodes() {
        let call = node.origin.as_ref().map_or("", |origin| origin.call.as_str());
        if !call.is_empty() && !is_number(view, node) {
            groups.entry(call).or_default().push(at);
        }
    }
    groups
}

/// Values that nodes read and do not make, without numbers.
pub(super) fn reads(view: &View<'_>, nodes: &[NodeId]) -> Vec<ValueId> {
    let nodes: Vec<&Node> = nodes.iter().filter_map(|id| view.node(*id)).collect();
    let made = |value: &ValueId| {
        nodes.iter().any(|node| node.outputs.iter().flatten().any(|made| made == value))
    };
    let mut reads: Vec<ValueId> = Vec::new();
    for value in nodes.iter().flat_map(|node| node.inputs.iter().flatten()) {
        if !made(value) && !view.is_known(*value) && !reads.contains(value) {
            reads.push(*value);
        }
    }
    reads
}

/// Puts what ran in place of the nodes of each call.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    let groups = groups(view);
    if groups.is_empty() {
        return;
    }
    let names = Names::of(view);
    let found = groups.iter().filter_map(|(call, nodes)| Group::of(view, call, nodes)?.run(&names));
    let found: Vec<(NodeId, Node)> = found.collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (at, node) in found {
        let name = node.op.split_once('.').map_or(node.op.as_str(), |(name, _)| name);
        *counts.entry(name.to_ascii_lowercase()).or_default() += 1;
        view.replace(at, node);
    }
    for (name, count) in counts {
        view.found_again(&Sentence::name(&name), count);
    }
}

/// Whether a node makes what is known before the run.
fn is_number(view: &View<'_>, node: &Node) -> bool {
    node.outputs.iter().flatten().all(|output| view.is_known(*output))
}

/// A call as the exporter noted it: `%gelu : [num_users=1] = call_function[target=torch.ops.aten.gelu.default]
/// (args = (%linear,), kwargs = {approximate: tanh})`.
pub(super) struct Noted<'t> {
    /// Name of the call's result.
    pub(super) result: &'t str,
    /// The ATen operator with its overload: `addcmul.default`.
    pub(super) aten: &'t str,
    pub(super) placed: Vec<&'t str>,
    stated: Vec<(&'t str, &'t str)>,
}

impl<'t> Noted<'t> {
    pub(super) fn parse(call: &'t str) -> Option<Self> {
        let (result, rest) = call.strip_prefix('%')?.split_once(" : ")?;
        let (_, rest) = rest.split_once("[target=torch.ops.aten.")?;
        let (aten, arguments) = rest.split_once("](args = (")?;
        let (placed, stated) = arguments.split_once("), kwargs = {")?;
        let stated = split(stated.trim_end().strip_suffix("})")?).into_iter();
        let stated = stated.map(|one| one.split_once(": ")).collect::<Option<_>>()?;
        Some(Self { result, aten, placed: split(placed), stated })
    }

    /// The tensors among the arguments, those of lists too.
    pub(super) fn tensors(&self) -> Vec<&'t str> {
        let stated = self.stated.iter().map(|(_, text)| *text);
        let all = self.placed.iter().copied().chain(stated);
        let items = all.flat_map(|text| split(text.trim_matches(['[', ']'])));
        items.filter(|item| item.starts_with('%')).collect()
    }
}

/// Values by the names that calls have for them.
pub(super) struct Names(BTreeMap<String, ValueId>);

impl Names {
    /// Parameters and buffers are arguments of the exported program: `p_fc_weight` is `fc.weight`.
    pub(super) fn of(view: &View<'_>) -> Self {
        let values = view.graph().values.iter().enumerate();
        let names = values.flat_map(|(index, value)| {
            let state = value.initializer.is_some().then(|| value.name.replace('.', "_"));
            let arguments = state.into_iter().flat_map(|n| [format!("p_{n}"), format!("b_{n}")]);
            arguments.chain([value.name.clone()]).map(move |name| (name, ValueId(index)))
        });
        Self(names.into_map())
    }

    /// The value that an argument such as `%add_1` is.
    pub(super) fn get(&self, argument: &str) -> Option<ValueId> {
        self.0.get(argument.strip_prefix('%')?).copied()
    }
}

/// A call and the nodes that it became.
struct Group<'v> {
    view: &'v View<'v>,
    /// The node that makes the call's results.
    last: (NodeId, &'v Node),
    /// Values that the nodes read and do not make, without numbers.
    reads: Vec<ValueId>,
    is_one_node: bool,
    noted: Noted<'v>,
}

impl<'v> Group<'v> {
    fn of(view: &'v View<'v>, call: &'v str, ids: &[NodeId]) -> Option<Self> {
        let nodes: Vec<&Node> = ids.iter().filter_map(|id| view.node(*id)).collect();
        if nodes.iter().any(|node| !node.domain.is_empty()) {
            return None;
        }
        let leaves = |value: &ValueId| {
            let is_outside = |reader: &NodeId| !ids.contains(reader);
            view.graph().outputs.contains(value) || view.readers(*value).iter().any(is_outside)
        };
        let makes_result =
            |id: &&NodeId| view.node(**id).is_some_and(|n| n.outputs.iter().flatten().any(leaves));
        let mut last = ids.iter().filter(makes_result);
        let (at, None) = (*last.next()?, last.next()) else { return None };
        Some(Self {
            view,
            last: (at, view.node(at)?),
            reads: reads(view, ids),
            is_one_node: nodes.len() == 1,
            noted: Noted::parse(call)?,
        })
    }

    /// The one node that the call is, unless what is in the file runs as it stands.
    fn run(&self, names: &Names) -> Option<(NodeId, Node)> {
        let aten = self.noted.aten;
        let plain = aten.split_once('.').map_or(aten, |(plain, _)| plain);
        let plain = format!("aten.{plain}");
        let (at, last) = self.last;
        let unary = calls::unary(&plain);
        let has_row = || calls::has_row(&plain) && !self.selects_a_row();
        if self.is_one_node && unary.map_or_else(has_row, |(_, op)| op == last.op) {
            return None;
        }
        let node = if let Some((domain, op)) = unary {
            let [x, ..] = self.noted.placed.as_slice() else { return None };
            let mut node = torch(op, last, vec![Some(self.tensor(x, names)?)]);
            domain.clone_into(&mut node.domain);
            node
        } else {
            self.formula(formula::lookup(aten)?, names)?
        };
        self.fitted(node).map(|node| (at, node))
    }

    /// Whether an embedding is asked for one row: ONNX has no other node for it, and `select` saves less.
    fn selects_a_row(&self) -> bool {
        let indices = self.last.1.input(1).and_then(|indices| self.view.dims(indices));
        self.noted.aten == "embedding.default" && indices.is_some_and(<[u64]>::is_empty)
    }

    /// The call under its own name with its arguments.
    fn formula(&self, row: &Row, names: &Names) -> Option<Node> {
        let mut node = torch(self.noted.aten, self.last.1, Vec::new());
        "aten".clone_into(&mut node.domain);
        let parameters = row.parameters();
        // What a row has no name for changes no byte, unless it is a tensor.
        let rest = self.noted.placed.iter().skip(parameters.len());
        if rest.copied().any(|text| text.contains('%')) {
            return None;
        }
        let placed = parameters.iter().copied().zip(self.noted.placed.iter().copied());
        let mut tensors: Vec<String> = Vec::new();
        for (name, text) in placed.chain(self.noted.stated.iter().copied()) {
            if !parameters.contains(&name) {
                (!text.contains('%')).then_some(())?;
            } else if text.contains('%') {
                let list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
                for item in list.map_or_else(|| vec![text], split) {
                    let is_none = list.is_some() && item == "None";
                    let value = if is_none { None } else { Some(self.tensor(item, names)?) };
                    let number = value.filter(|_| list.is_none() && item.starts_with("%scalar_"));
                    if let Some(number) = number.and_then(|value| self.view.number(value)) {
                        node.attributes.insert(name.to_owned(), Attribute::Float(number));
                        continue;
                    }
                    node.inputs.push(value);
                    tensors.push(format!("{name}{}", if list.is_some() { "*" } else { "" }));
                }
            } else if text != "None" {
                node.attributes.insert(name.to_owned(), attribute(text)?);
            }
        }
        node.attributes.insert("tensors".to_owned(), Attribute::String(tensors.join(",")));
        Some(node)
    }

    /// A tensor among the arguments; where the exporter named it anew, the one that is left over.
    fn tensor(&self, text: &str, names: &Names) -> Option<ValueId> {
        let found = names.get(text).or_else(|| {
            let items = self.noted.tensors();
            let known: Vec<ValueId> = items.iter().filter_map(|item| names.get(item)).collect();
            let is_only =
                items.iter().filter(|item| names.get(item).is_none()).all(|item| *item == text);
            let mut rest = self.reads.iter().filter(|read| !known.contains(read));
            rest.next().filter(|_| is_only && rest.next().is_none()).copied()
        })?;
        // It must be there when the call runs.
        let maker = self.view.producers.get(found.0).copied().flatten();
        maker.is_none_or(|maker| maker < self.last.0).then_some(found)
    }

    /// The node, if it makes tensors like those of the file.
    fn fitted(&self, node: Node) -> Option<Node> {
        let operator = ops::lookup(&node.domain, &node.op)?;
        let typed = &self.view.typed;
        let mut asked = node.clone();
        asked.outputs.resize(4.max(asked.outputs.len()), None);
        let opset = self.view.graph().opset;
        let mut inference = Inference::new(&asked, opset, &typed.types, &typed.elements);
        (operator.infer)(&mut inference).ok()?;
        let (made, _) = inference.finish();
        let fits = |(position, output): (usize, &Option<ValueId>)| {
            let made: Option<&TensorType> = made.get(position).and_then(|made| made.ty.as_ref());
            output.is_none_or(|output| made.is_some() && made == typed.ty(output))
        };
        node.outputs.iter().enumerate().all(fits).then_some(node)
    }
}

/// Arguments of a list, those in brackets as one.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '[' | '(' => depth = depth.saturating_add(1),
            ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at.saturating_add(1);
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect()
}

/// An argument that is no tensor.
fn attribute(text: &str) -> Option<Attribute> {
    Some(match text {
        "True" => Attribute::Int(1),
        "False" => Attribute::Int(0),
        _ => {
            if let Some(list) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                let list = split(list);
                let ints: Option<Vec<i64>> = list.iter().map(|item| item.parse().ok()).collect();
                let floats =
                    || list.iter().map(|item| decimal::number(item)).collect::<Option<_>>();
                ints.map(Attribute::Ints).or_else(|| Some(Attribute::Floats(floats()?)))?
            } else if let Some(dtype) = text.strip_prefix("torch.") {
                Attribute::Int(DTYPES.iter().find(|(name, _)| *name == dtype)?.1)
            } else if let Some(number) = number(text) {
                number
            } else if text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
                Attribute::String(text.to_owned())
            } else {
                return None;
            }
        }
    })
}

fn number(text: &str) -> Option<Attribute> {
    let float = || decimal::number(text).map(Attribute::Float);
    text.parse().ok().map(Attribute::Int).or_else(float)
}

/// Element types by ONNX's numbers for them.
const DTYPES: [(&str, i64); 10] = [
    ("float32", 1),
    ("uint8", 2),
    ("int8", 3),
    ("int16", 5),
    ("int32", 6),
    ("int64", 7),
    ("bool", 9),
    ("float16", 10),
    ("float64", 11),
    ("bfloat16", 16),
];

#[cfg(test)]
mod tests {
    use super::{UNPROVEN, attribute, split};
    use crate::graph::Attribute;

    /// The table of how every operator of PyTorch's catalogue goes.
    const CATALOGUE: &str = include_str!("../../../../tests/operators.txt");

    /// What the dynamo column says of an entry, or of all.
    fn dynamo() -> Vec<(&'static str, &'static str)> {
        let columns = |line: &'static str| Some((line.get(..48)?.trim(), line.get(80..96)?.trim()));
        CATALOGUE.lines().filter_map(columns).collect()
    }

    #[test]
    fn what_is_marked_differs_in_the_catalogue() {
        let differs = |name: &str| {
            let mut entries = dynamo().into_iter();
            entries.any(|(entry, cases)| entry == name && cases.contains(['w', 's']))
        };
        for (call, class, entry) in UNPROVEN {
            assert!(differs(entry), "{call}{class}: {entry} is proven, and needs no mark");
        }
    }

    #[test]
    fn modules_that_differ_in_silence_are_marked() {
        let silent = |cases: &str| cases.ends_with('s') && !cases.contains(['=', 'w']);
        for (entry, cases) in dynamo() {
            let class = entry.strip_prefix("nn.").filter(|class| !class.contains('.'));
            let Some(class) = class.filter(|_| silent(cases)) else { continue };
            let is_marked = UNPROVEN.iter().any(|(_, of, _)| *of == class);
            assert!(is_marked, "{entry} differs, and nothing says so");
        }
    }

    #[test]
    fn arguments_are_read() {
        assert_eq!(split("%a, [0, 1], 3,"), ["%a", "[0, 1]", "3"]);
        assert_eq!(attribute("[0, -1]"), Some(Attribute::Ints(vec![0, -1])));
        assert_eq!(attribute("0.5"), Some(Attribute::Float(0.5)));
        assert_eq!(attribute("floor"), Some(Attribute::String("floor".to_owned())));
        assert_eq!(attribute("torch.float16"), Some(Attribute::Int(10)));
        assert_eq!(attribute("torch.strided"), None);
    }
}
