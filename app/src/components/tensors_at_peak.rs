//! The tensors alive at the peak, largest first, and from when to when they live.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::report::LiveTensor;
use leptos::prelude::*;

use super::byte_size::ByteSize;
use super::capped::{ShowAll, shown};
use super::readout::class;
use crate::chart::Span;
use crate::text;

/// COUNT: tensors shown at first.
const FIRST: usize = 12;

/// A table of tensors.
#[component]
pub(crate) fn TensorsAtPeak(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let all = Signal::derive(move || {
        report.with(|report| report.as_ref().map_or(0, |report| report.live_at_peak.len()))
    });
    view! {
        <div class="tensors">
            <h3 class="label">"Largest tensors"</h3>
            <div class="scroll-sideways" tabindex="0" role="region" aria-label="Largest tensors">
                <table class="table">
                    <thead>
                        <tr>
                            <th scope="col" class="number">"size"</th>
                            <th scope="col">"what it is"</th>
                            <th scope="col">"made by"</th>
                            <th scope="col">"type"</th>
                            <th scope="col" class="tensors-life-head">"alive"</th>
                        </tr>
                    </thead>
                    <tbody>
                        {move || {
                            report
                                .get()
                                .map(|report| {
                                    let span = Span::of(&report.timeline, None);
                                    report
                                        .live_at_peak
                                        .iter()
                                        .take(shown(open.get(), FIRST))
                                        .map(|tensor| row(tensor, span, report.peak.event))
                                        .collect_view()
                                })
                        }}
                    </tbody>
                </table>
            </div>
            <ShowAll all first=FIRST open />
        </div>
    }
}

fn row(tensor: &LiveTensor, span: Span, peak: usize) -> impl IntoView + use<> {
    let owner = match (tensor.name.as_str(), tensor.module.as_str()) {
        ("", "") => text::category(tensor.category),
        ("", module) => module.to_owned(),
        (name, _) => name.to_owned(),
    };
    let kind = tensor.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
    let (title, kind_title) = (owner.clone(), kind.clone());
    let left = 100.0 * span.share(tensor.born).clamp(0.0, 1.0);
    let right = 100.0 * tensor.dies.map_or(1.0, |dies| span.share(dies).clamp(0.0, 1.0));
    let peak = 100.0 * span.share(peak).clamp(0.0, 1.0);
    view! {
        <tr>
            <td class="number">
                <ByteSize bytes=tensor.bytes />
            </td>
            <td class="tensors-owner" title=title>
                <span class=format!("swatch {}", class(tensor.category)) aria-hidden="true"></span>
                <span class="hidden-text">{text::category(tensor.category)} " "</span>
                {owner}
            </td>
            <td class="tensors-operator" title=tensor.operator.clone()>
                {tensor.operator.clone()}
            </td>
            <td class="tensors-type" title=kind_title>
                {kind}
            </td>
            <td class="tensors-life">
                <span class="life" aria-hidden="true">
                    <span
                        class=format!("life-span {}", class(tensor.category))
                        style:left=format!("{left}%")
                        style:width=format!("{}%", (right - left).max(1.5))
                    ></span>
                    <span class="life-peak" style:left=format!("{peak}%")></span>
                </span>
                <span class="hidden-text">{life(tensor)}</span>
            </td>
        </tr>
    }
}

fn life(tensor: &LiveTensor) -> String {
    match tensor.dies {
        Some(dies) => format!("from event {} to event {dies}", tensor.born),
        None => format!("from event {} to the end", tensor.born),
    }
}
