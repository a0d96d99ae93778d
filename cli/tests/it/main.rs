//! The built program, as a shell sees it.
#![expect(clippy::needless_raw_string_hashes, reason = "`expect-test` writes them so")]

mod json;
mod run;
mod text;
mod usage;
