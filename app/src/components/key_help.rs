//! All keys and gestures of the timeline on a sheet, which `?` opens from everywhere.

use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlDialogElement, HtmlElement, KeyboardEvent};

use super::island::{find, on};
use super::markup::Markup;
use crate::words::language::tr;

/// Writes the sheet, closed.
pub(super) fn sheet(markup: &mut Markup) {
    let (title, close) = (tr("Keys of the timeline"), tr("Close"));
    markup
        .raw(
            "<dialog class=\"key-help\" aria-labelledby=\"key-help-title\">\
         <form class=\"key-help-head\" method=\"dialog\">\
         <h2 class=\"panel-title\" id=\"key-help-title\">",
        )
        .text(&title)
        .raw("</h2><button class=\"quiet-button\" aria-label=\"")
        .text(&close)
        .raw(
            "\"><svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
         <path d=\"M4 4l8 8M12 4l-8 8\"/></svg></button></form><dl class=\"key-help-rows\">",
        );
    for (keys, meaning) in rows() {
        markup.raw("<dt>");
        for key in keys.split(' ') {
            markup.raw("<kbd>").text(key).raw("</kbd>");
        }
        markup.raw("</dt><dd>").text(&meaning).raw("</dd>");
    }
    markup.raw("</dl></dialog>");
}

/// Opens the sheet, which takes the focus and gives it back.
pub(super) fn open(root: &HtmlElement) {
    let sheet: Option<HtmlDialogElement> =
        find(root, "dialog").map(wasm_bindgen::JsCast::unchecked_into);
    if let Some(sheet) = sheet.filter(|sheet| !sheet.open()) {
        // Fails only where it is not on the page.
        drop(sheet.show_modal());
    }
}

/// Opens it at a question mark anywhere but in a field.
pub(super) fn listen(root: &HtmlElement) {
    let Some(window) = web_sys::window() else { return };
    let root = root.clone();
    on(
        &window,
        "keydown",
        Box::new(move |event| {
            let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            let is_field =
                target.is_some_and(|t| matches!(&*t.tag_name(), "INPUT" | "TEXTAREA" | "SELECT"));
            let key: &KeyboardEvent = event.unchecked_ref();
            if key.key() == "?" && !is_field {
                open(&root);
            }
        }),
    );
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
        (same("[ ]"), tr("the local peak before and behind")),
        (same("Enter"), tr("pin this moment; a click does the same")),
        (same("Esc"), tr("take cursor and pin away")),
        (same("+ \u{2212} 0"), tr("zoom in, zoom out, show everything")),
        (same("a d Alt+\u{2190} Alt+\u{2192}"), tr("move what is shown")),
        (same("?"), tr("this sheet")),
        (tr("Drag"), tr("show what lies between; a double click shows everything")),
        (tr("Ctrl+Wheel Shift+Wheel"), tr("zoom, and move; on a screen two fingers do both")),
    ]
}
