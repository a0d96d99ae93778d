//! Jobs that share a GPU, for a terminal.

use std::fmt::Write as _;

use highwater_core::sharing::slowdown::{Mode, Slowed};
use highwater_core::sharing::{Partition, Together};
use highwater_core::time::StepTime;
use highwater_core::wording::answer;

use super::{Answer, Job};
use crate::style::{BAD, CAUTION, FAINT, GOOD, HEAD};
use crate::table::{Cell, Table};

pub(super) fn render(asked: &Answer) -> String {
    let Answer { fit, .. } = asked;
    let style = match fit.verdict {
        Together::Fit => GOOD,
        Together::DoNotFit | Together::UnlessPeaksMeet | Together::NotAlone => BAD,
        _ => CAUTION,
    };
    let chance = fit.chance.map(|chance| format!(" (chance {})", answer::chance(chance)));
    let chance = chance.unwrap_or_default();
    let mut text = format!("{style}{}{chance}.{style:#}\n\n", fit.sentence());
    text += &jobs(asked);
    text += &steps(asked);
    text += &slices(asked);
    text += &limits(asked);
    text
}

/// What each needs and uses alone.
fn jobs(answer: &Answer) -> String {
    let mut table: Table<6> = Table::of_numbers_behind(1);
    let heads = ["alone", "needs", "nine runs in ten", "at least", "SM active", "DRAM active"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for job in &answer.jobs {
        let alone = &job.alone;
        let range = alone.verdict.interval.map_or_else(
            || "not known".to_owned(),
            |interval| format!("{} to {}", interval.low, interval.high),
        );
        let context = alone.doubt.context.likely;
        let time = alone.timing.as_ref().map(|timing| &timing.time);
        let used = time.map(StepTime::utilisation);
        table.row([
            (&*job.name).into(),
            alone.verdict.need.to_string().into(),
            range.into(),
            (alone.least + context).to_string().into(),
            used.map_or_else(none, |used| used.sm_active.to_string()).into(),
            used.map_or_else(none, |used| used.dram_active.to_string()).into(),
        ]);
    }
    table.render("  ")
}

/// What a step takes, alone and by each way of sharing the card.
fn steps(answer: &Answer) -> String {
    if answer.slowed.is_empty() {
        return String::new();
    }
    let mut table: Table<5> = Table::of_numbers_behind(1);
    let heads = ["a step", "alone", "time slices", "MPS", "MIG"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for (at, job) in answer.jobs.iter().enumerate() {
        let alone = job.alone.timing.as_ref().map(|timing| timing.time.step().to_string());
        let of = |mode: Mode| {
            let found = answer.slowed.iter().find(|(known, _)| *known == mode);
            found.and_then(|(_, steps)| steps.get(at)).map_or_else(none, times)
        };
        let slice = answer.partition.as_ref().and_then(|partition| {
            let (slice, step) = (partition.slices.get(at)?, partition.steps.get(at)?);
            Some(format!("{} on {}", (*step)?, slice.nameplate))
        });
        table.row([
            (&*job.name).into(),
            alone.unwrap_or_else(none).into(),
            of(Mode::TimeSlices).into(),
            of(Mode::Mps).into(),
            slice.unwrap_or_else(none).into(),
        ]);
    }
    format!("\n{}", table.render("  "))
}

fn none() -> String {
    "-".to_owned()
}

/// `1.4 × (1.2 to 1.9)`: how many times as long.
fn times(slowed: &Slowed) -> String {
    let [least, likely, most] = slowed.slowdowns().map(|thousandths| {
        let tenths = thousandths.saturating_add(50) / 100;
        format!("{}.{}", tenths / 10, tenths % 10)
    });
    format!("{likely} × ({least} to {most})")
}

/// The smallest slice for each, and how the card can be divided among all.
fn slices(answer: &Answer) -> String {
    if answer.jobs.iter().all(|job| job.offers.is_empty()) {
        return String::new();
    }
    let smallest = |job: &Job| {
        let offer = Partition::smallest(&job.offers);
        let profile = offer.map_or("none", |offer| offer.device.nameplate);
        format!("{} for {}", profile, job.name)
    };
    let smallest: Vec<_> = answer.jobs.iter().map(smallest).collect();
    let divided = match &answer.partition {
        Some(partition) => format!("divide the card into {}", partition.profiles()),
        None => "no division of the card has a slice for each".to_owned(),
    };
    format!(
        "\n{HEAD}MIG{HEAD:#}: {divided}; the smallest slice that fits is {}.\n",
        smallest.join(", ")
    )
}

/// What keeps each from taking another's memory.
fn limits(answer: &Answer) -> String {
    if answer.fit.limits.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{HEAD}Limits{HEAD:#}, so that none takes what another needs:\n");
    for (job, limit) in answer.jobs.iter().zip(&answer.fit.limits) {
        let parts = limit.fraction.0;
        let why = if limit.flushes {
            "; its allocator gives cached memory back within steps"
        } else {
            ""
        };
        writeln!(
            text,
            "  torch.cuda.set_per_process_memory_fraction(0.{parts:04})  {FAINT}# {}: {}{why}{FAINT:#}",
            job.name, limit.reserved
        )
        .ok();
    }
    text
}
