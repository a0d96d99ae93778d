//! What shells and `man` want to know, from the same table as the flags: completions and man pages.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Arguments;

/// The script that completes commands and flags in a shell.
pub(crate) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "highwater", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The man page of the program; or, with a folder, a page for each command in it.
///
/// # Errors
/// When a page cannot be written.
pub(crate) fn man(folder: Option<&Path>) -> Result<String, String> {
    let cannot = |error: io::Error| match folder {
        Some(folder) => format!("{}: cannot write man pages: {error}", folder.display()),
        None => format!("cannot write the man page: {error}"),
    };
    let command = Arguments::command();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(cannot)?;
        return Ok(String::from_utf8_lossy(&page).into_owned());
    };
    fs::create_dir_all(folder).map_err(cannot)?;
    // `highwater help` is no command of its own.
    clap_mangen::generate_to(command.disable_help_subcommand(true), folder).map_err(cannot)?;
    let pages = fs::read_dir(folder).map_err(cannot)?.count();
    Ok(format!("{pages} pages are in {}.\n", folder.display()))
}
