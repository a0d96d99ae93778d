//! Work without a view: this changes the state, and the components show it.

mod line;

pub(crate) mod embed;
pub(crate) mod engine;
pub(crate) mod files;
pub(crate) mod focus;
pub(crate) mod link;
pub(crate) mod picture;
pub(crate) mod preferences;
pub(crate) mod saving;
pub(crate) mod teach;
