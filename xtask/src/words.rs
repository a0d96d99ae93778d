//! Checks the words of documentation, module comments and messages.
//!
//! [`FORBIDDEN`] has phrases that readers have to guess at, each with what to write instead.

/// Phrases in lower case, each with what to write instead.
type Phrases = &'static [(&'static str, &'static str)];

/// What no text for readers has.
const FORBIDDEN: Phrases = &[
    ("told", "report, state, recorded, known"),
    ("tells", "report, state, show"),
    ("said", "report, state"),
    ("says", "report, state, describe, have"),
    ("does not say", "does not state"),
    ("so many of", "N of M"),
    ("leave off", "cancel"),
    ("leaves off", "cancel"),
    ("let go", "free, release"),
    ("lets go", "free, release"),
    ("put back", "restore, release"),
    ("given back", "free, release"),
    ("beside", "next to, compare, in addition to"),
    ("taken to be", "assumed"),
    ("takes to be", "assumes"),
    ("rest on", "basis, depend on"),
    ("rests on", "basis, depend on"),
    ("no more is known", "only … is known"),
    ("nothing is known of", "unknown"),
    ("is not said", "unknown, not given"),
    ("is born", "is allocated"),
    ("takes apart", "decompose, split"),
    ("taken apart", "decomposed, split"),
    ("made-up", "generated"),
    ("at its word", "as it is"),
    ("whatever", "any, everything that"),
    ("held by a name", "referenced by a variable"),
    ("the least that", "the smallest change that"),
    ("such that it has not", "two sentences"),
];

/// What texts on a terminal or on the page do not have either; it is a term of the code.
const FORBIDDEN_IN_MESSAGES: Phrases =
    &[("lever", "change, suggestion"), ("levers", "changes, suggestions")];

/// Folders whose Rust sources have texts for users.
const SOURCES: &[&str] = &[
    "core/base/src/",
    "core/formats/src/",
    "core/engine/src/",
    "core/src/",
    "cli/src/",
    "app/src/",
    "draw/src/",
    "xtask/src/",
];

/// Texts of others, and lists of forbidden words.
const EXEMPT: &[&str] = &["core/engine/src/recover/tests", "xtask/src/words.rs"];

/// The forbidden phrases of a tracked file: in Markdown and notebooks, in the page's translations, and in Rust's module
/// comments and string literals outside of tests.
pub(crate) fn findings(name: &str, text: &str) -> Vec<String> {
    if EXEMPT.iter().any(|exempt| name.starts_with(exempt)) || name.contains("/tests/it/") {
        return Vec::new();
    }
    let is_source = SOURCES.iter().any(|folder| name.starts_with(folder));
    match name.rsplit('.').next().unwrap_or_default() {
        "md" | "ipynb" => found(&prose(text), &[FORBIDDEN]),
        "json" if name.starts_with("public/languages/") => {
            found(text, &[FORBIDDEN, FORBIDDEN_IN_MESSAGES])
        }
        "rs" if is_source => {
            let head: String = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
            let mut findings = found(&head, &[FORBIDDEN]);
            findings.extend(found(&messages(text).join("\n"), &[FORBIDDEN, FORBIDDEN_IN_MESSAGES]));
            findings
        }
        _ => Vec::new(),
    }
}

/// Markdown without its code.
fn prose(text: &str) -> String {
    let outside = text.split("```").step_by(2).collect::<Vec<_>>().join("\n");
    outside.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn found(text: &str, forbidden: &[Phrases]) -> Vec<String> {
    // A phrase may be broken over two lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let phrases = forbidden.iter().copied().flatten();
    let hits = phrases.filter(|(phrase, _)| has_phrase(&text, phrase));
    hits.map(|(phrase, instead)| format!("has “{phrase}”: write {instead}")).collect()
}

/// Whether a phrase stands in a text as whole words. Names such as `lever-apply` are one word.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    text.match_indices(phrase).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let mut behind = text[start + phrase.len()..].chars();
        let ends = match behind.next() {
            // A full stop may end a sentence or a name's first part.
            Some('.') => !behind.next().is_some_and(char::is_alphanumeric),
            next => !next.is_some_and(is_part),
        };
        ends && !before.is_some_and(is_part)
    })
}

/// The string literals of Rust code outside of tests that are longer than a word. Lines that end in a
/// backslash are joined.
fn messages(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut messages = Vec::new();
    let mut rest = code.as_str();
    while let Some((before, behind)) = rest.split_once('"') {
        // The literal of this very sign: '"'.
        if before.ends_with(['\'', '\\']) && behind.starts_with('\'') {
            rest = &behind[1..];
            continue;
        }
        let end = end_of_literal(behind);
        let literal = behind[..end].replace("\\\n", " ");
        if literal.contains(' ') {
            messages.push(literal);
        }
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    messages
}

/// COUNT: bytes of a literal up to its closing sign.
fn end_of_literal(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{findings, has_phrase, messages};

    #[test]
    fn forbidden_phrases_are_found_where_readers_see_them() {
        let cases = [
            ("docs/a.md", "What is told is kept.", 1),
            ("docs/a.md", "It takes 4 GiB, so\nmany of them.", 1),
            ("docs/a.md", "Run `--beside FILE`.\n```\nis told\n```\n", 0),
            ("docs/a.md", "Take it or leave\noff.", 1),
            ("cli/src/a.rs", "//! What is told.\nfn f() {}", 1),
            ("cli/src/a.rs", "/// What is told.\nfn told() { g(\"told\") }", 0),
            ("cli/src/a.rs", "//! A.\nf(\"it is told \\\n    to run\");", 1),
            ("cli/src/a.rs", "//! A.\n#[cfg(test)]\nmod tests { f(\"it is told\"); }", 0),
            ("app/src/a.rs", "//! A.\nf(\"Pull a lever\"); g(\"button lever-apply\");", 1),
            ("docs/levers.md", "A lever is a change.", 0),
            ("public/languages/a.json", "{\"It says so\": \"…\"}", 1),
            ("core/tests/it/a.rs", "//! What is told.", 0),
        ];
        for (name, text, count) in cases {
            assert_eq!(findings(name, text).len(), count, "{name}: {text}");
        }
    }

    #[test]
    fn phrases_are_whole_words() {
        let cases = [
            ("it is said.", "said", true),
            ("besides", "beside", false),
            ("button lever-apply", "lever", false),
            ("operator.said.x", "said", false),
        ];
        for (text, phrase, expected) in cases {
            assert_eq!(has_phrase(text, phrase), expected, "{text}");
        }
    }

    #[test]
    fn messages_are_literals_of_several_words() {
        let code = "f('\"', \"one\", \"two words\", \"a \\\"quoted\\\" word\"); // \"behind it\"\n// \"a note\"";
        assert_eq!(messages(code), ["two words", "a \\\"quoted\\\" word", "behind it"]);
    }
}
