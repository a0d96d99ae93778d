//! Lists that stay short until someone asks for all of it.

use leptos::prelude::*;

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
                    if open.get() {
                        format!("Show the first {first} {what}")
                    } else {
                        format!("Show all {} {what}", crate::format::grouped(all.get() as u64))
                    }
                }}
            </button>
        </Show>
    }
}

/// COUNT: entries to show of a list: a list of a hundred thousand would still stall the browser.
pub(crate) const fn shown(open: bool, first: usize) -> usize {
    if open { 2000 } else { first }
}
