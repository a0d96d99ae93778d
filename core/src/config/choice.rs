//! [`Choice`] and [`choice!`]: an enum whose variants have a name, a label and an explanation.

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

/// Declares an enum of named variants, with `ALL`, `name`, `label`, `about`, `Display`, `FromStr` and serde
/// by name.
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
                Self::ALL.iter().copied().find(|choice| choice.name() == name).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|choice| choice.name()).collect();
                    let known = known.join(", ");
                    let message = say!("unknown {what} `{name}`; choose one of {known}", what = say!($what), name, known);
                    $crate::error::Error::new($crate::error::ErrorKind::BadConfig, message)
                })
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use choice;
