//! A row per family of formats: its seeds, its mutation, what reads it.

use std::cell::RefCell;

use highwater_core::autopsy::Autopsy;
use highwater_core::diagnostic::Diagnostic;
use highwater_core::profiled::{self, History, Traced};
use highwater_core::recorded::{self, Recorded};
use highwater_core::source::Counted;
use highwater_core::wording::headline;
use highwater_core::{Config, Error, Model, Report, Source, observed, recipe};

use crate::mutate::{Corpus, Mutation, bytes, json, onnx, text};
use crate::random::Random;
use crate::seeds;

/// A family of formats.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line, and of the folder of its found cases.
    pub name: &'static str,
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Makes another input of one.
    pub mutate: Mutation,
    /// Reads an input and answers it.
    pub run: fn(&[u8]) -> Outcome,
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    Target { name: "onnx", seeds: seeds::onnx, mutate: onnx::mutate, run: model },
    Target { name: "onnx-text", seeds: seeds::onnx_text, mutate: text::mutate, run: model },
    Target { name: "spec", seeds: seeds::spec, mutate: short, run: model },
    Target { name: "config", seeds: seeds::configurations, mutate: configuration, run: model },
    Target { name: "printed", seeds: seeds::printed, mutate: short, run: model },
    Target { name: "summary", seeds: seeds::summaries, mutate: text::mutate, run: model },
    Target { name: "keras", seeds: seeds::keras, mutate: json::mutate, run: model },
    Target { name: "pt2", seeds: seeds::exported, mutate: json::mutate, run: exported },
    Target { name: "archive", seeds: seeds::archives, mutate: bytes::mutate, run: model },
    Target { name: "safetensors", seeds: seeds::headers, mutate: header, run: safetensors },
    Target { name: "pickle", seeds: seeds::pickles, mutate: bytes::mutate, run: snapshot },
    Target { name: "snapshot", seeds: seeds::events, mutate: json::mutate, run: events },
    Target { name: "trace", seeds: seeds::traces, mutate: json::mutate, run: trace },
    Target { name: "message", seeds: seeds::messages, mutate: text::mutate, run: message },
    Target { name: "recipe", seeds: seeds::recipes, mutate: text::mutate, run: recipe },
    Target { name: "settings", seeds: seeds::settings, mutate: text::mutate, run: settings },
];

/// How an input was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How far it came.
    pub stage: Stage,
    /// What makes it another outcome than others: the words of a refusal, the codes of an answer.
    pub signature: String,
    /// The answer, for comparison with that of a second execution.
    pub answer: String,
    /// SUM: bytes that were read.
    pub read: u64,
    /// COUNT: operators that repetitions and loops were written out to.
    pub operators: u64,
}

/// How far an input came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing could be read.
    #[default]
    Refused,
    /// It was read, and then the answer was refused.
    Read,
    /// It was answered.
    Answered,
}

impl Outcome {
    fn refused(stage: Stage, error: &Error, read: u64) -> Self {
        let answer = error.to_string();
        Self { stage, signature: skeleton(&answer), answer, read, operators: 0 }
    }

    fn answered<'d>(
        answer: String,
        diagnostics: impl Iterator<Item = &'d Diagnostic>,
        read: u64,
    ) -> Self {
        let mut codes: Vec<String> = diagnostics.map(|found| found.code.clone()).collect();
        codes.sort_unstable();
        codes.dedup();
        Self { stage: Stage::Answered, signature: codes.join(" "), answer, read, operators: 0 }
    }
}

/// The words of a message without what comes from the input: numbers, quotations.
fn skeleton(message: &str) -> String {
    let mut skeleton = String::new();
    for (position, part) in message.split(['`', '"', '\'', '“', '”']).enumerate() {
        if position % 2 == 0 {
            skeleton.extend(part.chars().filter(|c| !c.is_ascii_digit()).take(60));
        }
    }
    skeleton.chars().take(120).collect()
}

/// What a report states, in short; its parts must agree.
///
/// # Panics
/// When more is allocated than reserved.
fn stated(report: &Report) -> String {
    let headline = headline(report, None);
    let rest: Vec<String> = headline.rest.iter().map(ToString::to_string).collect();
    let rest = rest.join(" ");
    assert!(
        report.peak.allocated <= report.peak.reserved,
        "more is allocated than reserved: {:?}",
        report.peak
    );
    let autopsy = Autopsy::of(report);
    format!("{} {rest}\n{:?}\n{:?}", headline.lead, report.peak, autopsy)
}

fn model(input: &[u8]) -> Outcome {
    opened(&mut { input })
}

fn opened(source: &mut dyn Source) -> Outcome {
    let mut source = Counted::new(source);
    let opened = highwater_core::open(&mut source, "model");
    let read = source.stats().bytes_read;
    match opened {
        Ok(model) => estimated(&model, &Config::default(), read),
        Err(error) => Outcome::refused(Stage::Refused, &error, read),
    }
}

fn estimated(model: &Model, config: &Config, read: u64) -> Outcome {
    let outcome = match model.estimate(config) {
        Ok(report) => {
            let outcome = Outcome::answered(stated(&report), report.diagnostics.iter(), read);
            let operators = u64::try_from(report.model.operators).unwrap_or(0);
            Outcome { operators, ..outcome }
        }
        Err(error) => Outcome::refused(Stage::Read, &error, read),
    };
    let nodes = u64::try_from(model.graph().nodes.len()).unwrap_or(0);
    Outcome { operators: outcome.operators.max(nodes), ..outcome }
}

/// A configuration, mostly of few layers: a thousand take a second.
fn configuration(corpus: &Corpus, input: &[u8], random: &mut Random) -> Vec<u8> {
    let mutated = json::mutate(corpus, input, random);
    match serde_json::from_slice(&mutated) {
        Ok(mut value) if !random.once_in(500) => {
            seeds::few_layers(&mut value);
            serde_json::to_vec(&value).unwrap_or(mutated)
        }
        _ => mutated,
    }
}

/// A text, mostly with few repetitions.
fn short(corpus: &Corpus, input: &[u8], random: &mut Random) -> Vec<u8> {
    let mutated = text::mutate(corpus, input, random);
    if random.once_in(500) {
        return mutated;
    }
    let mut text = String::from_utf8_lossy(&mutated).into_owned();
    for (before, behind) in [("repeat: ", '\n'), ("(0-", ')')] {
        let parts = text.split(before).enumerate().map(|(at, part)| {
            let (number, rest) = part.split_at(part.find(behind).unwrap_or(0));
            let is_long = at > 0 && number.len() > 1 && number.bytes().all(|c| c.is_ascii_digit());
            if is_long { format!("1{rest}") } else { part.to_owned() }
        });
        text = parts.collect::<Vec<_>>().join(before);
    }
    text.into_bytes()
}

/// A header of safetensors, mostly one whose tensors lie behind each other, as the format demands.
fn header(corpus: &Corpus, input: &[u8], random: &mut Random) -> Vec<u8> {
    let mutated = json::mutate(corpus, input, random);
    let Ok(mut header) = serde_json::from_slice::<serde_json::Value>(&mutated) else {
        return mutated;
    };
    if random.once_in(4) {
        return mutated;
    }
    let mut start = 0_u64;
    for tensor in header.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        let width = match tensor["dtype"].as_str() {
            Some("F64" | "I64" | "U64") => 8,
            Some("F32" | "I32" | "U32") => 4,
            Some("F16" | "BF16" | "I16" | "U16") => 2,
            Some(_) => 1,
            None => continue,
        };
        let Some(dims) = tensor["shape"].as_array() else { continue };
        let dims = dims.iter().map(|dim| dim.as_u64().unwrap_or(1));
        let end = dims.fold(width, u64::saturating_mul).saturating_add(start);
        tensor["data_offsets"] = serde_json::json!([start, end]);
        start = end;
    }
    serde_json::to_vec(&header).unwrap_or(mutated)
}

fn exported(input: &[u8]) -> Outcome {
    opened(&mut seeds::zip("m/models/model.json", input).as_slice())
}

/// A file of safetensors of which only the header is there, as large as its tensors say.
struct Header {
    begin: Vec<u8>,
    length: u64,
}

impl Source for Header {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        buffer.fill(0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.begin.len());
        let there = &self.begin[start..];
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(())
    }
}

fn safetensors(input: &[u8]) -> Outcome {
    let header: serde_json::Value = serde_json::from_slice(input).unwrap_or_default();
    if header.get("weight_map").is_some() {
        return model(input);
    }
    let size = u64::try_from(input.len()).unwrap_or(0);
    let begin = [&size.to_le_bytes(), input].concat();
    let tensors = header.as_object().into_iter().flat_map(serde_json::Map::values);
    let end = tensors.filter_map(|tensor| tensor["data_offsets"][1].as_u64()).max().unwrap_or(0);
    let length = (size + 8).saturating_add(end);
    opened(&mut Header { begin, length })
}

fn snapshot(input: &[u8]) -> Outcome {
    let mut input = input;
    let mut source = Counted::new(&mut input);
    let opened = recorded::open(&mut source);
    let read = source.stats().bytes_read;
    let snapshot = match opened {
        Ok(snapshot) => snapshot,
        Err(error) => return Outcome::refused(Stage::Refused, &error, read),
    };
    let answer = Recorded::of(&snapshot, None).and_then(|recorded| {
        let report = recorded.report("snapshot", &Config::default())?;
        let what_ifs = recorded.what_ifs(None)?;
        recorded.timeline(100);
        Ok((report, what_ifs.len(), recorded::readings(&snapshot).len()))
    });
    match answer {
        Ok((report, ..)) => {
            let answer = format!("{:?}{}", report.peak, headline(&report, None).lead);
            Outcome::answered(answer, report.diagnostics.iter(), read)
        }
        Err(error) => Outcome::refused(Stage::Read, &error, read),
    }
}

fn events(input: &[u8]) -> Outcome {
    serde_json::from_slice(input)
        .map_or_else(|_| Outcome::default(), |value| snapshot(&seeds::pickle(&value)))
}

fn trace(input: &[u8]) -> Outcome {
    let mut input = input;
    let mut source = Counted::new(&mut input);
    let opened = profiled::open(&mut source);
    let read = source.stats().bytes_read;
    let profile = match opened {
        Ok(profile) => profile,
        Err(error) => return Outcome::refused(Stage::Refused, &error, read),
    };
    let answer =
        History::of(&profile).and_then(|history| Traced::of(&history, &Config::default(), 0));
    match answer.map(|traced| traced.report("trace")) {
        Ok(report) => Outcome::answered(stated(&report), report.diagnostics.iter(), read),
        Err(error) => Outcome::refused(Stage::Read, &error, read),
    }
}

fn message(input: &[u8]) -> Outcome {
    let mut input = input;
    match observed::open(&mut input) {
        Ok(observed) => {
            let explanation = observed.explain();
            let stage = if observed.is_empty() { Stage::Refused } else { Stage::Answered };
            let config = explanation.known.apply(Config::default());
            let answer = format!("{explanation:?}{config:?}");
            let outcome = Outcome::answered(answer, explanation.notes.iter(), 0);
            let cause = explanation.cause.map_or("", |cause| cause.name());
            let known = explanation.known.settings().len();
            let signature = format!("{} {cause} {known}", outcome.signature);
            Outcome { stage, signature, ..outcome }
        }
        Err(error) => Outcome::refused(Stage::Refused, &error, 0),
    }
}

/// The settings of a recipe; its model is not run.
fn recipe(input: &[u8]) -> Outcome {
    let mut input = input;
    match recipe::open(&mut input, None) {
        Ok(Some(recipe)) => {
            let answer = format!("{recipe:?}");
            let outcome = Outcome::answered(answer, recipe.notes.iter(), 0);
            let signature =
                format!("{} {} {}", outcome.signature, recipe.tool, recipe.choices.len());
            Outcome { signature, ..outcome }
        }
        Ok(None) => Outcome::default(),
        Err(error) => Outcome::refused(Stage::Refused, &error, 0),
    }
}

thread_local! {
    /// Small models to try settings on: read once.
    static MODELS: RefCell<Vec<Model>> = const { RefCell::new(Vec::new()) };
}

/// Lines of settings; the first byte chooses the model.
fn settings(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let mut config = Config::default();
    let mut refusal = None;
    for line in text.lines().take(40) {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let set = match (name, value.split_once('=')) {
            ("dim", Some((dim, size))) => {
                if let Ok(size) = size.parse() {
                    config.dims.insert(dim.to_owned(), size);
                }
                Ok(())
            }
            _ => config.set(name, value),
        };
        refusal = refusal.or_else(|| set.err());
    }
    if let Some(error) = refusal.as_ref().filter(|_| input.len().is_multiple_of(2)) {
        return Outcome::refused(Stage::Refused, error, 0);
    }
    MODELS.with_borrow_mut(|models| {
        if models.is_empty() {
            let open =
                |name: &str| highwater_core::open(&mut seeds::read(name).as_slice(), name).ok();
            models.extend(
                [
                    "spec/mlp.yaml",
                    "robustness/twobatch.onnx",
                    "robustness/resize_constant_node_ok.onnx",
                ]
                .iter()
                .filter_map(|name| open(name)),
            );
        }
        let chosen =
            input.iter().map(|&byte| usize::from(byte)).sum::<usize>() % models.len().max(1);
        models.get(chosen).map_or_else(Outcome::default, |model| estimated(model, &config, 0))
    })
}
