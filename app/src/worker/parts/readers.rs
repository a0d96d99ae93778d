//! The readers of all formats and of messages.

use highwater_core::formats::{self, catalogue};
use highwater_core::observed;
use wasm_split_helpers::wasm_split;

use crate::model::explained::Explained;
use crate::model::protocol::Fault;
use crate::worker::load::{Found, Opening};

/// Reads an input.
///
/// # Errors
/// It is nothing that opens, or the readers did not arrive.
#[wasm_split(reader, fallible, preload(fetch))]
pub(crate) fn read(mut input: Opening, name: String) -> Result<Found, Fault> {
    let model = input.read_by(|source| formats::open(source, &name));
    // A log may have both.
    let seen = input.read_by(|source| observed::open(source));
    let message = seen.ok().as_ref().and_then(Explained::of);
    match (model, message) {
        (Err(error), None) => Err(Fault::of(&error)),
        (model, message) => Ok(Found { model: model.ok(), message, recording: None }),
    }
}

/// The names of all models of the catalogue, a line for each.
///
/// # Errors
/// The readers did not arrive.
#[wasm_split(reader, fallible)]
pub(crate) fn names() -> Result<String, Fault> {
    Ok(catalogue::names())
}
