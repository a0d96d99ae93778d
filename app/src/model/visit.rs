//! State that outlives a visit: the contents of an address, and recent inputs.

use highwater_core::Config;
use highwater_draw::scene::View;

/// COUNT: letters of an address that any program carries on.
pub(crate) const CARRIED: usize = 8000;

/// What an address asks for that is not on the page yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Name of the input.
    pub(crate) name: String,
    /// The settings, until they are on the page.
    pub(crate) config: Option<Config>,
    /// What the timeline shows.
    pub(crate) view: View,
    /// Event that is pinned.
    pub(crate) event: Option<usize>,
}

/// Something that was opened before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recent {
    /// Its name.
    pub(crate) name: String,
    /// `example`, `text` or `file`.
    pub(crate) kind: String,
    /// Its newest address.
    pub(crate) fragment: String,
}
