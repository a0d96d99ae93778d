//! A notice above everything else, for events that the user must know about.

use leptos::prelude::*;

use super::icons::{CROSS, icon};
use super::parts::prose;
use crate::model::state::Notice;
use crate::words::language::tr;

/// Tells what went wrong, why, what to do, and what is still there.
#[component]
pub(crate) fn NoticeView(
    /// The message, if there is one.
    #[prop(into)]
    notice: Signal<Option<Notice>>,
    /// The user has read it.
    on_dismiss: Callback<()>,
) -> impl IntoView {
    let inside = move |notice: Notice| {
        view! {
            <div class="notice" class:notice-error=notice.is_error>
                <span class="notice-sign" aria-hidden="true">"!"</span>
                <div>
                    <p class="notice-title">{notice.title}</p>
                    <p class="notice-detail">{prose(&notice.detail)}</p>
                </div>
                <button
                    type="button"
                    class="quiet-button"
                    id="dismiss"
                    aria-label=tr("Dismiss")
                    on:click=move |_| on_dismiss.run(())
                >
                    {icon(CROSS)}
                </button>
            </div>
        }
    };
    view! {
        <section class="notice-place" role="alert">
            {move || notice.get().map(inside)}
        </section>
    }
}
