//! Public reports of what training runs took, and what `highwater estimate` answers to each.

use std::fmt::Write as _;
use std::fs;

use expect_test::expect_file;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use crate::run::highwater;

const REPORTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/reports/reports.toml");

/// PERCENT: how far an answer may be off to be right.
const NEAR: f64 = 6.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reports {
    report: Vec<Report>,
}

/// What somebody has published of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    /// Repository, and thread or document.
    source: String,
    /// What ran, in words.
    run: String,
    /// The run as `highwater estimate` is asked for it.
    arguments: String,
    /// Largest allocated memory, with its unit.
    allocated: Option<String>,
    /// What `nvidia-smi` showed of the process, with its unit.
    process: Option<String>,
    /// Whether it ran on the device.
    ran: Option<bool>,
    /// Why the answer is not right, if it is not.
    #[serde(default)]
    because: String,
}

/// An answer next to the truth.
struct Answer {
    is_right: bool,
    shown: String,
}

impl Report {
    fn answer(&self) -> Answer {
        let asked = ["estimate", "--json", "--no-max-batch"];
        let words = self.arguments.split_whitespace();
        let outcome = highwater(&asked.into_iter().chain(words).collect::<Vec<_>>());
        assert_eq!(outcome.stderr, "", "{}", self.arguments);
        let answer: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        let device = &answer["devices"][0];
        match (&self.allocated, &self.process, self.ran) {
            (Some(truth), None, None) => against(truth, &answer["peak"]["allocated"]),
            (None, Some(truth), None) => against(truth, &device["need"]),
            (None, None, Some(ran)) => {
                let verdict = device["verdict"].as_str().expect("a verdict");
                let fails = ["does-not-fit", "likely-does-not-fit"].contains(&verdict);
                let is_right = verdict != "not-known" && ran != fails;
                let truth = if ran { "ran" } else { "out of memory" };
                Answer { is_right, shown: format!("{truth}: {verdict}") }
            }
            _ => panic!("{}: give allocated, process or ran", self.run),
        }
    }
}

fn against(truth: &str, bytes: &Value) -> Answer {
    let (number, unit) = truth.split_once(' ').expect("a unit");
    let size = match unit {
        "GiB" => 1024_f64 * 1024_f64 * 1024_f64,
        "MiB" => 1024_f64 * 1024_f64,
        "GB" => 1e9,
        _ => panic!("{unit} is no unit"),
    };
    let number: f64 = number.parse().expect("a number");
    let ours = bytes.as_f64().expect("bytes") / size;
    let off = (ours / number - 1.0) * 100.0;
    Answer { is_right: off.abs() <= NEAR, shown: format!("{truth}: {ours:.2}, {off:+.1} %") }
}

#[test]
fn answers_to_public_reports() {
    let text = fs::read_to_string(REPORTS).expect("the reports");
    let reports: Reports = toml::from_str(&text).expect("TOML");
    let answers: Vec<Answer> = reports.report.par_iter().map(Report::answer).collect();
    let right = answers.iter().filter(|answer| answer.is_right).count();
    let mut page = format!(
        "{right} of {} public reports are answered rightly: within {NEAR} %, or with the same outcome.\n\
         Each: the run, what was reported and our answer, and why it is not right.\n",
        answers.len()
    );
    let mut source = "";
    for (report, Answer { is_right, shown }) in reports.report.iter().zip(&answers) {
        if report.source != source {
            source = &report.source;
            writeln!(page, "\n{source}").unwrap();
        }
        let mark = if *is_right { ' ' } else { '!' };
        writeln!(page, "{mark} {}\n    {shown}", report.run).unwrap();
        if !report.because.is_empty() {
            writeln!(page, "    {}", report.because).unwrap();
        }
        assert_eq!(*is_right, report.because.is_empty(), "{}: {shown}", report.run);
    }
    expect_file!["../../../tests/fixtures/reports/answers.txt"].assert_eq(&page);
}
