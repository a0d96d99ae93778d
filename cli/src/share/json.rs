//! Jobs that share a GPU, in JSON.

use highwater_core::sharing::Partition;
use highwater_core::sharing::slowdown::{Mode, Slowed};
use highwater_core::time::Utilisation;
use serde_json::{Map, Value, json};

use super::{Answer, Job};

pub(super) fn render(answer: &Answer) -> String {
    let Answer { card, jobs, fit, slowed, partition } = answer;
    let limits: Vec<_> = fit
        .limits
        .iter()
        .map(|limit| {
            json!({
                "reserved": limit.reserved,
                "fraction_ten_thousandths": limit.fraction.0,
                "flushes": limit.flushes,
            })
        })
        .collect();
    let value = json!({
        "device": card.id,
        "verdict": fit.verdict.name(),
        "chance": fit.chance,
        "need": fit.need,
        "interval": fit.interval,
        "usable": fit.usable,
        "least": fit.least,
        "peaks_meet_ten_thousandths": fit.meet.0,
        "limits": limits,
        "steps": slowed.iter().map(|(mode, steps)| by_mode(*mode, steps)).collect::<Vec<_>>(),
        "jobs": jobs.iter().map(job).collect::<Vec<_>>(),
        "mig": partition.as_ref().map(divided),
    });
    format!("{value:#}\n")
}

fn job(job: &Job) -> Value {
    let alone = &job.alone;
    let time = alone.timing.as_ref().map(|timing| &timing.time);
    json!({
        "name": job.name,
        "need": alone.verdict.need,
        "interval": alone.verdict.interval,
        "verdict": alone.verdict.verdict,
        "least": alone.least + alone.doubt.context.likely,
        "step_picoseconds": time.map(|time| time.step().0),
        "utilisation_ten_thousandths": time.map(|time| used(&time.utilisation())),
        "smallest_slice": Partition::smallest(&job.offers).map(|offer| offer.device.id),
    })
}

/// What a step of each job takes.
fn by_mode(mode: Mode, steps: &[Slowed]) -> Value {
    let steps = steps.iter().map(|Slowed { alone, least, likely, most }| {
        json!({
            "alone_picoseconds": alone.0,
            "least_picoseconds": least.0,
            "likely_picoseconds": likely.0,
            "most_picoseconds": most.0,
        })
    });
    json!({ "mode": mode.name(), "jobs": steps.collect::<Vec<_>>() })
}

fn used(utilisation: &Utilisation) -> Value {
    let named = utilisation.named().into_iter();
    Value::Object(
        named.map(|(name, share)| (name.to_owned(), share.0.into())).collect::<Map<_, _>>(),
    )
}

fn divided(partition: &Partition) -> Value {
    let Partition { slices, starts, steps } = partition;
    let each = slices.iter().zip(starts).zip(steps).map(|((slice, start), step)| {
        json!({
            "device": slice.id,
            "profile": slice.nameplate,
            "start": start,
            "step_picoseconds": step.map(|step| step.0),
        })
    });
    Value::Array(each.collect())
}
