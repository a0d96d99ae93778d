//! Writes files: whole or not at all, and never over another file.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tempfile::Builder;

use crate::file::regular;

/// COUNT: bytes at the start of a file that identify its form: every form begins with this number of fixed bytes.
const MARK: usize = 16;

/// Writes what was asked for.
#[derive(Debug)]
pub(crate) struct Output {
    /// Files that the answer comes from.
    pub(crate) inputs: Vec<PathBuf>,
    /// Whether what something else wrote may be replaced.
    pub(crate) force: bool,
}

impl Output {
    /// Writes a file. It is put in its place once it is complete, so that a failure leaves what was
    /// there before.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> Result<(), String> {
        let shown = path.display();
        if self.inputs.iter().any(|input| same_file::is_same_file(path, input).unwrap_or(false)) {
            return Err(format!("{shown}: this file is read; choose another one to write to"));
        }
        if !self.force && is_of_others(path, content) {
            return Err(format!(
                "{shown}: this file exists and holds something else; --force replaces it"
            ));
        }
        replace(path, content).map_err(|error| format!("{shown}: cannot write: {error}"))
    }
}

/// Whether a file holds what was not written for the same purpose.
fn is_of_others(path: &Path, content: &[u8]) -> bool {
    if !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = regular(path)
        .map(|(file, _)| file.take(MARK.try_into().unwrap_or(u64::MAX)).read_to_end(&mut start));
    !matches!(read, Ok(Ok(_))) || !start.is_empty() && !content.starts_with(&start)
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        // A device or a pipe cannot be replaced; a folder says so itself.
        return fs::write(path, content);
    }
    // A link stays, and what it leads to is replaced.
    let path = if path.exists() { path.canonicalize()? } else { path.to_owned() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = builder(&path).tempfile_in(folder.unwrap_or_else(|| Path::new(".")))?;
    file.write_all(content)?;
    file.persist(&path)?;
    Ok(())
}

/// A file next to the one that it will be, as readable as it was, or as new files are.
fn builder(path: &Path) -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    match fs::metadata(path) {
        Ok(file) => _ = builder.permissions(file.permissions()),
        Err(_) => as_new_files(&mut builder),
    }
    builder
}

#[cfg(unix)]
fn as_new_files(builder: &mut Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt as _;
    builder.permissions(fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn as_new_files(_: &mut Builder<'_, '_>) {}
