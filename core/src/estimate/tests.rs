//! Loops of which a few trips stand for all make the events of loops that are written out, and three micro-batches end
//! as all of a step do.

use super::*;
use std::num::NonZeroU64;

use crate::config::{Checkpoint, LoopStyle, Optimizer, Precision};
use crate::device;
use crate::eager::{Launch, Runtime};
use crate::formats::catalogue;
use crate::step::head_loss;
use crate::time::{Gpu, StepTime};
use crate::trace::{Event, Phase};

const TWICE: NonZeroU64 = NonZeroU64::MIN.saturating_add(1);
const HEAD: &str = r#"<ir_version: 9, opset_import: ["" : 18]>"#;

/// Every event: what it does, to which storage in order of allocation, how large and what that is, and what runs.
fn events(model: &Model, config: &Config, nodes_max: usize) -> Result<Vec<String>, Error> {
    let shaped = model.shape_to(config, nodes_max)?;
    let hardware = device::find(&config.device)?.hardware(config.pytorch, config.cudnn);
    let trace =
        model.program(&shaped, config)?.record(config, (hardware, &Everything), None)?.trace;
    let mut order = BTreeMap::new();
    let mut marks = trace.phases.iter().peekable();
    let mut lines = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        while let Some(mark) = marks.next_if(|mark| mark.event <= index) {
            lines.push(format!("{} {:?}", mark.iteration, mark.phase));
        }
        let next = order.len();
        let at = *order.entry(event.storage()).or_insert(next);
        let storage = trace.storage(*event).expect("an event is of a storage");
        let what = if matches!(event, Event::Alloc(_)) { "alloc" } else { "free" };
        let operator = trace.label(trace.operators[index]);
        let module = trace.label(trace.modules[index]);
        let (bytes, category) = (storage.requested, storage.category.name());
        lines.push(format!("{what} {at} {bytes} {category} {operator} {module}"));
    }
    Ok(lines)
}

/// How often each operator of each module launches each kernel.
fn launched(
    model: &Model,
    config: &Config,
    nodes_max: usize,
) -> Result<BTreeMap<String, u64>, Error> {
    let shaped = model.shape_to(config, nodes_max)?;
    let hardware = device::find(&config.device)?.hardware(config.pytorch, config.cudnn);
    let steady = Script::of(config)?.steady;
    let program = model.program(&shaped, config)?;
    let run = program.record(config, (hardware, &Everything), Some(steady))?;
    let launches = run.launches.expect("they were asked for");
    let mut counts = BTreeMap::new();
    for launch in &launches.list {
        let Launch { phase, operator, module, kernel, times, .. } = launch;
        let [operator, module] = [operator, module].map(|id| launches.label(*id));
        *counts.entry(format!("{phase:?} {module} {operator} {kernel:?}")).or_default() += times;
    }
    Ok(counts)
}

/// A recorded step is the same with its kernels and without them, to the last event.
#[test]
fn launches_change_no_event() {
    let settings = [
        ("bert-tiny", ""),
        ("bert-tiny", "precision=amp-fp16 clip-grad-norm=true optimizer-impl=fused"),
        ("bert-tiny", "precision=amp-fp16 optimizer=sgd-momentum ema=true accumulate=2"),
        ("bert-tiny", "precision=bf16-master checkpoint=blocks optimizer=muon"),
        ("bert-tiny", "attention=eager optimizer=adafactor zero-grad=end"),
        ("resnet18", "precision=amp-bf16 optimizer-impl=for-loop"),
        ("resnet18", "memory-format=channels-last weight-decay=true optimizer=adam"),
        ("bert-tiny", "gpus=8 data-parallel=ddp"),
        ("bert-tiny", "gpus=8 data-parallel=zero-1 bucket-view=true find-unused=true"),
        ("bert-tiny", "mesh=replicate=2,dp=4 data-parallel=fsdp param-type=bf16"),
        ("pythia-14m", "mesh=tp=2 clip-grad-norm=true"),
    ];
    for (name, settings) in settings {
        let entry = catalogue::find(name).expect("the catalogue has it");
        let model = open_named(&entry).expect("it opens");
        let mut config = model.defaults().clone();
        for setting in settings.split_whitespace() {
            let (name, value) = setting.split_once('=').expect("a value");
            config.set(name, value).unwrap_or_else(|error| panic!("{setting}: {error}"));
        }
        let device = device::find(&config.device).expect("a device");
        let hardware = device.hardware(config.pytorch, config.cudnn);
        let shaped = model.shape(&config).expect("shapes");
        let run = |launching| {
            let sink = Diagnostics::default();
            let Recovered { program, .. } = model.program(&shaped, &config).expect("a program");
            let loss = head_loss::choose(&program, &config, &sink).expect("a loss");
            let rt = Runtime::new(hardware, config.pytorch);
            if launching {
                rt.record_launches(Script::of(&config).expect("a script").steady);
            }
            let hooks = Everything.around(&program, &config).expect("there are such ranks");
            let (trace, _, launches) =
                step::run(rt, &program, &loss, &config, &*hooks, &sink).expect("it runs");
            let Trace { events, operators, modules, storages, labels, phases, .. } = trace;
            ((events, operators, modules, storages, labels, phases), launches.list.len())
        };
        let ((plain, none), (ours, some)) = (run(false), run(true));
        assert!(plain == ours, "{name} {settings}");
        assert!(none == 0 && some > 100, "{name} {settings}: {some} kernels");
    }
}

/// The products of a step are those that arithmetic asks for: of BERT's layers, three times those of the forward.
#[test]
fn products_of_a_step_add_up() {
    let entry = catalogue::find("bert-tiny").expect("the catalogue has it");
    let model = open_named(&entry).expect("it opens");
    let mut config = model.defaults().clone();
    config.set("attention", "eager").expect("a setting");
    config.dims.extend([("batch".to_owned(), 2), ("seq".to_owned(), 128)]);
    let launches = model.launches(&config).expect("it runs");
    let of = |phase| -> u64 {
        let list = launches.list.iter().filter(|launch| launch.phase == phase);
        list.map(Launch::multiply_adds).sum()
    };
    let (tokens, hidden, vocabulary, layers) = (256, 128, 30_522, 2);
    let layer = tokens * hidden * hidden * 12 + 2 * tokens * 128 * hidden;
    let forward = layers * layer + tokens * hidden * (hidden + vocabulary);
    assert_eq!((of(Phase::Forward), of(Phase::Backward)), (forward, 2 * forward));
    assert_eq!(of(Phase::Optimizer), 0);
}

/// The same of convolutions: torchvision states 1.814 billion for `ResNet-18`. Only the first has no gradient of its
/// input.
#[test]
fn convolutions_of_a_step_add_up() {
    let entry = catalogue::find("resnet18").expect("the catalogue has it");
    let model = open_named(&entry).expect("it opens");
    let mut config = model.defaults().clone();
    config.dims.insert("batch".to_owned(), 2);
    let launches = model.launches(&config).expect("it runs");
    let of = |phase| -> u64 {
        let list = launches.list.iter().filter(|launch| launch.phase == phase);
        list.map(Launch::multiply_adds).sum()
    };
    let (each, first) = (1_814_073_344, 112 * 112 * 64 * 3 * 49);
    assert_eq!(of(Phase::Forward), 2 * each);
    assert_eq!(of(Phase::Backward), 2 * (2 * each - first));
}

/// A loop folded and written out, under several settings.
#[track_caller]
fn check(name: &str, text: &str, folded: usize) {
    let text = format!("{HEAD}\n{text}");
    let model = open(&mut text.as_bytes(), "net.onnxtxt").expect("it opens");
    let plain = Config::default();
    let settings = [
        plain.clone(),
        Config { optimizer: Optimizer::Sgd, loop_style: LoopStyle::Function, ..plain.clone() },
        Config { checkpoint: Checkpoint::Blocks, ..plain.clone() },
        Config { precision: Precision::AmpBf16, accumulate: TWICE, ..plain },
    ];
    for config in settings {
        let [whole_launches, our_launches] =
            [usize::MAX, folded].map(|nodes_max| launched(&model, &config, nodes_max));
        assert_eq!(our_launches.expect("it is folded"), whole_launches.expect("it is written out"));
        let whole = events(&model, &config, usize::MAX).expect("it is written out");
        let ours = events(&model, &config, folded).expect("it is folded");
        let first = ours.iter().zip(&whole).position(|(a, b)| a != b);
        let around = |list: &[String]| {
            let at = first.unwrap_or(0);
            list[at.saturating_sub(3)..list.len().min(at + 3)].join("\n")
        };
        assert_eq!(
            first,
            None,
            "{name}\n--- folded\n{}\n--- whole\n{}",
            around(&ours),
            around(&whole)
        );
        assert_eq!(ours.len(), whole.len(), "{name}");
    }
}

#[test]
fn a_few_trips_stand_for_all() {
    check(
        "a state that is carried",
        "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {
            n = Constant <value_int = 40> ()  yes = Constant <value = bool {1}> ()
            y = Loop(n, yes, x) <body = b (int64 i, bool on, float[8,64] h) => (bool go, float[8,64] t) {
                go = Identity(on)  m = MatMul(h, w)  t = Tanh(m)
            }>
        }",
        30,
    );
    check(
        "a scan of slices, stacked",
        "g (float[33,8,64] x, float[8,64] s) => (float[33,8,64] z) <float[64,64] w, float[64,32] v> {
            last, y = Scan(s, x) <num_scan_inputs = 1,
                body = b (float[8,64] h, float[8,64] p) => (float[8,64] t, float[8,64] o) {
                    m = MatMul(p, w)  u = Add(m, h)  t = Sigmoid(u)  o = Mul(t, p)
                }>
            r = Relu(y)  z = Add(r, x)
        }",
        40,
    );
    check(
        "a sequence, and one loop behind another",
        "g (float[30,8,64] x, float[8,64] s) => (float[30,8,64] y) <float[64,64] w> {
            n = Constant <value_int = 30> ()  yes = Constant <value = bool {1}> ()
            none = SequenceEmpty()
            last, all = Loop(n, yes, s, none) <
                body = b (int64 i, bool on, float[8,64] h, seq(float[8,64]) list)
                    => (bool on, float[8,64] t, seq(float[8,64]) longer) {
                    p = Gather(x, i)  m = MatMul(p, w)  t = Add(m, h)  longer = SequenceInsert(list, t)
                }>
            z = ConcatFromSequence <axis = 0, new_axis = 1> (all)
            end, y = Scan(last, z) <num_scan_inputs = 1,
                body = b2 (float[8,64] c, float[8,64] d) => (float[8,64] f, float[8,64] f) { f = Add(c, d) }>
        }",
        80,
    );
    check(
        "convolutions and a loop inside",
        "g (float[2,8,16,16] x) => (float[2,8,16,16] y) <float[8,8,3,3] w, float[8] b> {
            n = Constant <value_int = 60> ()  yes = Constant <value = bool {1}> ()
            two = Constant <value_int = 2> ()
            y = Loop(n, yes, x) <
                body = b (int64 i, bool on, float[2,8,16,16] h) => (bool on, float[2,8,16,16] t) {
                    c = Conv <pads = [1, 1, 1, 1]> (h, w, b)  r = Relu(c)
                    t = Loop(two, on, r) <
                        body = b2 (int64 k, bool an, float[2,8,16,16] u) => (bool an, float[2,8,16,16] v) {
                            v = Sigmoid(u)
                        }>
                }>
        }",
        120,
    );
}

/// Where micro-batches are alike, three stand for all: each device ends the same, and a step takes as long.
#[test]
fn three_micro_batches_end_as_all() {
    for (name, settings, batch) in [
        ("bert-tiny", "accumulate=7", 8),
        ("bert-tiny", "accumulate=5 loop=function lora=all-linear checkpoint=blocks", 64),
        ("gpt2", "accumulate=4 precision=bf16 alloc-conf=expandable_segments:True", 28),
        ("resnet18", "accumulate=6 precision=amp-bf16 batches=prefetched", 200),
        ("resnet18", "accumulate=9 optimizer=sgd-momentum", 440),
    ] {
        let entry = catalogue::find(name).expect("the catalogue has it");
        let model = open_named(&entry).expect("it opens");
        let mut config = model.defaults().clone();
        for setting in settings.split_whitespace() {
            let (name, value) = setting.split_once('=').expect("a value");
            config.set(name, value).expect("a setting");
        }
        config.dims.insert("batch".to_owned(), batch);
        let config = model.own_dims(&config).expect("it has a batch");
        let (mut short, mut whole) = (Stages::default(), Stages::default());
        for id in ["t4", "rtx-4090", "h100-80gb"] {
            let device = device::find(id).expect("a device");
            let found = short.peaks_on(&model, &config, device).expect("it runs");
            assert!(found.stands_for_more(), "{name} {settings}: all micro-batches ran");
            let all = whole.on(&model, &config, device).expect("it runs");
            assert_eq!(found.verdict(), all.verdict(), "{name} {settings} on {id}");
            let least = [&found, &all].map(OnDevice::without_workspaces);
            assert_eq!(least[0], least[1], "{name} {settings} on {id}");
            let gpu = Gpu::of(device).expect("it has rates");
            let one = short.launches_of_step(&model, &config, device).expect("it runs");
            let other = whole.launches(&model, &config, device, false).expect("it runs");
            assert!(one.list.len() < other.of_steady().count(), "{name} {settings}: all ran");
            assert_eq!(StepTime::of(&one, gpu), StepTime::of(&other, gpu), "{name} on {id}");
        }
    }
}
