//! Small graphs, written as nodes over named values.

use std::sync::Arc;

use super::*;
use crate::graph::{Attribute, DeclaredType, Dim, Literal, Value};
use crate::tensor::DType;

/// A graph under construction: values are named, and made on first use.
#[derive(Default)]
struct Sketch(Graph);

impl Sketch {
    fn id(&mut self, name: &str) -> ValueId {
        if let Some(position) = self.0.values.iter().position(|value| value.name == name) {
            return ValueId(position);
        }
        self.0.values.push(Value { name: name.to_owned(), ..Value::default() });
        ValueId(self.0.values.len() - 1)
    }

    /// `input("x", "batch,3,?")`.
    fn input(mut self, name: &str, dims: &str) -> Self {
        let id = self.id(name);
        let dims = dims.split(',').filter(|part| !part.is_empty()).map(|part| match part {
            "?" => Dim::Unknown,
            _ => part.parse().map_or_else(|_| Dim::Named(part.to_owned()), Dim::Known),
        });
        let declared = DeclaredType { dtype: Some(DType::Float32), dims: Some(dims.collect()) };
        self.0.values[id.0].declared = Some(declared);
        self.0.inputs.push(id);
        self
    }

    fn weight(mut self, name: &str, dims: &[u64]) -> Self {
        let id = self.id(name);
        let literal = Literal { dtype: DType::Float32, dims: dims.to_vec(), elements: None };
        self.0.values[id.0].initializer = Some(literal);
        self
    }

    fn ints(mut self, name: &str, list: &[i64]) -> Self {
        let id = self.id(name);
        let dims = vec![u64::try_from(list.len()).unwrap()];
        let elements = Some(Elements::Ints(list.to_vec()));
        self.0.values[id.0].initializer = Some(Literal { dtype: DType::Int64, dims, elements });
        self
    }

    /// `node("MatMul", "x w", "y")`; the last node's outputs are the graph's.
    fn node(self, op: &str, inputs: &str, outputs: &str) -> Self {
        self.with(op, inputs, outputs, &[])
    }

    fn with(
        mut self,
        op: &str,
        inputs: &str,
        outputs: &str,
        attributes: &[(&str, Attribute)],
    ) -> Self {
        let inputs = inputs.split_whitespace().map(|name| Some(self.id(name))).collect();
        let outputs: Vec<_> = outputs.split_whitespace().map(|name| Some(self.id(name))).collect();
        self.0.outputs = outputs.iter().copied().flatten().collect();
        let attributes = attributes.iter().map(|(name, a)| ((*name).to_owned(), a.clone()));
        self.0.nodes.push(Arc::new(Node {
            op: op.to_owned(),
            inputs,
            outputs,
            attributes: attributes.collect(),
            ..Node::default()
        }));
        self.0.opset = 20;
        self
    }

    fn infer(&self, dims: &[(&str, u64)]) -> Result<(Typed, Vec<Diagnostic>), Error> {
        let sink = Diagnostics::default();
        let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size)).collect();
        let typed = infer(&self.0, &dims, &sink)?;
        Ok((typed, sink.into_sorted()))
    }

    fn ty(&self, typed: &Typed, name: &str) -> String {
        let position = self.0.values.iter().position(|value| value.name == name).unwrap();
        typed.types[position].as_ref().map_or_else(|| "?".to_owned(), ToString::to_string)
    }
}

fn codes(found: &[Diagnostic]) -> Vec<&str> {
    found.iter().map(|diagnostic| diagnostic.code.as_str()).collect()
}

#[test]
fn names_get_numbers_or_stated_defaults() {
    let sketch = Sketch::default()
        .input("ids", "batch,seq")
        .input("decoder_ids", "batch,dec_seq")
        .input("image", "?,3,height,?")
        .input("scan", "batch,1,any,s77")
        .node("Identity", "ids", "y");
    let open = open_dims(&sketch.0);
    let summary: Vec<_> =
        open.iter().map(|dim| (dim.name.as_str(), dim.default, dim.batch)).collect();
    let expected = [
        ("batch", 1, true),
        ("seq", 512, false),
        ("dec_seq", 512, false),
        ("height", 224, false),
        ("image:3", 224, false),
        ("any", 224, false),
        ("s77", 224, false),
    ];
    assert_eq!(summary, expected);
    assert_eq!(open[0].inputs, ["ids", "decoder_ids", "image", "scan"]);

    let (typed, found) = sketch.infer(&[("seq", 64)]).unwrap();
    assert_eq!(sketch.ty(&typed, "decoder_ids"), "float32[1, 64]");
    assert_eq!(sketch.ty(&typed, "image"), "float32[1, 3, 224, 224]");
    assert_eq!(codes(&found), ["assumed-dimension"; 6]);
    assert_eq!(typed.dims.len(), 7);
}

#[test]
fn absurd_and_unknown_dimensions_are_refused() {
    let sketch = Sketch::default().input("x", "batch,1000000").node("Relu", "x", "y");
    let check = |dims: &[(&str, u64)], kind, part: &str| {
        let error = sketch.infer(dims).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(part), "{error}");
    };
    check(&[("seq", 1)], ErrorKind::BadConfig, "it has `batch`");
    check(&[("batch", 0)], ErrorKind::BadConfig, "`batch` is 0");
    check(&[("batch", 1 << 32)], ErrorKind::BadConfig, "`batch` is 4294967296");
    check(&[("batch", 1 << 31)], ErrorKind::TooLarge, "batch = 2147483648");
}

#[test]
fn state_that_is_too_large_to_count_is_refused() {
    let check = |sketch: Sketch, part: &str| {
        let error = sketch.node("Relu", "x", "y").infer(&[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains(part), "{error}");
    };
    let sketch = || Sketch::default().input("x", "8");
    check(
        sketch().weight("w", &[1 << 31, 1 << 31]),
        "`w` would be float32[2147483648, 2147483648]",
    );
    let half = [1 << 25, 1 << 24];
    let many =
        ["a", "b", "c"].into_iter().fold(sketch(), |sketch, name| sketch.weight(name, &half));
    check(many, "with `c`, float32[33554432, 16777216], the model would have more than");
}

#[test]
fn the_batch_has_an_alias() {
    let sketch = Sketch::default().input("x", "s0,8").node("Relu", "x", "y");
    let (typed, _) = sketch.infer(&[("batch", 5)]).unwrap();
    assert_eq!(sketch.ty(&typed, "y"), "float32[5, 8]");
    assert!(sketch.infer(&[("batch", 5), ("s0", 5)]).is_err());
    // A second batch follows the first, and lengths have an alias too.
    let sketch = Sketch::default()
        .input("a", "batch_a,encoder_sequence_length")
        .input("b", "batch_b,decoder_sequence_length")
        .node("Relu", "a", "x")
        .node("Relu", "b", "y");
    let (typed, _) = sketch.infer(&[("batch", 5), ("seq", 7)]).unwrap();
    assert_eq!(sketch.ty(&typed, "x"), "float32[5, 7]");
    assert_eq!(sketch.ty(&typed, "y"), "float32[5, 7]");
    // So does a dimension without a telling name, if it always stands in front.
    let sketch = Sketch::default()
        .input("a", "s0,8")
        .input("b", "s1,8,s2")
        .input("c", "s1,s2")
        .node("Relu", "b", "y");
    let (typed, found) = sketch.infer(&[("batch", 5)]).unwrap();
    assert_eq!(sketch.ty(&typed, "y"), "float32[5, 8, 1]");
    assert_eq!(codes(&found), ["assumed-dimension"; 2]);
}

#[test]
fn shape_arithmetic_is_folded() {
    let sketch = Sketch::default()
        .input("x", "batch,12,seq,64")
        .ints("zero", &[0])
        .ints("two", &[2])
        .ints("rest", &[-1])
        .ints("minus", &[-9_223_372_036_854_775_807])
        .node("Shape", "x", "shape")
        .node("Gather", "shape zero", "n")
        .node("Slice", "shape two rest", "l")
        .node("Mul", "n l", "nl")
        .with("Concat", "nl rest", "target", &[("axis", Attribute::Int(0))])
        .node("Reshape", "x target", "y");
    let (typed, found) = sketch.infer(&[("batch", 2), ("seq", 10)]).unwrap();
    assert_eq!(sketch.ty(&typed, "y"), "float32[20, 768]");
    assert!(found.is_empty());
    assert!(!typed.lower_bound);
}

/// The target of a `Reshape` of `[batch, seq, 256]`, and its result; none where nothing fits.
#[test]
fn an_open_dimension_that_became_an_axis_is_opened_again() {
    let cases: [(&[i64], Option<&str>); 5] = [
        (&[4, 512, 3, 64], Some("float32[4, 512, 4, 64]")),
        (&[4, 512, 2, 64], Some("float32[4, 512, 4, 64]")),
        (&[4, 512, 4, 64], Some("float32[4, 512, 4, 64]")),
        (&[4, 512, 2, 2], None),
        (&[4, 512, 5, 64], None),
    ];
    for (target, expected) in cases {
        let sketch = Sketch::default()
            .input("x", "batch,512,256")
            .ints("target", target)
            .node("Reshape", "x target", "y");
        let (typed, found) = sketch.infer(&[("batch", 4)]).unwrap();
        let is_stated = target.iter().product::<i64>() == 4 * 512 * 256;
        let code = if expected.is_none() { "shape-unknown" } else { "restored-shape" };
        let code: &[&str] = if is_stated { &[] } else { &[code] };
        assert_eq!(codes(&found), code, "{target:?}");
        assert_eq!(typed.lower_bound, expected.is_none(), "{target:?}");
        expected.inspect(|expected| assert_eq!(sketch.ty(&typed, "y"), *expected, "{target:?}"));
    }
}

#[test]
fn gaps_are_reported_and_bridged() {
    let sketch = Sketch::default()
        .input("x", "batch,8")
        .weight("w", &[9, 4])
        .node("Frobnicate", "x", "a")
        .node("Frobnicate", "a", "b")
        .node("MatMul", "b w", "c")
        .node("Relu", "c", "y");
    let (typed, found) = sketch.infer(&[("batch", 2)]).unwrap();
    assert_eq!(codes(&found), ["shape-unknown", "unknown-operator"]);
    assert!(typed.lower_bound);
    assert_eq!(sketch.ty(&typed, "y"), "float32[2, 8]");
    let messages: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert!(messages[0].contains("MatMul(float32[2, 8], float32[9, 4])"), "{messages:?}");
    assert!(messages[1].contains("2 nodes"), "{messages:?}");
}

#[test]
fn a_fixed_batch_can_be_replaced() {
    let sketch = Sketch::default()
        .input("x", "1,64,768")
        .weight("token", &[1, 1, 768])
        .ints("heads", &[1, 65, 12, 64])
        .ints("merged", &[12, 65, 64])
        .with("Concat", "token x", "joined", &[("axis", Attribute::Int(1))])
        .node("Reshape", "joined heads", "split")
        .with("Transpose", "split", "turned", &[("perm", Attribute::Ints(vec![0, 2, 1, 3]))])
        .node("Reshape", "turned merged", "y");
    let open = open_dims(&sketch.0);
    assert_eq!((open[0].name.as_str(), open[0].default, open[0].batch), ("batch", 1, true));
    let (typed, found) = sketch.infer(&[("batch", 4)]).unwrap();
    assert_eq!(sketch.ty(&typed, "joined"), "float32[4, 65, 768]");
    assert_eq!(sketch.ty(&typed, "y"), "float32[48, 65, 64]");
    assert_eq!(codes(&found), ["rebatched", "rebatched"]);
    assert!(!typed.lower_bound);
    let (typed, found) = sketch.infer(&[]).unwrap();
    assert_eq!(sketch.ty(&typed, "y"), "float32[12, 65, 64]");
    assert!(found.is_empty());
}

#[test]
fn inputs_need_a_shape() {
    let mut sketch = Sketch::default().input("x", "batch,8").node("Relu", "x", "y");
    sketch.0.values[0].declared = None;
    let error = sketch.infer(&[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidGraph);
}
