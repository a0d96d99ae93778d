//! The legend of the timeline, and its numbers at the cursor, or at the peak where there is none.

use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::Timeline;
use highwater_core::trace::{Category, Phase};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use crate::chart::scene::{Scene, sample_at};
use crate::chart::stack::{Stack, split};
use crate::language::{fill, tr};
use crate::text;

/// The style sheet's names of the layers that are modules; the last is for all others.
pub(super) const MODULES: [&str; 8] = [
    "module-1",
    "module-2",
    "module-3",
    "module-4",
    "module-5",
    "module-6",
    "module-7",
    "module-other",
];

/// One moment of the timeline in numbers.
#[component]
pub(crate) fn Readout(
    /// What is drawn.
    #[prop(into)]
    scene: Signal<Option<Arc<Scene>>>,
    /// The event under the cursor.
    cursor: Signal<Option<usize>>,
    /// The event that is pinned.
    pin: Signal<Option<usize>>,
) -> impl IntoView {
    move || {
        let scene = scene.get()?;
        let moment = Moment::of(&scene, cursor.get(), pin.get());
        let layers = moment.layers.iter().enumerate();
        let layers = layers.map(|(layer, &bytes)| legend(&scene, layer, bytes)).collect_view();
        Some(view! {
            <div class="readout">
                <p class="readout-when">
                    <strong>{moment.title}</strong>
                    <span>{moment.place}</span>
                </p>
                <dl class="readout-values">
                    {layers} {value("swatch swatch-line", tr("reserved"), String::new(), moment.reserved)}
                </dl>
            </div>
        })
    }
}

fn legend(scene: &Scene, layer: usize, bytes: Bytes) -> impl IntoView + use<> {
    let (class, name, meaning) = match scene.stack {
        Stack::Category => {
            let category = Category::ALL[layer.min(Category::ALL.len() - 1)];
            let meaning = text::category_meaning(category);
            (class(category), text::category(category), meaning)
        }
        Stack::Module => match scene.ground.data().owners.get(layer) {
            Some(owner) => (MODULES[layer.min(6)], owner.module.clone(), owner.module.clone()),
            None => (MODULES[7], tr("all others"), String::new()),
        },
    };
    value(class, name, meaning, bytes)
}

fn value(class: &str, name: String, meaning: String, bytes: Bytes) -> impl IntoView + use<> {
    view! {
        <div class="readout-value" class:readout-none=bytes == Bytes::ZERO title=meaning>
            <dt>
                <span class=format!("swatch {class}") aria-hidden="true"></span>
                <span class="readout-name">{name}</span>
            </dt>
            <dd>
                <ByteSize bytes />
            </dd>
        </div>
    }
}

/// The style sheet's name of a category.
pub(super) const fn class(category: Category) -> &'static str {
    match category {
        Category::Parameter => "category-parameter",
        Category::Buffer => "category-buffer",
        Category::Input => "category-input",
        Category::Activation => "category-activation",
        Category::Temporary => "category-temporary",
        Category::Workspace => "category-workspace",
        Category::Gradient => "category-gradient",
        Category::OptimizerState => "category-optimizer-state",
    }
}

struct Moment {
    title: String,
    place: String,
    layers: Vec<Bytes>,
    reserved: Bytes,
}

impl Moment {
    fn of(scene: &Scene, cursor: Option<usize>, pin: Option<usize>) -> Self {
        let (report, data) = (&scene.ground.report, scene.ground.data());
        let title = match (cursor, pin) {
            (Some(_), _) => tr("At the cursor"),
            (None, Some(_)) => tr("At the pin"),
            (None, None) => tr("At the peak"),
        };
        let event = cursor.or(pin).unwrap_or(report.peak.event);
        let sample = sample_at(data, event).unwrap_or(0);
        let at_peak = event == report.peak.event;
        let categories = data.categories.get(sample).copied().unwrap_or_default();
        let categories = if at_peak { report.at_peak } else { categories };
        let allocated = data.allocated.get(sample).copied().unwrap_or_default();
        let place = fill(
            "{when}{running}, {size} allocated",
            &[
                ("when", &when(data, event)),
                ("running", &running(data, sample)),
                ("size", if at_peak { &report.peak.allocated } else { &allocated }),
            ],
        );
        let layers = split(data, scene.stack, &categories, sample);
        let reserved = data.reserved.get(sample).copied().unwrap_or_default();
        Self { title, place, layers, reserved }
    }
}

/// What ran at a sample: `, aten::convolution in layer1.0.conv2`.
fn running(data: &Timeline, sample: usize) -> String {
    let label = |places: &[usize]| {
        places.get(sample).and_then(|&place| data.labels.get(place)).map_or("", String::as_str)
    };
    what(label(&data.operator), label(&data.module))
}

/// `, aten::convolution in layer1.0.conv2`.
pub(super) fn what(operator: &str, module: &str) -> String {
    match (operator, module) {
        ("", "") => String::new(),
        (one, "") | ("", one) => format!(", {one}"),
        (operator, module) => {
            fill(", {operator} in {module}", &[("operator", &operator), ("module", &module)])
        }
    }
}

/// `backward of iteration 2`.
pub(super) fn when(data: &Timeline, event: usize) -> String {
    let after = data.phases.partition_point(|mark| mark.event <= event);
    let mark = after.checked_sub(1).and_then(|at| data.phases.get(at));
    mark.map_or_else(String::new, |mark| moment(mark.phase, mark.iteration))
}

/// `backward of iteration 2`.
pub(super) fn moment(phase: Phase, iteration: usize) -> String {
    let name = text::phase(phase);
    if phase == Phase::Setup {
        return name;
    }
    fill("{phase} of iteration {n}", &[("phase", &name), ("n", &iteration)])
}

/// One moment in words: `backward of iteration 2, event 120 of 900: 3.51 GiB allocated, …`.
pub(super) fn in_words(data: &Timeline, event: usize) -> String {
    let sample = sample_at(data, event).unwrap_or(0);
    let (Some(allocated), Some(reserved)) = (data.allocated.get(sample), data.reserved.get(sample))
    else {
        return String::new();
    };
    fill(
        "{when}{running}, event {event} of {count}: {allocated} allocated, {reserved} reserved",
        &[
            ("when", &when(data, event)),
            ("running", &running(data, sample)),
            ("event", &event),
            ("count", &crate::format::grouped(data.events as u64)),
            ("allocated", allocated),
            ("reserved", reserved),
        ],
    )
}
