//! The row above the batch: whether all weights are trained, or adapters.

use highwater_core::config::{Group, Method};
use leptos::prelude::*;

use super::fields::{Form, fields};
use crate::words::language::tr;

/// Full, LoRA or QLoRA, and what each of them leaves to choose.
#[component]
pub(crate) fn MethodRow(
    /// What the fields read and ask for.
    form: Form,
) -> impl IntoView {
    let chosen = Memo::new(move |_| form.config.with(Method::of));
    let choose = move |method: Method| {
        let mut config = form.config.get_untracked();
        method.apply(&mut config);
        form.on_config.run(config);
    };
    let choice = move |method: Method| {
        view! {
            <label class="method-choice">
                <input
                    type="radio"
                    name="method"
                    id=["method-", method.name()].concat()
                    prop:checked=move || chosen.get() == method
                    on:change=move |_| choose(method)
                />
                <span>{tr(method.name())}</span>
            </label>
        }
    };
    view! {
        <fieldset class="method">
            <legend class="hidden-text">{tr("What is trained")}</legend>
            <div class="method-choices">{Method::ALL.map(choice).collect_view()}</div>
            <p class="hint" role="status">
                {move || tr(chosen.get().about())}
            </p>
            <div class="method-fields" hidden=move || chosen.get() == Method::Full>
                {fields(form, Group::Method)}
            </div>
        </fieldset>
    }
}
