//! What the page knows about jobs that share a GPU.

use highwater_core::Bytes;
use highwater_core::sharing::Together;
use highwater_core::wording::Sentence;
use serde::{Deserialize, Serialize};

/// What the user wants of the tray.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// To see it.
    Show,
    /// A job on another card: its number, and the card's id.
    Move(u64, String),
    /// One more of a job.
    Again(u64),
    /// A job taken away.
    Remove(u64),
}

/// The tray: jobs, and the cards that they are on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shared {
    /// In the order in which they came.
    pub(crate) jobs: Vec<Job>,
    /// The chosen card, and the usual ones.
    pub(crate) cards: Vec<Card>,
    /// Whether there was no place for another job.
    pub(crate) is_full: bool,
}

/// A job in the tray.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Its number.
    pub(crate) id: u64,
    /// Name of its model.
    pub(crate) name: String,
    /// Sizes that tell it from others: `batch 32`.
    pub(crate) sizes: String,
    /// Id of its card.
    pub(crate) card: String,
    /// Whether it is the model that is open, with the settings of the page.
    pub(crate) is_open: bool,
    /// Why it has no answer, where it has none.
    pub(crate) problem: Option<Sentence>,
}

/// A card, and what is on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Card {
    /// Its id.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// SIZE: what jobs may use.
    pub(crate) usable: Bytes,
    /// Its jobs, as far as they are known.
    pub(crate) tenants: Vec<Tenant>,
    /// How they end together, once all are known.
    pub(crate) told: Option<Told>,
}

/// A job on a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tenant {
    /// The job's number.
    pub(crate) job: u64,
    /// SIZE: what its process needs.
    pub(crate) need: Bytes,
    /// PICOSECONDS: a step alone.
    pub(crate) step: Option<u64>,
}

/// How jobs end on a card together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// In one sentence.
    pub(crate) sentence: Sentence,
    /// How it is.
    pub(crate) verdict: Together,
    /// Percent: the chance that their peaks fit at once.
    pub(crate) chance: Option<u64>,
    /// How much longer steps take, a row for each way of sharing: its name, and for each job how many times as long,
    /// in thousandths, at least, most likely and at most.
    pub(crate) slowed: Vec<(String, Vec<[u64; 3]>)>,
    /// For each job its slice of the hardware, and a step there in picoseconds; none where they do not all get one.
    pub(crate) slices: Vec<(String, Option<u64>)>,
    /// Code that keeps each from taking another's memory.
    pub(crate) limits: String,
}
