//! How the same training ends on 1 to 64 GPUs, by each way of sharing it.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::Report;
use highwater_core::config::Config;
use highwater_core::estimate::{LargestBatch, RankLine};
use highwater_core::levers::{Scale, Scaled, WAYS, Way};
use highwater_core::time::{Picoseconds, rate};
use highwater_core::wording::levers::fewest;
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::gpu_table::verdict_class;
use super::later::Draw;
use super::parts::{Code, column, size};
use crate::model::computed::Computed;
use crate::model::scaled::Piece;
use crate::words::format::{self, length, share};
use crate::words::language::{fill, spoken, tr};
use crate::words::levers as words;

/// What draws the table of numbers of GPUs.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn scaled_view() -> Result<Draw<ScaledViewProps>, SplitLoaderError> {
    Ok(|props| ScaledView(props).into_any())
}

/// The ranks of the run, and the table.
#[component]
pub(crate) fn ScaledView(
    /// What is known, packed, in the order in which it is found.
    pieces: RwSignal<Option<Computed<Vec<Vec<u8>>>>>,
    /// The newest report, whose training it is.
    report: Signal<Option<Arc<Report>>>,
    /// Whether the panel is seen.
    shown: Signal<bool>,
    /// The answer is wanted.
    on_ask: Callback<()>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    Effect::new(move |_| {
        if shown.get() && report.with(Option::is_some) {
            on_ask.run(());
        }
    });
    // The section hides those of other settings, and keeps their place.
    let known = Memo::new(move |_| {
        let unpacked = |pieces: &Computed<Vec<Vec<u8>>>| Known(Arc::new(unpacked(pieces.last())));
        pieces.with(|pieces| pieces.as_ref().map(unpacked)).unwrap_or_default()
    });
    let did_arrive = Memo::new(move |_| {
        let is_empty = |pieces: &Computed<Vec<Vec<u8>>>| pieces.last().iter().any(Vec::is_empty);
        pieces.with(|pieces| !pieces.as_ref().is_some_and(is_empty))
    });
    let body = move || {
        let report = report.get()?;
        if !did_arrive.get() {
            return Some(view! { <p>{tr(
                "What answers for several GPUs did not arrive. Is the page still reachable? Choose another tab, then this \
                 one.",
            )}</p> }.into_any());
        }
        Some(known.with(|known| told(&known.0, &report, on_config)).into_any())
    };
    view! {
        <section class="panel scaled" aria-labelledby="scaled-title">
            <h2 class="panel-title" id="scaled-title">{tr("On several GPUs")}</h2>
            {body}
        </section>
    }
}

/// The pieces that are there; others are another one.
#[derive(Clone, Debug, Default)]
struct Known(Arc<Vec<Piece>>);

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn unpacked(pieces: &[Vec<u8>]) -> Vec<Piece> {
    pieces.iter().filter_map(|packed| postcard::from_bytes(packed).ok()).collect()
}

fn told(pieces: &[Piece], report: &Report, on_config: Callback<Config>) -> impl IntoView + use<> {
    let cells: Vec<Scaled> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Cell(cell) => Some((**cell).clone()),
            Piece::Ranks(_) | Piece::Nothing => None,
        })
        .collect();
    let ranks = pieces.iter().find_map(|piece| match piece {
        Piece::Ranks(lines) if !lines.is_empty() => Some(strip(lines)),
        _ => None,
    });
    let all = Scale::COUNTS.len() * WAYS.len() + 1;
    let simplest = cells.iter().find(|cell| cell.outcome.verdict.verdict.survives());
    let code = simplest.filter(|cell| cell.gpus > 1).map(|cell| {
        view! {
            <Code
                id="scaled-code".to_owned()
                summary=tr("The code of the simplest that fits")
                code=cell.code.clone()
            />
        }
    });
    view! {
        {ranks}
        <p class="times-lead" role="status">{lead(simplest, report, pieces.len() >= all)}</p>
        <p class="panel-note">
            {fill(
                "What each {gpu} needs with CUDA and NCCL, at the batch that it has now, and below it the largest batch. \
                 Choose one to apply it.",
                &[("gpu", &report.verdict.name)],
            )}
        </p>
        {table(&cells, pieces.len(), on_config)}
        {paces(&cells)}
        {code}
    }
}

/// The fewest GPUs that are enough.
fn lead(simplest: Option<&Scaled>, report: &Report, is_complete: bool) -> String {
    let gpu: &dyn Display = &report.verdict.name;
    match simplest {
        Some(cell) => {
            let way = Way::named(&cell.way).map_or("", |way| way.name);
            spoken(&fewest(cell.gpus, way, &cell.outcome.verdict))
        }
        None if is_complete => {
            fill("No number of {gpu} that was tried is enough.", &[("gpu", gpu)])
        }
        None => tr("Asking…"),
    }
}

/// The ranks that differ, the fullest with the longest bar.
fn strip(lines: &[RankLine]) -> impl IntoView + use<> {
    let most = lines.iter().map(|line| line.verdict.need).max().unwrap_or_default();
    let row = |line: &RankLine| {
        let parts: [(&str, &dyn Display); 2] = [("first", &line.first), ("last", &line.last)];
        let name = if line.first == line.last {
            fill("rank {first}", &parts)
        } else {
            fill("ranks {first} to {last}", &parts)
        };
        let width = length(share(line.verdict.need, most)) + "%";
        view! {
            <li class="scaled-rank">
                <span>{name}</span>
                <span class="scaled-bar" aria-hidden="true">
                    <span class="scaled-filled" style:width=width></span>
                </span>
                <span class="number">
                    {size(line.verdict.need)}
                    " "
                    <span class=verdict_class(line.verdict.verdict)>
                        {words::verdict(line.verdict.verdict)}
                    </span>
                </span>
            </li>
        }
    };
    view! {
        <h3 class="times-title">{tr("What each rank needs")}</h3>
        <ul class="scaled-ranks">{lines.iter().map(row).collect_view()}</ul>
    }
}

/// A row for each number of GPUs, a column for each way.
fn table(cells: &[Scaled], known: usize, on_config: Callback<Config>) -> impl IntoView + use<> {
    let heads = WAYS.iter().map(|way| column(tr(way.name), true)).collect_view();
    // The first piece is that of the ranks.
    let is_known = |row: usize, at: usize| row * WAYS.len() + at + 1 < known;
    let rows = Scale::COUNTS.iter().enumerate().map(|(row, &gpus)| {
        let ways = WAYS.iter().enumerate().map(|(at, way)| {
            let found = cells.iter().find(|cell| cell.gpus == gpus && cell.way == way.id);
            match found {
                Some(found) => cell(found, way, on_config).into_any(),
                None if is_known(row, at) => view! { <td class="number">"–"</td> }.into_any(),
                None => view! { <td class="number">"…"</td> }.into_any(),
            }
        });
        view! {
            <tr>
                <th scope="row">{gpus}</th>
                {ways.collect_view()}
            </tr>
        }
    });
    let rows = rows.collect_view();
    view! {
        <div class="scroll-sideways" tabindex="0" role="region" aria-label=tr("Need by number of GPUs")>
            <table class="table scaled-table">
                <thead>
                    <tr>{column(tr("GPUs"), false)} {heads}</tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}

/// How fast the simplest way is that fits on each number of GPUs; nothing where none is known.
fn paces(cells: &[Scaled]) -> Option<impl IntoView + use<>> {
    let row = |gpus: u64| {
        let mut here = cells.iter().filter(|cell| cell.gpus == gpus);
        let cell = here.find(|cell| cell.outcome.verdict.verdict.survives())?;
        let pace = cell.pace?;
        let way = Way::named(&cell.way).filter(|_| gpus > 1);
        let way = way.map_or_else(|| tr("one GPU"), |way| tr(way.name));
        let shared = |text: String| if gpus > 1 { text } else { "–".to_owned() };
        Some(view! {
            <tr>
                <th scope="row">{gpus}</th>
                <td>{way}</td>
                <td class="number">{Picoseconds(pace.step).to_string()}</td>
                <td class="number">{shared(Picoseconds(pace.exposed).to_string())}</td>
                <td class="number">{shared(pace.sent.short())}</td>
                <td class="number">{rate(pace.samples_per_second())}</td>
            </tr>
        })
    };
    let rows: Vec<_> = Scale::COUNTS.into_iter().filter_map(row).collect();
    let heads = view! {
        {column(tr("GPUs"), false)} {column(tr("simplest way"), false)} {column(tr("step"), true)}
        {column(tr("waits for others"), true)} {column(tr("each sends"), true)}
        {column(tr("samples/s"), true)}
    };
    let title = tr("How long a step takes");
    (!rows.is_empty()).then(|| {
        view! {
            <h3 class="times-title">{title.clone()}</h3>
            <div class="scroll-sideways" tabindex="0" role="region" aria-label=title>
                <table class="table">
                    <thead>
                        <tr>{heads}</tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
        }
    })
}

fn cell(found: &Scaled, way: &Way, on_config: Callback<Config>) -> impl IntoView + use<> {
    let (config, verdict) = (found.config.clone(), &found.outcome.verdict);
    let largest = found.largest.and_then(LargestBatch::proposed);
    let batch = largest.map(|n| fill("to batch {n}", &[("n", &format::batch(n))]));
    let (name, said) = (tr(way.name), words::verdict(verdict.verdict));
    let parts: [(&str, &dyn Display); 3] = [("n", &found.gpus), ("way", &name), ("verdict", &said)];
    let said = match found.gpus {
        1 => fill(": apply one GPU; {verdict}", &parts),
        _ => fill(": apply {n} GPUs with {way}; {verdict}", &parts),
    };
    view! {
        <td class="number">
            <button type="button" class="link-button" on:click=move |_| on_config.run(config.clone())>
                <span class=verdict_class(verdict.verdict)>
                    {format::verdict_symbol(verdict.verdict)}
                </span>
                "\u{a0}"
                {size(verdict.need)}
                <span class="hidden-text">{said}</span>
            </button>
            <span class="scaled-batch">{batch}</span>
        </td>
    }
}
