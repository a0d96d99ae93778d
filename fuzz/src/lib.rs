//! Mutates inputs of every format, and checks that each is answered or refused within bounds.
//!
//! | module | concern |
//! |---|---|
//! | [`random`] | a sequence of numbers that depends on its seed only |
//! | [`mutate`] | an input → another, by what its format is made of |
//! | [`seeds`] | the inputs to begin with, from `tests/fixtures` |
//! | [`targets`] | a row per family of formats: its seeds, its mutation, what reads it |
//! | [`check`] | one execution: its time, its memory, its panic |
//! | [`campaign`] | many executions of a target, and what they found |
//!
//! No compiler support is needed: an input whose *outcome* is new (a refusal in other words, another set of
//! diagnostics) is kept and mutated further, so that a campaign gets deeper without counting branches.

pub mod random;

pub mod mutate;

pub mod seeds;

pub mod targets;

pub mod check;

pub mod campaign;

use peak_alloc::PeakAlloc;

/// Counts the memory of this process: what an execution takes is the bound that [`check`] compares.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
