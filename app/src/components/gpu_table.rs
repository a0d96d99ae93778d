//! Every GPU: what the run needs there against what it has, and how far the batch can go.

use highwater_core::sorted;
use std::cmp::Ordering;

use highwater_core::report::{DeviceVerdict, Verdict};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use crate::format::{self, grouped, share};
use crate::protocol::LargestBatch;
use crate::state::DeviceRow;

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Name,
    Capacity,
    Margin,
}

/// The table of GPUs.
#[component]
pub(crate) fn GpuTable(
    /// One row per device, in the order of the catalogue.
    #[prop(into)]
    devices: Signal<Vec<DeviceRow>>,
    /// The request that fresh verdicts belong to.
    #[prop(into)]
    generation: Signal<u64>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// Another device is wanted.
    on_choose: Callback<String>,
) -> impl IntoView {
    let sorting = RwSignal::new((Key::Capacity, false));
    let order = Memo::new(move |_| {
        let (key, descending) = sorting.get();
        devices.with(|rows| sorted(rows, key, descending))
    });
    let head = move |key: Key, name: &'static str| {
        let direction = move || match sorting.get() {
            (now, _) if now != key => "none",
            (_, false) => "ascending",
            (_, true) => "descending",
        };
        view! {
            <th scope="col" class:number=key != Key::Name aria-sort=direction>
                <button
                    type="button"
                    class="sort"
                    on:click=move |_| {
                        sorting.update(|(now, descending)| {
                            *descending = *now == key && !*descending;
                            *now = key;
                        });
                    }
                >
                    {name}
                    <span class="sort-sign" aria-hidden="true"></span>
                </button>
            </th>
        }
    };
    view! {
        <section class="panel gpus" aria-labelledby="gpus-title">
            <div class="panel-head">
                <h2 class="panel-title" id="gpus-title">
                    "GPUs"
                </h2>
                <p class="panel-note">"Need against what PyTorch can use on each card; choose one to see its timeline"</p>
            </div>
            <table class="table gpu-table">
                <thead>
                    <tr>
                        {head(Key::Name, "GPU")}
                        <th scope="col" class="gpu-bar-head">"need of capacity"</th>
                        <th scope="col">"verdict"</th>
                        <th scope="col" class="number gpu-need">"need"</th>
                        {head(Key::Capacity, "capacity")}
                        {head(Key::Margin, "margin")}
                        <th scope="col" class="number">"largest batch"</th>
                    </tr>
                </thead>
                <tbody>
                    <For
                        each=move || order.get()
                        key=|position| *position
                        children=move |position| {
                            devices
                                .with_untracked(|rows| rows.get(position).copied())
                                .map(|row| view! { <Row row generation chosen on_choose /> })
                        }
                    />
                </tbody>
            </table>
        </section>
    }
}

#[component]
fn Row(
    /// The device and what is known about it.
    row: DeviceRow,
    /// The request that fresh verdicts belong to.
    generation: Signal<u64>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// Another device is wanted.
    on_choose: Callback<String>,
) -> impl IntoView {
    let is_chosen = Memo::new(move |_| {
        chosen.with(|chosen| row.device.with_value(|device| device.id == *chosen))
    });
    let stale = move || {
        let fresh = generation.get();
        row.verdict.with(|known| known.as_ref().is_none_or(|(of, _)| *of != fresh))
    };
    let name = row.device.with_value(|device| device.name.clone());
    view! {
        <tr class:gpu-chosen=move || is_chosen.get() class:gpu-stale=stale>
            <th scope="row" class="gpu-name">
                <button
                    type="button"
                    aria-pressed=move || is_chosen.get().to_string()
                    on:click=move |_| on_choose.run(row.device.with_value(|d| d.id.clone()))
                >
                    {name}
                </button>
            </th>
            {move || {
                row.verdict
                    .with(|known| match known {
                        Some((_, verdict)) => cells(verdict).into_any(),
                        None => {
                            view! {
                                <td class="gpu-bar-cell"></td>
                                <td class="gpu-waiting">"…"</td>
                                <td class="number gpu-need"></td>
                                <td class="number gpu-capacity"></td>
                                <td class="number gpu-margin"></td>
                            }
                                .into_any()
                        }
                    })
            }}
            <td class="number gpu-batch">
                {move || {
                    row.largest
                        .with(|known| match known {
                            None => "…".to_owned(),
                            Some((_, LargestBatch::UpTo(batch))) => grouped(*batch),
                            Some((_, LargestBatch::None)) => "none".to_owned(),
                            Some((_, LargestBatch::Unknown)) => "–".to_owned(),
                        })
                }}
            </td>
        </tr>
    }
}

fn cells(known: &DeviceVerdict) -> impl IntoView + use<> {
    let used = share(known.need, known.usable());
    let class = verdict_class(known.verdict);
    let message = known.out_of_memory.as_ref().map(|oom| oom.message.clone());
    view! {
        <td class="gpu-bar-cell">
            <span class="gpu-bar" aria-hidden="true">
                <span class=format!("gpu-bar-need {class}") style:width=format!("{}%", used.min(100.0))></span>
            </span>
            <span class="gpu-bar-number">{format!("{used:.0}\u{a0}%")}</span>
        </td>
        <td class=format!("gpu-verdict {class}") title=message>
            <span class="gpu-verdict-sign" aria-hidden="true">
                {format::verdict_symbol(known.verdict)}
            </span>
            {format::verdict(known.verdict)}
        </td>
        <td class="number gpu-need">
            <ByteSize bytes=known.need />
        </td>
        <td class="number gpu-capacity">
            <ByteSize bytes=known.usable() />
        </td>
        <td class="number gpu-margin">{format::difference(known.usable(), known.need)}</td>
    }
}

const fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fits => "verdict-fits",
        Verdict::Tight => "verdict-tight",
        Verdict::FitsAfterFlush => "verdict-flush",
        Verdict::DoesNotFit => "verdict-fails",
    }
}

/// Positions of the rows in the order to show them; unknown ones last.
fn sorted(rows: &[DeviceRow], key: Key, descending: bool) -> Vec<usize> {
    let mut facts: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(position, row)| {
            let known = row.verdict.with(|known| {
                known
                    .as_ref()
                    .map(|(_, v)| (v.usable().0, i128::from(v.usable().0) - i128::from(v.need.0)))
            });
            (position, row.device.with_value(|device| device.name.clone()), known)
        })
        .collect();
    sorted::by(&mut facts, |left, right| {
        let order = match key {
            Key::Name => left.1.cmp(&right.1),
            Key::Capacity => unknown_last(left.2.map(|f| f.0), right.2.map(|f| f.0), descending),
            Key::Margin => unknown_last(left.2.map(|f| f.1), right.2.map(|f| f.1), descending),
        };
        let order = if descending { order.reverse() } else { order };
        order.then(left.0.cmp(&right.0))
    });
    facts.into_iter().map(|(position, ..)| position).collect()
}

fn unknown_last<T: Ord>(left: Option<T>, right: Option<T>, descending: bool) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => left.cmp(&right),
        (left, right) => {
            let order = left.is_none().cmp(&right.is_none());
            if descending { order.reverse() } else { order }
        }
    }
}
