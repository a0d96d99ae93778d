//! The peaks as figures, each under `PyTorch`'s own name.

use std::sync::Arc;

use highwater_core::device::Provenance;
use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use crate::language::{fill, tr};

/// The peaks that `PyTorch` and `nvidia-smi` would report.
#[component]
pub(crate) fn Figures(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    move || {
        report.get().map(|report| {
            let peak = &report.peak;
            view! {
                <dl class="figures">
                    <Figure name=tr("Peak allocated") says="max_memory_\u{200b}allocated()".to_owned() bytes=peak.allocated />
                    <Figure
                        name=tr("Peak reserved")
                        says="max_memory_\u{200b}reserved()".to_owned()
                        bytes=peak.reserved
                        at_least=report.without_workspaces.map(|band| band.reserved)
                    />
                    <Figure name=tr("Process peak") says=tr("≈ what nvidia-smi shows") bytes=peak.process />
                    <Figure name=tr("CUDA context") says=context_from(report.verdict.context_from) bytes=report.verdict.context />
                </dl>
            }
        })
    }
}

#[component]
fn Figure(
    /// Its name.
    name: String,
    /// Where else one meets it.
    says: String,
    /// Its value.
    bytes: Bytes,
    /// The lower end, where the value is the upper end of a band.
    #[prop(optional_no_strip)]
    at_least: Option<Bytes>,
) -> impl IntoView {
    view! {
        <div class="figure">
            <dt class="label">{name}</dt>
            <dd class="figure-value">
                <ByteSize bytes />
            </dd>
            {at_least
                .filter(|low| *low < bytes)
                .map(|low| {
                    view! {
                        <dd
                            class="figure-says"
                            title=tr("What convolutions take for scratch depends on cuDNN's version")
                        >
                            {fill("at least {size}, by cuDNN", &[("size", &low)])}
                        </dd>
                    }
                })}
            <dd class="figure-says">{says}</dd>
        </div>
    }
}

/// Where the size of the context comes from.
fn context_from(provenance: Provenance) -> String {
    match provenance {
        Provenance::Given => tr("taken by CUDA itself; as you say"),
        Provenance::Reported => tr("taken by CUDA itself; as reported"),
        Provenance::FittedThere | Provenance::Fitted | Provenance::Assumed => {
            tr("taken by CUDA itself; a fit")
        }
    }
}
