//! Stages of a pipeline, against PyTorch's own allocations for one rank.

use std::collections::BTreeMap;

use expect_test::expect_file;
use highwater_core::Config;
use highwater_core::formats::catalogue;

use crate::runs;

/// COUNT: hundredths of a percent that an answer may be off, allocated and reserved.
const WORST: [u64; 2] = [100, 500];

#[test]
fn peaks_are_those_of_a_stage() {
    let head = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes of a \
                    rank, each with\nthe error of ours (`=`: to the byte).\n\n";
    let (lines, errors) = runs::of_catalogue("ranks/pipeline.csv");
    expect_file!["../../../tests/fixtures/ranks/pipeline-errors.txt"]
        .assert_eq(&[head, &lines].concat());
    for (errors, worst) in errors.into_iter().zip(WORST) {
        let largest = errors.into_iter().map(i64::unsigned_abs).max();
        assert!(largest <= Some(worst), "{largest:?}");
    }
}
