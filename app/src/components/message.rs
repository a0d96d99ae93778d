//! The explanation of a message about memory: what happened, the parts of the GPU's memory, the settings that
//! follow, advice, and the place in the step.

use std::sync::Arc;

use highwater_core::config::{Kind, Setting};
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;

use super::icons::{CROSS, icon};
use super::parts::size;
use crate::model::explained::{Explained, Held};
use crate::model::protocol::Finding;
use crate::model::state::Message;
use crate::words::format::{length, share};
use crate::words::language::{fill, spoken, tr};
use crate::words::message as words;
use crate::words::stated;

/// The message that the user has shown, if any.
#[component]
pub(crate) fn MessageView(
    /// The message.
    #[prop(into)]
    message: Signal<Option<Message>>,
    /// Where its allocation is.
    #[prop(into)]
    found: Signal<Option<Finding>>,
    /// The report, if there is a model.
    report: Signal<Option<Arc<Report>>>,
    /// The settings.
    #[prop(into)]
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
    /// The user wants to see an event on the timeline.
    on_event: Callback<usize>,
    /// The user wants another batch.
    on_batch: Callback<u64>,
    /// The smallest change that fits is to be searched.
    on_search: Callback<()>,
    /// The message is not wanted any more.
    on_dismiss: Callback<()>,
) -> impl IntoView {
    let is_shown = Memo::new(move |_| message.with(Option::is_some));
    // Where the allocation is: the lead, and what else is to be said of it.
    let place = move || {
        let report = report.get()?;
        let fits = report.verdict.verdict.survives();
        let fits_on = fits.then_some(report.verdict.name.as_str());
        Some(found.with(|found| {
            let found = found.as_ref();
            (words::lead(found), words::detail(found, fits_on))
        }))
    };
    let where_it_is = move || {
        let invite = || {
            tr(
                "Open the model of this run to see which operator allocated it. The settings below are applied then.",
            )
        };
        let found = found.get().unwrap_or_default();
        let (lead, detail) = place().unzip();
        let event = found.place.map(|spot| spot.event);
        view! {
            <div class="message-where">
                <h3 class="label">{tr("Where in the step")}</h3>
                <p>
                    {lead.is_none().then(invite)}
                    {lead.map(|lead| view! { <strong>{lead}</strong> })}
                    " "
                    {detail}
                    " "
                    {event
                        .map(|event| {
                            link(
                                "message-event",
                                tr("Show on the timeline"),
                                move || on_event.run(event),
                            )
                        })}
                </p>
                {found
                    .batch
                    .map(|(batch, spot)| {
                        view! {
                            <p>
                                {words::other_batch(batch, &spot)}
                                " "
                                {link(
                                    "message-batch",
                                    tr("Use this batch"),
                                    move || on_batch.run(batch),
                                )}
                            </p>
                        }
                    })}
            </div>
        }
    };
    let does_not_fit = Signal::derive(move || {
        report
            .with(|report| report.as_ref().is_some_and(|report| !report.verdict.verdict.survives()))
    });
    let inside = move |message: Message| {
        let explained = message.explained.clone();
        let is_sought = explained.sought.is_some();
        let advice = explained.advice.iter().map(|line| tr(line)).collect();
        let notes = explained.notes.iter().map(stated).collect();
        view! {
            {head(&explained, on_dismiss)}
            {memory(&explained)}
            {is_sought.then_some(where_it_is)}
            <div class="message-columns">
                {settings(&message, config, on_config)}
                {helping(advice, does_not_fit, on_search)}
                {listed("message-notes", tr("Assumptions"), notes)}
            </div>
        }
    };
    // Spoken by those who do not see it, each when it changes.
    let explained =
        move || message.with(|message| Some(figures(&message.as_ref()?.explained).join(" ")));
    let sought = move || {
        let is_sought = |message: &Message| message.explained.sought.is_some();
        let is_sought = message.with(|message| message.as_ref().is_some_and(is_sought));
        place().filter(|_| is_sought).map(|(lead, detail)| [lead, detail].join(" "))
    };
    view! {
        <Show when=move || is_shown.get()>
            <section class="message" aria-labelledby="message-title">
                {move || message.get().map(inside)}
            </section>
        </Show>
        <p class="hidden-text" role="status">
            {explained}
        </p>
        <p class="hidden-text" role="status">
            {sought}
        </p>
    }
}

/// Its figures, and why.
fn figures(explained: &Explained) -> [String; 2] {
    [spoken(&explained.figures), tr(&explained.why)]
}

/// A button in a text.
fn link(id: &'static str, label: String, press: impl Fn() + 'static) -> impl IntoView {
    view! {
        <button type="button" class="link-button" id=id on:click=move |_| press()>
            {label}
        </button>
    }
}

fn head(explained: &Explained, on_dismiss: Callback<()>) -> impl IntoView + use<> {
    let [figures, why] = figures(explained);
    let about = explained.about.iter().map(|what| view! { <span>{spoken(what)}</span> });
    view! {
        <div class="message-head">
            <div>
                <h2 class="message-title" id="message-title">{spoken(&explained.title)}</h2>
                <p class="message-figures">
                    {figures}
                    " "
                    <strong>{why}</strong>
                </p>
            </div>
            <button
                type="button"
                class="quiet-button"
                id="message-dismiss"
                aria-label=tr("Dismiss the message")
                on:click=move |_| on_dismiss.run(())
            >
                {icon(CROSS)}
            </button>
        </div>
        <p class="message-about">{about.collect_view()}</p>
    }
}

/// The card's memory as a bar, with what was asked for beneath its free end.
fn memory(explained: &Explained) -> Option<impl IntoView + use<>> {
    if explained.parts.is_empty() {
        return None;
    }
    let total: Bytes = explained.parts.iter().map(|(_, bytes)| *bytes).sum();
    let width = |bytes| length(share(bytes, total).min(100.0)) + "%";
    let bar = explained.parts.iter().map(|&(held, bytes)| {
        view! { <span class=class(held) style:width=width(bytes)></span> }
    });
    let tried = explained.tried.map(|tried| {
        view! {
            <div class="message-tried">
                <span class="message-tried-bar" aria-hidden="true" style:width=width(tried)></span>
                <span class="message-tried-label">
                    {fill("asked for {size}", &[("size", &tried)])}
                </span>
            </div>
        }
    });
    let parts = explained.parts.iter().map(|&(held, bytes)| {
        view! {
            <div title=words::held_meaning(held)>
                <dt>
                    <span class=["swatch ", class(held)].concat() aria-hidden="true"></span>
                    {words::held(held)}
                </dt>
                <dd>{size(bytes)}</dd>
            </div>
        }
    });
    Some(view! {
        <div class="message-memory">
            <div class="message-bar" aria-hidden="true">
                {bar.collect_view()}
            </div>
            {tried}
            <dl class="message-parts">{parts.collect_view()}</dl>
        </div>
    })
}

/// The style sheet's name of a part.
const fn class(held: Held) -> &'static str {
    match held {
        Held::Allocated => "held-allocated",
        Held::Unallocated => "held-unallocated",
        Held::Context => "held-context",
        Held::Others => "held-others",
        Held::Unknown => "held-unknown",
        Held::Free => "held-free",
    }
}

/// The settings that follow, each applied or not.
fn settings(
    message: &Message,
    config: Signal<Config>,
    on_config: Callback<Config>,
) -> Option<impl IntoView + use<>> {
    let rows: Vec<_> = message
        .explained
        .settings
        .iter()
        .map(|&known| setting(known, message.clone(), config, on_config))
        .collect();
    (!rows.is_empty()).then(|| {
        view! {
            <div class="message-settings">
                <h3 class="label">{tr("Settings that follow")}</h3>
                <ul>{rows}</ul>
            </div>
        }
    })
}

fn setting(
    field: &'static Setting,
    message: Message,
    config: Signal<Config>,
    on_config: Callback<Config>,
) -> impl IntoView {
    let Message { explained, before } = message;
    let (name, value) = match field.kind {
        Kind::Device => (tr("GPU"), explained.device.clone()),
        _ => (tr(field.label), field.typed(&explained.known)),
    };
    let value = if value.is_empty() { tr("none") } else { value };
    let known = explained.clone();
    let is_applied = Signal::derive(move || config.with(|config| known.is_applied(field, config)));
    let says = {
        let name = name.clone();
        move || {
            let english = if is_applied.get() { "Undo {setting}" } else { "Apply {setting}" };
            fill(english, &[("setting", &name)])
        }
    };
    let switch = move |_| {
        let mut config = config.get_untracked();
        if explained.is_applied(field, &config) {
            Explained::undo(field, &before, &mut config);
        } else {
            explained.apply(field, &mut config);
        }
        on_config.run(config);
    };
    view! {
        <li class:message-setting-off=move || !is_applied.get()>
            <span class="message-setting-name" title=tr(field.about)>{name}</span>
            <span class="message-setting-value">{value}</span>
            <button
                type="button"
                class="link-button"
                id=["message-", field.name].concat()
                aria-label=says
                on:click=switch
            >
                {move || tr(if is_applied.get() { "Undo" } else { "Apply" })}
            </button>
        </li>
    }
}

/// What helps: first what a search in the open model finds, then what is true of any.
fn helping(
    lines: Vec<String>,
    does_not_fit: Signal<bool>,
    on_search: Callback<()>,
) -> Option<impl IntoView + use<>> {
    let rows: Vec<_> = lines.into_iter().map(|line| view! { <li>{line}</li> }).collect();
    (!rows.is_empty()).then(|| {
        view! {
            <div class="message-advice">
                <h3 class="label">{tr("What helps")}</h3>
                <p hidden=move || !does_not_fit.get()>
                    {link(
                        "message-search",
                        tr("Find the smallest change that fits"),
                        move || on_search.run(()),
                    )}
                </p>
                <ul>{rows}</ul>
            </div>
        }
    })
}

/// A list under a heading; nothing where it is empty.
fn listed(class: &'static str, title: String, lines: Vec<String>) -> Option<impl IntoView + use<>> {
    let rows: Vec<_> = lines.into_iter().map(|line| view! { <li>{line}</li> }).collect();
    (!rows.is_empty()).then(|| {
        view! {
            <div class=class>
                <h3 class="label">{title}</h3>
                <ul>{rows}</ul>
            </div>
        }
    })
}
