//! Text → [`Table`]: rows of torchinfo or torchsummary.

use super::super::printed::{self, Printed};
use crate::error::{Error, ErrorKind, Place};

/// COUNT: rows of a table, at most.
const ROWS_MAX: usize = 20_000;

/// COUNT: containers inside each other, at most.
const DEPTH_MAX: usize = 24;

/// How lines behind the table begin.
const FOOTERS: [&str; 8] = [
    "Total",
    "Trainable",
    "Non-trainable",
    "Input size",
    "Forward/backward",
    "Params size",
    "Estimated",
    "Optimizer",
];

/// A table as it was printed.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// Whether rows have no depth: torchsummary.
    pub(super) is_flat: bool,
    /// COUNT: samples that the table was made with.
    pub(super) batch: Option<u64>,
    /// SIZE: what the model reads.
    pub(super) input_size: Option<Stated>,
    /// COUNT: parameters, by the table.
    pub(super) total: Option<u64>,
}

/// A number of megabytes with two decimals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stated {
    pub(super) hundredths: u64,
    /// SIZE: bytes of a megabyte.
    pub(super) unit: u64,
}

/// A layer or a container.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) class: String,
    /// Name of the module, where the table has it.
    pub(super) name: Option<String>,
    pub(super) depth: usize,
    pub(super) input: Option<Vec<u64>>,
    pub(super) output: Vec<u64>,
    pub(super) kernel: Option<Vec<u64>>,
    pub(super) parameters: u64,
    pub(super) is_container: bool,
    pub(super) place: Place,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Layer,
    Input,
    Output,
    Kernel,
    Parameters,
    Other,
}

/// Whether a text has the head of such a table.
pub(in crate::formats) fn is_summary(text: &str) -> bool {
    text.lines().any(is_head)
}

fn is_head(line: &str) -> bool {
    line.contains("Layer (type") && (line.contains("Param #") || line.contains("Output Shape"))
}

/// Pieces of a line that two spaces or more part.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty())
}

fn column(cell: &str) -> Column {
    match cell {
        "Param #" => Column::Parameters,
        cell if cell.starts_with("Layer") => Column::Layer,
        cell if cell.starts_with("Input Shape") => Column::Input,
        cell if cell.starts_with("Output Shape") => Column::Output,
        cell if cell.starts_with("Kernel Shape") => Column::Kernel,
        _ => Column::Other,
    }
}

/// Reads a table.
///
/// # Errors
/// When it has no rows; with the line, when it has too many, or they lie too deep.
pub(super) fn parse(text: &str) -> Result<Table, Error> {
    let mut table = Table::default();
    let mut head: Option<Vec<Column>> = None;
    for (index, line) in text.lines().enumerate() {
        if is_head(line) {
            table.is_flat = !line.contains(':') && !line.contains("var_name");
            head = Some(cells(line).map(column).collect());
            continue;
        }
        let Some(columns) = &head else { continue };
        let body = line.trim();
        if let Some((name, number)) = body.split_once(':')
            && FOOTERS.iter().any(|start| name.starts_with(start))
        {
            footer(&mut table, name, number);
            continue;
        }
        let place = Place { line: index.saturating_add(1), column: 1 };
        if let Some(row) = row(columns, line, table.is_flat) {
            if table.rows.len() >= ROWS_MAX || row.depth > DEPTH_MAX {
                let message =
                    say!("the table has too many rows, or containers too deep in each other");
                return Err(Error::new(ErrorKind::TooLarge, message).at(place));
            }
            table.rows.push(Row { place, ..row });
        }
    }
    if table.rows.is_empty() {
        return Err(Error::new(ErrorKind::NoGraph, say!("the table has no rows")));
    }
    if !table.is_flat {
        let depths: Vec<usize> =
            table.rows.iter().skip(1).map(|row| row.depth).chain([0]).collect();
        for (row, next) in table.rows.iter_mut().zip(depths) {
            row.is_container = next > row.depth;
        }
        let first = table.rows.iter().find_map(|row| row.output.first().copied());
        table.batch = first;
    }
    Ok(table)
}

/// `Total params: 25,557,032`, `Input size (MB): 0.57`.
fn footer(table: &mut Table, name: &str, number: &str) {
    let plain: String = number.trim().chars().filter(|c| *c != ',').collect();
    if name == "Total params" {
        table.total = plain.parse().ok();
    }
    if name.starts_with("Input size") {
        // torchsummary counts 2^20, torchinfo 10^6.
        let unit = if table.is_flat { 1 << 20 } else { 1_000_000 };
        let digits = plain.split_once('.').filter(|(_, fraction)| fraction.len() == 2);
        let digits = digits.map(|(whole, fraction)| format!("{whole}{fraction}"));
        let hundredths = digits.and_then(|digits| digits.parse().ok()).filter(|&n: &u64| n > 0);
        table.input_size = hundredths.map(|hundredths| Stated { hundredths, unit });
    }
}

fn row(columns: &[Column], line: &str, is_flat: bool) -> Option<Row> {
    let is_glyph = |c: char| matches!(c, '│' | '├' | '└' | '─' | '|' | ' ');
    // Glyphs stand alone before a name that is indented.
    let mut cells = cells(line).filter(|cell| !cell.chars().all(is_glyph));
    let label = cells.next()?.trim_start_matches(is_glyph);
    let mut row = Row::default();
    for (column, cell) in columns.iter().filter(|column| **column != Column::Layer).zip(cells) {
        match column {
            Column::Input => row.input = shape(cell),
            Column::Output => row.output = shape(cell).unwrap_or_default(),
            Column::Kernel => row.kernel = shape(cell),
            Column::Parameters => {
                let digits: String = cell.chars().filter(char::is_ascii_digit).collect();
                row.parameters = digits.parse().unwrap_or(0);
            }
            Column::Layer | Column::Other => {}
        }
    }
    if is_flat {
        let (class, index) = label.rsplit_once('-')?;
        index.parse::<u32>().ok()?;
        class.clone_into(&mut row.class);
        let leaf = Printed::new("", class, Vec::new());
        row.is_container = printed::kind_of(&leaf).is_none() && row.parameters == 0;
        return Some(row);
    }
    let (label, index) = label.split_once(": ").unwrap_or((label, ""));
    let (class, name) = match label.split_once(" (") {
        Some((class, name)) => (class, Some(name.trim_end_matches(')').to_owned())),
        None => (label, None),
    };
    class.trim().clone_into(&mut row.class);
    row.name = name;
    let is_class = |c: char| c.is_alphanumeric() || c == '_';
    if row.class.is_empty() || !row.class.chars().all(is_class) {
        return None;
    }
    let numbered = index.split_once('-').and_then(|(depth, _)| depth.trim().parse().ok());
    let drawn = line.chars().position(|c| matches!(c, '├' | '└'));
    let drawn = drawn.map_or(0, |at| at.div_euclid(5).saturating_add(1));
    row.depth = numbered.unwrap_or(drawn);
    Some(row)
}

/// `[7, 1, 28, 28]`; a batch of -1 is 1.
fn shape(cell: &str) -> Option<Vec<u64>> {
    let inside = cell.strip_prefix('[')?.split(']').next()?;
    let sizes = inside.split(',').map(|part| match part.trim().parse::<i64>() {
        Ok(-1) => Some(1),
        Ok(n) => u64::try_from(n).ok().filter(|&n| (1..=1 << 31).contains(&n)),
        Err(_) => None,
    });
    sizes.collect()
}
