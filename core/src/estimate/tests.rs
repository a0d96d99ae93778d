//! Loops of which a few trips stand for all make the events of loops that are written out.

use super::*;
use std::num::NonZeroU64;

use crate::config::{Checkpoint, LoopStyle, Optimizer, Precision};
use crate::device;
use crate::trace::Event;

const TWICE: NonZeroU64 = NonZeroU64::MIN.saturating_add(1);
const HEAD: &str = r#"<ir_version: 9, opset_import: ["" : 18]>"#;

/// Every event: what it does, to which storage in order of allocation, how large and what that is, and what runs.
fn events(model: &Model, config: &Config, nodes_max: usize) -> Result<Vec<String>, Error> {
    let shaped = model.shape_to(config, nodes_max)?;
    let hardware = device::find(&config.device)?.hardware(config.pytorch, config.cudnn);
    let trace = model.record(&shaped, config, hardware)?.trace;
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
