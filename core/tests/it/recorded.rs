//! Memory snapshots: those that PyTorch recorded, ours, and such as nobody should send.

use std::fmt::Write as _;
use std::sync::LazyLock;

use expect_test::{Expect, expect};
use highwater_core::allocator::Settings;
use highwater_core::estimate::Stages;
use highwater_core::export::{self, Played};
use highwater_core::recorded::{self, Action, MemorySnapshot, Recorded};
use highwater_core::report::difference::by_phase;
use highwater_core::report::{By, DeviceVerdict, Fragmentation, Gap, Peak, Verdict};
use highwater_core::trace::Category;
use highwater_core::{Bytes, Config, Error, ErrorKind, Model, Report};
use proptest::prelude::*;

use crate::{fixtures, runs};

fn unpacked(name: &str) -> Vec<u8> {
    fixtures::unpack(&format!("snapshots/{name}.pickle.gz")).unwrap()
}

fn read(bytes: &[u8]) -> Result<MemorySnapshot, Error> {
    recorded::open(&mut &*bytes)
}

/// What a snapshot says, a line each.
fn told(recorded: &Recorded<'_>) -> String {
    let mut text = String::new();
    let (reserved, entry) = recorded.reserved_peak;
    writeln!(text, "{} entries, {} before", recorded.entries().len(), recorded.before.len())
        .unwrap();
    for (name, moment) in [("peak", &recorded.peak), ("end", &recorded.end)] {
        let Fragmentation { whole, split, largest, .. } = moment.fragmentation();
        writeln!(
            text,
            "{name} {}: {} {} {}, {} blocks in {} segments; {} whole {}, {} holes {}, largest {largest:?}",
            moment.entry,
            moment.requested.0,
            moment.allocated.0,
            moment.reserved.0,
            moment.live.len(),
            moment.segments.len(),
            whole.count,
            whole.bytes.0,
            split.count,
            split.bytes.0
        )
        .unwrap();
        let origins = moment.origins().into_iter();
        let origins: Vec<_> =
            origins.map(|(origin, bytes)| format!("{} {}", origin.name(), bytes.0)).collect();
        writeln!(text, "  {}", origins.join(", ")).unwrap();
    }
    writeln!(text, "reserved {} at {entry}", reserved.0).unwrap();
    for outcome in recorded.what_ifs(None).unwrap() {
        let replayed = outcome.replayed;
        let (reserved, allocated) = (replayed.reserved.0, replayed.allocated.0);
        writeln!(text, "`{}` {reserved} {allocated}", outcome.alloc_conf).unwrap();
    }
    for diagnostic in &recorded.diagnostics {
        writeln!(text, "{}", diagnostic.code).unwrap();
    }
    text
}

fn check(name: &str, expected: &Expect) {
    let snapshot = read(&unpacked(name)).unwrap();
    let recorded = Recorded::of(&snapshot, None).unwrap();
    expected.assert_eq(&told(&recorded));
}

#[test]
fn a_recorded_run() {
    check(
        "resnet18",
        &expect![[r#"
            1143 entries, 0 before
            peak 562: 270070456 271696384 314572800, 204 blocks in 23 segments; 6 whole 25165824, 15 holes 17710592, largest [Bytes(2097152), Bytes(14680064)]
              forward 150969088, unknown 72304756, moved 46796608, backward 4
            end 1142: 191919716 195123712 406847488, 312 blocks in 27 segments; 7 whole 136314880, 12 holes 75408896, largest [Bytes(2097152), Bytes(35651584)]
              optimizer 93516096, unknown 51575012, moved 46796608, forward 32000
            reserved 406847488 at 1007
            `` 406847488 271696384
            `expandable_segments:True` 312475648 270090752
            `max_split_size_mb:128` 406847488 271696384
            `max_split_size_mb:512` 406847488 271696384
            `roundup_power2_divisions:8` 434110464 287854080
        "#]],
    );
}

#[test]
fn what_a_ring_buffer_forgot_is_found_backwards() {
    check(
        "resnet18_ring",
        &expect![[r#"
            600 entries, 331 before
            peak 146: 363586552 367659520 438304768, 328 blocks in 30 segments; 4 whole 41943040, 25 holes 28702208, largest [Bytes(2097152), Bytes(35651584)]
              unknown 223241848, optimizer 93516096, moved 46796608, forward 32000
            end 599: 191919716 195533312 465567744, 312 blocks in 31 segments; 9 whole 159383552, 24 holes 110650880, largest [Bytes(2097152), Bytes(35651584)]
              optimizer 93516096, unknown 51575012, moved 46796608, forward 32000
            reserved 465567744 at 389
            `` 503316480 367413760
            `expandable_segments:True` 396361728 363612672
            `max_split_size_mb:128` 503316480 367413760
            `max_split_size_mb:512` 503316480 367413760
            `roundup_power2_divisions:8` 511705088 380825088
            begins-late
        "#]],
    );
}

#[test]
fn segments_may_grow() {
    check(
        "resnet18_expandable",
        &expect![[r#"
            2140 entries, 0 before
            peak 1687: 363586552 363612672 398458880, 328 blocks in 2 segments; 0 whole 0, 15 holes 34846208, largest [Bytes(7066112), Bytes(16924160)]
              forward 150969088, optimizer 93516096, unknown 72304756, moved 46796608, backward 4
            end 2139: 191919716 191945216 398458880, 312 blocks in 2 segments; 0 whole 0, 16 holes 206513664, largest [Bytes(7066112), Bytes(111853568)]
              optimizer 93516096, unknown 51575012, moved 46796608, forward 32000
            reserved 398458880 at 1660
            `expandable_segments:True` 398458880 363612672
            `max_split_size_mb:128` 438304768 369216000
            `max_split_size_mb:512` 438304768 369216000
            `roundup_power2_divisions:8` 465567744 383446528
        "#]],
    );
}

/// To the byte, and so do the same calls to our allocator; a history without its beginning has to be
/// a little off.
#[test]
fn peaks_are_those_of_memory_stats() {
    for row in runs::table("snapshots/truth.csv") {
        let name = &row["snapshot"];
        let bytes = |peak: &str| Bytes(row[peak].parse().unwrap());
        let snapshot = read(&unpacked(name)).unwrap();
        let recorded = Recorded::of(&snapshot, None).unwrap();
        assert_eq!(recorded.peak.requested, bytes("requested"), "{name}");
        assert_eq!(recorded.reserved_peak.0, bytes("reserved"), "{name}");
        let begins_late = !recorded.before.is_empty();
        assert_eq!(recorded.peak.allocated == bytes("allocated"), !begins_late, "{name}");
        if !begins_late && snapshot.alloc_conf.as_deref() == Some("") {
            let replayed = recorded.replay(&Settings::default());
            assert_eq!(replayed.allocated, bytes("allocated"), "{name}");
            assert_eq!(replayed.reserved, bytes("reserved"), "{name}");
        }
    }
}

fn zoo(name: &str) -> Model {
    let bytes = fixtures::unpack(&format!("zoo/train/{name}.onnx.gz")).unwrap();
    highwater_core::open(&mut bytes.as_slice(), name).unwrap()
}

/// Writes a simulated run, reads it, and compares.
fn there_and_back(model: &Model, config: &Config) {
    let simulation = model.simulate(config, &mut Stages::default()).unwrap();
    let snapshot = read(&export::snapshot(&Played::of(&simulation))).unwrap();
    let recorded = Recorded::of(&snapshot, None).unwrap();
    let report = simulation.report();
    assert!(recorded.before.is_empty());
    assert_eq!(recorded.diagnostics, []);
    assert_eq!(recorded.peak.requested, report.peak.requested);
    assert_eq!(recorded.peak.allocated, report.peak.allocated);
    assert_eq!(recorded.reserved_peak.0, report.peak.reserved);
    let ours = simulation.snapshot(report.peak.event);
    assert_eq!(recorded.peak.reserved, ours.reserved);
    let samples = recorded.timeline(100);
    let highest = samples.iter().max_by_key(|sample| sample.allocated).unwrap();
    assert_eq!((highest.allocated, samples.len() <= 100), (report.peak.allocated, true));
    assert_eq!(recorded.peak.fragmentation(), Fragmentation::of(&ours.segments));
    let last = simulation.snapshot(usize::MAX);
    assert_eq!(recorded.end.fragmentation(), Fragmentation::of(&last.segments));
    assert_eq!(recorded.end.live.len(), last.live.len());
    let replayed = recorded.replay(simulation.settings());
    assert_eq!(replayed.reserved, report.peak.reserved);
    assert_eq!(replayed.allocated, report.peak.allocated);
}

#[test]
fn simulated_runs_are_read_as_they_were_written() {
    for name in ["resnet18", "gpt2", "alexnet"] {
        there_and_back(&zoo(name), &Config::default());
    }
}

#[test]
fn what_gzip_packed_is_read_as_it_is() {
    let packed = fixtures::read("snapshots/resnet18.pickle.gz");
    assert_eq!(read(&packed).unwrap(), read(&unpacked("resnet18")).unwrap());
    let message = refused(&packed[..packed.len() / 2]);
    assert!(message.contains("what gzip packed ends in the middle"), "{message}");
    let mut damaged = packed;
    let checksum = damaged.len() - 8;
    damaged[checksum] ^= 1;
    let message = refused(&damaged);
    assert!(message.contains("what gzip packed is damaged"), "{message}");
    assert!(message.contains("checksum"), "{message}");
}

#[test]
fn a_snapshot_has_a_reading_for_each_gpu() {
    let mut snapshot = read(&unpacked("resnet18")).unwrap();
    assert_eq!(recorded::readings(&snapshot).len(), 1);
    // The same history once more, on another GPU, and a third that is idle.
    let trace = snapshot.traces[0].clone();
    snapshot.traces = vec![trace.clone(), 0..0, trace];
    let on_second =
        |segment: &recorded::Segment| recorded::Segment { device: 2, ..segment.clone() };
    let more: Vec<_> = snapshot.segments.iter().map(on_second).collect();
    snapshot.segments.extend(more);
    let readings = recorded::readings(&snapshot);
    assert_eq!(readings.iter().map(|it| it.by).collect::<Vec<_>>(), [By::Gpu(0), By::Gpu(2)]);
    assert_eq!(readings[0].reserved, readings[1].reserved);
    let second = Recorded::of(&snapshot, Some(2)).unwrap();
    assert_eq!(second.reading(), readings[1]);
}

/// A simulated run beside its own recording: the same in every phase.
#[test]
fn phases_are_compared() {
    let model = zoo("resnet18");
    let simulation = model.simulate(&Config::default(), &mut Stages::default()).unwrap();
    let estimate = simulation.report();
    let snapshot = read(&export::snapshot(&Played::of(&simulation))).unwrap();
    let recorded = Recorded::of(&snapshot, None).unwrap().report("it", &Config::default()).unwrap();
    let phases = by_phase(&estimate, &recorded);
    assert_eq!(phases.len(), 10, "{phases:#?}");
    assert!(phases.iter().all(|row| row.before == row.after && row.mostly.is_none()));

    // Beside a real one: its stacks tell origins only, and a backward pass only from its second node on.
    let snapshot = read(&unpacked("resnet18_expandable")).unwrap();
    let recorded = Recorded::of(&snapshot, None).unwrap().report("it", &Config::default()).unwrap();
    let mut config =
        Config { alloc_conf: "expandable_segments:True".to_owned(), ..Config::default() };
    config.dims.insert("batch".to_owned(), 8);
    let estimate = model.estimate(&config).unwrap();
    let mut text = String::new();
    for row in by_phase(&estimate, &recorded) {
        let mostly = row.mostly.map_or("-", |(category, _)| category.name());
        let (phase, before, after) = (row.phase.name(), row.before.0, row.after.0);
        writeln!(text, "{} {phase} {before} {after} {mostly}", row.iteration).unwrap();
    }
    expect![[r#"
        0 setup 51629568 51629568 -
        1 forward 234758144 234758144 -
        1 backward 270090752 270090752 -
        1 optimizer 238706176 238706176 -
        2 forward 328312832 328312832 -
        2 backward 363612672 363612672 -
        2 optimizer 238706176 238706176 -
    "#]]
    .assert_eq(&text);
}

const MLP: &str = "input: [N, 256]\nlayers:\n  - linear: 1024\n  - relu\n  - linear: 10\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn so_is_any_batch(batch in 1_u64..20_000, rounds in 0_u32..4) {
        let model = highwater_core::open(&mut MLP.as_bytes(), "mlp").unwrap();
        let mut config = Config::default();
        config.dims.insert("N".to_owned(), batch);
        config.alloc_conf = match rounds {
            0 => String::new(),
            1 => "roundup_power2_divisions:4".to_owned(),
            2 => "max_split_size_mb:32".to_owned(),
            _ => "expandable_segments:True".to_owned(),
        };
        there_and_back(&model, &config);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever is damaged is read or refused.
    #[test]
    fn damage_is_survived(places in prop::collection::vec((0_usize..4000, any::<u8>()), 1..8), cut in 0_usize..4000) {
        let mut bytes = SMALL.clone();
        for (place, byte) in places {
            if let Some(slot) = bytes.get_mut(place) {
                *slot = byte;
            }
        }
        for bytes in [&bytes[..], &bytes[..cut.min(bytes.len())]] {
            if let Ok(snapshot) = read(bytes)
                && let Ok(recorded) = Recorded::of(&snapshot, None)
            {
                told(&recorded);
            }
        }
    }
}

/// The snapshot of a small run.
static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let model = highwater_core::open(&mut MLP.as_bytes(), "mlp").unwrap();
    export::snapshot(&Played::of(
        &model.simulate(&Config::default(), &mut Stages::default()).unwrap(),
    ))
});

/// A block outside of all segments, at the end of all addresses, freed twice.
#[test]
fn addresses_may_be_absurd() {
    let entry = |action: &str, address: &[u8]| {
        let length = u8::try_from(action.len()).unwrap();
        let action = [b"\x8c".as_slice(), &[length], action.as_bytes()].concat();
        [b"}(\x8c\x06action", &*action, b"\x8c\x04addr", address, b"\x8c\x04sizeK\x64u"].concat()
    };
    let last = b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00".as_slice();
    let entries = [
        entry("segment_alloc", b"K\x10"),
        entry("alloc", b"M\x00\x10"),
        entry("alloc", last),
        entry("alloc", last),
        entry("free_completed", last),
        entry("free_completed", last),
        entry("segment_unmap", last),
        entry("segment_free", b"K\x10"),
    ];
    let head = b"\x80\x02}(\x8c\x08segments]\x8c\x0ddevice_traces](](".as_slice();
    let snapshot = read(&[head, &entries.concat(), b"eeu."].concat()).unwrap();
    let recorded = Recorded::of(&snapshot, None).unwrap();
    assert_eq!(recorded.entries().len(), entries.len());
    assert!(told(&recorded).contains("contradictions"));
}

#[test]
fn a_run_that_ends_says_so() {
    let model = highwater_core::open(&mut MLP.as_bytes(), "mlp").unwrap();
    let mut config = Config { capacity: Some(Bytes::mib(600)), ..Config::default() };
    config.dims.insert("N".to_owned(), 20_000);
    let simulation = model.simulate(&config, &mut Stages::default()).unwrap();
    assert!(simulation.verdict().out_of_memory.is_some());
    let snapshot = read(&export::snapshot(&Played::of(&simulation))).unwrap();
    let recorded = Recorded::of(&snapshot, None).unwrap();
    let codes: Vec<_> = recorded.diagnostics.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["out-of-memory"]);
    // On such a card it does not fit, although all that it reserved would.
    let report = recorded.report("it", &config).unwrap();
    assert_eq!(report.recorded.unwrap().gap, Some(Gap::RunsOut));
    let verdict = recorded.calls().verdict(recorded.needed, &config, &config.device).unwrap();
    assert!([report.verdict.verdict, verdict.verdict].into_iter().all(Verdict::fails));
    assert!(recorded.reserved_peak.0 + verdict.context <= verdict.capacity);
    let failed =
        recorded.entries().iter().find(|entry| entry.action == Action::OutOfMemory).unwrap();
    let room = simulation.room();
    let free = room.capacity - room.context.likely - recorded.end.reserved;
    assert_eq!((failed.address, failed.size > free), (free.0, true));
}

fn refused(bytes: &[u8]) -> String {
    let error = read(bytes).map(|_| ()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WrongFormat | ErrorKind::Corrupt | ErrorKind::Empty));
    error.to_string()
}

/// As dumps are where no history was begun and nothing was allocated.
#[test]
fn a_snapshot_that_says_nothing_is_refused() {
    let silent = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](]]eu.";
    let snapshot = read(silent).unwrap();
    let error = Recorded::of(&snapshot, None).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("neither segments nor entries"), "{error}");
}

/// Hostile and foreign files are refused with what and where; nothing is executed.
#[test]
fn what_is_no_snapshot_is_refused() {
    let deep = [b"\x80\x04".as_slice(), &b"](".repeat(70)].concat();
    let long = b"\x80\x04X\xff\xff\xff\x7fabc".as_slice();
    let cases: [(&[u8], &str); 19] = [
        (b"", "the file is empty"),
        (b"\x1f\x8b", "what gzip packed ends in the middle"),
        (b"PK\x03\x04", "zip archive"),
        (b"(dp0\n.", "no pickle of protocol 2 to 5"),
        (b"\x80\x06.", "protocol 6"),
        (b"\x80\x04cos\nsystem\n", "byte 2: the opcode GLOBAL asks to import or run"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93", "byte 14: the opcode STACK_GLOBAL"),
        (b"\x80\x04}(K\x01K\x02R", "byte 8: the opcode REDUCE"),
        (b"\x80\x04}}b", "byte 4: the opcode BUILD"),
        (b"\x80\x04K\x00Q", "byte 4: the opcode BINPERSID"),
        (b"\x80\x04\x82\x01", "byte 2: the opcode EXT1"),
        (b"\x80\x04\xff", "opcode 0xff"),
        (b"\x80\x04}", "the file ends at byte 3"),
        (b"\x80\x04e", "there is no mark"),
        (b"\x80\x04s", "the stack is empty"),
        (b"\x80\x04h\x07", "nothing is remembered"),
        (b"\x80\x04]\x94h\x00a.", "holds itself"),
        (b"\x80\x04}.", "no `segments`"),
        (b"\x80\x04}\x8c\x08segmentsK\x01s.", "`segments` is not a list"),
    ];
    for (bytes, expected) in cases
        .into_iter()
        .chain([(deep.as_slice(), "more than 64 containers"), (long, "the file ends")])
    {
        let message = refused(bytes);
        assert!(message.contains(expected), "{message}");
    }
    let spec = refused(MLP.as_bytes());
    assert!(spec.ends_with("torch.cuda.memory._dump_snapshot(\"FILE\")"), "{spec}");
}

/// Values on the stack that nothing takes, numbers of many bytes, a memo with a gap.
#[test]
fn what_costs_too_much_is_refused() {
    let heap = [b"\x80\x04".as_slice(), &b"N".repeat(2 << 20)].concat();
    assert!(refused(&heap).contains("more than a million values"));
    assert!(refused(b"\x80\x04\x8b\xff\xff\xff\x7f").contains("a number of 2147483647 bytes"));
    assert!(refused(b"\x80\x04Nr\xff\xff\xff\x7f").contains("the memo has a gap"));
}

/// What a report says of a recorded run.
fn told_as_report(name: &str) -> String {
    let snapshot = read(&unpacked(name)).unwrap();
    let recorded = Recorded::owning(snapshot, None).unwrap();
    let report = recorded.report(name, &Config::default()).unwrap();
    let run = report.recorded.as_ref().unwrap();
    assert_eq!(report.at_peak.total(), report.peak.requested);
    assert_eq!(report.peak.allocated, recorded.peak.allocated);
    for (sample, categories) in report.timeline.categories.iter().enumerate() {
        let owned: Bytes = report.timeline.owners.iter().map(|owner| owner.at(sample)).sum();
        assert!(owned <= categories.total(), "{name}: {sample}");
    }
    let look = recorded.look(report.peak.event);
    assert_eq!(look.live, report.live_at_peak);
    assert_eq!(look.categories, report.at_peak);
    assert_eq!(Fragmentation::of(&look.segments), recorded.peak.fragmentation());
    let mut text = format!("by origin {}, {:?}\n", run.by_origin, run.gap);
    for mark in &report.timeline.phases {
        writeln!(text, "{} {} {}", mark.event, mark.iteration, mark.phase.name()).unwrap();
    }
    let Peak { phase, iteration, operator, module, .. } = &report.peak;
    writeln!(text, "peak in {} of {iteration}: {operator} in {module}", phase.name()).unwrap();
    for category in Category::ALL {
        let bytes = report.at_peak.get(category);
        if bytes > Bytes::ZERO {
            writeln!(text, "  {} {}", category.name(), bytes.0).unwrap();
        }
    }
    for owner in report.modules_at_peak.iter().take(3) {
        writeln!(text, "{:?} {}", owner.module, owner.bytes.0).unwrap();
    }
    if let Some(live) = report.live_at_peak.first() {
        let frames: Vec<_> = live.operator.lines().take(3).collect();
        writeln!(text, "{} {} {:?}..{:?}", live.bytes.0, frames.join(", "), live.born, live.dies)
            .unwrap();
    }
    text
}

#[test]
fn phases_and_origins_follow_from_stacks() {
    let check = |name: &str, expected: Expect| expected.assert_eq(&told_as_report(name));
    check(
        "resnet18",
        expect![[r#"
            by origin true, None
            0 0 setup
            130 1 forward
            292 1 backward
            832 1 optimizer
            peak in backward of 1:  in 
              parameter 46796608
              gradient 67487796
              activation 150969088
              workspace 4816964
            "" 67487792
            "loop:80 prepare_model" 46796608
            "resnet:269 _forward_impl" 25690624
            25690112 conv.py:560 _conv_forward, conv.py:565 forward, module.py:1798 _call_impl 130..Some(818)
        "#]],
    );
    check(
        "resnet18_ring",
        expect![[r#"
            by origin true, Some(BeginsLate)
            414 1 optimizer
            peak in setup of 0:  in 
              parameter 46796608
              optimizer_state 93516096
              activation 32000
              workspace 223241848
            "" 218424884
            "loop:179 step" 93516096
            "loop:80 prepare_model" 46796608
            25690112  18446744073709551615..Some(401)
        "#]],
    );
    check(
        "gpt2",
        expect![[r#"
            by origin true, None
            0 0 setup
            170 1 forward
            916 1 backward
            2740 1 optimizer
            3830 2 forward
            4535 2 backward
            6355 2 optimizer
            peak in optimizer of 2: _multi_tensor_adam in loop:179 step
              parameter 497759232
              optimizer_state 1493277696
              gradient 497759232
              activation 51463172
              workspace 2048
            "loop:179 step" 1493277696
            "modeling_utils:3719 cuda" 497759232
            "" 497759232
            154389504 module.py:1098 <lambda>, module.py:966 _apply, module.py:933 _apply 1..None
        "#]],
    );
}

/// A run of ours, read again, is the report that it was written from.
#[test]
fn a_simulated_run_comes_back_as_it_was() {
    let model = zoo("resnet18");
    let config = Config { dims: [("batch".to_owned(), 8)].into(), ..Config::default() };
    let simulation = model.simulate(&config, &mut Stages::default()).unwrap();
    let ours = simulation.report();
    let snapshot = read(&export::snapshot(&Played::of(&simulation))).unwrap();
    let recorded = Recorded::owning(snapshot, None).unwrap();
    let report = recorded.report("again", &config).unwrap();
    assert!(!report.recorded.as_ref().unwrap().by_origin);
    assert_eq!(report.at_peak, ours.at_peak);
    assert_eq!(report.peak.allocated, ours.peak.allocated);
    assert_eq!(report.peak.reserved, ours.peak.reserved);
    assert_eq!(report.peak.process, ours.peak.process);
    // What was recorded is known better.
    let verdict = DeviceVerdict { interval: ours.verdict.interval, ..report.verdict.clone() };
    assert_eq!(verdict, ours.verdict);
    assert_eq!((report.peak.phase, report.peak.iteration), (ours.peak.phase, ours.peak.iteration));
    assert_eq!(report.iterations.len(), ours.iterations.len());
    let names = |report: &Report| -> Vec<String> {
        report.modules_at_peak.iter().map(|module| module.module.clone()).take(4).collect()
    };
    assert_eq!(names(&report), names(&ours));
}

/// What is too large for a card by its peak may still run there, if giving the cache back is enough.
#[test]
fn verdicts_are_by_what_was_reserved() {
    let snapshot = read(&unpacked("resnet18")).unwrap();
    let recorded = Recorded::of(&snapshot, None).unwrap();
    let (calls, reserved) = (recorded.calls(), recorded.reserved_peak.0);
    let ends = |mib: u64| {
        let config = Config {
            device: "t4".to_owned(),
            capacity: Some(Bytes::mib(mib)),
            context: Some(Bytes::mib(100)),
            ..Config::default()
        };
        calls.verdict(reserved, &config, "t4").unwrap().verdict.name()
    };
    assert_eq!(
        [600, 490, 460, 200].map(ends),
        ["fits", "likely-fits", "fits-after-flush", "does-not-fit"]
    );
    assert!(calls.verdict(reserved, &Config::default(), "abacus").is_err());
}
