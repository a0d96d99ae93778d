//! Project rules that no lint checks.
//!
//! - The files of [`CARD`], the design that the project was given, are there, and its packages are used.
//! - Each Rust file begins with `//!` and its purpose.
//! - No file has a mark of unfinished work.
//! - No file is a blob; no text names a folder of somebody's machine; no lock file names a registry.
//! - Only the ONNX reader knows the crate that reads ONNX.
//! - In `core`, the crates in it and `app`, a module at the root uses only modules declared above it.
//! - In a folder of `app`, files use each other without a circle.
//! - Texts for readers have no phrase that [`words`] forbids.
//! - Lines of prose in Markdown are short enough to be read in a terminal, and in a diff.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::place;
use crate::process::{Failure, Result, While as _, command, output_of};
use crate::words;

/// SIZE: the largest file that may be tracked, in bytes.
const FILE_MAX: u64 = 1_500_000;

/// COUNT: characters of a line of prose, at most.
const PROSE_MAX: usize = 120;

/// Marks of unfinished work; in pieces, so that this file does not hold them.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Folders of one machine; in pieces likewise.
const MACHINE_FOLDERS: &[&str] = &[concat!("/ro", "ot"), concat!("/ho", "me"), concat!("/t", "mp")];

/// The files and folders at the top level that the project's design names.
const CARD: &[&str] = &["Cargo.toml", "app", "core", "public", "styles", "tests"];

/// The packages that it names.
const CARD_PACKAGES: &[&str] =
    &["gloo", "leptos", "onnx-ir", "plotters-canvas", "serde", "wasm-bindgen"];

/// Where people write: marks of unfinished work are looked for in these.
const WRITTEN: &[&str] = &["rs", "md", "toml", "html", "css", "js", "mjs", "yml", "yaml", "run"];

/// Libraries whose modules are declared in an order. Cargo itself refuses a circle of crates.
const LIBRARIES: [&str; 5] =
    ["core/base/src/", "core/formats/src/", "core/engine/src/", "core/src/", "app/src/"];

/// Checks every file that git tracks; what else lies about is its owner's affair.
///
/// # Errors
/// Something is untidy; the message has one line for each finding.
pub(crate) fn check() -> Result<()> {
    let root = place::root();
    let mut findings = Vec::new();
    for name in tracked_files()? {
        check_file(&root, &name, &mut findings)?;
    }
    findings.extend(missing_of_card(&root)?);
    for sources in LIBRARIES {
        findings.extend(order_findings(&root, sources)?);
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("the tree is untidy:\n{}", findings.join("\n"))))
}

/// What git tracks; deleted files left out.
fn tracked_files() -> Result<Vec<String>> {
    let arguments = ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--deduplicate"];
    let listed = output_of(command("git").args(arguments))?;
    let names = listed.split('\0').filter(|name| place::root().join(name).is_file());
    Ok(names.map(str::to_owned).collect())
}

/// What the project's design names and the tree does not have.
fn missing_of_card(root: &Path) -> Result<Vec<String>> {
    let missing = CARD.iter().filter(|name| !root.join(name).exists());
    let mut findings: Vec<String> = missing
        .map(|name| format!("{name}: the project's design has it at the top level"))
        .collect();
    let mut manifests = String::new();
    for name in tracked_files()?.iter().filter(|name| name.ends_with("Cargo.toml")) {
        manifests += &fs::read_to_string(root.join(name)).during(format_args!("reading {name}"))?;
    }
    let unused = CARD_PACKAGES.iter().filter(|package| !depends_on(&manifests, package));
    findings.extend(unused.map(|package| {
        format!(
            "Cargo.toml: the project's design has the package `{package}`, and none depends on it"
        )
    }));
    Ok(findings)
}

/// Whether a manifest has a package among its dependencies.
fn depends_on(manifests: &str, package: &str) -> bool {
    manifests.lines().any(|line| {
        let rest = line.strip_prefix(package).unwrap_or_default().trim_start();
        rest.starts_with('=') && !rest.contains("path")
    })
}

fn check_file(root: &Path, name: &str, findings: &mut Vec<String>) -> Result<()> {
    let doing = format!("reading {name}");
    let file = root.join(name);
    let size = fs::metadata(&file).during(&doing)?.len();
    if size > FILE_MAX {
        findings.push(format!("{name}: {size} bytes, more than {FILE_MAX}: make it on demand"));
        return Ok(());
    }
    let bytes = fs::read(&file).during(&doing)?;
    // A file that is no text has no lines to look at.
    if let Ok(text) = str::from_utf8(&bytes)
        && !text.contains('\0')
    {
        let found = text_findings(name, text).into_iter().chain(words::findings(name, text));
        findings.extend(found.map(|it| format!("{name}: {it}")));
    }
    Ok(())
}

fn text_findings(name: &str, text: &str) -> Vec<String> {
    let extension = name.rsplit(['.', '/']).next().unwrap_or_default();
    let mut findings = Vec::new();
    if extension == "rs" && !text.starts_with("//!") {
        findings.push("does not begin with `//!` and what it is about".to_owned());
    }
    if extension == "rs" && text.contains(concat!("onnx", "_ir")) && !reads_onnx(name) {
        findings.push("names the crate that reads ONNX: only core's reader may".to_owned());
    }
    if name.ends_with("package-lock.json") && text.contains("\"resolved\"") {
        findings.push("names a registry: npm install --omit-lockfile-registry-resolved".to_owned());
    }
    if extension == "md" && !name.contains("/tests/it/") {
        findings.extend(long_prose(text).map(|number| {
            format!("line {number}: longer than {PROSE_MAX} characters: break it between words")
        }));
    }
    for (line, number) in text.lines().zip(1..) {
        let marks =
            MARKS.iter().filter(|mark| WRITTEN.contains(&extension) && has_word(line, mark));
        findings.extend(marks.map(|mark| format!("line {number}: {mark}: finish it or drop it")));
        let folders = MACHINE_FOLDERS.iter().filter(|folder| has_folder(line, folder));
        findings.extend(folders.map(|folder| format!("line {number}: {folder} is one machine's")));
    }
    findings
}

/// Lines of Markdown that are too long, outside of tables, code and HTML; one word cannot be broken.
fn long_prose(text: &str) -> impl Iterator<Item = usize> {
    let mut in_code = false;
    let numbered = text.lines().zip(1..);
    numbered.filter_map(move |(line, number)| {
        let words = line.trim_start();
        if words.starts_with("```") {
            in_code = !in_code;
        }
        let is_prose = !in_code && !line.starts_with("    ") && !words.starts_with(['|', '<', '#']);
        let is_long = line.chars().count() > PROSE_MAX && words.contains(' ');
        (is_prose && is_long).then_some(number)
    })
}

fn reads_onnx(name: &str) -> bool {
    name == "core/formats/src/formats/onnx.rs" || name.starts_with("core/formats/src/formats/onnx/")
}

/// Whether a word stands in a line by itself.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = around(line, start, word);
        !before.is_some_and(is_word_part) && !after.is_some_and(is_word_part)
    })
}

/// Whether an absolute path into a folder stands in a line; `a/tmp` and `/tmpl` are none.
fn has_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let (before, after) = around(line, start, folder);
        let begins = !before.is_some_and(|c| is_word_part(c) || "./~})-".contains(c));
        begins && !after.is_some_and(|c| is_word_part(c) || c == '-')
    })
}

fn around(line: &str, start: usize, word: &str) -> (Option<char>, Option<char>) {
    (line[..start].chars().next_back(), line[start + word.len()..].chars().next())
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Uses of later modules, and in `app` circles among files.
fn order_findings(root: &Path, sources: &str) -> Result<Vec<String>> {
    let library = format!("{sources}lib.rs");
    let text = fs::read_to_string(root.join(&library)).during(format_args!("reading {library}"))?;
    let order = ModuleOrder::of(&text);
    let mut findings = Vec::new();
    let mut uses = BTreeMap::new();
    for name in tracked_files()? {
        let Some(path) = module_path(&name, sources) else { continue };
        let text = fs::read_to_string(root.join(&name)).during(format_args!("reading {name}"))?;
        let code = code(&text);
        let module = path.split("::").next().unwrap_or_default();
        let later = order.violations(module, &code);
        findings.extend(later.map(|later| format!("{name}: {later} in {library}")));
        uses.insert(path.clone(), used_paths(&path, &code));
    }
    if sources == "app/src/" {
        findings.extend(circle(&uses).map(|files| format!("{sources}: a circle: {files}")));
    }
    Ok(findings)
}

/// The module that a file is: `core/src/a/b.rs` is `a::b`; nothing for roots and for programs.
fn module_path(name: &str, sources: &str) -> Option<String> {
    let inside = name.strip_prefix(sources)?.strip_suffix(".rs")?;
    let is_root = matches!(inside, "lib" | "main") || inside.starts_with("bin/");
    (!is_root).then(|| inside.replace('/', "::"))
}

/// A text without its tests and comments.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Modules that use each other, directly or not.
fn circle(uses: &BTreeMap<String, Vec<String>>) -> Option<String> {
    // What uses nothing that is left is in no circle.
    let mut left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (module, paths) in uses {
        let used = paths.iter().filter_map(|path| {
            let known = uses.keys().filter(|known| is_inside(path, known));
            known.max_by_key(|known| known.len()).filter(|known| *known != module)
        });
        left.insert(module, used.map(String::as_str).collect());
    }
    loop {
        let before = left.len();
        let known: Vec<&str> = left.keys().copied().collect();
        left.retain(|_, used| used.iter().any(|used| known.contains(used)));
        if left.len() == before {
            break;
        }
    }
    // From any of these, uses lead into a circle and around it.
    let mut way = vec![*left.keys().next()?];
    loop {
        let next = *left[way.last()?].iter().find(|used| left.contains_key(**used))?;
        if let Some(begin) = way.iter().position(|module| *module == next) {
            return Some([&way[begin..], &[next]].concat().join(" → "));
        }
        way.push(next);
    }
}

/// Whether a path leads to a module or into it.
fn is_inside(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The order in which a library declares its modules, and what it re-exports from each.
struct ModuleOrder {
    /// Names after `crate::` (a module or a re-export) to the index of the module.
    index_of: BTreeMap<String, usize>,
}

impl ModuleOrder {
    fn of(library: &str) -> Self {
        let mut index_of = BTreeMap::new();
        for line in library.lines() {
            if let Some(module) = declared_module(line) {
                index_of.insert(module.to_owned(), index_of.len());
            }
        }
        for statement in library.split(';') {
            let Some((_, export)) = statement.rsplit_once("pub use ") else { continue };
            let Some((module, names)) = export.split_once("::") else { continue };
            if let Some(&index) = index_of.get(module) {
                for name in names.split(|c: char| !is_word_part(c)).filter(|name| !name.is_empty())
                {
                    index_of.insert(name.to_owned(), index);
                }
            }
        }
        Self { index_of }
    }

    /// The uses of later modules in the code of a module.
    fn violations(&self, module: &str, code: &str) -> impl Iterator<Item = String> {
        let own = self.index_of.get(module).copied();
        let mut later: Vec<String> = paths_after("crate::", code)
            .into_iter()
            .map(|path| head(&path))
            .filter(|name| own < self.index_of.get(name).copied())
            .map(|name| format!("`{module}` uses `{name}`, declared below it"))
            .collect();
        if own.is_none() {
            later.push(format!("`{module}` is not declared"));
        }
        later.into_iter()
    }
}

/// `pub mod name;` and its like.
fn declared_module(line: &str) -> Option<&str> {
    let declaration = line.strip_suffix(';')?;
    let (visibility, name) = declaration.split_once("mod ")?;
    (visibility.is_empty() || visibility.starts_with("pub")).then_some(name)
}

/// The paths from the root that the code of a module uses.
fn used_paths(module: &str, code: &str) -> Vec<String> {
    let (above, _) = module.rsplit_once("::").unwrap_or_default();
    let siblings = paths_after("super::", code).into_iter();
    let own = paths_after("self::", code).into_iter();
    let mut paths = paths_after("crate::", code);
    paths.extend(siblings.map(|path| format!("{above}::{path}")));
    paths.extend(own.map(|path| format!("{module}::{path}")));
    paths
}

/// The paths behind a prefix, those in a group one by one: `crate::{a, b::{c, d}}` has `a`, `b::c` and `b::d`.
fn paths_after(prefix: &str, code: &str) -> Vec<String> {
    let is_whole = |start: &usize| !code[..*start].ends_with(|c| is_word_part(c) || c == ':');
    // `$crate::` and `other_crate::` are not this crate's own paths, or not checked here.
    let starts = code.match_indices(prefix).map(|(start, _)| start).filter(is_whole);
    starts.flat_map(|start| expanded(&code[start + prefix.len()..])).collect()
}

/// The paths at the beginning of a text.
fn expanded(text: &str) -> Vec<String> {
    let text = text.trim_start();
    let end = text.find(|c| !is_word_part(c) && c != ':').unwrap_or(text.len());
    let (base, rest) = text.split_at(end);
    let Some(group) = rest.strip_prefix('{') else {
        return if base.is_empty() { Vec::new() } else { vec![base.to_owned()] };
    };
    let (mut depth, mut begin, mut paths) = (0_usize, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                paths.extend(expanded(&group[begin..at]).iter().map(|path| [base, path].concat()));
                begin = at + 1;
            }
            _ => {}
        }
        if c == '}' && begin == at + 1 {
            break;
        }
    }
    paths
}

fn head(path: &str) -> String {
    path.chars().take_while(|c| is_word_part(*c)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{
        ModuleOrder, check, circle, code, depends_on, has_folder, has_word, long_prose,
        paths_after, used_paths,
    };

    #[test]
    fn the_tree_is_tidy() {
        if let Err(failure) = check() {
            panic!("{failure}");
        }
    }

    #[test]
    fn dependencies_are_lines_of_manifests() {
        let manifest = "name = \"gloo\"\n[dependencies]\nserde = \"1\"\nserde_json = \"1\"\nonnx-ir={ version = \"1\" }\n\
            leptos = { path = \"leptos\" }\n# plotters-canvas = 1\n";
        for (package, expected) in [
            ("serde", true),
            ("onnx-ir", true),
            ("gloo", false),
            ("leptos", false),
            ("plotters-canvas", false),
        ] {
            assert_eq!(depends_on(manifest, package), expected, "{package}");
        }
    }

    #[test]
    fn a_mark_is_a_word_of_its_own() {
        let mark = super::MARKS[0];
        assert!(has_word(&format!("// {mark}: later"), mark));
        assert!(!has_word(&format!("MAS{mark}N"), mark));
    }

    #[test]
    fn prose_is_short_and_code_is_as_it_is() {
        let long = "word ".repeat(30);
        let text = format!("{long}\n```\n{long}\n```\n    {long}\n| {long} |\nshort\n- {long}\n");
        assert_eq!(long_prose(&text).collect::<Vec<_>>(), [1, 8]);
        assert_eq!(long_prose(&"word".repeat(40)).count(), 0);
    }

    #[test]
    fn a_folder_is_absolute() {
        let folder = super::MACHINE_FOLDERS[2];
        let cases = [("\"{}/x\"", true), ("cd {}", true), ("target{}/x", false), ("{}late", false)];
        for (pattern, expected) in cases {
            let line = pattern.replace("{}", folder);
            assert_eq!(has_folder(&line, folder), expected, "{line}");
        }
    }

    #[test]
    fn names_after_crate_are_found() {
        let code = "use crate::{a, b::{c, d},\n    e};\nfn f() -> crate::g::H { other_crate::i() }";
        assert_eq!(paths_after("crate::", code), ["a", "b::c", "b::d", "e", "g::H"]);
    }

    #[test]
    fn modules_use_what_is_declared_above() {
        let order = ModuleOrder::of("pub mod a;\nmod b;\npub(crate) mod c;\npub use b::{B, Bs};\n");
        let cases = [
            ("b", "use crate::a;", 0),
            ("b", "use crate::b::x;", 0),
            ("b", "use crate::c;", 1),
            ("a", "use crate::Bs;", 1),
            ("a", "// see crate::b", 0),
            ("a", "#[cfg(test)]\nmod tests { use crate::c; }", 0),
            ("d", "", 1),
        ];
        for (module, text, expected) in cases {
            assert_eq!(order.violations(module, &code(text)).count(), expected, "{module}: {text}");
        }
    }

    #[test]
    fn circles_are_found() {
        let cases = [
            ([("f::a", "use super::b;"), ("f::b", ""), ("g", "use crate::f::a;")], None),
            (
                [
                    ("f::a", "use super::b;"),
                    ("f::b", "use crate::g::h;"),
                    ("g", "use crate::f::a;"),
                ],
                Some("f::a → f::b → g → f::a"),
            ),
        ];
        for (files, expected) in cases {
            let uses: BTreeMap<_, _> =
                files.map(|(name, code)| (name.to_owned(), used_paths(name, code))).into();
            assert_eq!(circle(&uses).as_deref(), expected);
        }
    }
}
