//! Two answers side by side: one that was kept, and the newest.

use std::sync::Arc;

use highwater_core::report::difference::{Difference, PhaseDifference, by_module, by_phase};
use highwater_core::trace::Category;
use highwater_core::{Config, Report};
use highwater_draw::stack::Stack;
use leptos::prelude::*;

use super::drawn::{Act, Drawn};
use super::markup::Markup;
use crate::model::state::Kept;
use crate::words::format;
use crate::words::language::{fill, tr};
use crate::words::{self, Vocabulary};

/// COUNT: modules that are shown, at most.
const MODULES: usize = 8;

/// The invitation to keep an answer, or what is different since.
#[component]
pub(crate) fn Comparison(
    /// The newest report.
    report: Signal<Option<Arc<Report>>>,
    /// Name of its model.
    name: Signal<String>,
    /// What was kept.
    kept: RwSignal<Option<Kept>>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let on_act = Callback::new(move |act: Act| match act.name.as_str() {
        "keep" => {
            let report = report.get_untracked();
            kept.set(report.map(|report| Kept { name: name.get_untracked(), report }));
        }
        "back" => {
            if let Some(kept) = kept.get_untracked() {
                on_config.run(kept.report.config.clone());
            }
        }
        _ => kept.set(None),
    });
    let markup = Signal::derive(move || {
        let Some(report) = report.get() else { return String::new() };
        let mut markup = Markup::default();
        markup.raw("<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"comparison-title\">");
        markup.around("", &tr("Compare"), "</h2></div>");
        match kept.get() {
            None => invite(&mut markup),
            Some(kept) => beside(&mut markup, &kept, &report, &name.get()),
        }
        markup.done()
    });
    view! { <Drawn class="panel comparison" labelledby="comparison-title" markup on_act /> }
}

fn invite(markup: &mut Markup) {
    let what = tr(
        "Keep this answer, then change a setting or open another model: both are drawn on the same axes.",
    );
    markup.around("<div class=\"comparison-invite\"><p>", &what, "</p>");
    markup.button("button", "keep", &tr("Keep this answer")).raw("</div>");
}

fn beside(markup: &mut Markup, kept: &Kept, report: &Report, name: &str) {
    let are_simulated = [&kept.report, report].iter().all(|report| report.recorded.is_none());
    let mut changes = words::comparison::changed(&kept.report.config, &report.config);
    if !are_simulated {
        // The settings say nothing of what was recorded.
        changes.clear();
    }
    let is_same_model = kept.name == name && are_simulated;
    let lead = fill("Kept: {name}", &[("name", &kept.name)]);
    let said = match (is_same_model, changes.is_empty()) {
        (true, true) => tr("Nothing is different yet: change a setting, or open another model."),
        (true, false) => changes,
        (false, true) => fill("Now: {name}", &[("name", &name)]),
        (false, false) => fill("Now: {name}, {changes}", &[("name", &name), ("changes", &changes)]),
    };
    markup.raw("<div class=\"comparison-what\"><p>");
    markup.raw("<span class=\"comparison-line\" aria-hidden=\"true\"></span>");
    markup.around("<strong>", &lead, "</strong> ").text(&said).raw("</p>");
    if is_same_model && kept.report.config != report.config {
        markup.button("button", "back", &tr("Back to its settings"));
    }
    markup.button("button", "keep", &tr("Keep the newest instead"));
    markup.button("button", "end", &tr("Stop comparing")).raw("</div>");
    table(markup, &kept.report, report);
}

fn table(markup: &mut Markup, kept: &Report, report: &Report) {
    markup.raw("<table class=\"table comparison-table\"><caption class=\"hidden-text\">");
    markup.around("", &tr("The kept answer and the newest"), "</caption><thead><tr>");
    markup.raw("<td></td><th scope=\"col\" class=\"number comparison-kept\">");
    markup.around("", &tr("kept"), "</th><th scope=\"col\" class=\"number\">");
    markup.around("", &tr("now"), "</th><th scope=\"col\" class=\"number\">");
    markup.around("", &tr("difference"), "</th></tr></thead>");
    let peak = |name: &str, before, after| Difference { name: tr(name), before, after };
    let peaks = [
        peak("Peak allocated", kept.peak.allocated, report.peak.allocated),
        peak("Peak reserved", kept.peak.reserved, report.peak.reserved),
        peak("Process peak", kept.peak.process, report.peak.process),
    ];
    group(markup, None, &peaks);
    let vocabulary = Vocabulary::of(report);
    let category = |category| Difference {
        name: vocabulary.category(category),
        before: kept.at_peak.get(category),
        after: report.at_peak.get(category),
    };
    let categories: Vec<_> =
        Category::ALL.map(category).into_iter().filter(|row| row.size().0 > 0).collect();
    // Origins are not what categories are, and lines of code not what modules are.
    if Vocabulary::of(kept) != vocabulary {
        return phases(markup, kept, report);
    }
    let title = |stack| fill("At the peak, {how}", &[("how", &vocabulary.stacked(stack))]);
    group(markup, Some(title(Stack::Category)), &categories);
    let mut modules = by_module(kept, report);
    modules.truncate(MODULES);
    for module in &mut modules {
        if module.name.is_empty() {
            module.name = tr("no module");
        }
    }
    group(markup, Some(title(Stack::Module)), &modules);
    phases(markup, kept, report);
}

/// The highest moment of each phase that both have, where one was recorded; ends the table.
fn phases(markup: &mut Markup, kept: &Report, report: &Report) {
    if kept.recorded.is_some() || report.recorded.is_some() {
        let row = |row: PhaseDifference| {
            let mut name = words::moment(row.phase, row.iteration);
            if let Some((category, _)) = row.mostly {
                let mostly = Vocabulary::of(report).category(category);
                name = fill("{phase}: mostly {what}", &[("phase", &name), ("what", &mostly)]);
            }
            Difference { name, before: row.before, after: row.after }
        };
        let rows: Vec<_> = by_phase(kept, report).into_iter().map(row).collect();
        group(markup, Some(tr("The highest moment of each phase, and what differs there")), &rows);
    }
    markup.raw("</table>");
}

fn group(markup: &mut Markup, title: Option<String>, rows: &[Difference]) {
    if rows.is_empty() {
        return;
    }
    markup.raw("<tbody>");
    if let Some(title) = title {
        markup.around("<tr><th colspan=\"4\" scope=\"rowgroup\">", &title, "</th></tr>");
    }
    for row in rows {
        markup.around("<tr><th scope=\"row\">", &row.name, "</th>");
        markup.raw("<td class=\"number comparison-kept\">").size(row.before);
        markup.raw("</td><td class=\"number\">").size(row.after);
        markup.raw("</td><td class=\"number comparison-more\">");
        markup.around("", &format::difference(row.after, row.before), "</td></tr>");
    }
    markup.raw("</tbody>");
}
