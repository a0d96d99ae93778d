//! [`Call`]: a node of the program, its arguments by name, and the nodes that it becomes.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{IN_PLACE, rules};
use crate::formats::pt2::lower::Lower;
use crate::formats::pt2::program;
use crate::graph::{Attribute, DeclaredType, Elements, Literal, Node, Origin, ValueId};
use crate::tensor::DType;

/// One call of the program.
pub(in crate::formats::pt2) struct Call<'l, 'j> {
    pub(super) lower: &'l mut Lower<'j>,
    pub(super) node: &'j Json,
    pub(super) outputs: Vec<Option<&'j str>>,
    pub(super) module: String,
    pub(super) origin: Origin,
    pub(super) in_place: bool,
}

impl<'l, 'j> Call<'l, 'j> {
    /// A call and the names of what it makes.
    pub(in crate::formats::pt2) fn new(
        lower: &'l mut Lower<'j>,
        node: &'j Json,
        outputs: Vec<Option<&'j str>>,
        (module, origin): (String, Origin),
    ) -> Self {
        Self { lower, node, outputs, module, origin, in_place: false }
    }

    pub(super) fn argument(&self, name: &str) -> Option<(&'j str, &'j Json)> {
        let inputs = program::list(self.node, "inputs").iter();
        let mut named = inputs.filter(|input| program::text(input, "name") == name);
        program::single(named.next()?.get("arg")?)
    }

    pub(super) fn first(&self) -> Option<&'j Json> {
        program::list(self.node, "inputs").first()?.get("arg")
    }

    /// Name of the first argument, which is a tensor.
    pub(super) fn first_name(&self) -> Option<&'j str> {
        program::tensors(self.first()?).into_iter().next().flatten()
    }

    /// The first argument, which is a tensor.
    pub(super) fn x(&self) -> Option<ValueId> {
        self.lower.id(self.first_name()?)
    }

    pub(super) fn tensor(&self, name: &str) -> Option<ValueId> {
        self.tensors(name).first().copied()
    }

    pub(super) fn tensors(&self, name: &str) -> Vec<ValueId> {
        let inputs = program::list(self.node, "inputs").iter();
        let mut named = inputs.filter(|input| program::text(input, "name") == name);
        let argument = named.next().and_then(|input| input.get("arg"));
        let names = argument.map(program::tensors).unwrap_or_default();
        names.into_iter().flatten().filter_map(|name| self.lower.id(name)).collect()
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.argument(name)? {
            ("as_int" | "as_scalar_type", n) => n.as_i64(),
            ("as_bool", flag) => flag.as_bool().map(i64::from),
            ("as_sym_int", n) => n.get("as_int")?.as_i64(),
            _ => None,
        }
    }

    pub(super) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.argument(name)? {
            ("as_int", n) => Some(vec![n.as_i64()?]),
            ("as_ints", list) => list.as_array()?.iter().map(Json::as_i64).collect(),
            ("as_sym_ints", list) => {
                list.as_array()?.iter().map(|n| n.get("as_int")?.as_i64()).collect()
            }
            _ => None,
        }
    }

    pub(super) fn float(&self, name: &str) -> Option<f64> {
        match self.argument(name)? {
            ("as_float" | "as_int", x) => x.as_f64(),
            _ => None,
        }
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.argument(name)?.1.as_bool()
    }

    pub(super) fn string(&self, name: &str) -> Option<String> {
        self.argument(name)?.1.as_str().map(str::to_owned)
    }

    pub(super) fn declared(&self, name: &str) -> Option<DeclaredType> {
        self.lower.declared(name)
    }

    pub(super) fn x_declared(&self) -> Option<DeclaredType> {
        self.declared(self.first_name()?)
    }

    /// Type of what the call makes.
    pub(super) fn made(&self) -> Option<DeclaredType> {
        self.declared(self.outputs.first().copied().flatten()?)
    }

    /// COUNT: dimensions of the first argument.
    pub(super) fn rank(&self) -> Option<usize> {
        Some(self.x_declared()?.dims?.len())
    }

    /// A number of Python's beside tensors: it takes the type of what it is computed with.
    pub(super) fn scalar(&mut self, value: &Json, dtype: DType) -> Option<ValueId> {
        let elements = if dtype.is_floating() {
            // Infinities are written as texts.
            let infinite =
                || value.as_str().map(|s| if s.starts_with('-') { f64::MIN } else { f64::MAX });
            Elements::Floats(vec![value.as_f64().or_else(infinite)?])
        } else {
            Elements::Ints(vec![value.as_i64().or_else(|| value.as_bool().map(i64::from))?])
        };
        Some(self.lower.constant(Literal { dtype, dims: Vec::new(), elements: Some(elements) }))
    }

    pub(super) fn number_of(&mut self, name: &str, dtype: DType) -> Option<ValueId> {
        match self.argument(name)? {
            ("as_int" | "as_float" | "as_bool", value) => self.scalar(value, dtype),
            ("as_sym_int", value) if value.get("as_int").is_some() => {
                self.scalar(value.get("as_int")?, dtype)
            }
            ("as_sym_int", value) => self.lower.id(value.get("as_name")?.as_str()?),
            _ => None,
        }
    }

    /// A tensor, or a number in the type of what is made.
    pub(super) fn operand(&mut self, name: &str) -> Option<ValueId> {
        if let Some(tensor) = self.tensor(name) {
            return Some(tensor);
        }
        let first = self.x_declared().and_then(|declared| declared.dtype);
        let made = self.made().and_then(|declared| declared.dtype);
        let is_fraction = matches!(self.argument(name)?.0, "as_float");
        let dtype = match first.or(made) {
            Some(dtype) if dtype.is_floating() || !is_fraction => dtype,
            _ if is_fraction => DType::Float32,
            _ => DType::Int64,
        };
        self.number_of(name, dtype)
    }

    /// A list of integers, which may be known only once dimensions are.
    pub(super) fn sizes(&mut self, name: &str) -> Option<ValueId> {
        if let Some(list) = self.ints(name) {
            return Some(self.lower.integers(&list));
        }
        let parts: Vec<&'j Json> = match self.argument(name)? {
            ("as_sym_ints", list) => list.as_array()?.iter().collect(),
            ("as_sym_int", one) => vec![one],
            _ => return None,
        };
        let parts: Option<Vec<ValueId>> = parts
            .into_iter()
            .map(|part| match part.get("as_int").and_then(Json::as_i64) {
                Some(n) => Some(self.lower.integers(&[n])),
                None => self.lower.id(part.get("as_name")?.as_str()?),
            })
            .collect();
        parts.map(|parts| self.join(parts))
    }

    /// One list of several.
    pub(super) fn join(&mut self, parts: Vec<ValueId>) -> ValueId {
        match parts.as_slice() {
            [] => self.lower.integers(&[]),
            [one] => *one,
            _ => {
                let axis = BTreeMap::from([("axis".to_owned(), Attribute::Int(0))]);
                self.helper("Concat", parts, axis)
            }
        }
    }

    /// Dimensions `from..to` of the first argument, as a list.
    pub(super) fn shape_of(&mut self, from: usize, to: usize) -> Option<ValueId> {
        let attribute = |n: usize| Some(Attribute::Int(i64::try_from(n).ok()?));
        let bounds = BTreeMap::from([
            ("start".to_owned(), attribute(from)?),
            ("end".to_owned(), attribute(to)?),
        ]);
        let x = self.x()?;
        Some(self.helper("Shape", vec![x], bounds))
    }

    /// A node that the program does not have: shape arithmetic.
    pub(super) fn helper(
        &mut self,
        op: &str,
        inputs: Vec<ValueId>,
        attributes: BTreeMap<String, Attribute>,
    ) -> ValueId {
        let output = self.lower.intermediate();
        self.lower.push(Node {
            op: op.to_owned(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes,
            module: self.module.clone(),
            ..Node::default()
        });
        output
    }

    pub(super) fn put<const N: usize>(
        &mut self,
        domain: &str,
        op: &str,
        inputs: Vec<ValueId>,
        attributes: [(&str, Attribute); N],
    ) -> Option<()> {
        self.put_optional(domain, op, inputs.into_iter().map(Some).collect(), attributes)
    }

    /// The node that makes what the call makes.
    #[expect(clippy::unnecessary_wraps, reason = "rows end in it, and answer with an option")]
    pub(super) fn put_optional<const N: usize>(
        &mut self,
        domain: &str,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: [(&str, Attribute); N],
    ) -> Option<()> {
        let named = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut attributes = named.into_map();
        if self.in_place && IN_PLACE.contains(&op) {
            attributes.insert("in_place".to_owned(), Attribute::Int(1));
        }
        self.put_all(domain, op, inputs, attributes);
        Some(())
    }

    fn put_all(
        &mut self,
        domain: &str,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: BTreeMap<String, Attribute>,
    ) {
        let outputs = self.outputs.clone();
        let outputs: Vec<Option<ValueId>> = outputs
            .into_iter()
            .map(|name| name.map(|name| self.lower.define(name, name)))
            .collect();
        self.lower.push(Node {
            name: self.outputs.iter().flatten().next().copied().unwrap_or_default().to_owned(),
            op: op.to_owned(),
            domain: domain.to_owned(),
            inputs,
            outputs,
            attributes,
            module: self.module.clone(),
            origin: Some(self.origin.clone()),
            trip: None,
        });
    }

    /// A call under its own name with all its arguments: tensors are inputs, named by an attribute, what
    /// else there is are attributes.
    pub(super) fn verbatim(&mut self, target: &str) {
        let (mut inputs, mut names, mut attributes) = (Vec::new(), Vec::new(), BTreeMap::new());
        for input in program::list(self.node, "inputs") {
            let name = program::text(input, "name");
            let Some((kind, value)) = input.get("arg").and_then(program::single) else { continue };
            let given = input.get("arg").map(program::tensors).unwrap_or_default();
            let list = if matches!(kind, "as_tensors" | "as_optional_tensors") { "*" } else { "" };
            for tensor in given {
                inputs.push(tensor.and_then(|tensor| self.lower.id(tensor)));
                names.push(format!("{name}{list}"));
            }
            let attribute = match kind {
                "as_sym_ints" | "as_sym_int"
                    if self.ints(name).is_none() && self.int(name).is_none() =>
                {
                    if let Some(sizes) = self.sizes(name) {
                        inputs.push(Some(sizes));
                        names.push(format!("#{name}"));
                    }
                    continue;
                }
                "as_none" => continue,
                "as_scalar_type" => match value.as_i64().and_then(program::dtype) {
                    Some(dtype) => Attribute::Int(rules::onnx(dtype)),
                    None => Attribute::Unsupported,
                },
                "as_memory_format" => value.as_i64().map_or(Attribute::Unsupported, Attribute::Int),
                "as_int" | "as_bool" | "as_sym_int" => {
                    self.int(name).map_or(Attribute::Unsupported, Attribute::Int)
                }
                "as_float" => match value.as_f64() {
                    Some(x) => Attribute::Float(x),
                    // Infinities are written as texts.
                    None => match value.as_str() {
                        Some(text) if text.starts_with('-') => Attribute::Float(f64::NEG_INFINITY),
                        Some("NaN") => Attribute::Float(f64::NAN),
                        _ => Attribute::Float(f64::INFINITY),
                    },
                },
                "as_ints" | "as_sym_ints" => {
                    self.ints(name).map_or(Attribute::Unsupported, Attribute::Ints)
                }
                "as_bools" => {
                    let all = value.as_array().into_iter().flatten();
                    Attribute::Ints(
                        all.map(|flag| i64::from(flag.as_bool() == Some(true))).collect(),
                    )
                }
                "as_floats" => {
                    let all = value.as_array().into_iter().flatten();
                    Attribute::Floats(all.filter_map(Json::as_f64).collect())
                }
                "as_string" => Attribute::String(value.as_str().unwrap_or("").to_owned()),
                _ => Attribute::Unsupported,
            };
            if !name.is_empty() && !kind.contains("tensor") {
                attributes.insert(name.to_owned(), attribute);
            }
        }
        attributes.insert("tensors".to_owned(), Attribute::String(names.join(",")));
        let (domain, op) = target.split_once('.').unwrap_or(("", target));
        let mut op = op.to_owned();
        if self.in_place {
            attributes.insert("in_place".to_owned(), Attribute::Int(1));
            op = op.replacen("_.", ".", 1);
        }
        self.put_all(domain, &op, inputs, attributes);
    }

    /// Whether the call overwrites what no gradient flows through, which takes nothing.
    pub(super) fn overwrites_nothing(&mut self) -> Option<bool> {
        let (x, output) = (self.x()?, self.outputs.first().copied().flatten()?);
        let mut others = program::list(self.node, "inputs").iter().skip(1);
        let has_gradient = others.any(|input| {
            let names = input.get("arg").map(program::tensors).unwrap_or_default();
            let mut ids = names.into_iter().flatten().filter_map(|name| self.lower.id(name));
            ids.any(|id| self.lower.is_trained(id))
        });
        if has_gradient || !self.lower.is_plain(x) {
            return Some(false);
        }
        self.lower.alias(output, x);
        Some(true)
    }

    /// The output shares its storage with the first argument.
    pub(super) fn note_view(&mut self) {
        let names = (self.outputs.first().copied().flatten(), self.first_name());
        if let (Some(view), Some(of)) = names {
            self.lower.note_view(view, of);
        }
    }

    /// From here on the overwritten tensor is what was written.
    pub(super) fn rename_overwritten(&mut self) {
        let names = (self.first_name(), self.outputs.first().copied().flatten());
        if let (true, (Some(x), Some(output))) = (self.in_place, names)
            && let Some(id) = self.lower.id(output)
        {
            self.lower.alias(x, id);
        }
    }
}
