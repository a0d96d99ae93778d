//! `highwater pack`: jobs that wait, and the GPUs that they share: who goes where, in which order, and why.

use std::fmt::Write as _;
use std::fs;

use highwater_core::Bytes;
use highwater_core::bytes::grouped;
use highwater_core::device::Device;
use highwater_core::sharing::gpus::{self, Group};
use highwater_core::sharing::policy::{Counts, POLICIES, Policy};
use highwater_core::sharing::queue::{self, Card, Job, On, Outcome, Placed, Reason};
use highwater_core::sharing::slowdown::{Likely, Load};
use highwater_core::sharing::{Fit, Tenant};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::args;
use crate::jobs::{Engine, Failure, Files, KnownWork, OnDevice, Packed};
use crate::progress::Progress;
use crate::style::HEAD;
use crate::table::{Align, Cell, Table};

/// A line of the queue.
struct Asked {
    id: Value,
    job: Result<Packed, Failure>,
}

/// The GPUs.
struct Cluster {
    kinds: Vec<&'static Device>,
    cards: Vec<Card>,
    names: Vec<String>,
}

/// What a rule makes of the queue.
struct Run<'a> {
    policy: Policy,
    outcome: Outcome,
    jobs: &'a [&'a Packed],
    cluster: &'a Cluster,
}

/// Places all jobs by a rule, and sums up what the others would do.
pub(crate) fn pack(arguments: &args::Pack) -> Result<String, String> {
    let read = |path: &std::path::Path| {
        fs::read_to_string(path)
            .map_err(|error| format!("{}: cannot read: {error}", path.display()))
    };
    let groups = gpus::read(&read(&arguments.gpus)?)
        .map_err(|error| format!("{}: {error}", arguments.gpus.display()))?;
    let cluster = Cluster::of(&groups);
    let text = read(&arguments.jobs)?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let (engine, known) = (Engine::new(Files::Any), KnownWork::default());
    let progress = Progress::of("estimating {len} jobs: {pos} of {len}", lines.len());
    let asked: Vec<Asked> = lines
        .par_iter()
        .map(|line| {
            let (id, job) = engine.pack(line.as_bytes(), &cluster.kinds, &known);
            progress.advance();
            Asked { id, job }
        })
        .collect();
    drop(progress);
    let good: Vec<&Asked> = asked.iter().filter(|asked| asked.job.is_ok()).collect();
    let ids: Vec<&Value> = good.iter().map(|asked| &asked.id).collect();
    let jobs: Vec<&Packed> = good.iter().filter_map(|asked| asked.job.as_ref().ok()).collect();
    let mut likely = Likely::new(arguments.sharing);
    let runs: Vec<Run<'_>> =
        POLICIES.iter().map(|policy| Run::of(*policy, &jobs, &cluster, &mut likely)).collect();
    let chosen = runs.iter().find(|run| run.policy == arguments.policy);
    let chosen = chosen.ok_or_else(|| format!("there is no rule `{}`", arguments.policy.id))?;
    if arguments.json {
        return Ok(format!("{:#}\n", as_json(&asked, &ids, chosen, &runs)));
    }
    Ok(as_text(&asked, &ids, chosen, &runs))
}

impl Cluster {
    fn of(groups: &[Group]) -> Self {
        let mut cluster = Self { kinds: Vec::new(), cards: Vec::new(), names: Vec::new() };
        for group in groups {
            let known = cluster.kinds.iter().position(|device| *device == group.device);
            let kind = known.unwrap_or_else(|| {
                cluster.kinds.push(group.device);
                cluster.kinds.len() - 1
            });
            for _ in 0..group.count {
                let number = cluster.cards.iter().filter(|card| card.kind == kind).count() + 1;
                let node =
                    group.node.as_ref().map(|node| format!(" of {node}")).unwrap_or_default();
                cluster.names.push(format!("{} {number}{node}", group.device.id));
                cluster.cards.push(Card { kind, memory: group.device.capacity });
            }
        }
        cluster
    }
}

impl<'a> Run<'a> {
    fn of(
        policy: Policy,
        jobs: &'a [&'a Packed],
        cluster: &'a Cluster,
        likely: &mut Likely<'a>,
    ) -> Self {
        let on = |job: &Packed, on: &OnDevice| -> Option<On> {
            let verdict = &on.alone.verdict;
            let (need, upper) = (verdict.need, on.upper());
            if verdict.verdict.fails() {
                return None;
            }
            Some(On {
                duration: job.duration(on),
                // Without an interval the truth may be far off: such a job gets a GPU of its own.
                believed: upper.map(|upper| match policy.counts {
                    Counts::Likely => need,
                    Counts::Upper => upper.min(verdict.usable()).max(need),
                }),
                real: need,
                active: on.active(),
            })
        };
        let queued = |job: &&Packed| Job {
            submitted: job.submitted,
            on: job.work.on.iter().map(|kind| on(job, kind)).collect(),
        };
        let queue: Vec<Job> = jobs.iter().map(queued).collect();
        let outcome = queue::run(&cluster.cards, &queue, policy, &mut |kind, together| {
            slower(jobs, kind, together, likely)
        });
        Self { policy, outcome, jobs, cluster }
    }

    /// Percent: the chance that a job survives where it was placed; `None` where an answer may be far off.
    fn chance(&self, placed: &Placed) -> Option<u64> {
        let kind = self.cluster.cards.get(placed.card?)?.kind;
        let all = placed.with.iter().chain([&placed.job]);
        let tenants: Option<Vec<Tenant<'_>>> = all
            .map(|job| {
                let job = self.jobs.get(*job)?;
                Some(Tenant { name: &job.work.key, alone: &job.work.on.get(kind)?.alone })
            })
            .collect();
        Fit::of(&tenants?)?.chance
    }

    /// COUNT: hundredths of failures that are expected.
    fn expected_failures(&self) -> u64 {
        let chances = self.outcome.placed.iter().filter_map(|placed| self.chance(placed));
        chances.map(|chance| 100_u64.saturating_sub(chance)).sum()
    }

    /// The longest time until a job began and until all ended, and the sum of waits, in milliseconds.
    fn times(&self) -> (u64, u64) {
        let ended = self.outcome.ended.iter().zip(self.jobs);
        let ran = ended.filter_map(|(ended, job)| {
            let (began, end) = ended.ran?;
            Some((began.saturating_sub(job.submitted), end))
        });
        let (waits, ends): (Vec<u64>, Vec<u64>) = ran.unzip();
        let count = u64::try_from(waits.len()).unwrap_or(u64::MAX).max(1);
        (waits.iter().sum::<u64>().div_euclid(count), ends.into_iter().max().unwrap_or_default())
    }

    fn never_ran(&self) -> usize {
        self.outcome.ended.iter().filter(|ended| ended.ran.is_none()).count()
    }
}

/// How much slower jobs run together: as long as alone where a kind of GPU has no times.
fn slower<'a>(
    jobs: &'a [&'a Packed],
    kind: usize,
    together: &[usize],
    likely: &mut Likely<'a>,
) -> Vec<u64> {
    let load = |job: &usize| jobs.get(*job)?.work.on.get(kind)?.load.as_ref();
    let loads: Option<Vec<&'a Load>> = together.iter().map(load).collect();
    loads.map_or_else(
        || vec![share(together.len()); together.len()],
        |loads| likely.slowdowns(&loads),
    )
}

/// Per mille: what is assumed where no time is known: each has an equal part of the GPU.
fn share(jobs: usize) -> u64 {
    u64::try_from(jobs).unwrap_or(u64::MAX).saturating_mul(1000)
}

fn named(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

/// `1:02:03` for milliseconds.
fn clock(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn hundredths(n: u64) -> String {
    format!("{}.{:02}", n / 100, n % 100)
}

fn why(placed: &Placed, ids: &[&Value]) -> String {
    match placed.why {
        Reason::Alone => "nobody is there".to_owned(),
        Reason::TooLarge => "fits on no GPU of the list".to_owned(),
        Reason::Shares { left } => {
            let with: Vec<String> =
                placed.with.iter().filter_map(|job| ids.get(*job)).map(|id| named(id)).collect();
            format!("{left} left next to {}", with.join(", "))
        }
    }
}

fn as_text(asked: &[Asked], ids: &[&Value], chosen: &Run<'_>, runs: &[Run<'_>]) -> String {
    let mut text = String::new();
    let mut table = Table::new([
        Align::Right,
        Align::Left,
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Left,
    ]);
    let heads = ["at", "job", "model", "GPU", "fits", "why"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for placed in &chosen.outcome.placed {
        let job = chosen.jobs.get(placed.job);
        let card = placed.card.and_then(|card| chosen.cluster.names.get(card));
        table.row([
            clock(placed.at).into(),
            ids.get(placed.job).map(|id| named(id)).unwrap_or_default().into(),
            job.map(|job| job.work.model.clone()).unwrap_or_default().into(),
            card.cloned().unwrap_or_else(|| "none".to_owned()).into(),
            chosen
                .chance(placed)
                .map_or_else(|| "unknown".to_owned(), |chance| format!("{chance} %"))
                .into(),
            why(placed, ids).into(),
        ]);
    }
    writeln!(
        text,
        "{HEAD}{} jobs on {} GPUs, by {}{HEAD:#}\n",
        chosen.jobs.len(),
        chosen.cluster.cards.len(),
        chosen.policy.id
    )
    .ok();
    text += &table.render("  ");
    let mut table = Table::of_numbers_behind(1);
    let heads =
        ["", "GPUs used", "GPU time", "mean wait", "all end at", "failures expected", "never run"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for run in runs {
        let (wait, end) = run.times();
        table.row(
            [
                run.policy.id.to_owned(),
                grouped(u64::try_from(run.outcome.used).unwrap_or(u64::MAX)),
                clock(run.outcome.busy),
                clock(wait),
                clock(end),
                hundredths(run.expected_failures()),
                run.never_ran().to_string(),
            ]
            .map(Cell::from),
        );
    }
    writeln!(text, "\nAll rules; times are hours, minutes and seconds.\n").ok();
    text += &table.render("  ");
    for (line, asked) in asked.iter().enumerate() {
        if let Err(Failure { message, .. }) = &asked.job {
            writeln!(text, "\nJob {} of line {}: {message}.", named(&asked.id), line + 1).ok();
        }
    }
    text
}

fn as_json(asked: &[Asked], ids: &[&Value], chosen: &Run<'_>, runs: &[Run<'_>]) -> Value {
    let placed = chosen.outcome.placed.iter().map(|placed| {
        let with: Vec<_> = placed.with.iter().filter_map(|job| ids.get(*job)).collect();
        let ended = chosen.outcome.ended.get(placed.job).and_then(|ended| ended.ran);
        let (reason, left) = match placed.why {
            Reason::Alone => ("alone", None),
            Reason::Shares { left: Bytes(left) } => ("shares", Some(left)),
            Reason::TooLarge => ("too-large", None),
        };
        json!({
            "id": ids.get(placed.job),
            "gpu": placed.card.and_then(|card| chosen.cluster.names.get(card)),
            "at": placed.at,
            "ends": ended.map(|(_, end)| end),
            "with": with,
            "reason": reason,
            "left": left,
            "chance": chosen.chance(placed),
        })
    });
    let rules = runs.iter().map(|run| {
        let (wait, end) = run.times();
        json!({
            "policy": run.policy.id,
            "gpus_used": run.outcome.used,
            "gpu_time": run.outcome.busy,
            "mean_wait": wait,
            "end": end,
            "expected_failures_hundredths": run.expected_failures(),
            "never_run": run.never_ran(),
        })
    });
    let errors = asked.iter().filter_map(|asked| {
        let error = asked.job.as_ref().err()?;
        Some(json!({ "id": asked.id, "error": error }))
    });
    json!({
        "policy": chosen.policy.id,
        "placed": placed.collect::<Vec<_>>(),
        "policies": rules.collect::<Vec<_>>(),
        "errors": errors.collect::<Vec<_>>(),
    })
}
