//! A recorded run under other settings of the allocator.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::recorded::WhatIf;
use highwater_core::report::RecordedRun;
use leptos::prelude::*;

use super::drawn::Drawn;
use super::markup::Markup;
use crate::words::format;
use crate::words::language::{fill, tr};
use crate::words::recorded as words;

/// What the same calls would have reserved.
#[component]
pub(crate) fn RecordedView(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// What is known so far.
    #[prop(into)]
    what_ifs: Signal<Vec<WhatIf>>,
) -> impl IntoView {
    let markup = Signal::derive(move || {
        let draw = |report: &Arc<Report>| what_ifs.with(|what_ifs| drawn(report, what_ifs));
        report.with(|report| report.as_ref().map(draw)).unwrap_or_default()
    });
    view! { <Drawn class="panel what-ifs" labelledby="what-ifs-title" markup /> }
}

fn drawn(report: &Report, what_ifs: &[WhatIf]) -> String {
    let mut markup = Markup::default();
    let title = "<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"what-ifs-title\">";
    markup.around(title, &tr("With other settings of the allocator"), "</h2></div>");
    if what_ifs.len() < 2 {
        let waiting = tr("The same calls are being replayed…");
        markup.around("<p class=\"hint\">", &waiting, "</p>");
        return markup.done();
    }
    markup.raw("<p>").prose(&words::what_ifs(what_ifs, report)).raw("</p>");
    markup.raw("<table class=\"table\"><caption class=\"hidden-text\">");
    markup.around("", &tr("What the same calls reserve"), "</caption><thead><tr>");
    for (name, class) in [
        (tr("settings"), "<th scope=\"col\">"),
        (tr("reserved"), "<th scope=\"col\" class=\"number\">"),
        (tr("difference"), "<th scope=\"col\" class=\"number\">"),
    ] {
        markup.around(class, &name, "</th>");
    }
    markup.raw("</tr></thead><tbody>");
    let (own, recorded) = (words::baseline(what_ifs, report), report.peak.reserved);
    let is_prediction = report.recorded.as_ref().is_some_and(RecordedRun::is_prediction);
    for outcome in what_ifs {
        let reserved = outcome.replayed.reserved;
        let said = match words::is_own(outcome, report) {
            false => format::difference(reserved, own),
            true if is_prediction => tr("as it is set"),
            true if reserved == recorded => tr("as recorded"),
            true => fill("recorded: {size}", &[("size", &recorded)]),
        };
        markup.raw("<tr><th scope=\"row\"><code>").text(&words::settings(&outcome.alloc_conf));
        markup.raw("</code></th><td class=\"number\">").size(reserved);
        markup.around("</td><td class=\"number\">", &said, "</td></tr>");
    }
    let hint = tr("Any other setting can be typed under \u{201c}Your card\u{201d}.");
    markup.around("</tbody></table><p class=\"hint\">", &hint, "</p>");
    markup.done()
}
