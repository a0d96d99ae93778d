//! The answer in one sentence.

use std::sync::Arc;

use gloo::timers::callback::Timeout;
use highwater_core::Report;
use leptos::prelude::*;

use super::gpu_table::verdict_class;
use super::parts::prose;
use crate::words::format;
use crate::words::language::tr;
use crate::words::{self, Headline};

/// Says whether the run fits, where it peaks, and how far the batch can go.
#[component]
pub(crate) fn HeadlineView(
    /// The sentence.
    #[prop(into)]
    headline: Signal<Option<Headline>>,
    /// Whether a newer answer is on its way.
    #[prop(into)]
    stale: Signal<bool>,
    /// The report, for what it leaves out.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let inside = move |headline: Headline| {
        let doubt = report.with(|report| report.as_ref().and_then(|report| words::doubt(report)));
        let doubt = doubt.map(|(word, why)| {
            view! {
                <p class="headline-bound">
                    <strong>{word}</strong>
                    " "
                    {prose(&why)}
                    " "
                    <a href="#rests-on">{tr("See which")}</a>
                </p>
            }
        });
        let sure = report.with(|report| {
            let certainty = report.as_ref().and_then(|report| report.certainty.as_ref());
            certainty.map(words::certainty)
        });
        let sure = sure.map(|sure| {
            view! {
                <p class="headline-sure">
                    {sure} " " <a href="#rests-on">{tr("Assumptions")}</a>
                </p>
            }
        });
        view! {
            <span
                class=["headline-sign ", verdict_class(headline.verdict)].concat()
                aria-hidden="true"
            >
                {format::verdict_symbol(headline.verdict)}
            </span>
            <div class="headline-text">
                <h1 class="headline-lead">{headline.lead}</h1>
                <p class="headline-rest">{headline.rest}</p>
                {sure}
            </div>
            {doubt}
        }
    };
    let spoken = calmed(headline);
    view! {
        <section
            class="headline"
            class:headline-stale=move || stale.get()
            aria-label=tr("Answer")
        >
            {move || headline.get().map(inside)}
        </section>
        <p class="hidden-text" role="status">
            {spoken}
        </p>
    }
}

/// The headline for those who listen: only once it has come to rest, not at every step of a slider.
fn calmed(headline: Signal<Option<Headline>>) -> ReadSignal<String> {
    let (spoken, set_spoken) = signal(String::new());
    let waiting = StoredValue::new_local(None::<Timeout>);
    Effect::new(move |_| {
        let text = headline
            .with(|headline| headline.as_ref().map(|h| format!("{} {}", h.lead, h.rest)))
            .unwrap_or_default();
        waiting.set_value(Some(Timeout::new(700, move || set_spoken.set(text))));
    });
    spoken
}
