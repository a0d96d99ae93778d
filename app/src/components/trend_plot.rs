//! The picture of how the need grows: two lines, what devices have, and a place to choose a size.

use std::sync::Arc;

use highwater_core::{Bytes, Report};
use leptos::{ev, html, prelude::*};

use crate::chart::ticks::ticks;
use crate::chart::trend::{Frame, crossing, nearest, pixels};
use crate::format::grouped;
use crate::language::{fill, tr};
use crate::protocol::{LargestBatch, Trend, TrendPoint};
use crate::text::levers as text;

/// COUNT: lines across the picture, at most.
const TICKS: u64 = 4;

/// What a device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// Name of the device.
    pub(crate) name: String,
    /// What the process may hold there.
    pub(crate) limit: Bytes,
    /// The largest batch there, where the curve goes along the batch and it is known.
    pub(crate) largest: Option<LargestBatch>,
}

/// The picture, which is also a slider: arrow keys and clicks choose a size.
#[component]
pub(crate) fn TrendPlot(
    /// The curve.
    trend: Signal<Trend>,
    /// The report that it varies.
    report: Signal<Option<Arc<Report>>>,
    /// What devices have.
    limits: Signal<Vec<Limit>>,
    /// A size of a dimension is wanted.
    on_size: Callback<(String, u64)>,
) -> impl IntoView {
    let place = NodeRef::<html::Div>::new();
    let hovered = RwSignal::new(None::<u64>);
    let size = move || {
        let dim = trend.with(|trend| trend.dim.clone());
        report.with(|report| report.as_ref()?.config.dims.get(&dim).copied())
    };
    // The point that a pointer is nearest to.
    let under = move |x: i32| {
        let frame = place.get()?.get_bounding_client_rect();
        let share = (f64::from(x) - frame.left()) / frame.width().max(1.0);
        let reach = trend.with(|trend| trend.points.last().map(|point| point.size))?;
        let wanted =
            u64::try_from(pixels(share.clamp(0.0, 1.0))).ok()?.saturating_mul(reach) / 1000;
        trend.with(|trend| nearest(&trend.points, wanted))
    };
    let choose = move |point: TrendPoint| {
        on_size.run((trend.with_untracked(|trend| trend.dim.clone()), point.size));
    };
    let on_key = move |event: ev::KeyboardEvent| {
        let step: i64 = match event.key().as_str() {
            "ArrowLeft" | "ArrowDown" => -1,
            "ArrowRight" | "ArrowUp" => 1,
            "Home" => i64::MIN,
            "End" => i64::MAX,
            _ => return,
        };
        event.prevent_default();
        let next =
            trend.with_untracked(|trend| neighbour(&trend.points, size().unwrap_or(1), step));
        next.into_iter().for_each(choose);
    };
    let readout = move || {
        trend.with(|trend| {
            let wanted = hovered.get().or_else(size)?;
            let point = nearest(&trend.points, wanted)?;
            Some(text::at_size(&trend.dim, &point))
        })
    };
    view! {
        <div class="trend-frame">
            <div
                class="trend-plot"
                node_ref=place
                role="slider"
                tabindex="0"
                aria-label=move || {
                    trend.with(|trend| fill("{dim}, by what it needs", &[("dim", &trend.dim)]))
                }
                aria-valuemin="1"
                aria-valuemax=move || {
                    trend.with(|t| t.points.last().map_or(1, |point| point.size).to_string())
                }
                aria-valuenow=move || size().unwrap_or(1).to_string()
                aria-valuetext=move || {
                    trend.with(|trend| {
                        let point = nearest(&trend.points, size()?)?;
                        Some(text::at_size(&trend.dim, &point))
                    })
                }
                on:keydown=on_key
                on:pointermove=move |event| hovered.set(under(event.client_x()).map(|point| point.size))
                on:pointerleave=move |_| hovered.set(None)
                on:click=move |event| under(event.client_x()).into_iter().for_each(choose)
            >
                {move || {
                    trend.with(|trend| picture(&trend.points, &limits.get(), report.get().as_deref(), size()))
                }}
            </div>
        </div>
        <p class="trend-readout">
            <span class="trend-key trend-key-need">{tr("need: reserved and CUDA context")}</span>
            <span class="trend-key trend-key-allocated">{tr("allocated")}</span>
            <span>{readout}</span>
        </p>
    }
}

/// The point so many steps from a size.
fn neighbour(points: &[TrendPoint], size: u64, step: i64) -> Option<TrendPoint> {
    let next = match step {
        i64::MIN => points.first(),
        i64::MAX => points.last(),
        ..0 => points.iter().rev().find(|point| point.size < size),
        _ => points.iter().find(|point| point.size > size),
    };
    next.copied()
}

fn picture(
    points: &[TrendPoint],
    limits: &[Limit],
    report: Option<&Report>,
    size: Option<u64>,
) -> AnyView {
    let bounds: Vec<Bytes> = limits.iter().map(|limit| limit.limit).collect();
    let frame = Frame::of(points, &bounds);
    let ticks = ticks(frame.top, TICKS);
    let level = |bytes: Bytes| 1000 - pixels(frame.y(bytes));
    let line = |class: &'static str, bytes: Bytes| {
        let y = level(bytes);
        view! { <path class=class d=["M0 ", &y.to_string(), "H1000"].concat() /> }
    };
    let shown: Vec<&Limit> = limits.iter().filter(|limit| limit.limit <= frame.top).collect();
    let grid = ticks.at.iter().map(|&at| line("trend-grid", at)).collect_view();
    let lines = shown.iter().map(|limit| line("trend-limit", limit.limit)).collect_view();
    let labels = ticks.at.iter().enumerate().skip(1).map(|(n, &at)| {
        let label = [&ticks.label(n), " ", ticks.unit.name()].concat();
        label_at("trend-tick", label, 0.0, frame.y(at))
    });
    let names = shown.iter().map(|limit| {
        let name = [&limit.name, " ", &limit.limit.to_string()].concat();
        label_at("trend-name", name, 0.0, frame.y(limit.limit))
    });
    let marks = shown.iter().filter_map(|limit| {
        let (at, said) = reaches(points, limit)?;
        let class = if frame.x(at) > 0.6 { "trend-mark trend-mark-left" } else { "trend-mark" };
        Some(label_at(class, said, frame.x(at), frame.y(limit.limit)))
    });
    let sizes = points
        .iter()
        .skip(3)
        .step_by(4)
        .map(|point| label_at("trend-size", grouped(point.size), frame.x(point.size), 0.0));
    let now = report.zip(size).filter(|(_, size)| *size <= frame.reach).map(|(report, size)| {
        label_at("trend-now", String::new(), frame.x(size), frame.y(report.verdict.need))
    });
    view! {
        <svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">
            {grid}
            {lines}
            <path class="trend-allocated" d=frame.path(points, |point| point.allocated) />
            <path class="trend-need" d=frame.path(points, |point| point.need) />
        </svg>
        <div class="trend-labels" aria-hidden="true">
            {labels.collect_view()}
            {names.collect_view()}
            {marks.collect_view()}
            {sizes.collect_view()}
            {now}
        </div>
    }
    .into_any()
}

fn label_at(class: &'static str, label: String, x: f64, y: f64) -> AnyView {
    let percent = |share: f64| [(share * 100.0).to_string().as_str(), "%"].concat();
    view! {
        <span class=class style:left=percent(x) style:bottom=percent(y)>
            {label}
        </span>
    }
    .into_any()
}

/// How far a device reaches, and what is said of it.
fn reaches(points: &[TrendPoint], limit: &Limit) -> Option<(u64, String)> {
    if let Some(largest) = limit.largest {
        let at = if let LargestBatch::UpTo(batch) = largest { batch } else { 0 };
        return Some((at, text::largest(&limit.name, largest)));
    }
    let at = crossing(points, limit.limit)?;
    let said = fill("{device}: about {n}", &[("device", &limit.name), ("n", &grouped(at))]);
    Some((at, said))
}
