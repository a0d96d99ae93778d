//! The keyboard's focus, which also decides what a screen reader reads next.

use gloo::timers::callback::Timeout;
use wasm_bindgen::JsCast as _;
use web_sys::HtmlElement;

/// Gives the focus to an element.
pub(crate) fn focus(element: &HtmlElement) {
    // Fails only for elements that cannot have it.
    drop(element.focus());
}

/// Gives the focus to the element with an id.
pub(crate) fn focus_now(id: &str) {
    let document = web_sys::window().and_then(|window| window.document());
    if let Some(element) = document.and_then(|document| document.get_element_by_id(id)) {
        focus(element.unchecked_ref());
    }
}

/// Gives the focus to a part of the page once what has changed is on it: to a control, or to a text, so
/// that what follows it comes next.
pub(crate) fn focus_later(selector: &'static str) {
    let find = move || {
        let document = web_sys::window().and_then(|window| window.document());
        let found = document.and_then(|document| document.query_selector(selector).ok()?);
        if let Some(element) = found {
            let element: &HtmlElement = element.unchecked_ref();
            if element.tab_index() < 0 {
                element.set_tab_index(-1);
            }
            focus(element);
        }
    };
    Timeout::new(0, find).forget();
}

/// Opens what folds an element away, and gives it the focus.
pub(crate) fn reveal(id: &str) {
    let document = web_sys::window().and_then(|window| window.document());
    let Some(element) = document.and_then(|document| document.get_element_by_id(id)) else {
        return;
    };
    let mut folded = element.closest("details").ok().flatten();
    while let Some(details) = folded {
        drop(details.set_attribute("open", ""));
        let around = details.parent_element();
        folded = around.and_then(|around| around.closest("details").ok().flatten());
    }
    focus(element.unchecked_ref());
}
