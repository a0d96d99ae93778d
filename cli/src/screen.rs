//! The terminal: its width, and whether it shows colours. In pipes and files nothing depends on either.

use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use terminal_size::{Width, terminal_size_of};
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

/// COUNT: blanks before a line that is wrapped; lines further right are code.
const INDENT_MAX: usize = 4;
/// COUNT: columns below which nothing is wrapped.
const NARROWEST: usize = 24;

/// What standard output leads to.
#[derive(Clone, Copy, Debug, Default)]
struct Screen {
    /// COUNT: columns of the terminal; `None` where it is none.
    width: Option<usize>,
    colours: bool,
}

static SCREEN: OnceLock<Screen> = OnceLock::new();

/// Looks at standard output. The program does this once; where nobody does, the output is as for a pipe.
pub(crate) fn look() {
    SCREEN.get_or_init(|| {
        let stdout = io::stdout();
        let columns = terminal_size_of(&stdout).map(|(Width(columns), _)| usize::from(columns));
        let width = columns.filter(|columns| stdout.is_terminal() && *columns >= NARROWEST);
        Screen { width, colours: AutoStream::choice(&stdout) != ColorChoice::Never }
    });
}

/// COUNT: columns of the terminal; `None` for pipes and files, which have no width.
pub(crate) fn width() -> Option<usize> {
    SCREEN.get().and_then(|screen| screen.width)
}

/// Whether colours are shown: `NO_COLOR`, `CLICOLOR_FORCE` and the terminal decide.
pub(crate) fn has_colours() -> bool {
    SCREEN.get().is_some_and(|screen| screen.colours)
}

/// A report for people, whose long lines are wrapped to the terminal. Code is left as it is, so that it can be copied.
pub(crate) fn fitted(text: &str) -> String {
    width().map_or_else(|| text.to_owned(), |width| wrapped(text, width))
}

/// Lines of a width that end between words: names with hyphens stay whole where they can.
pub(crate) fn wrapping(width: usize) -> Options<'static> {
    Options::new(width).word_splitter(WordSplitter::NoHyphenation)
}

fn wrapped(text: &str, width: usize) -> String {
    let mut fitted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let words = line.trim_start_matches(' ');
        let indent = line.len() - words.len();
        // A row of a table has its columns, and is as narrow as it can be.
        let is_row = words.contains("  ");
        if display_width(line) <= width || indent > INDENT_MAX || is_row {
            fitted += line;
        } else {
            let first = " ".repeat(indent);
            let others = " ".repeat(if indent == 0 { 0 } else { indent + 2 });
            let options = wrapping(width)
                .initial_indent(&first)
                .subsequent_indent(&others)
                .break_words(false);
            fitted += &textwrap::fill(words, options);
        }
        fitted += end;
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_and_code_is_not() {
        let text = "  one two three\n\u{1b}[1mfour five six\u{1b}[0m\n       code code code\n";
        let expected =
            "  one two\n    three\n\u{1b}[1mfour five\nsix\u{1b}[0m\n       code code code\n";
        assert_eq!(wrapped(text, 10), expected);
        assert_eq!(wrapped(text, 80), text);
    }
}
