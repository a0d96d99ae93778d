//! [`Setting`]: everything about one setting, and how it is read and written as text.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Config, Named, SETTINGS, Workload};
use crate::bytes::Bytes;
use crate::error::{Error, ErrorKind};

/// One setting: a row of [`SETTINGS`], from which everything that offers, reads or prints it follows.
pub struct Setting {
    /// Name on the command line and in links. JSON and layer specs have `_` for `-`: [`Setting::key`].
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// What it means, below its field: no full stop. Empty where each value has its own explanation.
    pub about: &'static str,
    /// A value that one might write; may be empty.
    pub example: &'static str,
    /// Texts that a form offers where any may be typed.
    pub offers: &'static [&'static str],
    /// What it can be.
    pub kind: Kind,
    /// The value that its flag has on the command line where none follows; `None` where one has to.
    pub bare: Option<&'static str>,
    /// Where forms have it.
    pub group: Group,
    /// The first stage of an estimate that reads it.
    pub stage: Stage,
    /// What it applies to.
    pub scope: Scope,
    /// Codes of the [diagnostics](crate::Diagnostic) of what is assumed where it says nothing.
    pub settles: &'static [&'static str],
    /// Whether every answer states it anyway, so that it is not listed among what is unusual.
    pub stated: bool,
    /// Whether it makes a difference to a workload.
    pub bears_on: fn(Workload) -> bool,
    pub(super) get: fn(&Config) -> Value,
    pub(super) set: fn(&mut Config, &str) -> Result<(), Error>,
    pub(super) copy: fn(&Config, &mut Config),
}

/// What a setting can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these.
    Choice(&'static [Named]),
    /// One of these, or another that is read.
    Suggestion(&'static [Named]),
    /// Id of a [device](crate::device).
    Device,
    /// On or off.
    Flag,
    /// A whole number from 1 on.
    Count,
    /// A size in bytes, or none.
    Size,
    /// A list of names or of patterns of names.
    Names,
    /// Any text.
    Text,
}

impl Kind {
    /// The values that are offered; none where it is no choice.
    pub const fn values(self) -> &'static [Named] {
        match self {
            Self::Choice(values) | Self::Suggestion(values) => values,
            _ => &[],
        }
    }
}

/// Where forms have a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What runs, and what that leaves to choose.
    Workload,
    /// Several GPUs.
    Ranks,
    /// Always in view.
    Main,
    /// What is known of the very card that a run has.
    Card,
    /// What is trained instead of the weights, and how these are kept.
    Method,
    /// The details of adapters.
    Adapters,
    /// How training is written.
    Training,
    /// Which model is written for a configuration: the command line asks, and a form has the configuration's.
    Written,
}

/// A stage of an estimate, in order. What a stage makes depends on the settings that enter it and earlier ones, and is
/// kept for as long as these stay the same: [`Config::up_to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Shapes of a graph.
    Shape,
    /// The operators that PyTorch runs.
    Program,
    /// The events of training.
    Run,
    /// The kernels that run, and the sizes of scratch. Hardware that chooses other kernels has a run of its own.
    Hardware,
    /// What the allocator makes of the events.
    Replay,
    /// How the run ends on a device.
    Verdict,
}

/// What a setting applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Training, of any model.
    Training,
    /// Models that an exporter wrote.
    Export,
    /// The machine that trains.
    Machine,
    /// One card: a figure that says nothing of another.
    Card,
}

/// What a configuration has for a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// On or off.
    Flag(bool),
    /// COUNT: from 1 on.
    Count(NonZeroU64),
    /// SIZE: bytes.
    Size(Option<Bytes>),
    /// Names.
    Names(Vec<String>),
    /// The name of a choice, or any text.
    Text(String),
}

impl Value {
    /// Exactly, as [`Config::set`] reads it: sizes in bytes, names on lines.
    pub fn text(&self) -> String {
        match self {
            Self::Size(size) => size.map_or_else(String::new, |size| size.0.to_string()),
            Self::Names(names) => names.join("\n"),
            value => value.to_string(),
        }
    }
}

impl fmt::Display for Value {
    /// For people: sizes rounded, with a unit; names between commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Size(size) => size.map_or(Ok(()), |size| size.fmt(f)),
            Self::Names(names) => f.write_str(&names.join(", ")),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Setting {
    /// The setting of this name.
    ///
    /// ```
    /// use highwater_base::config::Setting;
    /// let loss = Setting::named("loss").unwrap();
    /// assert_eq!(loss.kind.values()[0].name, "auto");
    /// assert!(Setting::named("colour").is_none());
    /// ```
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// The setting that decides what a diagnostic of this code assumes.
    pub fn that_settles(code: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.settles.contains(&code))
    }

    /// Its name in JSON and in layer specs: `zero_grad`.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// What a configuration has.
    pub fn value(&self, config: &Config) -> Value {
        (self.get)(config)
    }

    /// The same as it stands in a form: sizes that are not set are empty.
    pub fn typed(&self, config: &Config) -> String {
        if self.kind == Kind::Size && !self.is_changed(config) {
            return String::new();
        }
        self.value(config).to_string()
    }

    /// Reads a value into a configuration, as [`Value::text`] or as people write it: names stand on lines
    /// or between commas, and an empty text is no size.
    ///
    /// # Errors
    /// When it is no value of this setting.
    pub fn set(&self, config: &mut Config, text: &str) -> Result<(), Error> {
        (self.set)(config, text.trim()).map_err(|error| error.about(self.name))
    }

    /// Takes the value over from another configuration.
    pub fn copy(&self, from: &Config, to: &mut Config) {
        (self.copy)(from, to);
    }

    /// Whether two configurations have the same value.
    pub fn is_same(&self, one: &Config, other: &Config) -> bool {
        self.value(one) == self.value(other)
    }

    /// Whether the value is another than the default.
    pub fn is_changed(&self, config: &Config) -> bool {
        !self.is_same(config, &Config::default())
    }

    /// A row without texts, for a field of [`Config`]: see `field!`.
    pub(super) const fn of(
        stage: Stage,
        kind: Kind,
        get: fn(&Config) -> Value,
        set: fn(&mut Config, &str) -> Result<(), Error>,
        copy: fn(&Config, &mut Config),
    ) -> Self {
        Self {
            name: "",
            label: "",
            about: "",
            example: "",
            offers: &[],
            kind,
            bare: None,
            group: Group::Training,
            stage,
            scope: Scope::Training,
            settles: &[],
            stated: false,
            bears_on: |_| true,
            get,
            set,
            copy,
        }
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Setting {}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for &'static Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Setting::named(&name).ok_or_else(|| serde::de::Error::custom(unknown(&name)))
    }
}

impl Config {
    /// Settings whose value is not the default.
    pub fn changed(&self) -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| setting.is_changed(self))
    }

    /// The same by name, for people; those that every answer states are left out, and those without effect.
    pub fn unusual(&self) -> Vec<(&'static str, String)> {
        let bears = |setting: &&Setting| (setting.bears_on)(self.workload);
        let listed = self.changed().filter(|setting| !setting.stated).filter(bears);
        listed.map(|setting| (setting.name, setting.value(self).to_string())).collect()
    }

    /// Reads the value of a setting: [`Setting::set`], by name.
    ///
    /// # Errors
    /// When there is no such setting, or it has no such value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), Error> {
        Setting::named(name).ok_or_else(|| unknown(name))?.set(self, text)
    }

    /// What a stage depends on: the settings of later ones are left at their defaults.
    #[must_use]
    pub fn up_to(&self, stage: Stage) -> Self {
        let (mut config, usual) = (self.in_effect(), Self::default());
        let later = SETTINGS.iter().filter(|setting| setting.stage > stage);
        later.for_each(|setting| setting.copy(&usual, &mut config));
        config
    }

    /// Another device, with the figures of the table.
    pub fn choose_device(&mut self, id: &str) {
        if self.device != id {
            id.clone_into(&mut self.device);
            self.forget_the_card();
        }
    }

    /// The same device, with the figures of the table.
    pub fn forget_the_card(&mut self) {
        Self::figures_of_the_card().for_each(|figure| figure.copy(&Self::default(), self));
    }

    /// Whether the configuration has figures of its own for its card.
    pub fn knows_the_card(&self) -> bool {
        Self::figures_of_the_card().any(|figure| figure.is_changed(self))
    }

    fn figures_of_the_card() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| setting.scope == Scope::Card)
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::BadConfig, say!("there is no setting `{name}`", name))
}

/// A type that settings have.
pub trait Typed: Sized {
    /// What the setting can be.
    const KIND: Kind;

    /// What it is now.
    fn value(&self) -> Value;

    /// What a text means.
    ///
    /// # Errors
    /// The text means nothing here.
    fn read(text: &str) -> Result<Self, Error>;
}

/// The kind of a field; its type is inferred.
pub(super) const fn kind_of<T: Typed>(_: fn(&Config) -> &T) -> Kind {
    T::KIND
}

impl Typed for bool {
    const KIND: Kind = Kind::Flag;

    fn value(&self) -> Value {
        Value::Flag(*self)
    }

    fn read(text: &str) -> Result<Self, Error> {
        text.parse().map_err(|_error| {
            Error::new(ErrorKind::BadConfig, say!("`{text}` is not true or false", text))
        })
    }
}

impl Typed for NonZeroU64 {
    const KIND: Kind = Kind::Count;

    fn value(&self) -> Value {
        Value::Count(*self)
    }

    fn read(text: &str) -> Result<Self, Error> {
        text.parse().map_err(|_error| {
            let message = say!("`{text}` is no whole number from 1 on", text);
            Error::new(ErrorKind::BadConfig, message)
        })
    }
}

impl Typed for Bytes {
    const KIND: Kind = Kind::Size;

    fn value(&self) -> Value {
        Value::Size(Some(*self))
    }

    fn read(text: &str) -> Result<Self, Error> {
        if text.is_empty() { Ok(Self::ZERO) } else { text.parse() }
    }
}

impl Typed for Option<Bytes> {
    const KIND: Kind = Kind::Size;

    fn value(&self) -> Value {
        Value::Size(*self)
    }

    fn read(text: &str) -> Result<Self, Error> {
        if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
    }
}

impl Typed for Vec<String> {
    const KIND: Kind = Kind::Names;

    fn value(&self) -> Value {
        Value::Names(self.clone())
    }

    fn read(text: &str) -> Result<Self, Error> {
        let names = text.split([',', '\n']).map(str::trim).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }
}

impl Typed for String {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn read(text: &str) -> Result<Self, Error> {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Checkpoint, Optimizer, Precision};

    #[test]
    fn names_and_texts_of_rows_are_there() {
        let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
        for setting in SETTINGS {
            assert!(!setting.label.is_empty(), "{setting:?}");
            let explained = setting.kind.values().iter().all(|value| !value.about.is_empty());
            assert!(!setting.about.is_empty() || explained, "{setting:?}");
        }
    }

    /// A field without a row would stay behind.
    #[test]
    fn every_field_of_a_configuration_is_a_setting() {
        let json = serde_json::to_value(Config::default()).unwrap_or_default();
        let fields = json.as_object().map(serde_json::Map::len);
        assert_eq!(fields, Some(SETTINGS.len() + 1), "the dimensions are no setting");
    }

    #[test]
    fn what_is_written_reads_back() {
        let config = Config {
            precision: Precision::AmpBf16,
            optimizer: Optimizer::Adam8bit,
            ema: true,
            checkpoint: Checkpoint::Blocks,
            freeze: vec!["layer1".to_owned(), "*.bias".to_owned()],
            device: "t4".to_owned(),
            capacity: Some(Bytes(15_634_661_377)),
            other_processes: Bytes(1),
            alloc_conf: "expandable_segments:True".to_owned(),
            ..Config::default()
        };
        assert_eq!(config.changed().count(), 9);
        let mut again = Config::default();
        for setting in config.changed() {
            let text = setting.value(&config).text();
            assert_eq!(again.set(setting.name, &text).err(), None, "{setting:?}");
        }
        assert_eq!(again, config);
        assert_eq!(Config::default().changed().count(), 0);
        assert!(again.set("colour", "red").is_err());
        assert!(again.set("optimizer", "adamm").is_err());
    }

    #[test]
    fn every_setting_reads_what_stands_in_its_field() {
        let cases = [
            ("device", "t4"),
            ("capacity", "14.56 GiB"),
            ("context", "150.00 MiB"),
            ("other-processes", "2.50 GiB"),
            ("allowed", "512.00 MiB"),
            ("alloc-conf", "max_split_size_mb:512"),
            ("pytorch", "2.8"),
            ("attention", "eager"),
            ("checkpoint", "3"),
            ("weight-decay", "true"),
            ("freeze", "encoder, *.bias"),
        ];
        for (name, typed) in cases {
            let setting = Setting::named(name).unwrap_or(&SETTINGS[0]);
            let mut config = Config::default();
            assert_eq!(setting.set(&mut config, typed).err(), None, "{name}");
            assert_eq!(setting.typed(&config), typed, "{name}");
            assert!(setting.is_changed(&config), "{name}");
            let mut copy = Config::default();
            setting.copy(&config, &mut copy);
            assert!(setting.is_same(&config, &copy), "{name}");
        }
        for setting in SETTINGS {
            let mut config = Config::default();
            let typed = setting.typed(&config);
            assert_eq!(setting.set(&mut config, &typed).err(), None, "{setting:?}");
            assert_eq!(config, Config::default(), "{setting:?}");
            for value in setting.kind.values() {
                assert_eq!(setting.set(&mut config, value.name).err(), None, "{setting:?}");
                assert_eq!(setting.value(&config).text(), value.name);
            }
        }
        assert!(Config::default().set("capacity", "24GB").is_err());
        let mut config = Config::default();
        assert_eq!(config.set("freeze", " encoder, *.bias ,,").err(), None);
        assert_eq!(config.freeze, ["encoder", "*.bias"]);
    }

    #[test]
    fn another_device_has_the_tables_figures() {
        let mut config = Config {
            device: "t4".to_owned(),
            capacity: Some(Bytes::mib(15_000)),
            other_processes: Bytes::mib(850),
            alloc_conf: "max_split_size_mb:512".to_owned(),
            ..Config::default()
        };
        config.choose_device("t4");
        assert!(config.knows_the_card());
        config.choose_device("l4");
        assert!(!config.knows_the_card());
        assert_eq!(config.alloc_conf, "max_split_size_mb:512");
    }
}
