//! Other runs of the same file: by other rules, or from the history of another GPU.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::report::RecordedRun;
use leptos::prelude::*;

use super::parts::cell;
use crate::words::language::tr;
use crate::words::recorded as words;

/// The readings next to each other, of which one is on the page; nothing where there is no other.
#[component]
pub(crate) fn Readings(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// Which is wanted.
    reading: RwSignal<usize>,
) -> impl IntoView {
    view! {
        <section class="panel readings" aria-labelledby="readings-title">
            {move || {
                let report = report.get()?;
                let run = report.recorded.as_ref().filter(|run| run.readings.len() > 1)?;
                Some(inside(run, reading))
            }}
        </section>
    }
}

fn inside(run: &RecordedRun, wanted: RwSignal<usize>) -> impl IntoView + use<> {
    let head = |name| view! { <th scope="col" class="number">{name}</th> };
    let rows = run.readings.iter().enumerate().map(|(at, reading)| {
        let (name, about) = words::reading(reading.by);
        view! {
            <tr>
                <th scope="row">
                    <label>
                        <input
                            type="radio"
                            name="reading"
                            id=["reading-", &at.to_string()].concat()
                            prop:checked=at == run.shown
                            on:change=move |_| wanted.set(at)
                        />
                        " "
                        {name}
                    </label>
                    " "
                    <span class="hint">{about}</span>
                </th>
                {cell(reading.allocated)}
                {cell(reading.reserved)}
            </tr>
        }
    });
    view! {
        <div class="panel-head">
            <h2 class="panel-title" id="readings-title">{words::readings(run)}</h2>
        </div>
        <table class="table">
            <caption class="hidden-text">{words::readings(run)}</caption>
            <thead>
                <tr>
                    <td></td>
                    {head(tr("Peak allocated"))}
                    {head(tr("Peak reserved"))}
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
}
