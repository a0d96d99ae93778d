//! [`Job`]: what a scheduler asks, and how it is read.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use highwater_core::config::{Kind, SETTINGS, Setting, Workload};
use highwater_core::report::ITERATIONS;
use highwater_core::{Config, Error, Model, device};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::Failure;
use super::schema::Settings;
use super::words;

/// One training run, and what is asked about it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("anyOf" = [
    { "required": ["model"] }, { "required": ["recipe"] }, { "required": ["words"] }
]))]
pub(crate) struct Job {
    /// Anything; the answer repeats it.
    pub(crate) id: Value,
    /// Name of a published model, such as `llama-3.1-8b`, or a path where files may be read; or the object of a
    /// `config.json` or of a layer spec. A recipe may name the model instead.
    pub(crate) model: Option<Source>,
    /// Training recipe: an object of arguments, or the text of a script or a YAML file.
    pub(crate) recipe: Option<Source>,
    /// Batch size, whatever name the model has for it.
    pub(crate) batch: Option<NonZeroU64>,
    /// Sequence length, whatever name the model has for it.
    pub(crate) seq: Option<NonZeroU64>,
    /// Sizes of open dimensions, by name.
    #[schemars(with = "BTreeMap<String, NonZeroU64>")]
    pub(crate) dims: BTreeMap<String, u64>,
    /// Settings, by the keys that `config` has in answers. The `config` of an answer may be given here.
    #[schemars(with = "Settings")]
    pub(crate) settings: Map<String, Value>,
    /// Model, sizes and settings in one text, as people write them into a comment: `model=resnet50 batch=32`. They
    /// are replaced by what they state when the job is read.
    pub(crate) words: Option<String>,
    /// GPUs to answer for; without any, the one of the settings. The first is the GPU of the settings where these have
    /// none.
    #[schemars(length(max = DEVICES_MAX))]
    pub(crate) devices: Vec<String>,
    /// Whether the largest batch of each GPU is searched, which takes several simulations.
    pub(crate) largest: bool,
    /// Whether step time and utilisation are estimated.
    pub(crate) time: bool,
    /// Whether the slices of each GPU are searched on which the run fits, by MIG.
    pub(crate) slices: bool,
}

/// A text, or an object that a file could have.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Source {
    /// A name, a path or the text of a file.
    Text(String),
    /// The contents of a JSON file.
    Object(Map<String, Value>),
}

/// The keys of a job.
const KEYS: [&str; 12] = [
    "id",
    "model",
    "recipe",
    "batch",
    "seq",
    "dims",
    "settings",
    words::KEY,
    "devices",
    "largest",
    "time",
    "slices",
];

/// COUNT: GPUs that a job may name.
const DEVICES_MAX: usize = 64;

impl Source {
    /// As it would stand in a file.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            // Fails only for maps whose keys are no texts.
            Self::Object(object) => serde_json::to_string(object).unwrap_or_default(),
        }
    }
}

impl Job {
    /// Reads a job, and its id also where the rest is refused.
    pub(crate) fn read(text: &[u8]) -> (Value, Result<Self, Failure>) {
        let value: Value = match serde_json::from_slice(text) {
            Ok(value) => value,
            Err(error) => {
                let message = format!("this is no JSON: {error}. Write one object in one line");
                return (Value::Null, Err(Failure::new("bad-json", message)));
            }
        };
        let Value::Object(object) = value else {
            let message =
                "a job is a JSON object, such as {\"model\": \"resnet50\", \"batch\": 32}";
            return (Value::Null, Err(Failure::new("bad-job", message)));
        };
        let id = object.get("id").cloned().unwrap_or_default();
        (id, Self::of(object))
    }

    /// Reads a job that is JSON already.
    pub(super) fn of(mut object: Map<String, Value>) -> Result<Self, Failure> {
        words::expand(&mut object)?;
        if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(unknown("a job", key, &KEYS).at(key));
        }
        let job: Self =
            serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| {
                let path = error.path().to_string();
                Failure::new("bad-job", format!("`{path}`: {}", error.inner())).at(&path)
            })?;
        if job.model.is_none() && job.recipe.is_none() {
            let message = "the job has no model; give `model` a name such as \"resnet50\", or give a `recipe` that \
                           names its model";
            return Err(Failure::new("bad-job", message).at("model"));
        }
        if job.devices.len() > DEVICES_MAX {
            let message = format!(
                "`devices` has {} GPUs; at most {DEVICES_MAX} can be asked for in one job",
                job.devices.len()
            );
            return Err(Failure::new("bad-job", message).at("devices"));
        }
        Ok(job)
    }

    /// The configuration: what the job states, else what the model suggests.
    pub(crate) fn config(&self, model: &Model) -> Result<Config, Failure> {
        let mut config = model.defaults().clone();
        // Figures such as the capacity are about this GPU, so it comes before the settings.
        if let (Some(first), None) = (self.devices.first(), self.settings.get("device")) {
            config.choose_device(device_named(first)?.id);
        }
        let named = |config: &Config, dims: &BTreeMap<String, u64>, key: &str| {
            model.with_dims(config, dims).map_err(|error| Failure::of(&error).at(key))
        };
        for (key, value) in &self.settings {
            match key.as_str() {
                "dims" => config = named(&config, &sizes(value)?, "settings.dims")?,
                // How many ran: an answer has it, and it is no setting.
                "iterations" => {}
                _ => set(&mut config, key, value)?,
            }
        }
        let run = if config.workload == Workload::Generation { 1 } else { ITERATIONS };
        if let Some(other) = self.settings.get("iterations").filter(|value| **value != json!(run)) {
            let message = format!("`iterations` is {other}, and {run} are simulated; leave it out");
            return Err(Failure::new("bad-config", message).at("settings.iterations"));
        }
        let mut dims = self.dims.clone();
        for (name, size) in [("batch", self.batch), ("seq", self.seq)] {
            let Some(size) = size else { continue };
            if let Some(other) = self.dims.get(name).filter(|other| **other != size.get()) {
                let message = format!(
                    "two sizes of `{name}` are given: {size}, and {other} in `dims`; leave one out"
                );
                return Err(Failure::new("bad-job", message).at(name));
            }
            dims.insert(name.to_owned(), size.get());
        }
        config = named(&config, &dims, "dims")?;
        Ok(config)
    }

    /// The GPUs that it asks for; those of a configuration if it names none.
    pub(crate) fn on(&self, config: &Config) -> Result<Vec<&'static device::Device>, Failure> {
        if self.devices.is_empty() {
            return Ok(vec![device::find(&config.device).map_err(|error| Failure::of(&error))?]);
        }
        let mut devices: Vec<&'static device::Device> = Vec::new();
        for name in &self.devices {
            let device = device_named(name)?;
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        Ok(devices)
    }
}

fn device_named(name: &str) -> Result<&'static device::Device, Failure> {
    device::typed(name).map_err(|error| Failure::of(&error).at("devices"))
}

/// Sets what an answer's `config` has under a key.
fn set(config: &mut Config, key: &str, value: &Value) -> Result<(), Failure> {
    let place = format!("settings.{key}");
    let Some(setting) = Setting::named(&key.replace('_', "-")) else {
        let keys: Vec<String> = SETTINGS.iter().map(Setting::key).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        return Err(unknown("`settings`", key, &keys).at(&place));
    };
    let text = text(setting, value).ok_or_else(|| {
        let can = can_be(setting);
        Failure::new("bad-config", format!("`{key}` must be {can}, and is {value}")).at(&place)
    })?;
    let text = match setting.kind {
        Kind::Device => device::typed(&text).map(|device| device.id.to_owned()),
        _ => Ok(text),
    };
    let result = text.and_then(|text| setting.set(config, &text));
    result.map_err(|error: Error| {
        let Failure { kind, message, .. } = Failure::of(&error);
        Failure { kind, message: format!("`{key}`: {message}"), at: Some(place) }
    })
}

/// A value as its setting reads it; `None` where it is of another type.
fn text(setting: &Setting, value: &Value) -> Option<String> {
    match (setting.kind, value) {
        (Kind::Flag, Value::Bool(flag)) => Some(flag.to_string()),
        (Kind::Count | Kind::Size, Value::Number(number)) if number.is_u64() => {
            Some(number.to_string())
        }
        (Kind::Size, Value::Null) => Some(String::new()),
        (Kind::Names, Value::Array(names)) => {
            let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
            Some(names?.join("\n"))
        }
        (Kind::Flag | Kind::Count, _) => None,
        (_, Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// What a setting can be, in words.
const fn can_be(setting: &Setting) -> &'static str {
    match setting.kind {
        Kind::Flag => "true or false",
        Kind::Count => "a whole number from 1 on",
        Kind::Size => "a number of bytes, a text such as \"16 GiB\", or null",
        Kind::Names => "a list of names",
        _ => "a text",
    }
}

fn sizes(value: &Value) -> Result<BTreeMap<String, u64>, Failure> {
    BTreeMap::deserialize(value).map_err(|error| {
        let message = format!("`dims` must have a size for each name: {error}");
        Failure::new("bad-config", message).at("settings.dims")
    })
}

/// That a key is unknown, with the nearest one.
fn unknown(of: &str, key: &str, keys: &[&str]) -> Failure {
    let nearest = keys.iter().min_by_key(|known| strsim::damerau_levenshtein(known, key));
    let nearest = nearest.copied().unwrap_or_default();
    let message = format!("{of} has no key `{key}`; did you mean `{nearest}`?");
    Failure::new("unknown-key", message)
}
