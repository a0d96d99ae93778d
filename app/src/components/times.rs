//! How long a step takes: its figures, where the time goes, and every GPU by speed.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::time::Picoseconds;
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::later::Draw;
use super::parts::column;
use crate::model::state::{DeviceRow, Timed};
use crate::model::times::{Row, Sheet, Times};
use crate::words::format::{self, length};
use crate::words::language::{phrase, tr};
use crate::words::stated;

/// COUNT: samples of the epoch that is shown first: those of `ImageNet`.
const EPOCH: u64 = 1_281_167;

/// What draws the times.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn times_view() -> Result<Draw<TimesViewProps>, SplitLoaderError> {
    Ok(|props| TimesView(props).into_any())
}

/// The times of the run that is on the page.
#[component]
pub(crate) fn TimesView(
    /// The newest that are known.
    times: RwSignal<Option<Timed>>,
    /// The run.
    report: Signal<Option<Arc<Report>>>,
    /// Every device, for the verdicts.
    devices: RwSignal<Vec<DeviceRow>>,
    /// The request whose verdicts count.
    current: Signal<Option<u64>>,
    /// Whether the panel is seen.
    shown: Signal<bool>,
    /// They are to be asked for.
    on_ask: Callback<()>,
) -> impl IntoView {
    Effect::new(move |_| {
        if shown.get() && report.with(Option::is_some) {
            on_ask.run(());
        }
    });
    let epoch = RwSignal::new(EPOCH);
    let signs = Signs { devices, current };
    // The section hides what is of other settings, and keeps its place.
    let body = move || {
        times.with(|timed| match timed.as_ref().map(Timed::last) {
            None => view! { <p>{tr("Asking…")}</p> }.into_any(),
            Some(Err(reason)) => view! { <p>{stated(reason)}</p> }.into_any(),
            Some(Ok(times)) => told(times, epoch, signs).into_any(),
        })
    };
    view! {
        <section class="panel times" aria-labelledby="times-title">
            <h2 class="panel-title" id="times-title">{tr("How long it takes")}</h2>
            {body}
        </section>
    }
}

/// The verdicts whose signs stand before the names of GPUs.
#[derive(Clone, Copy)]
struct Signs {
    devices: RwSignal<Vec<DeviceRow>>,
    current: Signal<Option<u64>>,
}

fn told(times: &Times, epoch: RwSignal<u64>, signs: Signs) -> impl IntoView + use<> {
    let (step, samples) = (times.step, times.samples.max(1));
    let lasts = move || {
        let steps = epoch.get().div_ceil(samples);
        Picoseconds(step.saturating_mul(steps)).to_string()
    };
    let fact = |(name, figure): &(_, String)| {
        view! {
            <div class="times-fact">
                <dt>{phrase(name)}</dt>
                <dd>{figure.clone()}</dd>
            </div>
        }
    };
    let facts = times.facts.iter().map(fact).collect_view();
    let notes = times.notes.iter().map(|note| view! { <p class="panel-note">{phrase(note)}</p> });
    view! {
        <p class="times-lead">{phrase(&times.lead)}</p>
        <dl class="times-facts">
            {facts}
            {times.has_epochs.then(|| epochs(epoch, lasts))}
        </dl>
        {notes.collect_view()}
        {times.sheets.iter().map(|known| sheet(known, signs)).collect_view()}
    }
}

/// How long an epoch takes, of as many samples as are typed.
fn epochs(epoch: RwSignal<u64>, lasts: impl Fn() -> String + Send + 'static) -> impl IntoView {
    view! {
        <div class="times-fact">
            <dt>
                <label>
                    {tr("epoch of")}
                    " "
                    <input
                        class="times-epoch"
                        type="number"
                        min="1"
                        value=EPOCH.to_string()
                        on:input:target=move |event| {
                            if let Ok(samples) = event.target().value().parse() {
                                epoch.set(samples);
                            }
                        }
                    />
                    " "
                    {tr("samples")}
                </label>
            </dt>
            <dd aria-live="polite">{lasts}</dd>
        </div>
    }
}

fn sheet(sheet: &Sheet, signs: Signs) -> impl IntoView + use<> {
    let title = phrase(&sheet.title);
    let heads = sheet.heads.iter().enumerate();
    let heads = heads.map(|(at, head)| column(phrase(head), at > 0)).collect_view();
    let row = |row: &Row| {
        let cells = row.cells.iter().map(|cell| view! { <td class="number">{phrase(cell)}</td> });
        let width = length(f64::from(u32::try_from(row.bar).unwrap_or(0)) / 10.0) + "%";
        view! {
            <tr class:times-chosen=row.chosen>
                <th scope="row">
                    {named(row, signs)}
                    <span class="times-bar" aria-hidden="true" style:width=width></span>
                </th>
                {cells.collect_view()}
            </tr>
        }
    };
    let rows = sheet.rows.iter().map(row).collect_view();
    view! {
        <h3 class="times-title">{title.clone()}</h3>
        <div class="scroll-sideways" tabindex="0" role="region" aria-label=title>
            <table class="table times-table">
                <thead>
                    <tr>{heads}</tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}

/// A name, and before that of a GPU the sign of whether the run fits there: verdicts are known before times.
fn named(row: &Row, signs: Signs) -> String {
    let name = phrase(&row.name);
    let verdict = untrack(|| {
        let current = signs.current.get();
        signs.devices.with(|rows| {
            let mut rows = rows.iter();
            let known = rows.find(|known| known.device.with_value(|device| device.id == row.gpu));
            known?.known_verdict(current)
        })
    });
    match verdict {
        Some(verdict) => [format::verdict_symbol(verdict), "\u{a0}", &name].concat(),
        None => name,
    }
}

/// The time in one sentence, for the answer: that it is on its way, until it is known.
pub(super) fn line(times: RwSignal<Option<Timed>>, current: Option<u64>) -> Option<String> {
    times.with(|timed| match timed.as_ref().and_then(|timed| timed.at(current)) {
        None => Some(tr("A step takes ….")),
        Some(Ok(times)) => Some(phrase(&times.lead)),
        Some(Err(_)) => None,
    })
}
