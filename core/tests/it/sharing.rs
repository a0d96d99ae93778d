//! What was computed for one device answers for others, as if each had been computed for itself.

use highwater_core::config::Setting;
use highwater_core::estimate::{Made, Stages, Timings};
use highwater_core::{Config, Model, device, estimators};

use crate::fixtures;

fn open(name: &str) -> Model {
    highwater_core::open(&mut fixtures::read(name).as_slice(), name).expect("it opens")
}

#[test]
fn shared_stages_answer_as_stages_of_their_own() {
    for name in
        ["models/train/alexnet.onnx", "models/train/resnet18.onnx", "models/train/distilgpt2.onnx"]
    {
        let model = open(name);
        let mut shared = Stages::default();
        for (setting, value) in [
            ("precision", "fp32"),
            ("precision", "amp-fp16"),
            ("alloc-conf", "expandable_segments:True"),
        ] {
            for device in device::all() {
                let mut config = Config::default();
                config.set(setting, value).expect("a setting");
                config.choose_device(device.id);
                let alone = model.estimate(&config).expect("it is estimated");
                let known = model.simulate(&config, &mut shared).expect("it is simulated").report();
                assert_eq!(known, alone, "{name}, {setting} {value}, {}", device.id);
            }
        }
        let made = shared.made();
        assert!(made.runs < 2 * device::all().len(), "{name}: {made:?}");
        assert_eq!(made.shapes, 1, "{name}: {made:?}");
    }
}

#[test]
fn a_stage_is_computed_again_only_where_what_it_depends_on_changed() {
    let model = open("models/train/alexnet.onnx");
    let mut stages = Stages::default();
    let mut config = Config::default();
    let mut check = |name: &str, value: &str, expected: (usize, usize, usize, usize)| {
        config.set(name, value).expect("a setting");
        let before = stages.made();
        let device = config.device.clone();
        model.verdict(&config, &device, &mut stages).expect("it is estimated");
        let Made { shapes, programs, runs, replays } = stages.made();
        let made = (
            shapes - before.shapes,
            programs - before.programs,
            runs - before.runs,
            replays - before.replays,
        );
        assert_eq!(made, expected, "{name} {value}");
    };
    check("optimizer", "adam", (1, 1, 1, 1));
    check("optimizer", "sgd", (0, 0, 1, 1));
    check("optimizer", "adam", (0, 0, 0, 0));
    check("other-processes", "1 GiB", (0, 0, 0, 0));
    check("alloc-conf", "expandable_segments:True", (0, 0, 0, 1));
    check("precision", "bf16", (0, 1, 1, 1));
}

/// Optimizers, the times of a step and estimators all read the program of one recovery.
#[test]
fn one_program_serves_all_that_read_it() {
    let model = open("models/train/alexnet.onnx");
    let mut stages = Stages::default();
    let mut config = Config::default();
    for optimizer in Setting::named("optimizer").expect("a setting").kind.values() {
        config.set("optimizer", optimizer.name).expect("a setting");
        let simulation = model.simulate(&config, &mut stages).expect("it is simulated");
        estimators::Run::of(&model, &simulation, &mut stages).expect("it has layers");
        let device = device::find(&config.device).expect("a device");
        Timings::new(&model, &config, &mut stages).on(device).expect("it takes time");
    }
    let made = stages.made();
    assert_eq!((made.shapes, made.programs), (1, 1), "{made:?}");
}
