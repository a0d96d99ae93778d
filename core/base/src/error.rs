//! [`Error`]: the input cannot be estimated at all.

use std::{fmt, io};

use crate::sentence::{Part, Say, Sentence};

/// What kind of input was refused; stable, for scripts and for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes could not be read from where they lie.
    Io,
    /// The file is empty.
    Empty,
    /// The file is something else than what can be read here (a picture, a zip, a pickle).
    WrongFormat,
    /// The file begins as a model but ends or breaks in the middle.
    Corrupt,
    /// The file decodes, but holds nothing that could be run.
    NoGraph,
    /// The graph contradicts itself: a cycle, a missing value, shapes that do not fit.
    InvalidGraph,
    /// A layer spec breaks its own grammar; [`Error::place`] says where.
    BadSpec,
    /// A dimension or a setting is absurd or unknown.
    BadConfig,
    /// The model asks for more than can be counted or simulated.
    TooLarge,
    /// Loops run more operators than are simulated, which says nothing about memory.
    TooManyOperators,
}

impl ErrorKind {
    /// The name in JSON: `wrong-format`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Empty => "empty",
            Self::WrongFormat => "wrong-format",
            Self::Corrupt => "corrupt",
            Self::NoGraph => "no-graph",
            Self::InvalidGraph => "invalid-graph",
            Self::BadSpec => "bad-spec",
            Self::BadConfig => "bad-config",
            Self::TooLarge => "too-large",
            Self::TooManyOperators => "too-many-operators",
        }
    }
}

/// Where in a text something stands, counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why an input was refused: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::error_impl_error, reason = "the one error of the crate, as in `std::io::Error`")]
pub struct Error {
    kind: ErrorKind,
    message: Sentence,
    place: Option<Place>,
    setting: Option<&'static str>,
}

impl Error {
    /// An error of this kind; `message` is a sentence without its full stop.
    pub fn new(kind: ErrorKind, message: impl Into<Sentence>) -> Self {
        Self { kind, message: message.into(), place: None, setting: None }
    }

    /// The same, about a place in a text.
    #[must_use]
    pub const fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// The same, about a setting, by its name on the command line.
    #[must_use]
    pub const fn about(mut self, setting: &'static str) -> Self {
        self.setting = Some(setting);
        self
    }

    /// What and what to do, without the place.
    pub const fn message(&self) -> &Sentence {
        &self.message
    }

    /// All of it, as a sentence without its full stop.
    pub fn sentence(&self) -> Sentence {
        match self.place {
            None => self.message.clone(),
            Some(Place { line, column }) => {
                say!(
                    "line {line}, column {column}: {message}",
                    line,
                    column,
                    message = &self.message
                )
            }
        }
    }

    /// The setting that it is about, where one alone can be blamed.
    pub const fn setting(&self) -> Option<&'static str> {
        self.setting
    }

    /// Where in the text it is, for formats that people write by hand.
    pub const fn place(&self) -> Option<Place> {
        self.place
    }

    /// The kind, for those who branch on it.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the model is one that could be run, but not simulated here.
    pub fn is_beyond_simulation(&self) -> bool {
        matches!(self.kind(), ErrorKind::TooLarge | ErrorKind::TooManyOperators)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => self.message.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl Say for Error {
    fn part(&self) -> Part {
        Part::Sentence(self.sentence())
    }
}

/// An error of the crate may lie in one of reading.
impl Say for io::Error {
    fn part(&self) -> Part {
        match self.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(error) => error.part(),
            None => Part::Name(self.to_string()),
        }
    }
}
