//! What every stage of Highwater shares: the lowest floor of `highwater-core`.
//!
//! A module uses only modules above it:
//!
//! | module | what |
//! |---|---|
//! | [`bytes`] | sizes, exact and printed |
//! | [`order`] | sorted slices, maps and sets, with little code |
//! | [`sentence`] | messages as templates, for any language |
//! | [`error`], [`diagnostic`] | why something is refused, and what is worth knowing |
//! | [`decimal`] | fractions, read without the standard library's tables |
//! | [`tensor`] | element types and shapes |
//! | [`basis`] | how certain a number is, and why |
//! | [`calls`] | calls of ATen that are one operator of ONNX |
//! | [`near`] | names near one that was typed |
//! | [`config`] | the user's choices |
//! | [`source`], [`unpack`] | bytes at an offset, and as a stream |
//! | [`apart`] | files next to a program for the browser |
//! | [`graph`] | a model: values, nodes, parameters |
//! | [`trace`] | allocations and frees |
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
pub mod order;

#[macro_use]
pub mod sentence;

pub mod error;

pub mod decimal;
pub mod tensor;

pub mod basis;
pub mod diagnostic;

pub mod calls;
pub mod near;

pub mod config;
pub mod source;

pub mod apart;

pub mod unpack;

pub mod graph;

pub mod trace;

pub use bytes::Bytes;
pub use config::{Config, Optimizer};
pub use diagnostic::{Diagnostic, Severity};
pub use error::{Error, ErrorKind};
pub use source::Source;
