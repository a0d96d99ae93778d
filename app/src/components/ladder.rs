//! From the figure on the box to what is left for tensors: why a card of 80 GB holds less.

use std::sync::Arc;

use highwater_core::device::Provenance;
use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use crate::format::share;
use crate::language::{fill, tr};
use crate::state::DeviceRow;

/// The steps from a card's nameplate down to what this run leaves free.
#[component]
pub(crate) fn Ladder(
    /// The report, whose device it is about.
    report: Signal<Option<Arc<Report>>>,
    /// Every device.
    devices: Signal<Vec<DeviceRow>>,
) -> impl IntoView {
    move || {
        report.get().map(|report| {
            let device = &report.verdict;
            let nameplate = devices.with(|rows| {
                rows.iter().find_map(|row| {
                    row.device.with_value(|known| {
                        (known.id == device.id).then(|| known.nameplate.clone())
                    })
                })
            });
            let mut rungs = Rungs { whole: device.capacity, left: device.capacity, rows: vec![] };
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
            let room = rungs.left;
            let reserved = report.peak.reserved;
            let why = tr("segments of the caching allocator");
            rungs.take(tr("less what this run reserves"), why, reserved);
            if reserved <= room {
                rungs.state(tr("stays free"), String::new());
            } else {
                let missing = fill("{size} are missing", &[("size", &(reserved - room))]);
                rungs.state(tr("stays free"), missing);
            }
            let parts: [(&str, &dyn std::fmt::Display); 3] =
                [("gpu", &device.name), ("box", &nameplate.unwrap_or_default()), ("room", &room)];
            view! {
                <details class="ladder">
                    <summary>
                        {fill("{gpu}: {box} on the box, {room} for your tensors. Why?", &parts)}
                    </summary>
                    <ol class="ladder-rungs">{rungs.rows}</ol>
                </details>
            }
        })
    }
}

/// Steps down from the whole.
struct Rungs {
    whole: Bytes,
    left: Bytes,
    rows: Vec<AnyView>,
}

impl Rungs {
    /// Says what is left.
    fn state(&mut self, name: String, why: String) {
        let row = rung(name, why, self.left, self.left, self.whole);
        self.rows.push(row);
    }

    /// Takes some of what is left.
    fn take(&mut self, name: String, why: String, bytes: Bytes) {
        let row = rung(name, why, bytes, self.left, self.whole);
        self.rows.push(row);
        self.left = self.left.saturating_sub(bytes);
    }
}

/// One step: so much of what was there before, drawn where it lies in the whole.
fn rung(name: String, why: String, bytes: Bytes, before: Bytes, whole: Bytes) -> AnyView {
    let end = share(before, whole).min(100.0);
    let width = share(bytes, whole).min(end);
    view! {
        <li class="ladder-rung">
            <span class="ladder-name">{name}</span>
            <ByteSize bytes />
            <span class="ladder-bar" aria-hidden="true">
                <span
                    class="ladder-part"
                    style:left=format!("{}%", end - width)
                    style:width=format!("{width}%")
                ></span>
            </span>
            <span class="ladder-why">{why}</span>
        </li>
    }
    .into_any()
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
