//! Which modules own the memory at the peak.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::report::ModuleBytes;
use leptos::prelude::*;

use super::byte_size::ByteSize;
use super::capped::{ShowAll, shown};
use crate::format::share;

/// COUNT: modules shown at first.
const FIRST: usize = 8;

/// Modules and their bytes, largest first.
#[component]
pub(crate) fn ModulesAtPeak(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let all = Signal::derive(move || {
        report.with(|report| report.as_ref().map_or(0, |report| report.modules_at_peak.len()))
    });
    view! {
        <div class="modules">
            <h3 class="label">"By module"</h3>
            <ul class="modules-rows">
                {move || {
                    report
                        .get()
                        .map(|report| {
                            let modules = &report.modules_at_peak;
                            let whole = modules.first().map(|first| first.bytes).unwrap_or_default();
                            modules
                                .iter()
                                .take(shown(open.get(), FIRST))
                                .map(|module| row(module, share(module.bytes, whole)))
                                .collect_view()
                        })
                }}
            </ul>
            <ShowAll all first=FIRST open />
        </div>
    }
}

fn row(module: &ModuleBytes, width: f64) -> impl IntoView + use<> {
    let name = if module.module.is_empty() {
        "outside of any module".to_owned()
    } else {
        module.module.clone()
    };
    let title = name.clone();
    view! {
        <li>
            <span class="modules-name" title=title>
                {name}
            </span>
            <ByteSize bytes=module.bytes />
            <span class="modules-bar" aria-hidden="true">
                <span style:width=format!("{width}%")></span>
            </span>
        </li>
    }
}
