//! Parts of the program that the worker fetches when they are needed: what only they use is not in the main program.
//!
//! Each begins at a function marked `#[wasm_split]`. Parts share memory and code with the main program, so they take
//! and return ordinary values.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

pub(crate) mod others;
pub(crate) mod profiled;
pub(crate) mod ranks;
pub(crate) mod readers;
pub(crate) mod recorded;
pub(crate) mod times;
pub(crate) mod tray;
