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

use wasm_bindgen_cli_support::Bindgen;

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
    bindgen.input_path(program).out_name(name).web(true)?;
    // The page names the file of WebAssembly itself, because its final name has a hash.
    bindgen.typescript(false).omit_default_module_path(true);
    Ok(bindgen.generate(folder)?)
}
