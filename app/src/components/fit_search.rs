//! The search for the smallest change that fits: a button, then progress, then a plan.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::levers::Plan;
use highwater_core::report::Verdict;
use leptos::prelude::*;

use super::gpu_table::verdict_class;
use super::parts::{Code, Leaving};
use crate::model::protocol::SearchOutcome;
use crate::model::state::SearchState;
use crate::words::format;
use crate::words::language::tr;
use crate::words::levers as words;

/// What there is of it.
#[component]
pub(crate) fn FitSearch(
    /// The report that it begins at.
    report: Signal<Option<Arc<Report>>>,
    /// The request whose answer counts.
    current: Signal<Option<u64>>,
    /// How far it has come.
    search: RwSignal<Option<SearchState>>,
    /// It is wanted, or not any more.
    on_search: Callback<bool>,
    /// Its plan is to be applied.
    on_apply: Callback<()>,
) -> impl IntoView {
    let inside = move |report: Arc<Report>| match search.get() {
        _ if report.verdict.verdict.survives() => {
            view! { <p class="hint">{words::found(0, true, &report.verdict)}</p> }.into_any()
        }
        _ if report.verdict.verdict == Verdict::NotKnown => {
            view! { <p class="hint">{words::not_known(&report.verdict.name)}</p> }.into_any()
        }
        None => view! {
            <Leaving
                id="search"
                class="button button-accent"
                label=tr("Find the smallest change that fits")
                next="#helps-title"
                on_press=Callback::new(move |()| on_search.run(true))
            />
        }
        .into_any(),
        Some(SearchState { outcome: Some(SearchOutcome::Found(found)), .. }) => {
            plan_view(&report, &found, true, on_apply).into_any()
        }
        Some(SearchState { outcome: Some(SearchOutcome::Nothing(near)), .. }) => {
            plan_view(&report, &near, false, on_apply).into_any()
        }
        Some(search) => view! {
            <p>{words::searching(&search)}</p>
            <Leaving
                id="stop"
                class="button"
                label=tr("Stop")
                next="#helps-title"
                on_press=Callback::new(move |()| on_search.run(false))
            />
        }
        .into_any(),
    };
    let is_waiting = move || current.get().is_none();
    view! {
        <div class="fit-search" class:waiting=is_waiting aria-busy=move || is_waiting().to_string()>
            {move || report.get().map(inside)}
        </div>
    }
}

fn plan_view(
    report: &Report,
    plan: &Plan,
    fits: bool,
    on_apply: Callback<()>,
) -> impl IntoView + use<> {
    let count = plan.steps.len();
    let needs = plan.steps.iter().map(|pulled| pulled.outcome.verdict.need);
    let before = [report.verdict.need].into_iter().chain(needs);
    let steps = plan.steps.iter().zip(before).enumerate().map(|(at, (pulled, before))| {
        let after = &pulled.outcome.verdict;
        view! {
            <li>
                <strong>{tr(&pulled.title)}</strong>
                " "
                {format::difference(after.need, before)}
                " → "
                {after.need.to_string()}
                ", "
                <span class=verdict_class(after.verdict)>{words::verdict(after.verdict)}</span>
                <p class="hint">{words::cost(pulled.cost, None)}</p>
                <Code
                    id=["plan-", &at.to_string()].concat()
                    summary=tr("Code")
                    code=pulled.code.clone()
                />
            </li>
        }
    });
    let apply = (count > 0).then(|| {
        let least = tr(
            "The search prefers changes that cost the least speed and effort. A single change below may save more and cost more.",
        );
        view! {
            <Leaving
                id="apply-plan"
                class="button button-accent"
                label=tr(if count == 1 { "Apply it" } else { "Apply all" })
                next="#undo"
                on_press=on_apply
            />
            <p class="hint">{least}</p>
        }
    });
    view! {
        <div class="fit-plan">
            <p>{words::found(count, fits, &report.verdict)}</p>
            <ol>{steps.collect_view()}</ol>
            {apply}
        </div>
    }
}
