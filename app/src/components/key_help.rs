//! All keys and gestures of the timeline on a sheet, which `?` opens from everywhere.

use gloo::events::EventListener;
use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, KeyboardEvent};

use super::icons::CloseIcon;
use crate::language::tr;

/// A button, and the sheet that it opens.
#[component]
pub(crate) fn KeyHelp() -> impl IntoView {
    let sheet = NodeRef::<html::Dialog>::new();
    let open = move || {
        if let Some(sheet) = sheet.get_untracked().filter(|sheet| !sheet.open()) {
            // Fails only where it is open already, or not on the page.
            drop(sheet.show_modal());
        }
    };
    if let Some(window) = web_sys::window() {
        let listener = EventListener::new(&window, "keydown", move |event| {
            let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            let is_field =
                target.is_some_and(|t| matches!(&*t.tag_name(), "INPUT" | "TEXTAREA" | "SELECT"));
            let event: &KeyboardEvent = event.unchecked_ref();
            if event.key() == "?" && !is_field {
                open();
            }
        });
        let kept = StoredValue::new_local(Some(listener));
        on_cleanup(move || kept.update_value(|listener| *listener = None));
    }
    view! {
        <button
            type="button"
            class="quiet-button key-help-button"
            aria-label=tr("All keys")
            title=tr("All keys")
            aria-haspopup="dialog"
            on:click=move |_| open()
        >
            "?"
        </button>
        <dialog class="key-help" node_ref=sheet aria-labelledby="key-help-title">
            <form class="key-help-head" method="dialog">
                <h2 class="panel-title" id="key-help-title">
                    {tr("Keys of the timeline")}
                </h2>
                <button class="quiet-button" aria-label=tr("Close")>
                    <CloseIcon />
                </button>
            </form>
            <dl class="key-help-rows">{rows()}</dl>
        </dialog>
    }
}

fn rows() -> impl IntoView {
    let row = |keys: &str, meaning: String| {
        let keys = keys.split(' ').map(|key| view! { <kbd>{key.replace('_', " ")}</kbd> });
        view! {
            <dt>{keys.collect_view()}</dt>
            <dd>{meaning}</dd>
        }
    };
    [
        ("\u{2190} \u{2192}", tr("one event back or on")),
        ("Shift+\u{2190} Shift+\u{2192} Page\u{2191} Page\u{2193}", tr("many events at once")),
        ("Home End", tr("the first and the last event shown")),
        ("p", tr("the peak")),
        ("[ ]", tr("the local peak before and behind")),
        ("Enter", tr("pin this moment; a click does the same")),
        ("Esc", tr("take cursor and pin away")),
        ("+ \u{2212} 0", tr("zoom in, zoom out, show everything")),
        ("a d Alt+\u{2190} Alt+\u{2192}", tr("move what is shown")),
        ("?", tr("this sheet")),
        ("Drag", tr("show what lies between; a double click shows everything")),
        ("Ctrl+Wheel Shift+Wheel", tr("zoom, and move; on a screen two fingers do both")),
    ]
    .map(|(keys, meaning)| row(keys, meaning))
    .collect_view()
}
