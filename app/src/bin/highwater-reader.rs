//! The readers of all formats and of messages, as a program of their own: the page is there before
//! them.

use std::cell::RefCell;

use highwater_app::{Explained, Fault, Found, Opening, Read, Recording};
use highwater_core::formats::{self, Other};
use highwater_core::recorded::{self, Recorded};
use highwater_core::{Config, Error, observed};
use wasm_bindgen::prelude::*;

thread_local! {
    /// The memory snapshot that was read last, to be asked for its moments.
    static RECORDED: RefCell<Option<Recorded<'static>>> = const { RefCell::new(None) };
}

fn main() {}

/// Reads an input (a `File` or an `ArrayBuffer`, in a worker) into a packed [`Read`].
#[wasm_bindgen]
pub fn read(input: JsValue, name: &str) -> Vec<u8> {
    let mut input = Opening::of(input);
    if input.read_by(|source| recorded::begins(source)) {
        let read: Read = record(&mut input, name).map_err(|error| Fault::of(&error));
        return postcard::to_stdvec(&read).unwrap_or_default();
    }
    let model = input.read_by(|source| formats::open_other(source, name));
    // A log may have both.
    let seen = input.read_by(|source| observed::open(source));
    let message = seen.ok().as_ref().and_then(Explained::of);
    let read: Read = match (model, message) {
        (Err(error), None) => Err(Fault::of(&error)),
        (Ok(Other::Onnx(bytes)), message) => {
            Ok(Found { written: Some(bytes), message, ..Found::default() })
        }
        (Ok(Other::Model(opened)), message) => {
            Ok(Found { model: Some(*opened), message, ..Found::default() })
        }
        (Err(_), message) => Ok(Found { message, ..Found::default() }),
    };
    postcard::to_stdvec(&read).unwrap_or_default()
}

/// Reads a memory snapshot; the one before stays if that fails.
fn record(input: &mut Opening, name: &str) -> Result<Found, Error> {
    let snapshot = input.read_by(|source| recorded::open(source))?;
    let history = Recorded::owning(snapshot, None)?;
    let report = history.report(name, &Config::default())?;
    let recording = Recording { report, calls: history.calls() };
    RECORDED.set(Some(history));
    Ok(Found { recorded: Some(Box::new(recording)), ..Found::default() })
}

/// One moment of the memory snapshot that was read last, packed; empty where there is none.
#[wasm_bindgen]
pub fn moment(event: usize) -> Vec<u8> {
    let look = |history: &Option<Recorded<'_>>| Some(history.as_ref()?.look(event));
    let seen = RECORDED.with_borrow(look);
    seen.and_then(|seen| postcard::to_stdvec(&seen).ok()).unwrap_or_default()
}
