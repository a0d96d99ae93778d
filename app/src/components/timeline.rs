//! Memory over three iterations: the centre of the page.

use std::sync::Arc;

use highwater_core::report::Report;
use highwater_core::trace::Phase;
use leptos::prelude::*;

use super::key_help::KeyHelp;
use super::minimap::Minimap;
use super::phase_table::PhaseTable;
use super::readout::Readout;
use super::timeline_plot::TimelinePlot;
use crate::chart::Span;
use crate::chart::bands::{Band, bands};
use crate::chart::scene::{Ground, Part, Scene, View};
use crate::chart::stack::Stack;
use crate::format::{grouped, share};
use crate::language::{fill, tr};
use crate::text;
use crate::theme::Theme;

/// The timeline: the picture with a cursor and a pin, what part of it is shown, and its numbers.
#[component]
pub(crate) fn Timeline(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
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
    let ground = Memo::new(move |_| report.get().map(|report| Arc::new(Ground::of(report))));
    let scene = Memo::new(move |_| Some(Arc::new(Scene::of(ground.get()?, view.get()))));
    let scene: Signal<Option<Arc<Scene>>> = scene.into();
    let on_span = Callback::new(move |span: Span| {
        if let Some(scene) = scene.get_untracked().filter(|scene| scene.span != span) {
            on_view.run(View { part: scene.part(span), ..view.get_untracked() });
        }
    });
    // What is pinned from elsewhere is shown.
    Effect::new(move |_| {
        let (Some(pin), Some(scene)) = (pin.get(), scene.get_untracked()) else { return };
        on_span.run(scene.span.revealing(pin, scene.ground.all()));
    });
    let iterations = Memo::new(move |_| {
        report.with(|report| report.as_ref().map_or(0, |report| report.iterations.len()))
    });
    view! {
        <figure class="panel timeline">
            <figcaption class="panel-head">
                <h2 class="panel-title">{tr("Memory over time")}</h2>
                <div class="timeline-tools">
                    <StackChoice view on_view />
                    <IterationChoice iterations view on_view />
                    <ZoomButtons scene on_span />
                    <KeyHelp />
                </div>
            </figcaption>
            <div class="timeline-frame">
                <Axis scene />
                <TimelinePlot scene cursor pin theme on_cursor on_pin on_span />
                <Phases scene />
                <Minimap scene theme on_span />
            </div>
            <Readout scene cursor pin />
            <details class="timeline-table">
                <summary>{tr("The timeline as a table")}</summary>
                <PhaseTable report />
            </details>
        </figure>
    }
}

/// One of a few buttons of which one is pressed.
fn choice(
    text: String,
    label: String,
    pressed: impl Fn() -> bool + Send + 'static,
    choose: impl Fn() + 'static,
) -> impl IntoView {
    view! {
        <button
            type="button"
            aria-label=label
            aria-pressed=move || pressed().to_string()
            on:click=move |_| choose()
        >
            {text}
        </button>
    }
}

#[component]
fn StackChoice(
    /// What is shown, and how.
    view: Signal<View>,
    /// Something else is to be shown.
    on_view: Callback<View>,
) -> impl IntoView {
    let by = move |stack, text: String| {
        choice(
            text.clone(),
            text,
            move || view.get().stack == stack,
            move || on_view.run(View { stack, ..view.get_untracked() }),
        )
    };
    view! {
        <div class="choice" role="group" aria-label=tr("Stacked")>
            {by(Stack::Category, tr("by category"))} {by(Stack::Module, tr("by module"))}
        </div>
    }
}

#[component]
fn IterationChoice(
    /// COUNT: iterations to choose from.
    #[prop(into)]
    iterations: Signal<usize>,
    /// What is shown, and how.
    view: Signal<View>,
    /// Something else is to be shown.
    on_view: Callback<View>,
) -> impl IntoView {
    let of = move |part, text, label| {
        choice(
            text,
            label,
            move || view.get().part == part,
            move || on_view.run(View { part, ..view.get_untracked() }),
        )
    };
    view! {
        <div class="choice" role="group" aria-label=tr("Iteration shown")>
            <span class="choice-label">{tr("Iteration")}</span>
            {of(Part::All, tr("All"), tr("All iterations"))}
            {move || {
                (1..=iterations.get())
                    .map(|n| of(Part::Iteration(n), n.to_string(), fill("Iteration {n}", &[("n", &n)])))
                    .collect_view()
            }}
        </div>
    }
}

#[component]
fn ZoomButtons(
    /// What is drawn.
    scene: Signal<Option<Arc<Scene>>>,
    /// Other events are to be shown.
    on_span: Callback<Span>,
) -> impl IntoView {
    let zoom = move |sign: &'static str, label: String, factor: f64| {
        let click = move |_| {
            if let Some(scene) = scene.get_untracked() {
                on_span.run(scene.span.zoomed(0.5, factor, scene.ground.all()));
            }
        };
        let title = label.clone();
        view! {
            <button type="button" aria-label=label title=title on:click=click>
                {sign}
            </button>
        }
    };
    view! {
        <div class="choice" role="group" aria-label=tr("Zoom")>
            {zoom("\u{2212}", tr("Zoom out"), 2.0)} {zoom("+", tr("Zoom in"), 0.5)}
        </div>
    }
}

/// Sizes beside the picture.
#[component]
fn Axis(
    /// What is drawn.
    scene: Signal<Option<Arc<Scene>>>,
) -> impl IntoView {
    let ground = Memo::new(move |_| scene.with(|scene| Some(scene.as_ref()?.ground.clone())));
    view! {
        <div class="timeline-axis" aria-hidden="true">
            {move || {
                ground
                    .get()
                    .map(|ground| {
                        let last = ground.ticks.at.len().saturating_sub(1);
                        (0..ground.ticks.at.len())
                            .map(|n| {
                                let number = ground.ticks.label(n);
                                let label = if n == last {
                                    format!("{number} {}", ground.ticks.unit.name())
                                } else {
                                    number
                                };
                                let bottom = share(ground.ticks.at[n], ground.top);
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

/// Names of phases below the picture, and between which events it lies.
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
                        bands(scene.ground.data(), scene.span)
                            .into_iter()
                            .map(phase_band)
                            .collect_view()
                    })
            }}
        </div>
        <p class="timeline-range">
            {move || {
                scene
                    .get()
                    .map(|scene| {
                        let Span { begin, end } = scene.span;
                        let number = |event: usize| grouped(event as u64);
                        fill(
                            "events {begin} to {end} of {all}",
                            &[
                                ("begin", &number(begin)),
                                ("end", &number(end.saturating_sub(1))),
                                ("all", &number(scene.ground.data().events)),
                            ],
                        )
                    })
            }}
        </p>
    }
}

fn phase_band(band: Band) -> impl IntoView {
    let name = text::phase(band.phase);
    let title = super::readout::moment(band.phase, band.iteration);
    view! {
        <div
            class=format!("timeline-phase {}", phase_class(band.phase))
            style:left=format!("{}%", 100.0 * band.left)
            style:width=format!("{}%", 100.0 * band.width)
            title=title
        >
            <span class="timeline-phase-name">{name}</span>
            <span class="timeline-phase-short">{text::phase_short(band.phase)}</span>
        </div>
    }
}

/// The style sheet's name of a phase.
pub(super) const fn phase_class(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup | Phase::ZeroGrad => "timeline-phase-other",
        Phase::Forward => "timeline-phase-forward",
        Phase::Backward => "timeline-phase-backward",
        Phase::Optimizer => "timeline-phase-optimizer",
    }
}
