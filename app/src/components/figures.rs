//! The peaks as figures, each under `PyTorch`'s own name.

use std::sync::Arc;

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
                    <Figure name="Peak reserved" says="max_memory_\u{200b}reserved()" bytes=peak.reserved />
                    <Figure name="Process peak" says="≈ what nvidia-smi shows" bytes=peak.process />
                    <Figure name="CUDA context" says="taken by CUDA itself" bytes=report.verdict.context />
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
) -> impl IntoView {
    view! {
        <div class="figure">
            <dt class="label">{name}</dt>
            <dd class="figure-value">
                <ByteSize bytes />
            </dd>
            <dd class="figure-says">{says}</dd>
        </div>
    }
}
