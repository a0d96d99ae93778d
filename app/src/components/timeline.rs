//! Memory over three iterations: the centre of the page.

use std::sync::Arc;

use highwater_core::report::Report;
use highwater_draw::bands::bands;
use highwater_draw::scene::{Ground, Part, Scene, View};
use highwater_draw::stack::Stack;
use leptos::prelude::*;
use web_sys::HtmlElement;

use super::island::{children, find, on, panel, said, set, stretch, style, watch};
use super::markup::Markup;
use super::shown::{Shown, phase_class};
use super::{key_help, minimap, phase_table, readout, timeline_plot};
use crate::model::theme::Theme;
use crate::words::format::{grouped, share};
use crate::words::language::{fill, tr};
use crate::words::{self, Vocabulary};

/// The timeline: the picture with a cursor and a pin, what part of it is shown, and its numbers.
#[component]
pub(crate) fn Timeline(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// A run that was kept, to compare this one with.
    beside: Signal<Option<Arc<Report>>>,
    /// What is shown, and how.
    #[prop(into)]
    view: Signal<View>,
    /// The event under the cursor.
    #[prop(into)]
    cursor: Signal<Option<usize>>,
    /// The event that is pinned.
    #[prop(into)]
    pin: Signal<Option<usize>>,
    /// The theme, whose colours are painted.
    #[prop(into)]
    theme: Signal<Theme>,
    /// Something else is to be shown.
    on_view: Callback<View>,
    /// The cursor moved.
    on_cursor: Callback<Option<usize>>,
    /// Another moment is to be pinned, or none.
    on_pin: Callback<Option<usize>>,
) -> impl IntoView {
    let (ground, set_ground) = signal(None::<Arc<Ground>>);
    let shown = Shown { ground, view, cursor, pin, theme, on_view, on_cursor, on_pin };
    watch(Box::new(move || {
        set_ground.set(report.get().map(|report| Arc::new(Ground::of(report, beside.get()))));
    }));
    // What is pinned from elsewhere is shown.
    watch(Box::new(move || {
        if let Some((pin, scene)) = pin.get().zip(untrack(move || shown.scene())) {
            shown.show(scene.span.revealing(pin, scene.ground.all()));
        }
    }));
    let live = move |root: HtmlElement| {
        let _lives = live(&root, shown);
    };
    panel("panel timeline", "timeline-title", inside(), Box::new(live))
}

/// What is on the page before there is a report.
fn inside() -> String {
    let mut markup = Markup::default();
    let title = tr("Memory over time");
    markup
        .raw("<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"timeline-title\">")
        .text(&title);
    markup.raw("</h2><div class=\"timeline-tools\">");
    group(&mut markup, &tr("Stacked"), "");
    button(&mut markup, "category", &tr("by category"), &tr("by category"));
    button(&mut markup, "module", &tr("by module"), &tr("by module"));
    markup.raw("</div>");
    group(&mut markup, &tr("Iteration shown"), "timeline-iterations");
    markup.raw("</div>");
    group(&mut markup, &tr("Zoom"), "");
    button(&mut markup, "out", "\u{2212}", &tr("Zoom out"));
    button(&mut markup, "in", "+", &tr("Zoom in"));
    let all_keys = tr("All keys");
    markup
        .raw(
            "</div><button type=\"button\" class=\"quiet-button key-help-button\" data-do=\"keys\" \
         aria-haspopup=\"dialog\" aria-label=\"",
        )
        .text(&all_keys)
        .raw("\" title=\"")
        .text(&all_keys)
        .raw(
            "\">?</button></div></div>\
         <div class=\"timeline-frame\"><div class=\"timeline-axis\" aria-hidden=\"true\"></div>",
        );
    timeline_plot::place(&mut markup);
    markup.raw("<div class=\"timeline-phases\" aria-hidden=\"true\"></div><p class=\"timeline-range\"></p>");
    markup.raw(minimap::PLACE);
    markup.raw("</div>");
    markup.raw(readout::PLACE);
    let (summary, label) = (tr("The timeline as a table"), tr("Table of the timeline"));
    markup
        .raw("<details class=\"timeline-table\"><summary>")
        .text(&summary)
        .raw(
            "</summary><div class=\"scroll-sideways\" tabindex=\"0\" role=\"region\" aria-label=\"",
        )
        .text(&label)
        .raw("\"></div></details>");
    key_help::sheet(&mut markup);
    markup.done()
}

/// Opens a group of buttons.
pub(super) fn group(markup: &mut Markup, label: &str, class: &str) {
    markup
        .raw("<div class=\"choice ")
        .text(class)
        .raw("\" role=\"group\" aria-label=\"")
        .text(label)
        .raw("\">");
}

fn button(markup: &mut Markup, does: &str, name: &str, label: &str) {
    markup
        .raw("<button type=\"button\" data-do=\"")
        .text(does)
        .raw("\" aria-label=\"")
        .text(label)
        .raw("\" title=\"")
        .text(label)
        .raw("\">")
        .text(name)
        .raw("</button>");
}

fn live(root: &HtmlElement, shown: Shown) -> Option<()> {
    timeline_plot::live(&find(root, ".timeline-plot")?, shown)?;
    minimap::live(&find(root, ".minimap")?, shown)?;
    key_help::listen(root);
    let (node, table) = (root.clone(), find(root, ".timeline-table .scroll-sideways")?);
    watch(Box::new(move || {
        if let Some(ground) = shown.ground.get() {
            name_stacks(&node, Vocabulary::of(&ground.report));
            draw_iterations(&node, &ground);
            draw_axis(&node, &ground);
            table
                .set_inner_html(&phase_table::table(ground.data(), Vocabulary::of(&ground.report)));
        }
    }));
    let node = root.clone();
    watch(Box::new(move || {
        if let Some(scene) = shown.scene() {
            draw_phases(&node, &scene);
            press(&node, shown.view.get());
        }
    }));
    let node = root.clone();
    watch(Box::new(move || {
        if let Some(scene) = shown.scene() {
            readout::draw(&node, &scene, shown.cursor.get(), shown.pin.get());
        }
    }));
    let node = root.clone();
    on(
        root,
        "click",
        Box::new(move |event| {
            let Some(wish) = said(event, "data-do") else { return };
            let Some(scene) = untrack(move || shown.scene()) else { return };
            let (view, zoom) = (shown.view.get_untracked(), |factor| {
                shown.show(scene.span.zoomed(0.5, factor, scene.ground.all()));
            });
            match &*wish {
                "category" => shown.on_view.run(View { stack: Stack::Category, ..view }),
                "module" => shown.on_view.run(View { stack: Stack::Module, ..view }),
                "in" => zoom(0.5),
                "out" => zoom(2.0),
                "keys" => key_help::open(&node),
                iteration => {
                    let part = iteration.parse().map_or(Part::All, Part::Iteration);
                    shown.on_view.run(View { part, ..view });
                }
            }
        }),
    );
    Some(())
}

/// What the picture is stacked by has another name where there is no model.
fn name_stacks(root: &HtmlElement, vocabulary: Vocabulary) {
    for (does, stack) in [("category", Stack::Category), ("module", Stack::Module)] {
        if let Some(button) = find(root, &format!("[data-do=\"{does}\"]")) {
            let name = vocabulary.stacked(stack);
            button.set_text_content(Some(&name));
            set(&button, "aria-label", &name);
            set(&button, "title", &name);
        }
    }
}

fn draw_iterations(root: &HtmlElement, ground: &Ground) {
    let Some(place) = find(root, ".timeline-iterations") else { return };
    let mut markup = Markup::default();
    markup.raw("<span class=\"choice-label\">").text(&tr("Iteration")).raw("</span>");
    button(&mut markup, "all", &tr("All"), &tr("All iterations"));
    for n in 1..=ground.report.iterations.len() {
        let number = n.to_string();
        button(&mut markup, &number, &number, &fill("Iteration {n}", &[("n", &n)]));
    }
    place.set_inner_html(&markup.done());
}

/// Says of each button whether it is what is shown.
fn press(root: &HtmlElement, view: View) {
    let part = match view.part {
        Part::All => "all".to_owned(),
        Part::Iteration(n) => n.to_string(),
        Part::Events(..) => String::new(),
    };
    let stack = if view.stack == Stack::Module { "module" } else { "category" };
    for group in [find(root, ".timeline-iterations"), find(root, ".timeline-tools .choice")] {
        for button in group.iter().flat_map(|group| children(group)) {
            if let Some(does) = button.get_attribute("data-do") {
                let is_pressed = does == part || does == stack;
                set(&button, "aria-pressed", if is_pressed { "true" } else { "false" });
            }
        }
    }
}

/// Sizes beside the picture.
fn draw_axis(root: &HtmlElement, ground: &Ground) {
    let Some(place) = find(root, ".timeline-axis") else { return };
    let mut markup = Markup::default();
    let count = ground.ticks.at.len();
    for n in 0..count {
        let unit = if n + 1 == count { ground.ticks.unit.name() } else { "" };
        markup.raw("<span>").text(&ground.ticks.label(n)).raw(" ").text(unit).raw("</span>");
    }
    place.set_inner_html(&markup.done());
    for (element, &size) in children(&place).zip(&ground.ticks.at) {
        style(&element, "bottom", share(size, ground.top), "%");
    }
}

/// Names of phases below the picture, and between which events it lies.
fn draw_phases(root: &HtmlElement, scene: &Scene) {
    let Some(place) = find(root, ".timeline-phases") else { return };
    let bands = bands(scene.ground.data(), scene.span);
    let mut markup = Markup::default();
    for band in &bands {
        let title = readout::moment(band.phase, band.iteration);
        let (name, short) = (words::phase(band.phase), words::phase_short(band.phase));
        markup
            .raw("<div class=\"timeline-phase ")
            .text(phase_class(band.phase))
            .raw("\" title=\"")
            .text(&title)
            .raw("\"><span class=\"timeline-phase-name\">")
            .text(&name)
            .raw("</span><span class=\"timeline-phase-short\">")
            .text(&short)
            .raw("</span></div>");
    }
    place.set_inner_html(&markup.done());
    for (element, band) in children(&place).zip(&bands) {
        stretch(&element, band.left, band.width);
    }
    let number = |event: usize| grouped(event as u64);
    let range = fill(
        "events {begin} to {end} of {all}",
        &[
            ("begin", &number(scene.span.begin)),
            ("end", &number(scene.span.end.saturating_sub(1))),
            ("all", &number(scene.ground.data().events)),
        ],
    );
    if let Some(place) = find(root, ".timeline-range") {
        place.set_text_content(Some(&range));
    }
}
