//! The settings of a `config.json`, by the names that transformers' configuration classes use.

use super::super::spec::tree::{Content, Tree, fault};
use crate::error::{Error, Place};
use crate::sentence::Sentence;

/// SIZE: the largest number that a configuration may state.
const LARGEST: i64 = 1 << 31;

/// COUNT: layers that a model may have.
pub(super) const LAYERS_MAX: i64 = 1024;

/// A configuration, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'a> {
    tree: &'a Tree,
}

/// Names of one setting: `hidden_size`, and those of older configurations.
pub(super) type Names<'n> = &'n [&'n str];

impl<'a> Settings<'a> {
    /// A configuration that states nothing.
    pub(super) const EMPTY: Settings<'static> = Settings {
        tree: &Tree { place: Place { line: 1, column: 1 }, content: Content::Map(Vec::new()) },
    };

    pub(super) const fn new(tree: &'a Tree) -> Self {
        Self { tree }
    }

    /// What stands under the first of these names that is there and is not null.
    fn find(self, names: Names<'_>) -> Option<&'a Tree> {
        let Content::Map(entries) = &self.tree.content else { return None };
        names.iter().find_map(|name| {
            let (_, value) = entries.iter().find(|(key, _)| key.text == *name)?;
            (value.content != Content::Null).then_some(value)
        })
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.find(&[name]).is_some()
    }

    /// Whether it states null.
    pub(super) fn states_null(self, name: &str) -> bool {
        let Content::Map(entries) = &self.tree.content else { return false };
        entries.iter().any(|(key, value)| key.text == name && value.content == Content::Null)
    }

    /// The names of what is stated.
    pub(super) fn keys(self) -> impl Iterator<Item = &'a str> {
        let entries = match &self.tree.content {
            Content::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(key, _)| key.text.as_str())
    }

    /// The names of what is stated, here and in the parts among `parts`, each with where it stands.
    pub(super) fn keys_and_those_of(self, parts: &[&str]) -> Vec<(Settings<'a>, &'a str)> {
        let inside = parts.iter().filter_map(|name| self.part(name));
        let all = std::iter::once(self).chain(inside);
        all.flat_map(|c| c.keys().map(move |key| (c, key))).collect()
    }

    /// Whether a setting is missing, null, false, 0 or empty.
    pub(super) fn is_off(self, name: &str) -> bool {
        self.find(&[name]).is_none_or(|found| match &found.content {
            Content::Flag(flag) => !flag,
            Content::Int(n) => *n == 0,
            Content::Number(x) => x.abs() <= 0.0,
            Content::Text(text) => text.is_empty(),
            Content::List(list) => list.is_empty(),
            Content::Map(entries) => entries.is_empty(),
            Content::Null => true,
        })
    }

    /// A part of it: `text_config`.
    pub(super) fn part(self, name: &str) -> Option<Settings<'a>> {
        let tree = self.find(&[name])?;
        matches!(tree.content, Content::Map(_)).then_some(Settings { tree })
    }

    /// A part, or where the older `text_config_dict` is stated, that: its values go first.
    pub(super) fn part_or_older(self, name: &str) -> Settings<'a> {
        let older = self.part(&format!("{name}_dict"));
        older.or_else(|| self.part(name)).unwrap_or(Settings::EMPTY)
    }

    /// A whole number from 1.
    pub(super) fn maybe(self, names: Names<'_>) -> Result<Option<u64>, Error> {
        let Some(found) = self.find(names) else { return Ok(None) };
        if let Content::Int(n @ 1..=LARGEST) = found.content {
            return Ok(u64::try_from(n).ok());
        }
        let name = names.first().unwrap_or(&"it");
        let message =
            say!("`{name}` is {kind}, not a whole number from 1", name, kind = found.kind());
        Err(fault(found.place, message))
    }

    /// A whole number from 1; 0 and what is below stand for none: `position_buckets: -1`.
    pub(super) fn above_zero(self, names: Names<'_>) -> Result<Option<u64>, Error> {
        match self.find(names).map(|found| &found.content) {
            Some(Content::Int(..=0)) => Ok(None),
            _ => self.maybe(names),
        }
    }

    /// Several numbers.
    pub(super) fn counts(self, names: Names<'_>) -> Result<Option<Vec<u64>>, Error> {
        let Some(found) = self.find(names) else { return Ok(None) };
        let number = |tree: &Tree| match tree.content {
            Content::Int(n @ 0..=LARGEST) => u64::try_from(n).ok(),
            _ => None,
        };
        let numbers = match &found.content {
            Content::List(list) if list.len() <= 64 => list.iter().map(number).collect(),
            Content::Int(_) => number(found).map(|n| vec![n]),
            _ => None,
        };
        numbers.map(Some).ok_or_else(|| {
            let name = names.first().unwrap_or(&"it");
            fault(
                found.place,
                say!("`{name}` is {kind}, not whole numbers", name, kind = found.kind()),
            )
        })
    }

    /// A probability or a factor.
    pub(super) fn number(self, names: Names<'_>, default: f64) -> f64 {
        match self.find(names).map(|found| &found.content) {
            Some(Content::Number(x)) => *x,
            Some(Content::Int(n)) => i32::try_from(*n).map_or(default, f64::from),
            _ => default,
        }
    }

    pub(super) fn flag(self, names: Names<'_>, default: bool) -> bool {
        match self.find(names).map(|found| &found.content) {
            Some(Content::Flag(flag)) => *flag,
            _ => default,
        }
    }

    pub(super) fn word(self, names: Names<'_>) -> Option<&'a str> {
        match &self.find(names)?.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Several words.
    pub(super) fn words(self, name: &str) -> Vec<&'a str> {
        match self.find(&[name]).map(|found| &found.content) {
            Some(Content::List(list)) => {
                let word = |tree: &'a Tree| match &tree.content {
                    Content::Text(text) => Some(text.as_str()),
                    _ => None,
                };
                list.iter().filter_map(word).collect()
            }
            Some(Content::Text(text)) => vec![text],
            _ => Vec::new(),
        }
    }

    /// An error about a setting: the first of these names that is there.
    pub(super) fn fault(self, names: Names<'_>, message: &Sentence) -> Error {
        let name =
            names.iter().find(|name| self.has(name)).or_else(|| names.first()).unwrap_or(&"it");
        let found = self.find(&[name]);
        let place = found.map_or(self.tree.place, |found| found.place);
        let what = found.map_or_else(|| say!("not stated"), Tree::kind);
        fault(place, say!("`{name}` is {what}: {message}", name, what, message))
    }

    /// That there are more layers than [`LAYERS_MAX`].
    pub(super) fn too_many(self, names: Names<'_>, count: i64) -> Error {
        let place = self.find(names).map_or(self.tree.place, |found| found.place);
        fault(
            place,
            say!("{count} layers are more than {layers_max}", count, layers_max = LAYERS_MAX),
        )
    }

    /// `a / b`, which must come out even.
    pub(super) fn divide(self, a: i64, b: i64, what: &Sentence) -> Result<i64, Error> {
        if b > 0 && a.checked_rem_euclid(b) == Some(0) {
            return Ok(a.div_euclid(b));
        }
        Err(fault(self.tree.place, say!("{what}: {b} does not divide {a}", what, b, a)))
    }
}
