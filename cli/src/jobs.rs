//! Jobs, as schedulers ask about them: one JSON object each, from lines or over HTTP.

mod answer;
mod engine;
mod files;
mod job;
mod lines;
mod packed;
mod pool;
mod schema;
mod words;

pub(crate) use self::answer::{Failure, Reply};
pub(crate) use self::engine::Engine;
pub(crate) use self::files::Files;
pub(crate) use self::job::Job;
pub(crate) use self::lines::answer_lines;
pub(crate) use self::packed::{KnownWork, OnDevice, Packed};
pub(crate) use self::pool::{Pool, threads};

/// SIZE: bytes of a thread's stack, as the main thread has.
const STACK: usize = 8 << 20;
