//! Models by name: published configurations, and the settings that people train them with.
//!
//! `catalogue/models.txt` has all entries. An entry becomes a `config.json`, which [`hf_config`] reads like
//! any other. A name is an id of the catalogue (`llama-3.1-8b`) or of the Hub (`meta-llama/Llama-3.1-8B`).

use crate::order::InOrder as _;
use std::collections::BTreeMap;

use std::num::NonZeroU64;

use super::hf_config;
use super::{Fidelity, Opened, Recognised};
use crate::apart;
use crate::config::{Checkpoint, Config, Library, Optimizer, Precision};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::near::distance;
use crate::sentence::Sentence;

/// What a model of the catalogue is recognised as.
pub const FORMAT: &str = "published configuration";

/// COUNT: parameters from which a model is large.
const LARGE: u64 = 3_000_000_000;

/// COUNT: parameters from which a model that denoises is trained with checkpointing.
const LARGE_DENOISER: u64 = 2_000_000_000;

/// COUNT: tokens of a sample of a model that writes text.
const TOKENS: u64 = 2048;

/// COUNT: images of a batch of torchvision's script.
const IMAGES: u64 = 32;

/// Words that variants have in their names whose configuration is that of the plain model.
const VARIANTS: [&str; 4] = ["instruct", "chat", "it", "hf"];

apart::text!(text, "models");

/// A published model.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name to write: `llama-3.1-8b`.
    pub id: &'static str,
    /// The name to show: `Llama 3.1 8B`.
    pub name: &'static str,
    /// COUNT: parameters, those that are shared once.
    pub parameters: u64,
    /// Names on the Hub, separated by `, `.
    hub: &'static str,
    model_type: &'static str,
    class: &'static str,
    /// Members of the configuration, without the braces.
    members: &'static str,
}

impl Entry {
    /// Names on the Hub; a network of torchvision has none there.
    pub fn hub(&self) -> impl Iterator<Item = &'static str> {
        self.hub.split(", ").filter(|name| !name.is_empty())
    }

    /// Whether the model is one of torchvision's.
    fn is_of_torchvision(&self) -> bool {
        self.model_type.starts_with("torchvision.")
    }

    /// The family: `model_type` of the configuration.
    pub const fn family(&self) -> &'static str {
        self.model_type
    }

    /// The text of a `config.json`.
    pub fn configuration(&self) -> String {
        let Self { model_type, class, members, .. } = self;
        let kind = if self.is_of_diffusers() {
            format!("\"_class_name\": \"{class}\"")
        } else {
            format!("\"model_type\": \"{model_type}\", \"architectures\": [\"{class}\"]")
        };
        format!("{{\n  {kind},\n{}\n}}\n", members.trim_end())
    }

    /// How people train the model: in bf16 where it is large or its weights are published in half precision, else with
    /// autocast; a model that writes text on one sample of [`TOKENS`], one that denoises on one sample; a large model
    /// with checkpointing. torchvision's networks have the defaults of its own script,
    /// `references/classification/train.py`.
    pub fn settings(&self) -> Config {
        if self.is_of_torchvision() {
            return Config {
                optimizer: Optimizer::SgdMomentum,
                weight_decay: true,
                dims: BTreeMap::from([("batch".to_owned(), IMAGES)]),
                ..Config::default()
            };
        }
        let is_large = self.parameters >= LARGE;
        let denoises = self.is_of_diffusers();
        let is_half = ["bfloat16", "float16"].iter().any(|name| self.word("dtype") == Some(name));
        let mut config = Config {
            precision: if is_large || is_half { Precision::Bf16 } else { Precision::AmpBf16 },
            checkpoint: if is_large || denoises && self.parameters >= LARGE_DENOISER {
                Checkpoint::Blocks
            } else {
                Checkpoint::None
            },
            ..Config::default()
        };
        if denoises {
            config.dims.insert("batch".to_owned(), 1);
        }
        if self.class.ends_with("ForCausalLM") || self.class.ends_with("LMHeadModel") {
            let longest = ["max_position_embeddings", "n_positions"]
                .iter()
                .find_map(|key| self.word(key)?.parse().ok());
            let tokens = longest.map_or(TOKENS, |longest: NonZeroU64| TOKENS.min(longest.get()));
            config.dims.extend([("batch".to_owned(), 1), ("seq".to_owned(), tokens)]);
        }
        config
    }

    /// The model: its program, and [`Entry::settings`] as its defaults.
    ///
    /// # Errors
    /// When its family does not read the configuration, which a test excludes.
    pub fn open(&self) -> Result<Opened, Error> {
        let configuration = self.configuration();
        let (graph, stated) = hf_config::read(&configuration, Library::default())?;
        Ok(Opened {
            graph,
            recognised: Recognised::new(FORMAT, Fidelity::Template),
            defaults: Config { loss: stated.loss, freeze: stated.freeze, ..self.settings() },
            spec: None,
            configuration: Some(configuration),
        })
    }

    /// The type of the published weights, where the configuration states it: `bfloat16`.
    pub fn dtype(&self) -> Option<&'static str> {
        self.word("dtype").or_else(|| self.word("torch_dtype"))
    }

    /// Whether the family is a class of diffusers, whose configurations state that alone.
    fn is_of_diffusers(&self) -> bool {
        self.model_type == self.class
    }

    /// What the configuration states under a key: a number, or a text without its quotes.
    fn word(&self, key: &str) -> Option<&'static str> {
        let mut parts = self.members.split('"');
        parts.find(|part| *part == key)?;
        let value = parts.next()?.strip_prefix(": ")?;
        // A text follows its opening quote.
        if value.is_empty() { parts.next() } else { value.split([',', '\n']).next() }
    }

    /// Whether a plain name is one of this model's.
    fn is_called(&self, plain: &str, plainly: impl Fn(&str) -> String) -> bool {
        let tail = |name: &'static str| name.rsplit('/').next().unwrap_or(name);
        let hub = self.hub().flat_map(|name| [name, tail(name)]);
        [self.id, self.name].into_iter().chain(hub).any(|name| plainly(name) == plain)
    }
}

/// All entries, in the order of the file; none where the file cannot be had.
pub fn entries() -> Vec<Entry> {
    text().map(parse).unwrap_or_default()
}

/// The model of that name, or at that address of the Hub.
///
/// Capitals and the kind of separator do not count, and a variant for instructions or chats is the plain model where it
/// has no entry of its own. A name that lacks only its version is that of the newest one.
pub fn find(name: &str) -> Option<Entry> {
    let entries = entries();
    let name = of_address(name);
    let newest = || {
        let plain = plain(name);
        let is_version = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
        let of_versions =
            |entry: &&Entry| entry.id.strip_prefix(&plain)?.strip_prefix("-v").map(is_version);
        entries.iter().rev().find(|entry| of_versions(entry) == Some(true)).copied()
    };
    let called = |plainly: fn(&str) -> String| {
        let plain = plainly(name);
        entries.iter().find(|entry| entry.is_called(&plain, plainly)).copied()
    };
    called(plain)
        .or_else(|| called(without_variant))
        .or_else(newest)
        .filter(|_| !plain(name).is_empty())
}

/// The model of a name without separators, as functions of Python have it: `llama3_2_1b`. A variant for instructions is
/// the plain model.
pub fn find_squeezed(name: &str) -> Option<Entry> {
    let squeezed = |name: &str| -> String {
        without_variant(name).chars().filter(char::is_ascii_alphanumeric).collect()
    };
    let wanted = squeezed(name);
    entries().into_iter().find(|entry| squeezed(entry.id) == wanted && !wanted.is_empty())
}

/// The name in an address of the Hub, `https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main`; any other text as it is.
pub fn of_address(text: &str) -> &str {
    let text = text.trim();
    let bare =
        text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
    let path = ["huggingface.co/", "www.huggingface.co/", "hf.co/"]
        .iter()
        .find_map(|host| bare.strip_prefix(host));
    let Some(path) = path else { return text };
    let end = path.match_indices(['/', '?', '#']).nth(1).map_or(path.len(), |(at, _)| at);
    path.get(..end).unwrap_or(path).trim_end_matches(['/', '?', '#'])
}

/// The models with all words of a text in their names, in the order of the file: all for an empty text.
pub fn search(text: &str) -> Vec<Entry> {
    let wanted = words(text);
    let mut found = entries();
    found.retain(|entry| {
        let Entry { id, name, hub, .. } = entry;
        let known = words(&format!("{id} {name} {hub}"));
        wanted.iter().all(|word| known.iter().any(|known| known.starts_with(word.as_str())))
    });
    found
}

/// The names that are nearest to that name, by edits of its words and of the whole: ids, separated by `, `.
pub fn nearest(name: &str) -> String {
    /// COUNT: names.
    const COUNT: usize = 5;
    /// COUNT: characters of a name that are compared.
    const LONGEST: usize = 64;
    let name: String = plain(name).chars().take(LONGEST).collect();
    let tail = name.rsplit('/').next().unwrap_or_default();
    let wanted = words(tail);
    let mut ranked: Vec<_> = entries()
        .into_iter()
        .map(|entry| (4 * edits(&wanted, &entry) + distance(tail, entry.id), entry))
        .collect();
    ranked.order_by_key(|(rank, _)| *rank);
    let ids: Vec<&str> = ranked.iter().take(COUNT).map(|(_, entry)| entry.id).collect();
    ids.join(", ")
}

/// How a text begins that is the name of a model: `highwater model llama-3.1-8b`.
pub const MARK: &str = "highwater model ";

/// The model that a text names; `None` for any other text.
///
/// # Errors
/// When there is no model of that name, with the nearest names.
pub(super) fn read(text: &str) -> Option<Result<Opened, Error>> {
    let name = text.strip_prefix(MARK)?.trim();
    Some(match find(name) {
        Some(entry) => entry.open().map(|mut opened| {
            opened.graph.diagnostics.extend(version(name, &entry));
            opened
        }),
        None => Err(Error::new(ErrorKind::WrongFormat, unknown(name))),
    })
}

/// That a name without a version is that of the newest one.
fn version(name: &str, entry: &Entry) -> Option<Diagnostic> {
    let (name, id) = (of_address(name), entry.id);
    let is_whole = entry.is_called(&plain(name), plain)
        || entry.is_called(&without_variant(name), without_variant);
    let message = || say!("`{name}` has several versions; {id} is the newest", name, id);
    (!is_whole).then(|| Diagnostic::new(Severity::Info, "newest-version", message()))
}

/// That there is no such name, and which there are.
fn unknown(name: &str) -> Sentence {
    let nearest = nearest(name);
    say!(
        "there is no model `{name}` in the catalogue; the nearest names are {nearest}. Or open the model's \
         `config.json`",
        name,
        nearest
    )
}

/// All names as compact text, for a field that finds as you type: a line `id|name|names on the Hub|parameters` for
/// each model.
pub fn names() -> String {
    let line = |entry: Entry| {
        let Entry { id, name, parameters, .. } = entry;
        let hub = if entry.is_of_torchvision() { "torchvision" } else { entry.hub };
        format!("{id}|{name}|{hub}|{parameters}\n")
    };
    entries().into_iter().map(line).collect()
}

/// A name without capitals, and with one kind of separator.
fn plain(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace([' ', '_'], "-")
}

/// The same without the words of [`VARIANTS`].
fn without_variant(name: &str) -> String {
    let plain = plain(name);
    let kept = plain.split('-').filter(|word| !VARIANTS.contains(word));
    kept.collect::<Vec<_>>().join("-")
}

/// The words of a name: letters and digits, split where one follows the other, but `8b` is one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in plain(text).chars() {
        if c.is_alphanumeric() {
            let is_new = !last.is_alphanumeric() || last.is_alphabetic() && c.is_numeric();
            match words.last_mut().filter(|_| !is_new) {
                Some(word) => word.push(c),
                None => words.push(c.to_string()),
            }
        }
        last = c;
    }
    words
}

/// COUNT: edits that make each of these words one of an entry's, or the beginning of one; three at most for a word.
fn edits(wanted: &[String], entry: &Entry) -> usize {
    /// COUNT: edits that make any word another one.
    const OTHER: usize = 3;
    // Names of owners would be near to many.
    let known = words(&format!("{} {}", entry.id, entry.name));
    let nearest = |word: &String| {
        let cost = |known: &String| {
            let start: String = known.chars().take(word.chars().count()).collect();
            distance(word, known).min(distance(word, &start))
        };
        known.iter().map(cost).min().unwrap_or(OTHER).min(OTHER)
    };
    wanted.iter().map(nearest).sum()
}

/// Reads the file; lines that are none of an entry's are skipped.
fn parse(text: &'static str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut model_type, mut class) = ("", "");
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let members = after.split_inclusive('\n').take_while(|line| line.starts_with(' '));
        let end = members.map(str::len).sum();
        let (members, after) = after.split_at_checked(end).unwrap_or((after, ""));
        rest = after;
        if let Some((family, its_class)) = line
            .strip_prefix("family ")
            .map(|family| family.split_once(' ').unwrap_or((family, family)))
        {
            (model_type, class) = (family, its_class);
            continue;
        }
        let mut cells = line.split(" | ");
        let (Some(id), Some(count), Some(hub), Some(name)) =
            (cells.next(), cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        let hub = if hub == "-" { "" } else { hub };
        let parameters = count.parse().unwrap_or(0);
        let own = Entry { id, name, parameters, hub, model_type, class, members };
        let like = count.strip_prefix("= ");
        let like = like.and_then(|like| entries.iter().find(|entry| entry.id == like));
        entries.push(like.map_or(own, |like| Entry { id, name, hub, ..*like }));
    }
    entries
}
