//! Patterns of names: a parameter's name or that of a module around it; `*` stands for any text.

/// Whether the pattern is the name, or a module around it.
pub fn matches(pattern: &str, name: &str) -> bool {
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
