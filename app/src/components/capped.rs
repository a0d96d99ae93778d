//! Lists that stay short until someone asks for all of it.

use leptos::prelude::*;

use crate::format::grouped;

/// COUNT: entries shown at most; the whole of a very long list would stall the browser.
const MOST: usize = 1000;

/// A button that shows the rest of a list, or hides it again; nothing where there is no rest.
#[component]
pub(crate) fn ShowAll(
    /// COUNT: entries in the whole list.
    all: Signal<usize>,
    /// COUNT: entries shown at first.
    first: usize,
    /// Whether the whole list is shown.
    open: RwSignal<bool>,
    /// What the entries are called.
    what: &'static str,
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
                        format!("Show the first {first} {what} only")
                    } else if all.get() > MOST {
                        format!("Show {} of {} {what}", count(MOST), count(all.get()))
                    } else {
                        format!("Show all {} {what}", count(all.get()))
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
