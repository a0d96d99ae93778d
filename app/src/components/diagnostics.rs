//! The basis of the answer: assumptions, recovered operators, gaps.

use highwater_core::order::InOrder as _;
use std::cmp::Reverse;
use std::sync::Arc;

use highwater_core::Report;
use highwater_core::config::Setting;
use highwater_core::diagnostic::{Diagnostic, Severity};
use highwater_core::report::{Certainty, Part};
use leptos::prelude::*;

use super::capped::{ShowAll, shown};
use super::parts::prose;
use crate::page::focus;
use crate::words;
use crate::words::format;
use crate::words::language::{fill, tr};

/// COUNT: diagnostics shown at first.
const FIRST: usize = 8;

/// Diagnostics, the heaviest first.
#[component]
pub(crate) fn Diagnostics(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let inside = move |report: Arc<Report>| {
        let mut diagnostics: Vec<_> = report.diagnostics.iter().collect();
        diagnostics.order_by_key(|diagnostic| Reverse(diagnostic.severity));
        let all = diagnostics.len();
        let rows: Vec<_> =
            diagnostics.into_iter().take(shown(open.get(), FIRST)).map(row).collect();
        let nothing = rows.is_empty().then(|| {
            view! { <li class="rests-on-nothing">{tr("Nothing had to be assumed or left out.")}</li> }
        });
        let certainty = report.certainty.as_ref().map(how_sure);
        view! {
            {certainty}
            <ul class="rests-on-rows">{rows}{nothing}</ul>
            <ShowAll all first=FIRST open />
        }
    };
    view! {
        <section id="rests-on" tabindex="-1" class="panel rests-on" aria-labelledby="rests-on-title">
            <div class="panel-head">
                <h2 class="panel-title" id="rests-on-title">{tr("Assumptions")}</h2>
                <p class="panel-note">{concat!("Highwater ", env!("CARGO_PKG_VERSION"))}</p>
            </div>
            {move || report.get().map(inside)}
        </section>
    }
}

/// How much of the peak rests on what, and what of it is not simply proven.
fn how_sure(certainty: &Certainty) -> impl IntoView + use<> {
    let total = certainty.total();
    let row = |Part { reason, bytes }: &Part| {
        view! {
            <li>
                <span class=["basis basis-", reason.basis().name()].concat()>
                    {tr(reason.basis().name())}
                </span>
                <p class="rests-on-message">
                    {prose(&words::stated(&reason.what()))}
                    <span class="rests-on-bytes">
                        {bytes.short()} " · " {format::percent(*bytes, total)}
                    </span>
                </p>
            </li>
        }
    };
    let rows: Vec<_> = certainty.at_peak().map(row).collect();
    view! {
        <p class="rests-on-lead">{words::certainty(certainty)}</p>
        <ul class="rests-on-rows">{rows}</ul>
    }
}

fn row(diagnostic: &Diagnostic) -> impl IntoView + use<> {
    let (class, sign) = match diagnostic.severity {
        Severity::Info => ("severity severity-info", "i"),
        Severity::Warning => ("severity severity-warning", "!"),
        Severity::Error => ("severity severity-error", "✕"),
    };
    let settled_by = Setting::that_settles(&diagnostic.code).map(|setting| {
        let decide = move |_| focus::reveal(setting.name);
        view! {
            <button type="button" class="link-button rests-on-settle" on:click=decide>
                {fill("Choose {setting}", &[("setting", &tr(setting.label))])}
            </button>
        }
    });
    let node = diagnostic.node.clone().map(|node| {
        let title = node.clone();
        view! { <code class="rests-on-node" title=title>{node}</code> }
    });
    view! {
        <li>
            <span class=class>
                <span class="severity-sign" aria-hidden="true">{sign}</span>
                {words::severity(diagnostic.severity)}
            </span>
            <p class="rests-on-message" title=diagnostic.code.clone()>
                {prose(&words::stated(&diagnostic.message))}
                {node} " " {settled_by}
            </p>
        </li>
    }
}
