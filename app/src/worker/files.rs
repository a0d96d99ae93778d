//! Files that are not part of the program, and that a run may need.

use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The bytes of a file next to the page; `None` where it cannot be had.
    #[wasm_bindgen(js_name = fileOf)]
    fn file_of(name: &str) -> Option<js_sys::Uint8Array>;
}

/// Lets `highwater_core` have them.
pub(crate) fn serve() {
    #[cfg(target_arch = "wasm32")]
    highwater_core::apart::set_loader(|name| file_of(name).map(|bytes| bytes.to_vec()));
}
