//! What would help: changes that need less memory, each simulated, and a search for the least of them.

use std::cmp::Reverse;
use std::sync::Arc;

use highwater_core::{Config, Report, sorted};
use leptos::prelude::*;

use super::drawn::{Act, Drawn};
use super::fit_search;
use super::gpu_table::verdict_class;
use super::markup::Markup;
use crate::model::protocol::SearchOutcome;
use crate::model::state::{Applied, Effected, SearchState};
use crate::words::format;
use crate::words::language::{fill, tr};
use crate::words::levers as words;

/// Levers, those that save most first.
#[component]
pub(crate) fn WhatHelps(
    /// What each lever leads to, as far as it is known.
    levers: RwSignal<Vec<Option<Arc<Effected>>>>,
    /// The report that they change.
    report: Signal<Option<Arc<Report>>>,
    /// The request that the report answers.
    #[prop(into)]
    generation: Signal<u64>,
    /// How far the search has come.
    search: RwSignal<Option<SearchState>>,
    /// The settings as they are.
    config: RwSignal<Config>,
    /// What was applied here.
    applied: RwSignal<Vec<Applied>>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
    /// A search is wanted, or none any more.
    on_search: Callback<bool>,
) -> impl IntoView {
    let undoable = Signal::derive(move || {
        let last = applied.with(|applied| applied.last().cloned());
        last.filter(|last| config.with(|config| *config == last.after))
    });
    let apply = move |title: String, after: Config| {
        let before = config.get_untracked();
        if before == after {
            return;
        }
        applied.update(|applied| applied.push(Applied { title, before, after: after.clone() }));
        on_config.run(after);
    };
    let on_act = Callback::new(move |act: Act| match act.name.as_str() {
        "search" => on_search.run(true),
        "stop" => on_search.run(false),
        "undo" => {
            if let Some(last) = undoable.get_untracked() {
                applied.update(|applied| drop(applied.pop()));
                on_config.run(last.before);
            }
        }
        "apply-plan" => {
            if let Some((title, config)) = search.with_untracked(|search| planned(search.as_ref()?))
            {
                apply(title, config);
            }
        }
        name => {
            let wanted = levers.with_untracked(|levers| {
                levers.iter().flatten().find(|known| known.pulled.id == name).cloned()
            });
            if let Some(known) = wanted {
                apply(tr(&known.pulled.title), known.pulled.config.clone());
            }
        }
    });
    let markup = Signal::derive(move || {
        let Some(report) = report.get() else { return String::new() };
        let mut markup = Markup::default();
        head(&mut markup, &report, undoable.get().as_ref());
        search.with(|search| fit_search::draw(&mut markup, &report, search.as_ref()));
        levers.with(|levers| rows(&mut markup, levers, generation.get()));
        markup.done()
    });
    // Spoken by those who do not see it: what was done, and what was found.
    let said = move || {
        let done = undoable.get().map(|last| words::applied(&last.title));
        let found = search.with(|search| words::outcome(search.as_ref()?, report.get().as_ref()?));
        done.or(found)
    };
    view! {
        <Drawn class="panel helps" labelledby="helps-title" markup on_act />
        <p class="hidden-text" role="status">
            {said}
        </p>
    }
}

/// What a plan is called, and the settings that it leads to.
fn planned(search: &SearchState) -> Option<(String, Config)> {
    let (SearchOutcome::Found(plan) | SearchOutcome::Nothing(plan)) = search.outcome.as_ref()?;
    let last = plan.steps.last()?;
    let titles: Vec<_> = plan.steps.iter().map(|step| tr(&step.title)).collect();
    Some((titles.join("; "), last.config.clone()))
}

fn head(markup: &mut Markup, report: &Report, undoable: Option<&Applied>) {
    let device = &report.verdict;
    let note = fill(
        "each simulated, by what {device} must hold: {need} as it is",
        &[("device", &device.name), ("need", &device.need)],
    );
    markup.raw("<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"helps-title\">");
    markup.around("", &tr("What would help"), "</h2><p class=\"panel-note\">");
    markup.around("", &note, "</p></div>");
    if let Some(last) = undoable {
        markup.around("<p class=\"helps-applied\"><span>", &words::applied(&last.title), "</span>");
        markup.raw(
            "<button type=\"button\" class=\"button\" id=\"undo\" data-act=\"undo\" data-next>",
        );
        markup.around("", &tr("Undo"), "</button></p>");
    }
}

/// Those that save something, the most first; the others in a sentence.
fn rows(markup: &mut Markup, levers: &[Option<Arc<Effected>>], generation: u64) {
    let known: Vec<&Effected> = levers.iter().flatten().map(Arc::as_ref).collect();
    let mut saving: Vec<(u64, &Effected)> = Vec::new();
    let mut useless = Vec::new();
    for lever in known {
        match lever.before.0.saturating_sub(lever.pulled.outcome.verdict.need.0) {
            0 => useless.push(tr(&lever.pulled.title)),
            saved => saving.push((saved, lever)),
        }
    }
    sorted::by_key(&mut saving, |&(saved, _)| Reverse(saved));
    markup.raw("<ol class=\"helps-rows\">");
    for (_, lever) in saving {
        row(markup, lever, lever.generation != generation);
    }
    markup.raw("</ol>");
    if !useless.is_empty() {
        let said =
            fill("By itself it saves nothing here to: {list}.", &[("list", &useless.join("; "))]);
        markup.around("<p class=\"helps-useless\">", &said, "</p>");
    }
}

fn row(markup: &mut Markup, lever: &Effected, is_stale: bool) {
    let Effected { before, pulled, .. } = lever;
    let (outcome, title) = (&pulled.outcome, tr(&pulled.title));
    let after = &outcome.verdict;
    markup.raw(if is_stale { "<li class=\"lever lever-stale\">" } else { "<li class=\"lever\">" });
    markup.raw("<span class=\"lever-saved\" title=\"").text(&format::exact(*before - after.need));
    markup.around("\">", &format::difference(after.need, *before), "</span>");
    markup.around("<div class=\"lever-what\"><p><strong>", &title, "</strong></p>");
    markup.around("<p class=\"hint\">", &words::cost(pulled.cost), "; ");
    markup.text(&words::moves_to(outcome)).raw("</p>");
    markup.unfold(&["code-", &pulled.id].concat(), &tr("Code"));
    markup.code(&pulled.code, &tr("Copy")).raw("</details></div><span class=\"lever-after\">");
    markup.around("<span>", &after.need.to_string(), "</span><span class=\"");
    markup.raw(verdict_class(after.verdict));
    markup.around("\">", &words::verdict(after.verdict), "</span></span>");
    markup.raw("<button type=\"button\" class=\"button lever-apply\" id=\"apply-").text(&pulled.id);
    markup.raw("\" data-act=\"").text(&pulled.id).around("\">", &tr("Apply"), "");
    markup.around("<span class=\"hidden-text\">: ", &title, "</span></button></li>");
}
