//! The grammar, top down; messages and field numbers are those of `onnx.proto`.

use std::collections::BTreeSet;

use super::lexer::{Lexer, Number};
use super::wire::Message;
use crate::error::Error;

/// COUNT: elements of a tensor that are kept at most; more are counted and left out.
const ELEMENTS_KEPT: usize = 1 << 10;
/// COUNT: graphs inside attributes of graphs.
const DEPTH_MAX: usize = 24;

/// Element types by name, with their numbers (`TensorProto.DataType`).
const TYPES: [(&str, i64); 24] = [
    ("float", 1),
    ("uint8", 2),
    ("int8", 3),
    ("uint16", 4),
    ("int16", 5),
    ("int32", 6),
    ("int64", 7),
    ("string", 8),
    ("bool", 9),
    ("float16", 10),
    ("double", 11),
    ("uint32", 12),
    ("uint64", 13),
    ("complex64", 14),
    ("complex128", 15),
    ("bfloat16", 16),
    ("float8e4m3fn", 17),
    ("float8e4m3fnuz", 18),
    ("float8e5m2", 19),
    ("float8e5m2fnuz", 20),
    ("uint4", 21),
    ("int4", 22),
    ("float4e2m1", 23),
    ("float8e8m0", 24),
];

/// A dimension as it is written.
#[derive(Clone, Debug)]
enum Dim {
    Known(i64),
    Named(String),
    Unknown,
}

/// The code of a type that no tensor has.
const NO_TENSOR: i64 = 0;

/// A tensor type; the rank may be left out.
#[derive(Clone, Debug)]
struct Type {
    code: i64,
    dims: Option<Vec<Dim>>,
}

/// What braces hold.
#[derive(Clone, Debug, Default)]
struct Elements {
    ints: Vec<i64>,
    floats: Vec<f64>,
    count: usize,
}

/// A model as the bytes of a binary file.
///
/// # Errors
/// With line and column, where the text leaves the grammar.
pub(super) fn model(text: &str) -> Result<Vec<u8>, Error> {
    let mut parser = Parser { lexer: Lexer::new(text), depth: 0 };
    let mut model = Message::default();
    if parser.lexer.peek() == Some('<') {
        parser.header(&mut model, &MODEL_KEYS)?;
    }
    let name = parser.lexer.any_name();
    let name = name.ok_or_else(|| parser.lexer.expected(&say!("the graph's name")))?;
    let graph = parser.graph(&name)?;
    model.message(7, &graph);
    while !parser.lexer.is_empty() {
        let function = parser.function()?;
        model.message(25, &function);
    }
    Ok(model.finish())
}

/// Keys of a header: name, field, and kind of value.
type Keys = [(&'static str, u64, ValueKind)];

#[derive(Clone, Copy, Debug)]
enum ValueKind {
    Int,
    Text,
    OperatorSets,
    Pairs,
}

const MODEL_KEYS: [(&str, u64, ValueKind); 8] = [
    ("ir_version", 1, ValueKind::Int),
    ("producer_name", 2, ValueKind::Text),
    ("producer_version", 3, ValueKind::Text),
    ("domain", 4, ValueKind::Text),
    ("model_version", 5, ValueKind::Int),
    ("doc_string", 6, ValueKind::Text),
    ("opset_import", 8, ValueKind::OperatorSets),
    ("metadata_props", 14, ValueKind::Pairs),
];

const FUNCTION_KEYS: [(&str, u64, ValueKind); 5] = [
    ("doc_string", 8, ValueKind::Text),
    ("opset_import", 9, ValueKind::OperatorSets),
    ("domain", 10, ValueKind::Text),
    ("overload", 13, ValueKind::Text),
    ("metadata_props", 14, ValueKind::Pairs),
];

struct Parser<'t> {
    lexer: Lexer<'t>,
    depth: usize,
}

impl Parser<'_> {
    /// `<key: value, …>`.
    fn header(&mut self, message: &mut Message, keys: &Keys) -> Result<(), Error> {
        self.lexer.need("<")?;
        while !self.lexer.take(">") {
            let mut here = self.lexer.clone();
            let name = self.lexer.name(false).unwrap_or("");
            let Some((_, field, kind)) = keys.iter().find(|(known, ..)| *known == name) else {
                let known: Vec<_> = keys.iter().map(|(name, ..)| *name).collect();
                return Err(here.expected(&say!("one of {known}", known = known.join(", "))));
            };
            self.lexer.need(":")?;
            match kind {
                ValueKind::Int => message.int(*field, self.int()?),
                ValueKind::Text => message.text(*field, &self.text()?),
                ValueKind::OperatorSets => self.pairs(|parser, domain| {
                    let mut set = Message::default();
                    set.text(1, &domain);
                    set.int(2, parser.int()?);
                    message.message(*field, &set);
                    Ok(())
                })?,
                ValueKind::Pairs => self.pairs(|parser, key| {
                    let mut pair = Message::default();
                    pair.text(1, &key);
                    pair.text(2, &parser.text()?);
                    message.message(*field, &pair);
                    Ok(())
                })?,
            }
            self.separator(">")?;
        }
        Ok(())
    }

    /// `["key" : value, …]`.
    fn pairs(
        &mut self,
        mut value: impl FnMut(&mut Self, String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.lexer.need("[")?;
        while !self.lexer.take("]") {
            let key = self.text()?;
            self.lexer.need(":")?;
            value(self, key)?;
            self.separator("]")?;
        }
        Ok(())
    }

    /// A comma, unless the list ends.
    fn separator(&mut self, end: &str) -> Result<(), Error> {
        let ends = end.chars().next().is_some_and(|end| self.lexer.peek() == Some(end));
        if self.lexer.take(",") || ends {
            return Ok(());
        }
        Err(self.lexer.expected(&say!("`,` or `{end}`", end)))
    }

    fn int(&mut self) -> Result<i64, Error> {
        let mut here = self.lexer.clone();
        match self.lexer.number() {
            Some(Number::Int(n)) => Ok(n),
            _ => Err(here.expected(&say!("an integer"))),
        }
    }

    fn text(&mut self) -> Result<String, Error> {
        self.lexer.quoted().ok_or_else(|| self.lexer.expected(&say!("a text in quotes")))
    }

    fn any_name(&mut self) -> Result<String, Error> {
        self.lexer.any_name().ok_or_else(|| self.lexer.expected(&say!("a name")))
    }

    /// `(inputs) => (outputs) <initializers> { nodes }`, behind the name.
    fn graph(&mut self, name: &str) -> Result<Message, Error> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH_MAX {
            return Err(self.lexer.expected(&say!(
                "no more than {depth_max} graphs inside each other",
                depth_max = DEPTH_MAX
            )));
        }
        let mut graph = Message::default();
        graph.text(2, name);
        for (name, ty, data) in self.values("(", ")")? {
            graph.message(11, &value_info(&name, &ty));
            if let Some(data) = data {
                graph.message(5, &tensor(&name, &ty, Some(&data)));
            }
        }
        self.lexer.need("=>")?;
        for (name, ty, _) in self.values("(", ")")? {
            graph.message(12, &value_info(&name, &ty));
        }
        let stated =
            if self.lexer.peek() == Some('<') { self.values("<", ">")? } else { Vec::new() };
        let mut made = BTreeSet::new();
        for node in self.nodes(&mut made)? {
            graph.message(1, &node);
        }
        for (name, ty, data) in stated {
            if data.is_some() || !made.contains(&name) {
                graph.message(5, &tensor(&name, &ty, data.as_ref()));
            } else {
                graph.message(13, &value_info(&name, &ty));
            }
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(graph)
    }

    /// `(type name = { data }, …)`.
    fn values(
        &mut self,
        begin: &str,
        end: &str,
    ) -> Result<Vec<(String, Type, Option<Elements>)>, Error> {
        self.lexer.need(begin)?;
        let mut values = Vec::new();
        while !self.lexer.take(end) {
            let ty = self.ty()?;
            let name = self.any_name()?;
            let data = match self.lexer.take("=") {
                false => None,
                true if self.lexer.peek() == Some('[') => {
                    self.pairs(|parser, _| parser.text().map(drop))?;
                    Some(Elements::default())
                }
                true => Some(self.elements()?),
            };
            values.push((name, ty, data));
            self.separator(end)?;
        }
        Ok(values)
    }

    /// `float[N, 3, ?]`; without brackets of unknown rank. Of `seq(…)` and `optional(…)` there is no
    /// more to know than that they are no tensors.
    fn ty(&mut self) -> Result<Type, Error> {
        let mut here = self.lexer.clone();
        let mut name = self.lexer.name(false).unwrap_or("");
        let mut around = 0_usize;
        while ["seq", "optional"].contains(&name) {
            self.lexer.need("(")?;
            around += 1;
            here = self.lexer.clone();
            name = self.lexer.name(false).unwrap_or("");
        }
        let Some(&(_, code)) = TYPES.iter().find(|(known, _)| *known == name) else {
            return Err(here.expected(&say!("an element type such as `float` or `int64`")));
        };
        let dims = if self.lexer.take("[") { Some(self.dims()?) } else { None };
        if around == 0 {
            return Ok(Type { code, dims });
        }
        (0..around).try_for_each(|_| self.lexer.need(")"))?;
        Ok(Type { code: NO_TENSOR, dims: None })
    }

    fn dims(&mut self) -> Result<Vec<Dim>, Error> {
        let mut dims = Vec::new();
        while !self.lexer.take("]") {
            dims.push(if self.lexer.take("?") {
                Dim::Unknown
            } else if let Some(name) = self.lexer.any_name() {
                Dim::Named(name)
            } else {
                Dim::Known(self.int()?)
            });
            self.separator("]")?;
        }
        Ok(dims)
    }

    /// `{1, 2, …}`; `...` stands for what a printer left out.
    fn elements(&mut self) -> Result<Elements, Error> {
        self.lexer.need("{")?;
        let mut elements = Elements::default();
        while !self.lexer.take("}") {
            if self.lexer.take("...") {
                elements.count = usize::MAX;
            } else {
                let (int, float) = match self.lexer.number() {
                    Some(Number::Int(n)) => (n, widen(n)),
                    Some(Number::Float(x)) => (0, x),
                    None if self.lexer.quoted().is_some() => (0, 0.0),
                    None => return Err(self.lexer.expected(&say!("a number"))),
                };
                elements.count = elements.count.saturating_add(1);
                if elements.count <= ELEMENTS_KEPT {
                    elements.ints.push(int);
                    elements.floats.push(float);
                }
            }
            self.separator("}")?;
        }
        Ok(elements)
    }

    /// `{ [label] y, z = domain.Op <attributes> (a, b) … }`; notes what is made.
    fn nodes(&mut self, made: &mut BTreeSet<String>) -> Result<Vec<Message>, Error> {
        self.lexer.need("{")?;
        let mut nodes = Vec::new();
        while !self.lexer.take("}") {
            let mut node = Message::default();
            if self.lexer.take("[") {
                node.text(3, &self.any_name()?);
                self.lexer.need("]")?;
            }
            for name in self.names("=")? {
                node.text(2, &name);
                made.insert(name);
            }
            let op = self.lexer.name(true);
            let op = op.ok_or_else(|| self.lexer.expected(&say!("an operator")))?;
            let (domain, op) = op.rsplit_once('.').unwrap_or(("", op));
            node.text(4, op);
            node.text(7, domain);
            if self.lexer.take(":") {
                node.text(8, &self.any_name()?);
            }
            self.attributes(&mut node)?;
            self.lexer.need("(")?;
            for name in self.names(")")? {
                node.text(1, &name);
            }
            self.attributes(&mut node)?;
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// Names up to a sign; one that is left out is empty.
    fn names(&mut self, end: &str) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        if self.lexer.take(end) {
            return Ok(names);
        }
        loop {
            names.push(self.lexer.any_name().unwrap_or_default());
            if self.lexer.take(end) {
                return Ok(names);
            }
            if !self.lexer.take(",") {
                return Err(self.lexer.expected(&say!("`,` or `{end}`", end)));
            }
        }
    }

    /// `<name: type = value, …>`, where there is one.
    fn attributes(&mut self, node: &mut Message) -> Result<(), Error> {
        if !self.lexer.take("<") {
            return Ok(());
        }
        while !self.lexer.take(">") {
            let name = self.any_name()?;
            let attribute = self.attribute(&name)?;
            node.message(5, &attribute);
            self.separator(">")?;
        }
        Ok(())
    }

    fn attribute(&mut self, name: &str) -> Result<Message, Error> {
        let mut attribute = Message::default();
        attribute.text(1, name);
        let stated = if self.lexer.take(":") { self.lexer.name(false) } else { None };
        self.lexer.need("=")?;
        if self.lexer.take("[") {
            self.list(&mut attribute, stated)?;
        } else if self.lexer.take("@") {
            attribute.text(21, &self.any_name()?);
        } else if let Some(number) = self.lexer.number() {
            match number {
                Number::Int(n) if stated != Some("float") => {
                    attribute.int(3, n);
                    attribute.int(20, 2);
                }
                Number::Int(n) => float(&mut attribute, widen(n)),
                Number::Float(x) => float(&mut attribute, x),
            }
        } else if let Some(text) = self.lexer.quoted() {
            attribute.text(4, &text);
            attribute.int(20, 3);
        } else {
            let mut here = self.lexer.clone();
            let word = self.lexer.name(true).unwrap_or("");
            if word.is_empty() {
                return Err(here.expected(&say!("a number, a text, a list, a tensor or a graph")));
            }
            if TYPES.iter().any(|(known, _)| *known == word) {
                self.lexer = here;
                attribute.message(5, &self.tensor()?);
                attribute.int(20, 4);
            } else {
                attribute.message(6, &self.graph(word)?);
                attribute.int(20, 5);
            }
        }
        Ok(attribute)
    }

    /// `float[2] name = {1, 2}`.
    fn tensor(&mut self) -> Result<Message, Error> {
        let ty = self.ty()?;
        let name = self.lexer.any_name().unwrap_or_default();
        self.lexer.take("=");
        let data = self.elements()?;
        Ok(tensor(&name, &ty, Some(&data)))
    }

    /// The rest of `[1, 2]`, of one kind.
    fn list(&mut self, attribute: &mut Message, stated: Option<&str>) -> Result<(), Error> {
        let (mut ints, mut floats, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let mut whole = stated != Some("floats");
        while !self.lexer.take("]") {
            match self.lexer.number() {
                Some(Number::Int(n)) => {
                    ints.push(n);
                    floats.push(widen(n));
                }
                Some(Number::Float(x)) => {
                    whole = false;
                    floats.push(x);
                }
                None => texts.push(self.text()?),
            }
            self.separator("]")?;
        }
        if !texts.is_empty() || stated == Some("strings") {
            for text in &texts {
                attribute.text(9, text);
            }
            attribute.int(20, 8);
        } else if whole {
            attribute.ints(8, ints);
            attribute.int(20, 7);
        } else {
            attribute.floats(7, floats.into_iter().map(narrow));
            attribute.int(20, 6);
        }
        Ok(())
    }

    /// `<domain: "d", opset_import: […]> name <attributes> (inputs) => (outputs) { nodes }`.
    fn function(&mut self) -> Result<Message, Error> {
        let mut function = Message::default();
        if self.lexer.peek() == Some('<') {
            self.header(&mut function, &FUNCTION_KEYS)?;
        }
        function.text(1, &self.any_name()?);
        if self.lexer.take("<") {
            while !self.lexer.take(">") {
                let name = self.any_name()?;
                if matches!(self.lexer.peek(), Some(':' | '=')) {
                    let attribute = self.attribute(&name)?;
                    function.message(11, &attribute);
                } else {
                    function.text(6, &name);
                }
                self.separator(">")?;
            }
        }
        self.lexer.need("(")?;
        for name in self.formals()? {
            function.text(4, &name);
        }
        self.lexer.need("=>")?;
        self.lexer.need("(")?;
        for name in self.formals()? {
            function.text(5, &name);
        }
        if self.lexer.peek() == Some('<') {
            for (name, ty, _) in self.values("<", ">")? {
                function.message(12, &value_info(&name, &ty));
            }
        }
        for node in self.nodes(&mut BTreeSet::new())? {
            function.message(7, &node);
        }
        Ok(function)
    }

    /// Names of a function's inputs or outputs, with or without types.
    fn formals(&mut self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        while !self.lexer.take(")") {
            let before = self.lexer.clone();
            let typed = self.ty().is_ok();
            let mut name = if typed { self.lexer.any_name() } else { None };
            if name.is_none() {
                self.lexer = before;
                name = Some(self.any_name()?);
            }
            names.extend(name);
            self.separator(")")?;
        }
        Ok(names)
    }
}

/// The nearest number; a value in the file, not a size.
#[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "the nearest is meant")]
const fn widen(n: i64) -> f64 {
    n as f64
}

/// The nearest number in single precision, as the file holds it.
#[expect(clippy::cast_possible_truncation, clippy::as_conversions, reason = "the nearest is meant")]
const fn narrow(x: f64) -> f32 {
    x as f32
}

fn float(attribute: &mut Message, x: f64) {
    attribute.float(2, narrow(x));
    attribute.int(20, 1);
}

fn value_info(name: &str, ty: &Type) -> Message {
    let mut tensor = Message::default();
    tensor.int(1, ty.code);
    if let Some(dims) = &ty.dims {
        let mut shape = Message::default();
        for dim in dims {
            let mut message = Message::default();
            match dim {
                Dim::Known(n) => message.int(1, *n),
                Dim::Named(name) => message.text(2, name),
                Dim::Unknown => {}
            }
            shape.message(1, &message);
        }
        tensor.message(2, &shape);
    }
    let mut of = Message::default();
    if ty.code != NO_TENSOR {
        of.message(1, &tensor);
    }
    let mut info = Message::default();
    info.text(1, name);
    info.message(2, &of);
    info
}

/// A tensor with its elements where they are all there and few.
fn tensor(name: &str, ty: &Type, data: Option<&Elements>) -> Message {
    let mut tensor = Message::default();
    for dim in ty.dims.iter().flatten() {
        // A weight of an open size is refused by the reader, which knows its name.
        tensor.int(1, if let Dim::Known(n) = dim { *n } else { -1 });
    }
    tensor.int(2, ty.code);
    tensor.text(8, name);
    let Some(data) = data.filter(|data| data.count > 0 && data.count <= ELEMENTS_KEPT) else {
        return tensor;
    };
    match ty.code {
        1 => tensor.floats(4, data.floats.iter().map(|&x| narrow(x))),
        2..=6 | 9 => tensor.ints(5, data.ints.iter().copied()),
        7 => tensor.ints(7, data.ints.iter().copied()),
        11 => tensor.doubles(10, data.floats.iter().copied()),
        12 | 13 => tensor.ints(11, data.ints.iter().copied()),
        _ => {}
    }
    tensor
}
