//! Measured runs, read from CSV. `docs/scoreboard.md` documents the columns.

use std::collections::BTreeMap;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};
use highwater_core::Bytes;
use highwater_core::estimators::{ALL, Means};

use super::rows::Rows;

/// A run that somebody made, and what was measured.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Line of the CSV.
    pub(crate) line: u64,
    /// The model, as the table names it.
    pub(crate) model: String,
    /// A layer spec, where the row itself describes the model.
    pub(crate) spec: Option<String>,
    /// Samples of a batch.
    pub(crate) batch: u64,
    /// Size of the other open dimensions.
    pub(crate) seq: Option<u64>,
    /// Flags of `highwater estimate`.
    pub(crate) settings: String,
    /// Memory of the GPU.
    pub(crate) capacity: Option<Bytes>,
    /// What was measured.
    pub(crate) measured: Sizes,
    /// Whether the run survived.
    pub(crate) survived: bool,
    /// Published estimates of this run, by the column's name.
    pub(crate) published: Vec<(String, Bytes)>,
}

/// Measured sizes; at least one, or only the outcome is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    process: Option<Bytes>,
    allocated: Option<Bytes>,
    reserved: Option<Bytes>,
}

impl Sizes {
    /// Whether a size was measured.
    pub(crate) const fn is_known(self) -> bool {
        self.process.is_some() || self.allocated.is_some() || self.reserved.is_some()
    }

    /// What an estimate should be, and the word for it. `context` is what a process has besides reserved memory: it is
    /// added to that, and subtracted from the process where tensors are asked for.
    pub(crate) fn need(self, means: Means, context: Bytes) -> Option<(Bytes, &'static str)> {
        let Self { process, allocated, reserved } = self;
        match means {
            Means::Process => process
                .map(|bytes| (bytes, "process"))
                .or_else(|| reserved.map(|bytes| (bytes + context, "reserved+context"))),
            Means::Tensors => allocated
                .map(|bytes| (bytes, "allocated"))
                .or_else(|| reserved.map(|bytes| (bytes, "reserved")))
                .or_else(|| process.map(|bytes| (bytes - context, "process-context"))),
        }
    }
}

/// A line, by the names of its columns.
#[derive(Debug)]
pub(crate) struct Cells<'a> {
    file: &'a Path,
    line: u64,
    by_name: BTreeMap<&'a str, &'a str>,
}

impl<'a> Cells<'a> {
    /// A cell with content.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.by_name.get(name).copied().filter(|cell| !cell.is_empty())
    }

    /// What stands in a cell that every run needs.
    pub(crate) fn need(&self, name: &str) -> Result<&'a str, String> {
        self.get(name).ok_or_else(|| self.wrong(&format!("column `{name}` is empty")))
    }

    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, String> {
        let read = |cell: &str| match cell.parse::<u64>() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(self.wrong(&format!("column `{name}`: `{cell}` is no whole number above 0"))),
        };
        self.get(name).map(read).transpose()
    }

    /// A size in bytes or with a unit.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Bytes>, String> {
        let read = |cell: &str| {
            cell.parse::<Bytes>().map_err(|error| self.wrong(&format!("column `{name}`: {error}")))
        };
        self.get(name).map(read).transpose()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        let read = |cell: &str| match cell.to_ascii_lowercase().as_str() {
            "yes" | "true" | "1" => Ok(true),
            "no" | "false" | "0" => Ok(false),
            _ => Err(self.wrong(&format!("column `{name}`: `{cell}` is neither yes nor no"))),
        };
        self.get(name).map(read).transpose()
    }

    /// A message about this line.
    pub(crate) fn wrong(&self, what: &str) -> String {
        format!("{}:{}: {what}", self.file.display(), self.line)
    }
}

/// The runs of a table. `published` lists columns with the figures of systems that Highwater does not have.
///
/// # Errors
/// Where the table cannot be read: what is wrong, and in which line.
pub(crate) fn read(
    file: &Path,
    text: &str,
    rows: Rows,
    published: &[String],
) -> Result<Vec<Run>, String> {
    let mut reader =
        ReaderBuilder::new().trim(Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let shown = file.display();
    let heads = reader.headers().map_err(|error| format!("{shown}: {error}"))?.clone();
    for needed in rows.columns() {
        if !heads.iter().any(|head| head == *needed) {
            let found = heads.iter().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{shown}: there is no column `{needed}`; the first line names the columns: {found}"
            ));
        }
    }
    let columns = columns(&heads, published);
    let mut runs = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| format!("{shown}: {error}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells = Cells { file, line, by_name: cells(&heads, &record) };
        runs.extend(run(&cells, rows, &columns)?);
    }
    if runs.is_empty() {
        return Err(format!("{shown}: the table has no runs"));
    }
    Ok(runs)
}

fn cells<'a>(heads: &'a StringRecord, record: &'a StringRecord) -> BTreeMap<&'a str, &'a str> {
    heads.iter().zip(record).collect()
}

/// Columns with published figures, each with the name of its system.
fn columns<'a>(heads: &'a StringRecord, published: &[String]) -> Vec<(&'a str, String)> {
    let plain = |name: &str| name.replace(['-', '_'], "");
    let system = |head: &'a str| {
        let ours = ALL.iter().map(|one| one.about().id).find(|id| plain(id) == plain(head));
        let other = published.iter().find(|name| *name == head).cloned();
        Some((head, ours.map(str::to_owned).or(other)?))
    };
    heads.iter().filter_map(system).collect()
}

/// The run of a line; two where the line states the first batch that fails.
fn run(cells: &Cells<'_>, rows: Rows, columns: &[(&str, String)]) -> Result<Vec<Run>, String> {
    let (model, spec, measured) = (rows.model(cells)?, rows.spec(cells)?, sizes(cells, rows)?);
    let batch = cells.count("batch")?;
    let batch = batch.ok_or_else(|| cells.wrong("column `batch` is empty"))?;
    let (oom, fails_at) = (cells.flag("oom")?, cells.count("fails_at")?);
    if !measured.is_known() && oom.is_none() && !cells.by_name.contains_key("fails_at") {
        return Err(cells.wrong(
            "nothing was measured: fill in `process`, `allocated`, `reserved`, `oom` or `fails_at`",
        ));
    }
    let device = cells.get("device").map(|device| format!(" --device {device}"));
    let mut published = Vec::new();
    for (column, system) in columns {
        published.extend(cells.bytes(column)?.map(|bytes| (system.clone(), bytes)));
    }
    let run = Run {
        line: cells.line,
        model,
        spec,
        batch,
        seq: cells.count("seq")?,
        settings: cells.get("settings").unwrap_or_default().to_owned()
            + device.as_deref().unwrap_or_default(),
        capacity: cells.bytes("capacity")?,
        measured,
        survived: oom != Some(true),
        published,
    };
    let failed = fails_at.map(|batch| Run {
        batch,
        measured: Sizes::default(),
        survived: false,
        published: Vec::new(),
        ..run.clone()
    });
    Ok([Some(run), failed].into_iter().flatten().collect())
}

fn sizes(cells: &Cells<'_>, rows: Rows) -> Result<Sizes, String> {
    let process = rows.process(cells)?;
    let process = if process.is_some() { process } else { cells.bytes("process")? };
    let (allocated, reserved) = (cells.bytes("allocated")?, cells.bytes("reserved")?);
    for (name, bytes) in [("process", process), ("allocated", allocated), ("reserved", reserved)] {
        if bytes == Some(Bytes::ZERO) {
            return Err(cells.wrong(&format!("column `{name}`: a run needs more than 0 bytes")));
        }
    }
    Ok(Sizes { process, allocated, reserved })
}
