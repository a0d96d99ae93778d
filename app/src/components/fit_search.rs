//! The search for the least that makes a run fit on its device.

use std::sync::Arc;

use highwater_core::levers::{Plan, Pulled};
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;

use super::code_block::CodeBlock;
use super::gpu_table::verdict_class;
use crate::format;
use crate::language::tr;
use crate::protocol::SearchOutcome;
use crate::state::SearchState;
use crate::text::levers as text;

/// A button where the device is too small, then progress, then a plan.
#[component]
pub(crate) fn FitSearch(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// How far the search has come.
    search: Signal<Option<SearchState>>,
    /// A search is wanted, or none any more.
    on_search: Callback<bool>,
    /// A plan is wanted: what it is called and the settings that it leads to.
    on_apply: Callback<(String, Config)>,
) -> impl IntoView {
    let fits = Memo::new(move |_| {
        report.with(|report| report.as_ref().is_none_or(|r| r.verdict.verdict.survives()))
    });
    let name = move || report.with(|r| r.as_ref().map(|r| r.verdict.name.clone()));
    let need = move || report.with(|r| r.as_ref().map_or(Bytes::ZERO, |r| r.verdict.need));
    let button = move |english: &'static str, start: bool| {
        view! {
            <button type="button" class="button" class:button-accent=start on:click=move |_| on_search.run(start)>
                {tr(english)}
            </button>
        }
    };
    let content = move || match search.get() {
        _ if fits.get() => {
            let said = text::found(0, true, &name().unwrap_or_default());
            view! { <p class="hint">{said}</p> }.into_any()
        }
        None => button("Find the least that makes it fit", true).into_any(),
        Some(search @ SearchState { outcome: None, .. }) => view! {
            <div class="fit-search-going">
                <p>{text::searching(&search)}</p>
                {button("Stop", false)}
            </div>
        }
        .into_any(),
        Some(SearchState { outcome: Some(outcome), .. }) => {
            let (plan, fits) = match outcome {
                SearchOutcome::Found(plan) => (plan, true),
                SearchOutcome::Nothing(plan) => (plan, false),
            };
            plan_view(&plan, fits, need(), &name().unwrap_or_default(), on_apply)
        }
    };
    view! { <div class="fit-search">{content}</div> }
}

fn plan_view(
    plan: &Plan,
    fits: bool,
    mut need: Bytes,
    device: &str,
    on_apply: Callback<(String, Config)>,
) -> AnyView {
    let count = plan.steps.len();
    let mut steps = Vec::new();
    for pulled in &plan.steps {
        steps.push(step(pulled, need));
        need = pulled.outcome.verdict.need;
    }
    let last = plan.steps.last().map(|last| (last.title.clone(), last.config.clone()));
    let apply = last.map(|(title, config)| {
        let (title, label) = match count {
            1 => (tr(&title), tr("Apply it")),
            _ => (text::changes(count), tr("Apply all")),
        };
        let wanted = (title, config);
        view! {
            <button
                type="button"
                class="button button-accent"
                on:click=move |_| on_apply.run(wanted.clone())
            >
                {label}
            </button>
        }
    });
    view! {
        <div class="fit-plan" role="status">
            <p>{text::found(count, fits, device)}</p>
            <ol>{steps}</ol>
            {apply}
        </div>
    }
    .into_any()
}

fn step(pulled: &Pulled, before: Bytes) -> AnyView {
    let after = &pulled.outcome.verdict;
    view! {
        <li>
            <strong>{tr(&pulled.title)}</strong>
            " "
            {format::difference(after.need, before)}
            " → "
            {after.need.to_string()}
            ", "
            <span class=verdict_class(after.verdict)>{text::verdict(after.verdict)}</span>
            <p class="hint">{text::cost(pulled.cost)}</p>
            <details>
                <summary>{tr("Code")}</summary>
                <CodeBlock code=pulled.code.clone() />
            </details>
        </li>
    }
    .into_any()
}
