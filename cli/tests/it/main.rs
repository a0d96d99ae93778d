//! The built program, as a shell sees it.
#![expect(clippy::unwrap_used, reason = "tests end where something is not as it should be")]
#![expect(clippy::needless_raw_string_hashes, reason = "`expect-test` writes them so")]
#![recursion_limit = "256"]

mod action;
mod admission;
mod advise;
mod capacity;
mod documents;
mod estimators;
mod explain;
mod export;
mod jobs;
mod json;
mod models;
mod open;
mod pack;
mod replay;
mod reports;
mod run;
mod scale;
mod scoreboard;
mod serve;
mod share;
mod shell;
mod terminal;
mod text;
mod time;
mod usage;
