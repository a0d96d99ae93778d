//! The picture of the timeline, its marks, its cursor and its pin, for pointers and keys.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Event, HtmlCanvasElement, HtmlElement, KeyboardEvent, PointerEvent, WheelEvent};

use super::by_hand::{find, on, set, size_of, stretch, style, watch};
use super::canvas::{colours, paint, whole};
use super::readout::{in_words, layer_names};
use super::shown::Shown;
use crate::words::format::length;
use crate::words::keep::usable;
use crate::words::language::{fill, tr};
use crate::words::model_name;
use highwater_draw::columns::column_at;
use highwater_draw::keys::{Act, Key, act};
use highwater_draw::labels::{Face, Label, Mark, Room, kept_label, labels as place, limit_labels};
use highwater_draw::pen::{Area, whole as rounded};
use highwater_draw::scene::Scene;
use highwater_draw::span::Span;
use highwater_draw::timeline::{self, Curves};

/// CSS pixels that a pointer may move and still mean one place.
const STILL: f64 = 4.0;
/// Milliseconds within which two clicks may be one double click.
const TWICE: f64 = 600.0;

/// The picture and its marks.
#[component]
pub(crate) fn TimelinePlot(
    /// What is shown.
    shown: Shown,
) -> impl IntoView {
    let plot = NodeRef::<html::Div>::new();
    let labels = RwSignal::new(Vec::new());
    Effect::new(move |_| {
        let _lives = plot.get().and_then(|plot| live(&plot, shown, labels));
    });
    let label = tr(
        "Memory over time. Arrow keys move the cursor, P goes to the peak, Enter pins, Escape leaves, question mark shows all keys.",
    );
    view! {
        <div
            class="timeline-plot"
            tabindex="0"
            role="slider"
            aria-valuemin="0"
            aria-label=label
            node_ref=plot
        >
            <canvas aria-hidden="true"></canvas>
            <div class="timeline-em"></div>
            <div class="timeline-labels" aria-hidden="true">
                {move || labels.get().into_iter().map(label_view).collect_view()}
            </div>
            <div class="timeline-peak">
                <span></span>
            </div>
            <div class="timeline-cursor timeline-pin" hidden></div>
            <div class="timeline-cursor timeline-here" hidden></div>
            <div class="timeline-brush" hidden></div>
            <p class="hidden-text" aria-live="polite"></p>
        </div>
    }
}

/// A label, and its place in per cent of the picture, which paper stretches.
type Placed = (Label, (f64, f64));

/// The name of an area, at its place.
fn label_view((label, (left, top)): Placed) -> impl IntoView {
    let class = match label.face {
        Face::On(ink) if colours().is_some_and(|palette| palette.is_dark(ink)) => {
            "timeline-label timeline-label-on-dark"
        }
        Face::On(_) => "timeline-label timeline-label-on-light",
        Face::Chosen => "timeline-label timeline-label-chosen",
        Face::Other => "timeline-label timeline-label-other",
        Face::Kept => "timeline-label timeline-label-kept",
    };
    view! {
        <span
            class=class
            style=("--left", length(left))
            style=("--top", length(top))
        >
            {label.text}
        </span>
    }
}

/// Paints the picture, keeps its marks where they belong, and listens.
fn live(plot: &HtmlElement, shown: Shown, labels: RwSignal<Vec<Placed>>) -> Option<()> {
    let size = size_of(plot);
    // An element as wide as an em tells how large the texts are.
    let em = size_of(&find(plot, ".timeline-em")?);
    let canvas: HtmlCanvasElement = find(plot, "canvas")?.unchecked_into();
    let node = plot.clone();
    watch(Box::new(move || {
        let Some(scene) = shown.scene() else { return };
        shown.theme.track();
        let css = size.get();
        if css.0 >= 1.0 {
            let area = Area { width: rounded(css.0), height: rounded(css.1), ..Area::default() };
            let mut room = Room { area, em: em.get().0.max(1.0), taken: Vec::new() };
            let mark = Mark::of(&scene.ground.report, scene.span, scene.ground.top, area);
            draw_peak(&node, mark.as_ref(), css);
            room.taken.extend(mark.map(|mark| mark.taken(room.em)));
            // Every fourth pixel is near enough for a text.
            let columns = scene.ground.columns(scene.span, whole(css.0 / 4.0));
            let curves = Curves::of(&scene, &columns);
            let ground = &scene.ground;
            let mut placed = limit_labels(&ground.limits, ground.top, &usable, &mut room);
            let kept = ground.compared.as_ref().and_then(|report| {
                let name = model_name(&report.model.name);
                kept_label(&curves, &fill("Kept: {name}", &[("name", &name)]), &mut room)
            });
            placed.extend(kept);
            placed.extend(place(&curves, &layer_names(&scene), &mut room));
            let placed = placed.into_iter().map(|label| {
                let share = share_of(label.at, css);
                (label, share)
            });
            let placed: Vec<Placed> = placed.collect();
            if labels.with_untracked(|old| *old != placed) {
                labels.set(placed);
            }
            // A browser without a canvas still has the table.
            let _painted = paint(&canvas, css, |pen, area| timeline::draw(pen, area, &scene));
        }
    }));
    let node = plot.clone();
    watch(Box::new(move || {
        let Some(scene) = shown.scene() else { return };
        let (cursor, pin) = (shown.cursor.get(), shown.pin.get());
        draw_stroke(&node, ".timeline-pin", &scene, pin);
        draw_stroke(&node, ".timeline-here", &scene, cursor);
        let data = scene.ground.data();
        let words =
            cursor.or(pin).map_or_else(|| tr("no cursor"), |event| in_words(shown, data, event));
        set(&node, "aria-valuetext", &words);
        set(&node, "aria-valuenow", &cursor.or(pin).unwrap_or(0).to_string());
        set(&node, "aria-valuemax", &(scene.ground.all().count() - 1).to_string());
    }));
    let hand = Rc::new(Hand {
        shown,
        plot: plot.clone(),
        spoken: find(plot, "p")?,
        brush_node: find(plot, ".timeline-brush")?,
        size,
        gesture: RefCell::new(Gesture::default()),
        brush: Cell::new(None),
    });
    for name in [
        "keydown",
        "pointerdown",
        "pointermove",
        "pointerup",
        "pointercancel",
        "pointerleave",
        "dblclick",
        "wheel",
    ] {
        let hand = hand.clone();
        on(plot, name, Box::new(move |event| hand.take(event)));
    }
    Some(())
}

/// A line at an event; nothing where it is not shown.
fn draw_stroke(plot: &HtmlElement, selector: &str, scene: &Scene, event: Option<usize>) {
    let Some(stroke) = find(plot, selector) else { return };
    let event = event.filter(|&event| scene.span.contains(event));
    stroke.set_hidden(event.is_none());
    if let Some(event) = event {
        style(&stroke, "left", 100.0 * scene.span.middle(event), "%");
    }
}

/// A place in the picture in per cent of its size.
fn share_of((x, y): (i32, i32), (width, height): (f64, f64)) -> (f64, f64) {
    (100.0 * f64::from(x) / width.max(1.0), 100.0 * f64::from(y) / height.max(1.0))
}

/// The dot of the peak and its size; nothing where the peak is not shown.
fn draw_peak(plot: &HtmlElement, peak: Option<&Mark>, css: (f64, f64)) {
    let Some(mark) = find(plot, ".timeline-peak") else { return };
    mark.set_hidden(peak.is_none());
    let Some(peak) = peak else { return };
    let (left, top) = share_of(peak.at, css);
    style(&mark, "--left", left, "");
    style(&mark, "--top", top, "");
    // Fails only for names with spaces.
    drop(mark.class_list().toggle_with_force("timeline-peak-left", peak.is_left));
    if let Some(label) = find(&mark, "span") {
        label.set_text_content(Some(&fill("peak {size}", &[("size", &peak.text())])));
    }
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

/// Turns pointers and keys into cursor, pin and span.
struct Hand {
    shown: Shown,
    plot: HtmlElement,
    /// What the keys did, for those who do not see it.
    spoken: HtmlElement,
    brush_node: HtmlElement,
    /// CSS pixels.
    size: ReadSignal<(f64, f64)>,
    gesture: RefCell<Gesture>,
    /// Shares of the width between which a range is being drawn.
    brush: Cell<Option<(f64, f64)>>,
}

impl Hand {
    fn take(&self, event: &Event) {
        let pointer: &PointerEvent = event.unchecked_ref();
        match &*event.type_() {
            "keydown" => self.key(event.unchecked_ref()),
            "pointerdown" => self.down(pointer),
            "pointermove" => self.moved(pointer),
            "pointerup" => self.up(pointer),
            "pointerleave" => self.shown.on_cursor.run(None),
            "dblclick" => self.fit(),
            "wheel" => self.wheel(event.unchecked_ref()),
            _ => self.let_go(),
        }
    }

    fn scene(&self) -> Option<Scene> {
        let shown = self.shown;
        untrack(move || shown.scene())
    }

    fn width(&self) -> f64 {
        self.size.get_untracked().0.max(1.0)
    }

    fn set_brush(&self, brush: Option<(f64, f64)>) {
        self.brush.set(brush);
        self.brush_node.set_hidden(brush.is_none());
        if let Some((a, b)) = brush {
            stretch(&self.brush_node, a.min(b), (b - a).abs());
        }
    }

    fn share(&self, event: &PointerEvent) -> f64 {
        f64::from(event.offset_x()) / self.width()
    }

    /// The event drawn at a share of the width.
    fn event_at(&self, share: f64) -> Option<usize> {
        let scene = self.scene()?;
        let columns = whole(self.width());
        let column = column_at(share, columns)?;
        // One column of all that the picture has: the same sample is found without the others.
        let span = scene.span;
        let edge = |column: usize| span.begin + (span.count() * column).div_ceil(columns);
        let (begin, end) = (edge(column), edge(column + 1));
        let sample = *scene.ground.columns(Span { begin, end: end.max(begin) }, 1).first()?;
        scene.ground.data().event.get(sample).copied()
    }

    fn down(&self, event: &PointerEvent) {
        if event.button() != 0 {
            return;
        }
        // Fails only for a pointer that is gone already.
        drop(self.plot.set_pointer_capture(event.pointer_id()));
        let (share, span) = (self.share(event), self.scene().map(|scene| scene.span));
        let mut gesture = self.gesture.borrow_mut();
        gesture.touches.push((event.pointer_id(), share));
        match (&*gesture.touches, span) {
            ([_], _) => gesture.begun = share,
            (&[(_, a), (_, b)], Some(span)) => {
                gesture.pinch = Some((span, a, b));
                self.set_brush(None);
            }
            _ => {}
        }
    }

    fn moved(&self, event: &PointerEvent) {
        let share = self.share(event);
        let mut gesture = self.gesture.borrow_mut();
        let known = gesture.touches.iter_mut().find(|(id, _)| *id == event.pointer_id());
        if let Some((_, place)) = known {
            *place = share;
        }
        let (count, begun) = (gesture.touches.len(), gesture.begun);
        let pinch = match *gesture.touches {
            [(_, a), (_, b), ..] => gesture.pinch.map(|held| (held, a, b)),
            _ => None,
        };
        drop(gesture);
        if let Some(((span, from_a, from_b), to_a, to_b)) = pinch {
            let apart = (to_b - to_a).abs().max(0.02).copysign(from_b - from_a);
            let len = (span.place(from_b) - span.place(from_a)) / apart;
            let begin = span.place(from_a) - to_a * len;
            if let Some(scene) = self.scene() {
                self.shown.show(Span::between(begin, begin + len, scene.ground.all()));
            }
            return;
        }
        let is_far = (share - begun).abs() * self.width() > STILL;
        if count == 1 && event.pointer_type() != "touch" && (is_far || self.brush.get().is_some()) {
            self.set_brush(Some((begun.clamp(0.0, 1.0), share.clamp(0.0, 1.0))));
        }
        self.shown.on_cursor.run(self.event_at(share));
    }

    fn up(&self, event: &PointerEvent) {
        let mut gesture = self.gesture.borrow_mut();
        let before = gesture.touches.len();
        gesture.touches.retain(|(id, _)| *id != event.pointer_id());
        let is_last = before == 1 && gesture.touches.is_empty();
        let was_pinched = gesture.pinch.is_some();
        if gesture.touches.is_empty() {
            gesture.pinch = None;
        }
        let brush = self.brush.get();
        self.set_brush(None);
        if !is_last || was_pinched {
            return;
        }
        if let (Some((a, b)), Some(scene)) = (brush, self.scene()) {
            let span = scene.span;
            self.shown.show(Span::between(span.place(a), span.place(b), scene.ground.all()));
            return;
        }
        let now = event.time_stamp();
        if now - gesture.clicked > TWICE {
            gesture.pinned = self.shown.pin.get_untracked();
        }
        gesture.clicked = now;
        drop(gesture);
        self.shown.on_pin.run(self.event_at(self.share(event)));
    }

    fn key(&self, event: &KeyboardEvent) {
        let with_control = event.ctrl_key() || event.meta_key();
        let Some(scene) = self.scene().filter(|_| !with_control) else { return };
        let (shown, ground) = (self.shown, &scene.ground);
        let here = shown.cursor.get_untracked().or_else(|| shown.pin.get_untracked());
        let here = here.unwrap_or(ground.report.peak.event);
        let name = event.key();
        let key = Key { name: &name, shift: event.shift_key(), alt: event.alt_key() };
        let Some(act) = act(&scene, here, key) else { return };
        event.prevent_default();
        let said = match act {
            Act::Look(event) => {
                shown.on_cursor.run(Some(event));
                shown.show(scene.span.revealing(event, ground.all()));
                in_words(shown, ground.data(), event)
            }
            Act::Show(span) => return shown.show(span),
            Act::Pin => {
                shown.on_pin.run(Some(here));
                fill("Pinned: {moment}", &[("moment", &in_words(shown, ground.data(), here))])
            }
            Act::Leave => {
                shown.on_cursor.run(None);
                shown.on_pin.run(None);
                String::new()
            }
        };
        self.spoken.set_text_content(Some(&said));
    }

    fn let_go(&self) {
        *self.gesture.borrow_mut() = Gesture::default();
        self.set_brush(None);
    }

    /// Shows everything; the two clicks that asked for it pin nothing.
    fn fit(&self) {
        let pinned = self.gesture.borrow().pinned;
        self.shown.on_pin.run(pinned);
        if let Some(scene) = self.scene() {
            self.shown.show(scene.ground.all());
        }
    }

    /// Pinching on a trackpad is a wheel with control; a plain wheel scrolls the page.
    fn wheel(&self, event: &WheelEvent) {
        let Some(scene) = self.scene() else { return };
        let all = scene.ground.all();
        let about = f64::from(event.offset_x()) / self.width();
        let (sideways, along) = (event.delta_x(), event.delta_y());
        let shift = if event.shift_key() && sideways.abs() < 1e-9 { along } else { sideways };
        if event.ctrl_key() || event.meta_key() {
            // Without a library's exponential: two of these steps undo each other.
            let step = along.clamp(-100.0, 100.0) / 150.0;
            let factor = if step > 0.0 { 1.0 + step } else { 1.0 / (1.0 - step) };
            self.shown.show(scene.span.zoomed(about, factor, all));
        } else if shift.abs() > along.abs() || event.shift_key() {
            self.shown.show(scene.span.panned(shift / self.width(), all));
        } else {
            return;
        }
        event.prevent_default();
    }
}
