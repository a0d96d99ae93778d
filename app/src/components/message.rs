//! A message about memory, or a training recipe: what it is in a line, and its explanation to unfold.

use std::sync::Arc;

use highwater_core::{Config, Report};
use leptos::prelude::*;

use super::explanation::{Following, explanation};
use super::icons::{CROSS, icon};
use super::later::later;
use super::parts::prose;
use crate::model::explained::Explained;
use crate::model::protocol::Finding;
use crate::model::state::Message;
use crate::words::language::{spoken, tr};
use crate::words::message as words;
use crate::words::stated;

/// The message that the user has shown, if any. With an answer it is folded, so that the answer comes first; without one
/// it is what the user waits for.
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
    let of = move |of: fn(&Explained) -> bool| {
        message.with(|message| message.as_ref().is_some_and(|message| of(&message.explained)))
    };
    let is_shown = Memo::new(move |_| message.with(Option::is_some));
    let is_open = Memo::new(move |_| report.with(Option::is_none) || of(|known| known.is_waiting));
    let fits_on = Memo::new(move |_| {
        report.with(|report| {
            let verdict = &report.as_ref()?.verdict;
            Some(verdict.verdict.survives().then(|| verdict.name.clone()))
        })
    });
    let place = Signal::derive(move || {
        let fits_on = fits_on.get().filter(|_| of(|known| known.sought.is_some()))?;
        Some(found.with(|found| {
            let found = found.as_ref();
            (words::lead(found), words::detail(found, fits_on.as_deref()))
        }))
    });
    let does_not_fit = Signal::derive(move || fits_on.get().is_some_and(|fits| fits.is_none()));
    let following = Following {
        message,
        found,
        place,
        does_not_fit,
        config,
        on_config,
        on_event,
        on_batch,
        on_search,
    };
    let title = move || message.with(|message| Some(spoken(&message.as_ref()?.explained.title)));
    let figures = Signal::derive(move || {
        let figures = |message: &Message| {
            let Explained { figures, why, .. } = &*message.explained;
            let figures = Some(figures).filter(|figures| !figures.is_empty());
            (figures.map(stated).unwrap_or_default(), tr(why))
        };
        message.with(|message| message.as_ref().map(figures)).unwrap_or_default()
    });
    // In a line: where it is in the open model, else its figures.
    let brief = move || place.get().map_or_else(|| figures.get().0, |(lead, _)| lead);
    // Spoken by those who do not see it, each when it changes.
    let explained = move || {
        let (figures, why) = figures.get();
        [figures, why].join(" ")
    };
    let sought = move || place.get().map(|(lead, detail)| [lead, detail].join(" "));
    view! {
        <Show when=move || is_shown.get()>
            <section class="message" aria-labelledby="message-title">
                <details id="message" prop:open=is_open>
                    <summary>
                        <h2 class="message-title" id="message-title">{title}</h2>
                        <span class="message-brief">{move || prose(&brief())}</span>
                    </summary>
                    <div class="message-inside">
                        <p class="message-figures">
                            {move || prose(&figures.get().0)}
                            " "
                            <strong>{move || figures.get().1}</strong>
                        </p>
                        {later(is_shown.into(), explanation, move || following)}
                    </div>
                </details>
                <button
                    type="button"
                    class="quiet-button"
                    id="message-dismiss"
                    aria-label=tr("Dismiss the message")
                    on:click=move |_| on_dismiss.run(())
                >
                    {icon(CROSS)}
                </button>
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
