//! Needed memory against the batch, or against another open dimension. Of the part of the program with the sections that
//! few look at.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::sync::Arc;

use highwater_core::Report;
use leptos::prelude::*;
use leptos::{ev, html};
use wasm_bindgen::JsCast;
use wasm_split_helpers::{SplitLoaderError, wasm_split};
use web_sys::Element;

use super::by_hand::size_of_node;
use super::later::Draw;
use super::parts::column;
use super::trend_picture::{Limit, Picture};
use crate::model::computed::Computed;
use crate::model::protocol::OpenDim;
use crate::model::protocol::Trend;
use crate::model::state::DeviceRow;
use crate::model::theme::Theme;
use crate::words::format::grouped;
use crate::words::language::{fill, tr};
use crate::words::levers as words;
use highwater_draw::trend::{self, TrendPoint, nearest};

/// The device that the chosen one is compared with at first, and what takes its place where it is the chosen one.
const COMPARED: [&str; 2] = ["t4", "a100-80gb"];

/// What draws curves.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn trend_view() -> Result<Draw<TrendViewProps>, SplitLoaderError> {
    Ok(|props| TrendView(props).into_any())
}

/// A curve of what is needed over sizes, against what devices have.
#[component]
pub(crate) fn TrendView(
    /// The curve.
    newest: RwSignal<Option<Computed<Trend>>>,
    /// The request whose verdicts count.
    current: Signal<Option<u64>>,
    /// The report that it varies.
    report: Signal<Option<Arc<Report>>>,
    /// Dimensions that it can go along.
    dims: Signal<Vec<OpenDim>>,
    /// Every device.
    devices: RwSignal<Vec<DeviceRow>>,
    /// The theme, whose colours are painted.
    theme: Signal<Theme>,
    /// Another dimension is wanted.
    on_dim: Callback<String>,
    /// A size of a dimension is wanted.
    on_size: Callback<(String, u64)>,
) -> impl IntoView {
    // The section hides a curve of other settings, and keeps its place.
    let curve = Memo::new(move |_| {
        newest.with(|newest| {
            newest.as_ref().map_or_else(Trend::default, |newest| newest.last().clone())
        })
    });
    let second_id = RwSignal::new(String::new());
    let size = move || {
        let dim = curve.with(|curve| curve.dim.clone());
        report.with(|report| report.as_ref()?.config.dims.get(&dim).copied())
    };
    let take = move |wanted: Option<TrendPoint>| {
        if let Some(point) = wanted {
            on_size.run((curve.with_untracked(|curve| curve.dim.clone()), point.size));
        }
    };
    let click = move |event: ev::MouseEvent| {
        let frame = event.current_target().map(JsCast::unchecked_into::<Element>);
        let Some(frame) = frame.map(|plot| plot.get_bounding_client_rect()) else { return };
        let across = (f64::from(event.client_x()) - frame.left()) / frame.width().max(1.0);
        take(curve.with_untracked(|curve| trend::at(&curve.points, across)));
    };
    let press = move |event: ev::KeyboardEvent| {
        let size = untrack(size).unwrap_or(1);
        let wanted = curve.with_untracked(|curve| neighbour(&curve.points, size, &event.key()));
        if wanted.is_some() {
            event.prevent_default();
        }
        take(wanted);
    };
    let second = Signal::derive(move || {
        let chosen = report.with(|report| Some(report.as_ref()?.verdict.id.clone()))?;
        let second = compared(&chosen, second_id.get());
        Some((chosen, second))
    });
    let picture = Memo::new(move |_| {
        let (chosen, second) = second.get()?;
        let curve = curve.get();
        if curve.points.is_empty() {
            return None;
        }
        let is_batch = dims.with(|dims| dims.iter().any(|dim| dim.batch && dim.name == curve.dim));
        let limits = limits(devices, [&chosen, &second], is_batch, current.get());
        let need = report.with(|report| Some(report.as_ref()?.verdict.need))?;
        Some(Picture { size: size().unwrap_or(1), curve, limits, need })
    });
    let plot = NodeRef::<html::Div>::new();
    let place = size_of_node(plot);
    Effect::new(move |_| {
        theme.track();
        place.track();
        if let Some((plot, picture)) = plot.get().zip(picture.get()) {
            // A browser without a canvas still has the table.
            let _painted = picture.paint(&plot);
        }
    });
    let inside = move |picture: Picture| {
        let Picture { curve, size, .. } = &picture;
        let last = curve.points.last().map_or(1, |point| point.size);
        let said = nearest(&curve.points, *size).map(|point| words::at_size(&curve.dim, &point));
        let said = said.unwrap_or_default();
        let second = second.get().map(|(_, second)| second).unwrap_or_default();
        view! {
            <div class="panel-head">
                <h2 class="panel-title" id="trend-title">{tr("How it grows")}</h2>
                <span class="trend-choices">
                    {along(&curve.dim, dims, on_dim)} {other_device(devices, &second, second_id)}
                </span>
            </div>
            // The picture is also a slider: arrow keys and clicks choose a size.
            <div
                class="trend-plot"
                id="plot"
                role="slider"
                tabindex="0"
                aria-label=fill("{dim}, by what it needs", &[("dim", &curve.dim)])
                aria-valuemin="1"
                aria-valuemax=last.to_string()
                aria-valuenow=size.to_string()
                aria-valuetext=said.clone()
                node_ref=plot
                on:click=click
                on:keydown=press
            >
                <canvas aria-hidden="true"></canvas>
                {picture.labels()}
            </div>
            <p class="trend-readout">
                <span class="trend-key trend-key-need">
                    {tr("need: reserved and CUDA context")}
                </span>
                <span class="trend-key trend-key-allocated">{tr("allocated")}</span>
                <span>{said}</span>
            </p>
            {table(curve, &picture.limits)}
        }
    };
    view! {
        <section class="panel trend" aria-labelledby="trend-title">
            {move || picture.get().map(inside)}
        </section>
    }
}

/// The device that the chosen one is compared with: what was picked, else the usual one.
fn compared(chosen: &str, picked: String) -> String {
    let usual = COMPARED.into_iter().find(|id| *id != chosen).unwrap_or_default();
    Some(picked).filter(|id| !id.is_empty()).unwrap_or_else(|| usual.to_owned())
}

/// The choice of the device to compare with.
fn other_device(
    devices: RwSignal<Vec<DeviceRow>>,
    second: &str,
    second_id: RwSignal<String>,
) -> impl IntoView + use<> {
    view! {
        <label class="trend-beside">
            <span class="label">{tr("compare with")}</span>
            <select id="beside" on:change:target=move |event| second_id.set(event.target().value())>
                {choices(devices, second)}
            </select>
        </label>
    }
}

/// Dimensions to go along, where there are several.
fn along(
    shown: &str,
    dims: Signal<Vec<OpenDim>>,
    on_dim: Callback<String>,
) -> Option<impl IntoView + use<>> {
    let buttons: Vec<_> = dims
        .get()
        .into_iter()
        .map(|dim| {
            let (name, is_shown) = (dim.name.clone(), dim.name == shown);
            let id = ["along-", &name].concat();
            view! {
                <button
                    type="button"
                    id=id
                    aria-pressed=is_shown.to_string()
                    on:click=move |_| on_dim.run(dim.name.clone())
                >
                    {name}
                </button>
            }
        })
        .collect();
    (buttons.len() > 1).then(|| {
        view! {
            <span class="choice" role="group" aria-label=tr("Along")>
                {buttons}
            </span>
        }
    })
}

/// All devices, of which one is chosen.
fn choices(devices: RwSignal<Vec<DeviceRow>>, chosen: &str) -> impl IntoView + use<> {
    let option = |row: DeviceRow| {
        let device = row.device.get_value();
        let is_chosen = device.id == chosen;
        view! { <option value=device.id selected=is_chosen>{device.name}</option> }
    };
    devices.get().into_iter().map(option).collect_view()
}

/// What devices have, those of these that are known.
fn limits(
    devices: RwSignal<Vec<DeviceRow>>,
    ids: [&str; 2],
    is_batch: bool,
    current: Option<u64>,
) -> Vec<Limit> {
    devices
        .with(|rows| ids.into_iter().filter_map(|id| limit(rows, id, is_batch, current)).collect())
}

/// What a device has, and how far it reaches.
fn limit(rows: &[DeviceRow], id: &str, is_batch: bool, current: Option<u64>) -> Option<Limit> {
    let row = rows.iter().find(|row| row.device.with_value(|device| device.id == id))?;
    let (name, room) = row.judged(current, |verdict| {
        let limit = verdict.capacity - verdict.other_processes;
        let allowed = verdict.allowed.map_or(limit, |allowed| allowed + verdict.context);
        (verdict.name.clone(), limit.min(allowed))
    })?;
    let largest = row.reach(current).found().filter(|_| is_batch);
    Some(Limit { name, room, largest })
}

/// The point that a key leads to.
fn neighbour(points: &[TrendPoint], size: u64, key: &str) -> Option<TrendPoint> {
    let next = match key {
        "Home" => points.first(),
        "End" => points.last(),
        "ArrowLeft" | "ArrowDown" => points.iter().rev().find(|point| point.size < size),
        "ArrowRight" | "ArrowUp" => points.iter().find(|point| point.size > size),
        _ => None,
    };
    next.copied()
}

fn table(curve: &Trend, limits: &[Limit]) -> impl IntoView + use<> {
    let rows = curve.points.iter().map(|point| {
        let sizes = [point.allocated, point.reserved, point.need]
            .map(|bytes| view! { <td class="number">{bytes.short()}</td> });
        let verdicts = limits.iter().map(|limit| {
            let fits = point.need <= limit.room;
            view! { <td>{tr(if fits { "✓ fits" } else { "✕ too large" })}</td> }
        });
        view! {
            <tr>
                <th scope="row" class="number">{grouped(point.size)}</th>
                {sizes.collect_view()}
                {verdicts.collect_view()}
            </tr>
        }
    });
    let names = limits.iter().map(|limit| view! { <th scope="col">{limit.name.clone()}</th> });
    view! {
        <details id="trend-table">
            <summary>{tr("The curve as a table")}</summary>
            <div
                class="scroll-sideways"
                tabindex="0"
                role="region"
                aria-label=tr("Table of the curve")
            >
                <table class="table trend-table">
                    <caption class="hidden-text">
                        {fill("Need by {dim}", &[("dim", &curve.dim)])}
                    </caption>
                    <thead>
                        <tr>
                            {column(curve.dim.clone(), true)}
                            {column(tr("allocated"), true)}
                            {column(tr("reserved"), true)}
                            {column(tr("need"), true)}
                            {names.collect_view()}
                        </tr>
                    </thead>
                    <tbody>{rows.collect_view()}</tbody>
                </table>
            </div>
        </details>
    }
}
