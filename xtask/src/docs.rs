//! The pages of the documentation, below `docs/` of the page: Markdown, tables of results, lessons, and search.
//!
//! | module | concern |
//! |---|---|
//! | [`content`] | what a page contains, before it has a frame |
//! | [`set`] | which files are published, at which address, and where links lead |
//! | [`markdown`] | Markdown as a page |
//! | [`tables`] | tables of results as pages |
//! | [`lessons`] | the lessons of the estimator as pages |
//! | [`frame`] | what is around each page |
//! | [`index`] | the texts that search looks through |

mod content;

mod set;

mod markdown;

mod tables;

mod lessons;

mod frame;

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::process::{Failure, Result, While as _};
use crate::site::{self, Files};

use content::Content;
use frame::{Assets, Group};
use markdown::Converted;
use set::{INDEX, Reference, Set};

/// Style sheets of all pages of the documentation, in their order.
const STYLES: [&str; 4] = ["type.css", "tokens.css", "base.css", "docs.css"];

/// All pages by their addresses, and the groups in which they are listed.
struct Pages {
    contents: BTreeMap<String, Content>,
    groups: Vec<Group>,
    /// Files of the checkout that the pages show or link to.
    copied: BTreeSet<String>,
}

/// Adds the pages of the documentation to the files of the page.
///
/// # Errors
/// A file cannot be read, a link leads nowhere, or `docs/README.md` does not list a page.
pub(crate) fn add(root: &Path, files: &mut Files) -> Result<()> {
    let Pages { contents, groups, copied } = pages(root)?;
    let read = |name: &str| fs::read(root.join(name)).during(format_args!("reading {name}"));
    let text = |name: &str| String::from_utf8(read(name)?).during(format_args!("reading {name}"));
    let mut styles = String::new();
    for name in STYLES {
        styles.push_str(&site::trimmed(&text(&format!("styles/{name}"))?));
    }
    let mut asset = |name: &str, bytes: Vec<u8>| {
        let name = site::hashed(name, &bytes);
        files.insert(name.clone(), bytes);
        name
    };
    let assets = Assets {
        style: asset("docs.css", styles.into_bytes()),
        script: asset("docs.js", site::trimmed(&text("public/docs.js")?).into_bytes()),
        index: asset("docs-search.json", index::json(&contents)?.into_bytes()),
    };
    for (address, content) in &contents {
        let page = frame::page(address, content, &groups, &assets);
        files.insert(address.clone(), page.into_bytes());
    }
    for file in copied {
        let bytes = read(&file)?;
        files.insert(set::copied_to(&file), bytes);
    }
    Ok(())
}

/// Reads all pages.
fn pages(root: &Path) -> Result<Pages> {
    let set = Set::read(root)?;
    let mut pages =
        Pages { contents: BTreeMap::new(), groups: Vec::new(), copied: BTreeSet::new() };
    let mut references = Vec::new();
    for (source, address) in &set.pages {
        let text =
            fs::read_to_string(root.join(source)).during(format_args!("reading {source}"))?;
        let content = if set::is_markdown(source) {
            let Converted { content, references: found, copied } =
                markdown::convert(source, &text, &set)?;
            pages.copied.extend(copied);
            references.extend(found);
            content
        } else {
            pages.copied.extend(tables::offered(source));
            tables::convert(source, &text)?
        };
        pages.contents.insert(address.clone(), content);
    }
    check_anchors(&pages.contents, &references)?;
    pages.groups = groups(&set, &references)?;
    let lessons = lessons::pages(root)?;
    // No file of the checkout is a lesson to which the first page could link.
    let links = lessons.iter().map(|(at, it)| (it.title().to_owned(), at.clone())).collect();
    let group = Group { title: "Lessons".to_owned(), links };
    if let Some(index) = pages.contents.get_mut(INDEX) {
        index.heading(2, &group.title);
        index.html(&frame::links(INDEX, &group.links));
    }
    pages.groups.push(group);
    pages.contents.extend(lessons);
    Ok(pages)
}

/// Checks that the sections exist to which links lead.
fn check_anchors(contents: &BTreeMap<String, Content>, references: &[Reference]) -> Result<()> {
    for Reference { source, line, address, anchor, .. } in references {
        let Some(content) = contents.get(address) else {
            return Err(Failure::new(format!("{source}:{line}: there is no page {address}")));
        };
        if !anchor.is_empty() && !content.has(anchor) {
            let page = content.title();
            return Err(Failure::new(format!(
                "{source}:{line}: the page “{page}” has no heading #{anchor}"
            )));
        }
    }
    Ok(())
}

/// The lists of pages: the sections of `docs/README.md` with the links in them.
fn groups(set: &Set, references: &[Reference]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut listed = BTreeSet::from([INDEX]);
    for reference in references.iter().filter(|reference| reference.source == "docs/README.md") {
        if !listed.insert(&reference.address) {
            continue;
        }
        if groups.last().is_none_or(|group| group.title != reference.section) {
            groups.push(Group { title: reference.section.clone(), links: Vec::new() });
        }
        let link = (content::capitalised(&reference.label), reference.address.clone());
        if let Some(group) = groups.last_mut() {
            group.links.push(link);
        }
    }
    match set.pages.iter().find(|(_, address)| !listed.contains(address.as_str())) {
        Some((source, _)) => Err(Failure::new(format!("docs/README.md does not list {source}"))),
        None => Ok(groups),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{add, check_anchors, content::Content, pages, set::Reference};
    use crate::place;
    use crate::site::Files;

    #[test]
    fn every_page_is_listed_and_every_link_leads_somewhere() {
        let pages = pages(&place::root()).expect("the documentation has no broken link");
        for address in ["docs/index.html", "docs/inputs.html", "docs/results/accuracy.html"] {
            assert!(pages.contents.contains_key(address), "{address}");
        }
        let links: Vec<_> = pages.groups.iter().flat_map(|group| &group.links).collect();
        assert_eq!(links.len() + 1, pages.contents.len(), "all but the index itself");
    }

    #[test]
    fn pages_obey_the_policy_of_the_page() {
        let mut files = Files::new();
        add(&place::root(), &mut files).expect("the pages are built");
        let pages = files.iter().filter(|(_, bytes)| bytes.starts_with(b"<!doctype html>"));
        for (name, bytes) in pages {
            let page = String::from_utf8_lossy(bytes);
            assert_eq!(page.matches("<h1").count(), 1, "{name}: one heading for the page");
            for inline in [" style=", "<style", "javascript:", " onclick="] {
                assert!(!page.contains(inline), "{name}: {inline}");
            }
            let scripts = page.matches("<script").count();
            assert_eq!(scripts, page.matches("<script src=").count(), "{name}");
        }
    }

    #[test]
    fn a_link_to_a_missing_heading_is_refused() {
        let mut content = Content::default();
        content.begin(1, "Inputs", "inputs".to_owned());
        let contents = BTreeMap::from([("docs/inputs.html".to_owned(), content)]);
        let to = |anchor: &str| Reference {
            source: "docs/a.md".to_owned(),
            line: 7,
            address: "docs/inputs.html".to_owned(),
            anchor: anchor.to_owned(),
            label: String::new(),
            section: String::new(),
        };
        assert!(check_anchors(&contents, &[to("inputs"), to("")]).is_ok());
        let failure = check_anchors(&contents, &[to("none")]).expect_err("there is none");
        assert_eq!(failure.to_string(), "docs/a.md:7: the page “Inputs” has no heading #none");
    }
}
