//! What several GPUs add to the step of one.

use std::num::NonZeroU64;

use highwater_core::estimate::Stages;
use highwater_core::levers::{Facts, Scale, WAYS};
use highwater_core::{Config, Model, parallel};
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use crate::model::scaled::Piece;
use crate::worker::abilities::Around;

/// A model, what was computed of it, a configuration that was estimated, what levers ask of it, and the number of a
/// piece → the piece, packed; `None` behind the last one.
pub(crate) type Spread = fn(&Model, &mut Stages, &Config, &Facts, usize) -> Option<Vec<u8>>;

/// What several GPUs add.
#[derive(Clone, Copy)]
pub(crate) struct Ranks {
    /// What stands around the step of one rank.
    pub(crate) around: Around,
    /// How the training ends on other numbers of GPUs.
    pub(crate) spread: Spread,
}

/// What several GPUs add.
///
/// # Errors
/// It did not arrive.
#[wasm_split(ranks, fallible)]
pub(crate) fn ranks() -> Result<Ranks, SplitLoaderError> {
    Ok(Ranks { around: parallel::hooks, spread: piece })
}

fn piece(
    model: &Model,
    stages: &mut Stages,
    config: &Config,
    facts: &Facts,
    number: usize,
) -> Option<Vec<u8>> {
    let piece = match number.checked_sub(1) {
        None => Piece::Ranks(model.ranks(config, stages).unwrap_or_default()),
        Some(number) => {
            let gpus = *Scale::COUNTS.get(number.div_euclid(WAYS.len()))?;
            let way = WAYS.get(number % WAYS.len())?;
            let scale = Scale::new(config, facts.clone());
            let gpus = NonZeroU64::new(gpus)?;
            // What is too large to simulate is no way out.
            let found = scale.on(gpus, way, model, stages).ok().flatten();
            found.map_or(Piece::Nothing, |found| Piece::Cell(Box::new(found)))
        }
    };
    postcard::to_stdvec(&piece).ok()
}
