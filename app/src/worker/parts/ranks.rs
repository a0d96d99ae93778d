//! What several GPUs add to the step of one.

use highwater_core::estimate::Around;
use highwater_core::parallel;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

/// What stands around the step of one rank.
///
/// # Errors
/// It did not arrive.
#[wasm_split(ranks, fallible)]
pub(crate) fn around() -> Result<Around, SplitLoaderError> {
    Ok(parallel::hooks)
}
