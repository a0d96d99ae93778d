//! Predicts the GPU memory of a PyTorch training step, from a model file alone.
//!
//! The stages, each a function from one immutable value to the next; a module uses only modules
//! above it:
//!
//! | stage | from → to | must not know |
//! |---|---|---|
//! | [`source`] | bytes at an offset | formats |
//! | [`formats`] | a file → [`Graph`](graph::Graph) | training |
//! | [`infer`] | concrete dimensions → types of every value | training |
//! | [`report`] | plain data of the answer | the UI |
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

pub mod bytes;
pub mod tensor;

pub mod diagnostic;
pub mod error;

pub mod config;
pub mod source;

pub mod graph;

pub mod formats;

pub mod ops;

pub mod infer;

pub mod trace;

pub mod report;

pub use bytes::Bytes;
pub use config::{Config, Optimizer};
pub use diagnostic::{Diagnostic, Severity};
pub use error::{Error, ErrorKind};
pub use report::Report;
pub use source::Source;
