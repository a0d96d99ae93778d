//! Writes an answer as a file: a part of the program that is fetched when somebody saves one.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use highwater_core::export::Answer;
use highwater_draw::picture::Words;
use wasm_split_helpers::{SplitLoaderError, wasm_split};
use web_sys::HtmlCanvasElement;

use super::picture;
use crate::model::export;

/// The memory snapshot of a packed run.
///
/// # Errors
/// What writes it did not arrive.
#[wasm_split(export, fallible)]
pub(crate) fn pickled(packed: Vec<u8>) -> Result<Vec<u8>, SplitLoaderError> {
    Ok(export::pickled(&packed))
}

/// The text of a form; empty where there is none.
///
/// # Errors
/// What writes it did not arrive.
#[wasm_split(export, fallible)]
pub(crate) fn written(
    form: &'static str,
    answer: Answer,
    words: Words,
) -> Result<String, SplitLoaderError> {
    let text = |palette| export::written(form, &answer, &words, &palette);
    Ok(picture::palette().map_or_else(String::new, text))
}

/// Draws the picture of an answer on a canvas; returns whether it could.
///
/// # Errors
/// What draws it did not arrive.
#[wasm_split(export, fallible)]
pub(crate) fn painted(
    canvas: HtmlCanvasElement,
    answer: Answer,
    words: Words,
) -> Result<bool, SplitLoaderError> {
    let drawn = |palette| picture::painted(&canvas, &answer, &words, &palette);
    Ok(picture::palette().and_then(drawn).is_some())
}
