//! How the need grows with the batch, or with another size that the model leaves open.

use std::sync::Arc;

use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::trend_plot::{Limit, TrendPlot};
use crate::estimator::OpenDim;
use crate::format::grouped;
use crate::language::{fill, tr};
use crate::protocol::{Trend, TrendPoint};
use crate::state::DeviceRow;

/// The device beside the chosen one at first, and what takes its place where it is the chosen one.
const BESIDE: [&str; 2] = ["t4", "a100-80gb"];

/// A curve of what is needed over sizes, against what devices have.
#[component]
pub(crate) fn TrendView(
    /// The curve.
    #[prop(into)]
    trend: Signal<Trend>,
    /// The report that it varies.
    report: Signal<Option<Arc<Report>>>,
    /// Dimensions that it can go along.
    dims: Signal<Vec<OpenDim>>,
    /// Every device.
    #[prop(into)]
    devices: Signal<Vec<DeviceRow>>,
    /// Another dimension is wanted.
    on_dim: Callback<String>,
    /// A size of a dimension is wanted.
    on_size: Callback<(String, u64)>,
) -> impl IntoView {
    let beside = RwSignal::new(String::new());
    let limits = Signal::derive(move || {
        let chosen = report.with(|report| report.as_ref().map(|r| r.verdict.id.clone()));
        let chosen = chosen.unwrap_or_default();
        let mut second = beside.get();
        if second.is_empty() {
            second = BESIDE.into_iter().find(|id| *id != chosen).unwrap_or_default().to_owned();
        }
        let is_batch = trend.with(|trend| {
            dims.with(|dims| dims.iter().any(|dim| dim.batch && dim.name == trend.dim))
        });
        devices.with(|rows| {
            [chosen, second].iter().filter_map(|id| limit(rows, id, is_batch)).collect::<Vec<_>>()
        })
    });
    view! {
        <figure class="panel trend">
            <figcaption class="panel-head">
                <h2 class="panel-title">{tr("How it grows")}</h2>
                <span class="trend-choices">
                    <Axis trend dims on_dim />
                    <Beside devices beside />
                </span>
            </figcaption>
            <TrendPlot trend report limits on_size />
            <details>
                <summary>{tr("The curve as a table")}</summary>
                {move || trend.with(|trend| table(trend, &limits.get()))}
            </details>
        </figure>
    }
}

/// What a device has, and how far it reaches.
fn limit(rows: &[DeviceRow], id: &str, is_batch: bool) -> Option<Limit> {
    let row = rows.iter().find(|row| row.device.with_value(|device| device.id == id))?;
    let (name, limit) = row.verdict.with(|known| {
        let (_, verdict) = known.as_ref()?;
        let limit = verdict.capacity - verdict.other_processes;
        let allowed = verdict.allowed.map_or(limit, |allowed| allowed + verdict.context);
        Some((verdict.name.clone(), limit.min(allowed)))
    })?;
    let largest = row.largest.get().filter(|_| is_batch).map(|(_, largest)| largest);
    Some(Limit { name, limit, largest })
}

/// Along which dimension; nothing where there is but one.
#[component]
fn Axis(
    /// The curve.
    trend: Signal<Trend>,
    /// Dimensions that it can go along.
    dims: Signal<Vec<OpenDim>>,
    /// Another one is wanted.
    on_dim: Callback<String>,
) -> impl IntoView {
    let shown = Memo::new(move |_| trend.with(|trend| trend.dim.clone()));
    let button = move |dim: OpenDim| {
        let (name, label) = (dim.name.clone(), dim.name.clone());
        view! {
            <button
                type="button"
                aria-pressed=move || shown.with(|shown| *shown == name).to_string()
                on:click=move |_| on_dim.run(dim.name.clone())
            >
                {label}
            </button>
        }
    };
    move || {
        let dims = dims.get();
        (dims.len() > 1).then(|| {
            view! {
                <span class="choice" role="group" aria-label=tr("Along")>
                    {dims.into_iter().map(button).collect_view()}
                </span>
            }
        })
    }
}

/// Which other device to show.
#[component]
fn Beside(
    /// Every device.
    devices: Signal<Vec<DeviceRow>>,
    /// Id of the one beside the chosen one; empty for the usual.
    beside: RwSignal<String>,
) -> impl IntoView {
    let option = |row: DeviceRow| {
        let (id, name) = row.device.with_value(|device| (device.id.clone(), device.name.clone()));
        view! { <option value=id>{name}</option> }
    };
    view! {
        <label class="trend-beside">
            <span class="label">{tr("compare with")}</span>
            <select on:change:target=move |event| beside.set(event.target().value())>
                <option value="">{tr("a common card")}</option>
                {move || devices.get().into_iter().map(option).collect_view()}
            </select>
        </label>
    }
}

fn table(trend: &Trend, limits: &[Limit]) -> AnyView {
    let cell = |bytes: Bytes| view! { <td class="number">{bytes.to_string()}</td> };
    let row = |point: &TrendPoint| {
        let fits = |limit: &Limit| {
            let word = if point.need <= limit.limit { "✓ fits" } else { "✕ too large" };
            view! { <td>{tr(word)}</td> }
        };
        view! {
            <tr>
                <th scope="row" class="number">
                    {grouped(point.size)}
                </th>
                {[point.allocated, point.reserved, point.need].map(cell).collect_view()}
                {limits.iter().map(fits).collect_view()}
            </tr>
        }
    };
    let head = |name: &str| {
        let name = name.to_owned();
        view! { <th scope="col">{name}</th> }
    };
    let numbers = ["allocated", "reserved", "need"].map(|name| {
        view! {
            <th scope="col" class="number">
                {tr(name)}
            </th>
        }
    });
    view! {
        <div class="scroll-sideways" tabindex="0" role="region" aria-label=tr("Table of the curve")>
            <table class="table trend-table">
                <caption class="hidden-text">
                    {fill("Need by {dim}", &[("dim", &trend.dim)])}
                </caption>
                <thead>
                    <tr>
                        <th scope="col" class="number">
                            {trend.dim.clone()}
                        </th>
                        {numbers.collect_view()}
                        {limits.iter().map(|limit| head(&limit.name)).collect_view()}
                    </tr>
                </thead>
                <tbody>{trend.points.iter().map(row).collect_view()}</tbody>
            </table>
        </div>
    }
    .into_any()
}
