//! A recorded run, in words.

use highwater_core::Bytes;
use highwater_core::allocator::Pool;
use highwater_core::recorded::WhatIf;
use highwater_core::report::{By, Class, Fragmentation, RecordedRun, Report};

use crate::words::language::{fill, tr};

/// `1.20 GiB is reserved and not allocated: 0.90 GiB in 14 holes of 1 MiB to 10 MiB, …`.
pub(crate) fn unused(found: &Fragmentation) -> String {
    let mut parts: Vec<String> = found.classes.iter().map(holes).collect();
    if found.whole.count > 0 {
        let segments = match found.whole.count {
            1 => tr("1 segment"),
            count => fill("{n} segments", &[("n", &count)]),
        };
        parts.push(fill(
            "{size} in {segments} without any block, which empty_cache would give back",
            &[("size", &found.whole.bytes.short()), ("segments", &segments)],
        ));
    }
    if parts.is_empty() {
        return tr("All that is reserved is allocated.");
    }
    let unused = fill(
        "{size} is reserved and not allocated: {parts}.",
        &[("size", &found.unused().short()), ("parts", &parts.join(&tr(", ")))],
    );
    let [_, largest] = found.largest;
    if largest == Bytes::ZERO {
        return unused;
    }
    let next =
        fill("A tensor of more than {size} needs new memory.", &[("size", &largest.short())]);
    [unused.as_str(), " ", &next].concat()
}

fn holes(class: &Class) -> String {
    let Class { pool, over, up_to, holes } = class;
    let count = match holes.count {
        1 => tr("1 hole"),
        count => fill("{n} holes", &[("n", &count)]),
    };
    let english = match (pool, up_to) {
        (Pool::Small, _) => "{size} in {holes} of the small pool",
        (Pool::Large, None) => "{size} in {holes} over {over}",
        (Pool::Large, Some(_)) if *over == Bytes::ZERO => "{size} in {holes} of up to {end}",
        (Pool::Large, Some(_)) => "{size} in {holes} of {over} to {end}",
    };
    let end = up_to.unwrap_or_default();
    let [size, over, end] = [holes.bytes, *over, end].map(Bytes::short);
    fill(english, &[("size", &size), ("holes", &count), ("over", &over), ("end", &end)])
}

/// Settings of the allocator, as they are called.
pub(crate) fn settings(alloc_conf: &str) -> String {
    match alloc_conf {
        "" => tr("default settings"),
        conf => conf.to_owned(),
    }
}

/// What of the outcomes matters most: that a setting would have reserved less, or that none would.
/// They are compared with the replay under the run's own settings, where that is the first.
pub(crate) fn what_ifs(outcomes: &[WhatIf], report: &Report) -> String {
    let own = baseline(outcomes, report);
    let reserved = |outcome: &&WhatIf| outcome.replayed.reserved;
    match outcomes.iter().min_by_key(reserved).filter(|best| reserved(best) < own) {
        Some(best) => fill(
            "With `{settings}` this run would have reserved {size} less.",
            &[("settings", &settings(&best.alloc_conf)), ("size", &(own - best.replayed.reserved))],
        ),
        None => tr("None of these settings would have reserved less."),
    }
}

/// What the run's own settings reserve, replayed where they are simulated.
pub(crate) fn baseline(outcomes: &[WhatIf], report: &Report) -> Bytes {
    let first = outcomes.first().filter(|first| is_own(first, report));
    first.map_or(report.peak.reserved, |first| first.replayed.reserved)
}

/// Whether these are the settings of the run.
pub(crate) fn is_own(outcome: &WhatIf, report: &Report) -> bool {
    let run = report.recorded.as_ref();
    run.is_some_and(|run| run.alloc_conf.as_deref().unwrap_or_default() == outcome.alloc_conf)
}

/// The difference between the readings of one file.
pub(crate) fn readings(run: &RecordedRun) -> String {
    tr(if run.is_prediction() { "Rules" } else { "GPUs in this snapshot" })
}

/// What a reading is called, and what it means.
pub(crate) fn reading(by: By) -> (String, String) {
    match by {
        By::Gpu(gpu) => (fill("GPU {n}", &[("n", &gpu)]), String::new()),
        By::Highwater => (tr("Highwater's rules"), tr("kernels and optimizer as on the GPU")),
        By::Xmem => (tr("xMem's rules"), tr("as xMem's authors describe them")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{doubt, headline};
    use super::super::names::moment;
    use super::*;
    use crate::model::derived::Count;
    use crate::words::Vocabulary;
    use highwater_core::Config;
    use highwater_core::estimate::Stages;
    use highwater_core::recorded::{self, Recorded};
    use highwater_core::report::difference::by_phase;
    use highwater_core::report::{Gap, Holes};
    use highwater_core::trace::Category;
    use highwater_core::wording::Reach;
    use highwater_draw::stack::Stack;

    fn snapshot() -> Vec<u8> {
        let path = format!("{}/../examples/resnet50.onnx", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the example travels with the page");
        let model = highwater_core::open(&mut bytes.as_slice(), "resnet50").expect("it opens");
        let run =
            model.simulate(&Config::default(), &mut Stages::default()).expect("it is simulated");
        highwater_core::export::snapshot(&highwater_core::export::Played::of(&run))
    }

    #[test]
    fn a_recorded_run_is_told_in_sentences() {
        let read = recorded::open(&mut &*snapshot()).expect("it is a snapshot");
        let history = Recorded::of(&read, None).expect("it has a history");
        let report = history.report("a.pickle", &Config::default()).expect("it has a report");
        let headline =
            headline(&report, Count { all: 9, known: 9, survive: 4, fail: 5 }, Reach::NotAsked);
        assert!(
            headline.lead.starts_with("a fits on an A100 80 GB: it needs "),
            "{}",
            headline.lead
        );
        let peak = " reserved at the peak, in the optimizer step.";
        assert!(headline.rest.contains(peak), "{}", headline.rest);
        assert!(headline.rest.ends_with("Fits on 4 of 9 GPUs."), "{}", headline.rest);
        let calls = history.calls();
        let outcomes: Vec<WhatIf> =
            calls.tried("").iter().filter_map(|conf| calls.what_if(conf)).collect();
        assert_eq!(baseline(&outcomes, &report), report.peak.reserved);
        let text = what_ifs(&outcomes, &report);
        assert!(text.contains("expandable_segments:True"), "{text}");
        let phases = by_phase(&report, &report).into_iter();
        let named: Vec<_> = phases.map(|row| moment(row.phase, row.iteration)).collect();
        assert_eq!(named.first().map(String::as_str), Some("set-up"));
        assert!(named.contains(&"optimizer step of iteration 3".to_owned()), "{named:?}");
        assert_eq!(doubt(&report), None);
        let run = Some(RecordedRun { gap: Some(Gap::RunsOut), ..RecordedRun::default() });
        let (word, why) = doubt(&Report { recorded: run, ..report }).expect("it has a reason");
        assert!(word == "Lower bound." && why.starts_with("Memory ran out"), "{why}");
    }

    #[test]
    fn origins_are_called_what_they_are() {
        let path = format!("{}/../examples/resnet50.onnx", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the example travels with the page");
        let model = highwater_core::open(&mut bytes.as_slice(), "resnet50").expect("it opens");
        let report = model.estimate(&Config::default()).expect("it is estimated");
        let model = Vocabulary::of(&report);
        let run = Some(RecordedRun { by_origin: true, ..RecordedRun::default() });
        let origins = Vocabulary::of(&Report { recorded: run, ..report });
        assert_eq!(model.category(Category::Activation), "activations");
        assert_eq!(origins.category(Category::Activation), "in forward");
        assert!(!origins.occurs(Category::Buffer) && origins.occurs(Category::Workspace));
        assert_eq!(origins.stacked(Stack::Module), "by line of code");
        assert_eq!(model.stacked(Stack::Module), "by module");
    }

    #[test]
    fn what_is_not_used_is_told_by_what_could_use_it() {
        let class = |pool, over, up_to, count, mib| Class {
            pool,
            over: Bytes::mib(over),
            up_to: Some(Bytes::mib(up_to)).filter(|end| end.0 > 0),
            holes: Holes { count, bytes: Bytes::mib(mib) },
        };
        let found = Fragmentation {
            reserved: Bytes::mib(1000),
            allocated: Bytes::mib(800),
            whole: Holes { count: 1, bytes: Bytes::mib(20) },
            classes: vec![
                class(Pool::Large, 100, 0, 1, 120),
                class(Pool::Large, 1, 10, 14, 59),
                class(Pool::Small, 0, 0, 2, 1),
            ],
            largest: [Bytes::mib(1), Bytes::mib(120)],
            ..Fragmentation::default()
        };
        assert_eq!(
            unused(&found).replace('\u{a0}', " "),
            "200 MiB is reserved and not allocated: 120 MiB in 1 hole over 100 MiB, \
             59.0 MiB in 14 holes of 1.00 MiB to 10.0 MiB, 1.00 MiB in 2 holes of the small pool, \
             20.0 MiB in 1 segment without any block, which empty_cache would give back. \
             A tensor of more than 120 MiB needs new memory."
        );
        assert_eq!(unused(&Fragmentation::default()), "All that is reserved is allocated.");
    }
}
