//! How the need grows with the batch, or with another size that the model leaves open.

use std::sync::Arc;

use highwater_core::Report;
use highwater_draw::trend::{self, TrendPoint, nearest};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::Element;

use super::drawn::{Act, Drawn};
use super::island::{find, size_of, watch};
use super::markup::Markup;
use super::trend_picture::{Limit, Picture};
use crate::model::protocol::{OpenDim, Trend};
use crate::model::state::DeviceRow;
use crate::model::theme::Theme;
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
    /// The theme, whose colours are painted.
    theme: Signal<Theme>,
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
    let second = Signal::derive(move || {
        let chosen = report.with(|report| Some(report.as_ref()?.verdict.id.clone()))?;
        let usual = BESIDE.into_iter().find(|id| *id != chosen).unwrap_or_default().to_owned();
        Some((chosen, Some(beside.get()).filter(|id| !id.is_empty()).unwrap_or(usual)))
    });
    let picture = Memo::new(move |_| {
        let (chosen, second) = second.get()?;
        let curve = curve.get();
        if curve.points.is_empty() {
            return None;
        }
        let is_batch = dims.with(|dims| dims.iter().any(|dim| dim.batch && dim.name == curve.dim));
        let limits = devices.with(|rows| {
            [&chosen, &second].into_iter().filter_map(|id| limit(rows, id, is_batch)).collect()
        });
        let need = report.with(|report| Some(report.as_ref()?.verdict.need))?;
        Some(Picture { size: size().unwrap_or(1), curve, limits, need })
    });
    let markup = Signal::derive(move || {
        let Some((picture, (_, second))) = picture.get().zip(second.get()) else {
            return String::new();
        };
        let mut markup = Markup::default();
        dims.with(|dims| {
            devices.with(|rows| head(&mut markup, &picture.curve, dims, rows, &second));
        });
        plot(&mut markup, &picture);
        table(&mut markup, &picture.curve, &picture.limits);
        markup.done()
    });
    let (panel, size) = (StoredValue::new_local(None), RwSignal::new(None));
    let (drawn, set_drawn) = signal(());
    let owner = Owner::current();
    let on_drawn = Callback::new(move |place: Element| {
        if size.get_untracked().is_none() {
            let watched = owner.as_ref().map(|owner| owner.with(|| size_of(place.unchecked_ref())));
            size.set(watched);
        }
        panel.set_value(Some(place));
        set_drawn.set(());
    });
    watch(Box::new(move || {
        drawn.track();
        theme.track();
        if let Some(size) = size.get() {
            size.track();
        }
        let plot = panel.with_value(|panel| find(panel.as_ref()?, ".trend-plot"));
        if let Some((plot, picture)) = plot.zip(picture.get_untracked()) {
            // A browser without a canvas still has the table.
            let _painted = picture.paint(&plot);
        }
    }));
    view! { <Drawn class="panel trend" labelledby="trend-title" markup on_act on_drawn /> }
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
fn plot(markup: &mut Markup, picture: &Picture) {
    let Picture { curve, size, .. } = picture;
    let last = curve.points.last().map_or(1, |point| point.size);
    let said = nearest(&curve.points, *size).map(|point| words::at_size(&curve.dim, &point));
    let said = said.unwrap_or_default();
    let name = fill("{dim}, by what it needs", &[("dim", &curve.dim)]);
    markup.raw(
        "<div class=\"trend-plot\" id=\"plot\" data-act=\"plot\" role=\"slider\" tabindex=\"0\"",
    );
    markup.raw(" aria-label=\"").text(&name);
    markup.raw("\" aria-valuemin=\"1\" aria-valuemax=\"").text(&last.to_string());
    markup.raw("\" aria-valuenow=\"").text(&size.to_string());
    markup.raw("\" aria-valuetext=\"").text(&said).raw("\">");
    picture.write(markup);
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
