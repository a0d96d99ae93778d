//! Tables of results as pages of the documentation: those that tests keep as text, and the scoreboard's.

use std::collections::BTreeSet;

use super::content::Content;
use crate::process::{Failure, Result};

/// COUNT: rows of a source of the scoreboard that the page shows. The file, which the page offers, has all.
const ROWS_MAX: usize = 250;

/// The scoreboard's file.
const SCOREBOARD: &str = "tests/scoreboard.csv";

/// Its columns that the page shows, and their names there.
const SHOWN: [(&str, &str); 8] = [
    ("model", "model"),
    ("batch", "batch"),
    ("highwater", "Highwater"),
    ("xmem", "xMem"),
    ("dnnmem", "DNNMem"),
    ("fake-tensor", "FakeTensor"),
    ("schedtune", "SchedTune"),
    ("accelerate", "accelerate"),
];

/// Titles of the pages.
const TITLES: [(&str, &str); 4] = [
    ("tests/accuracy.txt", "Every run: estimated and recorded peaks"),
    ("tests/measured.txt", "Every run: estimated and measured peaks"),
    ("tests/profiles.txt", "Every run: peaks from profiler traces"),
    (SCOREBOARD, "Every run: estimates of the scoreboard"),
];

/// The file that a page offers as it is, if it is one.
pub(super) fn offered(source: &str) -> Option<String> {
    (source == SCOREBOARD).then(|| source.to_owned())
}

/// Converts a file of tables.
///
/// # Errors
/// It has another form than it had.
pub(super) fn convert(source: &str, text: &str) -> Result<Content> {
    let mut content = Content::default();
    let title = TITLES.iter().find(|(file, _)| *file == source).map_or(source, |(_, title)| title);
    content.heading(1, title);
    if source == SCOREBOARD {
        scoreboard(text, &mut content)?;
    } else {
        text_tables(source, text, &mut content)?;
    }
    Ok(content)
}

/// Adds tables in columns of characters. A block of lines is a heading, a head, rows, and notes, or the text above all
/// of them.
fn text_tables(source: &str, text: &str, content: &mut Content) -> Result<()> {
    for (at, block) in text.split("\n\n").enumerate() {
        let lines: Vec<&str> = block.lines().collect();
        let is_head = |line: &str| line.starts_with("model ") || line.starts_with("profile ");
        let Some(head) = lines.iter().position(|line| is_head(line)) else {
            if at > 0 {
                let first = lines.first().copied().unwrap_or_default();
                return Err(Failure::new(format!("{source}: a block without a head: {first}")));
            }
            content.paragraph(block);
            continue;
        };
        for heading in lines.iter().take(head) {
            // The settings of all rows follow a name.
            let (name, settings) = heading.split_once(", --").unwrap_or((heading, ""));
            content.heading(2, name);
            if !settings.is_empty() {
                content.paragraph(&format!("`--{settings}`"));
            }
        }
        let (notes, table): (Vec<&str>, Vec<&str>) =
            lines.iter().skip(head).partition(|line| line.contains(": "));
        let mut rows = columns(&table);
        let names = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
        read_firsts(&rows, content);
        content.table(&names, &rows);
        for note in notes {
            content.paragraph(note);
        }
    }
    Ok(())
}

/// Lets search find the models of a table.
fn read_firsts(rows: &[Vec<String>], content: &mut Content) {
    let firsts: BTreeSet<&String> = rows.iter().filter_map(|row| row.first()).collect();
    for first in firsts {
        content.read(first);
    }
}

/// The cells of lines in columns of characters: columns end where no line has a letter, and each has a name in the
/// first line.
fn columns(lines: &[&str]) -> Vec<Vec<String>> {
    // One cell of two words.
    let whole = |line: &&str| line.replace("not modelled", "not\u{a0}modelled");
    let lines: Vec<Vec<char>> = lines.iter().map(|line| whole(line).chars().collect()).collect();
    let width = lines.iter().map(Vec::len).max().unwrap_or_default();
    let is_blank = |line: &[char], at: usize| line.get(at).is_none_or(|letter| *letter == ' ');
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let head = lines.first().map_or(&[][..], Vec::as_slice);
    let mut begin = 0;
    while begin < width {
        let filled = |at: &usize| lines.iter().any(|line| !is_blank(line, *at));
        let Some(first) = (begin..width).find(filled) else { break };
        let end = (first..width).find(|at| !filled(at)).unwrap_or(width);
        let is_named = (first..end).any(|at| !is_blank(head, at));
        match spans.last_mut() {
            Some(last) if !is_named => last.1 = end,
            _ => spans.push((first, end)),
        }
        begin = end;
    }
    let cell = |line: &Vec<char>, (first, end): (usize, usize)| {
        let letters = line.iter().skip(first).take(end - first).collect::<String>();
        letters.trim().to_owned()
    };
    lines.iter().map(|line| spans.iter().map(|span| cell(line, *span)).collect()).collect()
}

/// Adds the estimates of the scoreboard, a table for each source.
fn scoreboard(text: &str, content: &mut Content) -> Result<()> {
    let missing = |what: &str| Failure::new(format!("{SCOREBOARD} has no column {what}"));
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().ok_or_else(|| missing("source"))?;
    let column = |name: &str| head.iter().position(|it| *it == name).ok_or_else(|| missing(name));
    let source = column("source")?;
    let shown = SHOWN.iter().map(|(name, _)| column(name)).collect::<Result<Vec<_>>>()?;
    content.html(
        "<p>What estimators give for the memory of the process, in GiB, for each run of \
         <a href=\"../scoreboard.html\">the scoreboard</a>. \
         <a href=\"scoreboard.csv\" download>The file</a> has every run and every estimator, in bytes, \
         and our intervals.</p>\n",
    );
    let rows: Vec<_> = lines.collect();
    let mut sources: Vec<&str> = Vec::new();
    for row in &rows {
        let name = row.get(source).copied().unwrap_or_default();
        if !sources.contains(&name) {
            sources.push(name);
        }
    }
    let names: Vec<String> = SHOWN.iter().map(|(_, name)| (*name).to_owned()).collect();
    for name in sources {
        content.heading(2, name);
        let of_source: Vec<_> = rows.iter().filter(|row| row.get(source) == Some(&name)).collect();
        let count = of_source.len();
        if count > ROWS_MAX {
            content.paragraph(&format!("The first {ROWS_MAX} of {count} runs."));
        }
        let cells = of_source.iter().take(ROWS_MAX).map(|row| {
            let cell = |(at, column): (usize, &usize)| {
                let cell = row.get(*column).copied().unwrap_or_default();
                if at < 2 { cell.to_owned() } else { gib(cell) }
            };
            shown.iter().enumerate().map(cell).collect()
        });
        let cells: Vec<Vec<String>> = cells.collect();
        content.table(&names, &cells);
    }
    Ok(())
}

/// Bytes, which may be a range or stand before a slash, in GiB.
fn gib(cell: &str) -> String {
    let process = cell.split('/').next().unwrap_or_default();
    let sizes = process.split('-').filter_map(|bytes| bytes.parse::<f64>().ok());
    let sizes: Vec<String> =
        sizes.map(|bytes| format!("{:.2}", bytes / f64::from(1 << 30))).collect();
    if sizes.is_empty() { "-".to_owned() } else { sizes.join("\u{2013}") }
}

#[cfg(test)]
mod tests {
    use super::{columns, convert, gib};

    #[test]
    fn columns_have_names() {
        let lines = [
            "model   batch settings                        true     error",
            "a b     8     - --optimizer sgd            1,750.1         =",
            "c      16     - --precision amp-bf16           2.0  +0.20 % *",
            "d       2     -                       not modelled",
        ];
        let expected = [
            ["model", "batch", "settings", "true", "error"],
            ["a b", "8", "- --optimizer sgd", "1,750.1", "="],
            ["c", "16", "- --precision amp-bf16", "2.0", "+0.20 % *"],
            ["d", "2", "-", "not\u{a0}modelled", ""],
        ];
        assert_eq!(columns(&lines), expected);
    }

    #[test]
    fn blocks_become_sections() {
        let text = "In `MiB`.\n\ntrain, --a b\nmodel  true\na       1.0\nall: 1 run\n";
        let content = convert("tests/profiles.txt", text).expect("it is a table");
        let headings: Vec<_> = content.sections.iter().map(|it| &*it.heading).collect();
        assert_eq!(headings, ["Every run: peaks from profiler traces", "train"]);
        for part in [
            "<p>In <code>MiB</code>.</p>",
            "<p><code>--a b</code></p>",
            "<td class=\"number\">1.0</td>",
            "<p>all: 1 run</p>",
        ] {
            assert!(content.body.contains(part), "{part}");
        }
        convert("tests/profiles.txt", "a\n\nb\nc\n").expect_err("no table");
    }

    #[test]
    fn sizes_of_the_scoreboard_are_those_of_processes() {
        let cases = [
            ("21284750622/19590294016", "19.82"),
            ("1073741824", "1.00"),
            ("0-2147483648", "0.00–2.00"),
            ("", "-"),
        ];
        for (cell, expected) in cases {
            assert_eq!(gib(cell), expected, "{cell}");
        }
    }
}
