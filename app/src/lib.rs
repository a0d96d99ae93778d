//! The page: drop a model, see what its training needs, and on which GPU it fits.
//!
//! A folder uses only folders declared above it here, and files of one folder use each other without a
//! circle; `cargo xtask check-tree` looks.
//!
//! | folder | concern |
//! |---|---|
//! | [`model`] | what the page knows: its state, what follows from it, what page and worker post to each other |
//! | [`words`] | what it says: sentences, numbers, languages |
//! | [`worker`] | what is open, and every estimate |
//! | [`page`] | what goes on without being seen: the line to the worker, links, lessons, the page around this one |
//! | [`components`] | what is seen |
//!
//! Events write the state, components read it. The same WebAssembly runs twice: on the page, and in the
//! worker. Other programs arrive when they are needed: `bin/highwater-reader` reads what is not ONNX,
//! `bin/highwater-recorded` memory snapshots, `bin/highwater-profiled` profiler traces, and
//! `bin/highwater-export` writes what is saved.

mod model;

mod words;

mod worker;

mod page;

mod components;

#[cfg(test)]
mod asked;

pub use model::explained::Explained;
pub use model::export::{pickled, written};
pub use model::protocol::{Ask, Fault, Found, Read};
pub use page::picture::{painted, palette};
pub use worker::load::Opening;
pub use worker::recorder::{Keeper, Recording};

use leptos::mount::mount_to_body;

/// Starts whichever half this copy of the program is: the page where there is a window, the worker
/// where there is none.
pub fn start() {
    console_error_panic_hook::set_once();
    if web_sys::window().is_some() {
        mount_to_body(components::App);
    } else {
        worker::start();
    }
}
