//! Changes of lines, words and numbers, for texts.

use super::{Corpus, INPUT_MAX, bytes};
use crate::random::Random;

/// Changes lines and words; once in ten times bytes.
pub fn mutate(corpus: &Corpus, input: &[u8], random: &mut Random) -> Vec<u8> {
    if random.once_in(10) {
        return bytes::mutate(corpus, input, random);
    }
    let text = String::from_utf8_lossy(input).into_owned();
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for _ in 0..random.edits() {
        edit(&mut lines, corpus, random);
    }
    let mut bytes = lines.join("\n").into_bytes();
    bytes.truncate(INPUT_MAX);
    bytes
}

fn edit(lines: &mut Vec<String>, corpus: &Corpus, random: &mut Random) {
    if lines.is_empty() {
        lines.push(String::new());
    }
    let (at, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(12) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, other),
        2 => {
            let until = (at + 1 + random.below(8)).min(lines.len());
            let part = lines[at..until].to_vec();
            lines.splice(other..other, part);
        }
        3 => {
            let donor = String::from_utf8_lossy(corpus.donor(random)).into_owned();
            let others: Vec<&str> = donor.split('\n').collect();
            let from = random.below(others.len());
            let until = (from + 1 + random.below(6)).min(others.len());
            lines.splice(at..at, others[from..until].iter().map(|&line| line.to_owned()));
        }
        4 => {
            let spaces = " ".repeat(random.below(12));
            lines[at] = format!("{spaces}{}", lines[at].trim_start());
        }
        5 => {
            let most = if random.once_in(20) { 3000 } else { 4 };
            let count = random.below(most);
            let line = lines[at].clone();
            lines.splice(at..at, std::iter::repeat_n(line, count));
        }
        6 if random.once_in(8) => lines.truncate(at),
        _ => lines[at] = changed(&lines[at], corpus, random),
    }
}

/// A line with another word or number in it.
pub(super) fn changed(line: &str, corpus: &Corpus, random: &mut Random) -> String {
    let tokens = tokens(line);
    let mut at = random.below(tokens.len());
    if !random.once_in(3) {
        // What keeps a text readable: another number for a number.
        let numbers = (0..tokens.len()).filter(|&at| is_number(tokens[at])).collect::<Vec<_>>();
        if let Some(&number) = random.one_of(&numbers) {
            at = number;
        }
    }
    let Some(&token) = tokens.get(at) else {
        return corpus.word(random).to_owned();
    };
    let new = match random.below(12) {
        0 => String::new(),
        1 => format!("{token}{token}"),
        2 => corpus.word(random).to_owned(),
        3 => {
            let marks = [
                "(", ")", "[", "]", "{", "}", ",", ":", "=", "-", ".", "\"", "'", "#", "&a", "*a",
                "|", "!", "%", "~", " ", "\t", "<", ">", "x",
            ];
            random.one_of(&marks).copied().unwrap_or_default().to_owned()
        }
        _ if is_number(token) && random.once_in(2) => random.below(12).to_string(),
        _ if is_number(token) => number(random),
        4 => tokens.get(random.below(tokens.len())).copied().unwrap_or_default().to_owned(),
        _ => corpus.word(random).to_owned(),
    };
    tokens[..at]
        .iter()
        .copied()
        .chain([new.as_str()])
        .chain(tokens[at + 1..].iter().copied())
        .collect()
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

/// A number as people or programs write it.
pub(super) fn number(random: &mut Random) -> String {
    match random.below(8) {
        0 => ["1e308", "1e400", "-0.0", "nan", "inf", "0.5", "1e-9", "00", "0x10"][random.below(9)]
            .to_owned(),
        1 => format!("-{}", random.size()),
        2 => format!("{}.{}", random.size(), random.below(100)),
        3 => format!("{}{}", random.size(), random.next()),
        _ => random.size().to_string(),
    }
}

/// Words, numbers, and the single characters between them.
fn tokens(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, behind) = rest.split_at(end);
        tokens.push(token);
        rest = behind;
    }
    tokens
}
