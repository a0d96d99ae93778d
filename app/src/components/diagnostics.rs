//! What the answer rests on: assumptions, recoveries, gaps.

use std::cmp::Reverse;
use std::sync::Arc;

use highwater_core::diagnostic::{Diagnostic, Severity};
use highwater_core::{Report, sorted};
use leptos::prelude::*;

use super::capped::{show_all, shown};
use super::drawn::Drawn;
use super::markup::Markup;
use crate::words;
use crate::words::language::tr;

/// COUNT: diagnostics shown at first.
const FIRST: usize = 8;

/// Diagnostics, the heaviest first.
#[component]
pub(crate) fn Diagnostics(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let markup = Signal::derive(move || {
        report.with(|report| Some(drawn(report.as_ref()?, open.get()))).unwrap_or_default()
    });
    let on_act = Callback::new(move |_| open.update(|open| *open = !*open));
    view! { <Drawn id="rests-on" class="panel rests-on" labelledby="rests-on-title" markup on_act /> }
}

fn drawn(report: &Report, open: bool) -> String {
    let mut diagnostics: Vec<_> = report.diagnostics.iter().collect();
    sorted::by_key(&mut diagnostics, |diagnostic| Reverse(diagnostic.severity));
    let mut markup = Markup::default();
    markup.raw("<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"rests-on-title\">");
    markup.around("", &tr("What this rests on"), "</h2></div><ul class=\"rests-on-rows\">");
    for diagnostic in diagnostics.iter().take(shown(open, FIRST)) {
        row(&mut markup, diagnostic);
    }
    if diagnostics.is_empty() {
        let nothing = tr("Nothing had to be assumed or left out.");
        markup.around("<li class=\"rests-on-nothing\">", &nothing, "</li>");
    }
    markup.raw("</ul>");
    show_all(&mut markup, "rests-on-all", diagnostics.len(), FIRST, open);
    markup.done()
}

fn row(markup: &mut Markup, diagnostic: &Diagnostic) {
    markup.raw(match diagnostic.severity {
        Severity::Info => {
            "<li><span class=\"severity severity-info\">\
             <span class=\"severity-sign\" aria-hidden=\"true\">i</span>"
        }
        Severity::Warning => {
            "<li><span class=\"severity severity-warning\">\
             <span class=\"severity-sign\" aria-hidden=\"true\">!</span>"
        }
        Severity::Error => {
            "<li><span class=\"severity severity-error\">\
             <span class=\"severity-sign\" aria-hidden=\"true\">✕</span>"
        }
    });
    markup.around("", &words::severity(diagnostic.severity), "</span>");
    markup.around("<p class=\"rests-on-message\" title=\"", &diagnostic.code, "\">");
    markup.prose(&words::sentence(&diagnostic.message));
    if let Some(node) = &diagnostic.node {
        markup.around("<code class=\"rests-on-node\" title=\"", node, "\">");
        markup.around("", node, "</code>");
    }
    markup.raw("</p></li>");
}
