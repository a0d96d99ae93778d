//! Trunk, wasm-bindgen, a browser, Node: looked for first, installed only when missing.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::place::{self, find_program};
use crate::process::{Failure, Result, While as _, command, output_of, progress, run};

/// The Trunk that this page is built with; 0.22 asks for a newer compiler than this project.
const TRUNK: &str = "0.21.14";

/// A command that cargo can install.
struct CargoTool<'a> {
    package: &'a str,
    command: &'a str,
    version: &'a str,
    options: &'a [&'a str],
}

/// `PATH` with Trunk and the wasm-bindgen that matches `Cargo.lock` at its front.
///
/// # Errors
/// One of them is missing and cannot be installed.
pub(crate) fn path_for_trunk() -> Result<OsString> {
    let bindgen_version = locked_version("wasm-bindgen")?;
    let trunk = CargoTool {
        package: "trunk",
        command: "trunk",
        version: TRUNK,
        options: &["--no-default-features", "--features", "rustls"],
    };
    let bindgen = CargoTool {
        package: "wasm-bindgen-cli",
        command: "wasm-bindgen",
        version: &bindgen_version,
        options: &["--config", "profile.dev.opt-level=1"],
    };
    let mut directories = vec![trunk.ensure()?, bindgen.ensure()?];
    directories.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    env::join_paths(directories).during("joining PATH")
}

impl CargoTool<'_> {
    /// The folder of the command, installed into the cache if need be.
    fn ensure(&self) -> Result<PathBuf> {
        if let Some(found) = find_program(&[self.command])
            && self.is_right(&found)
        {
            return Ok(found.parent().map(Path::to_owned).unwrap_or_default());
        }
        let home = place::cache()?.join("tools").join(format!("{}-{}", self.command, self.version));
        let bin = home.join("bin");
        if !self.is_right(&bin.join(self.command)) {
            progress(format_args!(
                "installing {} {} (some minutes, once)",
                self.package, self.version
            ));
            self.install(&home)?;
        }
        Ok(bin)
    }

    fn is_right(&self, program: &Path) -> bool {
        let said = output_of(command(program).arg("--version"));
        said.is_ok_and(|said| said.split_whitespace().any(|word| word == self.version))
    }

    /// Builds the command. A registry that lags behind may lack a version that the tool's own
    /// lock file names; then cargo chooses among those there are.
    fn install(&self, home: &Path) -> Result<()> {
        if self.cargo_install(home, &["--locked"]).is_ok() {
            return Ok(());
        }
        progress(format_args!("{}: trying without its lock file", self.package));
        self.cargo_install(home, &[]).map_err(|failure| {
            Failure::new(format!(
                "{} {} is missing and could not be built ({failure}); put it on PATH",
                self.package, self.version
            ))
        })
    }

    fn cargo_install(&self, home: &Path, extra: &[&str]) -> Result<()> {
        // Not optimized: it builds in half the time, and serves as well.
        run(command("cargo")
            .args(["install", "--debug", "--config", "profile.dev.debug=false"])
            .args(["--version", self.version, self.package])
            .args(self.options)
            .args(extra)
            .arg("--root")
            .arg(home)
            .env("CARGO_TARGET_DIR", home.join("target")))?;
        fs::remove_dir_all(home.join("target")).during("clearing up after cargo install")
    }
}

/// The version of a package in `Cargo.lock`.
fn locked_version(package: &str) -> Result<String> {
    let lock = fs::read_to_string(place::root().join("Cargo.lock")).during("reading Cargo.lock")?;
    let mut lines = lock.lines();
    let name = format!("name = \"{package}\"");
    lines.find(|line| *line == name);
    let version = lines.next().and_then(|line| line.strip_prefix("version = "));
    version.map(|version| version.trim_matches('"').to_owned()).ok_or_else(|| {
        Failure::new(format!("Cargo.lock names no {package}: does the app still depend on it?"))
    })
}

/// A Chromium to test the page in.
///
/// # Errors
/// There is none and Debian's cannot be installed.
pub(crate) fn chromium() -> Result<PathBuf> {
    ensure_program(&["chromium", "chromium-browser", "google-chrome"], &["chromium"])
}

/// Node, with npm, to run the browser tests.
///
/// # Errors
/// There is none and Debian's cannot be installed.
pub(crate) fn node() -> Result<()> {
    ensure_program(&["node"], &["nodejs"])?;
    ensure_program(&["npm"], &["npm"])?;
    Ok(())
}

fn ensure_program(names: &[&str], packages: &[&str]) -> Result<PathBuf> {
    if let Some(found) = find_program(names) {
        return Ok(found);
    }
    apt_install(packages)?;
    find_program(names).ok_or_else(|| {
        Failure::new(format!("no {} on PATH; install one by hand", names.join(" or ")))
    })
}

/// Installs Debian packages, where that is possible.
///
/// # Errors
/// This is no Debian, or not its administrator; the message is what to type.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    progress(format_args!("installing {} with apt-get", packages.join(" ")));
    let apt = |arguments: &[&str]| {
        run(command("apt-get").arg("-qq").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let install: Vec<&str> = ["install", "--yes", "--no-install-recommends"]
        .into_iter()
        .chain(packages.iter().copied())
        .collect();
    apt(&["update"]).and_then(|()| apt(&install)).map_err(|failure| {
        Failure::new(format!(
            "{failure}; install these by hand and try again: apt-get install {}",
            packages.join(" ")
        ))
    })
}
