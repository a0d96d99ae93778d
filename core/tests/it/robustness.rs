//! Files that were answered wrongly: what the answer must state, and must not.
//!
//! `if.onnx` and `loop.onnx` are too large to keep; `control_flow` has their like.

use std::collections::BTreeMap;

use highwater_core::config::LossChoice;
use highwater_core::wording::headline;
use highwater_core::{Config, Optimizer, Report};

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
        ("o_bias_size", ("needs about", " fits", "float32[7] is not added", false)),
        ("o_bn_size", ("needs about", " fits", "float32[5]", false)),
        ("o_conv_groups", ("needs about", " fits", "8 channels are not 3 groups", false)),
        ("o_conv_kernel", ("needs about", " fits", "`kernel_shape` is [5, 5]", false)),
        ("o_negdim", ("needs about", " fits", "a dimension of -5", false)),
        ("o_vi_contra", ("needs about", " fits", "declares `m`", false)),
        ("o_vi_rank", ("needs about", " fits", "declares `m`", false)),
        ("o_w_bool", ("needs about", " fits", "float32 and bool", false)),
        ("o_w_int64", ("needs about", " fits", "float32 and int64", false)),
        ("pt_cnn__dynq", ("Warning: 3 quantized", " fits", "error [quantized-weights]", false)),
        ("pt_cnn_ts__qdq", ("Warning: 6 quantized", " fits", "error [quantized-weights]", false)),
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

/// Parameters of a file, and the peak of one step with batches of eight.
fn numbers(name: &str) -> (u64, u64) {
    let path = format!("robustness/{name}");
    let content = fixtures::unpack_or_read(&path);
    let model = highwater_core::open(&mut content.as_slice(), name).unwrap();
    let given =
        Config { dims: BTreeMap::from([("batch".to_owned(), 8)]), ..model.defaults().clone() };
    let report = model.estimate(&model.own_dims(&given).unwrap()).unwrap();
    let found = report.diagnostics.iter().map(|found| found.code.as_str());
    let open =
        found.filter(|code| ["unknown-operator", "unmodelled-operator"].contains(code)).count();
    assert_eq!(open, 0, "{name}: {:?}", report.diagnostics);
    (report.model.parameters, report.peak.allocated.0)
}

#[test]
fn what_exporters_and_their_tools_take_away_is_counted() {
    for (name, parameters) in [
        ("brev_s64.onnx", 8_320),
        ("equal_layers.onnx.gz", 229_416),
        ("kerasexport_mlp.onnx", 11_520),
        ("n_tr.onnx.gz", 195_944),
        ("pt_cnn__slim.onnx", 2_970),
        ("r_keras_cnn.onnx", 3_162),
        ("resh_const.onnx", 608),
        ("resh_init.onnx", 608),
        ("simplified.onnx", 5_466),
        ("skl_mlp.onnx", 739),
        ("skl_pipe_mlpreg.onnx", 705),
        ("slim_of_calls.onnx", 5_466),
        ("slim_of_rewritten.onnx", 5_514),
    ] {
        assert_eq!(numbers(name).0, parameters, "{name}");
    }
    // The model before onnxslim folded its normalisations, in PyTorch; and the two ways to write one model.
    assert_eq!(numbers("pt_cnn__slim.onnx").1, 10_769_408);
    assert_eq!(numbers("r_keras_cnn.onnx"), numbers("r_cnn.keras"));
    assert_eq!(numbers("resh_const.onnx"), numbers("resh_init.onnx"));
}

#[test]
fn gradients_stop_where_the_program_stops_them() {
    // Three steps of SGD with PyTorch's allocator, cross-entropy: 340.30, 304.26 and 96.26 MiB.
    for (name, peak) in [("plain", 356_833_792), ("detach", 319_038_464), ("no_grad", 100_934_656)]
    {
        let content = fixtures::unpack(&format!("robustness/stopped_{name}.pt2.gz")).unwrap();
        let model = highwater_core::open(&mut content.as_slice(), name).unwrap();
        let config = Config {
            optimizer: Optimizer::Sgd,
            loss: LossChoice::CrossEntropy,
            ..Config::default()
        };
        let report = model.estimate(&config).unwrap();
        assert_eq!(report.peak.allocated.0, peak, "{name}");
    }
}

#[test]
fn every_file_is_looked_at() {
    // Refused, or read by other tests: configurations, specs, prints and weights.
    const ELSEWHERE: [&str; 4] = [".json", ".yaml", ".txt", ".safetensors"];
    const HERE: &str = include_str!("robustness.rs");
    for name in fixtures::names("robustness") {
        let is_elsewhere = ELSEWHERE.iter().any(|end| name.ends_with(end));
        let stem = name.trim_start_matches("robustness/").split('.').next().unwrap_or_default();
        let stem = stem.strip_prefix("stopped_").unwrap_or(stem);
        assert!(is_elsewhere || HERE.contains(&format!("\"{stem}")), "{name} has no row");
    }
}
