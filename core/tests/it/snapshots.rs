//! Moments of a run: what is alive, and where it lies.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use highwater_core::estimate::Stages;
use highwater_core::report::Snapshot;
use highwater_core::{Bytes, Config, Model};

use crate::fixtures;

fn zoo(name: &str) -> Model {
    let bytes = fixtures::unpack(&format!("zoo/train/{name}.onnx.gz")).unwrap();
    highwater_core::open(&mut bytes.as_slice(), name).unwrap()
}

/// A segment a line: `20.00 MiB large | 8.00 MiB weight | hole 12.00 MiB`.
fn picture(snapshot: &Snapshot) -> String {
    let mut lines = String::new();
    for segment in &snapshot.segments {
        write!(lines, "{} {:?}", segment.size, segment.pool).unwrap();
        for block in &segment.blocks {
            let what = match block.tensor.map(|place| &snapshot.live[place]) {
                None => "hole".to_owned(),
                Some(tensor) if tensor.name.is_empty() => {
                    format!("{} {}", tensor.category.name(), tensor.operator)
                }
                Some(tensor) => format!("{} {}", tensor.category.name(), tensor.name),
            };
            write!(lines, " | {} {what}", block.size).unwrap();
        }
        lines.push('\n');
    }
    lines
}

fn check(spec: &str, event: fn(&highwater_core::Report) -> usize, expected: &Expect) {
    let model = highwater_core::open(&mut spec.as_bytes(), "spec").unwrap();
    let simulation = model.simulate(&Config::default(), &mut Stages::default()).unwrap();
    let event = event(&simulation.report());
    expected.assert_eq(&picture(&simulation.snapshot(event)));
}

#[test]
fn blocks_lie_in_segments() {
    let spec = "input: [1024, 1024]\nlayers:\n  - linear: 2048\n  - relu\n  - linear: 10\n";
    let expected = expect![[r#"
        20.00 MiB Large | 8.00 MiB parameter 0.weight | 4.00 MiB input x | 8.00 MiB gradient 0.weight
        2.00 MiB Small | 8.00 KiB parameter 0.bias | 80.00 KiB parameter 2.weight | 512 B parameter 2.bias | 8.00 KiB input labels | 40.50 KiB hole | 512 B temporary aten::ones_like | 512 B gradient 2.bias | 512 B workspace aten::sum | 6.00 KiB hole | 8.00 KiB optimizer_state aten::zeros_like | 8.00 KiB optimizer_state aten::zeros_like | 512 B optimizer_state aten::zeros_like | 8.00 KiB gradient 0.bias | 8.00 KiB hole | 512 B activation aten::nll_loss_nd | 80.00 KiB optimizer_state aten::zeros_like | 512 B optimizer_state aten::zeros_like | 40.00 KiB activation aten::addmm | 40.00 KiB hole | 80.00 KiB optimizer_state aten::zeros_like | 40.00 KiB hole | 80.00 KiB gradient 2.weight | 1.47 MiB hole
        20.00 MiB Large | 8.00 MiB optimizer_state aten::zeros_like | 8.00 MiB optimizer_state aten::zeros_like | 4.00 MiB hole
        20.00 MiB Large | 8.00 MiB hole | 8.00 MiB temporary aten::relu | 4.00 MiB hole
        20.00 MiB Large | 16.00 MiB workspace aten::sum | 4.00 MiB hole
    "#]];
    check(spec, |report| report.peak.event, &expected);
}

#[test]
fn a_snapshot_agrees_with_the_report_at_its_peak_and_with_itself_everywhere() {
    for name in ["resnet18", "gpt2"] {
        let simulation = zoo(name).simulate(&Config::default(), &mut Stages::default()).unwrap();
        let report = simulation.report();
        let peak = simulation.snapshot(report.peak.event);
        assert_eq!(peak.live, report.live_at_peak, "{name}");
        assert_eq!(peak.modules, report.modules_at_peak, "{name}");
        assert_eq!(peak.categories, report.at_peak, "{name}");
        assert_eq!(peak.allocated, report.peak.allocated, "{name}");
        let timeline = &report.timeline;
        let sampled = timeline.event.iter().position(|&event| event == peak.event).unwrap();
        assert!((3..=7).contains(&timeline.owners.len()), "{name}");
        for owner in &timeline.owners {
            let below = format!("{}.", owner.module);
            let is_own = |path: &str| path == owner.module || path.starts_with(&below);
            let own = report.modules_at_peak.iter().filter(|module| is_own(&module.module));
            let own: Bytes = own.map(|module| module.bytes).sum();
            assert_eq!(owner.at(sampled), own, "{name}: {}", owner.module);
        }
        let last = report.timeline.events - 1;
        for event in [0, 7, last / 5, last / 3, last / 2, last, usize::MAX] {
            let snapshot = simulation.snapshot(event);
            let live: Bytes = snapshot.live.iter().map(|tensor| tensor.bytes).sum();
            assert_eq!(live, snapshot.categories.total(), "{name} at {event}");
            let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
            let taken = blocks.filter(|block| block.tensor.is_some());
            assert_eq!(taken.map(|block| block.size).sum::<Bytes>(), snapshot.allocated);
            let sizes = snapshot.segments.iter().map(|segment| segment.size);
            assert_eq!(sizes.sum::<Bytes>(), snapshot.reserved, "{name} at {event}");
            for segment in &snapshot.segments {
                let tiled: Bytes = segment.blocks.iter().map(|block| block.size).sum();
                assert_eq!(tiled, segment.size, "{name} at {event}");
            }
            let at = report.timeline.event.partition_point(|&sampled| sampled <= snapshot.event);
            if report.timeline.event[at - 1] == snapshot.event {
                assert_eq!(report.timeline.reserved[at - 1], snapshot.reserved);
                assert_eq!(report.timeline.allocated[at - 1], snapshot.allocated);
            }
        }
    }
}
