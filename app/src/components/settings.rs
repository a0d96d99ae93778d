//! What the user chooses.

use std::sync::Arc;

use highwater_core::{Config, Optimizer, Report};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use super::dimension_field::DimensionField;
use crate::estimator::OpenDim;
use crate::format;
use crate::state::DeviceRow;
use crate::text;

/// The column of settings: dimensions, optimizer, device, and what the model is.
#[component]
pub(crate) fn Settings(
    /// Dimensions that the model leaves open.
    dims: Signal<Vec<OpenDim>>,
    /// Devices to choose from.
    #[prop(into)]
    devices: Signal<Vec<DeviceRow>>,
    /// The settings.
    #[prop(into)]
    config: Signal<Config>,
    /// Why these settings have no answer.
    #[prop(into)]
    problem: Signal<Option<String>>,
    /// The report, for what the model is.
    report: Signal<Option<Arc<Report>>>,
    /// Milliseconds that the estimate took.
    #[prop(into)]
    millis: Signal<f64>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let change = move |edit: &dyn Fn(&mut Config)| {
        let mut wanted = config.get_untracked();
        edit(&mut wanted);
        on_config.run(wanted);
    };
    let chosen_optimizer = Memo::new(move |_| config.with(|config| config.optimizer));
    view! {
        <form class="settings" aria-label="Settings" on:submit=|event| event.prevent_default()>
            <For each=move || dims.get() key=|dim| dim.name.clone() let:dim>
                {
                    let (name, written, default) = (dim.name.clone(), dim.name.clone(), dim.default);
                    let value = Signal::derive(move || {
                        config.with(|config| config.dims.get(&name).copied().unwrap_or(default))
                    });
                    let on_value = Callback::new(move |size: u64| {
                        change(
                            &|config| {
                                config.dims.insert(written.clone(), size);
                            },
                        );
                    });
                    view! { <DimensionField dim value on_value /> }
                }
            </For>
            <div class="problem-place" role="alert">
                {move || {
                    problem
                        .get()
                        .map(|reason| {
                            view! {
                                <p class="problem">
                                    {text::sentence(&reason)}
                                    " The page still shows the settings before."
                                </p>
                            }
                        })
                }}
            </div>
            <div class="field">
                <label for="optimizer">"optimizer"</label>
                <select
                    id="optimizer"
                    on:change:target=move |event| {
                        if let Ok(optimizer) = event.target().value().parse() {
                            change(&|config| config.optimizer = optimizer);
                        }
                    }
                >
                    {Optimizer::ALL
                        .map(|optimizer| {
                            view! {
                                <option
                                    value=optimizer.name()
                                    selected=move || chosen_optimizer.get() == optimizer
                                >
                                    {text::optimizer(optimizer)}
                                </option>
                            }
                        })
                        .collect_view()}
                </select>
                <p class="hint">{move || text::optimizer_cost(chosen_optimizer.get())}</p>
            </div>
            <div class="field">
                <label for="device">"device"</label>
                <select
                    id="device"
                    on:change:target=move |event| {
                        let id = event.target().value();
                        change(&|config| config.device.clone_from(&id));
                    }
                >
                    <For
                        each=move || devices.get()
                        key=|row| row.device.with_value(|device| device.id.clone())
                        let:row
                    >
                        {
                            let id = row.device.with_value(|device| device.id.clone());
                            let value = id.clone();
                            let selected = move || config.with(|config| config.device == id);
                            view! {
                                <option value=value selected=selected>
                                    {row.device.with_value(|device| device.name.clone())}
                                </option>
                            }
                        }
                    </For>
                </select>
                <p class="hint">"Its kernels and its capacity are assumed"</p>
            </div>
            {move || report.get().map(|report| view! { <ModelFacts report millis=millis.get() /> })}
        </form>
    }
}

/// What the model is, before any training.
#[component]
fn ModelFacts(
    /// The report.
    report: Arc<Report>,
    /// Milliseconds that the estimate took.
    millis: f64,
) -> impl IntoView {
    let model = &report.model;
    let producer = model.producer.clone();
    let has_producer = !producer.is_empty();
    view! {
        <dl class="facts">
            <dt>"parameters"</dt>
            <dd title=format::grouped(model.parameters)>{format::short_count(model.parameters)}</dd>
            <dt>"their size"</dt>
            <dd>
                <ByteSize bytes=model.parameter_bytes />
            </dd>
            <dt>"operators"</dt>
            <dd>{format::grouped(model.operators as u64)}</dd>
            {has_producer.then(|| view! {
                <dt>"written by"</dt>
                <dd>{producer}</dd>
            })}
            <dt>"estimated in"</dt>
            <dd>{format!("{millis:.0}\u{a0}ms")}</dd>
        </dl>
    }
}
