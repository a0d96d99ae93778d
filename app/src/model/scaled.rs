//! What the page knows about numbers of GPUs: one piece after the other.

use highwater_core::estimate::RankLine;
use highwater_core::levers::Scaled;
use serde::{Deserialize, Serialize};

/// One answer of those that the table is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Piece {
    /// What the ranks of the configuration need that differ; none for one GPU.
    Ranks(Vec<RankLine>),
    /// What a way leads to on some number of GPUs.
    Cell(Box<Scaled>),
    /// That it is no way of its own, or that the model cannot be shared so.
    Nothing,
}
