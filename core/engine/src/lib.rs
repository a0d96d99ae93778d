//! A training step without its arithmetic: the floor of `highwater-core` that knows PyTorch and does not know files.
//!
//! A module uses only modules above it, and what `highwater-base` has:
//!
//! | stage | from → to | must not know |
//! |---|---|---|
//! | [`infer`] | concrete dimensions → types of every value | training |
//! | [`unroll`] | control flow → the nodes that it runs | training |
//! | [`recover`] | exporters' nodes → the operators that PyTorch ran | bytes |
//! | [`ops`], [`aten`] | an operator → its shapes, its allocations, its saved tensors, its gradient | the allocator |
//! | [`eager`], [`step`] | training iterations → [`Trace`](trace::Trace) of allocations and frees | addresses |
//! | [`compiled`] | a region that was traced → what `torch.compile` allocates for it | addresses |
//! | [`parallel`] | several GPUs → what stands around the step of one rank | addresses |
//! | [`allocator`] | trace → segments, blocks, statistics | tensors |
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
    apart, basis, bytes, calls, config, decimal, diagnostic, error, graph, order, sentence, tensor,
    trace,
};

pub mod eager;

pub mod compiled;

pub mod aten;

pub mod ops;

pub mod infer;

pub mod unroll;

pub mod unused;

pub mod recover;

pub mod adapt;

pub mod roles;

pub mod step;

pub mod parallel;

pub mod allocator;
