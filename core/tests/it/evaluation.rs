//! Validation passes between training steps, event by event, next to those that PyTorch made.

use highwater_core::Config;
use highwater_core::trace::{Phase, Trace};

use crate::fixtures;
use crate::recording;
use crate::runs::Run;

/// COUNT: allocations by which transformers looks for packed sequences before the first layer of GPT-2, in training
/// too; exports lack them.
const PACKED: usize = 9;

#[test]
fn a_validation_pass_is_that_of_pytorch() {
    let recorded = String::from_utf8(fixtures::read("evaluation/events.txt")).unwrap();
    let lines: Vec<&str> = recorded.lines().collect();
    assert!(!lines.is_empty(), "no case");
    for pair in lines.chunks(2) {
        let (case, theirs) = (pair[0], pair[1].trim_start_matches("  0: "));
        let trace = traced(case);
        let ours = recording::phases(&trace, &validation(&trace)).join(" ");
        if case.starts_with("gpt2") || case.starts_with("bert") {
            // Variables of transformers' functions are freed later than ours, which training does not show: there
            // autograd keeps what they hold.
            let lacking = lacking(&allocations(theirs), &allocations(&ours));
            let most = if case.starts_with("gpt2") { PACKED } else { 0 };
            assert_eq!(lacking, Some(most), "{case}\n  true {theirs}\n  ours {ours}");
        } else {
            assert_eq!(in_order(&ours), in_order(theirs), "{case}");
        }
    }
}

/// COUNT: allocations of the first list that the second lacks; `None` where it has others.
fn lacking(theirs: &[&str], ours: &[&str]) -> Option<usize> {
    let mut rest = theirs.iter();
    ours.iter().all(|own| rest.any(|other| other == own)).then(|| theirs.len() - ours.len())
}

fn allocations(words: &str) -> Vec<&str> {
    words.split(' ').filter(|word| word.starts_with('+')).collect()
}

/// The events, with frees between two allocations in the order of what they free.
fn in_order(words: &str) -> Vec<&str> {
    let mut words: Vec<&str> = words.split(' ').collect();
    for frees in words.chunk_by_mut(|a, b| a.starts_with('-') && b.starts_with('-')) {
        frees.sort_unstable();
    }
    words
}

/// What drops out or takes statistics of the batch does so in training alone.
#[test]
fn a_validation_pass_drops_nothing_and_keeps_nothing() {
    for case in ["perceptron 64 512", "gpt2 2 128", "gpt2 2 128 --attention eager"] {
        let (plain, evaluated) = (traced(case), traced(&format!("{case} --evaluation")));
        let drops = |trace: &Trace| {
            let names = trace.operators.iter().map(|&operator| trace.label(operator));
            names.filter(|name| name.to_ascii_lowercase().contains("dropout")).count()
        };
        assert!(drops(&plain) > 0, "{case} drops nothing in training");
        assert_eq!(drops(&evaluated), drops(&plain), "{case}");
        let [begin, end] = validation(&evaluated);
        let events = &evaluated.events[begin..end];
        assert!(!events.is_empty(), "{case}");
        for event in events {
            let count = events.iter().filter(|other| other.storage() == event.storage()).count();
            assert_eq!(
                count, 2,
                "{case}: {event:?} is not freed within the pass, or not made in it"
            );
        }
    }
}

/// A recurrent module's weights are placed twice, and counted once.
#[test]
fn recurrent_weights_are_counted_once() {
    let bytes = fixtures::read("evaluation/tagger.yaml");
    let model = highwater_core::open(&mut bytes.as_slice(), "tagger").unwrap();
    let report = model.estimate(model.defaults()).unwrap();
    assert_eq!(report.model.parameters, 232_714);
    assert_eq!(report.model.parameter_bytes.0, 4 * 232_714);
}

/// The run of a case: `MODEL BATCH LENGTH SETTINGS`.
fn traced(case: &str) -> Trace {
    let mut words = case.splitn(4, ' ');
    let [model, batch, seq, settings] =
        [(); 4].map(|()| words.next().unwrap_or_default().to_owned());
    let run = Run { model, batch: batch.parse().unwrap(), seq: seq.parse().ok(), settings };
    let name = &run.model;
    let packed = fixtures::unpack(&format!("zoo/train/{name}.onnx.gz"));
    let bytes = packed.unwrap_or_else(|| fixtures::read(&format!("evaluation/{name}.yaml")));
    let model = highwater_core::open(&mut bytes.as_slice(), name).unwrap();
    let defaults = Config { loss: model.defaults().loss, ..Config::default() };
    model.trace(&run.configuration_over(&model, &defaults).unwrap()).unwrap()
}

/// Where the forward that follows the second step begins, and where it ends.
fn validation(trace: &Trace) -> [usize; 2] {
    let step =
        trace.phases.iter().position(|mark| (mark.iteration, mark.phase) == (2, Phase::Optimizer));
    let [begin, end] = [1, 2].map(|behind| trace.phases[step.unwrap() + behind]);
    assert_eq!((begin.iteration, begin.phase), (2, Phase::Forward));
    [begin.event, end.event]
}
