//! The answer in one sentence.

use std::sync::Arc;

use gloo::timers::callback::Timeout;
use highwater_core::Report;
use leptos::prelude::*;

use super::drawn::Drawn;
use super::gpu_table::verdict_class;
use super::markup::Markup;
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
    let class =
        Signal::derive(move || if stale.get() { "headline headline-stale" } else { "headline" });
    let markup = Signal::derive(move || {
        let doubt = report.with(|report| report.as_ref().and_then(|report| words::doubt(report)));
        let drawn = |headline: &Headline| drawn(headline, doubt.clone());
        headline.with(|headline| headline.as_ref().map(drawn)).unwrap_or_default()
    });
    let spoken = calmed(headline);
    view! {
        <Drawn class label=tr("Answer") at_once=true markup />
        <p class="hidden-text" role="status">
            {spoken}
        </p>
    }
}

fn drawn(headline: &Headline, doubt: Option<(String, String)>) -> String {
    let mut markup = Markup::default();
    markup.raw("<span class=\"headline-sign ").raw(verdict_class(headline.verdict));
    markup.around("\" aria-hidden=\"true\">", format::verdict_symbol(headline.verdict), "</span>");
    markup.raw("<div class=\"headline-text\"><h1 class=\"headline-lead\">");
    markup.around("", &headline.lead, "</h1><p class=\"headline-rest\">");
    markup.around("", &headline.rest, "</p></div>");
    if let Some((word, why)) = doubt {
        markup.around("<p class=\"headline-bound\"><strong>", &word, "</strong> ").prose(&why);
        markup.around(" <a href=\"#rests-on\">", &tr("See which"), "</a></p>");
    }
    markup.done()
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
