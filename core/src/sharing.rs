//! Several jobs on one GPU.

pub mod slowdown;
