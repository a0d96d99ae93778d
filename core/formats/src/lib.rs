//! What Highwater reads: the floor of `highwater-core` that knows files and does not know training.
//!
//! A module uses only modules above it, and what `highwater-base` has:
//!
//! | stage | from → to | must not know |
//! |---|---|---|
//! | [`formats`] | a file → [`Graph`](graph::Graph) | training |
//! | [`recipe`] | a training script or configuration → settings | graphs |
#![forbid(unsafe_code)]
#![warn(
    clippy::as_conversions,
    clippy::float_arithmetic,
    clippy::integer_division,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::expect_used,
    clippy::string_slice
)]

#[macro_use(say)]
extern crate highwater_base;

use highwater_base::{
    apart, basis, calls, config, diagnostic, error, graph, near, order, sentence, source, tensor,
};

pub mod formats;

pub mod recipe;
