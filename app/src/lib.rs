//! The page: drop a model, see what its training needs, and on which GPU it fits.
//!
//! Data flows one way: [`state`] → [`derived`] → [`components`], and events set [`state`] again.
//! The same WebAssembly runs twice: on the page, and in a worker where the estimates are made
//! ([`worker`]). [`engine`] is the page's end of the line between them. A second program,
//! `bin/highwater-reader`, reads what is not ONNX; it arrives behind the first, so that the page
//! need not wait for it. `bin/highwater-export` is fetched when somebody saves an answer,
//! `bin/highwater-recorded` when somebody drops a memory snapshot, `bin/highwater-profiled` when it
//! is a profiler's trace.

mod chart;
mod components;
mod derived;
mod embed;
mod engine;
mod estimator;
mod examples;
mod explained;
mod export;
mod format;
mod kept;
mod language;
mod lessons;
mod link;
mod load;
mod markup;
mod protocol;
mod recorder;
mod state;
mod teach;
mod text;
mod theme;
mod worker;

pub use explained::Explained;
pub use export::{pickled, written};
pub use load::Opening;
pub use protocol::{Ask, Fault, Found, Read};
pub use recorder::{Keeper, Recording};

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
