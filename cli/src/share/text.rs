//! Jobs that share a GPU, for a terminal.

use std::fmt::Write as _;

use highwater_core::sharing::{Partition, Together};
use highwater_core::wording::answer;

use super::{Answer, Job};
use crate::table::{Align, Cell, Table};
use crate::text::{BAD, CAUTION, FAINT, GOOD, HEAD};

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
    text += &slices(asked);
    text += &limits(asked);
    text
}

/// What each needs and uses alone.
fn jobs(answer: &Answer) -> String {
    let mut table: Table<7> = Table::of_numbers_behind(1);
    let heads =
        ["alone", "needs", "nine runs in ten", "at least", "step", "SM active", "DRAM active"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for job in &answer.jobs {
        let alone = &job.alone;
        let range = alone.verdict.interval.map_or_else(
            || "not known".to_owned(),
            |interval| format!("{} to {}", interval.low, interval.high),
        );
        let context = alone.doubt.context.likely;
        let time = alone.timing.as_ref().map(|timing| &timing.time);
        let used = time.map(|time| time.utilisation());
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            (&*job.name).into(),
            alone.verdict.need.to_string().into(),
            range.into(),
            (alone.least + context).to_string().into(),
            or_none(time.map(|time| time.step().to_string())).into(),
            or_none(used.map(|used| used.sm_active.to_string())).into(),
            or_none(used.map(|used| used.dram_active.to_string())).into(),
        ]);
    }
    table.render("  ")
}

/// The smallest slice for each, and how the card can be divided among all.
fn slices(answer: &Answer) -> String {
    let is_divisible = answer.jobs.iter().any(|job| !job.offers.is_empty());
    if !is_divisible {
        return String::new();
    }
    let mut text = format!("\n{HEAD}MIG{HEAD:#}: ");
    match &answer.partition {
        Some(partition) => {
            writeln!(text, "{} {}.", answer.card, partition.profiles()).ok();
            let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Right]);
            let heads = ["job", "slice", "step there", "smallest that fits"];
            table.row(heads.map(|head| Cell::styled(head, HEAD)));
            for ((job, slice), step) in
                answer.jobs.iter().zip(&partition.slices).zip(&partition.steps)
            {
                table.row([
                    (&*job.name).into(),
                    slice.nameplate.into(),
                    step.map_or_else(|| "-".to_owned(), |step| step.to_string()).into(),
                    smallest(job).into(),
                ]);
            }
            text += &table.render("  ");
        }
        None => {
            let each: Vec<_> =
                answer.jobs.iter().map(|job| format!("{}: {}", job.name, smallest(job))).collect();
            writeln!(
                text,
                "no division has a slice for each; the smallest for each is {}.",
                each.join(", ")
            )
            .ok();
        }
    }
    text
}

fn smallest(job: &Job) -> &str {
    Partition::smallest(&job.offers).map_or("none", |offer| offer.device.nameplate)
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
