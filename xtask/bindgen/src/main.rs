//! Writes the JavaScript of compiled WebAssembly programs: `highwater-bindgen FOLDER PROGRAM.wasm …`
//!
//! It does what the `wasm-bindgen` command does with `--target web`. It is a program of its own, so that
//! `xtask` starts without it, and it is compiled while the page is.
#![expect(clippy::print_stderr, reason = "a command reports errors on its terminal")]

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use walrus::{Module, RawCustomSection};
use wasm_bindgen_cli_support::Bindgen;

/// Libraries of whose exports the page's script calls none. Leptos brings them for calls to a server.
const UNUSED: [&str; 1] = ["wasm-streams"];
/// The section in which each library describes what it exports and imports.
const DESCRIPTIONS: &str = "__wasm_bindgen_unstable";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: highwater-bindgen FOLDER PROGRAM.wasm …");
        return ExitCode::FAILURE;
    };
    let programs: Vec<_> = arguments.collect();
    let is_written = |program: &PathBuf| match bind(&folder, program) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("wasm-bindgen: {}: {error}", program.display());
            false
        }
    };
    let all_written = thread::scope(|scope| {
        let threads: Vec<_> =
            programs.iter().map(|program| scope.spawn(|| is_written(program))).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).all(|ended| ended.unwrap_or(false))
    });
    if all_written { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes `NAME.js` and `NAME_bg.wasm` for a program, unless they are newer than it.
///
/// # Errors
/// The program is missing or not made by the same version of wasm-bindgen; or the folder is not writable.
fn bind(folder: &Path, program: &Path) -> Result<()> {
    let name = program.file_stem().and_then(|name| name.to_str()).ok_or("a file without a name")?;
    let bound = folder.join(format!("{name}_bg.wasm"));
    let compiled_at = fs::metadata(program)?.modified()?;
    if fs::metadata(&bound).and_then(|it| it.modified()).is_ok_and(|at| at > compiled_at) {
        return Ok(());
    }
    let mut bindgen = Bindgen::new();
    bindgen.input_module(name, without_unused(Module::from_file(program)?)?).web(true)?;
    // The page names the file of WebAssembly itself, because its final name has a hash.
    bindgen.typescript(false).omit_default_module_path(true);
    Ok(bindgen.generate(folder)?)
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
