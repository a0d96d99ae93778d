//! The picture of the timeline, its marks, its cursor and its pin, for pointers and keys.

use std::sync::Arc;

use leptos::prelude::*;
use leptos::{ev, html};

use super::canvas::{observed_size, whole};
use super::readout::in_words;
use super::timeline_canvas;
use crate::chart::Span;
use crate::chart::columns::column_at;
use crate::chart::keys::{Act, Key, act};
use crate::chart::scene::Scene;
use crate::format::share;
use crate::language::{fill, tr};
use crate::theme::Theme;

/// CSS pixels that a pointer may move and still mean one place.
const STILL: f64 = 4.0;
/// Milliseconds within which two clicks may be one double click.
const TWICE: f64 = 600.0;

/// The plotting area.
#[component]
pub(crate) fn TimelinePlot(
    /// What is drawn.
    scene: Signal<Option<Arc<Scene>>>,
    /// The event under the cursor.
    cursor: Signal<Option<usize>>,
    /// The event that is pinned.
    pin: Signal<Option<usize>>,
    /// The theme.
    theme: Signal<Theme>,
    /// The cursor moved.
    on_cursor: Callback<Option<usize>>,
    /// Another moment is to be pinned, or none.
    on_pin: Callback<Option<usize>>,
    /// Other events are to be shown.
    on_span: Callback<Span>,
) -> impl IntoView {
    let plot = NodeRef::<html::Div>::new();
    let canvas = NodeRef::<html::Canvas>::new();
    let size = observed_size(plot);
    Effect::new(move |_| {
        let (Some(scene), Some(canvas)) = (scene.get(), canvas.get()) else { return };
        theme.track();
        let css = size.get();
        if css.0 >= 1.0 {
            // A browser without a canvas still has the table.
            let _painted = timeline_canvas::paint(&canvas, css, &scene);
        }
    });
    let hand = Hand {
        scene,
        cursor,
        spoken: RwSignal::new(String::new()),
        width: Signal::derive(move || size.get().0.max(1.0)),
        pin,
        gesture: StoredValue::new(Gesture::default()),
        brush: RwSignal::new(None),
        on_cursor,
        on_pin,
        on_span,
    };
    let words = move |event| {
        let said =
            |scene: &Option<Arc<Scene>>| Some(in_words(scene.as_ref()?.ground.data(), event));
        scene.with(said).unwrap_or_default()
    };
    let looked_at = move || cursor.get().or_else(|| pin.get());
    view! {
        <div
            class="timeline-plot"
            node_ref=plot
            tabindex="0"
            role="slider"
            aria-label=tr("Memory over time. Arrow keys move the cursor, P goes to the peak, Enter pins, Escape leaves, question mark shows all keys.")
            aria-valuemin="0"
            aria-valuemax=move || {
                scene.with(|s| s.as_ref().map_or(0, |s| s.ground.all().len() - 1).to_string())
            }
            aria-valuenow=move || looked_at().unwrap_or(0).to_string()
            aria-valuetext=move || looked_at().map_or_else(|| tr("no cursor"), words)
            on:keydown=move |event| hand.key(&event)
            on:pointerdown=move |event| hand.down(&event)
            on:pointermove=move |event| hand.moved(&event)
            on:pointerup=move |event| hand.up(&event)
            on:pointercancel=move |_| hand.let_go()
            on:pointerleave=move |_| on_cursor.run(None)
            on:dblclick=move |_| hand.fit()
            on:wheel=move |event| hand.wheel(&event)
        >
            <canvas node_ref=canvas aria-hidden="true"></canvas>
            {move || scene.get().map(|scene| marks(&scene))}
            {move || stroke(&*scene.get()?, pin.get()?, "timeline-cursor timeline-pin")}
            {move || stroke(&*scene.get()?, cursor.get()?, "timeline-cursor")}
            {move || {
                let (a, b) = hand.brush.get()?;
                let (left, width) = (100.0 * a.min(b), 100.0 * (b - a).abs());
                Some(
                    view! {
                        <div
                            class="timeline-brush"
                            style:left=format!("{left}%")
                            style:width=format!("{width}%")
                        ></div>
                    },
                )
            }}
            <p class="hidden-text" aria-live="polite">
                {hand.spoken}
            </p>
        </div>
    }
}

/// A line at an event; nothing where it is not shown.
fn stroke(scene: &Scene, event: usize, class: &'static str) -> Option<impl IntoView + use<>> {
    let left = 100.0 * scene.span.share(event);
    let is_shown = scene.span.contains(event);
    is_shown.then(|| view! { <div class=class style:left=format!("{left}%")></div> })
}

/// The peak and the limit of the device, as labels in the picture.
fn marks(scene: &Scene) -> impl IntoView + use<> {
    let ground = &scene.ground;
    let peak = &ground.report.peak;
    let peak = scene.span.contains(peak.event).then(|| {
        let left = 100.0 * scene.span.share(peak.event);
        // On top of the stack, which shows requested bytes; the allocator's rounding is above it.
        let bottom = share(peak.requested, ground.top);
        let is_crowded = left > 60.0;
        view! {
            <div
                class="timeline-peak"
                class:timeline-peak-left=is_crowded
                style:left=format!("{left}%")
                style:bottom=format!("{bottom}%")
            >
                <span>{fill("peak {size}", &[("size", &peak.allocated)])}</span>
            </div>
        }
    });
    let shown = ground.limit_shown();
    let above = shown.is_none();
    let bottom = shown.map_or(100.0, |limit| share(limit, ground.top));
    let arrow = if above { "\u{2191} " } else { "" };
    let device: &str = &ground.report.verdict.name;
    let label =
        fill("{device} has room for {size}", &[("device", &device), ("size", &ground.limit)]);
    let limit = view! {
        <div
            class="timeline-limit"
            class:timeline-limit-above=above
            style:bottom=format!("{bottom}%")
        >
            <span>{arrow} {label}</span>
        </div>
    };
    (peak, limit)
}

/// Pointers that are down, and what they mean.
#[derive(Clone, Debug, Default)]
struct Gesture {
    /// Each by its id, with its place as a share of the width.
    touches: Vec<(i32, f64)>,
    /// Place where the first came down.
    begun: f64,
    /// What two of them hold: the events that were shown, and where they took them.
    pinch: Option<(Span, f64, f64)>,
    /// What was pinned before the newest clicks, and when the last of them was, in milliseconds.
    pinned: Option<usize>,
    clicked: f64,
}

/// Turns pointers into cursor, pin and span.
#[derive(Clone, Copy)]
struct Hand {
    scene: Signal<Option<Arc<Scene>>>,
    cursor: Signal<Option<usize>>,
    /// What the keys did, for those who do not see it.
    spoken: RwSignal<String>,
    /// CSS pixels.
    width: Signal<f64>,
    pin: Signal<Option<usize>>,
    gesture: StoredValue<Gesture>,
    /// Shares of the width between which a range is being drawn.
    brush: RwSignal<Option<(f64, f64)>>,
    on_cursor: Callback<Option<usize>>,
    on_pin: Callback<Option<usize>>,
    on_span: Callback<Span>,
}

impl Hand {
    fn share(self, event: &ev::PointerEvent) -> f64 {
        f64::from(event.offset_x()) / self.width.get_untracked()
    }

    /// The event drawn at a share of the width.
    fn event_at(self, share: f64) -> Option<usize> {
        let scene = self.scene.get_untracked()?;
        let columns = whole(self.width.get_untracked());
        let column = column_at(share, columns)?;
        // One column of all that the picture has: the same sample is found without the others.
        let span = scene.span;
        let edge = |column: usize| span.begin + (span.len() * column).div_ceil(columns);
        let (begin, end) = (edge(column), edge(column + 1));
        let sample = *scene.ground.columns(Span { begin, end: end.max(begin) }, 1).first()?;
        scene.ground.data().event.get(sample).copied()
    }

    fn down(self, event: &ev::PointerEvent) {
        if event.button() != 0 {
            return;
        }
        let share = self.share(event);
        if let Some(element) = event.current_target() {
            let element: web_sys::Element = wasm_bindgen::JsCast::unchecked_into(element);
            // Fails only for a pointer that is gone already.
            drop(element.set_pointer_capture(event.pointer_id()));
        }
        let span = self.scene.with_untracked(|scene| scene.as_ref().map(|scene| scene.span));
        self.gesture.update_value(|gesture| {
            gesture.touches.push((event.pointer_id(), share));
            match (&*gesture.touches, span) {
                ([_], _) => gesture.begun = share,
                ([(_, a), (_, b)], Some(span)) => gesture.pinch = Some((span, *a, *b)),
                _ => {}
            }
        });
        if self.gesture.with_value(|gesture| gesture.pinch.is_some()) {
            self.brush.set(None);
        }
    }

    fn moved(self, event: &ev::PointerEvent) {
        let share = self.share(event);
        let (count, begun, pinch) = self
            .gesture
            .try_update_value(|gesture| {
                let known = gesture.touches.iter_mut().find(|(id, _)| *id == event.pointer_id());
                if let Some((_, place)) = known {
                    *place = share;
                }
                let places = match *gesture.touches {
                    [(_, a), (_, b), ..] => Some((a, b)),
                    _ => None,
                };
                (gesture.touches.len(), gesture.begun, gesture.pinch.zip(places))
            })
            .unwrap_or_default();
        if let Some(((span, from_a, from_b), (to_a, to_b))) = pinch {
            let apart = (to_b - to_a).abs().max(0.02).copysign(from_b - from_a);
            let len = (span.place(from_b) - span.place(from_a)) / apart;
            let begin = span.place(from_a) - to_a * len;
            if let Some(scene) = self.scene.get_untracked() {
                self.on_span.run(Span::between(begin, begin + len, scene.ground.all()));
            }
            return;
        }
        let is_far = (share - begun).abs() * self.width.get_untracked() > STILL;
        if count == 1
            && event.pointer_type() != "touch"
            && (is_far || self.brush.get_untracked().is_some())
        {
            self.brush.set(Some((begun.clamp(0.0, 1.0), share.clamp(0.0, 1.0))));
        }
        self.on_cursor.run(self.event_at(share));
    }

    fn up(self, event: &ev::PointerEvent) {
        let share = self.share(event);
        let (known, left, pinched) = self
            .gesture
            .try_update_value(|gesture| {
                let before = gesture.touches.len();
                gesture.touches.retain(|(id, _)| *id != event.pointer_id());
                let left = gesture.touches.len();
                let pinched = gesture.pinch.is_some();
                if left == 0 {
                    gesture.pinch = None;
                }
                (left < before, left, pinched)
            })
            .unwrap_or_default();
        let brush = self.brush.get_untracked();
        self.brush.set(None);
        let Some(scene) = self.scene.get_untracked().filter(|_| known && left == 0 && !pinched)
        else {
            return;
        };
        if let Some((a, b)) = brush {
            let span = scene.span;
            self.on_span.run(Span::between(span.place(a), span.place(b), scene.ground.all()));
            return;
        }
        let (now, pinned) = (event.time_stamp(), self.pin.get_untracked());
        self.gesture.update_value(|gesture| {
            if now - gesture.clicked > TWICE {
                gesture.pinned = pinned;
            }
            gesture.clicked = now;
        });
        self.on_pin.run(self.event_at(share));
    }

    fn key(self, event: &ev::KeyboardEvent) {
        let with_control = event.ctrl_key() || event.meta_key();
        let Some(scene) = self.scene.get_untracked().filter(|_| !with_control) else { return };
        let ground = &scene.ground;
        let here = self.cursor.get_untracked().or_else(|| self.pin.get_untracked());
        let here = here.unwrap_or(ground.report.peak.event);
        let name = event.key();
        let key = Key { name: &name, shift: event.shift_key(), alt: event.alt_key() };
        let Some(act) = act(&scene, here, key) else { return };
        event.prevent_default();
        match act {
            Act::Look(event) => {
                self.on_cursor.run(Some(event));
                self.on_span.run(scene.span.revealing(event, ground.all()));
                self.spoken.set(in_words(ground.data(), event));
            }
            Act::Show(span) => self.on_span.run(span),
            Act::Pin => {
                self.on_pin.run(Some(here));
                let moment = in_words(ground.data(), here);
                self.spoken.set(fill("Pinned: {moment}", &[("moment", &moment)]));
            }
            Act::Leave => {
                self.on_cursor.run(None);
                self.on_pin.run(None);
                self.spoken.set(String::new());
            }
        }
    }

    fn let_go(self) {
        self.gesture.set_value(Gesture::default());
        self.brush.set(None);
    }

    /// Shows everything; the two clicks that asked for it pin nothing.
    fn fit(self) {
        self.on_pin.run(self.gesture.with_value(|gesture| gesture.pinned));
        if let Some(scene) = self.scene.get_untracked() {
            self.on_span.run(scene.ground.all());
        }
    }

    /// Pinching on a trackpad is a wheel with control; a plain wheel scrolls the page.
    fn wheel(self, event: &ev::WheelEvent) {
        let Some(scene) = self.scene.get_untracked() else { return };
        let all = scene.ground.all();
        let about = f64::from(event.offset_x()) / self.width.get_untracked();
        let (sideways, along) = (event.delta_x(), event.delta_y());
        let shift = if event.shift_key() && sideways.abs() < 1e-9 { along } else { sideways };
        if event.ctrl_key() || event.meta_key() {
            let factor = (along.clamp(-100.0, 100.0) / 150.0).exp();
            self.on_span.run(scene.span.zoomed(about, factor, all));
        } else if shift.abs() > along.abs() || event.shift_key() {
            self.on_span.run(scene.span.panned(shift / self.width.get_untracked(), all));
        } else {
            return;
        }
        event.prevent_default();
    }
}
