//! The legend of the timeline, and its numbers at the cursor, at the pin, or at the peak.

use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::Timeline;
use highwater_core::trace::Category;
use leptos::prelude::*;

use super::parts::size;
use super::shown::Shown;
use crate::model::times::Clock;
use crate::words::Vocabulary;
use crate::words::language::{fill, tr};
pub(super) use crate::words::when;
use highwater_draw::palette::{Ink, MODULES};
use highwater_draw::scene::{Scene, sample_at};
use highwater_draw::stack::{Stack, shared_path, split};

/// The numbers of one moment.
#[component]
pub(crate) fn Readout(
    /// What is shown.
    shown: Shown,
) -> impl IntoView {
    let inside = move |scene: Scene| {
        let (report, data) = (&scene.ground.report, scene.ground.data());
        let (cursor, pin) = (shown.cursor.get(), shown.pin.get());
        let title = match (cursor, pin) {
            (Some(_), _) => tr("At the cursor"),
            (None, Some(_)) => tr("At the pin"),
            (None, None) => tr("At the peak"),
        };
        let event = cursor.or(pin).unwrap_or(report.peak.event);
        let sample = sample_at(data, event).unwrap_or(0);
        let allocated = data.allocated.get(sample).copied().unwrap_or_default();
        let place = fill(
            "{when}{running}, {size} allocated",
            &[
                ("when", &when(data, event)),
                ("running", &running(data, sample)),
                ("size", &allocated.short()),
            ],
        );
        let reserved = data.reserved.get(sample).copied().unwrap_or_default();
        let cached = tr("Reserved by PyTorch and not allocated");
        view! {
            <p class="readout-when">
                <strong>{title}</strong>
                " "
                <span>{place}</span>
            </p>
            <dl class="readout-values">
                {layers(&scene, sample)}
                {value("swatch-cached", tr("cached"), cached, reserved - allocated)}
                {value("swatch-line", tr("reserved"), String::new(), reserved)}
            </dl>
        }
    };
    view! { <div class="readout">{move || shown.scene().map(inside)}</div> }
}

/// Each layer of the stack with its size.
fn layers(scene: &Scene, sample: usize) -> impl IntoView + use<> {
    let data = scene.ground.data();
    let vocabulary = Vocabulary::of(&scene.ground.report);
    let categories = data.categories.get(sample).copied().unwrap_or_default();
    let mut layers = Vec::new();
    for (layer, bytes) in split(data, scene.stack, &categories, sample).into_iter().enumerate() {
        let is_category = scene.stack == Stack::Category;
        let category = Category::ALL.get(layer).filter(|_| is_category);
        if category.is_none_or(|&category| vocabulary.occurs(category)) {
            let (class, name, meaning) = legend(scene, layer, vocabulary);
            layers.push(value(class, name, meaning, bytes));
        }
    }
    layers
}

/// What the layers of a scene are called, from the bottom.
pub(super) fn layer_names(scene: &Scene) -> Vec<String> {
    let vocabulary = Vocabulary::of(&scene.ground.report);
    let layers = match scene.stack {
        Stack::Category => Category::COUNT,
        Stack::Module => scene.ground.data().owners.len() + 1,
    };
    (0..layers).map(|layer| legend(scene, layer, vocabulary).1).collect()
}

/// Class, name and meaning of a layer.
fn legend(scene: &Scene, layer: usize, vocabulary: Vocabulary) -> (&'static str, String, String) {
    match scene.stack {
        Stack::Category => {
            let category = Category::ALL[layer.min(Category::ALL.len() - 1)];
            (class(category), vocabulary.category(category), vocabulary.meaning(category))
        }
        Stack::Module => match scene.ground.data().owners.get(layer) {
            Some(owner) => {
                let owners = scene.ground.data().owners.iter();
                let paths: Vec<&str> = owners.map(|owner| owner.module.as_str()).collect();
                let shared = shared_path(&paths);
                let name = owner.module.get(shared..).unwrap_or_default().to_owned();
                (Ink::Module(layer.min(MODULES - 2)).token(), name, owner.module.clone())
            }
            None => (Ink::Module(MODULES - 1).token(), tr("all others"), String::new()),
        },
    }
}

fn value(class: &'static str, name: String, meaning: String, bytes: Bytes) -> impl IntoView {
    view! {
        <div class="readout-value" class:readout-none=bytes == Bytes::ZERO title=meaning>
            <dt>
                <span class=["swatch ", class].concat() aria-hidden="true"></span>
                <span class="readout-name">{name}</span>
            </dt>
            <dd>{size(bytes)}</dd>
        </div>
    }
}

/// The style sheet's name of a category.
pub(super) const fn class(category: Category) -> &'static str {
    category.color()
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

/// One moment in words: `backward of iteration 2, event 120 of 900: 3.51 GiB allocated, …`.
pub(super) fn in_words(shown: Shown, data: &Timeline, event: usize) -> String {
    let number = |event| {
        let number = |clock: &Option<Arc<Clock>>| clock.as_ref().map_or(event, |c| c.event(event));
        shown.clock.with_untracked(number)
    };
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
            ("event", &number(event)),
            ("count", &crate::words::format::grouped(number(data.events) as u64)),
            ("allocated", &allocated.short()),
            ("reserved", &reserved.short()),
        ],
    )
}
