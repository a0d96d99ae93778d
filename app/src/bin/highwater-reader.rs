//! The readers of all formats and of messages. They are a program of their own, so that the page does not wait for
//! them.

use highwater_app::{Explained, Fault, Found, Opening, Read};
use highwater_core::formats::{self, catalogue};
use highwater_core::observed;
use wasm_bindgen::prelude::*;

fn main() {}

/// Reads an input (a `File` or an `ArrayBuffer`, in a worker) into a packed [`Read`].
#[wasm_bindgen]
pub fn read(input: JsValue, name: &str) -> Vec<u8> {
    let mut input = Opening::of(input);
    let model = input.read_by(|source| formats::open(source, name));
    // A log may have both.
    let seen = input.read_by(|source| observed::open(source));
    let message = seen.ok().as_ref().and_then(Explained::of);
    let read: Read = match (model, message) {
        (Err(error), None) => Err(Fault::of(&error)),
        (Ok(opened), message) => Ok(Found { model: Some(opened), message, ..Found::default() }),
        (Err(_), message) => Ok(Found { message, ..Found::default() }),
    };
    postcard::to_stdvec(&read).unwrap_or_default()
}

/// The names of all models of the catalogue, a line for each.
#[wasm_bindgen]
pub fn names() -> String {
    highwater_app::serve_files();
    catalogue::names()
}
