//! The page's state and data. Nothing here touches the document.

pub(crate) mod computed;
pub(crate) mod derived;
pub(crate) mod distances;
pub(crate) mod examples;
pub(crate) mod explained;
pub(crate) mod export;
pub(crate) mod input;
pub(crate) mod known;
pub(crate) mod language;
pub(crate) mod lessons;
pub(crate) mod protocol;
pub(crate) mod scaled;
pub(crate) mod section;
pub(crate) mod serving;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod theme;
pub(crate) mod times;
pub(crate) mod visit;
