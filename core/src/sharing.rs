//! Several jobs on one GPU, and queues of them in front of several.

pub mod policy;
pub mod queue;
pub mod slowdown;
