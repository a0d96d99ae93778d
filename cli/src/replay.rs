//! `highwater replay`: reads a memory snapshot of PyTorch, and replays it under other settings of the allocator;
//! or predicts training on a GPU from a trace of a CPU.

mod json;
mod profile;
mod text;

use std::path::Path;

use highwater_core::Error;
use highwater_core::profiled;
use highwater_core::recorded::{self, MemorySnapshot, Recorded, WhatIf};

use crate::args::Replay;
use crate::file::FileSource;

/// Everything that is printed.
#[derive(Debug)]
struct Answer<'s> {
    name: String,
    recorded: Recorded<'s>,
    /// The first as it was recorded, if [`Answer::is_own`].
    what_ifs: Vec<WhatIf>,
    /// Whether the settings of the run itself are modelled.
    is_own: bool,
}

/// What to print.
pub(crate) fn replay(arguments: &Replay) -> Result<String, Error> {
    let path = &arguments.snapshot;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if profiled::is_trace(&mut FileSource::open(path)?)? {
        return profile::replay(name, arguments);
    }
    let snapshot = open(path)?;
    let recorded = Recorded::of(&snapshot, arguments.gpu)?;
    let what_ifs = recorded.what_ifs(arguments.alloc_conf.as_deref())?;
    let own = snapshot.alloc_conf.as_deref().unwrap_or("");
    let is_own = what_ifs.first().is_some_and(|first| first.alloc_conf == own);
    let answer = Answer { name, recorded, what_ifs, is_own };
    Ok(if arguments.json { json::render(&answer) } else { text::render(&answer) })
}

fn open(path: &Path) -> Result<MemorySnapshot, Error> {
    recorded::open(&mut FileSource::open(path)?)
}
