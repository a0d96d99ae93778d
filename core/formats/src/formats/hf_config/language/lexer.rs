//! Text → tokens; indentation becomes tokens too.

use super::mistake;
use crate::error::Error;
use crate::sentence::Sentence;

/// A piece of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'t> {
    Name(&'t str),
    Text(&'t str),
    Int(i64),
    Float(f64),
    /// A sign, or a word that is none's name.
    Sign(&'static str),
    NewLine,
    Indent,
    Dedent,
    End,
}

/// Signs and reserved words; of those with the same start, the longest first.
const SIGNS: [&str; 23] = [
    "**", "//", "==", "!=", "<=", ">=", "+=", "+", "-", "*", "/", "%", "@", "<", ">", "=", "(",
    ")", "[", "]", ",", ".", ":",
];
const WORDS: [&str; 16] = [
    "and", "class", "def", "del", "elif", "else", "False", "for", "if", "in", "is", "None", "not",
    "or", "return", "True",
];

/// The tokens of a text, each with its line.
pub(super) fn tokens<'t>(file: &str, text: &'t str) -> Result<Vec<(Token<'t>, usize)>, Error> {
    let mut tokens = Vec::new();
    let mut indents = vec![0];
    // COUNT: brackets that are open; inside them lines do not end.
    let mut open = 0_usize;
    let mut last = 1;
    for (index, line) in text.lines().enumerate() {
        let number = index.saturating_add(1);
        last = number;
        let code = line.trim_start_matches(' ');
        if code.is_empty() || code.starts_with('#') {
            continue;
        }
        if open == 0 {
            let indent = line.len().saturating_sub(code.len());
            if indent > indents.last().copied().unwrap_or(0) {
                indents.push(indent);
                tokens.push((Token::Indent, number));
            }
            while indents.last().is_some_and(|&around| around > indent) {
                indents.pop();
                tokens.push((Token::Dedent, number));
            }
            if indents.last() != Some(&indent) {
                return Err(mistake(file, number, &say!("indented unlike the lines around it")));
            }
        }
        let mut rest = code;
        while let Some((token, behind)) = next(rest).map_err(|what| mistake(file, number, &what))? {
            match token {
                Token::Sign("(" | "[") => open = open.saturating_add(1),
                Token::Sign(")" | "]") => open = open.saturating_sub(1),
                _ => {}
            }
            tokens.push((token, number));
            rest = behind;
        }
        if open == 0 {
            tokens.push((Token::NewLine, number));
        }
    }
    for _ in 1..indents.len() {
        tokens.push((Token::Dedent, last));
    }
    tokens.push((Token::End, last));
    Ok(tokens)
}

/// The first token of a line, and what is behind it.
fn next(line: &str) -> Result<Option<(Token<'_>, &str)>, Sentence> {
    let line = line.trim_start();
    let Some(first) = line.chars().next().filter(|&first| first != '#') else { return Ok(None) };
    if first == '"' {
        let inside = line.strip_prefix('"').unwrap_or(line);
        let (text, rest) = inside.split_once('"').ok_or_else(|| say!("a text has no end"))?;
        return Ok(Some((Token::Text(text), rest)));
    }
    if first.is_ascii_digit() {
        let (number, rest) = split(line, |c| c.is_ascii_digit() || c == '.' || c == '_');
        let plain = number.replace('_', "");
        let token = match plain.parse() {
            Ok(n) => Some(Token::Int(n)),
            Err(_) => plain.parse().ok().map(Token::Float),
        };
        return token
            .map(|token| Some((token, rest)))
            .ok_or_else(|| say!("`{number}` is no number", number));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let (name, rest) = split(line, |c| c.is_ascii_alphanumeric() || c == '_');
        let word = WORDS.iter().find(|word| **word == name);
        return Ok(Some((word.map_or(Token::Name(name), |word| Token::Sign(word)), rest)));
    }
    let sign = SIGNS.iter().find_map(|sign| Some((Token::Sign(sign), line.strip_prefix(sign)?)));
    sign.map(Some).ok_or_else(|| say!("`{first}` means nothing here", first))
}

/// The start of a text whose characters are such, and the rest.
fn split(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}
