//! Completions and man pages, which come from the flags.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::run::{file, highwater};

/// The commands that `highwater --help` lists.
fn commands() -> BTreeSet<String> {
    let help = highwater(&["--help"]).stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let first = |line: &str| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned);
    let all = lines.filter_map(first).filter(|name| !name.is_empty() && name != "help");
    all.collect()
}

#[test]
fn every_command_has_a_man_page() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("man");
    fs::remove_dir_all(&folder).ok();
    let outcome = highwater(&["man", folder.to_str().unwrap()]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    for command in &commands {
        let page = page(&format!("highwater-{command}.1"));
        assert!(page.contains(&format!(".TH highwater-{command} 1")), "{page}");
    }
    let estimate = page("highwater-estimate.1");
    for part in ["\\-\\-optimizer", "adamw", "\\-\\-plot", "Exit status"] {
        assert!(estimate.contains(part), "{part} is missing in {estimate}");
    }
    let pages = fs::read_dir(&folder).unwrap().count();
    assert_eq!(pages, commands.len() + 1, "a page for each command, and one for all");
    assert_eq!(outcome.stdout, format!("{pages} pages are in {}.\n", folder.display()));
    // The main page is what is printed.
    let printed = highwater(&["man"]).stdout;
    assert!(printed.contains(".TH highwater 1") && printed.contains("highwater\\-estimate(1)"));
    let taken = file("taken", b"");
    let refused = highwater(&["man", taken.to_str().unwrap()]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("cannot write man pages"), "{}", refused.stderr);
}

#[test]
fn every_shell_has_its_script() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = highwater(&["completions", shell]);
        assert_eq!(outcome.status, Some(0), "{shell}: {}", outcome.stderr);
        for part in commands.iter().map(String::as_str).chain(["optimizer", "adamw-8bit"]) {
            // PowerShell and elvish complete no values.
            let is_value = part == "adamw-8bit" && matches!(shell, "elvish" | "powershell");
            assert!(is_value || outcome.stdout.contains(part), "{shell} lacks {part}");
        }
    }
    let refused = highwater(&["completions", "csh"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("bash, elvish, fish, powershell, zsh"), "{}", refused.stderr);
}

#[cfg(unix)]
#[test]
fn bash_reads_its_script() {
    let script = file("completions.bash", highwater(&["completions", "bash"]).stdout.as_bytes());
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
    // What bash completes behind a flag with few values.
    let ask = "source \"$0\"; COMP_WORDS=(highwater estimate --zero-grad ''); COMP_CWORD=3; \
               _highwater highwater '' --zero-grad; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", ask]).arg(&script).output().unwrap();
    let completed = String::from_utf8(output.stdout).unwrap();
    assert!(completed.split_whitespace().any(|word| word == "before-backward"), "{completed}");
}
