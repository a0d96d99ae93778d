//! Small parts that many components use.

use highwater_core::Bytes;
use leptos::prelude::*;

use crate::page::focus::focus_later;
use crate::words::format::exact;
use crate::words::language::tr;

/// A size as it is shown everywhere: short, with the exact one behind it.
pub(super) fn size(bytes: Bytes) -> impl IntoView + use<> {
    view! {
        <data class="byte-size" value=bytes.0.to_string() title=exact(bytes)>
            {bytes.short()}
        </data>
    }
}

/// A cell with a size.
pub(super) fn cell(bytes: Bytes) -> impl IntoView + use<> {
    view! { <td class="number">{size(bytes)}</td> }
}

/// The head of a column.
pub(super) fn column(name: String, is_number: bool) -> impl IntoView {
    view! {
        <th scope="col" class=if is_number { "number" } else { "" }>
            {name}
        </th>
    }
}

/// Text with `code` in it.
pub(super) fn prose(text: &str) -> Vec<AnyView> {
    let part = |(at, part): (usize, &str)| {
        let part = part.to_owned();
        if at % 2 == 1 { view! { <code>{part}</code> }.into_any() } else { part.into_any() }
    };
    text.split('`').enumerate().map(part).collect()
}

/// Something to unfold: lines of code, and a button that copies them.
#[component]
pub(crate) fn Code(
    /// Its own name on the page.
    id: String,
    /// What is seen before it is unfolded.
    summary: String,
    /// The lines.
    code: String,
) -> impl IntoView {
    let copied = RwSignal::new(false);
    let lines = code.clone();
    let copy = move |_| {
        if let Some(window) = web_sys::window() {
            // A browser that refuses leaves the code to be selected.
            drop(window.navigator().clipboard().write_text(&code));
            copied.set(true);
        }
    };
    view! {
        <details id=id>
            <summary>{summary}</summary>
            <div class="code-block">
                <pre tabindex="0">
                    <code>{lines}</code>
                </pre>
                <button type="button" class="button" on:click=copy>
                    {move || tr(if copied.get() { "Copied" } else { "Copy" })}
                </button>
            </div>
        </details>
    }
}

/// A table that scrolls sideways, unfolded by those who want it.
#[component]
pub(crate) fn FoldedTable(
    /// Its own name on the page.
    id: &'static str,
    /// What is seen before it is unfolded.
    summary: String,
    /// What it is to those who do not see it.
    label: String,
    /// It was opened or closed.
    #[prop(optional)]
    open: RwSignal<bool>,
    /// The table.
    children: Children,
) -> impl IntoView {
    view! {
        <details class="timeline-table" id=id on:toggle:target=move |event| open.set(event.target().open())>
            <summary>{summary}</summary>
            <div class="scroll-sideways" tabindex="0" role="region" aria-label=label>
                {children()}
            </div>
        </details>
    }
}

/// A button that leaves with what it did: the focus goes to a title then.
#[component]
pub(crate) fn Leaving(
    /// Its own name on the page.
    id: &'static str,
    /// Its looks.
    class: &'static str,
    /// What it says.
    label: String,
    /// What has the focus afterwards, as a selector.
    next: &'static str,
    /// It was pressed.
    on_press: Callback<()>,
) -> impl IntoView {
    let press = move |_| {
        on_press.run(());
        focus_later(next);
    };
    view! {
        <button type="button" class=class id=id on:click=press>
            {label}
        </button>
    }
}
