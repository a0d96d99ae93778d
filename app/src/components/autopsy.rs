//! What sets the peak, in a few sentences.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::autopsy::{Autopsy, Why};
use highwater_core::trace::Category;
use leptos::prelude::*;

use super::drawn::Drawn;
use super::markup::Markup;
use super::readout::class;
use crate::words::autopsy as words;
use crate::words::format::{exact, percent};
use crate::words::language::tr;

/// Which tensors set the peak, why they are alive, and what would be the peak without them.
#[component]
pub(crate) fn AutopsyView(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let markup = Signal::derive(move || {
        report.with(|report| report.as_ref().map_or_else(String::new, |r| drawn(r)))
    });
    view! {
        <Drawn
            class="panel autopsy"
            labelledby="autopsy-title"
            markup
            on_act=Callback::new(|_| {})
        />
    }
}

fn drawn(report: &Report) -> String {
    let autopsy = Autopsy::of(report);
    let mut markup = Markup::default();
    let title = "<h2 class=\"panel-title\" id=\"autopsy-title\">";
    markup.around(title, &tr("What sets the peak"), "</h2>");
    markup.around("<p>", &words::peak(&report.peak), "</p>");
    markup.raw("<ul class=\"autopsy-groups\">");
    for group in &autopsy.groups {
        markup.raw("<li><span class=\"swatch ").raw(class(category(group.why)));
        markup.raw("\" aria-hidden=\"true\"></span><span class=\"byte-size\" title=\"");
        markup.text(&exact(group.bytes)).around("\">", &group.bytes.to_string(), "</span>");
        let share = percent(group.bytes, autopsy.total);
        markup.around("<span class=\"autopsy-share\">", &share, "</span>");
        markup.around("<span class=\"autopsy-what\">", &words::what(group), ": ");
        markup.around(
            "<span class=\"autopsy-why\">",
            &tr(group.why.about()),
            "</span></span></li>",
        );
    }
    markup.raw("</ul>");
    if let Some(scores) = &autopsy.scores {
        markup.around("<p class=\"autopsy-scores\">", &words::scores(scores, &autopsy), "</p>");
        markup.unfold("autopsy-code", &tr("How to compute it in chunks (not simulated)"));
        markup.code(words::CHUNKED_LOSS, &tr("Copy")).raw("</details>");
    }
    markup.around("<p>", &words::next(autopsy.next.as_ref(), report), "</p>");
    markup.done()
}

/// The category whose colour a group has.
const fn category(why: Why) -> Category {
    match why {
        Why::Parameter => Category::Parameter,
        Why::Buffer => Category::Buffer,
        Why::Input => Category::Input,
        Why::OptimizerState => Category::OptimizerState,
        Why::Gradient => Category::Gradient,
        Why::Saved | Why::Named => Category::Activation,
        Why::InForward | Why::InBackward | Why::InStep => Category::Temporary,
        Why::Workspace => Category::Workspace,
    }
}
