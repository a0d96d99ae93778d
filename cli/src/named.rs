//! Models by name.

use std::path::Path;

use highwater_core::formats::catalogue::{self, Entry};
use highwater_core::{Error, ErrorKind, bytes, say};

use crate::style::HEAD;
use crate::table::{Align, Cell, Table};

/// Ends of the names of files, so that a missing file is not taken for a model's name.
const FILES: [&str; 16] = [
    "onnx",
    "json",
    "yaml",
    "yml",
    "toml",
    "txt",
    "pt2",
    "safetensors",
    "keras",
    "h5",
    "pt",
    "pth",
    "bin",
    "ckpt",
    "gz",
    "pickle",
];

/// The model of that name; none where a file is meant.
///
/// # Errors
/// When there is neither a file nor a model of that name.
pub(crate) fn find(path: &Path) -> Result<Option<Entry>, Error> {
    let Some(name) = path.to_str().filter(|_| std::fs::symlink_metadata(path).is_err()) else {
        return Ok(None);
    };
    if let Some(entry) = catalogue::find(name) {
        return Ok(Some(entry));
    }
    let ends_as_file = path.extension().is_some_and(|end| FILES.iter().any(|file| *file == end));
    if ends_as_file || path.has_root() || name.starts_with(['.', '~']) || name.is_empty() {
        return Ok(None);
    }
    let nearest = catalogue::nearest(name);
    let message = say!(
        "there is no file and no model of this name; the nearest names are {nearest}. `highwater models` lists all \
         names; or give a file, such as the model's `config.json`",
        nearest
    );
    Err(Error::new(ErrorKind::WrongFormat, message))
}

/// The models with all words of a text in their names.
pub(crate) fn list(text: &str) -> Result<String, String> {
    let found = catalogue::search(text);
    if found.is_empty() {
        let nearest = catalogue::nearest(text);
        return Err(format!(
            "no name of a model has all words of `{text}`; the nearest names are {nearest}"
        ));
    }
    let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Left, Align::Left]);
    let heads = ["name", "model", "parameters", "family", "on the Hub"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for entry in &found {
        table.row([
            entry.id.into(),
            entry.name.into(),
            bytes::grouped(entry.parameters).into(),
            entry.family().into(),
            entry.hub().collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    let models = if found.len() == 1 { "model" } else { "models" };
    Ok(format!("{}\n{} {models}.\n", table.render(""), found.len()))
}
