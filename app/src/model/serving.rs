//! What a server has on each GPU: the answer that travels from the worker to the page.

use highwater_core::serving::{Answer, Change, Serving};
use highwater_core::wording::Sentence;
use serde::{Deserialize, Serialize};

/// What a server has, or why there is no answer.
pub(crate) type Served = Result<Capacity, Sentence>;

/// What a server has of memory, for the open model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Capacity {
    /// How the server is started, its defaults for the model among it.
    pub(crate) settings: Serving,
    /// COUNT: tokens of the longest text that the model takes.
    pub(crate) positions: Option<u64>,
    /// How the weights are published.
    pub(crate) published: String,
    /// A row for each GPU.
    pub(crate) answer: Answer,
    /// Other ways to start it, and what each gives on the chosen GPU.
    pub(crate) changes: Vec<Change>,
    /// What starts it, in a shell.
    pub(crate) command: String,
}
