//! The static page: in `dist/` as people get it.

use std::fs;
use std::path::Path;
use std::time::Instant;

use highwater_pack as pack;

use crate::manifest::{self, Asset};
use crate::process::{Failure, Result, While as _, command, run};
use crate::program::{self, Flavour};
use crate::progress;
use crate::site::{self, Files};
use crate::{docs, hosting, offline, place, toolchain};

/// Builds the page into `dist/`, setting up what is missing first.
///
/// # Errors
/// The set-up or the build fails.
pub(crate) fn build(flavour: Flavour) -> Result<()> {
    let begun = Instant::now();
    progress::step(0..15, "looking for a compiler that builds for the browser");
    let toolchain = toolchain::ensure()?;
    progress::step(15..20, "fetching the dependencies of Cargo.lock");
    run(command("cargo").args(["fetch", "--quiet", "--locked"]))?;
    let root = place::root();
    let page = fs::read_to_string(root.join("index.html")).during("reading index.html")?;
    let links = manifest::links(&page)?;
    let program = links.iter().find_map(|link| match &link.asset {
        Asset::Program(program) => Some(program),
        _ => None,
    });
    let program = program.ok_or_else(|| Failure::new("index.html lists no program"))?;
    let loadable = program::build(&toolchain, program, flavour)?;
    progress::step(99..100, "putting the page together");
    let mut files = site::assemble(&root, &page, &links, loadable, flavour)?;
    add_fetched(&root, &mut files)?;
    // A page that changes all the time is not kept: reloading must show what was built.
    docs::add(&root, &mut files)?;
    offline::prepare(&mut files, flavour != Flavour::Quick)?;
    hosting::add_headers(&mut files);
    write(&files)?;
    progress::say(format_args!("the page is in dist after {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

/// Builds the pages of the documentation into `dist/`, next to a page that was built before, if there is one.
///
/// # Errors
/// The documentation has a broken link, or a file cannot be read or written.
pub(crate) fn build_docs() -> Result<()> {
    let (root, dist) = (place::root(), place::dist());
    let mut files = Files::new();
    for file in
        if dist.is_dir() { place::files(&dist).during("listing dist/")? } else { Vec::new() }
    {
        let name = file.strip_prefix(&dist).during("listing dist/")?;
        let name = name.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        if !name.starts_with("docs") && !hosting::is_for_hosts(&name) {
            files.insert(name, fs::read(&file).during(format_args!("reading {}", file.display()))?);
        }
    }
    // The list in it is made anew.
    let worker = fs::read_to_string(root.join("public/sw.js")).during("reading sw.js")?;
    files.insert("sw.js".to_owned(), site::trimmed(&worker).into_bytes());
    docs::add(&root, &mut files)?;
    offline::prepare(&mut files, true)?;
    hosting::add_headers(&mut files);
    write(&files)?;
    progress::say("the documentation is in dist/docs");
    Ok(())
}

/// Adds what the program fetches when it needs it: cuDNN's choices, and texts.
fn add_fetched(root: &Path, files: &mut Files) -> Result<()> {
    let core = root.join("core");
    let packing = |error| Failure::new(format!("packing what the program fetches: {error}"));
    let parts =
        pack::parts(&core.join("engine/src/aten/conv/workspace/choices")).map_err(packing)?;
    files.extend(parts.into_iter().map(|part| (part.file, part.bytes)));
    for fetched in pack::FETCHED {
        let (file, text) = fetched.file(&core.join(fetched.package)).map_err(packing)?;
        files.insert(file, text.into_bytes());
    }
    Ok(())
}

/// Writes files into `dist/`, and removes what was there before.
fn write(files: &Files) -> Result<()> {
    let folder = place::dist();
    place::gone(fs::remove_dir_all(&folder)).during("clearing dist up")?;
    for (name, bytes) in files {
        let file = folder.join(name);
        let doing = format!("writing {name}");
        fs::create_dir_all(file.parent().unwrap_or(&folder)).during(&doing)?;
        fs::write(file, bytes).during(&doing)?;
    }
    Ok(())
}
