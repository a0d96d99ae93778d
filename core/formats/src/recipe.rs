//! Training recipes: a script, YAML or JSON that states how a model is trained, read into settings.
//!
//! [`open`] recognises a recipe by its content. Each format has a table of keys, and each tool a table of defaults by
//! release. A key is used, or has no effect on memory, or is reported as not simulated; none is dropped. A script is
//! read as text and never executed.

mod arguments;
mod axolotl;
mod draft;
mod launch;
mod launchers;
mod llamafactory;
mod python;
mod script;
mod settle;
mod sharing;
mod torchtitan;
mod torchtune;
mod value;
mod versions;
mod yaml;

use serde::{Deserialize, Serialize};

use self::draft::{Draft, Slot};
use self::settle::{Settled, Tool};
use self::versions::{Release, Versions};
use crate::config::{Config, PyTorch};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::formats::Opened;
use crate::formats::catalogue::{self, Entry};
use crate::source::Source;

/// SIZE: of the texts that people write.
const TEXT_MAX: usize = 512 << 10;

/// SIZE: from the start of an input, by which one that is no text is refused.
const HEAD: usize = 512;

/// How a model is trained, as a text states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The tool that reads it, and the release whose defaults hold: `TRL 1.16`.
    pub tool: String,
    /// The model, as the recipe names it.
    pub model: Option<String>,
    /// Sizes of dimensions, and settings in the order of the table.
    pub choices: Vec<Choice>,
    /// Keys without an effect on memory, each once.
    pub idle: Vec<String>,
    /// What was assumed, and what is not simulated.
    pub notes: Vec<Diagnostic>,
    /// The settings.
    pub config: Config,
}

/// A setting or a dimension, its value, and where the value is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Its name on the command line; `batch` or `seq` for a dimension.
    pub setting: String,
    /// The value.
    pub value: String,
    /// Where it is from.
    pub from: Origin,
}

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A key of the recipe.
    Key(String),
    /// A default of this tool.
    Default(String),
}

/// Reads an input as a recipe; `None` if it is none. `pytorch` is the release that the user states.
///
/// # Errors
/// When the source cannot be read, and as [`read`].
pub fn open(source: &mut dyn Source, pytorch: Option<PyTorch>) -> Result<Option<Recipe>, Error> {
    let Some(size) = usize::try_from(source.len()).ok().filter(|&size| size <= TEXT_MAX) else {
        return Ok(None);
    };
    let mut head = vec![0; size.min(HEAD)];
    source.read_at(0, &mut head)?;
    if head.contains(&0) {
        return Ok(None);
    }
    let mut bytes = vec![0; size];
    source.read_at(0, &mut bytes)?;
    let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
    read(&text, pytorch)
}

/// Reads a text as a recipe; `None` if it is none.
///
/// ```
/// use highwater_formats::recipe;
/// let text = "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 2\nsequence_len: 1024\n";
/// let recipe = recipe::read(text, None).unwrap().unwrap();
/// assert_eq!(recipe.tool, "axolotl 0.18");
/// assert_eq!(recipe.config.dims["seq"], 1024);
/// ```
///
/// # Errors
/// When the text breaks off, or describes a run that is not simulated, such as training on rewards.
pub fn read(text: &str, pytorch: Option<PyTorch>) -> Result<Option<Recipe>, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let notebook = notebook(text);
    let text = notebook.as_deref().unwrap_or(text);
    if let Some(tool) = yaml::unread(text) {
        let message = say!(
            "this is a recipe of {tool}, which is not read; give the model and its settings instead",
            tool
        );
        return Err(Error::new(ErrorKind::WrongFormat, message));
    }
    // Marks come first: most texts that are opened are no recipe.
    let launches = launch::launches(text);
    let Some(kind) = Kind::of(text, &launches) else { return Ok(None) };
    let torch = pytorch.and_then(|release| release.to_string().parse::<Release>().ok());
    let mut draft = Draft { versions: Versions::of(text).with_torch(torch), ..Draft::default() };
    // What the recipe states itself counts more than how a comment launches it.
    launch::state(&mut draft, &launches)?;
    let tool = match kind {
        Kind::Shell => launch::read(&mut draft, &launches)?,
        Kind::Script => script::read(&mut draft, &python::calls(text))?,
        Kind::Titan => {
            torchtitan::read(&mut draft, text)?;
            Some(Tool::Torchtitan)
        }
        Kind::Keys(tool) => yaml::read(&mut draft, tool, text)?,
    };
    Ok(tool.map(|tool| finish(draft, tool)))
}

/// What a recipe is written in.
#[derive(Clone, Copy)]
enum Kind {
    /// A shell's commands.
    Shell,
    /// Python.
    Script,
    /// torchtitan's TOML.
    Titan,
    /// YAML or JSON with the keys of a tool.
    Keys(Tool),
}

impl Kind {
    fn of(text: &str, launches: &[launch::Launch]) -> Option<Self> {
        if launch::is_shell(text, launches) {
            Some(Self::Shell)
        } else if script::is_script(text) {
            Some(Self::Script)
        } else if torchtitan::is_titan(text) {
            Some(Self::Titan)
        } else {
            yaml::tool(text).map(Self::Keys)
        }
    }
}

/// The code of a Jupyter notebook.
fn notebook(text: &str) -> Option<String> {
    if !text.starts_with('{') || !text.contains("\"cells\"") {
        return None;
    }
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let cells = json.get("cells")?.as_array()?;
    let is_code = |cell: &&serde_json::Value| {
        cell.get("cell_type").and_then(serde_json::Value::as_str) == Some("code")
    };
    let mut code = String::new();
    for cell in cells.iter().filter(is_code) {
        match cell.get("source") {
            Some(serde_json::Value::String(source)) => code.push_str(source),
            Some(serde_json::Value::Array(lines)) => {
                code.extend(lines.iter().filter_map(serde_json::Value::as_str));
            }
            _ => {}
        }
        code.push('\n');
    }
    Some(code)
}

fn finish(mut draft: Draft, tool: Tool) -> Recipe {
    let model = draft.facts.remove(&Slot::Model).map(|fact| fact.value);
    let entry = model.as_deref().and_then(entry);
    let Settled { mut config, choices, mut notes } = settle::settle(&draft, tool, entry.as_ref());
    let library = tool.library();
    let release = draft.versions.release(library, library);
    notes.extend(draft.notes);
    let mut seen = std::collections::BTreeSet::new();
    draft.idle.retain(|key| seen.insert(key.clone()));
    if let Some(entry) = &entry {
        for (name, size) in missing(&config, entry) {
            let message =
                say!("the recipe does not state `{name}`; {size} is assumed", name = &name, size);
            notes.push(Diagnostic::new(Severity::Info, "recipe-size", message));
            config.dims.insert(name, size);
        }
    }
    let tool = format!("{} {release}", library.name());
    Recipe { tool, model, choices, idle: draft.idle, notes, config }
}

/// Sizes of dimensions that the recipe leaves open, as people train the model.
fn missing(config: &Config, entry: &Entry) -> Vec<(String, u64)> {
    let usual = entry.settings().dims.into_iter();
    usual.filter(|(name, _)| !config.dims.contains_key(name)).collect()
}

/// The entry of the catalogue for a name in a recipe: one on the Hub, perhaps of another owner and with the suffixes
/// of quantised copies, or the function of torchtune.
fn entry(name: &str) -> Option<Entry> {
    const COPIES: [&str; 4] = ["-unsloth-bnb-4bit", "-bnb-4bit", "-unsloth", "-bf16"];
    let name = name.trim();
    let lower = name.to_ascii_lowercase();
    let kept = COPIES.iter().find_map(|copy| lower.strip_suffix(copy)).map_or(name.len(), str::len);
    let name = name.get(..kept).unwrap_or(name);
    let tail = name.rsplit('/').next().unwrap_or(name);
    catalogue::find(name)
        .or_else(|| catalogue::find(tail))
        .or_else(|| catalogue::find_squeezed(tail))
}

impl Recipe {
    /// What answers call its model.
    pub fn called(&self) -> Option<&str> {
        let name = self.model.as_deref()?.trim_end_matches('/');
        name.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The model that it names, with its settings as defaults.
    ///
    /// # Errors
    /// When it names none, or one that is not in the catalogue.
    pub fn opened(&self) -> Result<Opened, Error> {
        let Some(name) = &self.model else {
            let message = say!(
                "this recipe of {tool} names no model; open the model's `config.json`, or on the command line give it \
                 with `--model`, to estimate it with these settings",
                tool = &self.tool
            );
            return Err(Error::new(ErrorKind::BadConfig, message));
        };
        let Some(entry) = entry(name) else {
            let message = say!(
                "the recipe's model `{name}` is not in the catalogue; the nearest names are {nearest}. Open the model's \
                 `config.json`, or on the command line give it with `--model`, to estimate it with these settings",
                name,
                nearest = catalogue::nearest(name)
            );
            return Err(Error::new(ErrorKind::BadConfig, message));
        };
        let mut opened = entry.open()?;
        if !entry.hub().any(|known| known == name) && name.contains('/') {
            let message =
                say!("`{name}` is assumed to have the sizes of {id}", name, id = entry.id);
            let note = Diagnostic::new(Severity::Info, "recipe-model", message);
            opened.graph.diagnostics.push(note);
        }
        Ok(self.over(opened))
    }

    /// The settings of the recipe for a model with these defaults, which keep what a recipe does not decide.
    pub fn defaults(&self, of_model: Config) -> Config {
        let Config { loss, freeze, dims, .. } = of_model;
        let mut config = Config { freeze, loss, ..self.config.clone() };
        for (name, size) in dims {
            config.dims.entry(name).or_insert(size);
        }
        config
    }

    /// A model with the settings of the recipe as defaults, and with its notes.
    #[must_use]
    pub fn over(&self, mut opened: Opened) -> Opened {
        opened.defaults = self.defaults(opened.defaults);
        opened.graph.diagnostics.extend(self.notes.iter().cloned());
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_called_by_the_last_part_of_its_name() {
        for (model, called) in [
            ("meta-llama/Llama-3.2-1B", Some("Llama-3.2-1B")),
            ("gpt2", Some("gpt2")),
            ("./models/mine/", Some("mine")),
            ("/", None),
        ] {
            let text = format!("base_model: {model}\nmicro_batch_size: 2\n");
            let recipe = read(&text, None).expect("it is whole").expect("it is a recipe");
            assert_eq!(recipe.called(), called, "{model}");
        }
    }

    #[test]
    fn texts_without_marks_are_no_recipes() {
        for text in
            ["", "layers:\n  - linear: 8\n", "{\"model_type\": \"llama\"}", "trl 0.12\nloss: 3"]
        {
            assert_eq!(read(text, None).expect("nothing is refused"), None, "{text}");
        }
    }
}
