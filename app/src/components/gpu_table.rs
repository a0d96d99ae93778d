//! Every GPU: what the run needs there against what it has, and how far the batch can go.

use std::cmp::Ordering;
use std::sync::Arc;

use highwater_core::report::{DeviceVerdict, Verdict};
use highwater_core::{Report, sorted};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Event, HtmlElement, HtmlInputElement};

use super::drawn::redraw;
use super::island::{children, find, on, panel, said, set, watch};
use super::ladder;
use super::markup::Markup;
use super::turns::in_turn;
use crate::model::state::DeviceRow;
use crate::model::theme::Theme;
use crate::words::format::{self, grouped, length, share};
use crate::words::language::{fill, tr};

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
    All,
    Survive,
    Fail,
}

impl Shown {
    const ALL: [Self; 3] = [Self::All, Self::Survive, Self::Fail];

    const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Survive => "it fits on",
            Self::Fail => "too small",
        }
    }

    /// Whether a device with this verdict is among them; one that is not known yet is.
    fn has(self, verdict: Option<Verdict>) -> bool {
        match self {
            Self::All => true,
            Self::Survive => verdict.is_none_or(Verdict::survives),
            Self::Fail => verdict.is_none_or(|verdict| !verdict.survives()),
        }
    }
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
    /// The report, whose device the ladder is about.
    report: Signal<Option<Arc<Report>>>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// The theme, whose colours are painted.
    theme: Signal<Theme>,
    /// Another device is wanted.
    on_choose: Callback<String>,
) -> impl IntoView {
    let sorting = RwSignal::new((Key::Capacity, false));
    let shown = RwSignal::new(Shown::All);
    let wanted = RwSignal::new(String::new());
    let order = Memo::new(move |_| {
        let (key, descending) = sorting.get();
        let wanted = wanted.with(|wanted| wanted.trim().to_ascii_lowercase());
        devices.with(|rows| {
            let mut order = sorted(rows, key, descending);
            order.retain(|&position| {
                rows.get(position).is_some_and(|row| {
                    let name = row.device.with_value(|device| device.name.to_ascii_lowercase());
                    name.contains(&wanted) && shown.get().has(row.known_verdict())
                })
            });
            order
        })
    });
    let live = move |root: HtmlElement| {
        filtering(&root, shown, wanted);
        sorts(&root, sorting);
        rows(&root, devices, order, generation, chosen);
        on(
            &root,
            "click",
            Box::new(move |event| {
                if let Some(id) = said(event, "data-device") {
                    on_choose.run(id);
                }
            }),
        );
        let Some(place) = find(&root, ".gpu-ladder") else { return };
        let here = place.clone();
        watch(Box::new(move || {
            if let Some(report) = report.get() {
                let (place, markup) = (here.clone(), ladder_of(&report, devices));
                let draw = move || {
                    redraw(&place, &markup);
                    let _drawn = ladder::draw(&place, &report);
                };
                in_turn(&here, Box::new(draw));
            }
        }));
        watch(Box::new(move || {
            theme.track();
            if let Some(report) = report.get_untracked() {
                // What is not there yet will be in the colours of then.
                let _drawn = ladder::draw(&place, &report);
            }
        }));
    };
    panel("panel gpus", "gpus-title", still(), Box::new(live))
}

/// What stays whatever the run.
fn still() -> String {
    let mut markup = Markup::default();
    markup.raw("<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"gpus-title\">");
    markup.around("", &tr("GPUs"), "</h2><p class=\"panel-note\">");
    markup.text(&tr(
        "Need against what PyTorch can use on each card; choose one to see its timeline",
    ));
    markup.raw(
        "</p></div><div class=\"gpu-filter\"><div class=\"choice\" role=\"group\" aria-label=\"",
    );
    markup.text(&tr("GPUs shown")).raw("\">");
    for which in Shown::ALL {
        markup.around("<button type=\"button\" data-shown>", &tr(which.name()), "</button>");
    }
    markup.raw("</div><input type=\"search\" class=\"gpu-search\" aria-label=\"");
    markup.text(&tr("Search for a GPU")).around("\" placeholder=\"", &tr("Search"), "\">");
    markup.raw("<p class=\"hidden-text\" role=\"status\"></p></div><table class=\"table gpu-table\"><thead><tr>");
    let columns = [
        ("", Some(Key::Name), "GPU"),
        ("gpu-bar-head", None, "need of capacity"),
        ("", None, "verdict"),
        ("number gpu-need", None, "need"),
        ("number", Some(Key::Capacity), "capacity"),
        ("number", Some(Key::Margin), "margin"),
        ("number", None, "largest batch"),
    ];
    for (class, key, name) in columns {
        markup.raw("<th scope=\"col\" class=\"").raw(class).raw("\"");
        match key {
            None => markup.around(">", &tr(name), "</th>"),
            Some(_) => {
                markup.raw(" aria-sort=\"none\"><button type=\"button\" class=\"sort\">").around(
                    "",
                    &tr(name),
                    "<span class=\"sort-sign\" aria-hidden=\"true\"></span></button></th>",
                )
            }
        };
    }
    markup.raw("</tr></thead><tbody></tbody></table><p class=\"gpu-none\" hidden>");
    markup.around("", &tr("No GPU is both."), "</p><div class=\"gpu-ladder\"></div>");
    markup.done()
}

/// The choice among all devices, and the search.
fn filtering(root: &HtmlElement, shown: RwSignal<Shown>, wanted: RwSignal<String>) {
    let Some(search) = find(root, ".gpu-search") else { return };
    let typed = search.clone();
    let on_input = move |_: &Event| wanted.set(typed.unchecked_ref::<HtmlInputElement>().value());
    on(&search, "input", Box::new(on_input));
    let Some(group) = find(root, ".choice") else { return };
    for (button, which) in children(&group).zip(Shown::ALL) {
        on(&button, "click", Box::new(move |_| shown.set(which)));
        watch(Box::new(move || set(&button, "aria-pressed", &(shown.get() == which).to_string())));
    }
}

/// The heads that sort, each saying whether it does and which way.
fn sorts(root: &HtmlElement, sorting: RwSignal<(Key, bool)>) {
    let Some(head) = find(root, "thead tr") else { return };
    let heads = children(&head).filter(|column| column.has_attribute("aria-sort"));
    for (column, key) in heads.zip([Key::Name, Key::Capacity, Key::Margin]) {
        let turn = move |_: &Event| {
            sorting.update(|(now, descending)| {
                *descending = *now == key && !*descending;
                *now = key;
            });
        };
        on(&column, "click", Box::new(turn));
        watch(Box::new(move || {
            let direction = match sorting.get() {
                (now, _) if now != key => "none",
                (_, false) => "ascending",
                (_, true) => "descending",
            };
            set(&column, "aria-sort", direction);
        }));
    }
}

/// A row for each device, drawn anew when something about it is news.
fn rows(
    root: &HtmlElement,
    devices: Signal<Vec<DeviceRow>>,
    order: Memo<Vec<usize>>,
    generation: Signal<u64>,
    chosen: Signal<String>,
) {
    let (Some(body), Some(none), Some(status)) =
        (find(root, "tbody"), find(root, ".gpu-none"), find(root, "[role=status]"))
    else {
        return;
    };
    let devices = devices.get_untracked();
    body.set_inner_html(&"<tr></tr>".repeat(devices.len()));
    let places: Vec<_> = children(&body).collect();
    for (place, row) in places.iter().cloned().zip(devices) {
        watch(Box::new(move || {
            let is_chosen = chosen.with(|chosen| row.device.with_value(|d| d.id == *chosen));
            let fresh = generation.get();
            let stale = row.verdict.with(|known| known.as_ref().is_none_or(|(of, _)| *of != fresh));
            let chosen_class = if is_chosen { "gpu-chosen " } else { "" };
            let class = [chosen_class, if stale { "gpu-stale" } else { "" }].concat();
            let (here, cells) = (place.clone(), cells(row, is_chosen));
            let draw = move || {
                here.set_class_name(&class);
                redraw(&here, &cells);
            };
            in_turn(&place, Box::new(draw));
        }));
    }
    watch(Box::new(move || {
        let order = order.get();
        for place in &places {
            place.set_hidden(true);
        }
        for place in order.iter().filter_map(|&position| places.get(position)) {
            place.set_hidden(false);
            // Fails only where the body is not the rows' own.
            drop(body.append_child(place));
        }
        none.set_hidden(!order.is_empty());
        status.set_text_content(Some(&fill("{n} GPUs shown", &[("n", &order.len())])));
    }));
}

/// What is known of a device.
fn cells(row: DeviceRow, is_chosen: bool) -> String {
    let mut markup = Markup::default();
    row.device.with_value(|device| {
        markup.raw("<th scope=\"row\" class=\"gpu-name\"><button type=\"button\" id=\"gpu-");
        markup.text(&device.id).around("\" data-device=\"", &device.id, "\" aria-pressed=\"");
        markup.around("", &is_chosen.to_string(), "\">").text(&device.name);
        markup.raw("</button></th>");
    });
    row.verdict.with(|known| {
        if let Some((_, verdict)) = known {
            known_cells(&mut markup, verdict);
        } else {
            markup.raw("<td class=\"gpu-bar-cell\"></td><td class=\"gpu-waiting\">…</td>");
            for class in ["gpu-need", "gpu-capacity", "gpu-margin"] {
                markup.raw("<td class=\"number ").raw(class).raw("\"></td>");
            }
        }
    });
    let batch = row.largest.with(|known| match known {
        None => "…".to_owned(),
        Some((_, None)) => "–".to_owned(),
        Some((_, Some(largest))) => largest.without_flush.map_or_else(|| tr("none"), grouped),
    });
    let flushing =
        row.largest.with(|known| known.and_then(|(_, largest)| largest?.only_with_flush()));
    markup.around("<td class=\"number gpu-batch\" data-label=\"", &tr("largest batch"), "\">");
    markup.around("", &batch, "");
    if let Some(batch) = flushing {
        let text = fill("{n} with flushes", &[("n", &grouped(batch))]);
        markup.around("<span class=\"gpu-flushing\">", &text, "</span>");
    }
    markup.raw("</td>");
    markup.done()
}

fn known_cells(markup: &mut Markup, known: &DeviceVerdict) {
    let used = share(known.need, known.usable());
    let class = verdict_class(known.verdict);
    let message = known.out_of_memory.as_ref().map_or("", |oom| &oom.message);
    let width = length(used.min(100.0));
    markup.raw("<td class=\"gpu-bar-cell\"><span class=\"gpu-bar\" aria-hidden=\"true\">");
    markup.raw("<span class=\"gpu-bar-need ").raw(class).around("\" data-width=\"", &width, "\">");
    markup.raw("</span></span><span class=\"gpu-bar-number\">");
    markup.around("", &format!("{used:.0}\u{a0}%"), "</span></td><td class=\"gpu-verdict ");
    markup.raw(class).around("\" title=\"", message, "\">");
    markup.raw("<span class=\"gpu-verdict-sign\" aria-hidden=\"true\">");
    markup.around("", format::verdict_symbol(known.verdict), "</span>");
    markup.around("", &format::verdict(known.verdict), "</td>");
    for (class, bytes) in [("gpu-need", known.need), ("gpu-capacity", known.usable())] {
        markup.raw("<td class=\"number ").raw(class).raw("\">").size(bytes).raw("</td>");
    }
    markup.around("<td class=\"number gpu-margin\" data-label=\"", &tr("margin"), "\">");
    markup.around("", &format::difference(known.usable(), known.need), "</td>");
}

/// The ladder of the device that the report is about.
fn ladder_of(report: &Report, devices: Signal<Vec<DeviceRow>>) -> String {
    let nameplate = devices.with(|rows| {
        rows.iter().find_map(|row| {
            row.device.with_value(|known| {
                (known.id == report.verdict.id).then(|| known.nameplate.clone())
            })
        })
    });
    let mut markup = Markup::default();
    ladder::write(&mut markup, report, &nameplate.unwrap_or_default());
    markup.done()
}

/// The style sheet's name of a verdict.
pub(super) const fn verdict_class(verdict: Verdict) -> &'static str {
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
