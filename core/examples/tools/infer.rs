//! Types every value of the given ONNX files and compares with what the files state.
//!
//! `cargo run --release -p highwater-core --example tools -- infer batch=2 seq=64 model.onnx…`
#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example does I/O")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use highwater_core::diagnostic::Diagnostics;
use highwater_core::graph::{Dim, Graph};
use highwater_core::infer::{Typed, infer, open_dims};
use highwater_core::{Severity, formats};

use crate::Result;

/// Statements of a file against inference: alike, different, and not a number.
#[derive(Default)]
struct Tally {
    alike: usize,
    different: usize,
    open: usize,
    untyped: usize,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut given = BTreeMap::new();
    let mut totals = Tally::default();
    let mut slowest = (Duration::ZERO, "");
    let mut n_files = 0_usize;
    for &argument in arguments {
        if let Some((name, size)) = argument.split_once('=') {
            given.insert(name.to_owned(), size.parse::<u64>()?);
            continue;
        }
        let bytes = std::fs::read(argument)?;
        let graph = formats::open(&mut bytes.as_slice(), argument)?.graph;
        let mut dims = BTreeMap::new();
        for open in open_dims(&graph) {
            dims.extend(given.get(&open.name).map(|&size| (open.name, size)));
        }
        let sink = Diagnostics::default();
        let typed = infer(&graph, &dims, &sink)?;
        let diagnostics = sink.into_sorted();
        let best = (0..5).map(|_| {
            let start = Instant::now();
            let again = infer(&graph, &dims, &Diagnostics::default()).is_ok();
            if again { start.elapsed() } else { Duration::MAX }
        });
        let time = best.min().unwrap_or_default();
        let tally = compare(&graph, &typed);
        let bad = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        println!(
            "{argument}: {} nodes, {} values, {time:?}; stated types alike {}, different {}, \
             open {}; untyped {}, errors {bad}",
            graph.nodes.len(),
            graph.values.len(),
            tally.alike,
            tally.different,
            tally.open,
            tally.untyped,
        );
        for diagnostic in &diagnostics {
            println!("    {diagnostic} ({})", diagnostic.node.as_deref().unwrap_or(""));
        }
        n_files += 1;
        totals.alike += tally.alike;
        totals.different += tally.different;
        totals.open += tally.open;
        totals.untyped += tally.untyped;
        if time > slowest.0 {
            slowest = (time, argument);
        }
    }
    println!(
        "{n_files} files: alike {}, different {}, open {}, untyped {}; slowest {:?} {}",
        totals.alike, totals.different, totals.open, totals.untyped, slowest.0, slowest.1
    );
    Ok(())
}

fn compare(graph: &Graph, typed: &Typed) -> Tally {
    let mut tally = Tally::default();
    for (value, ty) in graph.values.iter().zip(&typed.types) {
        let Some(ty) = ty else {
            tally.untyped += 1;
            continue;
        };
        let Some(stated) = value.declared.as_ref().and_then(|declared| declared.dims.as_ref())
        else {
            continue;
        };
        let sizes: Option<Vec<u64>> = stated.iter().map(|dim| number(dim, &typed.dims)).collect();
        let dtype = value.declared.as_ref().and_then(|declared| declared.dtype);
        match sizes {
            None => tally.open += 1,
            Some(sizes) if sizes == *ty.dims && dtype.is_none_or(|dtype| dtype == ty.dtype) => {
                tally.alike += 1;
            }
            Some(sizes) => {
                tally.different += 1;
                if tally.different < 4 {
                    println!("    {} is {ty}, stated {dtype:?}{sizes:?}", value.name);
                }
            }
        }
    }
    tally
}

fn number(dim: &Dim, dims: &BTreeMap<String, u64>) -> Option<u64> {
    match dim {
        Dim::Known(n) => Some(*n),
        Dim::Named(name) => dims.get(name).copied(),
        Dim::Unknown => None,
    }
}
