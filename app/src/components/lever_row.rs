//! One change, what it saves and what it costs.

use highwater_core::Config;
use leptos::prelude::*;

use super::code_block::CodeBlock;
use super::gpu_table::verdict_class;
use crate::format;
use crate::language::tr;
use crate::state::{Effected, LeverRow};
use crate::text::levers as text;

/// One lever and its outcome.
#[component]
pub(crate) fn LeverRowView(
    /// The lever.
    row: LeverRow,
    /// The request that fresh outcomes belong to.
    generation: Signal<u64>,
    /// It is wanted: its title and the settings that it leads to.
    on_apply: Callback<(String, Config)>,
) -> impl IntoView {
    let stale = move || {
        row.pulled.with(|known| known.as_ref().is_none_or(|k| k.generation != generation.get()))
    };
    let apply = move |_| {
        if let Some(known) = row.pulled.get_untracked() {
            on_apply.run((tr(&known.pulled.title), known.pulled.config.clone()));
        }
    };
    view! {
        <li class="lever" class:lever-stale=stale>
            {move || row.pulled.get().map(|known| cells(&known))}
            <button type="button" class="button lever-apply" on:click=apply>
                {tr("Apply")}
                <span class="hidden-text">
                    ": "
                    {move || row.pulled.with(|known| Some(tr(&known.as_ref()?.pulled.title)))}
                </span>
            </button>
        </li>
    }
}

fn cells(known: &Effected) -> AnyView {
    let (outcome, before) = (&known.pulled.outcome, known.before);
    let after = &outcome.verdict;
    view! {
        <span class="lever-saved" title=format::exact(before - after.need)>
            {format::difference(after.need, before)}
        </span>
        <div class="lever-what">
            <p>
                <strong>{tr(&known.pulled.title)}</strong>
            </p>
            <p class="hint">{text::cost(known.pulled.cost)} "; " {text::moves_to(outcome)}</p>
            <details>
                <summary>{tr("Code")}</summary>
                <CodeBlock code=known.pulled.code.clone() />
            </details>
        </div>
        <span class="lever-after">
            <span class="number">{after.need.to_string()}</span>
            <span class=verdict_class(after.verdict)>{text::verdict(after.verdict)}</span>
        </span>
    }
    .into_any()
}
