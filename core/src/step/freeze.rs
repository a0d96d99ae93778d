//! Parameters that are not trained.

use crate::diagnostic::{Diagnostic, Severity};

/// Patterns of names, and what they have matched.
///
/// A pattern is a parameter's name or that of a module around it; `*` stands for any text.
#[derive(Debug)]
pub(super) struct Frozen<'a> {
    patterns: Vec<(&'a str, usize)>,
}

impl<'a> Frozen<'a> {
    pub(super) fn new(patterns: &'a [String]) -> Self {
        Self { patterns: patterns.iter().map(|pattern| (pattern.as_str(), 0)).collect() }
    }

    /// Whether a parameter is frozen.
    pub(super) fn has(&mut self, name: &str) -> bool {
        let mut any = false;
        for (pattern, count) in &mut self.patterns {
            if matches(pattern, name) {
                *count += 1;
                any = true;
            }
        }
        any
    }

    /// Patterns that matched nothing; and whether there is anything left to train.
    pub(super) fn diagnostics(self, nothing_left: bool) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (pattern, count) in &self.patterns {
            if *count == 0 {
                let message = format!(
                    "no parameter is called `{pattern}` or lies in a module of that name, so that it \
                     freezes nothing; write a name, a module's path, or `*` for any text"
                );
                found.push(Diagnostic::new(Severity::Warning, "freeze-matches-nothing", message));
            }
        }
        if nothing_left && !self.patterns.is_empty() {
            let message = "all parameters are frozen: nothing is trained";
            found.push(Diagnostic::new(Severity::Warning, "nothing-to-train", message));
        }
        found
    }
}

/// Whether the pattern is the name, or a module around it.
fn matches(pattern: &str, name: &str) -> bool {
    let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
    ends.filter_map(|at| name.get(..at)).any(|path| glob(pattern, path))
}

/// `*` stands for any text, everything else for itself.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The earliest place for each piece leaves the most text for those behind it.
    for piece in middle.split('*') {
        let Some((_, behind)) = text.split_once(piece) else { return false };
        text = behind;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("layer1", "layer1.0.conv1.weight", true),
            ("layer1", "layer10.0.conv1.weight", false),
            ("layer1.0.conv1.weight", "layer1.0.conv1.weight", true),
            ("layer1.0.conv1.w", "layer1.0.conv1.weight", false),
            ("*.conv1", "layer1.0.conv1.weight", true),
            ("*norm*", "encoder.layer_norm.bias", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("layer?", "layer1.weight", false),
            ("*", "weight", true),
            ("", "weight", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
