//! Every module and operator of PyTorch by itself: the events of a steady iteration, ours beside PyTorch's,
//! allocation by allocation, from each format that PyTorch can export it to.
//!
//! `tests/operators.txt` is the table. The ordinary tests look at a sample of it; `cargo xtask operators`
//! looks at all, and with `UPDATE_EXPECT=1` writes it. `cargo xtask operators nn.Linear` shows one entry's events.
//! `tests/fixtures/operators` has what PyTorch did; `tests/oracle/truth/catalogue.py` recorded it.

mod events;
mod table;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;

use highwater_core::diagnostic::Severity;
use highwater_core::estimate::Stages;
use highwater_core::{Config, Model};
use serde::Deserialize;

use self::events::{Difference, Iteration};
use crate::fixtures;
use crate::runs::Run;

/// What PyTorch did, a sample a line.
const FIXTURES: [&str; 2] = ["operators/modules.jsonl.gz", "operators/functions.jsonl.gz"];
/// In the order of the table's columns.
const FORMATS: [&str; 4] = ["train", "eval", "dynamo", "pt2"];
/// COUNT: of so many entries the ordinary tests look at one.
const SAMPLED: usize = 12;

/// One call of a module or an operator.
#[derive(Debug, Deserialize)]
struct Sample {
    name: String,
    args: Option<String>,
    #[serde(default)]
    cases: Vec<Case>,
    #[serde(default)]
    files: BTreeMap<String, File>,
    lost: Option<String>,
}

/// It under one setting: flags as on the command line, and what PyTorch did.
#[derive(Debug, Deserialize)]
struct Case {
    flags: String,
    loss: Option<String>,
    events: Option<String>,
    error: Option<String>,
    /// COUNT: values that the run wanted to know of the device, which has none.
    #[serde(default)]
    reads: u64,
}

/// An export, its bytes as Latin-1 text.
#[derive(Debug, Deserialize)]
struct File {
    bytes: Option<String>,
}

/// How a case went from one format.
#[derive(Clone, Debug)]
enum State {
    /// Every allocation, and every free between two of them, is PyTorch's.
    Proven,
    Differs {
        first: Difference,
        /// Whether our answer carried a warning.
        warned: bool,
    },
    Refused(String),
    NotExported,
}

/// A case from one format.
#[derive(Clone, Debug)]
struct Outcome {
    name: String,
    about: String,
    format: &'static str,
    state: State,
}

#[test]
fn a_sample_of_operators_is_as_the_table_says() {
    let chosen = |at: usize, _: &str| at.is_multiple_of(SAMPLED);
    let outcomes: Vec<Outcome> = judge(&samples(chosen));
    table::assert_no_worse(&outcomes);
}

#[test]
#[ignore = "`cargo xtask operators` runs it"]
#[expect(clippy::print_stdout, reason = "a command speaks on its terminal")]
fn all_operators() {
    let chosen = std::env::var_os("HIGHWATER_OPERATORS").unwrap_or_default();
    let chosen: Vec<&str> = chosen.to_str().expect("names").split_whitespace().collect();
    if !chosen.is_empty() {
        for sample in samples(|_, name| chosen.contains(&name)) {
            print!("{}", aligned(&sample));
        }
        return;
    }
    let samples = samples(|_, _| true);
    let outcomes = judge(&samples);
    println!("{}", table::summary(&outcomes));
    table::compare_or_write(&outcomes, &left_out(&samples));
}

/// Samples of the entries that are chosen by their number and name.
fn samples(chosen: impl Fn(usize, &str) -> bool) -> Vec<Sample> {
    let unpacked = FIXTURES.map(|name| fixtures::unpack(name).expect("the catalogue"));
    let text = String::from_utf8(unpacked.concat()).expect("text");
    let (mut entry, mut last) = (0, "");
    let mut found = Vec::new();
    for line in text.lines() {
        let name = line.split('"').nth(3).expect("a name first");
        if name != last && !last.is_empty() {
            entry += 1;
        }
        last = name;
        if chosen(entry, name) {
            found.push(serde_json::from_str(line).expect("a sample"));
        }
    }
    found
}

/// All cases from all formats, in the order of samples.
fn judge(samples: &[Sample]) -> Vec<Outcome> {
    let queue = Mutex::new(samples.iter().enumerate());
    let done = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((at, sample)) = { queue.lock().unwrap().next() } {
                    let outcomes = judge_sample(sample);
                    done.lock().unwrap().insert(at, outcomes);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().flatten().collect()
}

fn judge_sample(sample: &Sample) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for format in FORMATS {
        let Some(model) = open(sample, format) else { continue };
        for (case, truth) in known_cases(sample) {
            let state = match &model {
                Export::None => State::NotExported,
                Export::Refused(error) => State::Refused(error.clone()),
                Export::Read(model) => compare(model, case, &truth),
            };
            let about =
                format!("{} | {}", sample.args.as_deref().unwrap_or(""), short(&case.flags));
            outcomes.push(Outcome { name: sample.name.clone(), about, format, state });
        }
    }
    outcomes
}

/// Cases that PyTorch ran and that depend on no values.
fn known_cases(sample: &Sample) -> Vec<(&Case, Iteration)> {
    let told = |case: &'_ Case| case.reads == 0;
    let cases = sample.cases.iter().filter(|case| told(case));
    cases.filter_map(|case| Some((case, Iteration::read(case.events.as_ref()?)))).collect()
}

/// Entries of which there is nothing to compare, by the reason.
fn left_out(samples: &[Sample]) -> BTreeMap<String, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for sample in samples {
        let why = sample.lost.as_deref().or_else(|| sample.cases.first()?.error.as_deref());
        let reason = reasons.entry(&sample.name).or_insert(Some("depends on values on the device"));
        if !known_cases(sample).is_empty() {
            *reason = None;
        } else if reason.is_some() {
            *reason = why.or(*reason);
        }
    }
    let mut left: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, reason) in reasons {
        let Some(reason) = reason else { continue };
        let brief: String = reason.chars().take(60).collect();
        left.entry(brief).or_default().push(name);
    }
    left
}

/// Flags that tell cases apart.
fn short(flags: &str) -> String {
    let rest = flags.replace("--optimizer sgd", "").replace("--precision ", "");
    rest.replace("--memory-format ", "").replace("--", "").trim().to_owned()
}

/// What one format has of a sample.
enum Export {
    None,
    Refused(String),
    Read(Box<Model>),
}

/// The model from one format; `None` where it was not asked for.
fn open(sample: &Sample, format: &str) -> Option<Export> {
    let Some(text) = &sample.files.get(format)?.bytes else { return Some(Export::None) };
    let byte = |character: char| u8::try_from(u32::from(character)).expect("Latin-1");
    let bytes: Vec<u8> = text.chars().map(byte).collect();
    let opened = highwater_core::open(&mut bytes.as_slice(), &sample.name);
    Some(match opened {
        Ok(model) => Export::Read(Box::new(model)),
        Err(error) => Export::Refused(error.to_string()),
    })
}

fn compare(model: &Model, case: &Case, truth: &Iteration) -> State {
    match predict(model, case) {
        Err(error) => State::Refused(error),
        Ok((ours, warned)) => match ours.difference(truth) {
            None => State::Proven,
            Some(first) => State::Differs { first, warned },
        },
    }
}

/// Our events, and whether the answer carries a warning.
fn predict(model: &Model, case: &Case) -> Result<(Iteration, bool), String> {
    let loss = case.loss.as_deref().unwrap_or("sum");
    let settings = format!("{} --loss {loss}", case.flags);
    let run = Run { model: String::new(), batch: 1, seq: None, settings };
    // Sizes are those of the file.
    let config = Config { dims: BTreeMap::new(), ..run.configuration(model)? };
    let simulation =
        model.simulate(&config, &mut Stages::default()).map_err(|error| error.to_string())?;
    let report = simulation.report();
    let warned = report.diagnostics.iter().any(|told| {
        // However few of these small bytes are alive at the peak; and that the file does not tell.
        let is_stated = matches!(&*told.code, "unproven-operator" | "assumed-dropout");
        told.severity != Severity::Info || is_stated
    });
    Ok((Iteration::of(simulation.trace()), warned || report.lower_bound))
}

/// Ours and theirs of each case that is not proven, side by side.
fn aligned(sample: &Sample) -> String {
    let mut text = String::new();
    for format in FORMATS {
        let Some(model) = open(sample, format) else { continue };
        for (case, truth) in known_cases(sample) {
            let about = sample.args.as_deref().unwrap_or("");
            writeln!(text, "{} {format}: {about} | {}", sample.name, short(&case.flags)).unwrap();
            let lines = match &model {
                Export::None => "  not exported\n".to_owned(),
                Export::Refused(error) => format!("  refused: {error}\n"),
                Export::Read(model) => match predict(model, case) {
                    Err(error) => format!("  refused: {error}\n"),
                    Ok((ours, warned)) => events::side_by_side(&ours, &truth, warned),
                },
            };
            text.push_str(&lines);
        }
    }
    text
}
