//! One rank of several, against PyTorch's own data parallelism on a process group of the backend `fake`.

use std::fmt::Write as _;

use expect_test::expect_file;

use crate::runs::{self, median, percent};

/// COUNT: hundredths of a percent that an answer may be off.
const WORST: u64 = 100;

#[test]
fn peaks_are_those_of_a_rank_in_pytorch() {
    let head = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes, each \
                    with the\nerror of ours (`=`: to the byte).\n\n";
    let (lines, errors) = runs::of_catalogue("ranks/truth.csv");
    let mut page = [head, &lines].concat();
    let mut errors =
        errors.map(|errors| -> Vec<u64> { errors.into_iter().map(i64::unsigned_abs).collect() });
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
