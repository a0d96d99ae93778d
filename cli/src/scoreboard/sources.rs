//! Tables of runs, and what all runs of a table share.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::rows::Rows;
use super::runs::{self, Run};
use crate::args::Training;

/// A table of runs.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) about: About,
    /// The table.
    pub(crate) file: PathBuf,
    /// What all runs share.
    pub(crate) training: Training,
    pub(crate) runs: Vec<Run>,
}

/// A row of a list of tables, a TOML file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// Stable name: `carma`.
    pub(crate) id: String,
    /// Its name for people.
    pub(crate) name: String,
    /// Who published it, and when.
    #[serde(default)]
    pub(crate) from: String,
    /// The table, from the list's folder.
    runs: PathBuf,
    /// Flags of `highwater estimate` that hold for all runs.
    #[serde(default)]
    pub(crate) settings: String,
    /// Folders with the models, from the list's folder.
    #[serde(default)]
    pub(crate) models: Vec<PathBuf>,
    /// What the rows are.
    #[serde(default)]
    rows: Rows,
    /// Columns with figures of systems that Highwater does not have.
    #[serde(default)]
    published: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    source: Vec<About>,
}

/// The tables that a file is or lists.
///
/// # Errors
/// Where a file cannot be read: which, and what is wrong.
pub(crate) fn open(path: &Path, sample: Option<NonZeroUsize>) -> Result<Vec<Source>, String> {
    let text = read(path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    if path.extension().is_none_or(|ending| ending != "toml") {
        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let about = About { name: stem.clone(), id: stem, ..About::default() };
        return Ok(vec![source(about, path.to_owned(), &text, sample)?]);
    }
    let list: List =
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let sources = list.source.into_iter().map(|mut about| {
        for models in &mut about.models {
            *models = folder.join(&models);
        }
        let file = folder.join(&about.runs);
        let text = read(&file)?;
        source(about, file, &text, sample)
    });
    sources.collect()
}

fn source(
    about: About,
    file: PathBuf,
    text: &str,
    sample: Option<NonZeroUsize>,
) -> Result<Source, String> {
    let training = Training::read(&about.settings)
        .map_err(|error| format!("settings of `{}`: {error}", about.id))?;
    let mut runs = runs::read(&file, text, about.rows, &about.published)?;
    if let Some(most) = sample {
        let step = runs.len().div_ceil(most.get());
        runs = runs.into_iter().step_by(step).collect();
    }
    Ok(Source { about, file, training, runs })
}

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: cannot read: {error}", path.display()))
}
