//! Makes text from terminals, logs and web pages searchable.

use crate::bytes::Printed;

/// COUNT: bytes of a text that are read, from its end: what matters stands last.
pub(super) const TEXT_MAX: usize = 1 << 20;

/// What Windows begins a text with that has two bytes for each letter.
pub(super) const UTF16_MARK: [u8; 2] = [0xff, 0xfe];

/// Such a text, or a part of it.
pub(super) fn utf16(bytes: &[u8]) -> String {
    let pairs = bytes.chunks_exact(2);
    let letters: Vec<u16> =
        pairs.filter_map(|pair| Some(u16::from_le_bytes(pair.try_into().ok()?))).collect();
    String::from_utf16_lossy(&letters)
}

/// The end of a text, and whether anything was left out.
pub(super) fn end(text: &str) -> (&str, bool) {
    let mut from = text.len().saturating_sub(TEXT_MAX);
    while !text.is_char_boundary(from) {
        from = from.saturating_add(1);
    }
    (text.get(from..).unwrap_or_default(), from > 0)
}

/// Small letters without blanks, without what loggers and terminals put before each line, and
/// without colours: however a message was wrapped, it reads the same.
pub(super) fn squeeze(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    for line in text.lines() {
        let plain = without_colours(line);
        let kept = without_prefixes(&plain).chars().filter(|letter| !is_decoration(*letter));
        squeezed.extend(kept.map(|letter| letter.to_ascii_lowercase()));
    }
    squeezed
}

fn is_decoration(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "`*│┃|╭╮╰╯─❱\u{200b}\u{feff}".contains(letter)
}

/// A line without escape sequences: `ESC [ … letter`.
pub(super) fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' && letters.next_if_eq(&'[').is_some() {
            // The last letter ends the sequence.
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// A line behind `[rank0]:`, `(Worker pid=7)`, `2025-11-12T11:25:13.49Z`, `>`, as far as there are any.
fn without_prefixes(line: &str) -> &str {
    let mut rest = line;
    loop {
        let trimmed = rest
            .trim_start_matches(|letter: char| letter.is_whitespace() || "│┃|>#".contains(letter));
        let behind = behind_bracket(trimmed).or_else(|| behind_time(trimmed)).unwrap_or(trimmed);
        if behind.len() == rest.len() {
            return rest;
        }
        rest = behind;
    }
}

fn behind_bracket(line: &str) -> Option<&str> {
    /// COUNT: bytes of a prefix, at most.
    const PREFIX_MAX: usize = 80;
    let (inner, rest) = if let Some(inner) = line.strip_prefix('[') {
        inner.split_once(']')?
    } else {
        let (inner, rest) = line.strip_prefix('(')?.split_once(')')?;
        (inner.contains("pid=") || inner.contains("rank")).then_some((inner, rest))?
    };
    let rest = rest.strip_prefix("<stderr>").unwrap_or(rest);
    (inner.len() <= PREFIX_MAX).then(|| rest.trim_start_matches([':', ' ']))
}

/// A date, and a time with it.
fn behind_time(line: &str) -> Option<&str> {
    let (first, rest) = line.split_once(' ')?;
    let mut parts = first.split('-');
    let mut digits = |count: usize| {
        parts.next().is_some_and(|part| {
            part.len() >= count && part.bytes().take(count).all(|byte| byte.is_ascii_digit())
        })
    };
    if !(digits(4) && digits(2) && digits(2)) {
        return None;
    }
    let time = |word: &&str| {
        word.contains(':')
            && word.bytes().all(|byte| byte.is_ascii_digit() || b":.,".contains(&byte))
    };
    let after = rest.split_once(' ').filter(|(word, _)| time(word));
    Some(after.map_or(rest, |(_, after)| after))
}

/// The size at the beginning of squeezed text: `23.64gib`.
pub(super) fn size_at(text: &str) -> Option<Printed> {
    const UNITS: [&str; 9] = ["tib", "gib", "mib", "kib", "bytes", "byte", "gb", "mb", "kb"];
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, rest) = text.split_at_checked(digits)?;
    let unit = UNITS.iter().find(|unit| rest.starts_with(**unit))?;
    Printed::read(&format!("{number}{unit}"))
}

/// The size right behind a marker.
pub(super) fn size_after(text: &str, marker: &str) -> Option<Printed> {
    size_at(text.split_once(marker)?.1)
}

/// The size right before a marker.
pub(super) fn size_before(text: &str, marker: &str) -> Option<Printed> {
    let before = text.split_once(marker)?.0;
    let number = before.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = before.get(number.len()..)?;
    let start = number.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let digits = number.get(start.len()..)?.trim_start_matches('.');
    Printed::read(&format!("{digits}{unit}"))
}

/// The number right behind a marker.
pub(super) fn number_after(text: &str, marker: &str) -> Option<u64> {
    number_at(text.split_once(marker)?.1)
}

/// The number at the beginning.
pub(super) fn number_at(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_wraps_disappear() {
        let cases = [
            ("[rank0]: Tried to\n[rank0]:  allocate", "triedtoallocate"),
            ("2025-11-12T11:25:13.4961658Z a\n2025-11-12T11:25:13.49Z b", "ab"),
            ("2024-06-22 15:13:25,079 tried", "tried"),
            ("(RayTrainWorker pid=12, ip=1.2.3.4) a", "a"),
            ("(GPU 0; 1 GiB", "(gpu0;1gib"),
            ("[1,0]<stderr>: x\n> y\n│ z │", "xyz"),
            ("\u{1b}[31mCUDA\u{1b}[0m out", "cudaout"),
        ];
        for (text, expected) in cases {
            assert_eq!(squeeze(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_stand_before_and_behind_words() {
        let text = "triedtoallocate20.00mib.gpu0isfree.1.17giballowed;1200bytesfree";
        assert_eq!(size_after(text, "triedtoallocate"), Printed::read("20.00 MiB"));
        assert_eq!(size_before(text, "allowed;"), Printed::read("1.17 GiB"));
        assert_eq!(size_before(text, "free.1"), None);
        assert_eq!(number_after(text, "gpu"), Some(0));
    }
}
