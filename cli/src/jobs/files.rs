//! [`Files`]: which files a job may name.

use std::path::{Path, PathBuf};

use super::answer::Failure;
use crate::named;

/// Which files a job may name.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    /// Those that this process can read: whoever asks has started it.
    Any,
    /// Those in these folders, which are canonical.
    Within(Vec<PathBuf>),
}

impl Files {
    /// The files in some folders.
    ///
    /// # Errors
    /// When one is no folder.
    pub(crate) fn within(folders: &[PathBuf]) -> Result<Self, String> {
        let canonical = folders.iter().map(|folder| {
            let cannot = |error| format!("{}: cannot allow this folder: {error}", folder.display());
            let path = folder.canonicalize().map_err(cannot)?;
            if path.is_dir() {
                Ok(path)
            } else {
                Err(format!("{}: cannot allow this, as it is no folder", folder.display()))
            }
        });
        canonical.collect::<Result<_, _>>().map(Self::Within)
    }

    /// Whether a name is that of a file, which so is meant rather than a published model, as in `estimate`. A server's
    /// folder does not change what published models are.
    pub(crate) fn has(&self, name: &str) -> bool {
        matches!(self, Self::Any) && Path::new(name).symlink_metadata().is_ok()
    }

    /// The path of a file that may be read. Whether another file exists is not disclosed.
    ///
    /// # Errors
    /// When it may not.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, Failure> {
        let folders = match self {
            Self::Any => {
                let path = PathBuf::from(name);
                let found = named::find(&path);
                return found.map(|_| path).map_err(|error| Failure::of(&error).at("model"));
            }
            Self::Within(folders) => folders,
        };
        let inside = |folder: &PathBuf| {
            // Links are followed first, so that none leads out.
            let path = folder.join(name).canonicalize().ok()?;
            path.starts_with(folder).then_some(path)
        };
        let is_plain = !Path::new(name).components().any(|part| part.as_os_str() == "..");
        folders.iter().filter(|_| is_plain).find_map(inside).ok_or_else(|| {
            let nearest = highwater_core::formats::catalogue::nearest(name);
            let message = if folders.is_empty() {
                format!(
                    "there is no model of this name; the nearest names are {nearest}. This server reads no files: \
                     start it with `--allow FOLDER`, or give the object of the model's `config.json`"
                )
            } else {
                format!(
                    "there is no model of this name, and no such file in an allowed folder; the nearest names are \
                     {nearest}"
                )
            };
            Failure::new("unknown-model", message).at("model")
        })
    }
}
