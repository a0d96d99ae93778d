//! [`Value`]: what stands behind a key, in any language of recipes.

use crate::error::Place;
use crate::formats::spec::tree::{Content, Tree};

/// What stands behind a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// `null`, `None`.
    Null,
    Flag(bool),
    Int(i64),
    Number(f64),
    Text(String),
    /// A name that Python looks up: `torch.bfloat16`.
    Name(String),
    List(Vec<Self>),
    Map(Vec<Entry>),
    Call(Call),
    /// What only Python can compute.
    Opaque,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Value,
}

/// A call of a function or of a class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    /// As it is written: `FastLanguageModel.from_pretrained`.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) positional: Vec<Value>,
    pub(super) keywords: Vec<Entry>,
}

impl Call {
    /// The last part of its name.
    pub(super) fn last(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// A keyword, or else an argument by its position.
    pub(super) fn argument(&self, keyword: &str, position: usize) -> Option<&Value> {
        let named = self.keywords.iter().find(|entry| entry.key == keyword);
        named.map(|entry| &entry.value).or_else(|| self.positional.get(position))
    }
}

impl Value {
    /// A value of YAML or JSON.
    pub(super) fn of(tree: Tree) -> Self {
        match tree.content {
            Content::Null => Self::Null,
            Content::Flag(flag) => Self::Flag(flag),
            Content::Int(n) => Self::Int(n),
            Content::Number(x) => Self::Number(x),
            Content::Text(text) => Self::Text(text),
            Content::List(items) => Self::List(items.into_iter().map(Self::of).collect()),
            Content::Map(entries) => {
                let entry = |(key, tree): (crate::formats::spec::tree::Key, Tree)| Entry {
                    key: key.text,
                    place: key.place,
                    value: Self::of(tree),
                };
                Self::Map(entries.into_iter().map(entry).collect())
            }
        }
    }

    /// Whether it switches nothing on: null, false, zero, an empty text or list.
    pub(super) fn is_off(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Flag(flag) => !flag,
            Self::Int(n) => *n == 0,
            Self::Number(x) => *x == 0.0,
            Self::Text(text) => {
                matches!(text.trim().to_ascii_lowercase().as_str(), "" | "no" | "none" | "false")
            }
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            Self::Name(_) | Self::Call(_) | Self::Opaque => false,
        }
    }

    /// On or off, as YAML, JSON and Python write it.
    pub(super) fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Null | Self::Int(0) => Some(false),
            Self::Int(1) => Some(true),
            Self::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "auto" | "full" => Some(true),
                "false" | "no" | "off" | "none" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// A whole number from 1 on.
    pub(super) fn count(&self) -> Option<u64> {
        let n = match self {
            Self::Int(n) => u64::try_from(*n).ok(),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        n.filter(|&n| n > 0)
    }

    /// A whole number from 0 on.
    pub(super) fn whole(&self) -> Option<u64> {
        if *self == Self::Int(0) { Some(0) } else { self.count() }
    }

    /// A number above zero.
    pub(super) fn is_positive(&self) -> Option<bool> {
        match self {
            Self::Int(n) => Some(*n > 0),
            Self::Number(x) => Some(*x > 0.0),
            Self::Null => Some(false),
            Self::Text(text) => text.trim().parse::<f64>().ok().map(|x| x > 0.0),
            _ => None,
        }
    }

    /// A text, or the last part of a name: `torch.bfloat16` is `bfloat16`.
    pub(super) fn word(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Name(name) => name.rsplit('.').next().map(str::to_owned),
            Self::Int(n) => Some(n.to_string()),
            Self::Number(x) => Some(x.to_string()),
            Self::Flag(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    /// Names: a list of texts, or one.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let text = |value: &Self| match value {
            Self::Text(text) => Some(text.clone()),
            _ => None,
        };
        match self {
            Self::List(items) => items.iter().map(text).collect(),
            Self::Text(text) => Some(text.split(',').map(|name| name.trim().to_owned()).collect()),
            _ => None,
        }
    }

    /// The members of a mapping, or the keywords of a call such as `dict(…)`.
    pub(super) fn entries(&self) -> &[Entry] {
        match self {
            Self::Map(entries) => entries,
            Self::Call(call) => &call.keywords,
            _ => &[],
        }
    }

    /// The value of a member.
    pub(super) fn member(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}
