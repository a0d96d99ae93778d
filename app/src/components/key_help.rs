//! A sheet with all keys and gestures of the timeline; `?` opens it from everywhere.

use gloo::events::EventListener;
use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, KeyboardEvent};

use super::icons::{CROSS, icon};
use crate::words::language::tr;

/// The sheet; it takes the focus when it is opened, and gives it back.
#[component]
pub(crate) fn KeyHelp(
    /// The sheet, so that a button can open it.
    sheet: NodeRef<html::Dialog>,
) -> impl IntoView {
    let rows = rows().map(|(keys, meaning)| {
        let keys = keys.split(' ').map(|key| view! { <kbd>{key.to_owned()}</kbd> });
        view! {
            <dt>{keys.collect_view()}</dt>
            <dd>{meaning}</dd>
        }
    });
    // A question mark opens it anywhere but in a field.
    let listener = web_sys::window().map(|window| {
        EventListener::new(&window, "keydown", move |event| {
            let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            let is_field =
                target.is_some_and(|t| matches!(&*t.tag_name(), "INPUT" | "TEXTAREA" | "SELECT"));
            let key: &KeyboardEvent = event.unchecked_ref();
            if key.key() == "?" && !is_field {
                open(sheet);
            }
        })
    });
    let listener = StoredValue::new_local(listener);
    on_cleanup(move || listener.update_value(|listener| *listener = None));
    view! {
        <dialog class="key-help" aria-labelledby="key-help-title" node_ref=sheet>
            <form class="key-help-head" method="dialog">
                <h2 class="panel-title" id="key-help-title">{tr("Keys of the timeline")}</h2>
                <button class="quiet-button" aria-label=tr("Close")>
                    {icon(CROSS)}
                </button>
            </form>
            <dl class="key-help-rows">{rows.collect_view()}</dl>
        </dialog>
    }
}

/// Opens the sheet.
pub(super) fn open(sheet: NodeRef<html::Dialog>) {
    if let Some(sheet) = sheet.get_untracked().filter(|sheet| !sheet.open()) {
        // Fails only where it is not on the page.
        drop(sheet.show_modal());
    }
}

fn rows() -> [(String, String); 12] {
    let same = str::to_owned;
    [
        (same("\u{2190} \u{2192}"), tr("one event back or on")),
        (
            same("Shift+\u{2190} Shift+\u{2192} Page\u{2191} Page\u{2193}"),
            tr("many events at once"),
        ),
        (same("Home End"), tr("the first and the last event shown")),
        (same("p"), tr("the peak")),
        (same("[ ]"), tr("the previous or next local peak")),
        (same("Enter"), tr("pin this moment; a click does the same")),
        (same("Esc"), tr("take cursor and pin away")),
        (same("+ \u{2212} 0"), tr("zoom in, zoom out, show everything")),
        (same("a d Alt+\u{2190} Alt+\u{2192}"), tr("move what is shown")),
        (same("?"), tr("this sheet")),
        (tr("Drag"), tr("show the selected part; a double click shows everything")),
        (tr("Ctrl+Wheel Shift+Wheel"), tr("zoom, and move; on a screen two fingers do both")),
    ]
}
