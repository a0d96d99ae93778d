//! Suggestions: changes that need less memory, each simulated, and the search for the smallest one that fits.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use highwater_core::order::InOrder as _;
use std::cmp::Reverse;
use std::sync::Arc;

use highwater_core::{Bytes, Config, Report};
use leptos::either::Either;
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::fit_search::FitSearch;
use super::gpu_table::verdict_class;
use super::later::Draw;
use super::parts::{Code, Leaving, size};
use crate::model::protocol::SearchOutcome;
use crate::model::state::{self, Applied, Effected, SearchState};
use crate::page::focus::focus_later;
use crate::words::format;
use crate::words::language::{fill, tr};
use crate::words::levers as words;

/// What draws the suggestions.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn what_helps_view() -> Result<Draw<WhatHelpsProps>, SplitLoaderError> {
    Ok(|props| WhatHelps(props).into_any())
}

/// Levers, those that save most first.
#[component]
pub(crate) fn WhatHelps(
    /// What each lever leads to, as far as it is known.
    levers: RwSignal<Vec<state::Lever>>,
    /// The report that they change.
    report: Signal<Option<Arc<Report>>>,
    /// The request whose outcomes count.
    current: Signal<Option<u64>>,
    /// How far the search has come.
    search: RwSignal<Option<SearchState>>,
    /// The settings as they are.
    config: RwSignal<Config>,
    /// What was applied here.
    applied: RwSignal<Vec<Applied>>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
    /// A search is wanted, or none any more.
    on_search: Callback<bool>,
) -> impl IntoView {
    let undoable = Signal::derive(move || {
        let last = applied.with(|applied| applied.last().cloned());
        last.filter(|last| config.with(|config| *config == last.after))
    });
    let apply = move |title: String, after: Config| {
        let before = config.get_untracked();
        if before == after {
            return;
        }
        applied.update(|applied| applied.push(Applied { title, before, after: after.clone() }));
        on_config.run(after);
    };
    let undo = Callback::new(move |()| {
        if let Some(last) = undoable.get_untracked() {
            applied.update(|applied| drop(applied.pop()));
            on_config.run(last.before);
        }
    });
    let apply_plan = Callback::new(move |()| {
        if let Some((title, config)) = search.with_untracked(|search| planned(search.as_ref()?)) {
            apply(title, config);
        }
    });
    let apply_lever = Callback::new(move |known: Arc<Effected>| {
        apply(tr(&known.pulled.title), known.pulled.config.clone());
        focus_later("#undo");
    });
    let ranked = Memo::new(move |_| levers.with(|levers| ranked(levers)));
    let is_known = Memo::new(move |_| levers.with(|levers| all_known(levers, current.get())));
    let is_waiting = move || current.get().is_none();
    let undo_button = move |last: Applied| {
        view! {
            <p class="helps-applied">
                <span>{words::applied(&last.title)}</span>
                <Leaving
                    id="undo"
                    class="button"
                    label=tr("Undo")
                    next="#helps-title"
                    on_press=undo
                />
            </p>
        }
    };
    let useless = move || {
        let useless = ranked.with(|ranked| ranked.useless.join("; "));
        (is_known.get() && !useless.is_empty()).then(|| {
            let said = fill("No saving here from: {list}.", &[("list", &useless)]);
            view! { <p class="helps-useless">{said}</p> }
        })
    };
    let row = move |at: usize| {
        let lever =
            Memo::new(move |_| levers.with(|levers| Known::of(levers.get(at), current.get())));
        view! { <Lever lever on_apply=apply_lever /> }
    };
    // Spoken by those who do not see it: what was done, and what was found.
    let said = move || {
        let done = undoable.get().map(|last| words::applied(&last.title));
        let found = search.with(|search| words::outcome(search.as_ref()?, report.get().as_ref()?));
        done.or(found)
    };
    view! {
        <section class="panel helps" aria-labelledby="helps-title">
            <div class="panel-head">
                <h2 class="panel-title" id="helps-title">{tr("What would help")}</h2>
                <p class="panel-note" class:waiting-text=is_waiting>
                    {move || report.get().map(|report| note(&report))}
                </p>
            </div>
            {move || undoable.get().map(undo_button)}
            <FitSearch report current search on_search on_apply=apply_plan />
            <ol class="helps-rows">
                <For
                    each=move || ranked.with(|ranked| ranked.saving.clone())
                    key=|&at| at
                    children=row
                />
            </ol>
            <details class="helps-little" hidden=move || ranked.with(|ranked| ranked.little.is_empty())>
                <summary>
                    {move || {
                        let count = ranked.with(|ranked| ranked.little.len().to_string());
                        let count = if is_known.get() { count } else { "…".to_owned() };
                        fill("{n} more save less than 5 % each", &[("n", &count)])
                    }}
                </summary>
                <ol class="helps-rows">
                    <For
                        each=move || ranked.with(|ranked| ranked.little.clone())
                        key=|&at| at
                        children=row
                    />
                </ol>
            </details>
            {useless}
        </section>
        <p class="hidden-text" role="status">
            {said}
        </p>
    }
}

/// What a plan is called, and the settings that it leads to.
fn planned(search: &SearchState) -> Option<(String, Config)> {
    let (SearchOutcome::Found(plan) | SearchOutcome::Nothing(plan)) = search.outcome.as_ref()?;
    let last = plan.steps.last()?;
    let titles: Vec<_> = plan.steps.iter().map(|step| tr(&step.title)).collect();
    Some((titles.join("; "), last.config.clone()))
}

fn note(report: &Report) -> String {
    let device = &report.verdict;
    fill(
        "Each change simulated on {device} (now {need})",
        &[("device", &device.name), ("need", &device.need)],
    )
}

/// COUNT: suggestions that save enough to be shown at once; nothing until all are known.
pub(super) fn worthwhile(
    levers: RwSignal<Vec<state::Lever>>,
    current: Option<u64>,
) -> Option<usize> {
    levers.with(|levers| all_known(levers, current).then(|| ranked(levers).saving.len()))
}

/// Whether the outcome of every suggestion is known.
fn all_known(levers: &[state::Lever], current: Option<u64>) -> bool {
    levers.iter().all(|known| known.as_ref().is_some_and(|known| known.at(current).is_some()))
}

/// Per cent of the need that a suggestion saves at least, or it is folded away.
const WORTHWHILE: u64 = 5;

/// Levers by what they save. One whose outcome is on its way keeps its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranked {
    /// Positions of those that save something, the most first.
    saving: Vec<usize>,
    /// Positions of those that save a little.
    little: Vec<usize>,
    /// Titles of the others.
    useless: Vec<String>,
}

fn ranked(levers: &[state::Lever]) -> Ranked {
    let (mut saving, mut little, mut useless) = (Vec::new(), Vec::new(), Vec::new());
    for (at, lever) in levers.iter().enumerate() {
        let Some(lever) = lever.as_ref().and_then(|known| known.last().as_ref()) else { continue };
        match lever.before.0.saturating_sub(lever.pulled.outcome.verdict.need.0) {
            0 => useless.push(tr(&lever.pulled.title)),
            saved if Bytes(saved).parts_of(lever.before, 100) < WORTHWHILE => {
                little.push((saved, at));
            }
            saved => saving.push((saved, at)),
        }
    }
    let order = |mut found: Vec<(u64, usize)>| -> Vec<usize> {
        found.order_by_key(|&(saved, _)| Reverse(saved));
        found.into_iter().map(|(_, at)| at).collect()
    };
    Ranked { saving: order(saving), little: order(little), useless }
}

/// A lever as far as it is known, and whether its outcome is of the settings as they are.
#[derive(Clone, Debug)]
struct Known(Option<Arc<Effected>>, bool);

impl Known {
    fn of(lever: Option<&state::Lever>, current: Option<u64>) -> Self {
        let known = lever.and_then(Option::as_ref);
        let is_current = known.is_some_and(|known| known.at(current).is_some());
        Self(known.and_then(|known| known.last().clone()), is_current)
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same && self.1 == other.1
    }
}

/// One lever: what it saves, what it costs, and its code.
#[component]
fn Lever(
    /// What it leads to.
    lever: Memo<Known>,
    /// It is to be applied.
    on_apply: Callback<Arc<Effected>>,
) -> impl IntoView {
    let inside = move |known: Arc<Effected>, is_current: bool| {
        let Effected { before, pulled, slower } = &*known;
        let (outcome, title) = (&pulled.outcome, tr(&pulled.title));
        let after = &outcome.verdict;
        let cost = if is_current {
            [&words::cost(pulled.cost, *slower), "; ", &words::moves_to(outcome)].concat()
        } else {
            "…".to_owned()
        };
        let saved = if is_current {
            (format::exact(*before - after.need), format::difference(after.need, *before))
        } else {
            (String::new(), "…".to_owned())
        };
        let needs = if is_current {
            Either::Left(view! {
                {size(after.need)}
                <span class=verdict_class(after.verdict)>{words::verdict(after.verdict)}</span>
            })
        } else {
            Either::Right("…")
        };
        let wanted = known.clone();
        view! {
            <span class="lever-saved" title=saved.0>{saved.1}</span>
            <div class="lever-what">
                <p>
                    <strong>{title.clone()}</strong>
                </p>
                <p class="hint">{cost}</p>
                <Code
                    id=["code-", &pulled.id].concat()
                    summary=tr("Code")
                    code=pulled.code.clone()
                />
            </div>
            <span class="lever-after">{needs}</span>
            <button
                type="button"
                class="button lever-apply"
                id=["apply-", &pulled.id].concat()
                aria-disabled=(!is_current).then_some("true")
                on:click=move |_| {
                    // An outcome of other settings would bring those back.
                    if is_current {
                        on_apply.run(wanted.clone());
                    }
                }
            >
                {tr("Apply")}
                <span class="hidden-text">": " {title}</span>
            </button>
        }
    };
    view! {
        <li class="lever">
            {move || {
                let Known(known, is_current) = lever.get();
                known.map(|known| inside(known, is_current))
            }}
        </li>
    }
}
