//! The layers that a spec may name, one row each: name, PyTorch's class, arguments, and the operators that run.
//!
//! A row has all facts about a layer. Names are read without case, `_` and `nn.`, so that `Conv2d`, `conv2d` and
//! `nn.Conv2d` are one; arguments have PyTorch's names, and short ones.

use super::lower::{Args, Lowering, Tensor};
use crate::error::Error;
use crate::near::distance;
use crate::sentence::Sentence;

mod table;

pub use table::TABLE;

/// A layer: one row of the table.
#[derive(Debug)]
pub struct LayerKind {
    /// Name in a spec: `conv2d`.
    pub name: &'static str,
    /// Further names.
    pub aliases: &'static [&'static str],
    /// The class of PyTorch that it stands for, `nn.Conv2d`; empty where it is an idiom and no class.
    pub class: &'static str,
    /// What it is: one line without a full stop.
    pub about: &'static str,
    /// Arguments, in the order in which they may be given as a list.
    pub arguments: &'static [Argument],
    /// Adds what it runs to a graph.
    pub(super) lower: Rule,
}

/// Adds the nodes of a layer to a graph.
pub(super) type Rule = fn(&mut Lowering<'_>, &Args<'_>, &Tensor) -> Result<Tensor, Error>;

/// An argument of a layer.
#[derive(Debug)]
pub struct Argument {
    /// Name: PyTorch's, where it has one.
    pub name: &'static str,
    /// Shorter names.
    pub aliases: &'static [&'static str],
    /// What it may be.
    pub takes: Takes,
    /// What it is where nobody says.
    pub default: Default,
    /// What it is for: no full stop.
    pub about: &'static str,
}

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// A number from 1.
    Count,
    /// A number from 0, or one for each dimension.
    Counts,
    /// Padding: as [`Takes::Counts`], or `same`.
    Padding,
    /// A dimension, counted from the back if negative.
    Index,
    /// Numbers that may be negative.
    Ints,
    /// `true` or `false`.
    Flag,
    /// A number from 0 to 1.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name of an earlier layer.
    Name,
}

/// What an argument is where nobody says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// It has to be said.
    Needed,
    /// It follows from something else: in words.
    Derived(&'static str),
    /// A number.
    Int(i64),
    /// A share.
    Share(f64),
    /// Whether.
    Flag(bool),
    /// A word.
    Word(&'static str),
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Int(i64),
    /// Several.
    Ints(Vec<i64>),
    /// A number with a fraction.
    Number(f64),
    /// Whether.
    Flag(bool),
    /// A word or a name.
    Word(String),
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),+) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}
value_from!(i64 => Int, Vec<i64> => Ints, f64 => Number, bool => Flag, &str => Word, String => Word);

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// SIZE: the largest number in a spec.
const LARGEST: i64 = 1 << 31;

impl Argument {
    /// The value, if this argument may be that.
    pub(super) fn accept(&self, value: Value) -> Result<Value, Sentence> {
        let expected = || {
            let name = self.name;
            match self.takes {
                Takes::Count => say!("`{name}` is a whole number from 1", name),
                Takes::Counts => say!("`{name}` is a whole number, or a list of them", name),
                Takes::Padding => {
                    say!("`{name}` is a whole number, a list of them, or `same`", name)
                }
                Takes::Index => say!("`{name}` is the number of a dimension", name),
                Takes::Ints => say!("`{name}` is a list of whole numbers", name),
                Takes::Flag => say!("`{name}` is true or false", name),
                Takes::Share => say!("`{name}` is a number from 0 to 1", name),
                Takes::Word(words) => {
                    say!("`{name}` is one of {words}", name, words = words.join(", "))
                }
                Takes::Name => say!("`{name}` is the name of an earlier layer", name),
            }
        };
        let sizes = |list: &[i64]| {
            !list.is_empty() && list.len() <= 8 && list.iter().all(|n| (0..=LARGEST).contains(n))
        };
        let holds = match (self.takes, &value) {
            (Takes::Count, Value::Int(n)) => (1..=LARGEST).contains(n),
            (Takes::Counts | Takes::Padding, Value::Int(n)) => (0..=LARGEST).contains(n),
            (Takes::Counts | Takes::Padding, Value::Ints(list)) => sizes(list),
            (Takes::Padding, Value::Word(word)) => word == "same",
            (Takes::Index, Value::Int(n)) => (-8..8).contains(n),
            (Takes::Ints, Value::Ints(list)) => {
                list.len() <= 8 && list.iter().all(|n| (-8..=LARGEST).contains(n))
            }
            (Takes::Flag, Value::Flag(_)) | (Takes::Name, Value::Word(_)) => true,
            (Takes::Share, Value::Int(n)) => (0..=1).contains(n),
            (Takes::Share, Value::Number(x)) => (0.0..=1.0).contains(x),
            (Takes::Word(words), Value::Word(word)) => {
                let wanted = plain_word(word);
                let known = words.iter().find(|known| plain_word(known) == wanted);
                return known.map(|known| Value::Word((*known).to_owned())).ok_or_else(expected);
            }
            (Takes::Ints, Value::Int(n)) => return Ok(Value::Ints(vec![*n])),
            _ => false,
        };
        if holds { Ok(value) } else { Err(expected()) }
    }
}

impl LayerKind {
    /// The argument of this name.
    pub(super) fn argument(&self, name: &str) -> Result<&'static Argument, Sentence> {
        let wanted = plain(name);
        let found = self.arguments.iter().find(|argument| {
            plain(argument.name) == wanted || argument.aliases.contains(&wanted.as_str())
        });
        found.ok_or_else(|| {
            let names: Vec<&str> = self.arguments.iter().map(|argument| argument.name).collect();
            let known = match names.as_slice() {
                [] => say!("`{name}` takes no arguments", name = self.name),
                names => say!("it takes {names}", names = names.join(", ")),
            };
            let advice = match name {
                "in_channels" | "in_features" | "num_features" | "normalized_shape"
                | "num_channels" => {
                    say!("; sizes of what comes in follow from the layer before")
                }
                _ => did_you_mean(name, names.iter().copied()),
            };
            say!(
                "`{layer}` has no argument `{name}`: {known}{advice}",
                layer = self.name,
                name,
                known,
                advice
            )
        })
    }
}

/// A name without what people vary: case, `_`, `-`, `nn.`.
pub(super) fn plain(name: &str) -> String {
    plain_word(name.rsplit('.').next().unwrap_or(name))
}

/// A word without what people vary in it: case, `_` and `-`.
pub(super) fn plain_word(word: &str) -> String {
    let kept = word.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    kept.take(64).map(|c| c.to_ascii_lowercase()).collect()
}

/// The layer of this name.
pub fn find(name: &str) -> Option<&'static LayerKind> {
    let wanted = plain(name);
    TABLE.iter().find(|kind| {
        plain(kind.name) == wanted
            || plain(kind.class) == wanted && !kind.class.is_empty()
            || kind.aliases.contains(&wanted.as_str())
    })
}

/// That there is no such layer.
pub(super) fn unknown_layer(name: &str) -> Sentence {
    let names = TABLE.iter().map(|kind| kind.name).chain(STRUCTURES.map(|(name, _)| name));
    let meant = did_you_mean(name, names);
    let name = super::tree::shortened(name);
    if meant.is_empty() {
        return say!("there is no layer `{name}`; docs/spec.md lists all of them", name);
    }
    say!("there is no layer `{name}`{meant}", name, meant)
}

/// `; did you mean …?`, where something is near.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Sentence {
    let wanted = plain(name);
    let near = known
        .map(|known| (distance(&wanted, &plain(known)), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3).min(3));
    near.min().map_or_else(Sentence::default, |(_, known)| say!("; did you mean `{known}`?", known))
}

/// Arrangements of layers: name, and what it is.
pub const STRUCTURES: [(&str, &str); 7] = [
    ("sequential", "layers in a row, as one module"),
    ("repeat", "the layers of `block`, repeated, each with its own parameters"),
    (
        "residual",
        "`body(x) + x`, or `body(x) + shortcut(x)` with a `shortcut`; `inplace: true` for `+=`",
    ),
    (
        "branch",
        "several lists of layers that read the same, met by `join` (concat, add, mul) along `dim`",
    ),
    ("concat", "the result before and those of the named layers, along `dim` (1)"),
    ("add", "the result before plus those of the named layers"),
    ("mul", "the result before times those of the named layers"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let mut seen = BTreeSet::new();
        for kind in TABLE {
            let names = [kind.name, kind.class].into_iter().chain(kind.aliases.iter().copied());
            let names: BTreeSet<String> =
                names.filter(|name| !name.is_empty()).map(plain).collect();
            for name in names {
                assert_eq!(find(&name).map(|found| found.name), Some(kind.name), "{name}");
                assert!(seen.insert(name.clone()), "{name} twice");
            }
            let mut arguments = BTreeSet::new();
            for argument in kind.arguments {
                let names = argument.aliases.iter().copied().chain([argument.name]);
                let names: BTreeSet<String> = names.map(plain).collect();
                for name in names {
                    assert!(arguments.insert(name.clone()), "{}: {name} twice", kind.name);
                }
                for alias in argument.aliases {
                    assert_eq!(plain(alias), **alias, "{}: aliases are plain", kind.name);
                }
            }
        }
        for (name, _) in STRUCTURES {
            assert!(!seen.contains(name), "{name} is a layer and an arrangement");
        }
    }

    #[test]
    fn near_names_are_proposed() {
        for (name, expected) in [
            ("conv2", "; did you mean `conv2d`?"),
            ("batchnrom2d", "; did you mean `batchnorm2d`?"),
            ("residul", "; did you mean `residual`?"),
            ("xyz", ""),
        ] {
            let names = TABLE.iter().map(|kind| kind.name).chain(STRUCTURES.map(|(name, _)| name));
            assert_eq!(did_you_mean(name, names).to_string(), expected, "{name}");
        }
    }
}
