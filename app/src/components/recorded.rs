//! A recorded run under other settings of the allocator.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::recorded::WhatIf;
use highwater_core::report::RecordedRun;
use leptos::either::Either;
use leptos::prelude::*;

use super::parts::{cell, column, prose};
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
    view! {
        <section class="panel what-ifs" aria-labelledby="what-ifs-title">
            <div class="panel-head">
                <h2 class="panel-title" id="what-ifs-title">
                    {tr("With other allocator settings")}
                </h2>
            </div>
            {move || {
                let report = report.get()?;
                Some(what_ifs.with(|what_ifs| match what_ifs.as_slice() {
                    [] | [_] => {
                        let waiting = tr("The same calls are being replayed…");
                        Either::Left(view! { <p class="hint">{waiting}</p> })
                    }
                    what_ifs => Either::Right(inside(&report, what_ifs)),
                }))
            }}
        </section>
    }
}

fn inside(report: &Report, what_ifs: &[WhatIf]) -> impl IntoView + use<> {
    let (own, recorded) = (words::baseline(what_ifs, report), report.peak.reserved);
    let is_prediction = report.recorded.as_ref().is_some_and(RecordedRun::is_prediction);
    let rows = what_ifs.iter().map(|outcome| {
        let reserved = outcome.replayed.reserved;
        let said = match words::is_own(outcome, report) {
            false => format::difference(reserved, own),
            true if is_prediction => tr("as it is set"),
            true if reserved == recorded => tr("as recorded"),
            true => fill("recorded: {size}", &[("size", &recorded)]),
        };
        view! {
            <tr>
                <th scope="row">
                    <code>{words::settings(&outcome.alloc_conf)}</code>
                </th>
                {cell(reserved)}
                <td class="number">{said}</td>
            </tr>
        }
    });
    view! {
        <p>{prose(&words::what_ifs(what_ifs, report))}</p>
        <table class="table">
            <caption class="hidden-text">{tr("What the same calls reserve")}</caption>
            <thead>
                <tr>
                    {column(tr("settings"), false)}
                    {column(tr("reserved"), true)}
                    {column(tr("difference"), true)}
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
        <p class="hint">
            {tr("Any other setting can be typed under \u{201c}Your GPU\u{201d}.")}
        </p>
    }
}
