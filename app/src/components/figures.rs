//! The peaks as figures, each under `PyTorch`'s own name.

use std::sync::Arc;

use highwater_core::device::Provenance;
use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::byte_size::ByteSize;

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
                    <Figure name="Peak allocated" says="max_memory_\u{200b}allocated()" bytes=peak.allocated />
                    <Figure
                        name="Peak reserved"
                        says="max_memory_\u{200b}reserved()"
                        bytes=peak.reserved
                        at_least=report.without_workspaces.map(|band| band.reserved)
                    />
                    <Figure name="Process peak" says="≈ what nvidia-smi shows" bytes=peak.process />
                    <Figure
                        name="CUDA context"
                        says=match report.verdict.context_from {
                            Provenance::Given => "taken by CUDA itself; as your card has it",
                            _ => "taken by CUDA itself; a fit",
                        }
                        bytes=report.verdict.context
                    />
                </dl>
            }
        })
    }
}

#[component]
fn Figure(
    /// Its name.
    name: &'static str,
    /// Where else one meets it.
    says: &'static str,
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
                            title="What convolutions take for scratch depends on cuDNN's version"
                        >
                            "at least "
                            {low.to_string()}
                            ", by cuDNN"
                        </dd>
                    }
                })}
            <dd class="figure-says">{says}</dd>
        </div>
    }
}
