//! The search for the least that makes a run fit on its device: a button, then progress, then a plan.

use highwater_core::Report;
use highwater_core::levers::Plan;

use super::gpu_table::verdict_class;
use super::markup::Markup;
use crate::model::protocol::SearchOutcome;
use crate::model::state::SearchState;
use crate::words::format;
use crate::words::language::tr;
use crate::words::levers as words;

/// What there is of it.
pub(super) fn draw(markup: &mut Markup, report: &Report, search: Option<&SearchState>) {
    markup.raw("<div class=\"fit-search\">");
    match search {
        _ if report.verdict.verdict.survives() => {
            let said = words::found(0, true, &report.verdict.name);
            markup.around("<p class=\"hint\">", &said, "</p>");
        }
        None => {
            let label = tr("Find the least that makes it fit");
            markup.button("button button-accent", "search", &label);
        }
        Some(search) => match &search.outcome {
            None => {
                markup.around("<p>", &words::searching(search), "</p>");
                markup.button("button", "stop", &tr("Stop"));
            }
            Some(SearchOutcome::Found(plan)) => draw_plan(markup, report, plan, true),
            Some(SearchOutcome::Nothing(plan)) => draw_plan(markup, report, plan, false),
        },
    }
    markup.raw("</div>");
}

fn draw_plan(markup: &mut Markup, report: &Report, plan: &Plan, fits: bool) {
    let count = plan.steps.len();
    let said = words::found(count, fits, &report.verdict.name);
    markup.around("<div class=\"fit-plan\"><p>", &said, "</p><ol>");
    let mut before = report.verdict.need;
    for (at, pulled) in plan.steps.iter().enumerate() {
        let after = &pulled.outcome.verdict;
        markup.around("<li><strong>", &tr(&pulled.title), "</strong> ");
        markup.text(&format::difference(after.need, before)).raw(" → ");
        markup.text(&after.need.to_string()).raw(", <span class=\"");
        markup.raw(verdict_class(after.verdict));
        markup.around("\">", &words::verdict(after.verdict), "</span>");
        markup.around("<p class=\"hint\">", &words::cost(pulled.cost), "</p>");
        markup.unfold(&["plan-", &at.to_string()].concat(), &tr("Code"));
        markup.code(&pulled.code, &tr("Copy")).raw("</details></li>");
        before = after.need;
    }
    markup.raw("</ol>");
    if count > 0 {
        let label = tr(if count == 1 { "Apply it" } else { "Apply all" });
        markup.button("button button-accent", "apply-plan", &label);
        let least = tr(
            "The least is what slows training down least and asks least of you, as far as is known; a single change below may save more and cost more.",
        );
        markup.around("<p class=\"hint\">", &least, "</p>");
    }
    markup.raw("</div>");
}
