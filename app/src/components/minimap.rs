//! The whole run in small, and the part of it that the timeline shows.
//!
//! For pointers only: the keys of the timeline move the same window.

use std::sync::Arc;

use leptos::prelude::*;
use leptos::{ev, html};
use web_sys::HtmlCanvasElement;

use super::canvas::{colour, observed_size, pen, whole};
use super::timeline::phase_class;
use crate::chart::Span;
use crate::chart::bands::{Band, bands};
use crate::chart::scene::{Ground, Scene};
use crate::format::float;
use crate::theme::Theme;

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

/// A strip with phases, silhouette and window.
#[component]
pub(crate) fn Minimap(
    /// What is drawn above it.
    scene: Signal<Option<Arc<Scene>>>,
    /// The theme.
    theme: Signal<Theme>,
    /// Other events are to be shown.
    on_span: Callback<Span>,
) -> impl IntoView {
    let strip = NodeRef::<html::Div>::new();
    let canvas = NodeRef::<html::Canvas>::new();
    let size = observed_size(strip);
    let held = StoredValue::new(None::<Held>);
    let ground = Memo::new(move |_| scene.with(|scene| Some(scene.as_ref()?.ground.clone())));
    Effect::new(move |_| {
        let (Some(ground), Some(canvas)) = (ground.get(), canvas.get()) else { return };
        theme.track();
        let css = size.get();
        if css.0 >= 1.0 {
            // A browser without a canvas still has the window.
            let _painted = paint(&canvas, css, &ground);
        }
    });
    let place = move |event: &ev::PointerEvent| {
        let scene = scene.get_untracked()?;
        let (all, width) = (scene.ground.all(), size.get_untracked().0.max(1.0));
        let near = (all.place(EDGE / width) - all.place(0.0)).abs();
        Some((scene.clone(), all, all.place(f64::from(event.offset_x()) / width), near))
    };
    let drag = move |event: &ev::PointerEvent| {
        let (Some((scene, all, place, _)), Some(held)) = (place(event), held.get_value()) else {
            return;
        };
        let span = match held {
            Held::Edge(other) => Span::between(other, place, all),
            Held::Window(grip) => {
                let begin = place - grip;
                Span::between(begin, begin + scene.span.place(1.0) - scene.span.place(0.0), all)
            }
        };
        on_span.run(span);
    };
    let down = move |event: ev::PointerEvent| {
        let Some((scene, _, place, near)) = place(&event).filter(|_| event.button() == 0) else {
            return;
        };
        if let Some(strip) = strip.get_untracked() {
            // Fails only for a pointer that is gone already.
            drop(strip.set_pointer_capture(event.pointer_id()));
        }
        let (begin, end) = (scene.span.place(0.0), scene.span.place(1.0));
        // Where the whole run is shown there is nothing to move: a window is drawn instead.
        let is_all = scene.span == scene.ground.all();
        held.set_value(Some(match place {
            _ if is_all => Held::Edge(place),
            _ if (place - begin).abs() < near => Held::Edge(end),
            _ if (place - end).abs() < near => Held::Edge(begin),
            _ if begin < place && place < end => Held::Window(place - begin),
            _ => Held::Window((end - begin) / 2.0),
        }));
        if !is_all {
            drag(&event);
        }
    };
    view! {
        <div
            class="minimap"
            node_ref=strip
            aria-hidden="true"
            on:pointerdown=down
            on:pointermove=move |event| drag(&event)
            on:pointerup=move |_| held.set_value(None)
            on:pointercancel=move |_| held.set_value(None)
            on:dblclick=move |_| {
                if let Some(ground) = ground.get_untracked() {
                    on_span.run(ground.all());
                }
            }
        >
            {move || ground.get().map(|ground| phases(&ground))}
            <canvas node_ref=canvas></canvas>
            {move || scene.get().map(|scene| window(&scene))}
        </div>
    }
}

fn phases(ground: &Ground) -> impl IntoView + use<> {
    let band = |band: Band| {
        view! {
            <div
                class=format!("minimap-phase {}", phase_class(band.phase))
                style:left=format!("{}%", 100.0 * band.left)
                style:width=format!("{}%", 100.0 * band.width)
            ></div>
        }
    };
    bands(ground.data(), ground.all()).into_iter().map(band).collect_view()
}

/// The part that is shown above.
fn window(scene: &Scene) -> impl IntoView + use<> {
    let all = scene.ground.all();
    let left = 100.0 * all.share(scene.span.begin);
    let right = 100.0 * all.share(scene.span.end);
    view! {
        <div
            class="minimap-window"
            class:minimap-window-all=scene.span == all
            style:left=format!("{left}%")
            style:width=format!("{}%", right - left)
        ></div>
    }
}

/// Everything allocated, as one dark shape.
fn paint(canvas: &HtmlCanvasElement, css: (f64, f64), ground: &Ground) -> Option<()> {
    let pen = pen(canvas, css)?;
    pen.set_fill_style_str(&colour(canvas, "ink"));
    pen.set_global_alpha(0.45);
    let scale = (css.1 - 3.0) / float(ground.report.peak.allocated).max(1.0);
    let mut x = 0.0;
    for at in ground.columns(ground.all(), whole(css.0)) {
        let height = ground.data().allocated.get(at).copied().map_or(0.0, float) * scale;
        pen.fill_rect(x, css.1 - height, 1.0, height);
        x += 1.0;
    }
    Some(())
}
