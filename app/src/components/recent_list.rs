//! What was opened before, for as long as this browser remembers it.

use leptos::prelude::*;

use super::icons::{CROSS, icon};
use crate::model::visit::Recent;
use crate::words::keep;
use crate::words::language::{fill, tr};

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
    let row = move |(place, entry): (usize, Recent)| {
        let Recent { name, kind, fragment } = entry;
        let title = name.clone();
        let forget = fill("Forget {name}", &[("name", &name)]);
        let place = i32::try_from(place).unwrap_or(i32::MAX);
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
                    {icon(CROSS)}
                </button>
            </li>
        }
    };
    view! {
        <Show when=move || !recent.with(Vec::is_empty)>
            <section class="recent" aria-labelledby="recent-title">
                <div class="recent-head">
                    <h2 class="label" id="recent-title">{tr("Opened before")}</h2>
                    <button type="button" class="recent-all" on:click=move |_| on_forget.run(-1)>
                        {tr("Forget all")}
                    </button>
                </div>
                <ul>{move || recent.get().into_iter().enumerate().map(row).collect_view()}</ul>
            </section>
        </Show>
    }
}
