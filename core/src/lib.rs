//! Predicts the GPU memory of a PyTorch training step, from a model file alone.
//!
//! The stages, each a function from one immutable value to the next. Four crates have them: `highwater-base` what all
//! share, `highwater-formats` what is read, `highwater-engine` the step and the allocator, and this one the answers. In
//! each, a module uses only modules above it; this one hands on what the others have:
//!
//! | stage | from → to | must not know |
//! |---|---|---|
//! | [`source`] | bytes at an offset | formats |
//! | [`formats`] | a file → [`Graph`](graph::Graph) | training |
//! | [`infer`] | concrete dimensions → types of every value | training |
//! | [`unroll`] | control flow → the nodes that it runs | training |
//! | [`recover`] | exporters' nodes → the operators that PyTorch ran | bytes |
//! | [`ops`], [`aten`] | an operator → its shapes, its allocations, its saved tensors, its gradient | the allocator |
//! | [`eager`], [`step`] | training iterations → [`Trace`](trace::Trace) of allocations and frees | addresses |
//! | [`parallel`] | several GPUs → what stands around the step of one rank | addresses |
//! | [`allocator`] | trace → segments, blocks, statistics | tensors |
//! | [`device`] | a GPU's memory, and the memory outside the allocator | models |
//! | [`time`] | the kernels of a step → how long it takes on a GPU | models |
//! | [`serving`] | a model and a server's settings → the server's KV cache on each GPU | training |
//! | [`recipe`] | a training script or configuration → settings | graphs |
//! | [`observed`] | a message of PyTorch, or `nvidia-smi` → facts about the machine | models |
//! | [`report`] | plain data of the answer | the UI |
//! | [`recorded`] | a memory snapshot of PyTorch → its history, also under other settings | models |
//! | [`profiled`] | a profiler trace from the CPU → the memory of the same training on a GPU | models |
//! | [`autopsy`] | a report → why its peak is where it is | the UI |
//! | [`levers`] | a configuration → others that need less | the UI |
//! | [`sharing`] | several jobs → whether they fit on one card, and what that costs each | the UI |
//! | [`estimators`] | a run → what published estimators say of it | the UI |
//! | [`wording`] | a report → sentences about it, for any language | files |
//! | [`export`] | the answer → JSON, Markdown, CSV, a trace | files |
//!
//! [`open`] a model, then [`Model::estimate`] it.
//!
//! These stay as they are for other programs, such as a scheduler:
//!
//! | to | call |
//! |---|---|
//! | open a model | [`open`], or [`open_named`] with [`formats::catalogue::find`] |
//! | change settings | [`Model::defaults`], [`Config::set`] |
//! | estimate, keeping what can be used again | [`Model::simulate`] with [`estimate::Stages`] |
//! | judge other GPUs | [`Model::verdict`] with [`device::all`] |
//! | know what to ask a scheduler for | [`sharing::Requests::of`] |
//!
//! `examples/scheduler.rs` uses all of them.
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

pub use highwater_base::{
    apart, basis, bytes, config, diagnostic, error, graph, order, sentence, source, tensor, trace,
};
use highwater_base::{decimal, near, unpack};
use highwater_engine::unused;
pub use highwater_engine::{
    adapt, allocator, aten, eager, infer, ops, parallel, recover, roles, step, unroll,
};
pub use highwater_formats::{formats, recipe};

pub mod device;

pub mod time;

pub mod serving;

pub mod observed;

pub mod report;

pub mod recorded;

pub mod profiled;

pub mod autopsy;

pub mod estimate;

pub mod levers;

pub mod sharing;

pub mod estimators;

pub mod wording;

pub mod export;

pub use estimate::{Model, open, open_for, open_named};
pub use highwater_base::{
    Bytes, Config, Diagnostic, Error, ErrorKind, Optimizer, Severity, Source, say,
};
pub use report::Report;
