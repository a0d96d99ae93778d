//! The peaks as figures, each under `PyTorch`'s own name.

use std::sync::Arc;

use highwater_core::device::Provenance;
use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::drawn::terms;
use super::markup::Markup;
use crate::words::language::{fill, tr};

/// The peaks that `PyTorch` and `nvidia-smi` would report.
#[component]
pub(crate) fn Figures(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    terms(
        "figures",
        Signal::derive(move || report.with(|r| Some(drawn(r.as_ref()?))).unwrap_or_default()),
    )
}

fn drawn(report: &Report) -> String {
    let (peak, device) = (&report.peak, &report.verdict);
    let mut markup = Markup::default();
    let name = tr("Peak allocated");
    figure(&mut markup, &name, "max_memory_\u{200b}allocated()", peak.allocated, None);
    let low = report.without_workspaces.map(|band| band.reserved);
    let name = tr("Peak reserved");
    figure(&mut markup, &name, "max_memory_\u{200b}reserved()", peak.reserved, low);
    let (name, says) = (tr("Process peak"), tr("≈ what nvidia-smi shows"));
    figure(&mut markup, &name, &says, peak.process, None);
    let (name, says) = (tr("CUDA context"), context_from(device.context_from));
    figure(&mut markup, &name, &says, device.context, None);
    markup.done()
}

/// A value, where else one meets it, and its lower end where it is the upper end of a band.
fn figure(markup: &mut Markup, name: &str, says: &str, bytes: Bytes, low: Option<Bytes>) {
    markup.around("<div class=\"figure\"><dt class=\"label\">", name, "</dt>");
    markup.raw("<dd class=\"figure-value\">").size(bytes).raw("</dd>");
    if let Some(low) = low.filter(|&low| low < bytes) {
        let why = tr("What convolutions take for scratch depends on cuDNN's version");
        let low = fill("at least {size}, by cuDNN", &[("size", &low)]);
        markup.around("<dd class=\"figure-says\" title=\"", &why, "\">").around("", &low, "</dd>");
    }
    markup.around("<dd class=\"figure-says\">", says, "</dd></div>");
}

/// Where the size of the context comes from.
fn context_from(provenance: Provenance) -> String {
    tr(match provenance {
        Provenance::Given => "taken by CUDA itself; as you say",
        Provenance::Reported => "taken by CUDA itself; as reported",
        Provenance::FittedThere | Provenance::Fitted | Provenance::Assumed => {
            "taken by CUDA itself; a fit"
        }
    })
}
