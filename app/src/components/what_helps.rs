//! What would help: changes that need less memory, each simulated, and a search for the least of them.

use std::cmp::Reverse;
use std::sync::Arc;

use highwater_core::{Config, Report, sorted};
use leptos::{html, prelude::*};

use super::fit_search::FitSearch;
use super::lever_row::LeverRowView;
use crate::language::{fill, tr};
use crate::state::{Applied, LeverRow, SearchState};

/// Levers, those that save most first.
#[component]
pub(crate) fn WhatHelps(
    /// One row per lever.
    levers: StoredValue<Vec<LeverRow>>,
    /// The report that they change.
    report: Signal<Option<Arc<Report>>>,
    /// The request that the report answers.
    #[prop(into)]
    generation: Signal<u64>,
    /// How far the search has come.
    #[prop(into)]
    search: Signal<Option<SearchState>>,
    /// The settings as they are.
    #[prop(into)]
    config: Signal<Config>,
    /// What was applied here.
    applied: RwSignal<Vec<Applied>>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
    /// A search is wanted, or none any more.
    on_search: Callback<bool>,
) -> impl IntoView {
    let order = Memo::new(move |_| levers.with_value(|rows| order(rows)));
    let useless = Memo::new(move |_| levers.with_value(|rows| useless(rows)));
    let apply = Callback::new(move |(title, after): (String, Config)| {
        let before = config.get_untracked();
        applied.update(|applied| applied.push(Applied { title, before, after: after.clone() }));
        on_config.run(after);
    });
    let note = move || {
        report.with(|report| {
            let on = &report.as_ref()?.verdict;
            Some(fill(
                "each simulated, by what {device} must hold: {need} as it is",
                &[("device", &on.name), ("need", &on.need)],
            ))
        })
    };
    view! {
        <section class="panel helps" aria-labelledby="helps-title">
            <div class="panel-head">
                <h2 class="panel-title" id="helps-title">
                    {tr("What would help")}
                </h2>
                <p class="panel-note">{note}</p>
            </div>
            <Undo applied config on_config />
            <FitSearch report search on_search on_apply=apply />
            <ol class="helps-rows">
                <For
                    each=move || order.get()
                    key=|lever| *lever
                    children=move |lever| {
                        levers
                            .with_value(|rows| rows.get(lever).copied())
                            .map(|row| view! { <LeverRowView row generation on_apply=apply /> })
                    }
                />
            </ol>
            <p class="helps-useless">{move || useless.get()}</p>
        </section>
    }
}

/// Positions of the levers that save something, the most first.
fn order(rows: &[LeverRow]) -> Vec<usize> {
    let saved = |row: &LeverRow| {
        row.pulled.with(|known| {
            let known = known.as_ref()?;
            known.before.0.checked_sub(known.pulled.outcome.verdict.need.0)
        })
    };
    let mut saving: Vec<_> =
        rows.iter().filter_map(|row| Some((row.lever, saved(row).filter(|&n| n > 0)?))).collect();
    sorted::by_key(&mut saving, |&(_, saved)| Reverse(saved));
    saving.into_iter().map(|(lever, _)| lever).collect()
}

/// What is said of those that apply and save nothing.
fn useless(rows: &[LeverRow]) -> Option<String> {
    let title = |row: &LeverRow| {
        row.pulled.with(|known| {
            let known = known.as_ref()?;
            let is_useless = known.pulled.outcome.verdict.need >= known.before;
            is_useless.then(|| tr(&known.pulled.title))
        })
    };
    let titles: Vec<String> = rows.iter().filter_map(title).collect();
    (!titles.is_empty()).then(|| {
        fill("By itself it saves nothing here to: {list}.", &[("list", &titles.join("; "))])
    })
}

/// What was applied last, and the way back; nothing once the settings have changed otherwise.
#[component]
fn Undo(
    /// What was applied.
    applied: RwSignal<Vec<Applied>>,
    /// The settings as they are.
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let last = Memo::new(move |_| {
        let last = applied.with(|applied| applied.last().cloned());
        last.filter(|last| config.with(|config| *config == last.after))
    });
    let button = NodeRef::<html::Button>::new();
    // The button that was pressed is gone: the way back takes its place.
    Effect::new(move |_| {
        if last.with(Option::is_some)
            && let Some(button) = button.get()
        {
            drop(button.focus());
        }
    });
    let undo = move |_| {
        if let Some(Applied { before, .. }) = last.get_untracked() {
            applied.update(|applied| drop(applied.pop()));
            on_config.run(before);
        }
    };
    view! {
        <div role="status">
            {move || {
                last.get()
                    .map(|last| {
                        view! {
                            <p class="helps-applied">
                                <span>{fill("Applied: {title}.", &[("title", &last.title)])}</span>
                                <button type="button" class="button" node_ref=button on:click=undo>
                                    {tr("Undo")}
                                </button>
                            </p>
                        }
                    })
            }}
        </div>
    }
}
