//! Estimates that are kept: a line per run, with a column for each estimator.
//!
//! A cell has the estimate in bytes, both ends where it is a range (`8000-16000`), what of it tensors have where that is
//! known (`16000/12000`), and `fits` where the figure exceeds the GPU's memory and the estimator expects the run to
//! survive.

use std::collections::BTreeMap;

use csv::ReaderBuilder;
use highwater_core::Bytes;
use highwater_core::device::Interval;
use highwater_core::estimators::{ALL, Estimate};

use super::answers::{Answer, Answered, Known, Said};
use super::runs::Run;
use super::sources::Source;

/// Columns that tell runs apart: those of [`key`].
const KEY: [&str; 4] = ["source", "line", "model", "batch"];

/// Columns of ours: the interval, and what we state where the context is known.
const OURS: [&str; 5] = ["low", "high", "highwater-known", "known_low", "known_high"];

fn key(source: &Source, run: &Run) -> [String; 4] {
    [source.about.id.clone(), run.line.to_string(), run.model.clone(), run.batch.to_string()]
}

/// The table of all answers.
pub(crate) fn write(sources: &[Source], answers: &[Vec<Answered>]) -> String {
    let ids = ALL.iter().map(|one| one.about().id);
    let heads =
        KEY.into_iter().chain(["context", "capacity"]).chain(OURS).chain(ids).chain(["left_out"]);
    let mut lines = vec![heads.map(str::to_owned).collect()];
    for (source, answers) in sources.iter().zip(answers) {
        for (run, answered) in source.runs.iter().zip(answers) {
            let mut line = key(source, run).to_vec();
            match answered {
                Ok(answer) => {
                    line.extend([answer.context, answer.capacity].map(|bytes| bytes.0.to_string()));
                    line.extend(ends(answer.interval));
                    line.push(cell(answer.known.map(|known| known.said), answer.capacity));
                    line.extend(ends(answer.known.and_then(|known| known.interval)));
                    line.extend(answer.said.iter().map(|said| cell(*said, answer.capacity)));
                    line.push(String::new());
                }
                Err(reason) => {
                    line.extend(vec![String::new(); 2 + OURS.len() + ALL.len()]);
                    line.push(reason.lines().next().unwrap_or_default().to_owned());
                }
            }
            lines.push(line);
        }
    }
    super::csv(&lines)
}

fn ends(interval: Option<Interval>) -> [String; 2] {
    let ends = interval.map(|Interval { low, high }| [low, high].map(|end| end.0.to_string()));
    ends.unwrap_or_default()
}

fn cell(said: Option<Said>, capacity: Bytes) -> String {
    let Some(Said { estimate: Estimate { bytes, from, tensors }, survives, .. }) = said else {
        return String::new();
    };
    let from = from.map(|from| format!("{}-", from.0)).unwrap_or_default();
    let tensors = tensors.map(|bytes| format!("/{}", bytes.0)).unwrap_or_default();
    let fits = if survives && bytes > capacity { " fits" } else { "" };
    format!("{from}{}{tensors}{fits}", bytes.0)
}

/// The answers that a table has about these runs.
///
/// # Errors
/// Where it was made from other runs or by other estimators.
pub(crate) fn read(text: &str, sources: &[Source]) -> Result<Vec<Vec<Answered>>, String> {
    let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
    let heads = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut known: BTreeMap<[String; 4], Answered> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells: BTreeMap<&str, &str> = heads.iter().zip(&record).collect();
        let key = KEY.map(|name| cells.get(name).copied().unwrap_or_default().to_owned());
        known.insert(key, answer(&cells).map_err(|error| format!("line {line}: {error}"))?);
    }
    let of_run = |source: &Source| -> Result<Vec<Answered>, String> {
        let runs = source.runs.iter().map(|run| {
            let key = key(source, run);
            known.get(&key).cloned().ok_or_else(|| {
                format!(
                    "there is no estimate of {} in it; write it anew with --keep",
                    key.join(", ")
                )
            })
        });
        runs.collect()
    };
    sources.iter().map(of_run).collect()
}

fn answer(cells: &BTreeMap<&str, &str>) -> Result<Answered, String> {
    let get = |name: &str| {
        cells
            .get(name)
            .copied()
            .ok_or_else(|| format!("there is no column `{name}`; write it anew with --keep"))
    };
    let reason = get("left_out")?;
    if !reason.is_empty() {
        return Ok(Err(reason.to_owned()));
    }
    let (context, capacity) = (bytes(get("context")?)?, bytes(get("capacity")?)?);
    let mut said = Vec::new();
    for estimator in ALL {
        said.push(self::said(get(estimator.about().id)?, capacity)?);
    }
    let interval = |low: &str, high: &str| match (get(low)?, get(high)?) {
        ("", _) => Ok::<_, String>(None),
        (low, high) => Ok(Some(Interval { low: bytes(low)?, high: bytes(high)? })),
    };
    let [low, high, known, known_low, known_high] = OURS;
    let (interval, known_interval) = (interval(low, high)?, interval(known_low, known_high)?);
    let known = self::said(get(known)?, capacity)?;
    let known = known.map(|said| Known { said, interval: known_interval });
    Ok(Ok(Answer { context, capacity, interval, known, said, took: None }))
}

fn said(cell: &str, capacity: Bytes) -> Result<Option<Said>, String> {
    if cell.is_empty() {
        return Ok(None);
    }
    let (figure, fits) = cell.split_once(' ').map_or((cell, false), |(figure, _)| (figure, true));
    let (from, figure) =
        figure.split_once('-').map_or((None, figure), |(from, to)| (Some(from), to));
    let (figure, tensors) =
        figure.split_once('/').map_or((figure, None), |(figure, of_it)| (figure, Some(of_it)));
    let (from, tensors) = (from.map(bytes).transpose()?, tensors.map(bytes).transpose()?);
    let estimate = Estimate { bytes: bytes(figure)?, from, tensors };
    let survives = fits || estimate.bytes <= capacity;
    Ok(Some(Said { estimate, survives, took: None }))
}

fn bytes(cell: &str) -> Result<Bytes, String> {
    cell.parse().map_err(|error: highwater_core::Error| error.to_string())
}
