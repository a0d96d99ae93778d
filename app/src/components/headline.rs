//! The answer in one sentence.

use std::sync::Arc;

use gloo::timers::callback::Timeout;
use highwater_core::Report;
use highwater_core::report::Verdict;
use leptos::either::Either;
use leptos::html;
use leptos::prelude::*;

use super::gpu_table::verdict_class;
use super::parts::prose;
use super::times;
use crate::model::state::Timed;
use crate::words::format::{self, length};
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
    /// The request whose numbers count; none while its answer is on its way.
    #[prop(into)]
    current: Signal<Option<u64>>,
    /// Whether the newest input has no answer, so that this one is of the last that had.
    #[prop(into)]
    outdated: Signal<bool>,
    /// The report, for what it leaves out.
    report: Signal<Option<Arc<Report>>>,
    /// Whether the page has a heading above it.
    minor: bool,
    /// How long a step takes.
    times: RwSignal<Option<Timed>>,
    /// The user wants to see the assumptions.
    on_basis: Callback<()>,
) -> impl IntoView {
    let text = NodeRef::<html::Div>::new();
    let height = RwSignal::new(0.0);
    let is_waiting = Memo::new(move |_| current.get().is_none());
    // The room of an answer is kept until the next one is there.
    Effect::new(move |_| {
        headline.track();
        times.track();
        if current.get().is_some() {
            request_animation_frame(move || {
                if let Some(text) = text.try_get_untracked().flatten()
                    && !is_waiting.try_get_untracked().unwrap_or(true)
                {
                    height.set(text.get_bounding_client_rect().height());
                }
            });
        }
    });
    let inside = move |headline: Headline| {
        if is_waiting.get() {
            return Either::Left(on_its_way(minor));
        }
        let doubt = report.with(|report| report.as_ref().and_then(|report| words::doubt(report)));
        let doubt = doubt.map(|(word, why)| {
            view! {
                <p class="headline-bound">
                    <strong>{word}</strong>
                    " "
                    {prose(&why)}
                    " "
                    <button
                        type="button"
                        class="link-button"
                        id="doubt"
                        on:click=move |_| on_basis.run(())
                    >
                        {tr("See which")}
                    </button>
                </p>
            }
        });
        Either::Right(view! {
            <span
                class=["headline-sign ", verdict_class(headline.verdict)].concat()
                aria-hidden="true"
            >
                {if outdated.get() { "–" } else { format::verdict_symbol(headline.verdict) }}
            </span>
            <div class="headline-text" node_ref=text>
                {outdated
                    .get()
                    .then(|| view! { <p class="headline-old">{tr("The last valid answer")}</p> })}
                {if minor {
                    Either::Left(view! { <h2 class="headline-lead">{headline.lead}</h2> })
                } else {
                    Either::Right(view! { <h1 class="headline-lead">{headline.lead}</h1> })
                }}
                <p class="headline-rest">{headline.rest}</p>
                // What does not run has no speed, and what flushes its cache has another.
                <p class="headline-rest headline-time">
                    {move || runs(headline.verdict).then(|| times::line(times, current.get()))}
                </p>
            </div>
            {doubt}
        })
    };
    let answered = Signal::derive(move || headline.get().filter(|_| !is_waiting.get()));
    let spoken = calmed(answered);
    view! {
        <div
            class="headline"
            class:headline-stale=move || stale.get()
            class:headline-outdated=outdated
            style:min-height=move || is_waiting.get().then(|| length(height.get()) + "px")
        >
            {move || headline.get().map(inside)}
        </div>
        <p class="hidden-text" role="status">
            {spoken}
        </p>
    }
}

/// What stands where an answer will be.
fn on_its_way(minor: bool) -> impl IntoView {
    let lead = if minor {
        Either::Left(view! { <h2 class="headline-lead">"…"</h2> })
    } else {
        Either::Right(view! { <h1 class="headline-lead">"…"</h1> })
    };
    view! {
        <span class="headline-sign" aria-hidden="true">"…"</span>
        <div class="headline-text">{lead} <p class="headline-rest">{tr("Estimating…")}</p></div>
    }
}

/// Whether a run is expected to run as it is timed.
const fn runs(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fits | Verdict::LikelyFits | Verdict::NotKnown)
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
