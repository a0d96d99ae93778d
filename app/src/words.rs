//! The page's sentences. All of them are composed here.

mod answer;
pub(crate) mod autopsy;
pub(crate) mod comparison;
pub(crate) mod explained;
pub(crate) mod format;
pub(crate) mod keep;
pub(crate) mod language;
pub(crate) mod levers;
pub(crate) mod message;
mod names;
pub(crate) mod notice;
pub(crate) mod recorded;
mod vocabulary;

#[cfg(test)]
pub(crate) use answer::headline;
pub(crate) use answer::{
    Headline, certainty, chance, doubt, how_far, newest_headline, settings_line, tab_title,
};
pub(crate) use names::{
    model_name, moment, phase, phase_short, pool, pool_name, segments, sentence, severity,
    short_name, when,
};
pub(crate) use vocabulary::Vocabulary;
