//! The worker: answers the page from another thread.
//!
//! What it does is a part of the program, which only the worker fetches: the page is there without it.

pub(crate) mod abilities;
pub(crate) mod estimator;
pub(crate) mod files;
pub(crate) mod load;
pub(crate) mod recording;

pub(crate) mod parts;

mod desk;

use wasm_bindgen_futures::spawn_local;

/// Begins to listen, once all that answers has arrived.
pub(crate) fn start() {
    spawn_local(async {
        if desk::begin().await.is_err() {
            // The page hears of it as of any worker that stops.
            wasm_bindgen::throw_str("what the worker does did not arrive");
        }
    });
}
