//! What was alive at the peak: by category, by module, tensor by tensor.

use std::sync::Arc;

use highwater_core::Report;
use leptos::prelude::*;

use super::category_bar::CategoryBar;
use super::modules_at_peak::ModulesAtPeak;
use super::tensors_at_peak::TensorsAtPeak;

/// The breakdown of the high-water mark.
#[component]
pub(crate) fn AtPeak(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    view! {
        <section class="panel at-peak" aria-labelledby="at-peak-title">
            <div class="panel-head">
                <h2 class="panel-title" id="at-peak-title">
                    "Alive at the peak"
                </h2>
                <p class="panel-note">
                    {move || {
                        report
                            .with(|report| {
                                report
                                    .as_ref()
                                    .map(|report| {
                                        format!("{} requested in all", report.at_peak.total())
                                    })
                            })
                    }}
                </p>
            </div>
            <div class="at-peak-parts">
                <CategoryBar report />
                <ModulesAtPeak report />
                <TensorsAtPeak report />
            </div>
        </section>
    }
}
