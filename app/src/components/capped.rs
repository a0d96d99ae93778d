//! Lists that stay short until the user asks for all of their rows.

use std::fmt::Display;

use leptos::prelude::*;

use crate::words::format::grouped;
use crate::words::language::fill;

/// COUNT: entries shown at most; the whole of a very long list would stall the browser.
const MOST: usize = 1000;

/// A button that shows the rest of a list, or hides it again; nothing where there is no rest.
#[component]
pub(crate) fn ShowAll(
    /// COUNT: entries of the list.
    all: usize,
    /// COUNT: entries shown at first.
    first: usize,
    /// Whether all are shown.
    open: RwSignal<bool>,
) -> impl IntoView {
    (all > first).then(|| {
        view! {
            <button
                type="button"
                class="show-all"
                aria-expanded=move || open.get().to_string()
                on:click=move |_| open.update(|open| *open = !*open)
            >
                {move || label(all, first, open.get())}
            </button>
        }
    })
}

/// What that button says.
fn label(all: usize, first: usize, open: bool) -> String {
    let count = |n: usize| grouped(n as u64);
    if open {
        fill("Show the first {n} only", &[("n", &first)])
    } else if all > MOST {
        let parts: [(&str, &dyn Display); 2] = [("n", &count(MOST)), ("all", &count(all))];
        fill("Show {n} of {all}", &parts)
    } else {
        fill("Show all {n}", &[("n", &count(all))])
    }
}

/// COUNT: entries to show of a list.
pub(crate) const fn shown(open: bool, first: usize) -> usize {
    if open { MOST } else { first }
}
