//! What was opened before, for as long as this browser remembers it.

use leptos::prelude::*;

use super::icons::CloseIcon;
use crate::language::{fill, tr};
use crate::link::Recent;
use crate::text::keep;

/// Entries to open again or to forget; nothing where there are none.
#[component]
pub(crate) fn RecentList(
    /// The entries, the newest first.
    #[prop(into)]
    recent: Signal<Vec<Recent>>,
    /// One is to be opened again: its address.
    on_open: Callback<String>,
    /// One is to be forgotten: its place; all, where that is negative.
    on_forget: Callback<i32>,
) -> impl IntoView {
    view! {
        <Show when=move || !recent.with(Vec::is_empty)>
            <div class="recent">
                <div class="recent-head">
                    <h2 class="label">{tr("Opened before")}</h2>
                    <button type="button" class="recent-all" on:click=move |_| on_forget.run(-1)>
                        {tr("Forget all")}
                    </button>
                </div>
                <ul>
                    {move || {
                        (0..)
                            .zip(recent.get())
                            .map(|(place, entry)| row(place, entry, on_open, on_forget))
                            .collect_view()
                    }}
                </ul>
            </div>
        </Show>
    }
}

fn row(
    place: i32,
    entry: Recent,
    on_open: Callback<String>,
    on_forget: Callback<i32>,
) -> impl IntoView {
    let Recent { name, kind, fragment } = entry;
    let title = name.clone();
    let forget = fill("Forget {name}", &[("name", &name)]);
    view! {
        <li class="recent-row">
            <button
                type="button"
                class="recent-open"
                title=title
                on:click=move |_| on_open.run(fragment.clone())
            >
                <span class="recent-name">{name}</span>
                <span class="recent-kind">{keep::recent_kind(&kind)}</span>
            </button>
            <button
                type="button"
                class="chip-close"
                aria-label=forget
                on:click=move |_| on_forget.run(place)
            >
                <CloseIcon />
            </button>
        </li>
    }
}
