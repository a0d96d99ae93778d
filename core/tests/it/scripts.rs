//! What versions of PyTorch and habits of training loops allocate: three iterations with `cross_entropy` on a fake A100,
//! of an `nn.Sequential` and of torchvision's ResNet-18.

use std::num::NonZeroU64;

use highwater_core::Model;
use highwater_core::config::{Batches, Checkpoint, Config, LossChoice, Optimizer, PyTorch};
use highwater_core::trace::{Category, Event};

use crate::fixtures;

const PERCEPTRON: &str = "\
input: [N, 512]
dims: {N: 4096}
layers:
  - linear: 2048
  - relu
  - linear: 2048
  - relu
  - linear: 1000
";

fn perceptron() -> Model {
    highwater_core::open(&mut PERCEPTRON.as_bytes(), "perceptron.yaml").expect("it is a spec")
}

/// The peaks of allocated and reserved memory under changed settings, and these.
fn peaks(model: &Model, change: impl FnOnce(&mut Config)) -> ([u64; 2], String) {
    let (optimizer, loss) = (Optimizer::Adam, LossChoice::CrossEntropy);
    let mut config = Config { optimizer, loss, ..model.defaults().clone() };
    change(&mut config);
    let peak = model.estimate(&config).expect("it runs").peak;
    let changed = config.changed().map(|setting| (setting.name, setting.value(&config).text()));
    ([peak.allocated.0, peak.reserved.0], format!("{:?}", changed.collect::<Vec<_>>()))
}

/// The peaks are those that PyTorch reported.
fn check_of(model: &Model, change: impl FnOnce(&mut Config), expected: [u64; 2]) {
    let (found, settings) = peaks(model, change);
    assert_eq!(found, expected, "{settings}");
}

fn check(change: impl FnOnce(&mut Config), expected: [u64; 2]) {
    check_of(&perceptron(), change, expected);
}

#[test]
fn versions_allocate_as_they_did() {
    let check = |major, minor, optimizer, expected| {
        let pytorch = PyTorch::new(major, minor);
        check(|config| *config = Config { pytorch, optimizer, ..config.clone() }, expected);
    };
    check(2, 15, Optimizer::SgdMomentum, [276_715_008, 312_475_648]);
    check(2, 15, Optimizer::Adam, [306_488_832, 379_584_512]);
    check(2, 3, Optimizer::SgdMomentum, [293_754_368, 333_447_168]);
    check(2, 3, Optimizer::Adam, [323_528_192, 400_556_032]);
    // 2.3.1 with `zero_grad(set_to_none=False)` and `foreach=False`, as 1.13 does by itself.
    check(1, 13, Optimizer::SgdMomentum, [314_545_664, 400_556_032]);
    check(1, 13, Optimizer::Adam, [344_712_704, 367_001_600]);
}

#[test]
fn loops_allocate_as_they_are_written() {
    let kept = |steps| NonZeroU64::new(steps).expect("it is above 0");
    check(|config| config.batches = Batches::Moved, [306_488_832, 333_447_168]);
    check(|config| config.batches = Batches::Prefetched, [314_516_992, 400_556_032]);
    check(|config| config.evaluation = true, [306_488_832, 379_584_512]);
    check(|config| config.keep_outputs = kept(3), [339_650_048, 379_584_512]);
    check(
        |config| {
            config.batches = Batches::Moved;
            config.keep_outputs = kept(3);
            config.evaluation = true;
        },
        [339_453_440, 434_110_464],
    );
    // Outputs of steps that are not simulated come all at once.
    let (found, _) = peaks(&perceptron(), |config| config.keep_outputs = kept(10));
    for (found, truth) in found.into_iter().zip([457_090_560, 513_802_240]) {
        assert!(found.abs_diff(truth) * 100 < truth, "{found} instead of {truth}");
    }
}

/// Normalisation, convolutions and their workspaces: validation and transfers do not disturb them.
#[test]
fn loops_of_a_convolutional_network_allocate_as_they_are_written() {
    let bytes = fixtures::unpack("zoo/train/resnet18.onnx.gz").expect("a fixture");
    let model = highwater_core::open(&mut bytes.as_slice(), "resnet18").expect("it is a model");
    let check = |change: &dyn Fn(&mut Config), expected| {
        let of_batch = |config: &mut Config| {
            config.optimizer = Optimizer::AdamW;
            config.dims.extend(model.open_dims().into_iter().map(|dim| (dim.name, 32)));
            change(config);
        };
        check_of(&model, of_batch, expected);
    };
    let kept = NonZeroU64::new(3).expect("it is above 0");
    check(&|_| {}, [899_530_752, 1_539_309_568]);
    check(&|config| config.batches = Batches::Moved, [899_858_432, 1_509_949_440]);
    check(&|config| config.batches = Batches::Prefetched, [918_798_848, 1_560_281_088]);
    check(&|config| config.evaluation = true, [899_530_752, 1_539_309_568]);
    check(&|config| config.keep_outputs = kept, [899_786_752, 1_539_309_568]);
    let all = |config: &mut Config| {
        (config.batches, config.evaluation) = (Batches::Moved, true);
        config.keep_outputs = kept;
    };
    check(&all, [900_114_432, 1_509_949_440]);
}

/// A batch is freed when the next one takes its place, also where a block that reads it runs again in backward.
#[test]
fn a_moved_batch_goes_with_its_step() {
    const BLOCKS: &str = "input: [8, 64]\nlayers:\n  - name: h\n    repeat: 2\n    block:\n      \
                          - linear: 64\n      - relu\n      - linear: 64\n";
    let model = highwater_core::open(&mut BLOCKS.as_bytes(), "blocks.yaml").expect("it is a spec");
    let batches = Batches::Moved;
    for checkpoint in [Checkpoint::None, Checkpoint::Blocks] {
        let config = Config { batches, checkpoint, ..model.defaults().clone() };
        let trace = model.trace(&config).expect("it runs");
        let mut inputs = 0_u64;
        for event in &trace.events {
            let storage = trace.storage(*event).expect("a storage");
            match event {
                _ if storage.category != Category::Input => {}
                Event::Alloc(_) => inputs += storage.requested.0,
                Event::Free(_) => inputs -= storage.requested.0,
            }
        }
        // Inputs, and labels of 64 bits.
        assert_eq!(inputs, 8 * 64 * 4 + 8 * 8, "{checkpoint:?}");
    }
}
