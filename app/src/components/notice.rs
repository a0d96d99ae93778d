//! Something the user must know about, above everything else.

use leptos::prelude::*;

use super::icons::CloseIcon;
use crate::language::tr;
use crate::state::Notice;

/// Tells what went wrong, why, what to do, and what is still there.
#[component]
pub(crate) fn NoticeView(
    /// The message, if there is one.
    #[prop(into)]
    notice: Signal<Option<Notice>>,
    /// The user has read it.
    on_dismiss: Callback<()>,
) -> impl IntoView {
    view! {
        <div class="notice-place" role="alert">
            {move || {
                notice
                    .get()
                    .map(|notice| {
                        view! {
                            <div class="notice" class:notice-error=notice.is_error>
                                <span class="notice-sign" aria-hidden="true">
                                    "!"
                                </span>
                                <div>
                                    <p class="notice-title">{notice.title}</p>
                                    <p class="notice-detail">{notice.detail}</p>
                                </div>
                                <button
                                    type="button"
                                    class="quiet-button"
                                    aria-label=tr("Dismiss")
                                    on:click=move |_| on_dismiss.run(())
                                >
                                    <CloseIcon />
                                </button>
                            </div>
                        }
                    })
            }}
        </div>
    }
}
