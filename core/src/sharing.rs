//! Several processes on one GPU, and queues of them in front of several.

pub mod gpus;
pub mod policy;
pub mod queue;
mod requests;
pub mod slowdown;

pub use self::requests::Requests;
