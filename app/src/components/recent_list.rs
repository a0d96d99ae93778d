//! What was opened before, for as long as this browser remembers it.

use leptos::prelude::*;

use super::drawn::{Act, Drawn};
use super::markup::Markup;
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
    let on_act = Callback::new(move |act: Act| match act.name.split_once('-') {
        Some(("open", place)) => {
            let address = recent.with_untracked(|recent| {
                Some(recent.get(place.parse::<usize>().ok()?)?.fragment.clone())
            });
            if let Some(address) = address {
                on_open.run(address);
            }
        }
        Some((_, place)) => on_forget.run(place.parse().unwrap_or(-1)),
        None => {}
    });
    let markup = Signal::derive(move || recent.with(|recent| drawn(recent)));
    view! {
        <Show when=move || !recent.with(Vec::is_empty)>
            <Drawn class="recent" labelledby="recent-title" markup on_act />
        </Show>
    }
}

fn drawn(recent: &[Recent]) -> String {
    let mut markup = Markup::default();
    markup.raw("<div class=\"recent-head\"><h2 class=\"label\" id=\"recent-title\">");
    markup.around("", &tr("Opened before"), "</h2>");
    markup.button("recent-all", "forget-all", &tr("Forget all")).raw("</div><ul>");
    for (place, Recent { name, kind, .. }) in recent.iter().enumerate() {
        let place = place.to_string();
        markup.around("<li class=\"recent-row\"><button type=\"button\" id=\"open-", &place, "\"");
        markup.around(" class=\"recent-open\" data-act=\"open-", &place, "\" title=\"");
        markup.around("", name, "\"><span class=\"recent-name\">").around("", name, "</span>");
        markup.around("<span class=\"recent-kind\">", &keep::recent_kind(kind), "</span></button>");
        let forget = fill("Forget {name}", &[("name", name)]);
        markup.cross("chip-close", &["forget-", &place].concat(), &forget).raw("</li>");
    }
    markup.raw("</ul>");
    markup.done()
}
