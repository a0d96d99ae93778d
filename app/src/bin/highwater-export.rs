//! Writes an answer as a file, as a program of its own: most visits never ask for one.

use wasm_bindgen::prelude::*;

fn main() {}

/// The memory snapshot of a packed run.
#[wasm_bindgen]
pub fn pickled(packed: &[u8]) -> Vec<u8> {
    highwater_app::pickled(packed)
}

/// The text of a form, from a packed answer and the colours of the theme.
#[wasm_bindgen]
#[expect(clippy::needless_pass_by_value, reason = "a list comes from JavaScript as it is")]
pub fn written(form: &str, packed: &[u8], colours: Vec<String>) -> String {
    highwater_app::written(form, packed, &colours)
}
