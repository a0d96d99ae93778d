//! The node cases of the package `onnx`: every operator, its shapes against those of the examples.
//!
//! `tests/oracle/node_cases.py` packs them. `tests/onnx-cases.txt` counts how they are answered;
//! `NODE_CASES=FILE` writes what is said of each that is not known.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect_file;
use highwater_core::diagnostic::Diagnostics;
use highwater_core::estimate::Everything;
use highwater_core::formats;
use highwater_core::unroll::unroll;
use highwater_core::{Config, Model};
use serde::Deserialize;

use crate::fixtures;

/// A case: its name, its operator, the size of its model, and the shapes of its outputs, `None` for those that
/// are no tensors.
#[derive(Deserialize)]
struct Case {
    name: String,
    operator: String,
    size: usize,
    outputs: Vec<Option<Vec<u64>>>,
}

/// How a case is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    /// All is known.
    Known,
    /// The memory of an operator, or of its gradient, is assumed.
    Assumed,
    /// A shape is unknown.
    Unknown,
    /// An operator is.
    Unsupported,
    /// An error says why there is no answer.
    Refused,
    /// A shape differs from the example's, and nothing says so.
    Wrong,
}

const COLUMNS: [(Answer, &str); 6] = [
    (Answer::Known, "known"),
    (Answer::Assumed, "memory assumed"),
    (Answer::Unknown, "shape unknown"),
    (Answer::Unsupported, "unsupported"),
    (Answer::Refused, "refused"),
    (Answer::Wrong, "WRONG"),
];

fn cases() -> Vec<(Case, Vec<u8>)> {
    let pack = fixtures::unpack_or_read("onnx-cases.gz");
    let (mut rest, mut cases) = (pack.as_slice(), Vec::new());
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let case: Case = serde_json::from_slice(&rest[..end]).expect("a case");
        let model = &rest[end + 1..][..case.size];
        rest = &rest[end + 1 + case.size..];
        cases.push((case, model.to_vec()));
    }
    cases
}

/// The answer for a case, and what is said of it.
fn answer(case: &Case, model: &[u8]) -> (Answer, String) {
    let opened = match formats::open(&mut &*model, &format!("{}.onnx", case.name)) {
        Ok(opened) => opened,
        Err(error) => return (Answer::Refused, error.to_string()),
    };
    if let Some(wrong) = wrong_shape(case, &opened.graph) {
        return (Answer::Wrong, wrong);
    }
    match Model::new(&case.name, opened, Arc::new(Everything)).estimate(&Config::default()) {
        Err(error) => (Answer::Refused, error.to_string()),
        Ok(report) => {
            let kind = |code: &str| match code {
                "unknown-operator" => Some(Answer::Unsupported),
                "shape-unknown" | "control-flow" => Some(Answer::Unknown),
                "unmodelled-operator" => Some(Answer::Assumed),
                _ => None,
            };
            let found = report.diagnostics.iter();
            let found = found.filter_map(|it| Some((kind(&it.code)?, it.message.to_string())));
            found.max_by_key(|(answer, _)| *answer).unwrap_or((Answer::Known, String::new()))
        }
    }
}

/// A shape that is not the example's, where nothing says that it is unknown.
fn wrong_shape(case: &Case, graph: &highwater_core::graph::Graph) -> Option<String> {
    let sink = Diagnostics::default();
    let (graph, typed) = unroll(Arc::new(graph.clone()), &BTreeMap::new(), &sink).ok()?;
    if typed.lower_bound {
        return None;
    }
    // An assumed size, number of rounds or branch is said.
    let told = ["data-dependent-size", "assumed-trips", "unknown-trips", "assumed-branch"];
    let is_told = sink.into_sorted().iter().any(|it| told.contains(&it.code.as_ref()));
    let pairs = graph.outputs.iter().zip(&case.outputs);
    pairs.filter(|_| !is_told).find_map(|(&output, expected)| {
        // A file's dimension of 0 is read as an open one.
        let expected = expected.as_ref().filter(|dims| !dims.contains(&0))?;
        let ty = typed.ty(output)?;
        let differs = ty.dims.as_slice() != expected.as_slice();
        differs.then(|| format!("{ty} where the example has {expected:?}"))
    })
}

#[test]
fn node_cases_are_answered() {
    let mut table = BTreeMap::<String, BTreeMap<Answer, usize>>::new();
    let mut told = String::new();
    for (case, model) in cases() {
        let (answer, why) = answer(&case, &model);
        for row in [&case.operator, "all"] {
            *table.entry(row.to_owned()).or_default().entry(answer).or_default() += 1;
        }
        if answer != Answer::Known {
            let word = COLUMNS.iter().find(|(of, _)| *of == answer).expect("a column").1;
            writeln!(told, "{} ({}): {word}: {why}", case.name, case.operator).expect("text");
        }
    }
    if let Some(file) = std::env::var_os("NODE_CASES") {
        std::fs::write(file, &told).expect("a file that can be written");
    }
    let mut text = format!("{:32} {:>5}", "operator", "cases");
    for (_, word) in COLUMNS {
        write!(text, " {word:>14}").expect("text");
    }
    let all = table.remove("all").expect("cases");
    for (operator, counts) in table.iter().chain([(&"all".to_owned(), &all)]) {
        write!(text, "\n{operator:32} {:>5}", counts.values().sum::<usize>()).expect("text");
        for (answer, _) in COLUMNS {
            let count = counts.get(&answer).map_or(String::new(), usize::to_string);
            write!(text, " {count:>14}").expect("text");
        }
    }
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    expect_file!["../../../tests/onnx-cases.txt"].assert_eq(&(lines.join("\n") + "\n"));
    assert_eq!(all.get(&Answer::Wrong), None, "shapes are wrong: {told}");
}
