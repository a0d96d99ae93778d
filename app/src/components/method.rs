//! The row above the batch: what runs, and whether all weights were trained, or adapters.

use highwater_core::Config;
use highwater_core::config::{Group, Method, Workload};
use leptos::prelude::*;

use super::fields::{Form, fields};
use crate::words::language::tr;

/// Training, inference or generation; and of training full, LoRA or QLoRA, with what each leaves to choose.
#[component]
pub(crate) fn MethodRow(
    /// What the fields read and ask for.
    form: Form,
) -> impl IntoView {
    let workload = Memo::new(move |_| form.config.with(|config| config.workload));
    let method = Memo::new(move |_| form.config.with(Method::of));
    let trains = move || workload.get().trains();
    // Adapters stay in sight where nothing is trained: they run, too.
    let has_method = move || trains() || method.get() != Method::Full;
    let run = move |wanted: Workload| change(form, move |config| config.workload = wanted);
    let train = move |wanted: Method| change(form, move |config| wanted.apply(config));
    let workloads = Workload::ALL.iter().map(|&one| {
        let chosen = Signal::derive(move || workload.get() == one);
        choice("workload", one.name(), one.verb(), chosen, move || run(one))
    });
    let methods = Method::ALL.map(|one| {
        let chosen = Signal::derive(move || method.get() == one);
        choice("method", one.name(), one.name(), chosen, move || train(one))
    });
    let about = move || if trains() { method.get().about() } else { workload.get().about() };
    view! {
        <div class="method">
            <fieldset class="method-choices">
                <legend class="hidden-text">{tr("What runs")}</legend>
                {workloads.collect_view()}
            </fieldset>
            <fieldset class="method-choices" hidden=move || !has_method()>
                <legend class="hidden-text">{tr("What is trained")}</legend>
                {methods.into_iter().collect_view()}
            </fieldset>
            <p class="hint" role="status">
                {move || tr(about())}
            </p>
            <div class="method-fields" hidden=move || method.get() == Method::Full>
                {fields(form, Group::Method)}
            </div>
        </div>
    }
}

/// Asks for other settings.
fn change(form: Form, by: impl FnOnce(&mut Config)) {
    let mut config = form.config.get_untracked();
    by(&mut config);
    form.on_config.run(config);
}

/// One of several, of which one is chosen.
fn choice(
    group: &'static str,
    name: &'static str,
    label: &'static str,
    chosen: Signal<bool>,
    choose: impl Fn() + 'static,
) -> impl IntoView {
    view! {
        <label class="method-choice">
            <input
                type="radio"
                name=group
                id=[group, "-", name].concat()
                prop:checked=chosen
                on:change=move |_| choose()
            />
            <span>{tr(label)}</span>
        </label>
    }
}
