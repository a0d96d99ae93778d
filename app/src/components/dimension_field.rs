//! One open dimension: drag roughly, type exactly, step by one.

use std::fmt::Display;

use leptos::prelude::*;

use super::by_hand::set;
use crate::model::protocol::OpenDim;
use crate::words::language::{fill, tr};

/// Sizes that the slider stops at: each power of two and the one half way to the next.
const STOPS: [u64; 31] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 65536,
];

/// COUNT: stops of a batch; sequences go further.
const BATCH_STOPS: usize = 24;

/// Slider, number and stepper for one dimension.
#[component]
pub(crate) fn DimensionField(
    /// The dimension.
    dim: OpenDim,
    /// What it is called here.
    #[prop(into)]
    label: Signal<String>,
    /// Its size.
    value: Signal<u64>,
    /// A size was chosen.
    on_value: Callback<u64>,
) -> impl IntoView {
    let stops = if dim.batch { &STOPS[..BATCH_STOPS] } else { &STOPS[..] };
    let last = stops.len() - 1;
    let position = move || nearest(stops, value.get());
    let slider = move || fill("{name} (slider)", &[("name", &label.get())]);
    let (about, default) = (about(&dim), dim.default);
    let mut id = dim.name;
    id.insert_str(0, "dimension-");
    let is_wrong = RwSignal::new(false);
    let less = move || fill("{name} less one", &[("name", &label.get())]);
    let more = move || fill("{name} plus one", &[("name", &label.get())]);
    view! {
        <div class="dimension">
            <label class="dimension-name" for=id.clone() title=about>
                {label}
            </label>
            <div class="stepper" class:stepper-long=move || { value.get() > 9_999_999 }>
                <button
                    type="button"
                    aria-label=less
                    disabled=move || value.get() <= 1
                    on:click=move |_| on_value.run(value.get_untracked().saturating_sub(1).max(1))
                >
                    "\u{2212}"
                </button>
                <input
                    id=id
                    type="number"
                    inputmode="numeric"
                    min="1"
                    step="1"
                    prop:value=move || value.get().to_string()
                    on:input:target=move |event| {
                        let field = event.target();
                        let size = parse(&field.value());
                        let wrong = size.is_none() && !field.value().is_empty();
                        set(&field, "aria-invalid", &wrong.to_string());
                        is_wrong.set(wrong);
                        if let Some(size) = size {
                            on_value.run(size);
                        }
                    }
                    on:change:target=move |event| {
                        let field = event.target();
                        // What is taken back is said.
                        is_wrong.set(parse(&field.value()).is_none());
                        field.set_value(&value.get_untracked().to_string());
                        set(&field, "aria-invalid", "false");
                    }
                />
                <button
                    type="button"
                    aria-label=more
                    on:click=move |_| on_value.run(value.get_untracked().saturating_add(1))
                >
                    "+"
                </button>
            </div>
            <input
                class="slider"
                type="range"
                aria-label=slider
                aria-valuetext=move || value.get().to_string()
                min="0"
                max=last.to_string()
                step="1"
                prop:value=move || position().to_string()
                on:input:target=move |event| {
                    let stop = event.target().value().parse().ok().and_then(|at: usize| stops.get(at));
                    if let Some(&size) = stop {
                        on_value.run(size);
                    }
                }
            />
            <p class="hint" class:hint-wrong=move || is_wrong.get() aria-live="polite">
                {move || {
                    if is_wrong.get() {
                        fill("Enter a whole number of at least 1. {n} is unchanged.", &[("n", &value.get())])
                    } else {
                        fill("default {n}", &[("n", &default)])
                    }
                }}
            </p>
        </div>
    }
}

/// What a dimension is, and where the file has it.
fn about(dim: &OpenDim) -> String {
    let what = tr(if dim.batch { "samples per step" } else { "any size" });
    match dim.inputs.as_slice() {
        [] => what,
        [one] => fill("{what} ({input})", &[("what", &what), ("input", one)]),
        [first, rest @ ..] => {
            let parts: [(&str, &dyn Display); 3] =
                [("what", &what), ("input", first), ("n", &rest.len())];
            fill("{what} ({input} and {n} more)", &parts)
        }
    }
}

/// A size as typed; nothing for what is not a size yet.
fn parse(typed: &str) -> Option<u64> {
    typed.trim().parse().ok().filter(|&size| size > 0)
}

/// Position of the stop that lies nearest to a size.
fn nearest(stops: &[u64], size: u64) -> usize {
    let above = stops.partition_point(|&stop| stop < size);
    match (above.checked_sub(1), stops.get(above)) {
        (None, _) => 0,
        (Some(below), None) => below,
        (Some(below), Some(&stop)) if size - stops[below] < stop - size => below,
        _ => above,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slider_shows_the_nearest_stop() {
        let at = |size| STOPS[nearest(&STOPS, size)];
        assert_eq!([at(1), at(5), at(31), at(33), at(100), at(1 << 40)], [1, 6, 32, 32, 96, 65536]);
        assert!(STOPS.is_sorted());
    }

    #[test]
    fn only_sizes_are_sizes() {
        assert_eq!(parse(" 12 "), Some(12));
        for typed in ["", "0", "-3", "1.5", "many"] {
            assert_eq!(parse(typed), None);
        }
    }
}
