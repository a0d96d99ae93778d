//! What outlives a visit: links, saved answers, and what was opened before.

use leptos::prelude::*;

use crate::model::state::Shared;
use crate::model::visit::Recent;

/// What outlives the visit, and what the user can ask of it.
#[derive(Clone, Copy)]
pub(crate) struct Keep {
    /// The link, once it is made.
    pub(crate) shared: Signal<Option<Shared>>,
    /// What was opened before.
    pub(crate) recent: Signal<Vec<Recent>>,
    /// The link is wanted.
    pub(crate) on_share: Callback<()>,
    /// A file is wanted instead of a link.
    pub(crate) on_share_file: Callback<()>,
    /// The answer is to be saved in this form.
    pub(crate) on_save: Callback<&'static str>,
    /// Something is to be opened again: its address.
    pub(crate) on_open: Callback<String>,
    /// Something is to be forgotten: its place; all, where that is negative.
    pub(crate) on_forget: Callback<i32>,
    /// Whether what is on the page was recorded.
    pub(crate) recorded: Signal<bool>,
}
