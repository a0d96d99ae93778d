//! Adapters, quantised weights and optimizers of bitsandbytes, against peft and bitsandbytes in PyTorch.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::Config;

use crate::fixtures;
use crate::runs::{self, Run, table};

/// Every run that was recorded, with what is predicted for it.
#[test]
fn peaks_are_those_of_peft_and_bitsandbytes() {
    let mut page = String::new();
    let mut worst = 0;
    for cells in &table("adapters/truth.csv") {
        let text = fixtures::read(&format!("hf_config/{}.json", cells["model"]));
        let model = highwater_core::open(&mut text.as_slice(), "config.json").unwrap();
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let config = Run::of(cells).configuration_over(&model, &defaults).unwrap();
        let peak = model.estimate(&config).unwrap().peak;
        let truth = |what: &str| -> u64 {
            (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max().unwrap()
        };
        let (allocated, reserved) = (truth("allocated"), truth("reserved"));
        worst = worst.max(runs::error(peak.allocated.0, allocated).abs());
        writeln!(
            page,
            "{} {} {} {}\n    {allocated} {}, {reserved} {}",
            cells["model"],
            cells["batch"],
            cells["seq"],
            cells["settings"],
            runs::signed(peak.allocated.0, allocated),
            runs::signed(peak.reserved.0, reserved),
        )
        .unwrap();
    }
    let head = "Configurations: batch, length and settings; then true allocated and reserved bytes, each with the\n\
                error of ours (`=`: to the byte).\n";
    expect_file!["../../../tests/fixtures/adapters/errors.txt"]
        .assert_eq(&format!("{head}\n{page}"));
    assert!(worst <= 100, "{worst} hundredths of a percent");
}
