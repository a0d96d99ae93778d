//! Which files are published as pages of the documentation, at which address, and where the links in them lead.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::markdown;
use crate::place;
use crate::process::{Failure, Result, While as _};

/// The address of the first page, which lists the others.
pub(super) const INDEX: &str = "docs/index.html";

/// The folder of the checkout whose Markdown is published as a whole.
const FOLDER: &str = "docs";

/// Files elsewhere that are published too, and their addresses. One that is not there is left out.
const ELSEWHERE: [(&str, &str); 6] = [
    ("ARCHITECTURE.md", "docs/architecture.html"),
    ("CHANGELOG.md", "docs/changelog.html"),
    ("tests/accuracy.txt", "docs/results/accuracy.html"),
    ("tests/measured.txt", "docs/results/measured.html"),
    ("tests/profiles.txt", "docs/results/profiles.html"),
    ("tests/scoreboard.csv", "docs/results/scoreboard.html"),
];

/// What is published.
#[derive(Debug)]
pub(super) struct Set {
    /// The checkout.
    pub(super) root: PathBuf,
    /// The address of each file that is published as a page, below the root of the page.
    pub(super) pages: BTreeMap<String, String>,
    /// Where the sources are on the web, if `Cargo.toml` states it.
    pub(super) repository: Option<String>,
}

/// A link from one page to another, to be checked once all pages are read.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    /// The file that links.
    pub(super) source: String,
    /// The line of the link.
    pub(super) line: usize,
    /// The page that it leads to.
    pub(super) address: String,
    /// The id on that page; empty for its beginning.
    pub(super) anchor: String,
    /// The words of the link.
    pub(super) label: String,
    /// The heading above it.
    pub(super) section: String,
}

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A page of the documentation, and the id there.
    Page(String, String),
    /// A file of the checkout that is published as it is.
    File(String),
    /// Another site.
    Web(String),
    /// A source file that is not published: there is nothing to link to.
    Nowhere,
}

impl Set {
    /// Finds what is published.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let doing = "listing the documentation";
        let mut pages = BTreeMap::new();
        for file in place::files(&root.join(FOLDER)).during(doing)? {
            let name = file.strip_prefix(root).during(doing)?;
            let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
            let name = parts.join("/");
            if let Some(stem) = name.strip_suffix(".md") {
                let address = stem.strip_suffix("README").map(|folder| format!("{folder}index"));
                let address = address.unwrap_or_else(|| stem.to_owned());
                pages.insert(name.clone(), format!("{address}.html"));
            }
        }
        let there = ELSEWHERE.into_iter().filter(|(file, _)| root.join(file).is_file());
        pages.extend(there.map(|(file, address)| (file.to_owned(), address.to_owned())));
        let workspace = fs::read_to_string(root.join("Cargo.toml")).during("reading Cargo.toml")?;
        let repository = workspace.lines().find_map(|line| line.strip_prefix("repository = \""));
        let repository = repository.and_then(|rest| rest.strip_suffix('"'));
        let repository = repository.map(|address| address.trim_end_matches('/').to_owned());
        Ok(Self { root: root.to_owned(), pages, repository })
    }

    /// Finds where a link in a file leads.
    ///
    /// # Errors
    /// It leads to a file that does not exist.
    pub(super) fn target(&self, source: &str, line: usize, link: &str) -> Result<Target> {
        if link.contains("://") || link.starts_with("mailto:") {
            return Ok(Target::Web(link.to_owned()));
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = if path.is_empty() { source.to_owned() } else { joined(source, path) };
        if let Some(address) = self.pages.get(&path) {
            return Ok(Target::Page(address.clone(), anchor.to_owned()));
        }
        let file = self.root.join(&path);
        if !file.exists() {
            return Err(Failure::new(format!("{source}:{line}: there is no file {path}")));
        }
        if path.starts_with(&format!("{FOLDER}/")) {
            return Ok(Target::File(path));
        }
        if is_markdown(&path) && !anchor.is_empty() {
            let text = fs::read_to_string(&file).during(format_args!("reading {path}"))?;
            if !markdown::ids(&text).contains(anchor) {
                let missing = format!("{source}:{line}: {path} has no heading #{anchor}");
                return Err(Failure::new(missing));
            }
        }
        let at = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
        let kind = if file.is_dir() { "tree" } else { "blob" };
        let on_the_web = |site: &String| Target::Web(format!("{site}/{kind}/main/{path}{at}"));
        Ok(self.repository.as_ref().map_or(Target::Nowhere, on_the_web))
    }
}

/// Whether a file is Markdown.
pub(super) fn is_markdown(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|ending| ending == "md")
}

/// The address of a file that is published as it is.
pub(super) fn copied_to(file: &str) -> String {
    match file.strip_prefix("tests/") {
        Some(name) => format!("{FOLDER}/results/{name}"),
        None => file.to_owned(),
    }
}

/// A path from the folder of a file.
fn joined(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The relative address that leads from one page to another.
pub(super) fn relative(from: &str, to: &str) -> String {
    let common = from.split('/').zip(to.split('/')).take_while(|(a, b)| a == b).count();
    let levels = from.split('/').count();
    // The last part is the page itself, also where both are the same.
    let common = common.min(levels - 1);
    let ups = "../".repeat(levels - 1 - common);
    format!("{ups}{}", to.split('/').skip(common).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Set, Target, relative};
    use crate::place;

    /// What is published, with or without a repository on the web.
    pub(in super::super) fn set(repository: Option<&str>) -> Set {
        let set = Set::read(&place::root()).expect("the documentation is there");
        Set { repository: repository.map(str::to_owned), ..set }
    }

    #[test]
    fn links_lead_to_pages_files_or_sources() {
        let page =
            |address: &str, anchor: &str| Target::Page(address.to_owned(), anchor.to_owned());
        let cases = [
            ("inputs.md", page("docs/inputs.html", "")),
            ("inputs.md#traces", page("docs/inputs.html", "traces")),
            ("#here", page("docs/accuracy.html", "here")),
            ("../ARCHITECTURE.md", page("docs/architecture.html", "")),
            ("README.md", page("docs/index.html", "")),
            ("../tests/accuracy.txt", page("docs/results/accuracy.html", "")),
            ("spec.schema.json", Target::File("docs/spec.schema.json".to_owned())),
            ("https://a.org/b#c", Target::Web("https://a.org/b#c".to_owned())),
            (
                "../core/src/device.rs",
                Target::Web("https://x.org/y/blob/main/core/src/device.rs".to_owned()),
            ),
            ("../core", Target::Web("https://x.org/y/tree/main/core".to_owned())),
        ];
        for (link, expected) in cases {
            let set = set(Some("https://x.org/y"));
            let found = set.target("docs/accuracy.md", 1, link).expect("it leads somewhere");
            assert_eq!(found, expected, "{link}");
        }
        let found = set(None).target("docs/accuracy.md", 1, "../core/src/device.rs");
        assert_eq!(found.expect("the file is there"), Target::Nowhere);
    }

    #[test]
    fn broken_links_are_refused() {
        let cases = [
            ("no.md", "docs/accuracy.md:3: there is no file docs/no.md"),
            ("../README.md#no", "docs/accuracy.md:3: README.md has no heading #no"),
        ];
        for (link, expected) in cases {
            let failure = set(None).target("docs/accuracy.md", 3, link).expect_err(link);
            assert_eq!(failure.to_string(), expected);
        }
    }

    #[test]
    fn addresses_are_relative() {
        let cases = [
            ("docs/a.html", "docs/b.html", "b.html"),
            ("docs/a.html", "docs/a.html", "a.html"),
            ("docs/lessons/a.html", "docs/b.html", "../b.html"),
            ("docs/a.html", "docs/lessons/b.html", "lessons/b.html"),
            ("docs/a.html", "x.css", "../x.css"),
        ];
        for (from, to, expected) in cases {
            assert_eq!(relative(from, to), expected, "{from} to {to}");
        }
    }
}
