//! Columns of text for a terminal.

use std::fmt::Write as _;

use anstyle::Style;

use crate::screen;

/// What bars consist of.
pub(crate) const BAR: char = '█';
/// COUNT: characters to which a word or a bar may be cut where there is little width.
const SHORTEST: usize = 20;
/// COUNT: characters of the shortest bar.
const SHORTEST_BAR: usize = 4;
/// COUNT: blanks between columns.
const GAP: usize = 2;

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

    fn is_bar(&self) -> bool {
        !self.text.is_empty() && self.text.chars().all(|letter| letter == BAR)
    }

    /// Whether it is a number with its unit, or several: no sentence that begins with one.
    fn is_figure(&self) -> bool {
        let first = self.text.chars().next();
        let begins = first.is_some_and(|it| it.is_ascii_digit() || "-+<>≤≥~".contains(it));
        let is_unit = |word: &str| word.chars().filter(|it| it.is_alphabetic()).count() <= 3;
        begins && self.text.split(' ').all(is_unit)
    }

    /// COUNT: characters below which it cannot be drawn: figures stay whole, words are wrapped.
    fn least(&self) -> usize {
        if self.is_bar() {
            return SHORTEST_BAR.min(self.width());
        }
        if self.is_figure() {
            // `59.12 GiB, to 3` may break behind its comma.
            let parts = self.text.split_inclusive(", ").map(|part| part.trim_end().chars().count());
            return parts.max().unwrap_or_default();
        }
        let longest = self.text.split(' ').map(|word| word.chars().count()).max();
        longest.unwrap_or_default().min(SHORTEST)
    }

    /// Its lines where a column of `natural` characters has `width`.
    fn lines(&self, natural: usize, width: usize) -> Vec<String> {
        if natural <= width {
            return vec![self.text.clone()];
        }
        if self.is_bar() {
            let length = (self.width() * width).div_ceil(natural);
            return vec![BAR.to_string().repeat(length)];
        }
        let lines = textwrap::wrap(&self.text, screen::wrapping(width));
        lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
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
    /// Columns that are left out where there is little width, the first one first.
    spare: Vec<usize>,
}

impl<const N: usize> Table<N> {
    pub(crate) const fn new(columns: [Align; N]) -> Self {
        Self { columns, rows: Vec::new(), spare: Vec::new() }
    }

    /// Some columns of words, and numbers in all others.
    pub(crate) fn of_numbers_behind(words: usize) -> Self {
        Self::new(std::array::from_fn(|at| if at < words { Align::Left } else { Align::Right }))
    }

    pub(crate) fn row(&mut self, cells: [Cell; N]) {
        self.rows.push(cells);
    }

    /// These columns may be left out where there is little width, the first one first.
    pub(crate) fn without_if_narrow(&mut self, columns: &[usize]) {
        self.spare.extend(columns);
    }

    /// The rows, each behind `indent` and with a line end; not wider than the terminal where there is one.
    pub(crate) fn render(&self, indent: &str) -> String {
        self.within(indent, screen::width().unwrap_or(usize::MAX))
    }

    fn within(&self, indent: &str, limit: usize) -> String {
        let natural = self.widths(Cell::width);
        let (widths, is_shown) = self.fitted(natural, limit.saturating_sub(indent.len()));
        let mut text = String::new();
        for row in &self.rows {
            let cells: [Vec<String>; N] =
                std::array::from_fn(|at| row[at].lines(natural[at], widths[at]));
            let height = cells.iter().zip(is_shown).filter(|(_, shown)| *shown);
            let height = height.map(|(lines, _)| lines.len()).max().unwrap_or(1);
            for number in 0..height {
                let mut line = String::new();
                // Spaces are put off until something follows them: no line ends in blanks.
                let mut blanks = indent.to_owned();
                for (at, lines) in cells.iter().enumerate().filter(|(at, _)| is_shown[*at]) {
                    let part = lines.get(number).map_or("", String::as_str);
                    let pad = " ".repeat(widths[at].saturating_sub(part.chars().count()));
                    let (before, after) = match self.columns[at] {
                        Align::Left => (String::new(), pad),
                        Align::Right => (pad, String::new()),
                    };
                    blanks += &before;
                    if !part.is_empty() {
                        let style = row[at].style;
                        line += &std::mem::take(&mut blanks);
                        // Writing to a string does not fail.
                        write!(line, "{style}{part}{style:#}").ok();
                    }
                    blanks += &after;
                    blanks += &" ".repeat(GAP);
                }
                text += &line;
                text.push('\n');
            }
        }
        text
    }

    /// The largest figure of the cells of each column.
    fn widths(&self, of: impl Fn(&Cell) -> usize) -> [usize; N] {
        let largest = |at: usize| self.rows.iter().map(|row| of(&row[at])).max();
        std::array::from_fn(|at| largest(at).unwrap_or_default())
    }

    /// The width of each column so that all fit, and which are shown. What cannot be narrower stays.
    fn fitted(&self, natural: [usize; N], limit: usize) -> ([usize; N], [bool; N]) {
        let mut is_shown = [true; N];
        let total = |widths: &[usize; N], is_shown: &[bool; N]| {
            let shown = widths.iter().zip(is_shown).filter(|(_, shown)| **shown);
            shown.map(|(width, _)| width + GAP).sum::<usize>().saturating_sub(GAP)
        };
        for &at in &self.spare {
            if total(&natural, &is_shown) > limit {
                is_shown[at] = false;
            }
        }
        let (mut widths, least) = (natural, self.widths(Cell::least));
        while total(&widths, &is_shown) > limit {
            let can = (0..N).filter(|&at| is_shown[at] && widths[at] > least[at]);
            let Some(widest) = can.max_by_key(|&at| widths[at]) else { break };
            widths[widest] -= 1;
        }
        (widths, is_shown)
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

    #[test]
    fn a_narrow_table_wraps_words_and_keeps_figures() {
        let mut table =
            Table::new([Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
        table.without_if_narrow(&[2]);
        table.row(["".into(), "largest size".into(), "margin".into(), "".into(), "".into()]);
        table.row([
            "the first of them".into(),
            "1.00 GiB".into(),
            "2 B".into(),
            "████".into(),
            "a".into(),
        ]);
        table.row(["b".into(), "20.00 GiB".into(), "3 B".into(), "████████".into(), "a".into()]);
        let expected = "             largest
                size
  the       1.00 GiB  ████     a
  first
  of them
  b        20.00 GiB  ███████  a
";
        assert_eq!(table.within("  ", 32), expected);
        assert!(table.within("  ", 80).contains("margin"));
        // Narrower than its figures it cannot be.
        assert!(table.within("  ", 3).contains("20.00 GiB"));
    }
}
