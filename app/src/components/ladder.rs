//! The steps from a GPU's nameplate size to the memory for tensors: why 80 GB on the box are less in use.

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::device::Provenance;
use highwater_core::{Bytes, Report};
use highwater_draw::ladder::{self, Rung, Step};
use leptos::html;
use leptos::prelude::*;

use super::canvas::paint;
use super::parts::size;
use crate::model::theme::Theme;
use crate::words::language::{fill, tr};

/// CSS pixels of a bar as it is drawn; the style sheet stretches it.
const BAR: (f64, f64) = (400.0, 10.0);

/// The steps from a card's nameplate down to what this run leaves free.
#[component]
#[expect(clippy::needless_pass_by_value, reason = "a component owns its properties")]
pub(crate) fn Ladder(
    /// The run.
    report: Arc<Report>,
    /// What the card has on its box.
    nameplate: String,
    /// The theme, whose colours are painted.
    theme: Signal<Theme>,
) -> impl IntoView {
    let device = &report.verdict;
    let usable = (device.usable() - device.context).short();
    let parts: [(&str, &dyn Display); 3] =
        [("gpu", &device.name), ("box", &nameplate), ("usable", &usable)];
    let summary = fill("{gpu}: {box} on the box, {usable} usable for tensors. Why?", &parts);
    let capacity = device.capacity;
    let rungs = ladder::rungs(device, report.peak.reserved);
    let rungs = rungs.into_iter().map(|rung| {
        let (name, why) = words(&report, &rung);
        let bytes = rung.bytes;
        let canvas = NodeRef::<html::Canvas>::new();
        Effect::new(move |_| {
            theme.track();
            // A browser without a canvas still has the figures.
            let _painted = canvas.get().and_then(|canvas| {
                paint(&canvas, BAR, |pen, area| ladder::draw(pen, area, capacity, &rung))
            });
        });
        view! {
            <li class="ladder-rung">
                <span class="ladder-name">{name}</span>
                {size(bytes)}
                <canvas class="ladder-bar" aria-hidden="true" node_ref=canvas></canvas>
                <span class="ladder-why">{why}</span>
            </li>
        }
    });
    view! {
        <details class="ladder" id="ladder">
            <summary>{summary}</summary>
            <ol class="ladder-rungs">{rungs.collect_view()}</ol>
        </details>
    }
}

/// What a step is called, and where its figure comes from.
fn words(report: &Report, rung: &Rung) -> (String, String) {
    let device = &report.verdict;
    match rung.step {
        Step::Capacity => (tr("PyTorch sees"), capacity_from(device.capacity_from)),
        Step::Context => (tr("minus the CUDA context"), context_from(device.context_from)),
        Step::Others => (tr("minus other processes"), tr("your setting; nvidia-smi lists them")),
        Step::Beyond => {
            (tr("minus memory that the process may not use"), tr("set_per_process_memory_fraction"))
        }
        Step::Reserved => {
            (tr("minus memory that this run reserves"), tr("segments of the caching allocator"))
        }
        Step::Free => {
            let usable = device.usable() - device.context;
            let missing = match report.peak.reserved.saturating_sub(usable) {
                Bytes::ZERO => String::new(),
                missing => fill("{size} are missing", &[("size", &missing.short())]),
            };
            (tr("stays free"), missing)
        }
    }
}

fn capacity_from(provenance: Provenance) -> String {
    tr(match provenance {
        Provenance::Given => "your setting",
        Provenance::Reported => "reported in public logs; the driver uses the rest",
        Provenance::FittedThere | Provenance::Fitted | Provenance::Assumed => {
            "assumed from similar GPUs; the driver uses the rest"
        }
    })
}

fn context_from(provenance: Provenance) -> String {
    tr(match provenance {
        Provenance::Given => "your setting",
        Provenance::Reported => "measured on this GPU",
        Provenance::FittedThere => "kernels and libraries; fitted to 14 GPUs, including this one",
        Provenance::Fitted | Provenance::Assumed => "kernels and libraries; fitted to 14 GPUs",
    })
}
