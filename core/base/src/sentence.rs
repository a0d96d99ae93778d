//! [`Sentence`]: a template and what goes into it.

use std::borrow::Cow;
use std::fmt;
use std::num::{NonZeroU64, ParseIntError};
use std::string::FromUtf8Error;

use serde::{Deserialize, Serialize};

use crate::bytes::{self, Bytes, Printed};

/// A sentence, or a part of one that other sentences contain.
///
/// ```
/// use highwater_base::Bytes;
/// use highwater_base::sentence::Sentence;
/// let peak = Sentence::of("Peaks at {size} {place}.")
///     .with("size", Bytes::mib(3522))
///     .with("place", Sentence::of("in the optimizer step"));
/// assert_eq!(peak.to_string(), "Peaks at 3.44 GiB in the optimizer step.");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sentence {
    /// In English, with names in braces where parts go.
    template: Cow<'static, str>,
    parts: Vec<(Cow<'static, str>, Part)>,
}

/// What stands at a named place of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// A size, with three digits: `3.44 GiB`.
    Size(Bytes),
    /// A size and the whole it is compared with: `3.44 of 14.6 GiB`.
    Of(Bytes, Bytes),
    /// A count: `50,257`.
    Count(u64),
    /// The share of the first in the second: `85 %`.
    Share(Bytes, Bytes),
    /// A name or a number that no language changes.
    Name(String),
    /// A part that has a translation itself.
    Sentence(Sentence),
}

impl Sentence {
    /// A sentence with this English template.
    pub const fn of(template: &'static str) -> Self {
        Self { template: Cow::Borrowed(template), parts: Vec::new() }
    }

    /// A sentence whose English template comes from a table of the program's files.
    pub fn read(template: &str) -> Self {
        Self { template: Cow::Owned(template.to_owned()), parts: Vec::new() }
    }

    /// A name, which is the same in every language.
    pub fn name(name: &str) -> Self {
        if name.is_empty() {
            return Self::default();
        }
        Self::of("{name}").with("name", name)
    }

    /// The same with a part for `{name}`.
    #[must_use]
    pub fn with(mut self, name: &'static str, part: impl Into<Part>) -> Self {
        self.parts.push((Cow::Borrowed(name), part.into()));
        self
    }

    /// The same with several parts, each printed as a message prints it; [`say!`](crate::say) calls this.
    #[doc(hidden)]
    pub fn filled(template: &'static str, parts: &[(&'static str, &dyn Say)]) -> Self {
        let part = |&(name, part): &(&'static str, &dyn Say)| (Cow::Borrowed(name), part.part());
        Self { template: Cow::Borrowed(template), parts: parts.iter().map(part).collect() }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.template.is_empty()
    }

    /// The text in a language: `translate` maps an English template to the template of that language.
    ///
    /// A place that has no part stays empty.
    pub fn text(&self, translate: &dyn Fn(&str) -> String) -> String {
        let template = translate(&self.template);
        let mut text = String::with_capacity(template.len());
        let mut rest = template.as_str();
        while let Some((before, behind)) = rest.split_once('{') {
            text.push_str(before);
            let Some((name, behind)) = behind.split_once('}') else {
                rest = behind;
                break;
            };
            if let Some((_, part)) = self.parts.iter().find(|(known, _)| known == name) {
                text.push_str(&part.text(translate));
            }
            rest = behind;
        }
        text.push_str(rest);
        text
    }
}

/// In English.
impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&str::to_owned))
    }
}

impl Part {
    fn text(&self, translate: &dyn Fn(&str) -> String) -> String {
        match self {
            Self::Size(size) => size.short(),
            Self::Of(size, whole) => of(*size, *whole).text(translate),
            Self::Count(count) => bytes::grouped(*count),
            Self::Share(part, whole) => share(*part, *whole),
            Self::Name(name) => name.clone(),
            Self::Sentence(sentence) => sentence.text(translate),
        }
    }
}

/// The unit stands once where both have the same.
fn of(size: Bytes, whole: Bytes) -> Sentence {
    let ((digits, unit), (_, unit_of_whole)) = (size.digits(), whole.digits());
    let size = if unit == unit_of_whole { digits } else { size.short() };
    Sentence::of("{size} of {whole}").with("size", size).with("whole", whole)
}

/// Whole per cent; a trace of something is not nothing, and all but a trace is not all.
pub fn share(part: Bytes, whole: Bytes) -> String {
    match part.parts_of(whole, 100) {
        0 if part > Bytes::ZERO => "<1 %".to_owned(),
        100 if part < whole => ">99 %".to_owned(),
        percent => format!("{percent} %"),
    }
}

/// A [`Sentence`] from its template and its parts: `say!("`{layer}` has {n} inputs", layer, n = inputs.len())`.
///
/// Numbers are printed plainly and sizes exactly; a sentence among the parts is translated, too.
///
/// ```
/// use highwater_base::say;
/// let layer = "up";
/// let message = say!("`{layer}` has {n} inputs", layer, n = 1200);
/// assert_eq!(message.to_string(), "`up` has 1200 inputs");
/// ```
#[macro_export]
macro_rules! say {
    ($template:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::sentence::Sentence::filled(
            $template,
            &[$((stringify!($name), &$crate::say!(@ $name $(, $value)?))),*],
        )
    };
    (@ $name:ident) => { $name };
    (@ $name:ident, $value:expr) => { $value };
}

/// What may stand in a message, and how.
pub trait Say {
    /// The part of a sentence.
    fn part(&self) -> Part;
}

/// Types whose values are printed as they display themselves, in every language.
macro_rules! said_plainly {
    ($($kind:ty),* $(,)?) => {
        $(impl $crate::sentence::Say for $kind {
            fn part(&self) -> $crate::sentence::Part {
                $crate::sentence::Part::Name(self.to_string())
            }
        })*
    };
}

said_plainly!(
    str,
    String,
    Cow<'_, str>,
    char,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i32,
    i64,
    i128,
    Bytes,
    Printed,
    f64,
    NonZeroU64,
    ParseIntError,
    FromUtf8Error,
    serde_json::Error,
);

impl Say for Sentence {
    fn part(&self) -> Part {
        Part::Sentence(self.clone())
    }
}

impl Say for Part {
    fn part(&self) -> Part {
        self.clone()
    }
}

impl<T: Say + ?Sized> Say for &T {
    fn part(&self) -> Part {
        (**self).part()
    }
}

impl From<&'static str> for Sentence {
    fn from(template: &'static str) -> Self {
        Self::of(template)
    }
}

impl From<Bytes> for Part {
    fn from(size: Bytes) -> Self {
        Self::Size(size)
    }
}

impl From<Printed> for Part {
    fn from(size: Printed) -> Self {
        Self::Name(size.to_string())
    }
}

impl From<u64> for Part {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Part {
    fn from(count: usize) -> Self {
        Self::Count(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

impl From<&str> for Part {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<&String> for Part {
    fn from(name: &String) -> Self {
        Self::Name(name.clone())
    }
}

impl From<String> for Part {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<Sentence> for Part {
    fn from(sentence: Sentence) -> Self {
        Self::Sentence(sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_where_the_language_puts_them() {
        let chinese = |english: &str| match english {
            "{size} of {whole}" => "{whole} 中的 {size}".to_owned(),
            "On {gpu} it needs {need}." => "{gpu} 上需要 {need}。".to_owned(),
            other => other.to_owned(),
        };
        let need = Part::Of(Bytes::mib(3522), Bytes::mib(14_911));
        let sentence =
            Sentence::of("On {gpu} it needs {need}.").with("gpu", "T4").with("need", need);
        assert_eq!(sentence.to_string(), "On T4 it needs 3.44 of 14.6 GiB.");
        assert_eq!(sentence.text(&chinese), "T4 上需要 14.6 GiB 中的 3.44。");
        assert_eq!(Sentence::of("{unknown}{open").to_string(), "open");
    }

    #[test]
    fn a_unit_stands_once_where_it_can() {
        let of = |size, whole| of(size, whole).to_string();
        assert_eq!(of(Bytes::mib(12_390), Bytes::mib(14_911)), "12.1 of 14.6 GiB");
        assert_eq!(of(Bytes::mib(514), Bytes::mib(14_911)), "514 MiB of 14.6 GiB");
    }
}
