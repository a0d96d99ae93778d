//! One setting of several names.

use highwater_core::Config;
use highwater_core::config::Choice;
use leptos::prelude::*;

use crate::language::tr;

/// A setting, told apart from the others.
pub(crate) fn chosen<T: PartialEq + Send + Sync + 'static>(
    config: Signal<Config>,
    of: impl Fn(&Config) -> T + Send + Sync + 'static,
) -> Signal<T> {
    Memo::new(move |_| config.with(&of)).into()
}

/// Asks for the settings with one of them changed.
pub(crate) fn editor(
    config: Signal<Config>,
    on_config: Callback<Config>,
) -> impl Fn(&dyn Fn(&mut Config)) + Copy + Send + Sync + 'static {
    move |edit| {
        let mut wanted = config.get_untracked();
        edit(&mut wanted);
        on_config.run(wanted);
    }
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
    let choices: Vec<_> = T::ALL.iter().map(|choice| (choice.name(), choice.label())).collect();
    let name = Signal::derive(move || value.get().name());
    let about = Signal::derive(move || value.get().about());
    let on_name = Callback::new(move |name: String| {
        if let Ok(choice) = name.parse() {
            on_value.run(choice);
        }
    });
    view! { <NamedChoice id label choices name about on_name /> }
}

/// The same for names, so that there is one of it and not one for each type.
#[component]
pub(crate) fn NamedChoice(
    /// Id of the control.
    id: &'static str,
    /// Its name.
    label: &'static str,
    /// Names in the configuration, and what people call them.
    choices: Vec<(&'static str, &'static str)>,
    /// What is chosen.
    #[prop(into)]
    name: Signal<&'static str>,
    /// What that means.
    #[prop(into)]
    about: Signal<&'static str>,
    /// Another was chosen.
    on_name: Callback<String>,
) -> impl IntoView {
    let options = choices.into_iter().map(|(choice, label)| {
        view! {
            <option value=choice selected=move || name.get() == choice>
                {tr(label)}
            </option>
        }
    });
    view! {
        <div class="field">
            <label for=id>{tr(label)}</label>
            <select id=id on:change:target=move |event| on_name.run(event.target().value())>
                {options.collect_view()}
            </select>
            <p class="hint">{move || tr(about.get())}</p>
        </div>
    }
}
