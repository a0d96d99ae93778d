//! Several processes on one GPU.

mod requests;

pub use self::requests::Requests;
