//! What an answer says it rests on.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use highwater_core::{Config, wording};

use crate::fixtures;

/// The input's fidelity, and what the peak of training with SGD rests on.
fn check(file: &str, batch: u64, expected: &Expect) {
    let content = fixtures::unpack(file).unwrap_or_else(|| panic!("{file} is missing"));
    let model =
        highwater_core::open(&mut content.as_slice(), file.trim_end_matches(".gz")).unwrap();
    let mut config = Config { dims: [("batch".to_owned(), batch)].into(), ..Config::default() };
    config.set("optimizer", "sgd").unwrap();
    let report = model.estimate(&config).unwrap();
    let certainty = report.certainty.as_ref().unwrap();
    assert_eq!(certainty.total(), report.at_peak.total(), "{file}");
    let mut text = format!(
        "{}: {}\n",
        report.model.recognised.fidelity.label(),
        wording::answer::certainty(certainty)
    );
    for part in certainty.at_peak() {
        writeln!(text, "{} {}", part.bytes, part.reason).unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn a_program_states_everything() {
    check(
        "zoo/pt2/resnet18.pt2.gz",
        8,
        &expect![[r#"
            exact graph: >99 % of the peak follows rules proven against PyTorch.
        "#]],
    );
}

#[test]
fn what_an_exporter_took_apart_is_recovered() {
    check(
        "zoo/train/distilbert.onnx.gz",
        8,
        &expect![[r#"
            graph: 18 % of the peak follows rules proven against PyTorch, 40 % follows structure recovered from the file, and 42 % follows assumptions.
            1.40 GiB assumed: the loss that the output suggests
            1.33 GiB recovered: operators that the exporter decomposed
        "#]],
    );
}

#[test]
fn dropout_that_left_no_trace_is_assumed() {
    check(
        "zoo/eval/distilbert.onnx.gz",
        8,
        &expect![[r#"
            graph: 17 % of the peak follows rules proven against PyTorch, 38 % follows structure recovered from the file, and 45 % follows assumptions.
            1.40 GiB assumed: the loss that the output suggests
            106.13 MiB assumed: dropout where such models usually have it
            1.26 GiB recovered: operators that the exporter decomposed
        "#]],
    );
}

#[test]
fn folded_normalisation_is_recovered() {
    check(
        "zoo/eval/resnet18.onnx.gz",
        8,
        &expect![[r#"
            graph: 43 % of the peak follows rules proven against PyTorch, and 57 % follows structure recovered from the file.
            147.94 MiB recovered: normalisation that the exporter folded into weights
        "#]],
    );
}
