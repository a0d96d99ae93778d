//! [`Choice`] and [`choice!`]: an enum whose variants have a name, a label and an explanation.

use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;

/// One of several named settings.
pub trait Choice: Copy + PartialEq + std::str::FromStr + Send + Sync + 'static {
    /// All of them, in the order in which they are offered.
    const ALL: &'static [Self];
    /// The same as a table.
    const TABLE: &'static [Named];

    /// The name on the command line and in JSON.
    fn name(self) -> &'static str;
}

/// One value that a setting can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name on the command line and in JSON.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// What it means for memory: no full stop.
    pub about: &'static str,
}

/// Where a name is in a table.
#[inline(never)]
pub fn position(table: &[Named], name: &str) -> Option<usize> {
    table.iter().position(|named| named.name == name)
}

/// What is wrong with a name that is not in a table of `what`.
#[cold]
pub fn unknown(table: &[Named], name: &str, what: &Sentence) -> Error {
    let known: Vec<_> = table.iter().map(|named| named.name).collect();
    let known = known.join(", ");
    let message = say!("unknown {what} `{name}`; choose one of {known}", what, name, known);
    Error::new(ErrorKind::BadConfig, message)
}

/// Declares an enum of named variants, with `ALL`, `name`, `label`, `about`, `Display`, `FromStr` and serde
/// by name.
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $type:ident ($what:literal) {
            $($(#[$variant_meta:meta])* $variant:ident = $name:literal, $label:literal, $about:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $type {
            /// All of them, in the order in which they are offered.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on the command line and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// What people call it.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }

            /// What it means for memory: no full stop.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about),+ }
            }
        }

        impl $crate::config::Choice for $type {
            const ALL: &'static [Self] = Self::ALL;
            const TABLE: &'static [$crate::config::Named] =
                &[$($crate::config::Named { name: $name, label: $label, about: $about }),+];

            fn name(self) -> &'static str {
                self.name()
            }
        }

        impl $crate::config::Typed for $type {
            const KIND: $crate::config::Kind =
                $crate::config::Kind::Choice(<Self as $crate::config::Choice>::TABLE);

            fn value(&self) -> $crate::config::Value {
                $crate::config::Value::Text(self.name().to_owned())
            }

            fn read(text: &str) -> Result<Self, $crate::error::Error> {
                text.parse()
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::error::Error;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let table = <Self as $crate::config::Choice>::TABLE;
                let found = $crate::config::position(table, name);
                let found = found.and_then(|at| Self::ALL.get(at).copied());
                found.ok_or_else(|| $crate::config::unknown(table, name, &$crate::say!($what)))
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as serde::Deserialize>::deserialize(deserializer)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub use choice;
