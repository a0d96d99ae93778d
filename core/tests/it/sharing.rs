//! What was computed for one device answers for others, as if each had been computed for itself.

use highwater_core::config::{Kind, SETTINGS, Setting, Stage};
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
        let Made { shapes, programs, runs, replays, .. } = stages.made();
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
    check("module-loading", "eager", (0, 0, 0, 0));
    check("precision", "amp-bf16", (0, 0, 1, 1));
    check("precision", "bf16", (0, 1, 1, 1));
}

/// A value of a setting that is not the default.
fn another(setting: &Setting) -> &'static str {
    let usual = setting.value(&Config::default()).text();
    match setting.kind {
        Kind::Choice(values) | Kind::Suggestion(values) => {
            let other = values.iter().map(|value| value.name).find(|name| *name != usual);
            other.expect("there are two values")
        }
        Kind::Device => "t4",
        Kind::Flag => "true",
        Kind::Count => "2",
        Kind::Size => "1 GiB",
        Kind::Names => "classifier.1",
        Kind::Text => setting.example,
    }
}

#[test]
fn a_setting_changes_nothing_before_the_stage_that_it_enters() {
    let model = open("models/train/alexnet.onnx");
    // Settings of adapters have no effect without adapters.
    let adapted = Config { lora: vec!["all-linear".to_owned()], ..Config::default() };
    for setting in SETTINGS {
        for usual in [&Config::default(), &adapted] {
            let mut stages = Stages::default();
            let mut made = |config: &Config| {
                let before = stages.made();
                // An error comes from the stage that the setting enters.
                model.verdict(config, &config.device, &mut stages).ok();
                let Made { shapes, programs, runs, replays, .. } = stages.made();
                [
                    (Stage::Shape, shapes - before.shapes),
                    (Stage::Program, programs - before.programs),
                    (Stage::Run, runs - before.runs),
                    (Stage::Replay, replays - before.replays),
                ]
            };
            made(usual);
            let mut config = usual.clone();
            config.set(setting.name, another(setting)).expect("a value");
            let again = made(&config).into_iter().filter(|(_, count)| *count > 0);
            // Other hardware may choose other kernels.
            let is_hardware = setting.stage == Stage::Hardware;
            let earliest = if is_hardware { Stage::Run } else { setting.stage };
            let early: Vec<_> = again.filter(|(stage, _)| *stage < earliest).collect();
            assert_eq!(early, [], "{setting:?}");
        }
    }
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

/// Memory and times read one run where times come first. A run without kernels is recorded once more, with them.
#[test]
fn memory_and_times_read_one_run() {
    let model = open("models/train/alexnet.onnx");
    let config = Config::default();
    let device = device::find(&config.device).expect("a device");
    let alone = model.verdict(&config, device.id, &mut Stages::default()).expect("it is estimated");
    let step =
        Timings::new(&model, &config, &mut Stages::default()).on(device).expect("it takes time");
    for (times_first, runs) in [(true, 1), (false, 2)] {
        let mut stages = Stages::default();
        for is_of_time in [times_first, !times_first, times_first, !times_first] {
            if is_of_time {
                let timing = Timings::new(&model, &config, &mut stages).on(device);
                assert_eq!(timing.expect("it takes time").time, step.time);
            } else {
                let verdict = model.verdict(&config, device.id, &mut stages);
                assert_eq!(verdict.expect("it is estimated"), alone);
            }
        }
        let made = stages.made();
        assert_eq!((made.runs, made.replays), (runs, 1), "{made:?}");
    }
}
