//! Tensor parallelism of transformers, against PyTorch's own allocations for one rank.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::Config;
use highwater_core::formats::catalogue;

use crate::runs::{self, Run, table};

/// COUNT: hundredths of a percent that an answer may be off, and that half of them may be.
const WORST: i64 = 100;
const USUAL: u64 = 10;

#[test]
fn peaks_are_those_of_a_rank() {
    let mut page = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes of a \
                    rank, each with\nthe error of ours (`=`: to the byte).\n\n"
        .to_owned();
    let mut errors = Vec::new();
    for cells in &table("ranks/tensor.csv") {
        let run = Run::of(cells);
        let model = open(&run.model);
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let report = model.estimate(&run.configuration_over(&model, &defaults).unwrap()).unwrap();
        let truth = |what: &str| -> u64 {
            (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max().unwrap()
        };
        let ours = [report.peak.allocated.0, report.peak.reserved.0];
        let [allocated, reserved] = [truth("allocated"), truth("reserved")];
        let error = runs::error(ours[0], allocated);
        assert!(error.abs() <= WORST, "{run:?}: {} of {allocated}", ours[0]);
        errors.push(error.unsigned_abs());
        let Run { model, batch, seq, settings } = run;
        writeln!(
            page,
            "{model} {batch} {} {settings}\n    {allocated} {}, {reserved} {}",
            seq.unwrap_or_default(),
            runs::signed(ours[0], allocated),
            runs::signed(ours[1], reserved),
        )
        .unwrap();
    }
    errors.sort_unstable();
    assert!(runs::median(&errors) <= USUAL, "{errors:?}");
    expect_file!["../../../tests/fixtures/ranks/tensor-errors.txt"].assert_eq(&page);
}

fn open(name: &str) -> highwater_core::Model {
    let entry = catalogue::find(name).expect("a name of the catalogue");
    highwater_core::open(&mut entry.configuration().as_bytes(), "config.json").unwrap()
}

/// What is said of a mesh that cannot be.
fn refusal(name: &str, mesh: &str) -> String {
    let model = open(name);
    let config = Config { mesh: mesh.parse().unwrap(), ..model.defaults().clone() };
    model.estimate(&config).expect_err("a mesh that cannot be").to_string()
}

#[test]
fn what_cannot_be_divided_is_refused() {
    assert_eq!(
        refusal("smollm2-135m", "tp=2"),
        "9 `num_attention_heads` cannot be divided by 2 ranks: choose a `tp` that divides the heads"
    );
    assert_eq!(
        refusal("qwen2.5-0.5b", "tp=7"),
        "2 `num_key_value_heads` cannot be divided by 7 ranks: choose a `tp` that divides the heads"
    );
    assert_eq!(
        refusal("gpt2", "tp=2"),
        "how transformers divides layers of the family gpt2 is not known here: leave `tp` out of the mesh; families \
         such as llama, mistral, qwen2, qwen3, gemma, phi3 and olmo2 can be divided"
    );
    assert_eq!(
        refusal("qwen2.5-0.5b", "dp=2,tp=2"),
        "tensor parallel and data parallel together are not simulated yet: of the mesh, estimate tp=2 on 2 GPUs with \
         data-parallel auto"
    );
}
