//! A few lines of code, and a button that copies them.

use leptos::prelude::*;

use crate::language::tr;

/// Code to paste.
#[component]
pub(crate) fn CodeBlock(
    /// The code.
    code: String,
) -> impl IntoView {
    let copied = RwSignal::new(false);
    let shown = code.clone();
    let copy = move |_| {
        if let Some(window) = web_sys::window() {
            // A browser that refuses leaves the code to be selected.
            drop(window.navigator().clipboard().write_text(&code));
            copied.set(true);
        }
    };
    view! {
        <div class="code-block">
            <pre tabindex="0">
                <code>{shown}</code>
            </pre>
            <button type="button" class="button" on:click=copy>
                {move || tr(if copied.get() { "Copied" } else { "Copy" })}
            </button>
        </div>
    }
}
