//! What the answer rests on: assumptions, recoveries, gaps.

use highwater_core::sorted;
use std::sync::Arc;

use highwater_core::Report;
use highwater_core::diagnostic::{Diagnostic, Severity};
use leptos::prelude::*;

use super::capped::{ShowAll, shown};
use crate::language::tr;
use crate::text;

/// COUNT: diagnostics shown at first.
const FIRST: usize = 8;

/// Diagnostics, the heaviest first.
#[component]
pub(crate) fn Diagnostics(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let all = Signal::derive(move || {
        report.with(|report| report.as_ref().map_or(0, |report| report.diagnostics.len()))
    });
    view! {
        <section class="panel rests-on" id="rests-on" tabindex="-1" aria-labelledby="rests-on-title">
            <div class="panel-head">
                <h2 class="panel-title" id="rests-on-title">
                    {tr("What this rests on")}
                </h2>
            </div>
            <ul class="rests-on-rows">
                {move || {
                    report
                        .get()
                        .map(|report| {
                            let mut diagnostics: Vec<_> = report.diagnostics.iter().collect();
                            sorted::by_key(&mut diagnostics, |d| std::cmp::Reverse(d.severity));
                            diagnostics
                                .into_iter()
                                .take(shown(open.get(), FIRST))
                                .map(row)
                                .collect_view()
                        })
                }}
                <Show when=move || all.get() == 0>
                    <li class="rests-on-nothing">{tr("Nothing had to be assumed or left out.")}</li>
                </Show>
            </ul>
            <ShowAll all first=FIRST open />
        </section>
    }
}

fn row(diagnostic: &Diagnostic) -> impl IntoView + use<> {
    let (class, sign) = match diagnostic.severity {
        Severity::Info => ("severity severity-info", "i"),
        Severity::Warning => ("severity severity-warning", "!"),
        Severity::Error => ("severity severity-error", "✕"),
    };
    let node = diagnostic.node.clone().map(|node| {
        let title = node.clone();
        view! {
            <code class="rests-on-node" title=title>
                {node}
            </code>
        }
    });
    view! {
        <li>
            <span class=class>
                <span class="severity-sign" aria-hidden="true">
                    {sign}
                </span>
                {text::severity(diagnostic.severity)}
            </span>
            <p class="rests-on-message" title=diagnostic.code.clone()>
                {text::sentence(&diagnostic.message)}
                {node}
            </p>
        </li>
    }
}
