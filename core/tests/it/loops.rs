//! Training loops of libraries, losses without logits, and Liger's kernels, against the libraries themselves.

use expect_test::expect_file;

use crate::runs;

/// COUNT: hundredths of a percent that an answer may be off. Numbers on the device, such as a counter of tokens, are
/// not simulated.
const WORST: i64 = 100;

#[test]
fn peaks_are_those_of_the_libraries() {
    let head = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes, each \
                    with the\nerror of ours (`=`: to the byte).\n\n";
    let (lines, [allocated, _]) = runs::of_catalogue("loops/truth.csv");
    let page = [head, &lines].concat();
    assert!(allocated.iter().all(|error| error.abs() <= WORST), "{allocated:?}");
    expect_file!["../../../tests/fixtures/loops/errors.txt"].assert_eq(&page);
}
