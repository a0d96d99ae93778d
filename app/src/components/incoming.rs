//! Files and texts that are pasted or dropped anywhere on the page.

use gloo::events::{EventListener, EventListenerOptions};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{ClipboardEvent, DataTransfer, DragEvent, Element, File};

use crate::model::state::Notice;
use crate::words;

/// Takes files and texts pasted anywhere on the page, but into its fields.
pub(super) fn accept_pastes(on_file: Callback<File>, on_text: Callback<(String, String)>) {
    let Some(window) = web_sys::window() else { return };
    let options = EventListenerOptions::enable_prevent_default();
    let listener = EventListener::new_with_options(&window, "paste", options, move |event| {
        let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
        if target.is_some_and(|target| matches!(&*target.tag_name(), "INPUT" | "TEXTAREA")) {
            return;
        }
        let event: &ClipboardEvent = event.unchecked_ref();
        let Some(data) = event.clipboard_data() else { return };
        if let Some(file) = data.files().and_then(|files| files.get(0)) {
            event.prevent_default();
            on_file.run(file);
        } else if let Some(pasted) = said(&data) {
            event.prevent_default();
            on_text.run((words::notice::pasted(), pasted));
        }
    });
    listener.forget();
}

/// The text that was dropped or pasted.
fn said(data: &DataTransfer) -> Option<String> {
    data.get_data("text/plain").ok().filter(|text| !text.trim().is_empty())
}

/// Takes files and texts dropped anywhere on the page; returns whether one hovers over it.
pub(super) fn accept_drops(
    on_files: Callback<Vec<File>>,
    on_text: Callback<(String, String)>,
    notice: RwSignal<Option<Notice>>,
) -> ReadSignal<bool> {
    let (dragging, set_dragging) = signal(false);
    let Some(window) = web_sys::window() else { return dragging };
    let options = EventListenerOptions::enable_prevent_default();
    let listen = |name: &'static str, handle: Box<dyn FnMut(&web_sys::Event)>| {
        EventListener::new_with_options(&window, name, options, handle).forget();
    };
    listen(
        "dragover",
        Box::new(move |event| {
            event.prevent_default();
            set_dragging.set(true);
        }),
    );
    listen(
        "dragleave",
        Box::new(move |event| {
            // Leaving the window has no element that is entered instead.
            let event: &DragEvent = event.unchecked_ref();
            if event.related_target().is_none() {
                set_dragging.set(false);
            }
        }),
    );
    listen(
        "drop",
        Box::new(move |event| {
            event.prevent_default();
            set_dragging.set(false);
            let event: &DragEvent = event.unchecked_ref();
            let data = event.data_transfer();
            let files = data.as_ref().and_then(DataTransfer::files);
            let files: Vec<File> = files.map_or_else(Vec::new, |files| {
                (0..files.length()).filter_map(|at| files.get(at)).collect()
            });
            match (files.is_empty(), data.and_then(|data| said(&data))) {
                (false, _) => on_files.run(files),
                (true, Some(dropped)) => on_text.run((words::notice::dropped(), dropped)),
                (true, None) => notice.set(Some(words::notice::not_a_file())),
            }
        }),
    );
    dragging
}
