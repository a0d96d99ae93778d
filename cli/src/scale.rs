//! `highwater scale`: the same training on 1 to 64 GPUs, by each way of sharing it.

use std::fmt::Write as _;
use std::num::{NonZero, NonZeroU64};
use std::sync::Mutex;
use std::thread;

use highwater_core::device;
use highwater_core::estimate::{LargestBatch, Stages};
use highwater_core::levers::{Facts, Scale, Scaled, WAYS, Way};
use highwater_core::time::{Picoseconds, rate};
use highwater_core::wording::levers::fewest;
use highwater_core::{Config, Error, Model};
use serde_json::{Value, json};

use crate::Models;
use crate::args;
use crate::progress::Progress;
use crate::style::{BAD, CAUTION, FAINT, GOOD, HEAD};
use crate::table::{Align, Cell, Table};

/// COUNT: columns of the table: the number of GPUs, and one for each way.
const COLUMNS: usize = WAYS.len() + 1;

/// The table, and the code of what is simplest.
pub(crate) fn scale(arguments: &args::Scale, models: Models<'_>) -> Result<String, Error> {
    let question = &arguments.question;
    let model = models.open(&question.model)?;
    let config = question.training.of(&model)?;
    let mut stages = Stages::default();
    let simulation = model.simulate(&Config { gpus: NonZeroU64::MIN, ..config }, &mut stages)?;
    let config = simulation.report().config;
    let scale = Scale::new(&config, Facts::of(&model, &simulation, &config));
    let usual = || Scale::COUNTS.into_iter().filter_map(NonZeroU64::new).collect();
    let counts = if arguments.counts.is_empty() { usual() } else { arguments.counts.clone() };
    let cells = all(&model, &scale, &counts)?;
    if question.json {
        return Ok(format!("{:#}\n", json(&cells)));
    }
    Ok(text(&crate::called(&model), &config, &counts, &cells))
}

/// Threads share out what is asked; the answers are in the order of numbers, then of ways.
fn all(model: &Model, scale: &Scale, counts: &[NonZeroU64]) -> Result<Vec<Scaled>, Error> {
    let asked: Vec<(NonZeroU64, &Way)> =
        counts.iter().flat_map(|&gpus| WAYS.iter().map(move |way| (gpus, way))).collect();
    let queue = Mutex::new(asked.iter().enumerate());
    let progress = Progress::of("trying {len} ways on several GPUs: {pos} of {len}", asked.len());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let work = || {
        let mut stages = Stages::default();
        let answer = |(at, &(gpus, way))| {
            let answer = scale.on(gpus, way, model, &mut stages);
            progress.advance();
            (at, answer)
        };
        std::iter::from_fn(next).map(answer).collect::<Vec<_>>()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(asked.len());
    let mut answers = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut answers = work();
        for other in others {
            match other.join() {
                Ok(more) => answers.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    });
    answers.sort_by_key(|(at, _)| *at);
    let found = answers.into_iter().map(|(_, answer)| answer).collect::<Result<Vec<_>, Error>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// The first that fits: the fewest GPUs, then the simplest way.
fn simplest(cells: &[Scaled]) -> Option<&Scaled> {
    cells.iter().find(|cell| cell.outcome.verdict.verdict.survives())
}

fn text(name: &str, config: &Config, counts: &[NonZeroU64], cells: &[Scaled]) -> String {
    let gpu = device::find(&config.device).map_or(&*config.device, |device| device.name);
    let simplest = simplest(cells);
    let verdict = match simplest {
        Some(cell) => {
            let way = Way::named(&cell.way).map_or("", |way| way.name);
            fewest(cell.gpus, way, &cell.outcome.verdict).to_string()
        }
        None => format!("No number of {gpu} that was tried is enough."),
    };
    let mut text = format!("{HEAD}{name}: {verdict}{HEAD:#}\n");
    text += "What each GPU needs, and the largest batch of each.\n\n";
    let mut table: Table<COLUMNS> = Table::of_numbers_behind(1);
    // The column of a number of GPUs is before those of the ways.
    let way = |at: usize| WAYS.get(at.checked_sub(1)?);
    table.row(std::array::from_fn(|at| Cell::styled(way(at).map_or("GPUs", |way| way.name), HEAD)));
    for gpus in counts {
        table.row(std::array::from_fn(|at| {
            let Some(way) = way(at) else { return gpus.to_string().into() };
            let found = cells.iter().find(|cell| cell.gpus == gpus.get() && cell.way == way.id);
            found.map_or_else(|| Cell::styled("-", FAINT), cell)
        }));
    }
    text += &table.render("  ");
    text += &paces(counts, cells);
    if let Some(Scaled { gpus: 2.., code, .. }) = simplest {
        writeln!(text, "\n{FAINT}{}{FAINT:#}", code.trim_end()).ok();
    }
    text
}

/// How fast the simplest way is that fits on each number of GPUs.
fn paces(counts: &[NonZeroU64], cells: &[Scaled]) -> String {
    let mut table = Table::new([
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    let heads = ["GPUs", "simplest way", "step", "waits for others", "each sends", "samples/s"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    let mut is_any = false;
    for gpus in counts {
        let here: Vec<_> = cells.iter().filter(|cell| cell.gpus == gpus.get()).cloned().collect();
        let Some((cell, pace)) = simplest(&here).and_then(|cell| Some((cell, cell.pace?))) else {
            continue;
        };
        is_any = true;
        let is_one = cell.gpus == 1;
        let way = if is_one { "one GPU" } else { named(&cell.way) };
        let shared = |text: String| if is_one { "-".to_owned() } else { text };
        table.row([
            gpus.to_string().into(),
            way.into(),
            Picoseconds(pace.step).to_string().into(),
            shared(Picoseconds(pace.exposed).to_string()).into(),
            shared(pace.sent.to_string()).into(),
            rate(pace.samples_per_second()).into(),
        ]);
    }
    if is_any { format!("\n{}", table.render("  ")) } else { String::new() }
}

fn cell(scaled: &Scaled) -> Cell {
    let verdict = &scaled.outcome.verdict;
    let largest = scaled.largest.and_then(LargestBatch::proposed);
    let batch = largest.map_or_else(String::new, |batch| format!(", to {batch}"));
    let style = match verdict.verdict {
        verdict if verdict.fails() => BAD,
        verdict if verdict.survives() => GOOD,
        _ => CAUTION,
    };
    Cell::styled(format!("{}{batch}", verdict.need), style)
}

fn named(id: &str) -> &str {
    Way::named(id).map_or(id, |way| way.name)
}

fn json(cells: &[Scaled]) -> Value {
    let row = |cell: &Scaled| {
        let Scaled { gpus, way, outcome, largest, pace, code, config } = cell;
        json!({
            "gpus": gpus,
            "way": way,
            "device": config.device,
            "allocated": outcome.allocated,
            "reserved": outcome.reserved,
            "need": outcome.verdict.need,
            "usable": outcome.verdict.usable(),
            "verdict": outcome.verdict.verdict,
            "largest_batch": largest.and_then(LargestBatch::proposed),
            "step_picoseconds": pace.map(|pace| pace.step),
            "exposed_picoseconds": pace.map(|pace| pace.exposed),
            "sent_bytes": pace.map(|pace| pace.sent),
            "samples": pace.map(|pace| pace.samples),
            "code": code,
        })
    };
    Value::Array(cells.iter().map(row).collect())
}
