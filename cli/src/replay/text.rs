//! The history for people: peaks, tensors alive, unused memory, outcomes under other settings.

use std::fmt::Write as _;

use highwater_core::allocator::Pool;
use highwater_core::recorded::{Live, Moment, Origin};
use highwater_core::report::{Class, Fragmentation};
use highwater_core::{Bytes, bytes};

use super::Answer;
use crate::style::{CAUTION, FAINT, GOOD, HEAD};
use crate::table::{Align, Cell, Table};
use crate::text::{listed, section};

/// COUNT: blocks that are listed.
const BLOCKS_MAX: usize = 12;
/// COUNT: frames of each.
const FRAMES_MAX: usize = 4;

pub(super) fn render(answer: &Answer<'_>) -> String {
    let recorded = &answer.recorded;
    let peak = &recorded.peak;
    let at = format!("entry {} of {}", count(peak.entry), count(recorded.entries().len()));
    let mut parts = vec![
        format!(
            "{HEAD}{}: {} allocated at the peak, {} reserved at most{HEAD:#}\n",
            answer.name, peak.allocated, recorded.reserved_peak.0
        ),
        section("Peaks", &peaks(answer)),
        section(&format!("Alive at the peak, {at}"), &origins(peak)),
        section("Largest of it", &largest(answer)),
        section("Reserved and not allocated, at the peak", &unused(&peak.fragmentation())),
        section("The same, at the end", &unused(&recorded.end.fragmentation())),
    ];
    if !recorded.entries().is_empty() {
        parts.push(section("The same calls in the simulated allocator", &what_ifs(answer)));
    }
    if !recorded.diagnostics.is_empty() {
        parts.push(section("Assumptions", &listed(&recorded.diagnostics)));
    }
    parts.join("\n")
}

fn peaks(answer: &Answer<'_>) -> String {
    let recorded = &answer.recorded;
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["", "at the peak", "at the end", ""].map(|head| Cell::styled(head, FAINT)));
    let (peak, end) = (&recorded.peak, &recorded.end);
    let rows = [
        ("requested", peak.requested, end.requested, "by tensors"),
        ("allocated", peak.allocated, end.allocated, "in blocks"),
        ("reserved", peak.reserved, end.reserved, "from the driver"),
        ("  at most", recorded.reserved_peak.0, end.reserved, "reserved at any time"),
    ];
    for (name, at_peak, at_end, meaning) in rows {
        table.row([
            name.into(),
            at_peak.to_string().into(),
            at_end.to_string().into(),
            Cell::styled(meaning, FAINT),
        ]);
    }
    table.render("  ")
}

fn origins(peak: &Moment) -> String {
    let mut table = Table::new([Align::Right, Align::Right, Align::Left]);
    for (origin, bytes) in peak.origins() {
        let percent = format!("{} %", bytes.parts_of(peak.requested, 100));
        table.row([bytes.to_string().into(), percent.into(), origin_words(origin).into()]);
    }
    table.render("  ")
}

const fn origin_words(origin: Origin) -> &'static str {
    match origin {
        Origin::Optimizer => "allocated in a step of the optimizer",
        Origin::Backward => "allocated in a backward pass",
        Origin::Forward => "allocated in a forward pass",
        Origin::Moved => "moved to the GPU",
        Origin::Unknown => "of unknown origin: the stack is inconclusive, or was not recorded",
    }
}

/// Blocks, those of one size and stack together.
fn largest(answer: &Answer<'_>) -> String {
    let recorded = &answer.recorded;
    let mut groups: Vec<(&Live, usize)> = Vec::new();
    for live in &recorded.peak.live {
        let same = groups
            .iter_mut()
            .find(|(first, _)| (first.requested, first.stack) == (live.requested, live.stack));
        if let Some((_, count)) = same {
            *count += 1;
        } else if groups.len() < BLOCKS_MAX {
            groups.push((live, 1));
        }
    }
    let mut text = String::new();
    for (live, count) in groups {
        let times = if count > 1 { format!(" × {count}") } else { String::new() };
        let category = live.category.map_or("", |category| category.name());
        // Writing to a string does not fail.
        writeln!(text, "  {}{times} {FAINT}{category}{FAINT:#}", live.requested).ok();
        let frames: Vec<_> = recorded.snapshot.stack(live.stack).take(FRAMES_MAX).collect();
        for frame in &frames {
            writeln!(text, "    {FAINT}{frame}{FAINT:#}").ok();
        }
        if frames.is_empty() {
            writeln!(text, "    {FAINT}no frames were recorded{FAINT:#}").ok();
        }
    }
    text
}

fn unused(found: &Fragmentation) -> String {
    let mut table = Table::new([Align::Right, Align::Left, Align::Left]);
    table.row([
        found.unused().to_string().into(),
        format!("of {} in {}", found.reserved, some(found.segments, "segment")).into(),
        format!("{} %", found.unused().parts_of(found.reserved, 100)).into(),
    ]);
    if found.whole.count > 0 {
        table.row([
            found.whole.bytes.to_string().into(),
            format!("is {}", some(found.whole.count, "whole segment")).into(),
            Cell::styled("torch.cuda.empty_cache() would release it", FAINT),
        ]);
    }
    for class in &found.classes {
        table.row([
            class.holes.bytes.to_string().into(),
            format!("is {} {}", some(class.holes.count, "hole"), sizes(class)).into(),
            Cell::styled(users(class), FAINT),
        ]);
    }
    let [_, large] = found.largest;
    let text = table.render("  ");
    if large == Bytes::ZERO {
        return text;
    }
    format!("{text}  A tensor of more than {large} needs new memory from the driver.\n")
}

/// `1 hole`, `2 holes`.
fn some(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn sizes(class: &Class) -> String {
    match (class.pool, class.up_to) {
        (Pool::Small, _) => "in the small pool".to_owned(),
        (Pool::Large, Some(end)) => format!("of {} to {end}", class.over),
        (Pool::Large, None) => format!("over {}", class.over),
    }
}

const fn users(class: &Class) -> &'static str {
    match (class.pool, class.up_to) {
        (Pool::Small, _) => "for tensors of up to 1 MiB",
        (Pool::Large, Some(Bytes(end))) if end <= 1 << 20 => "for nothing: too small for this pool",
        (Pool::Large, _) => "for tensors over 1 MiB that fit",
    }
}

fn what_ifs(answer: &Answer<'_>) -> String {
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["", "reserved", "allocated", ""].map(|head| Cell::styled(head, FAINT)));
    let own = answer.recorded.reserved_peak.0;
    let baseline = answer.what_ifs.first().filter(|_| answer.is_own);
    for (at, outcome) in answer.what_ifs.iter().enumerate() {
        let is_own = at == 0 && answer.is_own;
        let reserved = outcome.replayed.reserved;
        let against = baseline.map_or(own, |first| first.replayed.reserved);
        let (verdict, style) = match reserved {
            _ if is_own && reserved == own => ("as the file has it".to_owned(), GOOD),
            _ if is_own => (format!("the file has {own}: {}", off(reserved, own)), CAUTION),
            _ if reserved < against => (format!("{} less", against - reserved), GOOD),
            _ if reserved > against => (format!("{} more", reserved - against), CAUTION),
            _ => ("the same".to_owned(), FAINT),
        };
        let name = match outcome.alloc_conf.as_str() {
            "" => "default settings",
            conf => conf,
        };
        table.row([
            name.into(),
            reserved.to_string().into(),
            outcome.replayed.allocated.to_string().into(),
            Cell::styled(verdict, style),
        ]);
    }
    let text = table.render("  ");
    if answer.is_own {
        return text;
    }
    let conf = answer.recorded.snapshot.alloc_conf.as_deref().unwrap_or_default();
    format!("{text}  The settings of the run are not simulated: {conf}\n")
}

/// How far a replay is from what was recorded: `+0.52 %`.
fn off(ours: Bytes, own: Bytes) -> String {
    let (sign, difference) = if ours < own { ('-', own - ours) } else { ('+', ours - own) };
    let hundredths = difference.parts_of(own, 10_000);
    format!("{sign}{}.{:02} %", hundredths / 100, hundredths % 100)
}

fn count(n: usize) -> String {
    bytes::grouped(u64::try_from(n).unwrap_or(u64::MAX))
}
