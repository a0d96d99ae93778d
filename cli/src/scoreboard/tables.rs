//! Scores as text for a terminal, as JSON, CSV and Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use highwater_core::bytes::grouped;
use highwater_core::estimators::scores::{Errors, Scores, Share, percent};
use highwater_core::estimators::{ALL, Means};
use serde_json::{Value, json};

use super::answers::Answered;
use super::board::{self, By, Line, Point};
use super::confidence;
use super::sources::Source;
use crate::style::{FAINT, HEAD};
use crate::table::{Cell, Table};

/// COUNT: runs without an estimate that are listed.
const LEFT_OUT_MAX: usize = 10;

/// Columns behind the name of an estimator. A scheduler grants memory to processes, so that tensors have no [`GRANTS`].
const HEADS: [&str; 10] =
    ["needs", "runs", "median", "90 %", "worst", "under", "fails", "conserved", "verdicts", "time"];

/// Columns about runs that a scheduler would lose or save.
const GRANTS: [&str; 2] = ["fails", "conserved"];

/// Both comparisons, and their names.
const TABLES: [(Means, &str); 2] =
    [(Means::Process, "Memory of the process"), (Means::Tensors, "Memory of tensors")];

/// The scores of each source.
pub(crate) fn text(sources: &[Source], answers: &[Vec<Answered>], points: &[Point<'_>]) -> String {
    let mut text = String::new();
    for source in sources {
        writeln!(text, "{HEAD}{}{HEAD:#}\n", title(source)).ok();
        for (means, name) in TABLES {
            let of_source = board::of(points, means).filter(|point| is_of(point, source));
            text += &section(name, &board::lines(&of_source), means);
        }
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
                    above the estimate as a failure; nothing was run again.\nverdicts: rows whose answers to whether the \
                    run survives are all right. time: of an estimate, after the simulation that all\nshare. Tensors are \
                    compared with allocated memory, or with that of the process without its context.\n"
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

fn section(title: &str, lines: &[Line], means: Means) -> String {
    let table = match means {
        Means::Process => table::<{ HEADS.len() + 1 }>(title, lines, means),
        Means::Tensors => table::<{ HEADS.len() + 1 - GRANTS.len() }>(title, lines, means),
    };
    let silent = ALL.iter().enumerate().filter(|(at, estimator)| {
        estimator.about().means == means && lines.iter().all(|line| line.by != By::Us(*at))
    });
    let silent: Vec<&str> = silent.map(|(_, estimator)| estimator.about().name).collect();
    let silent = match silent.as_slice() {
        [] => String::new(),
        names => format!("{FAINT}No answer: {}.{FAINT:#}\n", names.join(", ")),
    };
    format!("{table}{silent}\n")
}

/// A name and [`heads`] as `N` columns.
fn table<const N: usize>(title: &str, lines: &[Line], means: Means) -> String {
    let mut table = Table::of_numbers_behind(2);
    let row = |name: Cell, cells: Vec<Cell>| -> [Cell; N] {
        let mut cells = [name].into_iter().chain(cells);
        std::array::from_fn(|_| cells.next().unwrap_or_else(|| "".into()))
    };
    let heads = heads(means).map(|head| Cell::styled(head, HEAD));
    table.row(row(Cell::styled(title, HEAD), heads.collect()));
    for line in lines {
        let cells = cells(line, means).into_iter().map(Cell::from);
        table.row(row(line.by.name().into(), cells.collect()));
    }
    table.render("")
}

/// Those of [`HEADS`] that a table has.
fn heads(means: Means) -> impl Iterator<Item = &'static str> + Clone {
    HEADS.into_iter().filter(move |head| means == Means::Process || !GRANTS.contains(head))
}

/// The cells of [`heads`].
fn cells(line: &Line, means: Means) -> Vec<String> {
    let all = HEADS.into_iter().zip(all_cells(line));
    let is_shown = |head: &str| heads(means).any(|shown| shown == head);
    all.filter(|(head, _)| is_shown(head)).map(|(_, cell)| cell).collect()
}

fn all_cells(line: &Line) -> [String; HEADS.len()] {
    let Line { by, scores, took } = line;
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
        took.map(duration).unwrap_or_default(),
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
        let scores = |means| {
            scores(&board::lines(&board::of(points, means).filter(|point| is_of(point, source))))
        };
        let super::sources::About { id, name, from, settings, .. } = &source.about;
        json!({
            "id": id, "name": name, "from": from, "settings": settings,
            "runs": source.runs.len(), "scores": scores(Means::Process),
            "tensors": scores(Means::Tensors),
        })
    };
    let value = json!({
        "sources": sources.iter().map(of_source).collect::<Vec<_>>(),
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
        writeln!(each, "### {}\n", source.about.name).ok();
        for (means, name) in TABLES {
            let of_it = board::of(points, means).filter(|point| is_of(point, source));
            writeln!(each, "{}", scored(name, &board::lines(&of_it), means)).ok();
        }
    }
    BTreeMap::from([
        ("sources", listed(sources, answers)),
        ("process", by_source(sources, points, Means::Process)),
        ("tensors", by_source(sources, points, Means::Tensors)),
        ("each", each),
        ("published", published(sources, points)),
        ("intervals", confidence::intervals(sources, answers)),
        ("families", confidence::families(points)),
    ])
}

/// A row for each estimator and a column for each source: the median error and that of 9 in 10 runs, or where no need is
/// known, the share of right verdicts.
fn by_source(sources: &[Source], points: &[Point<'_>], means: Means) -> String {
    let names = sources.iter().map(|source| source.about.name.as_str()).collect::<Vec<_>>();
    let mut text =
        format!("| estimator | {} |\n|---|{}\n", names.join(" | "), "---:|".repeat(names.len()));
    let lines: Vec<Vec<Line>> = sources
        .iter()
        .map(|source| board::lines(&board::of(points, means).filter(|point| is_of(point, source))))
        .collect();
    for by in board::all_of(board::of(points, means)) {
        let cell = |lines: &Vec<Line>| {
            let Some(line) = lines.iter().find(|line| line.by == by) else { return String::new() };
            let Scores { errors, verdicts, .. } = &line.scores;
            match (errors.median(), errors.ninetieth()) {
                (Some(median), Some(most)) => format!("{} / {}", bare(median), short(most)),
                _ => format!("{} right", or_dash(verdicts.hundredths())),
            }
        };
        let cells = lines.iter().map(cell).collect::<Vec<_>>();
        writeln!(text, "| {} | {} |", name(&by), cells.join(" | ")).ok();
    }
    text
}

/// Without its unit.
fn bare(hundredths: u64) -> String {
    short(hundredths).trim_end_matches([' ', '%']).to_owned()
}

/// The name in a document.
fn name(by: &By) -> String {
    let name = by.name();
    if matches!(by, By::Us(0) | By::Known) { format!("**{name}**") } else { name }
}

/// A table of scores; the time is left out, because it differs from machine to machine.
fn scored(title: &str, lines: &[Line], means: Means) -> String {
    let heads = heads(means).filter(|head| *head != "time");
    let mut text = format!("| {title} |");
    for head in heads.clone() {
        write!(text, " {head} |").ok();
    }
    text += "\n|---|---|";
    text += &"---:|".repeat(heads.count() - 1);
    text.push('\n');
    for line in lines {
        let mut cells = cells(line, means);
        cells.pop();
        writeln!(text, "| {} | {} |", name(&line.by), cells.join(" | ")).ok();
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
