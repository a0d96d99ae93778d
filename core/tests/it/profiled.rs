//! Profiler traces from a CPU: predicted against what PyTorch does on a GPU, and files nobody should send.
//!
//! `tests/profiles.txt` is the table, reviewed like code; `UPDATE_EXPECT=1 cargo test` rewrites it.

use std::fmt::Write as _;
use std::io::Write as _;

use expect_test::{Expect, expect, expect_file};
use flate2::Compression;
use flate2::write::GzEncoder;
use highwater_core::diagnostic::Severity;
use highwater_core::profiled::{self, History, Prediction, Profile, Rules, Target, Traced};
use highwater_core::{Bytes, Config, Error, ErrorKind};
use proptest::prelude::*;

use crate::fixtures;
use crate::runs::{error, mib, percent, signed};

fn read(bytes: &[u8]) -> Result<Profile, Error> {
    profiled::open(&mut &*bytes)
}

fn unpacked(name: &str) -> Vec<u8> {
    fixtures::unpack(&format!("profiles/{name}.json.gz")).unwrap()
}

fn predict(profile: &Profile, rules: Rules) -> Prediction {
    let history = History::of(profile).unwrap();
    profiled::predict(&history, rules, &Target::default()).unwrap()
}

/// Allocated and reserved.
fn peaks(prediction: &Prediction) -> [u64; 2] {
    [prediction.replay.allocated.bytes.0, prediction.replay.reserved.bytes.0]
}

/// Names, and allocated and reserved.
fn truths() -> Vec<(String, [u64; 2])> {
    let text = String::from_utf8(fixtures::read("profiles/truth.csv")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].to_owned(), [cells[2].parse().unwrap(), cells[3].parse().unwrap()])
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn predictions_are_as_near_as_the_table_says() {
    let mut text = String::from(
        "Peaks over two or three steps on an A100, in MiB, predicted from a profiler trace of the same steps on a\n\
         CPU: what PyTorch did, the error of xMem's rules, and ours. `=` is equal to the byte.\n\n",
    );
    let head = ["profile", "allocated", "published", "ours", "reserved", "published", "ours"];
    let mut row = |[name, rest @ ..]: [&str; 7]| {
        write!(text, "{name:36}").unwrap();
        for cell in rest {
            write!(text, " {cell:>10}").unwrap();
        }
        text.push('\n');
    };
    row(head);
    // Hundredths of a percent, of allocated and reserved, by rules.
    let mut sums = [[0; 2]; 2];
    let truths = truths();
    for (name, truth) in &truths {
        let profile = read(&fixtures::read(&format!("profiles/{name}.json.gz"))).unwrap();
        let found = Rules::ALL.map(|rules| peaks(&predict(&profile, rules)));
        for (sums, found) in sums.iter_mut().zip(found) {
            for at in 0..2 {
                sums[at] += error(found[at], truth[at]).unsigned_abs();
            }
        }
        let cell = |rules: usize, at: usize| signed(found[rules][at], truth[at]);
        let [allocated, reserved] = truth.map(mib);
        let cells = [cell(0, 0), cell(1, 0), cell(0, 1), cell(1, 1)];
        let [a, b, c, d] = cells.each_ref().map(String::as_str);
        row([name, &allocated, a, b, &reserved, c, d]);
    }
    let count = u64::try_from(truths.len()).unwrap();
    let [a, c, b, d] =
        [sums[0][0], sums[0][1], sums[1][0], sums[1][1]].map(|sum| percent(sum / count));
    row(["mean of absolute errors", "", &a, &b, "", &c, &d]);
    assert!(sums[1][0] < sums[0][0] && sums[1][1] < sums[0][1], "ours are no better: {text}");
    expect_file!["../../../tests/profiles.txt"].assert_eq(&text);
}

#[test]
fn a_plain_trace_is_the_packed_one() {
    let packed = fixtures::read("profiles/mlp_512_sgd.json.gz");
    assert_eq!(read(&packed).unwrap(), read(&unpacked("mlp_512_sgd")).unwrap());
}

#[test]
fn where_the_model_is_not_told_gradients_stand_in() {
    let text = String::from_utf8(unpacked("mlp_512_sgd")).unwrap();
    let profile = read(text.replace("\"highwater ", "\"another ").as_bytes()).unwrap();
    let annotated = read(text.as_bytes()).unwrap();
    for rules in Rules::ALL {
        let [without, with] = [&profile, &annotated].map(|profile| predict(profile, rules));
        assert!(
            without.diagnostics.iter().any(|diagnostic| diagnostic.code == "model-not-recorded")
        );
        // The batch is missing, 512 rows of 1024 numbers and a label each, and where it was freed others lie.
        let off = error(peaks(&without)[0], peaks(&with)[0]);
        assert!((-300..=0).contains(&off), "{rules:?}: {off}");
    }
}

/// In the form of an estimate it says the same, on every card.
#[test]
fn a_trace_is_answered_as_an_estimate_is() {
    let profile = read(&fixtures::read("profiles/resnet18_8_sgd_128.json.gz")).unwrap();
    let history = History::of(&profile).unwrap();
    let t4 = Config { device: "t4".to_owned(), ..Config::default() };
    for (config, shown) in [(&Config::default(), 0), (&Config::default(), 1), (&t4, 0)] {
        let traced = Traced::of(&history, config, shown).unwrap();
        let report = traced.report("it");
        let target = Target { device: config.device.clone(), ..Target::default() };
        let prediction = profiled::predict(&history, traced.rules(), &target).unwrap();
        let found = [report.peak.allocated.0, report.peak.reserved.0];
        assert_eq!(found, peaks(&prediction));
        let run = report.recorded.unwrap();
        assert!(run.is_prediction() && run.shown == shown && run.readings.len() == 2);
        assert_eq!(run.readings[shown].allocated, report.peak.allocated);
        assert_eq!(traced.look(report.peak.event).allocated, report.peak.allocated);
        assert_eq!(profiled::verdict(&history, traced.rules(), config).unwrap(), report.verdict);
        let replayed = traced.calls().what_if("").unwrap().replayed;
        assert_eq!(replayed.reserved, report.peak.reserved);
    }
    // The annotated tensors are the model.
    let model = Traced::of(&history, &t4, 0).unwrap().report("it").model;
    assert_eq!(model.parameters, 11_689_512);
    // Where there is too little, it says where that shows.
    let small = Config { capacity: Some(Bytes::mib(360)), ..t4 };
    let ends = profiled::verdict(&history, Rules::Highwater, &small).unwrap();
    assert!(ends.verdict.fails());
    assert!(ends.out_of_memory.unwrap().message.contains("CUDA out of memory"));
}

/// A schedule whose profiler nobody steps counts one step: then optimizers do.
#[test]
fn steps_are_those_of_the_optimizer_where_the_profiler_counts_one() {
    let text = String::from_utf8(unpacked("mlp_64_adamw")).unwrap();
    let counted = read(text.as_bytes()).unwrap();
    let last = text.rfind("ProfilerStep#").unwrap();
    let (before, after) = text.split_at(last);
    let alone = [&before.replace("ProfilerStep#", "Other#"), after].concat();
    let alone = read(alone.as_bytes()).unwrap();
    assert_eq!(History::of(&alone).unwrap().steps.len(), 3);
    assert_eq!(
        peaks(&predict(&alone, Rules::Highwater)),
        peaks(&predict(&counted, Rules::Highwater))
    );
}

fn check_warned(text: &str, expected: &[&str]) {
    let found = predict(&read(text.as_bytes()).unwrap(), Rules::Highwater).diagnostics;
    let warnings = found.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning);
    let codes: Vec<&str> = warnings.map(|diagnostic| diagnostic.code.as_str()).collect();
    assert_eq!(codes, expected);
}

#[test]
fn what_a_trace_cannot_tell_is_said() {
    let of = |name| String::from_utf8(unpacked(name)).unwrap();
    check_warned(&of("mlp_512_sgd"), &[]);
    check_warned(&of("bert_tiny_8_adamw_128_bfloat16"), &["autocast-as-on-cpu"]);
    check_warned(&of("lstm_16_adamw"), &["recurrent-as-on-cpu"]);
    let plain = of("mlp_64_adamw");
    check_warned(&plain.replacen("AdamW.step", "SGD.step", 1), &["optimizer-as-on-cpu"]);
    check_warned(&plain.replace("AdamW.step", "Own.step"), &["optimizer-as-on-cpu"]);
    let frozen = plain.replace("parameter:", "frozen:");
    check_warned(&frozen, &["mark-contradicted"]);
    check_warned(&of("mlp_512_sgd").replace("\"Input Dims\"", "\"Dims\""), &["no-shapes"]);
    // Two of a class: each has calls of its own, whose first makes state.
    check_warned(&two_optimizers(), &["model-not-recorded", "optimizer-as-on-cpu"]);
}

/// Two steps, in each of which two optimizers step; both make state in the first.
fn two_optimizers() -> String {
    let mut events = Vec::new();
    let mut event = |name: &str, category: &str, start: u64, length: u64, rest: &str| {
        events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","tid":1,"ts":{start},"dur":{length}{rest}}}"#
        ));
    };
    for (step, state) in [(0, true), (100, false)] {
        event("ProfilerStep#1", "user_annotation", step + 1, 98, "");
        for start in [step + 10, step + 40] {
            event("Optimizer.step#Adam.step", "user_annotation", start, 20, "");
            event("aten::zeros_like", "cpu_op", start + 1, 10, "");
            let memory = |sign, address: u64| {
                format!(r#","args":{{"Addr":{address},"Bytes":{sign}4096,"Device Type":0}}"#)
            };
            event("[memory]", "cpu_instant_event", start + 2, 0, &memory("", start));
            if !state {
                event("[memory]", "cpu_instant_event", start + 3, 0, &memory("-", start));
            }
        }
    }
    format!("{{\"traceEvents\": [{}]}}", events.join(","))
}

fn check_refused(bytes: &[u8], kind: ErrorKind, expected: &Expect) {
    let refused = read(bytes).and_then(|profile| History::of(&profile).map(|_| ()));
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    expected.assert_eq(error.to_string().split("record it").next().unwrap());
}

/// A trace of these events.
fn trace(events: &[&str]) -> Vec<u8> {
    format!("{{\"schemaVersion\": 1, \"traceEvents\": [{}]}}", events.join(",")).into_bytes()
}

const ALLOC: &str = r#"{"ph":"i","cat":"cpu_instant_event","name":"[memory]","tid":1,"ts":2.5,
    "args":{"Addr":16,"Bytes":4096,"Device Type":0}}"#;
const STEP: &str =
    r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#0","tid":1,"ts":1,"dur":9}"#;

#[test]
fn what_gzip_packed_has_its_checksum() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&trace(&[STEP, ALLOC])).unwrap();
    let mut packed = packed.finish().unwrap();
    let checksum = packed.len() - 8;
    packed[checksum] ^= 1;
    check_refused(
        &packed,
        ErrorKind::Corrupt,
        &expect![
            "the trace breaks in line 0: what gzip packed is damaged: corrupt gzip stream does not have a matching checksum; "
        ],
    );
}

#[test]
fn what_is_no_trace_is_refused() {
    check_refused(b"", ErrorKind::Empty, &expect!["the file is empty"]);
    check_refused(
        b"[1, 2]",
        ErrorKind::WrongFormat,
        &expect![
            "line 1, column 1: invalid type: sequence, expected a trace of torch.profiler; this is no trace: "
        ],
    );
    check_refused(
        b"{\"a\": 1}",
        ErrorKind::WrongFormat,
        &expect!["this JSON has no traceEvents; "],
    );
    check_refused(
        b"{\"traceEvents\": [{\"ts\": 1}, {",
        ErrorKind::Corrupt,
        &expect!["the trace ends in the middle, in line 1: it was not written to its end; "],
    );
    check_refused(
        b"{\"traceEvents\": [{\"ts\": oh",
        ErrorKind::WrongFormat,
        &expect!["line 1, column 25: expected value; this is no trace: "],
    );
    check_refused(
        b"\x1f\x8bnothing",
        ErrorKind::Corrupt,
        &expect!["the trace ends in the middle, in line 0: it was not written to its end; "],
    );
    let mark = r#"{"ph":"X","cat":"user_annotation","name":"highwater batch:int64[8] weight:float32[2]","tid":1,"ts":1,"dur":1}"#;
    check_refused(
        &trace(&[STEP, mark, ALLOC]),
        ErrorKind::WrongFormat,
        &expect![
            "the mark `highwater …` has `weight:float32[2]`, which is not understood: write it as docs/profiles.md does; "
        ],
    );
    check_refused(
        &trace(&[STEP]),
        ErrorKind::NoGraph,
        &expect!["the trace has no allocations: profile_memory=True was missing; "],
    );
    check_refused(
        &trace(&[STEP, ALLOC]),
        ErrorKind::NoGraph,
        &expect![
            "the trace has one step of training: two or more are needed, since the first has no optimizer state yet. Give the profiler schedule(wait=0, warmup=0, active=3, repeat=1) and call its step() after each step of training"
        ],
    );
    let on_gpu = ALLOC.replace("Type\":0", "Type\":1");
    check_refused(
        &trace(&[STEP, &on_gpu]),
        ErrorKind::WrongFormat,
        &expect![
            "the trace is of training on a GPU, and contains the memory of this training; a snapshot of torch.cuda.memory._dump_snapshot() contains more. To predict from a trace, train on the CPU; "
        ],
    );
    let packed = fixtures::read("profiles/mlp_512_sgd.json.gz");
    check_refused(
        &packed[..packed.len() / 2],
        ErrorKind::Corrupt,
        &expect!["the trace ends in the middle, in line 313: it was not written to its end; "],
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Damaged traces are refused or understood otherwise; nothing breaks.
    #[test]
    fn damaged_traces_do_no_harm(places in prop::collection::vec((0usize..200_000, any::<u8>()), 1..20)) {
        let mut bytes = unpacked("mlp_512_sgd");
        for (place, byte) in places {
            let place = place % bytes.len();
            bytes[place] = if byte < 128 { b'0' + byte % 10 } else { byte };
        }
        if let Ok(profile) = read(&bytes)
            && let Ok(history) = History::of(&profile)
        {
            for rules in Rules::ALL {
                profiled::predict(&history, rules, &Target::default()).unwrap();
            }
        }
    }
}
