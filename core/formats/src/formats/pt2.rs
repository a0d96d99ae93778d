//! `torch.export` archive (`.pt2`) → [`Graph`].
//!
//! It is a zip with the program as JSON and the weights
//! (<https://docs.pytorch.org/docs/stable/export/pt2_archive.html>, the schema in
//! `torch/_export/serde/schema.py`).
//!
//! 1. `archive` finds the program in the zip: its directory and the JSON are read, weights are not.
//! 2. `program` is the part of the schema that is read here; unknown keys are skipped, and a missing one is
//!    reported with the schema's version.
//! 3. `lower` makes a [`Graph`] of it, with `calls`: one row per ATen operator.
//!
//! The program has the calls that eager PyTorch makes, in order, with what overwrites its input, the
//! module of each, and which tensors are parameters: nothing has to be recovered.

use crate::error::Error;
use crate::graph::Graph;
use crate::source::Source;

pub(super) mod archive;

mod program;

mod lower;

pub(crate) mod calls;

/// Reads an exported program without its weights; `None` where a zip holds none.
///
/// # Errors
/// When the archive is damaged, or its program is none that can be read here.
pub fn read(source: &mut dyn Source) -> Result<Option<Graph>, Error> {
    let Some(archive) = archive::open(source)? else { return Ok(None) };
    let program = program::ExportedProgram::new(&archive)?;
    lower::graph(&program).map(Some)
}
