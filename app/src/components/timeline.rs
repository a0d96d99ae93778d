//! Memory over three iterations: the centre of the page.

use std::fmt::Write as _;
use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::Report;
use highwater_core::time::Picoseconds;
use leptos::html;
use leptos::prelude::*;

use super::key_help::KeyHelp;
use super::minimap::Minimap;
use super::module_tree::{ModuleTree, is_within};
use super::parts::FoldedTable;
use super::readout::Readout;
use super::shown::{Shown, percent};
use super::timeline_plot::TimelinePlot;
use super::{key_help, phase_table};
use crate::model::state::Timed;
use crate::model::theme::Theme;
use crate::model::times::Clock;
use crate::words::format::{grouped, length, share};
use crate::words::language::{fill, tr};
use crate::words::{self, Vocabulary};
use highwater_draw::bands::{Band, bands};
use highwater_draw::scene::{Ground, Limit, Part, Scene, View, sample_at};
use highwater_draw::stack::Stack;

/// The timeline: the picture with a cursor and a pin, what part of it is shown, and its numbers.
#[component]
pub(crate) fn Timeline(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// A run that was kept, to compare this one with.
    compared: Signal<Option<Arc<Report>>>,
    /// What is shown, and how.
    #[prop(into)]
    view: Signal<View>,
    /// What GPUs leave to the allocator; otherwise that of the report's own.
    #[prop(optional, into)]
    limits: Option<Signal<Vec<Limit>>>,
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
    /// Whether it can only be looked at: nothing answers to pointers, keys and screen readers.
    #[prop(into)]
    inert: Signal<bool>,
    /// How long a step takes.
    times: RwSignal<Option<Timed>>,
    /// The request that the report answers.
    #[prop(into)]
    generation: Signal<u64>,
) -> impl IntoView {
    let (ground, set_ground) = signal(None::<Arc<Ground>>);
    let by_time = RwSignal::new(false);
    let known = Memo::new(move |_| {
        let newest = report.get().zip(times.get());
        Known(newest.and_then(|(report, timed)| clock(&report, &timed, generation.get())))
    });
    let clock = Signal::derive(move || by_time.get().then(|| known.get().0).flatten());
    let shown = Shown { ground, view, cursor, pin, theme, on_view, on_cursor, on_pin, clock };
    let shown = shown.in_ticks();
    Effect::new(move |_| {
        let ground = report.get().map(|report| {
            let own = |report: &Report| vec![Limit::of(&report.verdict, true)];
            let limits = limits.map_or_else(|| own(&report), |limits| limits.get());
            match clock.get() {
                // Another run is aligned with this one event by event.
                Some(clock) => Arc::new(Ground::of(Arc::new(clock.retimed(&report)), None, limits)),
                None => Arc::new(Ground::of(report, compared.get(), limits)),
            }
        });
        set_ground.set(ground);
    });
    // What is pinned from elsewhere is shown.
    Effect::new(move |_| {
        if let Some((pin, scene)) = pin.get().zip(untrack(move || shown.scene())) {
            shown.show(scene.span.revealing(pin, scene.ground.all()));
        }
    });
    let keys = NodeRef::<html::Dialog>::new();
    view! {
        <section
            class="panel timeline"
            aria-labelledby="timeline-title"
            prop:inert=move || inert.get()
        >
            <div class="panel-head">
                <h2 class="panel-title" id="timeline-title">{tr("Memory over time")}</h2>
                <div class="timeline-tools">
                    <div class="choice " role="group" aria-label=tr("Stacked")>
                        {[Stack::Category, Stack::Module].map(|by| stack_button(shown, by)).collect_view()}
                    </div>
                    <div
                        class="choice timeline-iterations"
                        role="group"
                        aria-label=tr("Iteration shown")
                    >
                        <span class="choice-label">{tr("Iteration")}</span>
                        {move || ground.get().map(|ground| iterations(shown, &ground))}
                    </div>
                    {axis_choice(known, by_time)}
                    {zoom_choice(shown)}
                    <button
                        type="button"
                        class="quiet-button key-help-button"
                        aria-haspopup="dialog"
                        aria-label=tr("All keys")
                        title=tr("All keys")
                        on:click=move |_| key_help::open(keys)
                    >
                        "?"
                    </button>
                </div>
            </div>
            <div class="timeline-body">
                <div class="timeline-frame">
                    <div class="timeline-axis" aria-hidden="true">
                        {move || ground.get().map(|ground| axis(&ground))}
                    </div>
                    <TimelinePlot shown />
                    <div class="timeline-phases" aria-hidden="true">
                        {move || shown.scene().map(|scene| phases(&scene))}
                    </div>
                    {move || known.get().0.and_then(|clock| bounds(&clock, shown))}
                    <p class="timeline-range">
                        {move || shown.scene().map(|scene| range(&scene, clock.get().as_deref()))}
                    </p>
                    <Minimap shown />
                </div>
                <div class="timeline-side">
                    <Readout shown />
                    {modules(shown, report)}
                </div>
            </div>
            <FoldedTable
                id="timeline-table"
                summary=tr("The timeline as a table")
                label=tr("Table of the timeline")
            >
                {move || report.get().map(|report| phase_table::table(&report))}
            </FoldedTable>
            <KeyHelp sheet=keys />
        </section>
    }
}

/// The modules, linked with the pin both ways.
fn modules(shown: Shown, report: Signal<Option<Arc<Report>>>) -> impl IntoView {
    // The module that ran at the pin, or the one that was asked for if that ran inside it.
    let asked = RwSignal::new(None::<String>);
    let chosen = Signal::derive(move || {
        let module = module_at(shown.ground.get()?.as_ref(), shown.pin.get()?)?;
        let asked = asked.get().filter(|asked| is_within(&module, asked));
        Some(asked.unwrap_or(module))
    });
    let on_module = Callback::new(move |module: Option<String>| {
        let scene = untrack(move || shown.scene());
        let event = scene.zip(module.as_ref()).and_then(|(scene, path)| first_run(&scene, path));
        asked.set(module);
        shown.on_pin.run(event);
    });
    view! { <ModuleTree report chosen on_module /> }
}

/// The module that ran at an event.
fn module_at(ground: &Ground, event: usize) -> Option<String> {
    let data = ground.data();
    let label = *data.module.get(sample_at(data, event)?)?;
    data.labels.get(label).filter(|module| !module.is_empty()).cloned()
}

/// The first event that is shown of a module, or of one inside it.
fn first_run(scene: &Scene, path: &str) -> Option<usize> {
    let data = scene.ground.data();
    let runs: Vec<bool> = data.labels.iter().map(|label| is_within(label, path)).collect();
    let mut samples = data.event.iter().zip(&data.module);
    let is_run = |&(event, &label): &(&usize, &usize)| {
        scene.span.contains(*event) && runs.get(label).copied().unwrap_or(false)
    };
    samples.find(is_run).map(|(&event, _)| event)
}

/// What the picture can be stacked by; it has another name where there is no model.
fn stack_button(shown: Shown, by: Stack) -> impl IntoView {
    let name = Memo::new(move |_| {
        let ground = shown.ground.get();
        ground.map_or_else(Vocabulary::default, |ground| Vocabulary::of(&ground.report)).stacked(by)
    });
    view! {
        <button
            type="button"
            aria-label=name
            title=name
            aria-pressed=move || (shown.view.get().stack == by).to_string()
            on:click=move |_| {
                shown.on_view.run(View { stack: by, ..shown.view.get_untracked() });
            }
        >
            {name}
        </button>
    }
}

/// A button for each iteration, and one for all.
fn iterations(shown: Shown, ground: &Ground) -> impl IntoView + use<> {
    let button = move |part: Part, name: String, label: String| {
        view! {
            <button
                type="button"
                aria-label=label.clone()
                title=label
                aria-pressed=move || (shown.part() == Some(part)).to_string()
                on:click=move |_| {
                    shown.on_view.run(View { part, ..shown.view.get_untracked() });
                }
            >
                {name}
            </button>
        }
    };
    let all = button(Part::All, tr("All"), tr("All iterations"));
    let each = (1..=ground.report.iterations.len()).map(move |n| {
        button(Part::Iteration(n), n.to_string(), fill("Iteration {n}", &[("n", &n)]))
    });
    (all, each.collect_view())
}

/// Sizes next to the picture.
fn axis(ground: &Ground) -> impl IntoView + use<> {
    let count = ground.ticks.at.len();
    let tick = |(n, &size): (usize, &Bytes)| {
        let unit = if n + 1 == count { ground.ticks.unit.name() } else { "" };
        let bottom = length(share(size, ground.top));
        view! {
            <span style=("--bottom", bottom)>{ground.ticks.label(n)} " " {unit}</span>
        }
    };
    ground.ticks.at.iter().enumerate().map(tick).collect_view()
}

/// Names of phases below the picture.
fn phases(scene: &Scene) -> impl IntoView + use<> {
    let phase = |band: Band| {
        view! {
            <div
                class=["timeline-phase ", band.phase.class()].concat()
                title=words::moment(band.phase, band.iteration)
                style:left=percent(band.left)
                style:width=percent(band.width)
            >
                <span class="timeline-phase-name">{words::phase(band.phase)}</span>
                <span class="timeline-phase-short">{words::phase_short(band.phase)}</span>
            </div>
        }
    };
    bands(scene.ground.data(), scene.span).into_iter().map(phase).collect_view()
}

/// A clock; another one is of another run.
#[derive(Clone)]
struct Known(Option<Arc<Clock>>);

impl PartialEq for Known {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// The clock of a report, where the times are of the same run.
fn clock(report: &Report, timed: &Timed, generation: u64) -> Option<Arc<Clock>> {
    let times = timed.at(Some(generation))?.as_ref().ok()?;
    Clock::of(&report.timeline, times).map(Arc::new)
}

/// Buttons that show more or less of the run.
fn zoom_choice(shown: Shown) -> impl IntoView {
    let zoom = move |factor| {
        if let Some(scene) = untrack(move || shown.scene()) {
            shown.show(scene.span.zoomed(0.5, factor, scene.ground.all()));
        }
    };
    view! {
        <div class="choice " role="group" aria-label=tr("Zoom")>
            <button
                type="button"
                aria-label=tr("Zoom out")
                title=tr("Zoom out")
                on:click=move |_| zoom(2.0)
            >
                "\u{2212}"
            </button>
            <button
                type="button"
                aria-label=tr("Zoom in")
                title=tr("Zoom in")
                on:click=move |_| zoom(0.5)
            >
                "+"
            </button>
        </div>
    }
}

/// Whether the axis counts events or time, where times are known.
fn axis_choice(known: Memo<Known>, by_time: RwSignal<bool>) -> impl IntoView {
    view! {
        // Its place is kept until times are known.
        <div
            class="choice timeline-by"
            class:timeline-by-unknown=move || known.with(|known| known.0.is_none())
            role="group"
            aria-label=tr("Axis")
        >
            {[(false, "events"), (true, "time")].map(|(is, name)| axis_button(by_time, is, name)).collect_view()}
        </div>
    }
}

fn axis_button(by_time: RwSignal<bool>, is: bool, name: &'static str) -> impl IntoView {
    view! {
        <button
            type="button"
            aria-pressed=move || (by_time.get() == is).to_string()
            on:click=move |_| by_time.set(is)
        >
            {tr(name)}
        </button>
    }
}

/// What the run waits for, below the picture, and what the colours mean.
fn bounds(clock: &Clock, shown: Shown) -> Option<impl IntoView + use<>> {
    const COLUMNS: usize = 180;
    let scene = shown.scene()?;
    let is_ticks = shown.clock.with(Option::is_some);
    let edge = |column: usize| scene.span.begin + scene.span.count() * column / COLUMNS;
    let mut stops = String::from("linear-gradient(to right");
    for column in 0..COLUMNS {
        let bound = clock.bound(is_ticks, edge(column), edge(column + 1));
        let place =
            |column: usize| percent(share(Bytes(column as u64), Bytes(COLUMNS as u64)) / 100.0);
        let (begin, end) = (place(column), place(column + 1));
        write!(stops, ",var(--bound-{bound}) {begin} {end}").ok();
    }
    stops.push(')');
    let key = [(1, "arithmetic"), (2, "memory"), (3, "the host")].map(|(bound, name)| {
        view! {
            " "
            <span class=format!("swatch swatch-{bound}")></span>
            " "
            {tr(name)}
        }
    });
    Some(view! {
        <div class="timeline-bounds" aria-hidden="true" style:background=stops></div>
        <p class="timeline-key">{tr("waits for")} {key.collect_view()}</p>
    })
}

/// Between which events or moments the picture lies.
fn range(scene: &Scene, clock: Option<&Clock>) -> String {
    if let Some(clock) = clock {
        let moment = |tick| Picoseconds(clock.moment(tick));
        let (begin, end) = (moment(scene.span.begin), moment(scene.span.end));
        return fill(
            "{begin} to {end} of {all}",
            &[("begin", &begin), ("end", &end), ("all", &moment(usize::MAX))],
        );
    }
    let number = |event: usize| grouped(event as u64);
    fill(
        "events {begin} to {end} of {all}",
        &[
            ("begin", &number(scene.span.begin)),
            ("end", &number(scene.span.end.saturating_sub(1))),
            ("all", &number(scene.ground.data().events)),
        ],
    )
}
