//! Scores as text for a terminal, as JSON, CSV and Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use highwater_core::bytes::grouped;
use highwater_core::estimators::ALL;
use highwater_core::estimators::scores::{Errors, Scores, Share, percent};
use serde_json::{Value, json};

use super::answers::Answered;
use super::board::{self, By, Line, Point};
use super::confidence;
use super::sources::Source;
use crate::table::{Cell, Table};
use crate::text::{FAINT, HEAD};

/// COUNT: runs without an estimate that are listed.
const LEFT_OUT_MAX: usize = 10;

/// Columns behind the name of an estimator.
const HEADS: [&str; 10] =
    ["needs", "runs", "median", "90 %", "worst", "under", "fails", "conserved", "verdicts", "time"];

/// The scores of all and of each source.
pub(crate) fn text(sources: &[Source], answers: &[Vec<Answered>], points: &[Point<'_>]) -> String {
    let mut text = String::new();
    for source in sources {
        let of_source = points.iter().filter(|point| is_of(point, source));
        text += &section(&title(source), &board::lines(&of_source));
    }
    if sources.len() > 1 {
        text += &section("All runs", &board::lines(&points.iter()));
    }
    let left_out = left_out(sources, answers);
    if !left_out.is_empty() {
        writeln!(text, "{HEAD}{} runs without an estimate{HEAD:#}", left_out.len()).ok();
        for line in left_out.iter().take(LEFT_OUT_MAX) {
            writeln!(text, "  {FAINT}{line}{FAINT:#}").ok();
        }
        if left_out.len() > LEFT_OUT_MAX {
            text += "  \u{2026}\n";
        }
        text.push('\n');
    }
    text + &legend(answers) + &confidence::sentence(sources, answers)
}

fn legend(answers: &[Vec<Answered>]) -> String {
    let mut text = "Errors are absolute and of runs that survived. under: estimates below the measured need. fails: \
                    PEF, runs lost by trusting the\nestimate; conserved: MCP, memory left for others per run. Both count a need \
                    above the estimate as a failure; nothing was run again.\nverdicts: right answers to whether the \
                    run survives. time: of an estimate, after the simulation that all share.\n"
        .to_owned();
    let times = answers.iter().flatten().flatten().filter_map(|it| it.took);
    if let Some(median) = board::middle(times) {
        writeln!(text, "The simulation takes {} at the median.", duration(median)).ok();
    }
    text
}

fn title(source: &Source) -> String {
    match source.about.from.as_str() {
        "" => source.about.name.clone(),
        from => format!("{}: {from}", source.about.name),
    }
}

fn is_of(point: &Point<'_>, source: &Source) -> bool {
    std::ptr::eq(point.source, source)
}

fn section(title: &str, lines: &[Line]) -> String {
    let mut table = Table::of_numbers_behind(2);
    let [a, b, c, d, e, f, g, h, i, j] = HEADS.map(|head| Cell::styled(head, HEAD));
    table.row([Cell::styled("estimator", HEAD), a, b, c, d, e, f, g, h, i, j]);
    for line in lines.iter().filter(|line| line.scores.runs > 0) {
        let [a, b, c, d, e, f, g, h, i] = cells(line).map(Cell::from);
        let time = line.took.map(duration).unwrap_or_default();
        table.row([line.by.name().into(), a, b, c, d, e, f, g, h, i, time.into()]);
    }
    let silent: Vec<String> =
        lines.iter().filter(|line| line.scores.runs == 0).map(|line| line.by.name()).collect();
    let silent = match silent.as_slice() {
        [] => String::new(),
        names => format!("{FAINT}No answer: {}.{FAINT:#}\n", names.join(", ")),
    };
    format!("{HEAD}{title}{HEAD:#}\n{}{silent}\n", table.render(""))
}

/// The cells of [`HEADS`], without the time.
fn cells(line: &Line) -> [String; 9] {
    let Line { by, scores, .. } = line;
    let Scores { runs, errors, verdicts, failures, .. } = scores;
    let share = |share: Share| or_dash(share.hundredths());
    let conserved = if failures.of > 0 { scores.conserved().short() } else { "-".to_owned() };
    [
        by.needs().to_owned(),
        grouped(*runs),
        or_dash(errors.median()),
        or_dash(errors.ninetieth()),
        or_dash(errors.worst()),
        share(errors.under()),
        share(*failures),
        conserved,
        share(*verdicts),
    ]
}

/// The same, or that there is none.
pub(crate) fn or_dash(hundredths: Option<u64>) -> String {
    hundredths.map_or_else(|| "-".to_owned(), short)
}

/// Hundredths of a percent with three digits, without decimals from 10 % on: `0.61 %`, `5.9 %`, `27 %`.
fn short(hundredths: u64) -> String {
    match hundredths {
        0..100 => percent(hundredths),
        100..995 => {
            let tenths = (hundredths + 5) / 10;
            format!("{}.{} %", tenths / 10, tenths % 10)
        }
        _ => format!("{} %", grouped((hundredths + 50) / 100)),
    }
}

fn duration(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..10_000 => format!("{micros} \u{b5}s"),
        micros => format!("{} ms", micros / 1000),
    }
}

/// Runs without an estimate: where they stand, and why there is none.
pub(crate) fn left_out(sources: &[Source], answers: &[Vec<Answered>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (source, answers) in sources.iter().zip(answers) {
        for (run, answered) in source.runs.iter().zip(answers) {
            if let Err(reason) = answered {
                let reason = reason.lines().next().unwrap_or_default();
                let file = source.file.file_name().unwrap_or(source.file.as_os_str());
                lines.push(format!("{}:{}: {reason}", file.display(), run.line));
            }
        }
    }
    lines
}

/// Scores as JSON.
pub(crate) fn json(sources: &[Source], answers: &[Vec<Answered>], points: &[Point<'_>]) -> String {
    let of_source = |source: &Source| {
        let of_it = points.iter().filter(|point| is_of(point, source));
        let super::sources::About { id, name, from, settings, .. } = &source.about;
        json!({
            "id": id, "name": name, "from": from, "settings": settings,
            "runs": source.runs.len(), "scores": scores(&board::lines(&of_it)),
        })
    };
    let value = json!({
        "sources": sources.iter().map(of_source).collect::<Vec<_>>(),
        "all": scores(&board::lines(&points.iter())),
        "left_out": left_out(sources, answers),
    });
    format!("{value:#}\n")
}

fn scores(lines: &[Line]) -> Vec<Value> {
    let of = |line: &Line| {
        let Line { by, scores, took } = line;
        let Errors { under, .. } = scores.errors;
        json!({
            "id": by.id(), "published": by.is_published(), "needs": by.needs(),
            "runs": scores.runs,
            "errors": {
                "runs": scores.errors.runs(), "median": scores.errors.median(),
                "ninetieth": scores.errors.ninetieth(), "worst": scores.errors.worst(), "under": under,
            },
            "failures": scores.failures, "verdicts": scores.verdicts,
            "conserved": (scores.failures.of > 0).then(|| scores.conserved()),
            "microseconds": took.map(|took| took.as_micros()),
        })
    };
    lines.iter().map(of).collect()
}

/// A line per run and estimator.
pub(crate) fn csv(points: &[Point<'_>]) -> String {
    let heads = [
        "source",
        "line",
        "model",
        "batch",
        "seq",
        "settings",
        "estimator",
        "published",
        "estimate",
        "from",
        "measured",
        "measured_as",
        "error_percent",
        "capacity",
        "survived",
        "expected_to_survive",
    ];
    let yes = |is| if is { "yes" } else { "no" }.to_owned();
    let line = |point: &Point<'_>| {
        let run = point.run;
        vec![
            point.source.about.id.clone(),
            run.line.to_string(),
            run.model.clone(),
            run.batch.to_string(),
            run.seq.map(|seq| seq.to_string()).unwrap_or_default(),
            run.settings.trim().to_owned(),
            point.by.id().to_owned(),
            yes(point.by.is_published()),
            point.estimated.bytes.0.to_string(),
            point.from.map(|from| from.0.to_string()).unwrap_or_default(),
            point.need.map(|(need, _)| need.0.to_string()).unwrap_or_default(),
            point.need.map(|(_, word)| word.to_owned()).unwrap_or_default(),
            point.error().map(signed).unwrap_or_default(),
            point.capacity.0.to_string(),
            yes(run.survived),
            yes(point.estimated.survives),
        ]
    };
    let heads = heads.map(str::to_owned).into();
    let lines: Vec<Vec<String>> = [heads].into_iter().chain(points.iter().map(line)).collect();
    super::csv(&lines)
}

/// Hundredths as a decimal: `-3.25`.
fn signed(hundredths: i64) -> String {
    let sign = if hundredths < 0 { "-" } else { "" };
    let size = hundredths.unsigned_abs();
    format!("{sign}{}.{:02}", size / 100, size % 100)
}

/// The tables of a document, by their names.
pub(crate) fn markdown(
    sources: &[Source],
    answers: &[Vec<Answered>],
    points: &[Point<'_>],
) -> BTreeMap<&'static str, String> {
    let mut each = String::new();
    for source in sources {
        let of_it = points.iter().filter(|point| is_of(point, source));
        write!(each, "### {}\n\n{}\n", source.about.name, scored(&board::lines(&of_it))).ok();
    }
    BTreeMap::from([
        ("sources", listed(sources, answers)),
        ("all", scored(&board::lines(&points.iter()))),
        ("each", each),
        ("published", published(sources, points)),
        ("intervals", confidence::intervals(sources, answers)),
        ("families", confidence::families(points)),
    ])
}

/// A table of scores; the time is left out, because it differs from machine to machine.
fn scored(lines: &[Line]) -> String {
    let heads = HEADS.iter().filter(|head| **head != "time");
    let mut text = "| estimator |".to_owned();
    for head in heads.clone() {
        write!(text, " {head} |").ok();
    }
    text += "\n|---|---|";
    text += &"---:|".repeat(heads.count() - 1);
    text.push('\n');
    for line in lines.iter().filter(|line| line.scores.runs > 0) {
        let name = line.by.name();
        let name = if line.by == By::Us(0) { format!("**{name}**") } else { name };
        writeln!(text, "| {name} | {} |", cells(line).join(" | ")).ok();
    }
    text
}

/// The sources, and how many of their runs have an estimate.
fn listed(sources: &[Source], answers: &[Vec<Answered>]) -> String {
    let mut text =
        "| source | from | settings of all runs | runs | with an estimate |\n".to_owned();
    text += "|---|---|---|---:|---:|\n";
    for (source, answers) in sources.iter().zip(answers) {
        let super::sources::About { name, from, settings, .. } = &source.about;
        let answered = answers.iter().filter(|answer| answer.is_ok()).count();
        writeln!(text, "| {name} | {from} | `{settings}` | {} | {answered} |", source.runs.len())
            .ok();
    }
    text
}

/// Published figures next to ours of the same runs.
fn published(sources: &[Source], points: &[Point<'_>]) -> String {
    let mut text =
        "| estimator | source | runs | median error, as published | median error, ours | median \
                    distance of ours from theirs |\n"
            .to_owned();
    text += "|---|---|---:|---:|---:|---:|\n";
    for agreement in board::agreements(sources, points) {
        let name = ALL[agreement.estimator].about().name;
        let source = sources.iter().find(|source| source.about.id == agreement.source);
        let source = source.map_or("", |source| source.about.name.as_str());
        let median = |scores: &Scores| or_dash(scores.errors.median());
        writeln!(
            text,
            "| {name} | {source} | {} | {} | {} | {} |",
            agreement.runs,
            median(&agreement.theirs),
            median(&agreement.ours),
            short(agreement.apart)
        )
        .ok();
    }
    text
}
