//! Terminals have a width and colours; pipes have neither, so that scripts stay as they are.

use std::process::Command;

use expect_test::expect_file;

use crate::run::{highwater, model};

/// What the program prints in a pipe under a variable of the environment.
fn piped(variable: (&str, &str), arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env(variable.0, variable.1);
    String::from_utf8(command.args(arguments).output().unwrap().stdout).unwrap()
}

/// A text without escape sequences that style it.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn colours_are_forced_and_forbidden_by_variables() {
    let model = model("train/alexnet");
    let ask = ["estimate", &model, "--devices", "t4", "--no-max-batch"];
    let usual = piped(("TERM", "xterm"), &ask);
    assert!(!usual.contains('\u{1b}'), "{usual}");
    let forced = piped(("CLICOLOR_FORCE", "1"), &ask);
    assert!(forced.contains("\u{1b}["), "{forced}");
    assert_eq!(plain(&forced), usual);
    assert_eq!(piped(("COLUMNS", "40"), &ask), usual);
}

#[test]
fn the_timeline_is_drawn() {
    let model = model("train/alexnet");
    let ask = ["estimate", &model, "--batch", "256", "--optimizer", "adam", "--device", "t4"];
    let only = highwater(&[ask.as_slice(), &["--devices", "t4", "--plot=-"]].concat()).stdout;
    expect_file!["plot.txt"].assert_eq(&only);
    // What it takes is near the capacity, and the run has one phase.
    let near = ["--capacity", "2600MiB", "--workload", "inference", "--devices", "t4", "--plot=-"];
    let near = highwater(&[ask.as_slice(), &near].concat()).stdout;
    let near = near + &highwater(&["estimate", "gpt2", "--capacity", "4GiB", "--plot=-"]).stdout;
    expect_file!["plot_near.txt"].assert_eq(&near);
    for line in only.lines().chain(near.lines()) {
        assert!(line.chars().count() <= 80 && !line.ends_with(' '), "{line:?}");
    }
    let report = highwater(&[ask.as_slice(), &["--no-max-batch", "--plot"]].concat()).stdout;
    assert!(report.contains(&format!("\nTimeline\n{only}\nEach iteration\n")), "{report}");
    let forced = piped(("CLICOLOR_FORCE", "1"), &[ask.as_slice(), &["--plot=-"]].concat());
    assert!(forced.contains("\u{1b}[38;2;226;96;42m█"), "{forced}");
    let axis = |text: &str| text.lines().find(|line| line.contains('└')).map(str::to_owned);
    assert_eq!(axis(&plain(&forced)), axis(&only), "the same picture");
}

#[test]
fn a_plot_is_written_next_to_json() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plot-file.txt");
    std::fs::remove_file(&path).ok();
    let plot = format!("--plot={}", path.display());
    let outcome = highwater(&["estimate", "resnet18", "--devices", "t4", "--json", &plot]);
    assert!(serde_json::from_str::<serde_json::Value>(&outcome.stdout).is_ok());
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.contains("At the peak of ") && !written.contains('\u{1b}'), "{written}");
}

/// `script` of util-linux runs a program in a terminal.
#[cfg(target_os = "linux")]
mod in_a_terminal {
    use super::*;

    /// What the program prints on a terminal of a width, standard error included.
    fn shown(columns: usize, before: &str, arguments: &str) -> String {
        let program = env!("CARGO_BIN_EXE_highwater");
        let line = format!("stty cols {columns} rows 40; {before} {program} {arguments}");
        let mut command = Command::new("script");
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let output = command.args(["-qec", &line, "/dev/null"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
    }

    #[test]
    fn reports_are_as_wide_as_the_terminal() {
        let model = model("train/alexnet");
        let devices = "--devices t4,rtx-pro-6000,a100-40gb --plot";
        let ask = format!("estimate {model} --batch 64 {devices}");
        for columns in [80, 100, 160] {
            let text = shown(columns, "", &ask);
            assert!(text.contains("\u{1b}[1mPeaks"), "{text}");
            for line in plain(&text).lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
        let wide = plain(&shown(1000, "", &ask));
        let ask: Vec<&str> = ask.split(' ').collect();
        let (begin, _) = wide.split_once("\nTimeline\n").unwrap();
        assert!(highwater(&ask).stdout.starts_with(begin), "a wide terminal shows what a pipe has");
    }

    #[test]
    fn no_color_is_obeyed_and_json_is_not_wrapped() {
        let text = shown(80, "NO_COLOR=1", "estimate resnet18 --devices t4 --no-max-batch --plot");
        assert!(text.contains("Peaks") && !text.contains("\u{1b}[1m"), "{text}");
        assert!(!text.contains("\u{1b}[38"), "{text}");
        let text = shown(40, "", "estimate resnet18 --devices t4 --no-max-batch --json");
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["model"]["name"], "resnet18");
    }

    #[test]
    fn what_takes_long_shows_how_far_it_is() {
        let line = "trying 18 ways on several GPUs: ";
        let slow = "scale llama-3.2-1b --counts 2,8,64 --device a100-80gb";
        let text = shown(80, "", slow);
        assert!(text.contains(line) && text.contains(" of 18"), "{text}");
        // Nothing of it stays: the line is erased before the answer.
        let (_, end) = text.rsplit_once(line).unwrap();
        assert!(end.contains("\u{1b}[2K") && end.contains("What each GPU needs"), "{end}");
        let outcome = highwater(&slow.split(' ').collect::<Vec<_>>());
        assert_eq!(outcome.stderr, "");
        let quick = shown(80, "", "estimate resnet18 --devices t4 --batch 2");
        assert!(!quick.contains("asking"), "{quick}");
    }
}
