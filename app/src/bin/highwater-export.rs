//! Writes an answer as a file. It is a program of its own, because most visits never save one.

use highwater_app::palette;
use wasm_bindgen::prelude::*;
use web_sys::HtmlCanvasElement;

fn main() {}

/// The memory snapshot of a packed run.
#[wasm_bindgen]
pub fn pickled(packed: &[u8]) -> Vec<u8> {
    highwater_app::pickled(packed)
}

/// The text of a form, from a packed answer; empty where there is none.
#[wasm_bindgen]
pub fn written(form: &str, packed: &[u8]) -> String {
    let text = |palette| highwater_app::written(form, packed, &palette);
    palette().map_or_else(String::new, text)
}

/// Draws the picture of a packed answer on a canvas.
#[wasm_bindgen]
pub fn painted(canvas: &HtmlCanvasElement, packed: &[u8]) -> bool {
    let drawn = |palette| highwater_app::painted(canvas, packed, &palette);
    palette().and_then(drawn).is_some()
}
