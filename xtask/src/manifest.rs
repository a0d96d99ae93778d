//! The list of the page's parts in `index.html`: its links with `data-build`.

use std::collections::BTreeMap;
use std::ops::Range;

use html5gum::{DefaultEmitter, Token, Tokenizer};

use crate::process::{Failure, Result};

/// A link of the page that the build replaces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Where it stands in `index.html`, in bytes.
    pub(crate) span: Range<usize>,
    /// What it asks for.
    pub(crate) asset: Asset,
}

/// What a link asks for. Files are named from the root of the checkout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asset {
    /// A style sheet.
    Style(String),
    /// The page's icon, and its type.
    Icon(String, Option<String>),
    /// A file to copy, and the folder of the page that it goes to: empty, or ending in a slash.
    File(String, String),
    /// A folder to copy, and its name in the page.
    Folder(String, String),
    /// The program to compile.
    Program(Program),
}

/// The program of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its package's `Cargo.toml`.
    pub(crate) manifest: String,
    /// Its name.
    pub(crate) binary: String,
    /// Cargo's profile when it is built small.
    pub(crate) small: String,
    /// Cargo's profile when it is built quickly.
    pub(crate) quick: String,
}

/// The attributes of an element.
type Attributes = BTreeMap<String, String>;

/// Reads the links of `index.html` that have `data-build`, in their order.
///
/// # Errors
/// One of them asks for something that this build does not do.
pub(crate) fn links(page: &str) -> Result<Vec<Link>> {
    let mut emitter = DefaultEmitter::<usize>::new_with_span();
    emitter.naively_switch_states(true);
    let mut links = Vec::new();
    for token in Tokenizer::new_with_emitter(page, emitter) {
        let Ok(Token::StartTag(tag)) = token else { continue };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let attributes: Attributes =
            tag.attributes.iter().map(|(name, value)| (text(name), text(value))).collect();
        if text(&tag.name) != "link" || !attributes.contains_key("data-build") {
            continue;
        }
        let span = tag.span.start..tag.span.end;
        let asset = asset(&attributes).map_err(|missing| {
            let line = page.get(span.clone()).unwrap_or_default();
            Failure::new(format!("index.html: `{line}` {missing}"))
        })?;
        links.push(Link { span, asset });
    }
    Ok(links)
}

/// What a link's attributes ask for; else what is wrong with them.
fn asset(attributes: &Attributes) -> std::result::Result<Asset, &'static str> {
    let get = |name: &str| attributes.get(name).cloned();
    let file = get("href").ok_or("has no href")?;
    let name = file.rsplit('/').next().unwrap_or_default().to_owned();
    match attributes.get("rel").map(String::as_str) {
        Some("css") => Ok(Asset::Style(file)),
        Some("icon") => Ok(Asset::Icon(file, get("type"))),
        Some("copy-file") => {
            let folder = get("data-target-path").filter(|folder| !folder.is_empty());
            let folder = folder.map(|folder| format!("{}/", folder.trim_end_matches('/')));
            Ok(Asset::File(file, folder.unwrap_or_default()))
        }
        Some("copy-dir") => Ok(Asset::Folder(file, get("data-target-path").unwrap_or(name))),
        Some("rust") => {
            let profile = |kind: &str| get(&format!("data-{kind}"));
            Ok(Asset::Program(Program {
                manifest: file,
                binary: get("data-bin").ok_or("has no data-bin")?,
                small: profile("small").ok_or("has no data-small")?,
                quick: profile("quick").ok_or("has no data-quick")?,
            }))
        }
        _ => Err("has a rel that this build does not know: see xtask/src/manifest.rs"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Asset, Program, links};
    use crate::place;

    /// What a link asks for, or the end of the message.
    fn check(link: &str, expected: &Result<Asset, &str>) {
        let page =
            format!("<html><!-- <link data-build rel=\"css\"> -->\n<link rel=\"x\">{link}\n");
        match (links(&page), expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.len(), 1, "{link}");
                assert_eq!(&found[0].asset, expected, "{link}");
                assert_eq!(&page[found[0].span.clone()], link);
            }
            (Err(failure), Err(expected)) => assert!(failure.to_string().ends_with(expected)),
            (found, expected) => panic!("{link}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn links_are_read() {
        let owned = str::to_owned;
        let cases = [
            (
                "<link data-build rel=\"css\" href=\"a/b.css\" />",
                Ok(Asset::Style(owned("a/b.css"))),
            ),
            (
                "<link\n  rel=icon type='image/svg+xml' href=i.svg data-build>",
                Ok(Asset::Icon(owned("i.svg"), Some(owned("image/svg+xml")))),
            ),
            (
                "<link data-build rel=\"copy-file\" href=\"p/é.js\">",
                Ok(Asset::File(owned("p/é.js"), String::new())),
            ),
            (
                "<link data-build rel=copy-file href=p/f.woff2 data-target-path=fonts>",
                Ok(Asset::File(owned("p/f.woff2"), owned("fonts/"))),
            ),
            (
                "<link data-build rel=copy-dir href=p/examples>",
                Ok(Asset::Folder(owned("p/examples"), owned("examples"))),
            ),
            (
                "<link data-build rel=rust href=app/Cargo.toml data-bin=b data-small=s data-quick=q>",
                Ok(Asset::Program(Program {
                    manifest: owned("app/Cargo.toml"),
                    binary: owned("b"),
                    small: owned("s"),
                    quick: owned("q"),
                })),
            ),
            ("<link data-build rel=rust href=app/Cargo.toml>", Err("has no data-bin")),
            ("<link data-build rel=sass href=a.scss>", Err("see xtask/src/manifest.rs")),
            ("<link data-build rel=css>", Err("has no href")),
        ];
        for (link, expected) in cases {
            check(link, &expected);
        }
    }

    #[test]
    fn what_the_page_asks_for_is_there() {
        let page = fs::read_to_string(place::root().join("index.html")).expect("index.html");
        let links = links(&page).expect("links that this build knows");
        assert_eq!(links.len(), page.matches("<link data-build ").count());
        let mut programs = 0;
        for link in links {
            let (path, is_file) = match link.asset {
                Asset::Style(file) | Asset::Icon(file, _) | Asset::File(file, _) => (file, true),
                Asset::Folder(folder, _) => (folder, false),
                Asset::Program(program) => {
                    programs += 1;
                    let workspace = fs::read_to_string(place::root().join("Cargo.toml"));
                    let workspace = workspace.expect("the workspace");
                    for profile in [program.small, program.quick] {
                        assert!(workspace.contains(&format!("[profile.{profile}]")), "{profile}");
                    }
                    (program.manifest.replace("Cargo.toml", "src/main.rs"), true)
                }
            };
            let path = place::root().join(path);
            assert!(if is_file { path.is_file() } else { path.is_dir() }, "{}", path.display());
        }
        assert_eq!(programs, 1, "the page starts one program");
    }
}
