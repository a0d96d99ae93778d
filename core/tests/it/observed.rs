//! Messages and `nvidia-smi` → figures, causes, settings; and back to the operator that failed.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::bytes::Printed;
use highwater_core::estimate::{Match, Stages};
use highwater_core::observed::{self, Explanation, Observed};
use highwater_core::{Bytes, Config};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

use crate::{fixtures, runs};

/// The texts of `messages/messages.txt`, with their titles.
fn texts() -> Vec<(String, String)> {
    let all = String::from_utf8(fixtures::read("messages/messages.txt")).unwrap();
    let mut texts: Vec<(String, String)> = Vec::new();
    for line in all.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            texts.push((title.to_owned(), String::new()));
        } else if let Some((_, text)) = texts.last_mut() {
            *text += line;
            text.push('\n');
        }
    }
    texts
}

/// What is found, a line for each kind of thing.
fn dump(observed: &Observed, explanation: &Explanation) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "  {text}").unwrap();
    if let Some(message) = &observed.message {
        let sizes = [
            ("tried", message.tried),
            ("free", message.free),
            ("of", message.capacity),
            ("allocated", message.allocated),
            ("unallocated", message.unallocated),
            ("reserved", message.reserved),
            ("process", message.process),
            ("private", message.private_pools),
            ("allowed", message.allowed),
        ];
        let told: Vec<String> = sizes
            .iter()
            .filter_map(|(name, size)| Some(format!("{name} {}", (*size)?)))
            .chain(message.other_processes.iter().map(|(pid, size)| format!("{pid} has {size}")))
            .collect();
        let gpu = message.gpu.map_or_else(|| "-".to_owned(), |gpu| gpu.to_string());
        let library = message.library.unwrap_or_default();
        let (backend, versions) = (message.backend.name(), message.versions);
        line(format!("{backend} {library} GPU {gpu}, PyTorch {versions}: {}", told.join(", ")));
    }
    if let Some(machine) = &observed.machine {
        line(format!("driver {:?}, CUDA {:?}", machine.driver, machine.cuda));
        for gpu in &machine.gpus {
            let (name, used, total) = (&gpu.name, gpu.used, gpu.total);
            line(format!("GPU {} {name}: {used:?} of {total:?}, ECC {:?}", gpu.index, gpu.ecc));
            for process in &gpu.processes {
                line(format!("  process {} {}: {:?}", process.pid, process.name, process.bytes));
            }
            for part in &gpu.instances {
                line(format!("  instance {}: {} of {}", part.id, part.used, part.total));
            }
        }
    }
    let size = |size: Option<Printed>| size.map_or_else(|| "-".to_owned(), |size| size.to_string());
    let cause = explanation.cause.map_or("-", |cause| cause.name());
    let Explanation { missing, context, other_processes, .. } = explanation;
    line(format!(
        "cause {cause}, missing {}, context {}, others {}",
        size(*missing),
        size(*context),
        size(*other_processes)
    ));
    let config = explanation.known.apply(Config::default());
    let unusual: Vec<String> =
        config.unusual().iter().map(|(name, value)| format!("{name} {value}")).collect();
    line(format!("{} {}, {}", config.device, config.pytorch, unusual.join(", ")));
    let codes: Vec<&str> = explanation.notes.iter().map(|note| note.code.as_str()).collect();
    line(format!("notes: {}", codes.join(", ")));
    out
}

#[test]
fn every_grammar_is_read() {
    let mut out = String::new();
    for (title, text) in texts() {
        let observed = observed::read(&text);
        writeln!(out, "{title}").unwrap();
        out += &dump(&observed, &observed.explain());
    }
    expect_file!["../../../tests/fixtures/messages/read.txt"].assert_eq(&out);
}

/// A message reads the same however it is wrapped, indented and coloured.
#[test]
fn wraps_and_colours_change_nothing() {
    for (title, text) in texts() {
        let Some(expected) = observed::read(&text).message else { continue };
        if text.lines().count() > 1 {
            continue;
        }
        let letters: Vec<char> = text.trim_end().chars().collect();
        for width in [40, 79, 120] {
            let wrapped: Vec<String> = letters
                .chunks(width)
                .map(|line| {
                    format!("[rank3]: \u{1b}[31m{}\u{1b}[0m", line.iter().collect::<String>())
                })
                .collect();
            let read = observed::read(&wrapped.join("\r\n")).message;
            assert_eq!(read.as_ref(), Some(&expected), "{title}, {width}");
        }
    }
}

/// Messages of PyTorch's own, from devices that are too small: the simulated step has the operator
/// in the phase, with the very bytes.
#[test]
fn the_operator_that_failed_is_found() {
    let mut out = String::new();
    let mut exact = 0;
    let recorded = String::from_utf8(fixtures::read("messages/oracle.jsonl")).unwrap();
    for line in recorded.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let (name, message) = (text("model"), observed::read(text("message")).message.unwrap());
        let bytes = fixtures::unpack(&format!("zoo/train/{name}.onnx.gz")).unwrap();
        let model = highwater_core::open(&mut bytes.as_slice(), name).unwrap();
        let run = runs::Run {
            model: name.to_owned(),
            batch: row["batch"].as_u64().unwrap(),
            seq: row["seq"].as_u64(),
            settings: text("settings").to_owned(),
        };
        let located = model
            .locate(&run.configuration(&model).unwrap(), &message, &mut Stages::default())
            .unwrap();
        let operators = text("operators").rsplit('>').next().unwrap_or_default();
        write!(
            out,
            "{name} {} {} {} MiB: {} {operators} {}",
            run.batch,
            text("settings"),
            row["memory_mib"],
            text("phase"),
            Bytes(row["bytes"].as_u64().unwrap())
        )
        .unwrap();
        let Some(place) = located.places.first() else {
            writeln!(out, "\n  nowhere").unwrap();
            continue;
        };
        let (fits, phase) = (place.fits.name(), place.phase.name());
        let (operator, module) = (&place.operator, &place.module);
        writeln!(out, "\n  {fits}: {phase} {operator} of {module}, {}", place.requested).unwrap();
        if place.fits == Match::Fails {
            exact += 1;
            assert_eq!(Some(place.requested.0), row["bytes"].as_u64(), "{line}");
            let phases: Vec<String> =
                place.iterations.iter().map(|iteration| format!("{iteration}:{phase}")).collect();
            assert!(phases.contains(&text("phase").to_owned()), "{phases:?}: {line}");
        }
    }
    writeln!(out, "{exact} of {} to the byte", recorded.lines().count()).unwrap();
    expect_file!["../../../tests/fixtures/messages/located.txt"].assert_eq(&out);
}

/// Asked with another batch, the one that was trained with is named.
#[test]
fn the_batch_is_found() {
    let bytes = fixtures::unpack("zoo/train/gpt2.onnx.gz").unwrap();
    let model = highwater_core::open(&mut bytes.as_slice(), "gpt2").unwrap();
    let recorded = String::from_utf8(fixtures::read("messages/oracle.jsonl")).unwrap();
    let row: Value = serde_json::from_str(recorded.lines().next().unwrap()).unwrap();
    assert_eq!((row["model"].as_str(), row["batch"].as_u64()), (Some("gpt2"), Some(4)));
    let message = observed::read(row["message"].as_str().unwrap()).message.unwrap();
    for batch in [1, 7, 32] {
        let run = runs::Run {
            model: "gpt2".to_owned(),
            batch,
            seq: row["seq"].as_u64(),
            settings: String::new(),
        };
        let located = model
            .locate(&run.configuration(&model).unwrap(), &message, &mut Stages::default())
            .unwrap();
        let found = located.batch.map(|(batch, place)| (batch, place.fits));
        assert_eq!(found, Some((4, Match::Fails)), "{batch}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x0816),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_text_panics(text in any::<String>()) {
        observed::read(&text).explain();
    }

    /// Pieces of real texts in any order, with anything between them.
    #[test]
    fn mixed_texts_never_panic(
        pieces in prop::collection::vec((any::<u16>(), any::<u16>(), 0..90_usize, "\\PC{0,3}"), 1..30)
    ) {
        let all: Vec<char> =
            String::from_utf8(fixtures::read("messages/messages.txt")).unwrap().chars().collect();
        let mut text = String::new();
        for (high, low, length, between) in pieces {
            let at = (usize::from(high) * 65_536 + usize::from(low)) % all.len();
            text.extend(all.iter().skip(at).take(length));
            text += &between;
        }
        observed::read(&text).explain();
    }

    #[test]
    fn sizes_round_as_they_are_printed(bytes in 0..1_u64 << 50) {
        let printed = Printed::read(&Bytes(bytes).to_string()).unwrap();
        prop_assert!(printed.may_be(Bytes(bytes)));
    }
}
