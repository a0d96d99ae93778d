//! What a step uses of a GPU, and how long the host takes.

use highwater_core::device;
use highwater_core::time::{Gpu, StepTime, Utilisation};

const PERCEPTRON: &str = "input: [N, 1200]\n\
    layers: [linear: 600, batchnorm1d, relu, linear: 3000, relu, linear: 100]\n";

const SMALL: &str = "input: [N, 12]\nlayers: [linear: 6, relu, linear: 3]\n";

/// A training step of the perceptron on an A100, with Adam.
fn step(batch: u64, precision: &str) -> StepTime {
    step_of(PERCEPTRON, batch, precision)
}

/// The same of any layer spec.
fn step_of(spec: &str, batch: u64, precision: &str) -> StepTime {
    let model = highwater_core::open(&mut spec.as_bytes(), "mlp.yaml").unwrap();
    let mut config = model.defaults().clone();
    config.choose_device("a100-40gb");
    for (name, value) in [("precision", precision), ("optimizer", "adam"), ("pytorch", "2.8")] {
        config.set(name, value).unwrap();
    }
    config.dims.insert("N".to_owned(), batch);
    let gpu = Gpu::of(device::find("a100-40gb").unwrap()).unwrap();
    StepTime::of(&model.launches(&config).unwrap(), gpu)
}

fn shares(utilisation: Utilisation) -> [u32; 5] {
    utilisation.named().map(|(_, share)| share.0)
}

/// As `tests/times/utilisation.py` computes them from the same kernels, where the host takes 1.45 times as long.
#[test]
fn shares_are_those_of_the_fitted_model() {
    let cases = [
        (64, "fp32", 895, [10_000, 2303, 457, 0, 828], [447, 103, 20, 0, 37]),
        (8192, "fp32", 9295, [10_000, 9253, 2384, 0, 1221], [4647, 4300, 1108, 0, 568]),
        (8192, "amp-fp16", 1609, [10_000, 7388, 3740, 2528, 3737], [804, 594, 301, 203, 301]),
    ];
    let near = |found: [u32; 5], expected: [u32; 5]| {
        found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 3)
    };
    for (batch, precision, microseconds, free, slow) in cases {
        let step = step(batch, precision);
        let found = step.step().microseconds();
        assert!(found.abs_diff(microseconds) <= 1, "{found} us instead of {microseconds}");
        let found = shares(step.utilisation());
        assert!(near(found, free), "{found:?} instead of {free:?}");
        // 20 ms a step.
        let found = shares(step.with_loader(batch, batch * 50).utilisation());
        assert!(near(found, slow), "{found:?} instead of {slow:?}");
    }
}

/// No share is more than all, none is more than that of the whole GPU, and a slower loader raises none.
#[test]
fn a_slower_loader_raises_no_share() {
    for (batch, precision) in [(1, "fp32"), (300, "amp-bf16"), (5000, "fp32"), (70_000, "bf16")] {
        let step = step(batch, precision);
        let mut before = shares(step.utilisation());
        for rate in [10_000_000, 1_000_000, 100_000, 1000, 10, 1, 0] {
            let slower = step.clone().with_loader(batch, rate);
            let found = shares(slower.utilisation());
            assert!(found.iter().zip(before).all(|(now, before)| *now <= before), "{found:?}");
            let [gpu, active, occupancy, tensor, dram] = found;
            assert!(gpu <= 10_000 && active <= gpu && occupancy <= active, "{found:?}");
            assert!(tensor <= active && dram <= gpu, "{found:?}");
            before = found;
        }
    }
}

/// A small network waits for the host at every small batch, and a large one for the device.
#[test]
fn the_host_decides_over_small_networks() {
    let [small, twice] = [8, 16].map(|batch| step_of(SMALL, batch, "fp32"));
    assert_eq!(small.step(), twice.step());
    assert_eq!(small.bound().name(), "launches");
    assert_eq!(step(100_000, "fp32").bound().name(), "arithmetic");
}
