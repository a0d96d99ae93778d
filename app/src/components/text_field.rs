//! One setting that is typed.

use leptos::prelude::*;

use super::choice_field::Bound;
use crate::language::tr;

/// A label, a line of text, and what it means.
#[component]
pub(crate) fn TextField(
    /// Id of the control.
    id: &'static str,
    /// Its name.
    label: &'static str,
    /// What one might write, or what holds where nothing is written.
    #[prop(into)]
    placeholder: Signal<String>,
    /// What it means.
    hint: &'static str,
    /// The text.
    of: Bound<String>,
    /// What is wrong with it.
    #[prop(optional, into)]
    problem: Signal<Option<String>>,
) -> impl IntoView {
    let Bound { value, on_value } = of;
    let is_wrong = move || problem.with(Option::is_some);
    view! {
        <div class="field">
            <label for=id>{tr(label)}</label>
            <input
                id=id
                type="text"
                spellcheck="false"
                autocapitalize="off"
                autocomplete="off"
                placeholder=placeholder
                aria-invalid=move || is_wrong().to_string()
                prop:value=value
                on:change:target=move |event| on_value.run(event.target().value())
            />
            <p class="hint" class:hint-wrong=is_wrong>
                {move || problem.get().unwrap_or_else(|| tr(hint))}
            </p>
        </div>
    }
}
