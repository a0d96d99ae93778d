//! Examples in documents: each command prints what is shown below it.

use std::path::Path;

use crate::run::highwater;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PROGRAM: &str = "$ target/release/highwater ";
/// Lines that are left out of an example.
const LEFT_OUT: &str = "…";

/// Commands of the `console` blocks of a document, each with what is shown of its output.
fn examples(page: &str) -> Vec<(String, Vec<&str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let mut is_ours = false;
        for line in block.split("```").next().unwrap_or_default().lines() {
            if line.starts_with("$ ") {
                is_ours = line.starts_with(PROGRAM);
                found.extend(
                    line.strip_prefix(PROGRAM).map(|command| (command.to_owned(), Vec::new())),
                );
            } else if is_ours && let Some((_, shown)) = found.last_mut() {
                shown.push(line.trim_end());
            }
        }
    }
    found
}

#[test]
fn commands_print_what_documents_show() {
    for name in ["README.md", "docs/command-line.md"] {
        let page = std::fs::read_to_string(Path::new(ROOT).join(name)).unwrap();
        let examples = examples(&page);
        assert!(!examples.is_empty(), "{name} has no example");
        for (command, shown) in examples {
            let place = |word: &str| {
                let is_model = Path::new(word).extension().is_some_and(|ending| ending == "onnx");
                if is_model { format!("{ROOT}/examples/{word}") } else { word.to_owned() }
            };
            let words: Vec<String> = command.split(' ').map(place).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let outcome = highwater(&words);
            let mut printed = outcome.stdout.lines().map(str::trim_end);
            for line in shown.into_iter().filter(|line| line.trim() != LEFT_OUT) {
                let is_printed = printed.any(|known| known == line);
                assert!(is_printed, "{name}: `{command}` does not print, or not there:\n{line}");
            }
        }
    }
}
