//! A message about memory, explained: what happened, who held what, which settings follow, what helps,
//! and where in the step it was.

use std::sync::Arc;

use highwater_core::config::MachineField;
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use super::icons::CloseIcon;
use crate::explained::{Explained, Held};
use crate::format::share;
use crate::protocol::Finding;
use crate::state::Message;
use crate::text;

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
    /// The message is not wanted any more.
    on_dismiss: Callback<()>,
) -> impl IntoView {
    move || {
        message.get().map(|Message { explained, before }| {
            let Explained { title, figures, why, about, .. } = (*explained).clone();
            let advice = listed("What helps", "message-advice", &explained.advice);
            let notes = listed("What this rests on", "message-notes", &explained.notes);
            let sought = explained.sought.is_some();
            let has_parts = !explained.parts.is_empty();
            let (of, settings) = (explained.clone(), explained);
            view! {
                <section class="message" aria-labelledby="message-title">
                    <div class="message-head">
                        <div>
                            <h2 class="message-title" id="message-title">{title}</h2>
                            <p class="message-figures" role="status">
                                {figures} " " <strong>{why}</strong>
                            </p>
                        </div>
                        <button
                            type="button"
                            class="quiet-button"
                            aria-label="Dismiss the message"
                            on:click=move |_| on_dismiss.run(())
                        >
                            <CloseIcon />
                        </button>
                    </div>
                    <p class="message-about">
                        {about.into_iter().map(|what| view! { <span>{what}</span> }).collect_view()}
                    </p>
                    {has_parts.then(|| parts(&of))}
                    {sought.then(|| view! { <Where found report on_event on_batch /> })}
                    <div class="message-columns">
                        <Follows explained=settings before config on_config />
                        {advice}
                        {notes}
                    </div>
                </section>
            }
        })
    }
}

/// A list under a heading; nothing where it is empty.
fn listed(
    head: &'static str,
    class: &'static str,
    lines: &[String],
) -> Option<impl IntoView + use<>> {
    let lines = lines.iter().map(|line| view! { <li>{line.clone()}</li> }).collect_view();
    (!lines.is_empty()).then(|| {
        view! {
            <div class=class>
                <h3 class="label">{head}</h3>
                <ul>{lines}</ul>
            </div>
        }
    })
}

/// The card's memory as a bar, with what was asked for beneath its free end.
fn parts(explained: &Explained) -> impl IntoView + use<> {
    let total: Bytes = explained.parts.iter().map(|(_, bytes)| *bytes).sum();
    let bars = explained.parts.iter().map(|&(held, bytes)| {
        view! { <span class=class(held) style:width=format!("{}%", share(bytes, total))></span> }
    });
    let rows = explained.parts.iter().map(|&(held, bytes)| {
        view! {
            <div title=text::held_meaning(held)>
                <dt>
                    <span class=format!("swatch {}", class(held)) aria-hidden="true"></span>
                    {text::held(held)}
                </dt>
                <dd>
                    <ByteSize bytes />
                </dd>
            </div>
        }
    });
    let tried = explained.tried.map(|tried| {
        let width = share(tried, total).min(100.0);
        view! {
            <div class="message-tried">
                <span
                    class="message-tried-bar"
                    aria-hidden="true"
                    style:width=format!("{width}%")
                ></span>
                <span class="message-tried-label">{format!("asked for {tried}")}</span>
            </div>
        }
    });
    view! {
        <div class="message-memory">
            <div class="message-bar" aria-hidden="true">
                {bars.collect_view()}
            </div>
            {tried}
            <dl class="message-parts">{rows.collect_view()}</dl>
        </div>
    }
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

/// Where in the step it was, or the invitation to open a model.
#[component]
fn Where(
    /// What was found.
    found: Signal<Option<Finding>>,
    /// The report, if there is a model.
    report: Signal<Option<Arc<Report>>>,
    /// The user wants to see an event on the timeline.
    on_event: Callback<usize>,
    /// The user wants another batch.
    on_batch: Callback<u64>,
) -> impl IntoView {
    let finding = move || {
        let report = report.get()?;
        let Some(mut finding) = found.get() else {
            let lead = "Looking for it in this step…".to_owned();
            return Some(Finding { lead, ..Finding::default() });
        };
        if !finding.is_certain && report.verdict.verdict.survives() {
            finding.detail += &text::disagrees(&report.verdict.name);
        }
        Some(finding)
    };
    let invite = || {
        view! {
            <p>
                "Open the model that ran, and you see which operator asked for it. The settings below wait for it."
            </p>
        }
    };
    let told = move |finding: Finding| {
        let Finding { lead, detail, event, batch, .. } = finding;
        let show = event.map(|event| {
            view! {
                <button type="button" class="link-button" on:click=move |_| on_event.run(event)>
                    "Show on the timeline"
                </button>
            }
        });
        let batch = batch.map(|(batch, about)| {
            view! {
                <p>
                    {about} " "
                    <button type="button" class="link-button" on:click=move |_| on_batch.run(batch)>
                        "Take this batch"
                    </button>
                </p>
            }
        });
        view! {
            <p>
                <strong>{lead}</strong>
                " "
                {detail}
                " "
                {show}
            </p>
            {batch}
        }
    };
    view! {
        <div class="message-where" role="status">
            <h3 class="label">"Where in the step"</h3>
            {move || match finding() {
                Some(finding) => told(finding).into_any(),
                None => invite().into_any(),
            }}
        </div>
    }
}

/// The settings that follow, each applied or not.
#[component]
fn Follows(
    /// The message.
    explained: Arc<Explained>,
    /// The settings before.
    before: Config,
    /// The settings now.
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let row = {
        let explained = explained.clone();
        move |field: MachineField| {
            let explained = StoredValue::new(explained.clone());
            let before = StoredValue::new(before.clone());
            let is_applied = Memo::new(move |_| {
                explained.with_value(|told| config.with(|config| told.is_applied(field, config)))
            });
            let switch = move |_| {
                let mut wanted = config.get_untracked();
                explained.with_value(|told| {
                    if is_applied.get_untracked() {
                        before.with_value(|before| Explained::undo(field, before, &mut wanted));
                    } else {
                        told.apply(field, &mut wanted);
                    }
                });
                on_config.run(wanted);
            };
            let value = explained.with_value(|told| match field {
                MachineField::Device => told.device.clone(),
                field => field.text(&told.known),
            });
            let value = if value.is_empty() { "none".to_owned() } else { value };
            let act = move || if is_applied.get() { "Undo" } else { "Apply" };
            view! {
                <li class:message-setting-off=move || !is_applied.get()>
                    <span class="message-setting-name" title=field.about()>{field.label()}</span>
                    <span class="message-setting-value">{value}</span>
                    <button
                        type="button"
                        class="link-button"
                        aria-label=move || format!("{} {}", act(), field.label())
                        on:click=switch
                    >
                        {act}
                    </button>
                </li>
            }
        }
    };
    let rows = explained.fields.iter().copied().map(row).collect_view();
    let are_some = !explained.fields.is_empty();
    are_some.then(|| {
        view! {
            <div class="message-settings">
                <h3 class="label">"Settings that follow"</h3>
                <ul>{rows}</ul>
            </div>
        }
    })
}
