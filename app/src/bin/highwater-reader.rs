//! The readers of all formats, as a program of their own: the page is there before them.

use highwater_app::{Fault, Opening, Read};
use wasm_bindgen::prelude::*;

fn main() {}

/// Reads an input (a `File` or an `ArrayBuffer`, in a worker) into a packed [`Read`].
#[wasm_bindgen]
pub fn read(input: JsValue, name: &str) -> Vec<u8> {
    let mut input = Opening::of(input);
    let read = input.read_by(|source| highwater_core::formats::open(source, name));
    let read: Read = read.map_err(|error| Fault::of(&error));
    postcard::to_stdvec(&read).unwrap_or_default()
}
