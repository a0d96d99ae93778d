//! The readers of all formats, of messages and of training recipes.

use std::cell::RefCell;

use highwater_core::formats::{self, catalogue};
use highwater_core::recipe::Recipe;
use highwater_core::{observed, recipe};
use wasm_split_helpers::wasm_split;

use crate::model::explained::Explained;
use crate::model::protocol::Fault;
use crate::worker::load::{Found, Opening};

thread_local! {
    /// A recipe that waits for its model: it names none, or one that is not in the catalogue.
    static WAITING: RefCell<Option<Recipe>> = const { RefCell::new(None) };
}

/// Reads an input.
///
/// # Errors
/// It is nothing that opens, or the readers did not arrive.
#[wasm_split(reader, fallible, preload(fetch))]
pub(crate) fn read(mut input: Opening, name: String) -> Result<Found, Fault> {
    // A log may have a message about memory next to anything else.
    let seen = input.read_by(|source| observed::open(source));
    let message = seen.ok().as_ref().and_then(Explained::of);
    // Where an allocation failed matters more than the recipe of the run; that memory may run out does not.
    let failed = message.clone().filter(|message| message.sought.is_some());
    match input.read_by(|source| recipe::open(source, None)) {
        Ok(None) => {}
        Ok(Some(recipe)) => return Ok(trained(recipe, failed)),
        Err(error) if failed.is_none() => return Err(Fault::of(&error)),
        Err(_) => return Ok(Found { message: failed, ..Found::default() }),
    }
    let model = input.read_by(|source| formats::open(source, &name));
    match (model, message) {
        (Err(error), None) => Err(Fault::of(&error)),
        (Ok(model), None) => Ok(match WAITING.take() {
            None => Found { model: Some(model), ..written() },
            Some(recipe) => Found {
                message: Some(Explained::of_recipe(&recipe, None)),
                name: recipe.called().map(str::to_owned),
                model: Some(recipe.over(model)),
                ..written()
            },
        }),
        (model, message) => Ok(Found { model: model.ok(), message, ..written() }),
    }
}

/// Nothing yet, but what writes a configuration with other code: all families are here.
fn written() -> Found {
    Found { rewrite: Some(formats::with_library), ..Found::default() }
}

/// The model of a recipe with its settings; a recipe without one waits for it. An allocation that failed in the same
/// text is explained instead of the recipe.
fn trained(recipe: Recipe, failed: Option<Explained>) -> Found {
    let opened = recipe.opened();
    if opened.is_err() && failed.is_some() {
        return Found { message: failed, ..Found::default() };
    }
    let missing = opened.as_ref().err().map(highwater_core::Error::sentence);
    let message = failed.or_else(|| Some(Explained::of_recipe(&recipe, missing)));
    let (model, name) = (opened.ok(), recipe.called().map(str::to_owned));
    WAITING.set(model.is_none().then_some(recipe));
    Found { model, name, message, ..written() }
}

/// The names of all models of the catalogue, a line for each.
///
/// # Errors
/// The readers did not arrive.
#[wasm_split(reader, fallible)]
pub(crate) fn names() -> Result<String, Fault> {
    Ok(catalogue::names())
}
