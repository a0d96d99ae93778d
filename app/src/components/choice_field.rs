//! One setting of several names.

use highwater_core::Config;
use highwater_core::config::Choice;
use leptos::prelude::*;

/// A setting, told apart from the others.
pub(crate) fn chosen<T: PartialEq + Send + Sync + 'static>(
    config: Signal<Config>,
    of: impl Fn(&Config) -> T + Send + Sync + 'static,
) -> Signal<T> {
    Memo::new(move |_| config.with(&of)).into()
}

/// A label, the choices, and what the chosen one means.
#[component]
pub(crate) fn ChoiceField<T: Choice>(
    /// Id of the control.
    id: &'static str,
    /// Its name.
    label: &'static str,
    /// What is chosen.
    value: Signal<T>,
    /// Another was chosen.
    on_value: Callback<T>,
) -> impl IntoView {
    let options = T::ALL.iter().map(|&choice| {
        view! {
            <option value=choice.name() selected=move || value.get() == choice>
                {choice.label()}
            </option>
        }
    });
    view! {
        <div class="field">
            <label for=id>{label}</label>
            <select
                id=id
                on:change:target=move |event| {
                    if let Ok(choice) = event.target().value().parse() {
                        on_value.run(choice);
                    }
                }
            >
                {options.collect_view()}
            </select>
            <p class="hint">{move || value.get().about()}</p>
        </div>
    }
}
