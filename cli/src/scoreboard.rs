//! `highwater scoreboard`: scores of estimators over measured runs.

mod answers;
mod board;
mod confidence;
mod document;
mod kept;
mod pictures;
mod rows;
mod runs;
mod sources;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use csv::Writer;

use self::answers::Answered;
use self::sources::Source;
use crate::args::Scoreboard;
use crate::output::Output;

/// Scores the runs; what is left to print.
pub(crate) fn scoreboard(arguments: &Scoreboard) -> Result<String, String> {
    let mut sources = Vec::new();
    for path in &arguments.runs {
        sources.extend(sources::open(path, arguments.sample)?);
    }
    let answers = match &arguments.kept {
        Some(path) => kept(path, &sources)?,
        None => answers::all(&sources, &arguments.training),
    };
    if answers.iter().flatten().all(Result::is_err) {
        let first = tables::left_out(&sources, &answers).into_iter().next().unwrap_or_default();
        return Err(format!("no run could be estimated; the first:\n{first}"));
    }
    let points = board::points(&sources, &answers);
    let mut printed = if arguments.json {
        tables::json(&sources, &answers, &points)
    } else {
        tables::text(&sources, &answers, &points)
    };
    let output = Output { inputs: inputs(arguments, &sources), force: arguments.force };
    let mut write = |path: &Path, text: String| {
        if path.as_os_str() == "-" {
            printed = text;
            return Ok(());
        }
        output.write(path, text.as_bytes())
    };
    if let Some(path) = &arguments.csv {
        write(path, tables::csv(&points))?;
    }
    if let Some(path) = &arguments.keep {
        write(path, kept::write(&sources, &answers))?;
    }
    if let Some(folder) = &arguments.plots {
        let made = fs::create_dir_all(folder);
        made.map_err(|error| format!("{}: cannot make this folder: {error}", folder.display()))?;
        for (name, picture) in pictures::all(&points) {
            write(&folder.join(format!("scoreboard-{name}.svg")), picture)?;
        }
    }
    if let Some(path) = &arguments.document {
        let shown = path.display();
        let text = sources::read(path)?;
        let blocks = tables::markdown(&sources, &answers, &points);
        let text = document::filled(&text, &blocks).map_err(|error| format!("{shown}: {error}"))?;
        write(path, text)?;
    }
    Ok(printed)
}

/// Files that the scores come from.
fn inputs(arguments: &Scoreboard, sources: &[Source]) -> Vec<PathBuf> {
    let tables = sources.iter().map(|source| &source.file);
    arguments.runs.iter().chain(tables).chain(&arguments.kept).cloned().collect()
}

fn kept(path: &Path, sources: &[Source]) -> Result<Vec<Vec<Answered>>, String> {
    let text = sources::read(path)?;
    kept::read(&text, sources).map_err(|error| format!("{}: {error}", path.display()))
}

/// Lines as CSV. Writing to memory does not fail.
fn csv(lines: &[Vec<String>]) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    for line in lines {
        writer.write_record(line).ok();
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
