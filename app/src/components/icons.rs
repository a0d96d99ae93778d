//! The few pictures of the page, drawn in the colour of the text around them.

use leptos::prelude::*;

/// The mark: water below the line it once reached.
pub(super) fn mark() -> impl IntoView {
    view! {
        <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
            <path class="mark-line" d="M2 6.5h20"></path>
            <path
                class="mark-water"
                d="M2 15.5c3.3 0 3.3-3.5 6.7-3.5s3.3 3.5 6.6 3.5S18.7 12 22 12v10H2z"
            ></path>
        </svg>
    }
}

/// A half-filled disc: the theme.
pub(super) fn theme() -> impl IntoView {
    view! {
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="5.5"></circle>
            <path class="icon-filled" d="M8 2.5a5.5 5.5 0 0 1 0 11z"></path>
        </svg>
    }
}

/// A line drawing of 16 by 16.
pub(super) fn icon(path: &'static str) -> impl IntoView {
    view! {
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
            <path d=path></path>
        </svg>
    }
}

/// A cross: it closes, dismisses, forgets.
pub(super) const CROSS: &str = "M4 4l8 8M12 4l-8 8";
/// A sheet with an arrow: open a file.
pub(super) const OPEN: &str = "M8 10.5v-8M4.8 5.5 8 2.3l3.2 3.2M2.5 10v3.5h11V10";
/// Two links of a chain: share.
pub(super) const LINK: &str = "M6.5 9.5l3-3M7 4.5l1.7-1.7a3.2 3.2 0 0 1 4.5 4.5L11.5 9M9 11.5l-1.7 1.7a3.2 3.2 0 0 1-4.5-4.5L4.5 7";
/// An arrow into a tray: save.
pub(super) const SAVE: &str = "M8 2.3v8M4.8 7.3 8 10.5l3.2-3.2M2.5 10v3.5h11V10";
