//! Light or dark: what the system prefers, until the user says otherwise.

use gloo::events::EventListener;
use web_sys::MediaQueryList;

use crate::kept::{keep, kept};

const KEY: &str = "highwater-theme";

/// A theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Dark ink on a light ground.
    Light,
    /// Light ink on a dark ground.
    Dark,
}

impl Theme {
    /// The user's earlier choice, else the system's.
    pub(crate) fn stored_or_preferred() -> Self {
        Self::stored().unwrap_or_else(|| {
            if preference().is_some_and(|query| query.matches()) { Self::Dark } else { Self::Light }
        })
    }

    fn stored() -> Option<Self> {
        match kept(KEY).as_deref() {
            Some("dark") => Some(Self::Dark),
            Some("light") => Some(Self::Light),
            _ => None,
        }
    }

    /// Calls back when the system's preference changes and the user has not chosen otherwise.
    pub(crate) fn on_preference(changed: impl Fn(Self) + 'static) {
        let Some(query) = preference() else { return };
        EventListener::new(&query, "change", move |_| {
            if Self::stored().is_none() {
                changed(Self::stored_or_preferred());
            }
        })
        .forget();
    }

    /// The other one.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Light => Self::Dark,
            Self::Dark => Self::Light,
        }
    }

    /// The name in style sheets.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Remembers the user's choice.
    pub(crate) fn store(self) {
        keep(KEY, self.name());
    }

    /// Puts it on the page.
    pub(crate) fn apply(self) {
        let root = web_sys::window()
            .and_then(|window| window.document())
            .and_then(|document| document.document_element());
        if let Some(root) = root {
            // Fails only for names that are no attribute names.
            drop(root.set_attribute("data-theme", self.name()));
        }
    }
}

fn preference() -> Option<MediaQueryList> {
    web_sys::window()?.match_media("(prefers-color-scheme: dark)").ok()?
}
