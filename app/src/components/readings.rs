//! What else a file can be read as: by other rules, or as the history of another GPU.

use std::sync::Arc;

use highwater_core::Report;
use leptos::prelude::*;

use super::drawn::{Act, Drawn};
use super::markup::Markup;
use crate::words::language::tr;
use crate::words::recorded as words;

/// The readings beside each other, of which one is on the page; nothing where there is no other.
#[component]
pub(crate) fn Readings(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// Which is wanted.
    reading: RwSignal<usize>,
) -> impl IntoView {
    let markup = Signal::derive(move || {
        report.with(|report| report.as_ref().map(|report| drawn(report))).unwrap_or_default()
    });
    let on_act = Callback::new(move |act: Act| {
        if let Some(Ok(wanted)) = act.name.strip_prefix("reading-").map(str::parse) {
            reading.set(wanted);
        }
    });
    view! { <Drawn class="panel readings" labelledby="readings-title" markup on_act /> }
}

fn drawn(report: &Report) -> String {
    let mut markup = Markup::default();
    let Some(run) = report.recorded.as_ref().filter(|run| run.readings.len() > 1) else {
        return markup.done();
    };
    let title = "<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"readings-title\">";
    markup.around(title, &words::readings(run), "</h2></div>");
    markup.raw("<table class=\"table\"><caption class=\"hidden-text\">");
    markup.around("", &words::readings(run), "</caption><thead><tr><td></td>");
    for name in ["Peak allocated", "Peak reserved"] {
        markup.around("<th scope=\"col\" class=\"number\">", &tr(name), "</th>");
    }
    markup.raw("</tr></thead><tbody>");
    for (at, reading) in run.readings.iter().enumerate() {
        let is_shown = at == run.shown;
        let (name, about) = words::reading(reading.by);
        markup.raw("<tr><th scope=\"row\"><label><input type=\"radio\" name=\"reading\" id=\"");
        let act = ["reading-", &at.to_string()].concat();
        markup.text(&act).around("\" data-act=\"", &act, "\"");
        markup.raw(if is_shown { " checked> " } else { "> " });
        markup.text(&name).around("</label> <span class=\"hint\">", &about, "</span></th>");
        for bytes in [reading.allocated, reading.reserved] {
            markup.raw("<td class=\"number\">").size(bytes).raw("</td>");
        }
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table>");
    markup.done()
}
