//! From the figure on the box to what is left for tensors: why a card of 80 GB holds less.

use std::fmt::Display;

use highwater_core::device::Provenance;
use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::parts::size;
use crate::words::format::{length, share};
use crate::words::language::{fill, tr};

/// The steps from a card's nameplate down to what this run leaves free.
pub(super) fn ladder(report: &Report, nameplate: &str) -> impl IntoView + use<> {
    let device = &report.verdict;
    let room = device.usable() - device.context;
    let parts: [(&str, &dyn Display); 3] =
        [("gpu", &device.name), ("box", &nameplate), ("room", &room)];
    let summary = fill("{gpu}: {box} on the box, {room} for your tensors. Why?", &parts);
    let mut rungs = Rungs { whole: device.capacity, left: device.capacity, steps: Vec::new() };
    rungs.state(tr("PyTorch sees"), capacity_from(device.capacity_from));
    let context = context_from(device.context_from);
    rungs.take(tr("less the CUDA context"), context, device.context);
    if device.other_processes > Bytes::ZERO {
        let why = tr("as you say; nvidia-smi lists them");
        rungs.take(tr("less other processes"), why, device.other_processes);
    }
    if let Some(allowed) = device.allowed {
        let why = tr("set_per_process_memory_fraction");
        let beyond = rungs.left.saturating_sub(allowed);
        rungs.take(tr("less what the process may not use"), why, beyond);
    }
    let reserved = report.peak.reserved;
    let why = tr("segments of the caching allocator");
    rungs.take(tr("less what this run reserves"), why, reserved);
    let missing = match reserved.saturating_sub(room) {
        Bytes::ZERO => String::new(),
        missing => fill("{size} are missing", &[("size", &missing)]),
    };
    rungs.state(tr("stays free"), missing);
    view! {
        <details class="ladder" id="ladder">
            <summary>{summary}</summary>
            <ol class="ladder-rungs">{rungs.steps}</ol>
        </details>
    }
}

/// Steps down from the whole.
struct Rungs {
    whole: Bytes,
    left: Bytes,
    steps: Vec<AnyView>,
}

impl Rungs {
    /// Says what is left.
    fn state(&mut self, name: String, why: String) {
        self.rung(name, why, self.left);
    }

    /// Takes some of what is left.
    fn take(&mut self, name: String, why: String, bytes: Bytes) {
        self.rung(name, why, bytes);
        self.left = self.left.saturating_sub(bytes);
    }

    /// One step: so much of what was there before, drawn where it lies in the whole.
    fn rung(&mut self, name: String, why: String, bytes: Bytes) {
        let end = share(self.left, self.whole).min(100.0);
        let width = share(bytes, self.whole).min(end);
        let (left, width) = (length(end - width) + "%", length(width) + "%");
        let rung = view! {
            <li class="ladder-rung">
                <span class="ladder-name">{name}</span>
                {size(bytes)}
                <span class="ladder-bar" aria-hidden="true">
                    <span class="ladder-part" style:left=left style:width=width></span>
                </span>
                <span class="ladder-why">{why}</span>
            </li>
        };
        self.steps.push(rung.into_any());
    }
}

fn capacity_from(provenance: Provenance) -> String {
    tr(match provenance {
        Provenance::Given => "as you say",
        Provenance::Reported => "as it reported in public logs; the driver keeps the rest",
        Provenance::FittedThere | Provenance::Fitted | Provenance::Assumed => {
            "assumed from cards of its kind; the driver keeps the rest"
        }
    })
}

fn context_from(provenance: Provenance) -> String {
    tr(match provenance {
        Provenance::Given => "as you say",
        Provenance::Reported => "as measured on this card",
        Provenance::FittedThere => {
            "kernels and libraries; a line through 14 cards, this one among them"
        }
        Provenance::Fitted | Provenance::Assumed => {
            "kernels and libraries; a line through 14 cards"
        }
    })
}
