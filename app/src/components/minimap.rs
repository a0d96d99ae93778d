//! The whole run in small, with the part that the timeline shows.
//!
//! The minimap is for pointers only: the keys of the timeline move the same window.

use std::cell::Cell;
use std::rc::Rc;

use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{HtmlCanvasElement, HtmlElement, PointerEvent};

use super::by_hand::{find, on, size_of, stretch, watch};
use super::canvas::paint;
use super::shown::{Shown, percent};
use highwater_draw::bands::bands;
use highwater_draw::pen::Area;
use highwater_draw::scene::Scene;
use highwater_draw::span::Span;
use highwater_draw::timeline;

/// CSS pixels from an edge of the window within which a pointer takes the edge.
const EDGE: f64 = 8.0;

/// What a pointer holds.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// The window, by a place on the axis at this distance from its begin.
    Window(f64),
    /// One edge; the other is at this place on the axis.
    Edge(f64),
}

/// The strip, whose window pointers move.
#[component]
pub(crate) fn Minimap(
    /// What is shown.
    shown: Shown,
) -> impl IntoView {
    let strip = NodeRef::<html::Div>::new();
    Effect::new(move |_| {
        let _lives = strip.get().and_then(|strip| live(&strip, shown));
    });
    let phases = move || {
        let ground = shown.ground.get()?;
        let bands = bands(ground.data(), ground.all());
        let phases = bands.into_iter().map(|band| {
            let class = ["minimap-phase ", band.phase.class()].concat();
            view! {
                <div class=class style:left=percent(band.left) style:width=percent(band.width)></div>
            }
        });
        Some(phases.collect_view())
    };
    view! {
        <div class="minimap" aria-hidden="true" node_ref=strip>
            <div class="minimap-phases">{phases}</div>
            <canvas></canvas>
            <div class="minimap-window"></div>
        </div>
    }
}

/// Draws the strip, and lets pointers move its window.
fn live(strip: &HtmlElement, shown: Shown) -> Option<()> {
    let size = size_of(strip);
    let canvas: HtmlCanvasElement = find(strip, "canvas")?.unchecked_into();
    watch(Box::new(move || {
        let Some(ground) = shown.ground.get() else { return };
        shown.theme.track();
        let css = size.get();
        if css.0 >= 1.0 {
            // A browser without a canvas still has the window.
            let _painted = paint(&canvas, css, |pen, area| {
                let top = pen.pixels(3.0);
                let area = Area { top, height: area.height - top, ..area };
                timeline::minimap(pen, area, &ground)
            });
        }
    }));
    let window = find(strip, ".minimap-window")?;
    watch(Box::new(move || {
        let Some(scene) = shown.scene() else { return };
        let all = scene.ground.all();
        let left = all.share(scene.span.begin);
        stretch(&window, left, all.share(scene.span.end) - left);
        // Fails only for names with spaces.
        drop(window.class_list().toggle_with_force("minimap-window-all", scene.span == all));
    }));
    listen(strip, shown, size);
    Some(())
}

fn listen(strip: &HtmlElement, shown: Shown, size: ReadSignal<(f64, f64)>) {
    let held = Rc::new(Cell::new(None::<Held>));
    let drag = {
        let held = held.clone();
        move |place: f64, scene: &Scene| {
            let all = scene.ground.all();
            let span = match held.get() {
                None => return,
                Some(Held::Edge(other)) => Span::between(other, place, all),
                Some(Held::Window(grip)) => {
                    let (begin, len) =
                        (place - grip, scene.span.place(1.0) - scene.span.place(0.0));
                    Span::between(begin, begin + len, all)
                }
            };
            shown.show(span);
        }
    };
    let node = strip.clone();
    let on_pointer = move |event: &web_sys::Event| {
        let pointer: &PointerEvent = event.unchecked_ref();
        let Some(scene) = untrack(move || shown.scene()) else { return };
        let (all, width) = (scene.ground.all(), size.get_untracked().0.max(1.0));
        let place = all.place(f64::from(pointer.offset_x()) / width);
        match &*event.type_() {
            "pointerdown" if pointer.button() == 0 => {
                // Fails only for a pointer that is gone already.
                drop(node.set_pointer_capture(pointer.pointer_id()));
                let near = all.place(EDGE / width) - all.place(0.0);
                let (begin, end) = (scene.span.place(0.0), scene.span.place(1.0));
                // Where the whole run is shown there is nothing to move: a window is drawn.
                held.set(Some(match place {
                    _ if scene.span == all => return held.set(Some(Held::Edge(place))),
                    _ if (place - begin).abs() < near => Held::Edge(end),
                    _ if (place - end).abs() < near => Held::Edge(begin),
                    _ if begin < place && place < end => Held::Window(place - begin),
                    _ => Held::Window((end - begin) / 2.0),
                }));
                drag(place, &scene);
            }
            "pointermove" => drag(place, &scene),
            "dblclick" => shown.show(all),
            _ => held.set(None),
        }
    };
    let on_pointer = Rc::new(on_pointer);
    for name in ["pointerdown", "pointermove", "pointerup", "pointercancel", "dblclick"] {
        let on_pointer = on_pointer.clone();
        on(strip, name, Box::new(move |event| on_pointer(event)));
    }
}
