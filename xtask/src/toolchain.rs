//! A compiler that can build for the browser.
//!
//! An ordinary machine has one after `rustup target add`. A machine that reaches only package registries cannot
//! download the standard library that way. There, a second compiler comes from Debian together with the library's
//! sources. The library is built once, into a private copy of the sysroot in the cache. Native builds keep their
//! compiler.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::progress;
use crate::tools::apt_install;
use crate::{cargo, place};

/// The target of every program for the browser.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// What makes cargo compile our crates with clippy, which refuses what it warns about. So dependencies are compiled once
/// for lints and tests.
pub(crate) const CLIPPY: [(&str, &str); 2] = [
    ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"),
    ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
];

/// Where Debian puts its compiler; a rustup installation stands before it on `PATH`.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// The compiler, the sources of its library, and the linker.
const DEBIAN_PACKAGES: &[&str] =
    &["rustc-web", "libstd-rust-web-dev", "rust-web-src", "rust-web-llvm"];

/// How cargo is told to build for the browser.
#[derive(Debug)]
pub(crate) struct WasmToolchain {
    environment: Vec<(&'static str, OsString)>,
}

impl WasmToolchain {
    /// Sets a command up to build for the browser, apart from native builds.
    pub(crate) fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("CARGO_TARGET_DIR", place::wasm_target());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)))
    }

    /// Whether the compiler on `PATH` is the one in use, and so its clippy.
    pub(crate) fn is_default(&self) -> bool {
        self.environment.is_empty()
    }

    fn private(sysroot: &Path) -> Self {
        let mut flags = OsString::from("--sysroot=");
        flags.push(sysroot);
        Self {
            environment: vec![
                ("RUSTC", DEBIAN_RUSTC.into()),
                ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", flags),
            ],
        }
    }
}

/// Finds the compiler, or sets it up.
///
/// # Errors
/// Neither rustup nor Debian can give it; the message says what to do.
pub(crate) fn ensure() -> Result<WasmToolchain> {
    let ordinary = WasmToolchain { environment: Vec::new() };
    if has_target("rustc")? {
        return Ok(ordinary);
    }
    if let Some(sysroot) = cached_sysroot()? {
        return Ok(WasmToolchain::private(&sysroot));
    }
    progress::say(format_args!("adding the {TARGET} target with rustup"));
    let add = run(command("rustup").args(["target", "add", TARGET]));
    match add {
        Ok(()) if has_target("rustc")? => return Ok(ordinary),
        Ok(()) => progress::say("the compiler on PATH is not rustup's; taking Debian's"),
        Err(failure) => progress::say(format_args!("{failure}; taking Debian's compiler")),
    }
    apt_install(DEBIAN_PACKAGES)?;
    build_sysroot().map(|sysroot| WasmToolchain::private(&sysroot))
}

/// Whether a compiler has the target's standard library already.
fn has_target(rustc: &str) -> Result<bool> {
    let sysroot = output_of(command(rustc).args(["--print", "sysroot"]))?;
    Ok(library(Path::new(&sysroot)).is_dir())
}

/// Where a sysroot keeps the target's standard library.
fn library(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(TARGET).join("lib")
}

/// The private sysroot of Debian's present compiler, if it was built before.
fn cached_sysroot() -> Result<Option<PathBuf>> {
    if !Path::new(DEBIAN_RUSTC).is_file() {
        return Ok(None);
    }
    Ok(Some(sysroot_place()?).filter(|sysroot| library(sysroot).is_dir()))
}

/// One place per compiler version: an update of Debian's package means another library.
fn sysroot_place() -> Result<PathBuf> {
    let version = compiler_field("release:")?;
    Ok(place::cache()?.join(format!("sysroot-{version}")))
}

/// A field of `rustc -vV`, for example `host:`.
fn compiler_field(name: &str) -> Result<String> {
    let described = output_of(command(DEBIAN_RUSTC).arg("-vV"))?;
    let value = described.lines().find_map(|line| line.strip_prefix(name));
    value.map(|value| value.trim().to_owned()).ok_or_else(|| {
        Failure::new(format!("`{DEBIAN_RUSTC} -vV` has no line `{name}`: is it a Rust compiler?"))
    })
}

/// Builds the target's standard library and puts it into a private sysroot.
fn build_sysroot() -> Result<PathBuf> {
    progress::say(format_args!(
        "building the standard library for {TARGET} (about a minute, once)"
    ));
    let place = sysroot_place()?;
    // Built aside and renamed at the end: a half-made sysroot never stands in its place.
    let aside = place::cache()?.join(format!("unfinished-{}", std::process::id()));
    let made = fill_sysroot(&aside.join("sysroot"), &aside.join("crate")).and_then(|()| {
        fs::rename(aside.join("sysroot"), &place)
            .during(format_args!("moving the sysroot to {}", place.display()))
    });
    fs::remove_dir_all(&aside).during("clearing up after the standard library")?;
    made.map(|()| place)
}

/// Builds the standard library by way of an empty crate, and collects it in a sysroot.
fn fill_sysroot(sysroot: &Path, crate_place: &Path) -> Result<()> {
    write_empty_crate(crate_place)?;
    cargo::build(
        command("cargo")
            .args(["build", "--release", "--target", TARGET])
            .arg("-Zbuild-std=std,panic_abort")
            .current_dir(crate_place)
            .env("CARGO_TARGET_DIR", crate_place.join("target"))
            .env("RUSTC", DEBIAN_RUSTC)
            .env("RUSTC_BOOTSTRAP", "1")
            // Without the bitcode, a page built with link-time optimization does not link.
            .env("RUSTFLAGS", "-Cembed-bitcode=yes"),
        0,
    )?;
    copy_libraries(crate_place, &library(sysroot))?;
    link_host_library(sysroot)
}

fn write_empty_crate(place: &Path) -> Result<()> {
    let manifest = "[package]\nname = \"empty\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::create_dir_all(place.join("src"))
        .and_then(|()| fs::write(place.join("Cargo.toml"), manifest))
        .and_then(|()| fs::write(place.join("src/lib.rs"), ""))
        .during(format_args!("writing an empty crate into {}", place.display()))
}

/// Copies what was built, all but the empty crate itself.
fn copy_libraries(crate_place: &Path, destination: &Path) -> Result<()> {
    let built = crate_place.join("target").join(TARGET).join("release/deps");
    let doing = format!("copying the standard library from {}", built.display());
    fs::create_dir_all(destination).during(&doing)?;
    for entry in fs::read_dir(&built).during(&doing)? {
        let file = entry.during(&doing)?.path();
        let name = file.file_name().unwrap_or_default();
        let is_library = file.extension().is_some_and(|extension| extension == "rlib");
        if is_library && !name.to_string_lossy().starts_with("libempty-") {
            fs::copy(&file, destination.join(name)).during(&doing)?;
        }
    }
    Ok(())
}

/// Lets the private sysroot borrow the compiler's own library for the host: linker, build scripts.
fn link_host_library(sysroot: &Path) -> Result<()> {
    let host = compiler_field("host:")?;
    let original = output_of(command(DEBIAN_RUSTC).args(["--print", "sysroot"]))?;
    let original = Path::new(&original).join("lib/rustlib").join(&host);
    let link = sysroot.join("lib/rustlib").join(&host);
    link_directory(&original, &link).during(format_args!("linking {}", link.display()))
}

#[cfg(unix)]
fn link_directory(original: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(original, link)
}

#[cfg(not(unix))]
fn link_directory(_original: &Path, _link: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("Debian's compiler is only on Debian: use rustup's"))
}
