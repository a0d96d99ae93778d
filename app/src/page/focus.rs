//! The focus of the keyboard, and with it what is read aloud next.

use web_sys::HtmlElement;

/// Gives the focus to an element.
pub(crate) fn focus(element: &HtmlElement) {
    // Fails only for elements that cannot have it.
    drop(element.focus());
}

/// Gives the focus to a text, so that what follows it comes next.
pub(crate) fn focus_text(element: &HtmlElement) {
    element.set_tab_index(-1);
    focus(element);
}
