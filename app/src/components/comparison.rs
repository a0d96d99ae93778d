//! Compares two answers: a kept one, and the newest. Of the part of the program with the sections that few look at.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::sync::Arc;

use highwater_core::report::difference::{Difference, PhaseDifference, by_module, by_phase};
use highwater_core::trace::Category;
use highwater_core::{Config, Report};
use leptos::either::Either;
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::later::Draw;
use super::parts::{Leaving, size};
use crate::model::state::Kept;
use crate::words::format;
use crate::words::language::{fill, tr};
use crate::words::{self, Vocabulary};
use highwater_draw::stack::Stack;

/// COUNT: modules that are shown, at most.
const MODULES: usize = 8;

/// What draws comparisons.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn comparison() -> Result<Draw<ComparisonProps>, SplitLoaderError> {
    Ok(|props| Comparison(props).into_any())
}

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
    let keep = Callback::new(move |()| {
        let report = report.get_untracked();
        kept.set(report.map(|report| Kept { name: name.get_untracked(), report }));
    });
    let back = move |_| {
        if let Some(kept) = kept.get_untracked() {
            on_config.run(kept.report.config.clone());
        }
    };
    let invite = move || {
        view! {
            <div class="comparison-invite">
                <p>
                    {tr("Keep this answer, then change a setting or open another model: both are drawn on the same axes.")}
                </p>
                <Leaving id="keep" class="button" label=tr("Keep this answer") next="#keep" on_press=keep />
            </div>
        }
    };
    let two_columns = move |other: &Kept, report: &Report| {
        let (lead, said, is_back) = what(other, report, &name.get());
        view! {
            <div class="comparison-what">
                <p>
                    <span class="comparison-line" aria-hidden="true"></span>
                    <strong>{lead}</strong>
                    " "
                    {said}
                </p>
                {is_back
                    .then(|| {
                        view! {
                            <button type="button" class="button" id="back" on:click=back>
                                {tr("Restore its settings")}
                            </button>
                        }
                    })}
                <button type="button" class="button" id="keep" on:click=move |_| keep.run(())>
                    {tr("Keep the newest instead")}
                </button>
                <Leaving
                    id="end"
                    class="button"
                    label=tr("Stop comparing")
                    next="#comparison-title"
                    on_press=Callback::new(move |()| kept.set(None))
                />
            </div>
            {table(&other.report, report)}
        }
    };
    view! {
        <section class="panel comparison" aria-labelledby="comparison-title">
            <div class="panel-head">
                <h2 class="panel-title" id="comparison-title">{tr("Compare")}</h2>
            </div>
            {move || report.get().map(|report| match kept.get() {
                None => Either::Left(invite()),
                Some(kept) => Either::Right(two_columns(&kept, &report)),
            })}
        </section>
    }
}

/// What is compared, in two sentences; and whether there are settings to go back to.
fn what(kept: &Kept, report: &Report, name: &str) -> (String, String, bool) {
    let are_simulated = [&kept.report, report].iter().all(|report| report.recorded.is_none());
    let mut changes = words::comparison::changed(&kept.report.config, &report.config);
    if !are_simulated {
        // The settings say nothing of what was recorded.
        changes.clear();
    }
    let is_same_model = kept.name == name && are_simulated;
    let lead = fill("Kept: {name}", &[("name", &kept.name)]);
    let said = match (is_same_model, changes.is_empty()) {
        (true, true) => tr("Nothing differs yet: change a setting, or open another model."),
        (true, false) => changes,
        (false, true) => fill("Now: {name}", &[("name", &name)]),
        (false, false) => fill("Now: {name}, {changes}", &[("name", &name), ("changes", &changes)]),
    };
    (lead, said, is_same_model && kept.report.config != report.config)
}

fn table(kept: &Report, report: &Report) -> impl IntoView + use<> {
    let groups: Vec<_> = groups(kept, report).into_iter().filter_map(group).collect();
    view! {
        <table class="table comparison-table">
            <caption class="hidden-text">{tr("The kept answer and the newest")}</caption>
            <thead>
                <tr>
                    <td></td>
                    <th scope="col" class="number comparison-kept">{tr("kept")}</th>
                    <th scope="col" class="number">{tr("now")}</th>
                    <th scope="col" class="number">{tr("difference")}</th>
                </tr>
            </thead>
            {groups}
        </table>
    }
}

/// Rows of the table, under a title where they have one.
type Group = (Option<String>, Vec<Difference>);

fn groups(kept: &Report, report: &Report) -> Vec<Group> {
    let peak = |name: &str, before, after| Difference { name: tr(name), before, after };
    let peaks = vec![
        peak("Peak allocated", kept.peak.allocated, report.peak.allocated),
        peak("Peak reserved", kept.peak.reserved, report.peak.reserved),
        peak("Process peak", kept.peak.process, report.peak.process),
    ];
    let mut groups = vec![(None, peaks)];
    let vocabulary = Vocabulary::of(report);
    // Origins are not what categories are, and lines of code not what modules are.
    if Vocabulary::of(kept) == vocabulary {
        let title = |stack| fill("At the peak, {how}", &[("how", &vocabulary.stacked(stack))]);
        let category = |category| Difference {
            name: vocabulary.category(category),
            before: kept.at_peak.get(category),
            after: report.at_peak.get(category),
        };
        let categories = Category::ALL.map(category).into_iter().filter(|row| row.size().0 > 0);
        groups.push((Some(title(Stack::Category)), categories.collect()));
        let mut modules = by_module(kept, report);
        modules.truncate(MODULES);
        for module in &mut modules {
            if module.name.is_empty() {
                module.name = tr("no module");
            }
        }
        groups.push((Some(title(Stack::Module)), modules));
    }
    if kept.recorded.is_some() || report.recorded.is_some() {
        let title = tr("The highest moment of each phase, and what differs there");
        let rows = by_phase(kept, report).into_iter().map(|row| phase(&row, vocabulary));
        groups.push((Some(title), rows.collect()));
    }
    groups
}

/// The highest moment of a phase that both have.
fn phase(row: &PhaseDifference, vocabulary: Vocabulary) -> Difference {
    let mut name = words::moment(row.phase, row.iteration);
    if let Some((category, _)) = row.mostly {
        let mostly = vocabulary.category(category);
        name = fill("{phase}: mostly {what}", &[("phase", &name), ("what", &mostly)]);
    }
    Difference { name, before: row.before, after: row.after }
}

fn group((title, rows): Group) -> Option<impl IntoView> {
    let title = title.map(|title| {
        view! {
            <tr>
                <th colspan="4" scope="rowgroup">{title}</th>
            </tr>
        }
    });
    let is_empty = rows.is_empty();
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| {
            view! {
                <tr>
                    <th scope="row">{row.name}</th>
                    <td class="number comparison-kept">{size(row.before)}</td>
                    <td class="number">{size(row.after)}</td>
                    <td class="number comparison-more">{format::difference(row.after, row.before)}</td>
                </tr>
            }
        })
        .collect();
    (!is_empty).then(|| view! { <tbody>{title}{rows}</tbody> })
}
