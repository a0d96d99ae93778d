//! Splits a compiled WebAssembly program, and writes its JavaScript: `highwater-bindgen FOLDER MARK PROGRAM.wasm`
//!
//! The program is split at its functions marked `#[wasm_split]`. Then this does what the `wasm-bindgen` command does
//! with `--target web`. It is a program of its own, so that `xtask` starts without it, and it is compiled while the
//! page is.
#![expect(clippy::print_stderr, reason = "a command reports errors on its terminal")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use walrus::{Module, ModuleConfig, RawCustomSection};
use wasm_bindgen_cli_support::Bindgen;
use wasm_split_cli_support::{Options, SplitWasm};

/// Libraries of whose exports the page's script calls none. Leptos brings them for calls to a server.
const UNUSED: [&str; 1] = ["wasm-streams"];
/// The section in which each library describes what it exports and imports.
const DESCRIPTIONS: &str = "__wasm_bindgen_unstable";

/// How the names of parts begin, as they are split; those of programs that several need begin otherwise.
const PART: &str = "split_";
/// The part that the worker begins with: the others are fetched later.
const FIRST: &str = "desk";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, mark, program] = arguments.as_slice() else {
        eprintln!("usage: highwater-bindgen FOLDER MARK PROGRAM.wasm");
        return ExitCode::FAILURE;
    };
    match bind(Path::new(folder), mark, Path::new(program)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wasm-bindgen: {program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a program into an empty folder.
///
/// `PROGRAM-MARK.js` and `PROGRAM-MARK_bg.wasm` are the main program. `highwater-parts-MARK.js` fetches its parts:
/// `highwater-PART-MARK.wasm` for each name of a `#[wasm_split]`, and for what several of those need
/// `highwater-desk-MARK.bin` and `highwater-shared-MARK.bin`. All names have the mark, because parts fit no other main program.
///
/// # Errors
/// The program is missing, has no relocations, or is not made by the same version of wasm-bindgen; or the folder is
/// not writable.
fn bind(folder: &Path, mark: &str, program: &Path) -> Result<()> {
    let name = program.file_stem().and_then(|name| name.to_str()).ok_or("a file without a name")?;
    let name = format!("{name}-{mark}");
    let compiled = fs::read(program)?;
    let main = folder.join("main.wasm");
    let (script, link) = (format!("./{name}.js"), format!("./highwater-parts-{mark}.js"));
    let mut options = Options::new(&compiled);
    options.output_dir = folder;
    options.main_out_path = &main;
    options.main_module = &script;
    options.link_name = &link;
    let split = wasm_split_cli_support::transform(options).map_err(|error| format!("{error:#}"))?;
    fs::write(folder.join(&link), write_parts(folder, mark, &script, &split)?)?;
    let mut bindgen = Bindgen::new();
    bindgen.input_module(&name, without_unused(parsed(&fs::read(&main)?)?)?).web(true)?;
    fs::remove_file(main)?;
    // The parts take memory and table of the main program from its exports.
    bindgen.keep_lld_exports(true);
    // The page names the file of WebAssembly itself, because its final name has a hash.
    bindgen.typescript(false).omit_default_module_path(true);
    Ok(bindgen.generate(folder)?)
}

/// Writes the parts, and what they share; returns the script that fetches them.
///
/// Every set of parts may share a program of its own, most of them small: dozens of files would wait for each other. So
/// there are two: what the first part needs, and the rest.
fn write_parts(folder: &Path, mark: &str, script: &str, split: &SplitWasm) -> Result<String> {
    let needed_by = |part: &str| split.prefetch_map.get(part).map_or(&[][..], Vec::as_slice);
    let mut packs = [
        Pack::new(format!("highwater-{FIRST}-{mark}.bin")),
        Pack::new(format!("highwater-shared-{mark}.bin")),
    ];
    let (mut place_of, mut own) = (BTreeMap::new(), BTreeSet::new());
    let mut programs = split.split_modules.clone();
    programs.sort();
    for program in programs {
        let stem = program.file_stem().and_then(|stem| stem.to_str()).ok_or("no name")?.to_owned();
        let wasm = parsed(&fs::read(&program)?)?.emit_wasm();
        fs::remove_file(&program)?;
        if let Some(part) = stem.strip_prefix(PART) {
            fs::write(folder.join(file_of(part, mark)), wasm)?;
            own.insert(stem);
        } else {
            let pack = usize::from(!needed_by(FIRST).contains(&stem));
            place_of.insert(stem, [pack, packs[pack].add(&wasm)]);
        }
    }
    let mut files = Vec::new();
    for Pack { file, bytes, starts } in packs {
        fs::write(folder.join(&file), bytes)?;
        files.push(format!("[\"./{file}\", {starts:?}]"));
    }
    let mut fetching =
        include_str!("parts.js").replace("MAIN", script).replace("PACKS", &files.join(", "));
    for part in split.prefetch_map.keys().collect::<BTreeSet<_>>() {
        let is_own = own.contains(&format!("{PART}{part}"));
        let file =
            if is_own { format!("\"./{}\"", file_of(part, mark)) } else { "null".to_owned() };
        let mut needs: Vec<_> =
            needed_by(part).iter().filter_map(|stem| place_of.get(stem)).collect();
        needs.sort_unstable();
        writeln!(
            fetching,
            "export const __wasm_split_load_{part} = part(\"{part}\", {file}, {needs:?});"
        )?;
    }
    Ok(fetching)
}

/// Programs in one file, one behind the other.
struct Pack {
    file: String,
    bytes: Vec<u8>,
    /// Where each begins, and the last one ends.
    starts: Vec<usize>,
}

impl Pack {
    fn new(file: String) -> Self {
        Self { file, bytes: Vec::new(), starts: vec![0] }
    }

    /// Adds a program, and returns its number.
    fn add(&mut self, wasm: &[u8]) -> usize {
        self.bytes.extend(wasm);
        self.starts.push(self.bytes.len());
        self.starts.len() - 2
    }
}

/// The name of a part's file.
fn file_of(part: &str, mark: &str) -> String {
    format!("highwater-{part}-{mark}.wasm")
}

/// A program that is written without names, and with short numbers where the linker left space.
fn parsed(wasm: &[u8]) -> Result<Module> {
    let mut config = ModuleConfig::new();
    config.generate_name_section(false).generate_producers_section(false);
    Ok(config.parse(wasm)?)
}

/// A program without the exports of [`UNUSED`] libraries, and without all that only they call.
fn without_unused(mut module: Module) -> Result<Module> {
    let mut descriptions = Vec::new();
    while let Some(section) = module.customs.remove_raw(DESCRIPTIONS) {
        let mut rest = section.data.as_slice();
        while !rest.is_empty() {
            // A version, and what a macro of a library described.
            let version = part(&mut rest)?;
            let described = part(&mut rest)?;
            let hash = UNUSED.iter().find_map(|library| hash_of(library, described));
            let Some(hash) = hash else {
                for part in [version, described] {
                    descriptions.extend(u32::try_from(part.len())?.to_le_bytes());
                    descriptions.extend(part);
                }
                continue;
            };
            let exports = module.exports.iter();
            let unused = exports.filter(|export| export.name.ends_with(&hash));
            for export in unused.map(walrus::Export::id).collect::<Vec<_>>() {
                module.exports.delete(export);
            }
        }
    }
    module.customs.add(RawCustomSection { name: DESCRIPTIONS.to_owned(), data: descriptions });
    walrus::passes::gc::run(&mut module);
    Ok(module)
}

/// Takes what stands behind its length.
fn part<'a>(data: &mut &'a [u8]) -> Result<&'a [u8]> {
    let cut = "the descriptions of wasm-bindgen end too early";
    let (length, rest) = data.split_first_chunk().ok_or(cut)?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(cut)?;
    *data = rest;
    Ok(part)
}

/// The end of the names of what a library exports, if this is of it: `_` and a hash of 16 digits, which follows
/// the library's name.
fn hash_of(library: &str, described: &[u8]) -> Option<String> {
    let mark = format!("{library}-");
    let begin = described.windows(mark.len()).position(|it| it == mark.as_bytes())? + mark.len();
    let hash = str::from_utf8(described.get(begin..begin + 16)?).ok()?;
    hash.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| format!("_{hash}"))
}
