//! The answer in one sentence.

use std::sync::Arc;

use gloo::timers::callback::Timeout;
use highwater_core::Report;
use highwater_core::report::Verdict;
use leptos::prelude::*;

use crate::format;
use crate::language::tr;
use crate::text::Headline;

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
    let verdict = move || headline.with(|headline| headline.as_ref().map(|h| h.verdict));
    let is_bound = move || report.with(|report| report.as_ref().is_some_and(|r| r.lower_bound));
    let spoken = calmed(headline);
    view! {
        <section class="headline" class:headline-stale=move || stale.get() aria-label=tr("Answer")>
            <span
                class="headline-sign"
                class:verdict-fits=move || verdict() == Some(Verdict::Fits)
                class:verdict-tight=move || verdict() == Some(Verdict::Tight)
                class:verdict-flush=move || verdict() == Some(Verdict::FitsAfterFlush)
                class:verdict-fails=move || verdict() == Some(Verdict::DoesNotFit)
                aria-hidden="true"
            >
                {move || verdict().map(format::verdict_symbol)}
            </span>
            <div class="headline-text">
                <h1 class="headline-lead">
                    {move || headline.with(|h| h.as_ref().map(|h| h.lead.clone()))}
                </h1>
                <p class="headline-rest">
                    {move || headline.with(|h| h.as_ref().map(|h| h.rest.clone()))}
                </p>
            </div>
            <p class="hidden-text" role="status">
                {spoken}
            </p>
            <Show when=is_bound>
                <p class="headline-bound">
                    <strong>{tr("Lower bound.")}</strong>
                    {tr(" Parts of this model could not be estimated, so a real run needs this much or more. ")}
                    <a href="#rests-on">{tr("See which")}</a>
                </p>
            </Show>
        </section>
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
