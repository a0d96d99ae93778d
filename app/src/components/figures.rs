//! The peaks as figures, each under `PyTorch`'s own name.

use std::sync::Arc;

use highwater_core::device::{Interval, Provenance};
use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::parts::size;
use crate::words::language::{fill, tr};

/// The peaks that `PyTorch` and `nvidia-smi` would report.
#[component]
pub(crate) fn Figures(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    view! { <dl class="figures">{move || report.get().map(|report| inside(&report))}</dl> }
}

fn inside(report: &Report) -> impl IntoView + use<> {
    let (peak, device) = (&report.peak, &report.verdict);
    let (allocated, reserved) = ("max_memory_\u{200b}allocated()", "max_memory_\u{200b}reserved()");
    let low = report.without_workspaces.map(|band| band.reserved);
    let low = low.filter(|&low| low < peak.reserved);
    let low = low.map(|low| fill("{size} if cuDNN needs no workspace", &[("size", &low)]));
    let range = device.interval.map(|Interval { low, high }| {
        fill("{low} to {high} in 9 of 10 runs", &[("low", &low.short()), ("high", &high.short())])
    });
    let high = device
        .context_high
        .map(|high| fill("up to {size} on one machine in ten", &[("size", &high.short())]));
    [
        figure(tr("Peak allocated"), allocated.to_owned(), peak.allocated, None),
        figure(tr("Peak reserved"), reserved.to_owned(), peak.reserved, low),
        figure(tr("Process peak"), tr("≈ what nvidia-smi shows"), peak.process, range),
        figure(tr("CUDA context"), context_from(device.context_from), device.context, high),
    ]
    .collect_view()
}

/// A value, where else one meets it, and how far it may be off.
fn figure(name: String, says: String, bytes: Bytes, range: Option<String>) -> impl IntoView {
    let range = range.map(|range| view! { <dd class="figure-says">{range}</dd> });
    view! {
        <div class="figure">
            <dt class="label">{name}</dt>
            <dd class="figure-value">{size(bytes)}</dd>
            {range}
            <dd class="figure-says">{says}</dd>
        </div>
    }
}

/// Where the size of the context comes from.
fn context_from(provenance: Provenance) -> String {
    tr(match provenance {
        Provenance::Given => "used by CUDA itself (your setting)",
        Provenance::Reported => "used by CUDA itself (reported)",
        Provenance::FittedThere | Provenance::Fitted | Provenance::Assumed => {
            "used by CUDA itself (estimated)"
        }
    })
}
