//! Files that were answered wrongly: what the answer must state, and must not.
//!
//! `if.onnx` and `loop.onnx` are too large to keep; `control_flow` has their like.

use highwater_core::wording::headline;
use highwater_core::{Config, Report};

use crate::fixtures;
use crate::onnx_writer::{self, FLOAT, graph, node, tensor};

/// The answer on a T4: the headline, a line for each diagnostic, and whether `--require t4` accepts it.
fn answer(name: &str) -> (String, String, bool) {
    let content = fixtures::read(&format!("robustness/{name}.onnx"));
    let model = match highwater_core::open(&mut content.as_slice(), name) {
        Ok(model) => model,
        Err(error) => return (error.to_string(), String::new(), false),
    };
    let config = Config { device: "t4".to_owned(), ..Config::default() };
    let report: Report = match model.estimate(&config) {
        Ok(report) => report,
        Err(error) => return (error.to_string(), String::new(), false),
    };
    let said = headline(&report, None);
    let rest = said.rest.iter().map(|sentence| format!(" {sentence}"));
    let found = report.diagnostics.iter().map(|found| format!("{found}\n"));
    let headline = format!("{}{}", said.lead, rest.collect::<String>());
    (headline, found.collect(), report.verdict.verdict.survives())
}

/// What the headline has, what it lacks, what the diagnostics have, whether `--require` accepts it.
#[track_caller]
fn check(name: &str, (has, lacks, found, passes): (&str, &str, &str, bool)) {
    let (headline, diagnostics, survives) = answer(name);
    assert!(headline.contains(has), "{name}: {headline}");
    assert!(lacks.is_empty() || !headline.contains(lacks), "{name}: {headline}");
    assert!(diagnostics.contains(found), "{name}: {diagnostics}");
    assert_eq!(survives, passes, "{name}: {headline}");
}

#[test]
fn files_are_answered_as_their_users_need_it() {
    for (name, row) in [
        (
            "a04b_if_branch_256GB_not_taken",
            ("needs about", " fits", "else branch is assumed", false),
        ),
        ("a04c_if_branch_taken", ("needs about", " fits", "then branch is assumed", false)),
        ("a10e_unused_120GB_initializer", ("111.76 GiB of param", " fits", "`emb.weight`", false)),
        (
            "a10f_dead_gemm_120GB",
            ("119.21 GiB of param", " fits", "1.86 GiB are not counted", false),
        ),
        (
            "a10g_dead_activation_256GB",
            ("476.84 GiB are not counted", " fits", "error [unused] 476.84", false),
        ),
        ("a12_raw_short", ("Warning: \"fc.weight\"", " fits", "\"fc.weight\" has 16 bytes", false)),
        ("a13_declared_output_wrong", ("needs about", " fits", "`y` as [N, 7]", false)),
        ("a19b_mixed_types", ("needs about", " fits", "float32 and float16", false)),
        ("dft_irfft", ("needs at least", " fits", "float32[1, 10, 10, 1]", false)),
        ("huge_initializer_fits_all", ("`decay` would be", " fits", "", false)),
        ("hugew", ("`fc.weight` would be", " fits", "", false)),
        ("if_loses_all_weights", ("needs about", " fits", "assumed-branch", false)),
        ("int8qdq", ("needs at least", " fits", "1 quantized weights (2.00 KiB)", false)),
        ("intonly", ("needs at least", " fits", "no output is floating-point", false)),
        ("lstm_overflow", ("Does not fit", " fits", "", false)),
        ("resize_constant_node", ("fits", "", "", true)),
        ("resize_constant_node_ok", ("fits", "", "", true)),
        ("scan", ("fits", "", "", true)),
        ("twobatch", ("fits", "", "`batch_b` of x2 is assumed to be 1, and follows", true)),
    ] {
        check(name, row);
    }
}

#[test]
fn names_of_constants_change_nothing() {
    let numbers = |name: &str| {
        let content = fixtures::read(&format!("robustness/{name}.onnx"));
        let model = highwater_core::open(&mut content.as_slice(), name).unwrap();
        let report = model.estimate(&Config::default()).unwrap();
        (report.model.parameters, report.model.buffer_bytes, report.peak.allocated)
    };
    assert_eq!(numbers("resize_constant_node"), numbers("resize_constant_node_ok"));
    assert_eq!(numbers("resize_constant_node").0, 8 * 3 * 3 * 3);
    assert_eq!(numbers("if_loses_all_weights").0, 2 * 64 * 64);
}

#[test]
fn bytes_that_were_not_read_are_compared_with_dimensions() {
    for (bytes, differs) in [(0, false), (64 * 64 * 4, false), (4096, true), (100, true)] {
        let weight = tensor("w", FLOAT, &[4, 1024]).hole(9, bytes);
        let nodes = [node("MatMul", &["x", "w"], &["y"])];
        let content = onnx_writer::model(graph(&nodes, &[weight], &["y"])).to_bytes();
        let model = highwater_core::open(&mut content.as_slice(), "net.onnx").unwrap();
        let report = model.estimate(&Config::default()).unwrap();
        let found = report.diagnostics.iter().any(|found| found.code == "data-size");
        assert_eq!(found, differs, "{bytes}");
    }
}

#[test]
fn parameters_on_the_meta_device_are_not_tied() {
    // PyTorch writes all of them into one file of no bytes.
    let content = fixtures::unpack("robustness/meta.pt2.gz").unwrap();
    let model = highwater_core::open(&mut content.as_slice(), "meta.pt2").unwrap();
    let report = model.estimate(&Config::default()).unwrap();
    assert_eq!(report.model.parameters, (8 * 16 + 16) + (16 * 4 + 4));
}
