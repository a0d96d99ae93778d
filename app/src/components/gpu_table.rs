//! Every GPU: the needed and the usable memory, and the largest batch.

use highwater_core::order::InOrder as _;
use std::cmp::Ordering;
use std::sync::Arc;

use highwater_core::Report;
use highwater_core::device::{Class, USUAL};
use highwater_core::report::{DeviceVerdict, Verdict};
use leptos::either::Either;
use leptos::prelude::*;

use super::ladder::Ladder;
use super::parts::size;
use crate::model::computed::Computed;
use crate::model::state::{DeviceRow, Searched};
use crate::model::theme::Theme;
use crate::words::format::{self, length, share};
use crate::words::language::{fill, tr};

/// COUNT: GPUs shown at first, and more where more stand on a card.
const FIRST: usize = 9;

/// COUNT: tenths of what is needed that a GPU near the limit has at most, and the other way round.
const NEAR: u64 = 20;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Line {
    /// The name of a class of GPUs.
    Head(Class),
    /// A device: its position in the catalogue.
    Row(usize),
}

/// COUNT: devices among the lines.
fn rows_of(lines: &[Line]) -> usize {
    lines.iter().filter(|line| matches!(line, Line::Row(_))).count()
}

/// The devices below the names of their classes, in the order that they have.
fn grouped_by_class(rows: &[DeviceRow], order: &[usize]) -> Vec<Line> {
    let class = |at: usize| rows.get(at).map(|row| row.device.with_value(|device| device.class));
    let mut lines = Vec::new();
    for wanted in Class::ALL {
        let found = order.iter().copied().filter(|&at| class(at) == Some(wanted));
        let found: Vec<Line> = found.map(Line::Row).collect();
        if !found.is_empty() {
            lines.push(Line::Head(wanted));
            lines.extend(found);
        }
    }
    lines
}

/// The devices that matter: those on the cards above, and those nearest to the line between fitting and not.
fn first(rows: &[DeviceRow], carded: impl Fn(&str) -> bool) -> Vec<usize> {
    let mut distances: Vec<(u64, usize)> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let is_carded = row.device.with_value(|device| carded(&device.id));
            let distance = row.verdict.with(|known| {
                let known = known.as_ref()?.last();
                let (need, usable) = (known.need.0, known.usable().0.max(1));
                Some(need.max(usable).saturating_mul(10) / need.min(usable).max(1))
            });
            (if is_carded { 0 } else { distance.unwrap_or(u64::MAX) }, at)
        })
        .collect();
    distances.order_by_key(|&(distance, at)| (distance, at));
    let carded = distances.iter().take_while(|&&(distance, _)| distance == 0).count();
    let near = distances.iter().filter(|&&(distance, _)| distance < NEAR).count();
    let shown = near.min(FIRST).max(carded);
    distances.into_iter().take(shown).map(|(_, at)| at).collect()
}

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Name,
    Capacity,
    Margin,
}

/// Which devices the table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    First,
    All,
    Survive,
    Fail,
}

impl Shown {
    const ALL: [Self; 4] = [Self::First, Self::All, Self::Survive, Self::Fail];

    const fn name(self) -> &'static str {
        match self {
            Self::First => "most relevant",
            Self::All => "all",
            Self::Survive => "it fits on",
            Self::Fail => "too small",
        }
    }

    /// Whether a device with this verdict is among them; one that is not known yet is.
    fn has(self, verdict: Option<Verdict>) -> bool {
        match self {
            Self::First | Self::All => true,
            Self::Survive => verdict.is_none_or(Verdict::survives),
            Self::Fail => verdict.is_none_or(Verdict::fails),
        }
    }
}

/// The table of GPUs.
#[component]
pub(crate) fn GpuTable(
    /// One row per device, in the order of the catalogue.
    #[prop(into)]
    devices: Signal<Vec<DeviceRow>>,
    /// The request whose verdicts count.
    #[prop(into)]
    current: Signal<Option<u64>>,
    /// The report, whose device the ladder is about.
    report: Signal<Option<Arc<Report>>>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// The user's own GPU.
    #[prop(into)]
    mine: Signal<Option<String>>,
    /// The theme, whose colours are painted.
    theme: Signal<Theme>,
    /// Another device is wanted.
    on_choose: Callback<String>,
) -> impl IntoView {
    let sorting = RwSignal::new((Key::Capacity, false));
    let shown = RwSignal::new(Shown::First);
    let wanted = RwSignal::new(String::new());
    let order = Memo::new(move |_| {
        let (key, descending) = sorting.get();
        let wanted = wanted.with(|wanted| wanted.trim().to_ascii_lowercase());
        let (chosen, mine) = (chosen.get(), mine.get());
        let carded = |id: &str| USUAL.contains(&id) || id == chosen || mine.as_deref() == Some(id);
        devices.with(|rows| {
            let is_near = |at: usize| match shown.get() {
                Shown::First => wanted.is_empty() && first(rows, carded).contains(&at),
                shown => rows.get(at).is_some_and(|row| {
                    // A row keeps its place until its verdict is there.
                    let last = row.verdict.with(|known| Some(known.as_ref()?.last().verdict));
                    shown.has(last)
                }),
            };
            let mut order = sorted(rows, key, descending);
            order.retain(|&position| {
                rows.get(position).is_some_and(|row| {
                    let name = row.device.with_value(|device| device.name.to_ascii_lowercase());
                    let is_named = !wanted.is_empty() && name.contains(&wanted);
                    is_named || (wanted.is_empty() && is_near(position))
                })
            });
            grouped_by_class(rows, &order)
        })
    });
    let nameplate = move |id: &str| {
        devices.with(|rows| {
            let row = rows.iter().find(|row| row.device.with_value(|known| known.id == id));
            row.map(|row| row.device.with_value(|known| known.nameplate.clone()))
        })
    };
    let device_row = move |line: Line| match line {
        Line::Head(class) => Either::Left(view! {
            <tr class="gpu-class">
                <th scope="colgroup" colspan="7">{tr(class.label())}</th>
            </tr>
        }),
        Line::Row(at) => {
            let row = devices.with_untracked(|rows| rows.get(at).copied());
            Either::Right(row.map(|row| view! { <Row row current chosen on_choose /> }))
        }
    };
    view! {
        <section class="panel gpus" aria-labelledby="gpus-title">
            <div class="panel-head">
                <h2 class="panel-title" id="gpus-title">{tr("GPUs")}</h2>
                <p class="panel-note">
                    {tr("Need against usable memory; choose a GPU to see the answer for it")}
                </p>
            </div>
            <div class="gpu-filter">
                <div class="choice" role="group" aria-label=tr("GPUs shown")>
                    {Shown::ALL
                        .map(|which| {
                            view! {
                                <button
                                    type="button"
                                    aria-pressed=move || (shown.get() == which).to_string()
                                    on:click=move |_| shown.set(which)
                                >
                                    {tr(which.name())}
                                </button>
                            }
                        })
                        .collect_view()}
                </div>
                <input
                    type="search"
                    class="gpu-search"
                    aria-label=tr("Search for a GPU")
                    placeholder=tr("Search")
                    on:input:target=move |event| wanted.set(event.target().value())
                />
                <p class="hidden-text" role="status">
                    {move || fill("{n} GPUs shown", &[("n", &order.with(|lines| rows_of(lines)))])}
                </p>
            </div>
            <table class="table gpu-table">
                <thead>
                    <tr>{heads(sorting)}</tr>
                </thead>
                <tbody>
                    <For each=move || order.get() key=|&line| line children=device_row />
                </tbody>
            </table>
            <p class="gpu-none" hidden=move || order.with(|order| !order.is_empty())>
                {tr("No GPU matches.")}
            </p>
            <div class="gpu-ladder" class:waiting=move || current.get().is_none()>
                {move || {
                    let report = report.get()?;
                    let nameplate = nameplate(&report.verdict.id).unwrap_or_default();
                    Some(view! { <Ladder report nameplate theme /> })
                }}
            </div>
        </section>
    }
}

/// The heads of the columns; those that sort say whether they do and which way.
fn heads(sorting: RwSignal<(Key, bool)>) -> impl IntoView {
    [
        ("", Some(Key::Name), "GPU"),
        ("gpu-bar-head", None, "need of capacity"),
        ("", None, "verdict"),
        ("number gpu-need", None, "need"),
        ("number", Some(Key::Capacity), "capacity"),
        ("number", Some(Key::Margin), "margin"),
        ("number", None, "largest batch"),
    ]
    .map(|(class, key, name)| match key {
        None => Either::Left(view! { <th scope="col" class=class>{tr(name)}</th> }),
        Some(key) => {
            let direction = move || match sorting.get() {
                (now, _) if now != key => "none",
                (_, false) => "ascending",
                (_, true) => "descending",
            };
            let turn = move |_| {
                sorting.update(|(now, descending)| {
                    *descending = *now == key && !*descending;
                    *now = key;
                });
            };
            Either::Right(view! {
                <th scope="col" class=class aria-sort=direction>
                    <button type="button" class="sort" on:click=turn>
                        {tr(name)}
                        <span class="sort-sign" aria-hidden="true"></span>
                    </button>
                </th>
            })
        }
    })
    .collect_view()
}

/// One device, and what is known of it.
#[component]
fn Row(
    /// The device.
    row: DeviceRow,
    /// The request whose verdicts count.
    current: Signal<Option<u64>>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// It is wanted.
    on_choose: Callback<String>,
) -> impl IntoView {
    let device = row.device.get_value();
    let (id, wanted) = (device.id.clone(), device.id.clone());
    let is_chosen = Memo::new(move |_| chosen.with(|chosen| *chosen == id));
    let batch = move || {
        let current = current.get();
        match row.reach(current) {
            Searched::Pending => "…".to_owned(),
            Searched::Done(None) => "–".to_owned(),
            Searched::Done(Some(largest)) => {
                let is_bound = row.known_verdict(current) == Some(Verdict::NotKnown);
                let most = if is_bound { "≤\u{a0}" } else { "" };
                let size = largest.likely.or(largest.without_flush);
                size.map_or_else(|| tr("none"), |batch| [most, &format::batch(batch)].concat())
            }
        }
    };
    let flushing = move || {
        let largest = row.reach(current.get()).found();
        let farther = largest.map(|largest| {
            let best = largest.without_flush.filter(|_| largest.likely != largest.without_flush);
            let best = best.map(|batch| fill("{n} at best", &[("n", &format::batch(batch))]));
            let flushing = largest.only_with_flush();
            let flushing =
                flushing.map(|batch| fill("{n} with flushes", &[("n", &format::batch(batch))]));
            best.into_iter().chain(flushing).collect::<Vec<_>>()
        });
        let line = |text| view! { <span class="gpu-flushing">{text}</span> };
        farther.unwrap_or_default().into_iter().map(line).collect_view()
    };
    view! {
        <tr class:gpu-chosen=is_chosen>
            <th scope="row" class="gpu-name">
                <button
                    type="button"
                    id=["gpu-", &device.id].concat()
                    aria-pressed=move || is_chosen.get().to_string()
                    on:click=move |_| on_choose.run(wanted.clone())
                >
                    {device.name}
                </button>
            </th>
            {move || {
                match row.judged(current.get(), known_cells) {
                    Some(cells) => Either::Left(cells),
                    None => Either::Right(unknown_cells()),
                }
            }}
            <td class="number gpu-batch" data-label=tr("largest batch")>
                {batch}
                {flushing}
            </td>
        </tr>
    }
}

fn unknown_cells() -> impl IntoView {
    view! {
        <td class="gpu-bar-cell"></td>
        <td class="gpu-waiting">"…"</td>
        <td class="number gpu-need"></td>
        <td class="number gpu-capacity"></td>
        <td class="number gpu-margin"></td>
    }
}

fn known_cells(known: &DeviceVerdict) -> impl IntoView + use<> {
    let used = share(known.need, known.usable());
    let class = verdict_class(known.verdict);
    let message = known.out_of_memory.as_ref().map_or("", |oom| &oom.message);
    view! {
        <td class="gpu-bar-cell">
            <span class="gpu-bar" aria-hidden="true">
                <span
                    class=["gpu-bar-need ", class].concat()
                    style:width=length(used.min(100.0)) + "%"
                ></span>
            </span>
            <span class="gpu-bar-number">{format!("{used:.0}\u{a0}%")}</span>
        </td>
        <td class=["gpu-verdict ", class].concat() title=message.to_owned()>
            <span class="gpu-verdict-sign" aria-hidden="true">
                {format::verdict_symbol(known.verdict)}
            </span>
            {format::verdict(known.verdict)}
        </td>
        <td class="number gpu-need">{size(known.need)}</td>
        <td class="number gpu-capacity">{size(known.usable())}</td>
        <td class="number gpu-margin" data-label=tr("margin")>
            {format::difference(known.usable(), known.need)}
        </td>
    }
}

/// The style sheet's name of a verdict.
pub(super) const fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fits => "verdict-fits",
        Verdict::LikelyFits => "verdict-tight",
        Verdict::FitsAfterFlush => "verdict-flush",
        Verdict::NotKnown => "verdict-not-known",
        Verdict::LikelyDoesNotFit | Verdict::DoesNotFit => "verdict-fails",
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
                    .map(Computed::last)
                    .map(|v| (v.usable().0, i128::from(v.usable().0) - i128::from(v.need.0)))
            });
            (position, row.device.with_value(|device| device.name.clone()), known)
        })
        .collect();
    facts.order_by(|left, right| {
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
