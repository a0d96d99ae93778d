//! What other estimators say of the run, and what was measured: a bar each, against what GPUs have.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::estimators::{Estimate, Means};
use highwater_core::{Bytes, Report};
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::later::Draw;
use super::parts::{FoldedTable, column, size};
use crate::model::computed::Computed;
use crate::model::protocol::{Others, Said};
use crate::model::state::DeviceRow;
use crate::words::format::{length, share};
use crate::words::language::{fill, tr};
use crate::words::short_name;

/// A figure to compare with: what a GPU has, or what was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    name: String,
    bytes: Bytes,
    class: &'static str,
}

/// What draws what other estimators say.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn others_view() -> Result<Draw<OthersViewProps>, SplitLoaderError> {
    Ok(|props| OthersView(props).into_any())
}

/// Every estimator's answer for the run that is on the page.
#[component]
pub(crate) fn OthersView(
    /// What they say; empty where they could not be asked.
    others: RwSignal<Option<Computed<Others>>>,
    /// The run.
    report: Signal<Option<Arc<Report>>>,
    /// Every device.
    devices: RwSignal<Vec<DeviceRow>>,
    /// The request whose verdicts count.
    current: Signal<Option<u64>>,
    /// Whether the panel is seen.
    shown: Signal<bool>,
    /// They are to be asked.
    on_ask: Callback<()>,
) -> impl IntoView {
    Effect::new(move |_| {
        if shown.get() && report.with(Option::is_some) {
            on_ask.run(());
        }
    });
    // The section hides what is of other settings, and keeps its place.
    let body = move || match others.get().map(|others| others.last().clone()) {
        None => view! { <p>{tr("Asking…")}</p> }.into_any(),
        Some(others) if others.rows.is_empty() => {
            let text = tr(
                "Other estimators did not arrive. Is the page still reachable? Choose another tab, then this one.",
            );
            view! { <p>{text}</p> }.into_any()
        }
        Some(others) => answers(&others, &usual(devices, current)).into_any(),
    };
    view! {
        <div class="panel others">
            <h2 id="others-title">{tr("What other estimators would say")}</h2>
            <p class="panel-note">
                {tr("The same training, as published systems estimate it. Each is written anew from its paper or its code.")}
            </p>
            {body}
        </div>
    }
}

fn answers(others: &Others, cards: &[(String, Bytes)]) -> impl IntoView + use<> {
    let ours = others.rows.first().and_then(|row| row.answer.as_ref().ok()).map(|ours| ours.bytes);
    let ours = ours.unwrap_or_default();
    let marks = marks(others, cards);
    let cards: Vec<&Mark> = marks.iter().filter(|mark| mark.class == CARD).collect();
    let largest = others.measured.iter().map(|(bytes, ..)| *bytes).fold(ours, Bytes::max);
    let end = end(largest, cards.iter().map(|mark| mark.bytes));
    let measured = others.measured.iter().map(|(bytes, card, source)| {
        let parts: [(&str, &dyn Display); 3] =
            [("size", &bytes.short()), ("gpu", card), ("source", source)];
        view! { <p class="others-measured">{fill("Measured: {size} on {gpu} ({source}).", &parts)}</p> }
    });
    let measured = measured.collect_view();
    let rows = others.rows.iter().filter_map(|row| {
        let estimate = *row.answer.as_ref().ok()?;
        let to = if row.means == Means::Tensors { others.allocated } else { ours };
        Some(answer(row, estimate, to, &marks, end))
    });
    let rows = rows.collect_view();
    let scale = marks.iter().filter(|mark| mark.bytes <= end).map(|mark| {
        let class = ["others-label ", mark.class].concat();
        view! { <span class=class style:left=at(mark.bytes, end)>{mark.name.clone()}</span> }
    });
    let scale = scale.collect_view();
    view! {
        {measured}
        <div class="scroll-sideways" tabindex="0" role="region" aria-labelledby="others-title">
            <table class="table others-table">
                <thead>
                    <tr>
                        {column(tr("estimator"), false)}
                        <th scope="col" class="others-bar-head">
                            <span class="hidden-text">{tr("usable memory of GPUs")}</span>
                            <span class="others-scale">{scale}</span>
                        </th>
                        {column(tr("estimate"), true)}
                        {column(tr("to ours"), true)}
                        {column(tr("leaves out"), false)}
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
        <p class="others-note">
            {tr("A lighter bar is of tensors alone: its figure is compared with our allocated memory, all others with the process.")}
        </p>
        {silent(&others.rows)}
        {explained(&others.rows)}
    }
}

/// The class of a GPU's mark.
const CARD: &str = "others-card";

/// The usual GPUs and their usable memory.
fn usual(devices: RwSignal<Vec<DeviceRow>>, current: Signal<Option<u64>>) -> Vec<(String, Bytes)> {
    untrack(|| {
        let current = current.get();
        let card = |row: &DeviceRow| {
            let known = row.judged(current, |known| {
                let is_usual = highwater_core::device::USUAL.contains(&known.id.as_str());
                is_usual.then(|| (short_name(&known.name).to_owned(), known.usable()))
            });
            known.flatten()
        };
        devices.with(|rows| rows.iter().filter_map(card).collect())
    })
}

/// The usual GPUs' usable memory, each size once, and what was measured.
fn marks(others: &Others, cards: &[(String, Bytes)]) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for (name, bytes) in cards {
        // Cards of one size share a label.
        let near = |mark: &&mut Mark| mark.bytes.0.abs_diff(bytes.0) < Bytes::mib(1536).0;
        match marks.iter_mut().find(near) {
            Some(mark) => mark.name = [&mark.name, ", ", name].concat(),
            None => marks.push(Mark { name: name.clone(), bytes: *bytes, class: CARD }),
        }
    }
    marks.extend(others.measured.iter().map(|(bytes, ..)| Mark {
        name: tr("measured"),
        bytes: *bytes,
        class: "others-truth",
    }));
    marks
}

/// SIZE: where the bars end: behind the first GPU that has clearly more than is needed.
fn end(largest: Bytes, cards: impl Iterator<Item = Bytes>) -> Bytes {
    let wanted = Bytes(largest.0 / 4 * 5);
    let next = cards.filter(|card| *card >= wanted).min().unwrap_or(wanted);
    Bytes(next.0 / 20 * 21)
}

/// A place along a bar, as the style sheet takes it.
fn at(bytes: Bytes, end: Bytes) -> String {
    length(share(bytes, end).min(100.0)) + "%"
}

fn answer(
    row: &Said,
    estimate: Estimate,
    to: Bytes,
    marks: &[Mark],
    end: Bytes,
) -> impl IntoView + use<> {
    let Estimate { bytes, from, .. } = estimate;
    let mut class = String::from("others-bar");
    if row.means == Means::Tensors {
        class += " others-tensors";
    }
    if row.id == "highwater" {
        class += " others-ours";
    }
    if bytes > end {
        class += " others-beyond";
    }
    let lines = marks.iter().filter(|mark| mark.bytes <= end).map(|mark| {
        let class = ["others-line ", mark.class].concat();
        view! { <span class=class style:left=at(mark.bytes, end)></span> }
    });
    let lines = lines.collect_view();
    let from = from.map(|from| view! { {size(from)} " – " });
    view! {
        <tr>
            <th scope="row" title=row.source.clone()>
                {row.name.clone()}
            </th>
            <td class="others-bar-cell" aria-hidden="true">
                <span class="others-track">
                    <span class=class style:width=at(bytes, end)></span>
                    {lines}
                </span>
            </td>
            <td class="number">{from} {size(bytes)}</td>
            <td class="number">{difference(bytes, to)}</td>
            <td class="others-why">{tr(&row.leaves_out)}</td>
        </tr>
    }
}

/// How far a figure lies from another: `+12 %`.
fn difference(bytes: Bytes, to: Bytes) -> String {
    let (bytes, to) = (i128::from(bytes.0), i128::from(to.0));
    let percent = ((bytes - to) * 100).checked_div(to);
    let text = percent.map(|percent| [&percent.unsigned_abs().to_string(), "\u{a0}%"].concat());
    match (percent.unwrap_or_default(), text.unwrap_or_default()) {
        (1.., text) => ["+", &text].concat(),
        (0, text) => text,
        (_, text) => ["−", &text].concat(),
    }
}

/// Those that estimate no such model, by their reasons.
fn silent(rows: &[Said]) -> impl IntoView + use<> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        let Err(reason) = &row.answer else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(&row.name),
            None => reasons.push((reason, vec![&row.name])),
        }
    }
    let lines = reasons.into_iter().map(|(reason, names)| {
        let parts: [(&str, &dyn Display); 2] = [("names", &names.join(", ")), ("why", &tr(reason))];
        view! { <p class="others-note">{fill("No figure from {names}: {why}.", &parts)}</p> }
    });
    lines.collect_view()
}

/// What each needs and counts, and where it was published.
fn explained(rows: &[Said]) -> impl IntoView + use<> {
    let rows = rows.iter().map(|row| {
        view! {
            <tr>
                <th scope="row">{row.name.clone()}</th>
                <td>{tr(&row.needs)}</td>
                <td class="others-why">{tr(&row.counts)}</td>
                <td>{row.source.clone()}</td>
            </tr>
        }
    });
    let rows = rows.collect_view();
    let summary = tr("What each needs and counts");
    let label = summary.clone();
    view! {
        <FoldedTable id="others-sources" summary label>
            <table class="table">
                <thead>
                    <tr>
                        {column(tr("estimator"), false)} {column(tr("needs"), false)} {column(tr("counts"), false)}
                        {column(tr("published"), false)}
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </FoldedTable>
    }
}
