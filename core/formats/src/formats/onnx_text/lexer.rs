//! Characters → names, texts, numbers and signs, with their place for errors.

use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;

/// A text and a place in it.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    rest: &'t str,
}

/// A number as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// Without point or exponent.
    Int(i64),
    /// With.
    Float(f64),
}

impl<'t> Lexer<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, rest: text }
    }

    /// An error here.
    pub(super) fn expected(&mut self, what: &Sentence) -> Error {
        self.skip();
        let before = self.text.len().saturating_sub(self.rest.len());
        let before = self.text.get(..before).unwrap_or(self.text);
        let line = before.matches('\n').count().saturating_add(1);
        let column = before.chars().rev().take_while(|&c| c != '\n').count().saturating_add(1);
        let found: String = self.rest.chars().take_while(|c| !c.is_whitespace()).take(24).collect();
        let found =
            if found.is_empty() { say!("the end") } else { Sentence::name(&format!("`{found}`")) };
        let message = say!(
            "ONNX text, line {line}, column {column}: expected {what}, found {found}",
            line,
            column,
            what,
            found
        );
        Error::new(ErrorKind::Corrupt, message)
    }

    /// Passes over white space and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    /// The next character.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip();
        self.rest.chars().next()
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Takes a sign if it is next.
    pub(super) fn take(&mut self, sign: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        if let Some(rest) = rest {
            self.rest = rest;
        }
        rest.is_some()
    }

    /// Takes a sign that must be next.
    pub(super) fn need(&mut self, sign: &str) -> Result<(), Error> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(self.expected(&Sentence::name(&format!("`{sign}`"))))
        }
    }

    /// A name without quotes, if one is next; with `dots` a qualified one.
    pub(super) fn name(&mut self, dots: bool) -> Option<&'t str> {
        self.skip();
        let starts = |c: char| c.is_alphabetic() || c == '_';
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || dots && c == '.';
        if !self.rest.starts_with(starts) {
            return None;
        }
        let end = self.rest.find(|c| !goes_on(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(name)
    }

    /// A text in quotes, if one is next.
    pub(super) fn quoted(&mut self) -> Option<String> {
        self.skip();
        let inside = self.rest.strip_prefix('"')?;
        let mut text = String::new();
        let mut characters = inside.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    self.rest = inside.get(at.checked_add(1)?..)?;
                    return Some(text);
                }
                '\\' => text.extend(characters.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        None
    }

    /// A name with or without quotes, if one is next.
    pub(super) fn any_name(&mut self) -> Option<String> {
        self.quoted().or_else(|| self.name(true).map(str::to_owned))
    }

    /// A number, if one is next.
    pub(super) fn number(&mut self) -> Option<Number> {
        self.skip();
        let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
        let special = ["inf", "nan", "infinity"];
        let end = self.rest.find(|c| !goes_on(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        if !word.starts_with(is_number) && !special.contains(&word) {
            return None;
        }
        let number = word.parse().map(Number::Int).ok();
        let number = number.or_else(|| word.parse().map(Number::Float).ok())?;
        self.rest = rest;
        Some(number)
    }
}
