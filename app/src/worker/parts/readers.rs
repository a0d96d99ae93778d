//! The readers of all formats, of messages and of training recipes.

use std::cell::RefCell;

use highwater_core::formats::{self, catalogue};
use highwater_core::recipe::Recipe;
use highwater_core::serving::{self, Serving};
use highwater_core::{Model, device, observed, recipe, unroll};
use wasm_split_helpers::wasm_split;

use crate::model::explained::Explained;
use crate::model::protocol::Fault;
use crate::model::serving::{Capacity, Served};
use crate::worker::abilities::Arrived;
use crate::worker::load::{Found, Opening};

thread_local! {
    /// A recipe that waits for its model: it names none, or one that is not in the catalogue.
    static WAITING: RefCell<Option<Recipe>> = const { RefCell::new(None) };
    /// The configuration that was served last, and what servers need to know of it.
    static SERVED: RefCell<Option<(String, serving::Served)>> = const { RefCell::new(None) };
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
                ..as_it_is()
            },
        }),
        (model, message) => Ok(Found { model: model.ok(), message, ..written() }),
    }
}

/// Nothing yet, but what writes a configuration with other code, since all families are here, and what settles control
/// flow.
fn written() -> Found {
    let Found { arrived, .. } = as_it_is();
    let arrived = Arrived { rewrite: Some(formats::with_library), ..arrived };
    Found { arrived, ..Found::default() }
}

/// The same for a graph that stays as it is: written again, it would lack what a recipe notes.
fn as_it_is() -> Found {
    let arrived = Arrived { settle: Some(unroll::settle), ..Arrived::default() };
    Found { arrived, ..Found::default() }
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
    Found { model, name, message, ..as_it_is() }
}

/// The names of all models of the catalogue, a line for each.
///
/// # Errors
/// The readers did not arrive.
#[wasm_split(reader, fallible)]
pub(crate) fn names() -> Result<String, Fault> {
    Ok(catalogue::names())
}

/// COUNT: tokens of a request where nobody says.
const CONTEXT: u64 = 16_384;

/// What a server has on every GPU, and on the chosen one with other settings; both ends are packed.
pub(crate) type Serve = fn(&Model, &[u8], &str) -> Vec<u8>;

/// What answers for servers. It writes the program of a family, as the readers do.
///
/// # Errors
/// The readers did not arrive.
#[wasm_split(reader, fallible)]
pub(crate) fn server() -> Result<Serve, Fault> {
    Ok(serve)
}

fn serve(model: &Model, settings: &[u8], chosen: &str) -> Vec<u8> {
    let settings = postcard::from_bytes(settings).unwrap_or_default();
    let answer: Served = capacity(model, settings, chosen).map_err(|error| error.sentence());
    postcard::to_stdvec(&answer).unwrap_or_default()
}

fn capacity(
    model: &Model,
    mut settings: Serving,
    chosen: &str,
) -> Result<Capacity, highwater_core::Error> {
    let text = model.configuration().unwrap_or_default();
    let known = SERVED.take().filter(|(known, _)| known == text).map(|(_, served)| served);
    let served = if let Some(served) = known {
        served
    } else {
        let is_published = model.recognised().format == catalogue::FORMAT;
        serving::Served::of_configuration(model.configuration(), model.name(), is_published)?
    };
    if settings.context == 0 {
        settings.context = served.positions.unwrap_or(CONTEXT).min(CONTEXT);
    }
    let devices: Vec<_> = device::all().iter().collect();
    let answer = serving::answer(&served, &settings, &devices)?;
    let changes = match device::find(chosen) {
        Ok(device) => serving::changes(&served, &settings, device),
        Err(_) => Vec::new(),
    };
    let command = settings.command(&served);
    let (positions, published) = (served.positions, served.weights.format.name().to_owned());
    SERVED.set(Some((text.to_owned(), served)));
    Ok(Capacity { settings, positions, published, answer, changes, command })
}
