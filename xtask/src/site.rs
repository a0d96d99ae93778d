//! Assembles the page's files, as `index.html` lists them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use highwater_pack::fingerprint;

use crate::manifest::{Asset, Link};
use crate::place;
use crate::process::{Result, While as _};
use crate::program::{Flavour, Loadable};

/// Files by their path below the page's root.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Puts the page's files together.
///
/// `root` is the folder of `page`, which is `index.html`; its `links` were read before, and its program compiled.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn assemble(
    root: &Path,
    page: &str,
    links: &[Link],
    program: Loadable,
    flavour: Flavour,
) -> Result<Files> {
    let is_small = flavour != Flavour::Quick;
    let Loadable { name: program, mark, mut files } = program;
    let (mut styles, mut first_style) = (String::new(), None);
    let mut replacements = Vec::new();
    for Link { span, asset } in links {
        let mut replacement = String::new();
        match asset {
            Asset::Style(file) => {
                let style = text(&read(root, file)?, file)?;
                styles.push_str(&if is_small { trimmed(&style) } else { style + "\n" });
                first_style.get_or_insert(replacements.len());
            }
            Asset::Icon(file, kind) => {
                let icon = read(root, file)?;
                let name = hashed(file, &icon);
                let kind =
                    kind.as_ref().map(|kind| format!(" type=\"{kind}\"")).unwrap_or_default();
                replacement = format!("<link rel=\"icon\" href=\"./{name}\"{kind} />");
                files.insert(name, icon);
            }
            Asset::File(file, folder) => {
                let bytes = read(root, file)?;
                files.insert(format!("{folder}{}", file_name(file)), bytes);
            }
            Asset::Folder(folder, name) => copy(&root.join(folder), name, &mut files)?,
            Asset::Program(_) => replacement = loader(&program, &mark),
        }
        replacements.push((span.clone(), replacement));
    }
    let name = hashed("highwater.css", styles.as_bytes());
    let first = first_style.and_then(|first: usize| replacements.get_mut(first));
    if let Some((_, replacement)) = first {
        *replacement = format!("<link rel=\"stylesheet\" href=\"./{name}\" />");
        files.insert(name, styles.into_bytes());
    }
    if is_small {
        let is_script = |name: &str| Path::new(name).extension().is_some_and(|it| it == "js");
        for (name, bytes) in files.iter_mut().filter(|(name, _)| is_script(name)) {
            *bytes = trimmed(&text(bytes, name)?).into_bytes();
        }
    }
    files.insert("index.html".to_owned(), replaced(page, &replacements).into_bytes());
    Ok(files)
}

/// What starts the page's program. A script in the page itself would need a hash in the content security policy: the
/// loader is a file, and reads from its own element what to load.
fn loader(name: &str, mark: &str) -> String {
    [
        format!("<link rel=\"modulepreload\" href=\"./{name}.js\" />"),
        format!("<link rel=\"modulepreload\" href=\"./highwater-parts-{mark}.js\" />"),
        format!("<link rel=\"preload\" href=\"./{name}_bg.wasm\" as=\"fetch\" type=\"application/wasm\" crossorigin />"),
        format!(
            "<script type=\"module\" src=\"./boot.js\" data-main=\"./{name}.js\" data-wasm=\"./{name}_bg.wasm\"></script>"
        ),
    ]
    .join("\n    ")
}

/// A script or a style without its indentation, and without the lines that are comments.
pub(crate) fn trimmed(text: &str) -> String {
    let mut is_comment = false;
    let mut kept = String::new();
    for line in text.lines().map(str::trim) {
        is_comment |= line.starts_with("/*");
        if !is_comment && !line.is_empty() && !line.starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
        is_comment &= !line.ends_with("*/");
    }
    kept
}

/// A text with replacements in place of spans, which are sorted. A line that loses all it has goes.
fn replaced(text: &str, replacements: &[(Range<usize>, String)]) -> String {
    let mut result = String::new();
    let mut begin = 0;
    for (span, replacement) in replacements {
        result.push_str(&text[begin..span.start]);
        begin = span.end;
        let line = result.rfind('\n').map_or(0, |end| end + 1);
        let rest = &text[begin..];
        if replacement.is_empty() && result[line..].trim().is_empty() && rest.starts_with('\n') {
            result.truncate(line);
            begin += 1;
        }
        result.push_str(replacement);
    }
    result.push_str(&text[begin..]);
    result
}

/// A file's name with a fingerprint of what is in it.
pub(crate) fn hashed(file: &str, bytes: &[u8]) -> String {
    let name = file_name(file);
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    format!("{stem}-{:08x}.{ending}", fingerprint(bytes))
}

/// Whether a file never changes: its name has a fingerprint.
pub(crate) fn is_hashed(name: &str) -> bool {
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let last = stem.trim_end_matches("_bg").rsplit('-').next().unwrap_or_default();
    last.len() >= 8 && last.bytes().all(|letter| letter.is_ascii_hexdigit())
}

fn file_name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or_default()
}

fn read(root: &Path, file: &str) -> Result<Vec<u8>> {
    fs::read(root.join(file)).during(format_args!("reading {file}"))
}

fn text(bytes: &[u8], file: &str) -> Result<String> {
    str::from_utf8(bytes).map(str::to_owned).during(format_args!("reading {file}"))
}

/// Copies the files of a folder, and of those in it.
fn copy(folder: &Path, name: &str, files: &mut Files) -> Result<()> {
    let doing = format!("copying {}", folder.display());
    for file in place::files(folder).during(&doing)? {
        let below = file.strip_prefix(folder).during(&doing)?.iter();
        let parts: Vec<_> = below.map(|part| part.to_string_lossy()).collect();
        files.insert(format!("{name}/{}", parts.join("/")), fs::read(&file).during(&doing)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{hashed, is_hashed, replaced, trimmed};

    #[test]
    fn lines_that_ask_for_nothing_go() {
        let cases = [
            ("a\n  [1]\nb\n", "", "a\nb\n"),
            ("a\n  [1] c\nb\n", "", "a\n   c\nb\n"),
            ("a\n  [1]\nb\n", "x", "a\n  x\nb\n"),
            ("[1]", "", ""),
        ];
        for (text, replacement, expected) in cases {
            let start = text.find('[').expect("a place");
            let replacements = [(start..start + 3, replacement.to_owned())];
            assert_eq!(replaced(text, &replacements), expected, "{text:?}");
        }
    }

    #[test]
    fn a_name_has_the_hash_before_its_ending() {
        assert_eq!(hashed("public/icon.svg", b"a"), "icon-e40c292c.svg");
    }

    #[test]
    fn names_with_a_fingerprint_are_known() {
        assert!(
            is_hashed("highwater-app-281418c0c6d62193_bg.wasm")
                && is_hashed("highwater-ee5ce067.css")
        );
        assert!(
            !is_hashed("index.html")
                && !is_hashed("icon-192.png")
                && !is_hashed("docs/sharing.html")
        );
    }

    #[test]
    fn a_script_loses_what_only_people_read() {
        let script = "/**\n * @returns\n */\nexport function f() {\n    // why\n    return 1;\n}\n";
        assert_eq!(trimmed(script), "export function f() {\nreturn 1;\n}\n");
    }
}
