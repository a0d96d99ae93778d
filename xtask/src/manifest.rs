//! The list of the page's parts in `index.html`: its links with `data-trunk`, as Trunk defines them.
//!
//! Trunk can build the page as well. So the list of its files is in `index.html` only, and the start of a program
//! is in `Trunk.toml` only.

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
    /// A program to compile.
    Program(Program),
}

/// A program of the page.
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
    /// Whether the page starts it; a worker loads any other by its name.
    pub(crate) is_main: bool,
}

/// The attributes of an element.
type Attributes = BTreeMap<String, String>;

/// Reads the links of `index.html` that have `data-trunk`, in their order.
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
        if text(&tag.name) != "link" || !attributes.contains_key("data-trunk") {
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
            let is_main = get("data-type").is_none_or(|kind| kind == "main");
            let target = get("data-bindgen-target");
            // Trunk's default differs between the page's program and those of workers.
            if target.as_deref().unwrap_or(if is_main { "web" } else { "no-modules" }) != "web" {
                return Err("needs data-bindgen-target=\"web\": the page has modules only");
            }
            let profile = |kind: &str| {
                get(&format!("data-cargo-profile-{kind}")).or_else(|| get("data-cargo-profile"))
            };
            Ok(Asset::Program(Program {
                manifest: file,
                binary: get("data-bin").ok_or("has no data-bin")?,
                small: profile("release").unwrap_or_else(|| "release".to_owned()),
                quick: profile("dev").unwrap_or_else(|| "dev".to_owned()),
                is_main,
            }))
        }
        _ => Err("has a rel that this build does not know: see xtask/src/manifest.rs"),
    }
}

/// The text between the quotes of `key = '…'` or `key = "…"` in `Trunk.toml`.
///
/// # Errors
/// There is no such line.
pub(crate) fn setting<'a>(config: &'a str, key: &str) -> Result<&'a str> {
    let value_of = |line: &'a str| {
        let value = line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim();
        let quote = value.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        value.strip_prefix(quote)?.strip_suffix(quote)
    };
    config
        .lines()
        .find_map(value_of)
        .ok_or_else(|| Failure::new(format!("Trunk.toml has no line `{key} = '…'`")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Asset, Program, links, setting};
    use crate::place;

    /// What a link asks for, or the end of the message.
    fn check(link: &str, expected: &Result<Asset, &str>) {
        let page =
            format!("<html><!-- <link data-trunk rel=\"css\"> -->\n<link rel=\"x\">{link}\n");
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

    fn program(binary: &str, profiles: [&str; 2], is_main: bool) -> Asset {
        let [small, quick] = profiles.map(str::to_owned);
        let (manifest, binary) = ("app/Cargo.toml".to_owned(), binary.to_owned());
        Asset::Program(Program { manifest, binary, small, quick, is_main })
    }

    #[test]
    fn links_are_read() {
        let owned = str::to_owned;
        let cases = [
            (
                "<link data-trunk rel=\"css\" href=\"a/b.css\" />",
                Ok(Asset::Style(owned("a/b.css"))),
            ),
            (
                "<link\n  rel=icon type='image/svg+xml' href=i.svg data-trunk>",
                Ok(Asset::Icon(owned("i.svg"), Some(owned("image/svg+xml")))),
            ),
            (
                "<link data-trunk rel=\"copy-file\" href=\"p/é.js\">",
                Ok(Asset::File(owned("p/é.js"), String::new())),
            ),
            (
                "<link data-trunk rel=copy-file href=p/f.woff2 data-target-path=fonts>",
                Ok(Asset::File(owned("p/f.woff2"), owned("fonts/"))),
            ),
            (
                "<link data-trunk rel=copy-dir href=p/examples>",
                Ok(Asset::Folder(owned("p/examples"), owned("examples"))),
            ),
            (
                "<link data-trunk rel=rust href=app/Cargo.toml data-bin=page>",
                Ok(program("page", ["release", "dev"], true)),
            ),
            (
                "<link data-trunk rel=rust href=app/Cargo.toml data-bin=w data-type=worker \
                 data-bindgen-target=web data-cargo-profile-release=s data-cargo-profile-dev=q>",
                Ok(program("w", ["s", "q"], false)),
            ),
            (
                "<link data-trunk rel=rust href=app/Cargo.toml data-bin=w data-type=worker>",
                Err("the page has modules only"),
            ),
            ("<link data-trunk rel=rust href=app/Cargo.toml>", Err("has no data-bin")),
            ("<link data-trunk rel=sass href=a.scss>", Err("see xtask/src/manifest.rs")),
            ("<link data-trunk rel=css>", Err("has no href")),
        ];
        for (link, expected) in cases {
            check(link, &expected);
        }
    }

    #[test]
    fn settings_are_between_quotes() {
        let config = "public_url = \"./\"\npattern_script = '<script src=\"{js}\">'\n";
        let cases = [
            ("public_url", Some("./")),
            ("pattern_script", Some("<script src=\"{js}\">")),
            ("pattern", None),
        ];
        for (key, expected) in cases {
            assert_eq!(setting(config, key).ok(), expected, "{key}");
        }
    }

    /// Trunk needs the same, and is not on every machine.
    #[test]
    fn what_the_page_asks_for_is_there() {
        let page = fs::read_to_string(place::root().join("index.html")).expect("index.html");
        let links = links(&page).expect("links that this build knows");
        assert_eq!(links.len(), page.matches("<link data-trunk ").count());
        let mut mains = 0;
        for link in links {
            let (path, is_file) = match link.asset {
                Asset::Style(file) | Asset::Icon(file, _) | Asset::File(file, _) => (file, true),
                Asset::Folder(folder, _) => (folder, false),
                Asset::Program(program) => {
                    mains += usize::from(program.is_main);
                    let workspace = fs::read_to_string(place::root().join("Cargo.toml"));
                    let workspace = workspace.expect("the workspace");
                    for profile in [program.small, program.quick] {
                        assert!(workspace.contains(&format!("[profile.{profile}]")), "{profile}");
                    }
                    let folder = program.manifest.replace("Cargo.toml", "src");
                    let source = if program.is_main {
                        format!("{folder}/main.rs")
                    } else {
                        format!("{folder}/bin/{}.rs", program.binary)
                    };
                    (source, true)
                }
            };
            let path = place::root().join(path);
            assert!(if is_file { path.is_file() } else { path.is_dir() }, "{}", path.display());
        }
        assert_eq!(mains, 1, "the page starts one program");
    }
}
