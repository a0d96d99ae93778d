//! Columns of text for a terminal.

use anstyle::Style;

/// Side to which a column's cells are pushed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A text and how it looks; the style adds nothing to its width.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows of cells, padded so that columns stand under each other.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Align; N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) const fn new(columns: [Align; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Some columns of words, and numbers in all others.
    pub(crate) fn of_numbers_behind(words: usize) -> Self {
        Self::new(std::array::from_fn(|at| if at < words { Align::Left } else { Align::Right }))
    }

    pub(crate) fn row(&mut self, cells: [Cell; N]) {
        self.rows.push(cells);
    }

    /// The rows, each behind `indent` and with a line end.
    pub(crate) fn render(&self, indent: &str) -> String {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            // Spaces are put off until something follows them: no line ends in blanks.
            let mut blanks = indent.to_owned();
            for ((cell, width), align) in row.iter().zip(widths).zip(self.columns) {
                let pad = " ".repeat(width.saturating_sub(cell.width()));
                let (before, after) = match align {
                    Align::Left => (String::new(), pad),
                    Align::Right => (pad, String::new()),
                };
                blanks += &before;
                if !cell.text.is_empty() {
                    line += &std::mem::take(&mut blanks);
                    line += &cell.style.render().to_string();
                    line += &cell.text;
                    line += &cell.style.render_reset().to_string();
                }
                blanks += &after;
                blanks += "  ";
            }
            text += &line;
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
        table.row(["a".into(), "100".into(), "".into()]);
        table.row(["longer".into(), "1".into(), "end".into()]);
        assert_eq!(table.render("  "), "  a       100\n  longer    1  end\n");
    }
}
