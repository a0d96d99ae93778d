//! Tests of the table of estimators, and of formulas against what their authors publish.

use std::collections::BTreeSet;

use super::horus::horus;
use super::*;

#[test]
fn all_say_what_they_are() {
    let mut ids = BTreeSet::new();
    for about in ALL.iter().map(|estimator| estimator.about()) {
        assert!(ids.insert(about.id), "{} stands twice", about.id);
        for text in [about.name, about.source, about.counts, about.leaves_out] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", about.id);
        }
    }
}

/// What the authors of the comparison of 2026 got from the formula for 429 perceptrons on MNIST, in batches of 32:
/// their `MB` is a thousandth of a GiB.
#[test]
fn horus_is_as_its_authors_evaluate_it() {
    let text = include_str!("../../../tests/fixtures/measured/horus.csv");
    let mut rows = 0;
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let &[neurons, layers, published] = cells.as_slice() else { panic!("{line}") };
        let (neurons, layers): (u64, u64) = (neurons.parse().unwrap(), layers.parse().unwrap());
        let published: f64 = published.parse().unwrap();
        let hidden = (layers - 1) * (neurons * neurons + neurons);
        let parameters = 784 * neurons + neurons + hidden + neurons * 10 + 10;
        let bytes = horus(neurons * layers + 10, parameters, 32).0;
        let kib = u32::try_from(bytes >> 10).unwrap();
        let ours = f64::from(kib) / 1_048_576.0 * 1000.0;
        // What is published has three digits behind the point.
        assert!((ours - published).abs() <= published * 0.01 + 0.002, "{line}: {ours}");
        rows += 1;
    }
    assert!(rows > 400, "{rows}");
}
