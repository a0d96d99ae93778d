//! The page: drop a model, and see how much memory its training needs and which GPUs it fits on.
//!
//! A folder uses only folders declared above it here, and files of one folder use each other without a
//! circle;`cargo xtask check-tree` checks this.
//!
//! | folder | concern |
//! |---|---|
//! | [`model`] | the state, what follows from it, messages between page and worker |
//! | [`words`] | sentences, numbers, languages |
//! | [`worker`] | the open model, and every estimate |
//! | [`page`] | work without a view: the connection to the worker, links, lessons, the surrounding page |
//! | [`components`] | everything visible |
//!
//! Events write the state, components read it. The same WebAssembly runs twice: on the page, and in the worker.
//! Parts of it are fetched when they are needed: [`worker::parts`], and [`page::saving`].

mod model;

mod words;

mod worker;

mod page;

mod components;

#[cfg(test)]
mod asked;

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
