//! What is in the explanation of a message: the parts of the GPU's memory, the place in the step, the settings that
//! follow, and advice. A part of the program that is fetched with the first message.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use highwater_core::config::{Kind, Setting};
use highwater_core::{Bytes, Config};
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::later::Draw;
use super::parts::{prose, size};
use crate::model::explained::{Explained, Held};
use crate::model::protocol::Finding;
use crate::model::state::Message;
use crate::words::format::{length, share};
use crate::words::language::{fill, spoken, tr};
use crate::words::message as words;
use crate::words::stated;

/// What an explanation follows, and what a user may want after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    /// The message.
    pub(super) message: Signal<Option<Message>>,
    /// Where the allocation is.
    pub(super) found: Signal<Option<Finding>>,
    /// The place in words, if there is a model: the lead, and the rest.
    pub(super) place: Signal<Option<(String, String)>>,
    /// Whether the open model does not fit.
    pub(super) does_not_fit: Signal<bool>,
    /// The settings.
    pub(super) config: Signal<Config>,
    /// Other settings are wanted.
    pub(super) on_config: Callback<Config>,
    /// The user wants to see an event on the timeline.
    pub(super) on_event: Callback<usize>,
    /// The user wants another batch.
    pub(super) on_batch: Callback<u64>,
    /// The smallest change that fits is to be searched.
    pub(super) on_search: Callback<()>,
}

/// What draws explanations.
///
/// # Errors
/// It did not arrive.
#[wasm_split(message, fallible)]
pub(super) fn explanation() -> Result<Draw<Following>, SplitLoaderError> {
    Ok(draw)
}

fn draw(following: Following) -> AnyView {
    let inside = move || following.message.get().map(|message| about(&message, following));
    inside.into_any()
}

fn about(message: &Message, following: Following) -> impl IntoView + use<> {
    let Following { does_not_fit, config, on_config, on_search, .. } = following;
    let explained = &message.explained;
    let about = explained.about.iter().map(|what| view! { <span>{spoken(what)}</span> });
    let advice = explained.advice.iter().map(|line| tr(line)).collect();
    let notes = explained.notes.iter().map(stated).collect();
    view! {
        <p class="message-about">{about.collect_view()}</p>
        {memory(explained)}
        {explained.sought.is_some().then(|| place(following))}
        <div class="message-columns">
            {settings(message, config, on_config)}
            {helping(advice, does_not_fit, on_search)}
            {listed("message-notes", tr("Assumptions"), notes)}
        </div>
    }
}

/// Where in the step the allocation is.
fn place(following: Following) -> impl IntoView {
    let Following { found, place, on_event, on_batch, .. } = following;
    let inside = move || {
        let Some((lead, detail)) = place.get() else {
            let invite = tr(
                "Open the model of this run to see which operator allocated it. The settings below are applied then.",
            );
            return view! { <p>{invite}</p> }.into_any();
        };
        let found = found.get().unwrap_or_default();
        let event = found.place.map(|spot| spot.event);
        view! {
            <p>
                <strong>{lead}</strong>
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
        }
        .into_any()
    };
    view! {
        <div class="message-where">
            <h3 class="label">{tr("Where in the step")}</h3>
            {inside}
        </div>
    }
}

/// A button in a text.
fn link(id: &'static str, label: String, press: impl Fn() + 'static) -> impl IntoView {
    view! {
        <button type="button" class="link-button" id=id on:click=move |_| press()>
            {label}
        </button>
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
    let Message { explained, before, .. } = message;
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
    let rows: Vec<_> = lines.into_iter().map(|line| view! { <li>{prose(&line)}</li> }).collect();
    (!rows.is_empty()).then(|| {
        view! {
            <div class=class>
                <h3 class="label">{title}</h3>
                <ul>{rows}</ul>
            </div>
        }
    })
}
