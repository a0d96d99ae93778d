//! The settings at the top of the answer.

use std::num::NonZeroU64;
use std::sync::Arc;

use highwater_core::infer::SEQUENCE;
use highwater_core::{Config, Report};
use leptos::prelude::*;

use super::dimension_field::DimensionField;
use super::fields::{Fields, Form};
use super::method::MethodRow;
use crate::model::protocol::OpenDim;
use crate::model::state::{ConfigProblem, DeviceRow};
use crate::words;
use crate::words::language::{fill, tr};

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
    problem: Signal<Option<ConfigProblem>>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let explain = move |problem: ConfigProblem| {
        let why = words::stated(&problem.fault.reason);
        let english = if problem.taken_back {
            "{why} The setting was reset for this model."
        } else {
            "{why} The page still shows the settings before."
        };
        fill(english, &[("why", &why)])
    };
    let form = Form { config, devices, report, problem, on_config };
    view! {
        <form class="settings" aria-label=tr("Settings") on:submit=|event| event.prevent_default()>
            <MethodRow form />
            <For each=move || dims.get() key=|dim| dim.name.clone() let:dim>
                {
                    let (name, written, default) = (dim.name.clone(), dim.name.clone(), dim.default);
                    let value = Signal::derive(move || {
                        config.with(|config| config.dims.get(&name).copied().unwrap_or(default))
                    });
                    let on_value = Callback::new(move |size: u64| {
                        let mut config = config.get_untracked();
                        config.dims.insert(written.clone(), size);
                        on_config.run(config);
                    });
                    let (is_batch, name) = (dim.batch, dim.name.clone());
                    let label = Signal::derive(move || {
                        let generates = config.with(|config| config.workload.generates());
                        match (generates, is_batch, name.as_str()) {
                            (true, true, _) => tr("texts"),
                            (true, false, SEQUENCE) => tr("prompt"),
                            _ => name.clone(),
                        }
                    });
                    view! { <DimensionField dim label value on_value /> }
                }
            </For>
            <Show when=move || config.with(|config| config.workload.generates())>
                <NewTokens config on_config />
            </Show>
            <p class="problem" role="alert">
                {move || problem.get().map(explain)}
            </p>
            <Fields form />
        </form>
    }
}

/// How many tokens are written behind each prompt.
#[component]
fn NewTokens(
    /// The settings.
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let dim = OpenDim {
        name: tr("new tokens"),
        default: Config::default().new_tokens.get(),
        batch: false,
        inputs: Vec::new(),
    };
    let value = Signal::derive(move || config.with(|config| config.new_tokens.get()));
    let on_value = Callback::new(move |tokens: u64| {
        if let Some(new_tokens) = NonZeroU64::new(tokens) {
            on_config.run(Config { new_tokens, ..config.get_untracked() });
        }
    });
    let label = dim.name.clone();
    view! { <DimensionField dim label value on_value /> }
}
