//! `CHANGELOG.md` and the version of a release: see docs/releasing.md.

use std::fs;

use crate::place;
use crate::process::{Failure, Result, While as _};

/// The one version of page, command line and Python package.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints what `CHANGELOG.md` has about this version, as the text of its release.
///
/// # Errors
/// The tag is not this version's, or the file has no section for it that is ready.
pub(crate) fn notes(tag: &str) -> Result<()> {
    if tag.strip_prefix('v') != Some(VERSION) {
        return Err(Failure::new(format!(
            "the tag {tag} is not v{VERSION}, the version of the workspace in Cargo.toml"
        )));
    }
    println!("{}", ready(&read()?, VERSION)?);
    Ok(())
}

/// What a text such as `CHANGELOG.md` has about the version that is to be released.
fn ready<'a>(text: &'a str, version: &str) -> Result<&'a str> {
    let (later, released): (Vec<_>, Vec<_>) =
        sections(text).partition(|section| section.name == UNRELEASED);
    if later.iter().any(|section| !section.text.trim().is_empty()) {
        return Err(Failure::new(format!(
            "CHANGELOG.md: move what is under `{UNRELEASED}` to the section of {version}"
        )));
    }
    match released.first() {
        Some(section) if section.name == version && is_date(section.date) => {
            Ok(section.text.trim())
        }
        _ => Err(Failure::new(format!(
            "CHANGELOG.md: the newest version must be `## [{version}] - YEAR-MONTH-DAY`"
        ))),
    }
}

const UNRELEASED: &str = "Unreleased";

/// A version in `CHANGELOG.md`.
#[derive(Debug, PartialEq)]
struct Section<'a> {
    /// `0.1.0`, or [`UNRELEASED`].
    name: &'a str,
    /// When it was released; empty if it was not.
    date: &'a str,
    /// What changed.
    text: &'a str,
}

fn read() -> Result<String> {
    fs::read_to_string(place::root().join("CHANGELOG.md")).during("reading CHANGELOG.md")
}

/// The versions, the newest first.
fn sections(text: &str) -> impl Iterator<Item = Section<'_>> {
    text.split("\n## ").skip(1).map(|section| {
        let (heading, text) = section.split_once('\n').unwrap_or((section, ""));
        let (name, date) = heading.split_once(" - ").unwrap_or((heading, ""));
        Section { name: name.trim_matches(['[', ']']), date, text }
    })
}

/// Whether a text is a date such as 2026-01-31.
fn is_date(text: &str) -> bool {
    let is_part = |(part, digits): (&str, usize)| {
        part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split('-').count() == 3 && text.split('-').zip([4, 2, 2]).all(is_part)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{UNRELEASED, VERSION, is_date, read, ready, sections};

    #[test]
    fn the_newest_change_is_of_this_version_or_unreleased() {
        let text = read().expect("the tree has CHANGELOG.md");
        let all: Vec<_> = sections(&text).collect();
        let newest = all.first().expect("it has a version");
        assert!([UNRELEASED, VERSION].contains(&newest.name), "{} is newest", newest.name);
        for section in &all {
            let is_released = section.name != UNRELEASED;
            assert_eq!(is_date(section.date), is_released, "{section:?}");
            let has_text = !section.text.trim().is_empty();
            assert!(has_text || !is_released, "{} has no text", section.name);
        }
        let versions: Vec<Vec<u32>> = all
            .iter()
            .filter(|section| section.name != UNRELEASED)
            .map(|section| {
                section.name.split('.').map(|part| part.parse().expect("a number")).collect()
            })
            .collect();
        assert!(versions.is_sorted_by(|newer, older| newer > older), "{versions:?}");
        let this = VERSION.split('.').map(|part| part.parse().expect("a number")).collect();
        assert!(versions.iter().all(|version| *version <= this), "{versions:?}, not {VERSION}");
    }

    #[test]
    fn no_crate_has_a_version_of_its_own() {
        let root = crate::place::root();
        let core = ["core", "core/base", "core/formats", "core/engine", "core/pack"];
        let others = ["draw", "cli", "app", "xtask", "fuzz", "python"];
        let folders = core.into_iter().chain(others);
        let manifests: Vec<_> = folders.map(|it| root.join(it).join("Cargo.toml")).collect();
        for manifest in manifests.iter().filter(|manifest| manifest.is_file()) {
            let text = std::fs::read_to_string(manifest).expect("a manifest is a text");
            assert!(text.contains("\nversion.workspace = true\n"), "{}", manifest.display());
        }
        let wheel = root.join("python/pyproject.toml");
        if Path::new(&wheel).is_file() {
            let text = std::fs::read_to_string(wheel).expect("it is a text");
            assert!(text.contains("dynamic = [\"version\""), "the wheel's version is Cargo's");
        }
    }

    #[test]
    fn a_section_has_a_name_a_date_and_a_text() {
        let text = "# Changes\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-31\n\n- It works.\n";
        let found: Vec<_> = sections(text).map(|it| (it.name, it.date, it.text.trim())).collect();
        let expected = [(UNRELEASED, "", ""), ("1.2.0", "2026-01-31", "- It works.")];
        assert_eq!(found, expected);
        assert!(!is_date("2026-1-31") && !is_date("2026-01") && !is_date("soon"));
    }

    #[test]
    fn a_version_is_ready_where_nothing_is_left_unreleased() {
        let dated =
            "\n## [1.2.0] - 2026-01-31\n\n- It works.\n\n## [1.1.0] - 2025-12-31\n\n- Old.\n";
        let notes = |text: &str| ready(text, "1.2.0").ok().map(str::to_owned);
        assert_eq!(notes(dated).as_deref(), Some("- It works."));
        assert_eq!(notes(&format!("\n## [Unreleased]\n{dated}")).as_deref(), Some("- It works."));
        let cases = [
            format!("\n## [Unreleased]\n\n- More.\n{dated}"),
            "\n## [1.2.0]\n\n- It works.\n".to_owned(),
            "\n## [1.1.0] - 2025-12-31\n\n- Old.\n".to_owned(),
        ];
        for text in cases {
            assert_eq!(notes(&text), None, "{text}");
        }
    }
}
