//! The answer in sentences, for each way in which a run can end.

use expect_test::{Expect, expect};
use highwater_core::estimate::LargestBatch;
use highwater_core::wording::headline;
use highwater_core::{Bytes, Config, Report};

use crate::fixtures;

/// `AlexNet` on a T4 with this much memory.
fn alexnet(capacity: Option<u64>) -> Report {
    alexnet_with(capacity, None)
}

/// The same where the context was measured.
fn alexnet_with(capacity: Option<u64>, context: Option<u64>) -> Report {
    let content = fixtures::read("models/train/alexnet.onnx");
    let model = highwater_core::open(&mut content.as_slice(), "nets/alexnet.onnx").unwrap();
    let mut config = Config {
        dims: [("batch".to_owned(), 64)].into(),
        capacity: capacity.map(Bytes::mib),
        context: context.map(Bytes::mib),
        ..Config::default()
    };
    config.set("device", "t4").unwrap();
    model.estimate(&config).unwrap()
}

fn check(report: &Report, expected: &Expect) {
    let largest = LargestBatch {
        likely: Some(145),
        without_flush: Some(154),
        chance: 56,
        with_flush: Some(172),
    };
    let said = headline(report, Some(largest));
    let rest = said.rest.iter().map(|sentence| format!("{sentence}\n"));
    expected.assert_eq(&(format!("{}\n", said.lead) + &rest.collect::<String>()));
}

#[test]
fn a_run_fits() {
    check(
        &alexnet(None),
        &expect![[r#"
            alexnet at batch 64 fits on a T4: it needs 1.66 of 14.6 GiB.
            1.18 GiB are allocated at the peak, in the optimizer step.
            Largest batch on a T4: 145 with a chance of 90 %, 154 with one of 56 %, or 172 if PyTorch flushes its cache.
            The optimizer state is 39 % of the peak.
        "#]],
    );
}

#[test]
fn a_run_is_a_tight_fit() {
    check(
        &alexnet(Some(1720)),
        &expect![[r#"
            alexnet at batch 64 likely fits on a T4 set to 1.68 GiB (54 %): it needs 1.66 of 1.68 GiB.
            1.18 GiB are allocated at the peak, in the optimizer step.
            The CUDA context is a guess, 177 MiB. On one machine in ten it is up to 619 MiB, and this run does not fit there. To measure yours, let PyTorch hold one tensor on the GPU, and set the CUDA context to what nvidia-smi shows for that process.
            Largest batch on a T4 set to 1.68 GiB: 145 with a chance of 90 %, 154 with one of 56 %, or 172 if PyTorch flushes its cache.
            The optimizer state is 39 % of the peak.
        "#]],
    );
}

#[test]
fn a_measured_context_is_no_guess() {
    check(
        &alexnet_with(Some(1720), Some(177)),
        &expect![[r#"
            alexnet at batch 64 likely fits on a T4 set to 1.68 GiB (59 %): it needs 1.66 of 1.68 GiB.
            1.18 GiB are allocated at the peak, in the optimizer step.
            Largest batch on a T4 set to 1.68 GiB: 145 with a chance of 90 %, 154 with one of 56 %, or 172 if PyTorch flushes its cache.
            The optimizer state is 39 % of the peak.
        "#]],
    );
}

#[test]
fn a_run_fits_if_the_cache_is_flushed() {
    check(
        &alexnet(Some(1600)),
        &expect![[r#"
            alexnet at batch 64 fits on a T4 set to 1.56 GiB only if PyTorch flushes its cache every step (slow): without, it needs 1.66 of 1.56 GiB.
            1.18 GiB are allocated at the peak, in the optimizer step.
            Largest batch on a T4 set to 1.56 GiB: 145 with a chance of 90 %, 154 with one of 56 %, or 172 if PyTorch flushes its cache.
            The optimizer state is 39 % of the peak.
        "#]],
    );
}

#[test]
fn a_run_does_not_fit() {
    check(
        &alexnet(Some(900)),
        &expect![[r#"
            Does not fit on a T4 set to 900.00 MiB: alexnet at batch 64 needs 1.66 GiB of 900 MiB.
            It runs out in the backward pass of features.11.
            Largest batch on a T4 set to 900.00 MiB: 145 with a chance of 90 %, 154 with one of 56 %, or 172 if PyTorch flushes its cache.
            The optimizer state is 39 % of the peak.
        "#]],
    );
}

#[test]
fn sizes_that_look_equal_are_compared_by_their_difference() {
    let need = alexnet(None).verdict.need;
    let mut report = alexnet(Some(900));
    report.verdict.capacity = Bytes(need.0 - 1000);
    check(
        &report,
        &expect![[r#"
            Does not fit on a T4 set to 900.00 MiB: alexnet at batch 64 needs 0.977 KiB more than 1.66 GiB.
            It runs out in the backward pass of features.11.
            Largest batch on a T4 set to 900.00 MiB: 145 with a chance of 90 %, 154 with one of 56 %, or 172 if PyTorch flushes its cache.
            The optimizer state is 39 % of the peak.
        "#]],
    );
}

#[test]
fn lower_bounds_and_uncertain_answers_never_fit() {
    let mut report = alexnet(None);
    report.lower_bound = true;
    report.verdict.verdict = report.verdict.verdict.of_lower_bound();
    check(
        &report,
        &expect![[r#"
        alexnet at batch 64 needs at least 1.66 of 14.6 GiB on a T4.
        At least 1.18 GiB are allocated at the peak, in the optimizer step.
    "#]],
    );
    (report.lower_bound, report.uncertain) = (false, true);
    check(
        &report,
        &expect![[r#"
        alexnet at batch 64 needs about 1.66 of 14.6 GiB on a T4.
        1.18 GiB are allocated at the peak, in the optimizer step.
    "#]],
    );
}
