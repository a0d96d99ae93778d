//! The tool that splits the page's program and writes its scripts (`xtask/bindgen`): compiled once, and kept.
//!
//! It is kept in the cache, by a fingerprint of its sources and of the versions of all that it uses. So a second
//! checkout, or one whose `target/` was cleared, does not compile it again. It is compiled in a folder of its own,
//! because cargo locks a folder for the whole of a build: native builds need not wait for it, nor it for them.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use highwater_pack::fingerprint;

use crate::place;
use crate::process::{Result, While as _, command, output_of, run};
use crate::toolchain::CLIPPY;

/// Its package.
const PACKAGE: &str = "highwater-bindgen";

/// Where it is, compiled first where that is needed. For tests, clippy has compiled it.
///
/// # Errors
/// It does not compile, or cannot be kept.
pub(crate) fn ensure(is_linted: bool) -> Result<PathBuf> {
    let mark = mark()?;
    let folder = place::cache()?;
    let kept = |suffix: &str| folder.join(format!("bindgen-{mark:08x}{suffix}"));
    let (linted, plain) = (kept("-linted"), kept(""));
    let place = match (is_linted, linted.is_file(), plain.is_file()) {
        (_, true, _) => return Ok(linted),
        (false, false, true) => return Ok(plain),
        (true, false, _) => linted,
        (false, false, false) => plain,
    };
    let target = place::bindgen_target();
    let mut cargo = command("cargo");
    cargo.args(["build", "--quiet", "--locked", "--package", PACKAGE]);
    cargo.env("CARGO_TARGET_DIR", &target);
    if is_linted {
        cargo.envs(CLIPPY);
    }
    run(&mut cargo)?;
    let built = target.join("debug").join(format!("{PACKAGE}{}", env::consts::EXE_SUFFIX));
    keep(&built, &place)?;
    Ok(place)
}

/// Copies a program to its place, where another run may look for it at any moment.
fn keep(built: &Path, place: &Path) -> Result<()> {
    let doing = format!("keeping {}", place.display());
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).during(&doing)?;
    }
    let part = place.with_extension(process::id().to_string());
    fs::copy(built, &part).during(&doing)?;
    fs::rename(part, place).during(&doing)
}

/// What it is made of: its own files, and the versions of `Cargo.lock` that it uses.
fn mark() -> Result<u32> {
    let listed = "tree --locked --package highwater-bindgen --edges normal,build --prefix none";
    let mut used: Vec<String> = output_of(command("cargo").args(listed.split(' ')))?
        .lines()
        // Its own line has the folder of this checkout.
        .filter(|line| !line.starts_with(PACKAGE))
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect();
    used.sort();
    used.dedup();
    let mut bytes = used.join("\n").into_bytes();
    let folder = place::root().join("xtask/bindgen");
    for file in place::files(&folder).during(format_args!("listing {}", folder.display()))? {
        bytes.extend(fs::read(&file).during(format_args!("reading {}", file.display()))?);
    }
    Ok(fingerprint(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::mark;
    use crate::place;

    #[test]
    fn scripts_are_written_by_the_version_that_the_page_uses() {
        let lock = fs::read_to_string(place::root().join("Cargo.lock")).expect("Cargo.lock");
        let version = |package| {
            let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
            rest.split('"').next()
        };
        let page = version("wasm-bindgen");
        assert!(page.is_some());
        assert_eq!(page, version("wasm-bindgen-cli-support"));
    }

    #[test]
    fn the_same_sources_have_the_same_mark() {
        assert_eq!(mark().expect("a mark"), mark().expect("a mark"));
    }
}
