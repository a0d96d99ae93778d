//! Inference over real exports: everything is typed, as the exporter and as another batch would.

use std::collections::BTreeMap;
use std::path::Path;

use highwater_core::diagnostic::{Diagnostic, Diagnostics};
use highwater_core::graph::{Dim, Graph, Literal, ValueId};
use highwater_core::infer::{Typed, infer, open_dims};
use highwater_core::tensor::{DType, TensorType};
use highwater_core::{Severity, formats};

use crate::fixtures;

/// All models of the fixtures, by path.
fn models() -> Vec<(String, Graph)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models");
    let mut models = Vec::new();
    for folder in ["dynamo", "eval", "train"] {
        for entry in root.join(folder).read_dir().unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("models/{folder}/{name}");
            let bytes = fixtures::read(&path);
            models.push((path, formats::open(&mut bytes.as_slice(), &name).unwrap().graph));
        }
    }
    models.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(models.len() >= 9, "{}", models.len());
    models
}

/// Sizes for the open dimensions a graph has: this batch, 64 for the rest.
fn sizes(graph: &Graph, batch: u64) -> BTreeMap<String, u64> {
    let open = open_dims(graph).into_iter();
    open.map(|dim| (dim.name, if dim.batch { batch } else { 64 })).collect()
}

/// Types, and what was assumed or could not be typed.
fn typed(graph: &Graph, dims: &BTreeMap<String, u64>) -> (Typed, Vec<Diagnostic>) {
    let sink = Diagnostics::default();
    let typed = infer(graph, dims, &sink).unwrap();
    (typed, sink.into_sorted())
}

/// Types by name, of the values that `graph` gets from outside or makes.
fn by_name<'a>(graph: &'a Graph, typed: &'a Typed) -> BTreeMap<&'a str, &'a TensorType> {
    let all = graph.values.iter().zip(&typed.types);
    all.filter_map(|(value, ty)| Some((value.name.as_str(), ty.as_ref()?))).collect()
}

#[test]
fn fixtures_are_typed_as_they_state() {
    for (path, graph) in models() {
        let (typed, diagnostics) = typed(&graph, &sizes(&graph, 2));
        assert!(!typed.lower_bound, "{path}");
        let worst = diagnostics.iter().map(|diagnostic| diagnostic.severity).max();
        assert!(worst < Some(Severity::Error), "{path}: {diagnostics:?}");
        for (value, ty) in graph.values.iter().zip(&typed.types) {
            let ty = ty.as_ref().unwrap_or_else(|| panic!("{path}: {} has no type", value.name));
            let Some(declared) = &value.declared else { continue };
            assert_eq!(declared.dtype.unwrap_or(ty.dtype), ty.dtype, "{path}: {}", value.name);
            let Some(dims) = &declared.dims else { continue };
            let stated: Option<Vec<u64>> = dims
                .iter()
                .map(|dim| match dim {
                    Dim::Known(n) => Some(*n),
                    Dim::Named(name) => typed.dims.get(name).copied(),
                    Dim::Unknown => None,
                })
                .collect();
            if let Some(stated) = stated {
                assert_eq!(stated, *ty.dims, "{path}: {}", value.name);
            }
        }
    }
}

/// The graph as an exporter without open dimensions would have written it: all sizes are numbers,
/// and what follows from them is a constant.
fn baked(graph: &Graph, batch: u64) -> Graph {
    let (typed, _) = typed(graph, &sizes(graph, batch));
    let mut baked = graph.clone();
    for &id in &baked.inputs {
        let ty = typed.types[id.0].as_ref().unwrap();
        let declared = baked.values[id.0].declared.as_mut().unwrap();
        declared.dims = Some(ty.dims.iter().map(|&d| Dim::Known(d)).collect());
    }
    for (position, value) in baked.values.iter_mut().enumerate() {
        if let (Some(ty), Some(elements)) = (&typed.types[position], &typed.elements[position]) {
            let (dtype, dims) = (ty.dtype, ty.dims.clone());
            value.initializer =
                Some(Literal { dtype, dims: dims.into_vec(), elements: Some(elements.clone()) });
        }
    }
    let constant = |id: &Option<ValueId>| id.is_none_or(|ValueId(id)| typed.elements[id].is_some());
    baked.nodes.retain(|node| !node.outputs.iter().all(constant));
    baked
}

#[test]
fn a_fixed_batch_is_replaced_as_if_it_had_been_open() {
    for (path, graph) in models() {
        for (old, new) in [(1, 2), (2, 6), (3, 1)] {
            let fixed = baked(&graph, old);
            let given = BTreeMap::from([("batch".to_owned(), new)]);
            let (replaced, diagnostics) = typed(&fixed, &given);
            let (truth, _) = typed(&graph, &sizes(&graph, new));
            let (found, expected) = (by_name(&fixed, &replaced), by_name(&graph, &truth));
            for node in &fixed.nodes {
                for id in node.outputs.iter().flatten() {
                    let name = graph.value_name(*id);
                    let (found, expected) = (found[name], expected[name]);
                    // An attention mask built from the numbers 0 to N - 1 is a constant when N is.
                    let is_mask = found.dims.contains(&1) && expected.dims.contains(&64)
                        || found.dtype == DType::Bool;
                    if !is_mask {
                        assert_eq!(found, expected, "{path}: {name} of {} at {old}→{new}", node.op);
                    }
                }
            }
            assert!(!replaced.lower_bound, "{path} {diagnostics:?}");
        }
    }
}
