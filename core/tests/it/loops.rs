//! Training loops of libraries, losses without logits, and Liger's kernels, against the libraries themselves.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::Config;
use highwater_core::formats::catalogue;

use crate::runs::{self, Run, table};

/// COUNT: hundredths of a percent that an answer may be off. Numbers on the device, such as a counter of tokens, are
/// not simulated.
const WORST: i64 = 100;

#[test]
fn peaks_are_those_of_the_libraries() {
    let mut page = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes, each \
                    with the\nerror of ours (`=`: to the byte).\n\n"
        .to_owned();
    for cells in &table("loops/truth.csv") {
        let entry = catalogue::find(&cells["model"]).expect("a name of the catalogue");
        let model =
            highwater_core::open(&mut entry.configuration().as_bytes(), "config.json").unwrap();
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let run = Run::of(cells);
        let report = model.estimate(&run.configuration_over(&model, &defaults).unwrap()).unwrap();
        let truth = |what: &str| -> u64 {
            (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max().unwrap()
        };
        let ours = [report.peak.allocated.0, report.peak.reserved.0];
        let [allocated, reserved] = [truth("allocated"), truth("reserved")];
        assert!(
            runs::error(ours[0], allocated).abs() <= WORST,
            "{run:?}: {} of {allocated}",
            ours[0]
        );
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
    expect_file!["../../../tests/fixtures/loops/errors.txt"].assert_eq(&page);
}
