//! What the user chooses.

use std::sync::Arc;

use highwater_core::{Config, Report};
use leptos::prelude::*;

use super::choice_field::{ChoiceField, Form, bound};
use super::dimension_field::DimensionField;
use super::training_details::TrainingDetails;
use super::your_card::YourCard;
use crate::estimator::OpenDim;
use crate::language::{fill, tr};
use crate::state::DeviceRow;
use crate::text;

/// The column of settings: dimensions, precision, optimizer, device, and the details of training.
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
    /// The report, for the figures of the table.
    report: Signal<Option<Arc<Report>>>,
    /// Why these settings have no answer.
    #[prop(into)]
    problem: Signal<Option<String>>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let form = Form { config, on_config };
    view! {
        <form class="settings" aria-label=tr("Settings") on:submit=|event| event.prevent_default()>
            <For each=move || dims.get() key=|dim| dim.name.clone() let:dim>
                {
                    let (name, written, default) = (dim.name.clone(), dim.name.clone(), dim.default);
                    let value = Signal::derive(move || {
                        config.with(|config| config.dims.get(&name).copied().unwrap_or(default))
                    });
                    let on_value = Callback::new(move |size: u64| {
                        form.change(|config| {
                            config.dims.insert(written.clone(), size);
                        });
                    });
                    view! { <DimensionField dim value on_value /> }
                }
            </For>
            <div class="problem-place" role="alert">
                {move || {
                    problem
                        .get()
                        .map(|reason| {
                            let said = fill(
                                "{why} The page still shows the settings before.",
                                &[("why", &text::sentence(&reason))],
                            );
                            view! { <p class="problem">{said}</p> }
                        })
                }}
            </div>
            <ChoiceField
                id="precision"
                label="precision"
                of=bound!(form, precision)
            />
            <ChoiceField
                id="optimizer"
                label="optimizer"
                of=bound!(form, optimizer)
            />
            <div class="field">
                <label for="device">{tr("device")}</label>
                <select
                    id="device"
                    on:change:target=move |event| {
                        let id = event.target().value();
                        form.change(|config| config.choose_device(&id));
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
                <p class="hint">{tr("its kernels and capacity are assumed")}</p>
            </div>
            <YourCard form report />
            <TrainingDetails form />
        </form>
    }
}
