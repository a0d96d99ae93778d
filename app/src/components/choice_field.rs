//! One setting of several names.

use highwater_core::Config;
use highwater_core::config::Choice;
use leptos::prelude::*;

use crate::language::tr;

/// The settings, and the way to change them.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// The settings.
    pub(crate) config: Signal<Config>,
    /// Others are wanted.
    pub(crate) on_config: Callback<Config>,
}

/// One setting: what it is, and the way to change it.
pub(crate) struct Bound<T: Send + Sync + 'static> {
    /// What it is.
    pub(crate) value: Signal<T>,
    /// Another is wanted.
    pub(crate) on_value: Callback<T>,
}

impl<T: Send + Sync + 'static> Clone for Bound<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Send + Sync + 'static> Copy for Bound<T> {}

impl Form {
    /// Asks for the settings with something changed.
    pub(crate) fn change(self, edit: impl FnOnce(&mut Config)) {
        let mut wanted = self.config.get_untracked();
        edit(&mut wanted);
        self.on_config.run(wanted);
    }

    /// One setting, told apart from the others. Functions and not closures, so that there is one of
    /// this for each type and not for each setting.
    pub(crate) fn bound<T: PartialEq + Send + Sync + 'static>(
        self,
        get: fn(&Config) -> T,
        set: fn(&mut Config, T),
    ) -> Bound<T> {
        Bound {
            value: Memo::new(move |_| self.config.with(get)).into(),
            on_value: Callback::new(move |value| self.change(|config| set(config, value))),
        }
    }
}

/// One field of the settings, bound.
macro_rules! bound {
    ($form:expr, $field:ident) => {
        $form.bound(|config| config.$field, |config, value| config.$field = value)
    };
}
pub(super) use bound;

/// A label, the choices, and what the chosen one means.
#[component]
pub(crate) fn ChoiceField<T: Choice>(
    /// Id of the control.
    id: &'static str,
    /// Its name.
    label: &'static str,
    /// What is chosen.
    of: Bound<T>,
) -> impl IntoView {
    let Bound { value, on_value } = of;
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
