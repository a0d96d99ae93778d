//! Lists that stay short until someone asks for all of it.

use std::fmt::Display;

use leptos::prelude::*;

use crate::format::grouped;
use crate::language::fill;

/// COUNT: entries shown at most; the whole of a very long list would stall the browser.
pub(super) const MOST: usize = 1000;

/// A button that shows the rest of a list, or hides it again; nothing where there is no rest.
#[component]
pub(crate) fn ShowAll(
    /// COUNT: entries in the whole list.
    all: Signal<usize>,
    /// COUNT: entries shown at first.
    first: usize,
    /// Whether the whole list is shown.
    open: RwSignal<bool>,
) -> impl IntoView {
    view! {
        <Show when=move || { all.get() > first }>
            <button
                type="button"
                class="show-all"
                aria-expanded=move || open.get().to_string()
                on:click=move |_| open.update(|open| *open = !*open)
            >
                {move || {
                    let count = |n: usize| grouped(n as u64);
                    if open.get() {
                        fill("Show the first {n} only", &[("n", &first)])
                    } else if all.get() > MOST {
                        let parts: [(&str, &dyn Display); 2] =
                            [("n", &count(MOST)), ("all", &count(all.get()))];
                        fill("Show {n} of {all}", &parts)
                    } else {
                        fill("Show all {n}", &[("n", &count(all.get()))])
                    }
                }}
            </button>
        </Show>
    }
}

/// COUNT: entries to show of a list.
pub(crate) const fn shown(open: bool, first: usize) -> usize {
    if open { MOST } else { first }
}
