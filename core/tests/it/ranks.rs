//! One rank of several, against PyTorch's own data parallelism on a process group of the backend `fake`.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::Config;
use highwater_core::formats::catalogue;

use crate::runs::{self, Run, median, percent, table};

/// COUNT: hundredths of a percent that an answer may be off.
const WORST: u64 = 100;

#[test]
fn peaks_are_those_of_a_rank_in_pytorch() {
    let mut page = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes, each \
                    with the\nerror of ours (`=`: to the byte).\n\n"
        .to_owned();
    let mut errors = [Vec::new(), Vec::new()];
    for cells in &table("ranks/truth.csv") {
        let entry = catalogue::find(&cells["model"]).expect("a name of the catalogue");
        let model =
            highwater_core::open(&mut entry.configuration().as_bytes(), "config.json").unwrap();
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let run = Run::of(cells);
        let config = run.configuration_over(&model, &defaults).unwrap();
        let report = model.estimate(&config).unwrap();
        let truth = |what: &str| -> u64 {
            (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max().unwrap()
        };
        let ours = [report.peak.allocated.0, report.peak.reserved.0];
        let truth = [truth("allocated"), truth("reserved")];
        for ((errors, ours), truth) in errors.iter_mut().zip(ours).zip(truth) {
            errors.push(runs::error(ours, truth).unsigned_abs());
        }
        let Run { model, batch, seq, settings } = run;
        writeln!(
            page,
            "{model} {batch} {} {settings}\n    {} {}, {} {}",
            seq.unwrap_or_default(),
            truth[0],
            runs::signed(ours[0], truth[0]),
            truth[1],
            runs::signed(ours[1], truth[1]),
        )
        .unwrap();
    }
    for (name, errors) in ["allocated", "reserved"].into_iter().zip(&mut errors) {
        errors.sort_unstable();
        let (all, worst) = (errors.len(), errors.last().copied().unwrap());
        let close = errors.iter().filter(|error| **error == 0).count();
        writeln!(
            page,
            "\n{name}: {all} runs, {close} within 0.01 %, median {}, worst {}",
            percent(median(errors)),
            percent(worst)
        )
        .unwrap();
    }
    expect_file!["../../../tests/fixtures/ranks/errors.txt"].assert_eq(&page);
    let worst = errors[0].last().copied().unwrap();
    assert!(worst <= WORST, "{worst} hundredths of a percent");
}
