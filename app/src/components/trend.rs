//! How the need grows with the batch, or with another size that the model leaves open.

use std::sync::Arc;

use highwater_core::Report;
use leptos::prelude::*;

use super::drawn::{Act, Drawn};
use super::markup::Markup;
use super::trend_picture::{self, Limit};
use crate::chart::trend::{self, TrendPoint, nearest};
use crate::model::protocol::OpenDim;
use crate::model::protocol::Trend;
use crate::model::state::DeviceRow;
use crate::words::format::grouped;
use crate::words::language::{fill, tr};
use crate::words::levers as words;

/// The device beside the chosen one at first, and what takes its place where it is the chosen one.
const BESIDE: [&str; 2] = ["t4", "a100-80gb"];

/// A curve of what is needed over sizes, against what devices have.
#[component]
pub(crate) fn TrendView(
    /// The curve.
    curve: RwSignal<Trend>,
    /// The report that it varies.
    report: Signal<Option<Arc<Report>>>,
    /// Dimensions that it can go along.
    dims: Signal<Vec<OpenDim>>,
    /// Every device.
    devices: RwSignal<Vec<DeviceRow>>,
    /// Another dimension is wanted.
    on_dim: Callback<String>,
    /// A size of a dimension is wanted.
    on_size: Callback<(String, u64)>,
) -> impl IntoView {
    let beside = RwSignal::new(String::new());
    let size = move || {
        let dim = curve.with(|curve| curve.dim.clone());
        report.with(|report| report.as_ref()?.config.dims.get(&dim).copied())
    };
    let on_act = Callback::new(move |act: Act| match act.name.as_str() {
        "beside" => beside.set(act.value),
        "plot" => curve.with_untracked(|curve| {
            let wanted = match act.value.as_str() {
                "" => trend::at(&curve.points, act.across),
                key => neighbour(&curve.points, size().unwrap_or(1), key),
            };
            if let Some(point) = wanted {
                on_size.run((curve.dim.clone(), point.size));
            }
        }),
        name => on_dim.run(name.strip_prefix("along-").unwrap_or_default().to_owned()),
    });
    let markup = Signal::derive(move || {
        let Some(report) = report.get() else { return String::new() };
        let curve = curve.get();
        if curve.points.is_empty() {
            return String::new();
        }
        let second = beside.get();
        let mut markup = Markup::default();
        dims.with(|dims| {
            let is_batch = dims.iter().any(|dim| dim.batch && dim.name == curve.dim);
            let chosen = &report.verdict.id;
            let usual =
                || BESIDE.into_iter().find(|id| id != chosen).unwrap_or_default().to_owned();
            let second = if second.is_empty() { usual() } else { second.clone() };
            devices.with(|rows| {
                let limits: Vec<Limit> =
                    [chosen, &second].iter().filter_map(|id| limit(rows, id, is_batch)).collect();
                head(&mut markup, &curve, dims, rows, &second);
                plot(&mut markup, &curve, &limits, &report);
                table(&mut markup, &curve, &limits);
            });
        });
        markup.done()
    });
    view! { <Drawn class="panel trend" labelledby="trend-title" markup on_act /> }
}

/// What a device has, and how far it reaches.
fn limit(rows: &[DeviceRow], id: &str, is_batch: bool) -> Option<Limit> {
    let row = rows.iter().find(|row| row.device.with_value(|device| device.id == id))?;
    let (name, room) = row.verdict.with(|known| {
        let (_, verdict) = known.as_ref()?;
        let limit = verdict.capacity - verdict.other_processes;
        let allowed = verdict.allowed.map_or(limit, |allowed| allowed + verdict.context);
        Some((verdict.name.clone(), limit.min(allowed)))
    })?;
    let largest = row.largest.get().filter(|_| is_batch).and_then(|(_, largest)| largest);
    Some(Limit { name, room, largest })
}

/// The point that a key leads to.
fn neighbour(points: &[TrendPoint], size: u64, key: &str) -> Option<TrendPoint> {
    let next = match key {
        "Home" => points.first(),
        "End" => points.last(),
        "ArrowLeft" | "ArrowDown" => points.iter().rev().find(|point| point.size < size),
        _ => points.iter().find(|point| point.size > size),
    };
    next.copied()
}

/// Title, along which dimension, and beside which device.
fn head(markup: &mut Markup, curve: &Trend, dims: &[OpenDim], rows: &[DeviceRow], beside: &str) {
    markup.raw("<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"trend-title\">");
    markup.around("", &tr("How it grows"), "</h2><span class=\"trend-choices\">");
    if dims.len() > 1 {
        markup.raw("<span class=\"choice\" role=\"group\" aria-label=\"").text(&tr("Along"));
        markup.raw("\">");
        for dim in dims {
            let pressed = if dim.name == curve.dim { "true" } else { "false" };
            markup.raw("<button type=\"button\" id=\"along-").text(&dim.name);
            markup.raw("\" data-act=\"along-").text(&dim.name);
            markup.raw("\" aria-pressed=\"").raw(pressed).around("\">", &dim.name, "</button>");
        }
        markup.raw("</span>");
    }
    markup.around("<label class=\"trend-beside\"><span class=\"label\">", &tr("compare with"), "");
    markup.raw("</span><select id=\"beside\" data-act=\"beside\">");
    for row in rows {
        row.device.with_value(|device| {
            markup.raw("<option value=\"").text(&device.id);
            markup.raw(if device.id == beside { "\" selected>" } else { "\">" });
            markup.text(&device.name).raw("</option>");
        });
    }
    markup.raw("</select></label></span></div>");
}

/// The picture, which is also a slider: arrow keys and clicks choose a size.
fn plot(markup: &mut Markup, curve: &Trend, limits: &[Limit], report: &Report) {
    let size = report.config.dims.get(&curve.dim).copied().unwrap_or(1);
    let last = curve.points.last().map_or(1, |point| point.size);
    let said = nearest(&curve.points, size).map(|point| words::at_size(&curve.dim, &point));
    let said = said.unwrap_or_default();
    let name = fill("{dim}, by what it needs", &[("dim", &curve.dim)]);
    markup.raw(
        "<div class=\"trend-plot\" id=\"plot\" data-act=\"plot\" role=\"slider\" tabindex=\"0\"",
    );
    markup.raw(" aria-label=\"").text(&name);
    markup.raw("\" aria-valuemin=\"1\" aria-valuemax=\"").text(&last.to_string());
    markup.raw("\" aria-valuenow=\"").text(&size.to_string());
    markup.raw("\" aria-valuetext=\"").text(&said).raw("\">");
    trend_picture::draw(markup, curve, limits, size, report.verdict.need);
    markup.raw("</div><p class=\"trend-readout\"><span class=\"trend-key trend-key-need\">");
    markup.around("", &tr("need: reserved and CUDA context"), "</span>");
    markup.raw("<span class=\"trend-key trend-key-allocated\">");
    markup.around("", &tr("allocated"), "</span>").around("<span>", &said, "</span></p>");
}

/// Begins the head of a column of numbers.
const HEAD: &str = "<th scope=\"col\" class=\"number\">";

fn table(markup: &mut Markup, curve: &Trend, limits: &[Limit]) {
    markup.unfold("trend-table", &tr("The curve as a table"));
    markup.raw("<div class=\"scroll-sideways\" tabindex=\"0\" role=\"region\" aria-label=\"");
    markup.text(&tr("Table of the curve")).raw("\"><table class=\"table trend-table\">");
    let caption = fill("Need by {dim}", &[("dim", &curve.dim)]);
    markup.around("<caption class=\"hidden-text\">", &caption, "</caption><thead><tr>");
    markup.around(HEAD, &curve.dim, "</th>");
    for name in ["allocated", "reserved", "need"] {
        markup.around(HEAD, &tr(name), "</th>");
    }
    for limit in limits {
        markup.around("<th scope=\"col\">", &limit.name, "</th>");
    }
    markup.raw("</tr></thead><tbody>");
    for point in &curve.points {
        let size = grouped(point.size);
        markup.around("<tr><th scope=\"row\" class=\"number\">", &size, "</th>");
        for bytes in [point.allocated, point.reserved, point.need] {
            markup.around("<td class=\"number\">", &bytes.to_string(), "</td>");
        }
        for limit in limits {
            let fits = point.need <= limit.room;
            let word = tr(if fits { "✓ fits" } else { "✕ too large" });
            markup.around("<td>", &word, "</td>");
        }
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table></div></details>");
}
