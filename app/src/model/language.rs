//! The languages that the page speaks.

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// English.
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// All of them, in the order in which they are offered.
    pub(crate) const ALL: [Self; 2] = [Self::English, Self::Chinese];

    /// The tag of BCP 47, which is also the name of its catalogue.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-Hans",
        }
    }

    /// What its speakers call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "简体中文",
        }
    }
}
