//! Sentences about an answer, made in one place for the page, the command line and Markdown.
//!
//! A [`Sentence`] is an English template with named places and typed [`Part`]s for them. A language is a
//! table from English templates to its own; [`Sentence::text`] looks a template up and fills it. Nothing
//! is glued together from fragments, because languages order words differently.
//!
//! | module | sentences about |
//! |---|---|
//! | [`answer`] | whether a run fits, where it peaks or runs out, the largest batch |
//! | [`autopsy`] | what sets the peak |
//! | [`levers`] | the smallest change that fits |
//! | [`place`] | places in a training iteration |

pub mod answer;
pub mod autopsy;
pub mod levers;
pub mod place;

pub use crate::sentence::{Part, Sentence};
pub use answer::{Headline, Reach, headline, headline_with};
