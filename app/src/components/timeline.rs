//! Memory over three iterations: the centre of the page.

use std::sync::Arc;

use highwater_core::report::{Report, Timeline as Data};
use highwater_core::{Bytes, trace::Phase};
use leptos::prelude::*;
use leptos::{ev, html};
use wasm_bindgen::prelude::*;
use web_sys::ResizeObserver;

use super::phase_table::PhaseTable;
use super::readout::Readout;
use super::timeline_canvas::{self, Picture};
use crate::chart::Span;
use crate::chart::bands::{Band, bands};
use crate::chart::columns::{column_at, columns};
use crate::chart::ticks::{Ticks, ticks};
use crate::format::{self, share};
use crate::text;
use crate::theme::Theme;

/// COUNT: lines across the picture, at most.
const TICKS: u64 = 6;

/// What is drawn, apart from the size of the window.
#[derive(Clone)]
struct Scene {
    report: Arc<Report>,
    span: Span,
    top: Bytes,
    ticks: Ticks,
    /// What the device leaves to the allocator.
    limit: Bytes,
}

impl Scene {
    fn of(report: Arc<Report>, iteration: Option<usize>) -> Self {
        let highest = report.timeline.reserved.iter().copied().max().unwrap_or_default();
        let highest = highest.max(report.peak.allocated);
        let limit = report.verdict.usable() - report.verdict.context;
        // A limit far above would press the picture to the ground: it is only named.
        let (reach, percent) =
            if limit.0 <= highest.0 / 5 * 9 { (highest.max(limit), 108) } else { (highest, 116) };
        let top = Bytes(reach.0 / 100 * percent).max(Bytes(1));
        let span = Span::of(&report.timeline, iteration);
        Self { span, top, ticks: ticks(top, TICKS), limit, report }
    }

    fn data(&self) -> &Data {
        &self.report.timeline
    }

    fn limit_shown(&self) -> Option<Bytes> {
        Some(self.limit).filter(|&limit| limit <= self.top)
    }

    /// Position in the samples of the peak.
    fn peak(&self) -> Option<usize> {
        let after = self.data().event.partition_point(|&event| event <= self.report.peak.event);
        after.checked_sub(1)
    }
}

/// The timeline, stacked by category, with a cursor for mouse and keyboard.
#[component]
pub(crate) fn Timeline(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// Iteration to show; `None` for all.
    #[prop(into)]
    iteration: Signal<Option<usize>>,
    /// Place of the cursor in the samples.
    #[prop(into)]
    cursor: Signal<Option<usize>>,
    /// The theme, whose colours are painted.
    #[prop(into)]
    theme: Signal<Theme>,
    /// Another iteration is to be shown.
    on_iteration: Callback<Option<usize>>,
    /// The cursor moved.
    on_cursor: Callback<Option<usize>>,
) -> impl IntoView {
    let scene = Signal::derive(move || {
        report.get().map(|report| Arc::new(Scene::of(report, iteration.get())))
    });
    let iterations = Memo::new(move |_| {
        report.with(|report| report.as_ref().map_or(0, |report| report.iterations.len()))
    });
    view! {
        <figure class="panel timeline">
            <figcaption class="panel-head">
                <h2 class="panel-title">"Memory over time"</h2>
                <IterationChoice iterations iteration on_iteration />
            </figcaption>
            <div class="timeline-frame">
                <Axis scene />
                <Plot scene cursor theme on_cursor />
                <Phases scene />
            </div>
            <Readout report cursor />
            <details class="timeline-table">
                <summary>"The timeline as a table"</summary>
                <PhaseTable report />
            </details>
        </figure>
    }
}

#[component]
fn IterationChoice(
    /// COUNT: iterations to choose from.
    #[prop(into)]
    iterations: Signal<usize>,
    /// The iteration shown; `None` for all.
    iteration: Signal<Option<usize>>,
    /// Another one is wanted.
    on_iteration: Callback<Option<usize>>,
) -> impl IntoView {
    let choice = move |which: Option<usize>| {
        let text = which.map_or_else(|| "All".to_owned(), |n| n.to_string());
        let label = which.map_or_else(|| "All iterations".to_owned(), |n| format!("Iteration {n}"));
        view! {
            <button
                type="button"
                aria-label=label
                aria-pressed=move || (iteration.get() == which).to_string()
                on:click=move |_| on_iteration.run(which)
            >
                {text}
            </button>
        }
    };
    view! {
        <div class="choice" role="group" aria-label="Iteration shown">
            <span class="choice-label">"Iteration"</span>
            {choice(None)}
            {move || (1..=iterations.get()).map(|n| choice(Some(n))).collect_view()}
        </div>
    }
}

/// Sizes beside the picture.
#[component]
fn Axis(
    /// What is drawn.
    scene: Signal<Option<Arc<Scene>>>,
) -> impl IntoView {
    view! {
        <div class="timeline-axis" aria-hidden="true">
            {move || {
                scene
                    .get()
                    .map(|scene| {
                        let last = scene.ticks.at.len().saturating_sub(1);
                        (0..scene.ticks.at.len())
                            .map(|n| {
                                let number = scene.ticks.label(n);
                                let label = if n == last {
                                    format!("{number} {}", scene.ticks.unit.name())
                                } else {
                                    number
                                };
                                let bottom = share(scene.ticks.at[n], scene.top);
                                view! {
                                    <span style:bottom=format!("{bottom}%")>{label}</span>
                                }
                            })
                            .collect_view()
                    })
            }}
        </div>
    }
}

/// The picture, its marks and its cursor.
#[component]
fn Plot(
    /// What is drawn.
    scene: Signal<Option<Arc<Scene>>>,
    /// Place of the cursor in the samples.
    cursor: Signal<Option<usize>>,
    /// The theme.
    theme: Signal<Theme>,
    /// The cursor moved.
    on_cursor: Callback<Option<usize>>,
) -> impl IntoView {
    let plot = NodeRef::<html::Div>::new();
    let canvas = NodeRef::<html::Canvas>::new();
    let size = observed_size(plot);
    let (spoken, set_spoken) = signal(String::new());
    Effect::new(move |_| {
        let (Some(scene), Some(canvas)) = (scene.get(), canvas.get()) else { return };
        theme.track();
        let (width, height) = size.get();
        if width < 1.0 {
            return;
        }
        // A browser without a canvas still has the table.
        let _painted = timeline_canvas::paint(
            &canvas,
            (width, height),
            Picture {
                timeline: scene.data(),
                span: scene.span,
                top: scene.top,
                ticks: &scene.ticks.at,
                capacity: scene.limit_shown(),
            },
        );
    });
    let at_pointer = move |event: &ev::PointerEvent| {
        let scene = scene.get_untracked()?;
        let width = size.get_untracked().0.max(1.0);
        let columns = columns(scene.data(), scene.span, to_columns(width));
        let column = column_at(f64::from(event.offset_x()) / width, columns.len())?;
        columns.get(column).copied()
    };
    let on_key = move |event: ev::KeyboardEvent| {
        let Some(scene) = scene.get_untracked() else { return };
        let target = match key_move(&scene, cursor.get_untracked(), &event) {
            Some(Move::To(target)) => target,
            Some(Move::Away) => None,
            None => return,
        };
        event.prevent_default();
        set_spoken.set(target.map_or_else(String::new, |at| moment(&scene.report, at)));
        on_cursor.run(target);
    };
    view! {
        <div
            class="timeline-plot"
            node_ref=plot
            tabindex="0"
            role="slider"
            aria-label="Memory over time. Arrow keys move the cursor, P goes to the peak, Escape leaves."
            aria-valuemin="0"
            aria-valuemax=move || {
                scene.with(|s| s.as_ref().map_or(0, |s| s.data().event.len().saturating_sub(1)).to_string())
            }
            aria-valuenow=move || cursor.get().unwrap_or(0).to_string()
            aria-valuetext=move || {
                let scene = scene.get();
                match (scene, cursor.get()) {
                    (Some(scene), Some(at)) => moment(&scene.report, at),
                    _ => "no cursor".to_owned(),
                }
            }
            on:keydown=on_key
            on:pointermove=move |event| on_cursor.run(at_pointer(&event))
            on:pointerdown=move |event| on_cursor.run(at_pointer(&event))
            on:pointerleave=move |_| on_cursor.run(None)
        >
            <canvas node_ref=canvas aria-hidden="true"></canvas>
            {move || scene.get().map(|scene| marks(&scene))}
            {move || {
                let scene = scene.get()?;
                let at = cursor.get()?;
                let event = *scene.data().event.get(at)?;
                let left = 100.0 * scene.span.share(event).clamp(0.0, 1.0);
                Some(view! { <div class="timeline-cursor" style:left=format!("{left}%")></div> })
            }}
            <p class="hidden-text" aria-live="polite">
                {spoken}
            </p>
        </div>
    }
}

/// The peak and the limit of the device, as labels in the picture.
fn marks(scene: &Scene) -> impl IntoView + use<> {
    let peak = scene.span.contains(scene.report.peak.event).then(|| {
        let left = 100.0 * scene.span.share(scene.report.peak.event);
        // On top of the stack, which shows requested bytes; the allocator's rounding is above it.
        let bottom = share(scene.report.peak.requested, scene.top);
        let crowded = left > 60.0;
        let label = format!("peak {}", scene.report.peak.allocated);
        view! {
            <div
                class="timeline-peak"
                class:timeline-peak-left=crowded
                style:left=format!("{left}%")
                style:bottom=format!("{bottom}%")
            >
                <span>{label}</span>
            </div>
        }
    });
    let device = &scene.report.verdict;
    let shown = scene.limit_shown();
    let above = shown.is_none();
    let bottom = shown.map_or(100.0, |limit| share(limit, scene.top));
    let arrow = if above { "\u{2191} " } else { "" };
    let label = format!("{arrow}{} has room for {}", device.name, scene.limit);
    let limit = view! {
        <div
            class="timeline-limit"
            class:timeline-limit-above=above
            style:bottom=format!("{bottom}%")
        >
            <span>{label}</span>
        </div>
    };
    (peak, limit)
}

/// Names of phases below the picture, and of iterations below them.
#[component]
fn Phases(
    /// What is drawn.
    scene: Signal<Option<Arc<Scene>>>,
) -> impl IntoView {
    view! {
        <div class="timeline-phases" aria-hidden="true">
            {move || {
                scene
                    .get()
                    .map(|scene| {
                        bands(scene.data(), scene.span).into_iter().map(phase_band).collect_view()
                    })
            }}
        </div>
    }
}

fn phase_band(band: Band) -> impl IntoView {
    let name = text::phase(band.phase);
    let title = format!("{name} of iteration {}", band.iteration);
    view! {
        <div
            class="timeline-phase"
            class:timeline-phase-forward=band.phase == Phase::Forward
            class:timeline-phase-backward=band.phase == Phase::Backward
            class:timeline-phase-optimizer=band.phase == Phase::Optimizer
            style:left=format!("{}%", 100.0 * band.left)
            style:width=format!("{}%", 100.0 * band.width)
            title=title
        >
            <span class="timeline-phase-name">{name}</span>
            <span class="timeline-phase-short">{text::phase_short(band.phase)}</span>
        </div>
    }
}

/// What a key does to the cursor.
enum Move {
    To(Option<usize>),
    Away,
}

/// Where a key moves the cursor; nothing for keys that mean nothing here.
fn key_move(scene: &Scene, cursor: Option<usize>, event: &ev::KeyboardEvent) -> Option<Move> {
    if event.ctrl_key() || event.alt_key() || event.meta_key() {
        return None;
    }
    let data = scene.data();
    let first = data.event.partition_point(|&event| event < scene.span.begin);
    let last = data.event.partition_point(|&event| event < scene.span.end).checked_sub(1)?;
    let stride = if event.shift_key() { (last - first) / 50 } else { 1 }.max(1);
    let page = ((last - first) / 10).max(1);
    let here = cursor.or_else(|| scene.peak())?.clamp(first, last);
    let target = match event.key().as_str() {
        "ArrowLeft" | "ArrowDown" => here.saturating_sub(stride).max(first),
        "ArrowRight" | "ArrowUp" => (here + stride).min(last),
        "PageDown" => here.saturating_sub(page).max(first),
        "PageUp" => (here + page).min(last),
        "Home" => first,
        "End" => last,
        "p" | "P" => return Some(Move::To(scene.peak())),
        "Escape" => return Some(Move::Away),
        _ => return None,
    };
    Some(Move::To(Some(target)))
}

/// One moment in words: `backward of iteration 2, event 120 of 900: 3.51 GiB allocated, …`.
fn moment(report: &Report, at: usize) -> String {
    let data = &report.timeline;
    let (Some(&event), Some(allocated), Some(reserved)) =
        (data.event.get(at), data.allocated.get(at), data.reserved.get(at))
    else {
        return String::new();
    };
    let when = super::readout::when(data, event);
    let running = super::readout::running(data, at);
    let count = format::grouped(data.events as u64);
    format!("{when}{running}, event {event} of {count}: {allocated} allocated, {reserved} reserved")
}

/// Width and height of an element in CSS pixels, kept up to date.
fn observed_size(element: NodeRef<html::Div>) -> ReadSignal<(f64, f64)> {
    let (size, set_size) = signal((0.0, 0.0));
    Effect::new(move |_| {
        let Some(element) = element.get() else { return };
        let watched = element.clone();
        let on_resize = Closure::<dyn FnMut()>::new(move || {
            let shape = watched.get_bounding_client_rect();
            set_size.set((shape.width(), shape.height()));
        });
        if let Ok(observer) = ResizeObserver::new(on_resize.as_ref().unchecked_ref()) {
            observer.observe(&element);
            let kept = StoredValue::new_local((observer, on_resize));
            on_cleanup(move || {
                kept.with_value(|(observer, _)| observer.disconnect());
            });
        }
    });
    size
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of pixels, at most a few thousand"
)]
const fn to_columns(width: f64) -> usize {
    width as usize
}
