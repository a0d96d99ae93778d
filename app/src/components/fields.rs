//! The form of settings: a field for each row of [`SETTINGS`], in its order. The kind of a setting
//! decides the control.

use std::sync::Arc;

use highwater_core::config::{Group, Kind, SETTINGS, Setting};
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;

use crate::model::state::{ConfigProblem, DeviceRow};
use crate::words;
use crate::words::language::{fill, tr};

/// What the fields read and ask for.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// The settings.
    pub(crate) config: Signal<Config>,
    /// Devices to choose from.
    pub(crate) devices: Signal<Vec<DeviceRow>>,
    /// The report, for the figures that hold where none is typed.
    pub(crate) report: Signal<Option<Arc<Report>>>,
    /// Why these settings have no answer.
    pub(crate) problem: Signal<Option<ConfigProblem>>,
    /// Others are wanted.
    pub(crate) on_config: Callback<Config>,
}

/// The fields, the rarer ones folded away.
#[component]
pub(crate) fn Fields(
    /// What they read and ask for.
    form: Form,
) -> impl IntoView {
    let card = changed(form, Group::Card);
    let ranks = changed(form, Group::Ranks);
    let adapters = changed(form, Group::Adapters);
    let training = changed(form, Group::Training);
    let reset = move |_| {
        let mut config = form.config.get_untracked();
        of(Group::Card).for_each(|setting| setting.copy(&Config::default(), &mut config));
        form.on_config.run(config);
    };
    view! {
        <section class="settings-fields" aria-labelledby="settings-title">
            <h2 class="hidden-text" id="settings-title">
                {tr("Settings")}
            </h2>
            {fields(form, Group::Main)}
            <details class="more-settings">
            <summary>
                {move || match card.get() + ranks.get() + adapters.get() + training.get() {
                    0 => tr("More settings"),
                    count => fill("More settings ({n} changed)", &[("n", &count)]),
                }}
            </summary>
            <div class="more-settings-groups">
            <details class="training-details your-card" open>
                <summary>
                    {move || match card.get() {
                        0 => tr("Your GPU"),
                        count => fill("Your GPU ({n} set)", &[("n", &count)]),
                    }}
                </summary>
                <div class="training-details-fields">{fields(form, Group::Card)}</div>
                <button
                    type="button"
                    class="link-button"
                    hidden=move || card.get() == 0
                    on:click=reset
                >
                    {tr("Restore the figures of the table")}
                </button>
            </details>
            <details class="training-details several-gpus" open>
                <summary>
                    {move || match ranks.get() {
                        0 => tr("Several GPUs"),
                        count => fill("Several GPUs ({n} changed)", &[("n", &count)]),
                    }}
                </summary>
                <div class="training-details-fields">{fields(form, Group::Ranks)}</div>
            </details>
            <details class="training-details" open>
                <summary>
                    {move || match adapters.get() {
                        0 => tr("Details of adapters"),
                        count => fill("Details of adapters ({n} changed)", &[("n", &count)]),
                    }}
                </summary>
                <div class="training-details-fields">{fields(form, Group::Adapters)}</div>
            </details>
            <details class="training-details" open>
                <summary>
                    {move || match training.get() {
                        0 => tr("How it trains"),
                        count => fill("How it trains ({n} changed)", &[("n", &count)]),
                    }}
                </summary>
                <div class="training-details-fields">{fields(form, Group::Training)}</div>
            </details>
            </div>
            </details>
        </section>
    }
}

/// The settings of a group.
fn of(group: Group) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.group == group)
}

/// A field for each setting of a group.
pub(crate) fn fields(form: Form, group: Group) -> impl IntoView {
    of(group).map(|setting| view! { <Field setting form /> }).collect_view()
}

/// COUNT: settings of a group that are not as usual.
fn changed(form: Form, group: Group) -> Memo<usize> {
    Memo::new(move |_| {
        form.config.with(|config| of(group).filter(|setting| setting.is_changed(config)).count())
    })
}

/// One setting: what it is called, how it is chosen or typed, and what it means.
#[component]
fn Field(
    /// The setting.
    setting: &'static Setting,
    /// What the fields read and ask for.
    form: Form,
) -> impl IntoView {
    let id = setting.name;
    let value = Memo::new(move |_| form.config.with(|config| setting.typed(config)));
    let refused = RwSignal::new(None);
    // What was refused stays in its control until the setting changes.
    Effect::new(move |_| {
        value.track();
        refused.set(None);
    });
    let take = move |typed: &str| {
        let taken = read(setting, form, typed);
        refused.set(taken.as_ref().err().cloned());
        taken.is_ok()
    };
    let wrong = Memo::new(move |_| refused.get().or_else(|| blamed(setting, form)));
    let about =
        move || wrong.get().unwrap_or_else(|| value.with(|value| tr(meaning(setting, value))));
    let is_wrong = Signal::derive(move || wrong.with(Option::is_some));
    let is_idle =
        Memo::new(move |_| form.config.with(|config| !(setting.bears_on)(config.workload)));
    view! {
        <div class="field" class:switch=setting.kind == Kind::Flag hidden=is_idle>
            {control(setting, form, value, is_wrong, take)}
            <p class="hint" class:hint-wrong=is_wrong id=["about-", id].concat()>
                {about}
            </p>
        </div>
    }
}

/// The label and what it labels; `take` reads what was typed or chosen, and says whether it could.
fn control(
    setting: &'static Setting,
    form: Form,
    value: Memo<String>,
    wrong: Signal<bool>,
    take: impl Fn(&str) -> bool + 'static,
) -> AnyView {
    let id = setting.name;
    let label = tr(setting.label);
    let invalid = move || wrong.get().to_string();
    match setting.kind {
        Kind::Flag => view! {
            <label for=id>
                <input
                    type="checkbox"
                    id=id
                    aria-invalid=invalid
                    prop:checked=move || value.with(|value| value == "true")
                    on:change:target=move |event| {
                        take(&event.target().checked().to_string());
                    }
                />
                {label}
            </label>
        }
        .into_any(),
        Kind::Choice(_) | Kind::Suggestion(_) | Kind::Device => view! {
            <label for=id>{label}</label>
            <select
                id=id
                aria-invalid=invalid
                on:change:target=move |event| {
                    take(&event.target().value());
                }
            >
                {options(setting, form, value)}
            </select>
        }
        .into_any(),
        Kind::Count => view! {
            <label for=id>{label}</label>
            <input
                type="number"
                inputmode="numeric"
                min="1"
                step="1"
                id=id
                aria-invalid=invalid
                prop:value=value
                on:change:target=move |event| {
                    take(&event.target().value());
                    event.target().set_value(&value.get_untracked());
                }
            />
        }
        .into_any(),
        Kind::Size | Kind::Names | Kind::Text => view! {
            <label for=id>{label}</label>
            {(!setting.offers.is_empty()).then(|| offers(setting))}
            <input
                type="text"
                list=(!setting.offers.is_empty()).then(|| ["offers-", id].concat())
                spellcheck="false"
                autocapitalize="off"
                autocomplete="off"
                id=id
                aria-invalid=invalid
                placeholder=move || form.report.with(|report| usual(setting, report.as_deref()))
                prop:value=value
                on:change:target=move |event| {
                    if take(&event.target().value()) {
                        event.target().set_value(&value.get_untracked());
                    }
                }
            />
        }
        .into_any(),
    }
}

/// What may be typed among other things.
fn offers(setting: &'static Setting) -> impl IntoView {
    let option = |text: &&'static str| view! { <option value=*text></option> };
    view! {
        <datalist id=["offers-", setting.name].concat()>
            {setting.offers.iter().map(option).collect_view()}
        </datalist>
    }
}

/// What a setting can be chosen from.
fn options(setting: &'static Setting, form: Form, value: Memo<String>) -> impl IntoView {
    move || {
        let values = setting.kind.values().iter();
        let mut options: Vec<_> =
            values.map(|value| (value.name.to_owned(), tr(value.label))).collect();
        let chosen = value.get();
        match setting.kind {
            Kind::Device => form.devices.with(|rows| {
                options.extend(rows.iter().map(|row| {
                    row.device.with_value(|device| (device.id.clone(), device.name.clone()))
                }));
            }),
            Kind::Suggestion(values) if values.iter().all(|value| value.name != chosen) => {
                options.push((chosen.clone(), chosen.clone()));
            }
            _ => {}
        }
        let option = |(name, label): (String, String)| {
            let is_chosen = name == chosen;
            view! {
                <option value=name prop:selected=is_chosen>
                    {label}
                </option>
            }
        };
        options.into_iter().map(option).collect_view()
    }
}

/// Takes what was typed or chosen; what is wrong with it.
fn read(setting: &Setting, form: Form, typed: &str) -> Result<(), String> {
    let mut config = form.config.get_untracked();
    if setting.kind == Kind::Device {
        config.choose_device(typed);
    } else {
        setting.set(&mut config, typed).map_err(|error| match setting.kind {
            Kind::Count => {
                let stays = setting.typed(&config);
                fill("Enter a whole number of at least 1. {n} is unchanged.", &[("n", &stays)])
            }
            _ => words::stated(&error.sentence()),
        })?;
    }
    form.on_config.run(config);
    Ok(())
}

/// Why the settings have no answer, where this one alone is to blame.
fn blamed(setting: &Setting, form: Form) -> Option<String> {
    let fault = form.problem.get().filter(|problem| !problem.taken_back)?.fault;
    let is_this = fault.setting.as_deref() == Some(setting.name);
    is_this.then(|| words::stated(&fault.reason))
}

/// What a setting means with this value.
fn meaning(setting: &Setting, value: &str) -> &'static str {
    let chosen = setting.kind.values().iter().find(|choice| choice.name == value);
    let about = chosen.map_or("", |choice| choice.about);
    if about.is_empty() { setting.about } else { about }
}

/// What one might write, or what holds where nothing is written.
fn usual(setting: &Setting, report: Option<&Report>) -> String {
    let size = |size: Option<Bytes>| size.map(|size| size.to_string()).unwrap_or_default();
    match setting.name {
        "capacity" => size(report.map(|report| report.verdict.capacity)),
        "context" => size(report.map(|report| report.verdict.context)),
        "other-processes" => Bytes::ZERO.to_string(),
        "allowed" => tr("none"),
        _ => setting.example.to_owned(),
    }
}
