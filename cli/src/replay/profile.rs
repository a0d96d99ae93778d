//! A trace of `torch.profiler` from a CPU: the peaks on a GPU, by both sets of rules.

use highwater_core::diagnostic::Diagnostic;
use highwater_core::profiled::{self, History, Prediction, Rules, Target};
use highwater_core::report::DeviceVerdict;
use highwater_core::{Config, Error, ErrorKind, say};
use serde_json::{Value, json};

use crate::args::Replay;
use crate::file::FileSource;
use crate::style::{FAINT, HEAD};
use crate::table::{Align, Cell, Table};
use crate::text::{listed, section, verdict_words};

/// What to print.
pub(super) fn replay(name: String, arguments: &Replay) -> Result<String, Error> {
    let profile = profiled::open(&mut FileSource::open(&arguments.snapshot)?)?;
    let history = History::of(&profile)?;
    let target = Target {
        device: arguments.device.clone(),
        alloc_conf: arguments.alloc_conf.clone().unwrap_or_default(),
    };
    if arguments.gpu.is_some() {
        let message = say!(
            "--gpu is for memory snapshots; a trace is of a CPU, and --device chooses the GPU \
 to predict"
        );
        return Err(Error::new(ErrorKind::BadConfig, message));
    }
    let config = Config {
        device: target.device.clone(),
        alloc_conf: target.alloc_conf.clone(),
        ..Config::default()
    };
    let predict = |rules| profiled::predict(&history, rules, &target);
    let predictions = [predict(Rules::Highwater)?, predict(Rules::Xmem)?];
    let [highwater, _] = &predictions;
    let verdict = highwater.verdict(&config)?;
    let answer = Answer { name, history: &history, target: &target, predictions, verdict };
    Ok(if arguments.json { answer.json() } else { answer.text() })
}

/// Everything that is printed.
struct Answer<'h> {
    name: String,
    history: &'h History<'h>,
    target: &'h Target,
    /// Highwater's first.
    predictions: [Prediction; 2],
    /// By highwater.
    verdict: DeviceVerdict,
}

impl Answer<'_> {
    fn text(&self) -> String {
        let [highwater, _] = &self.predictions;
        let (allocated, reserved) =
            (highwater.replay.allocated.bytes, highwater.replay.reserved.bytes);
        let DeviceVerdict { name, need, capacity, verdict, .. } = &self.verdict;
        let (verdict, _) = verdict_words(*verdict);
        let parts = [
            format!(
                "{HEAD}{}: {allocated} allocated at the peak, {reserved} reserved at most{HEAD:#}\n\
                 {name}: needs {need} of {capacity} with the CUDA context, {verdict}\n",
                self.name
            ),
            section("Peaks", &self.peaks()),
            section("Alive at the peak, by Highwater’s rules", &categories(highwater)),
            section("Assumptions", &listed(&highwater.diagnostics)),
        ];
        parts.join("\n")
    }

    fn peaks(&self) -> String {
        let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Left]);
        table.row(["", "allocated", "reserved", ""].map(|head| Cell::styled(head, FAINT)));
        for prediction in &self.predictions {
            let (name, meaning) = match prediction.rules {
                Rules::Highwater => ("Highwater’s rules", "kernels and optimizer as on the GPU"),
                Rules::Xmem => ("xMem’s rules", "as its authors describe them"),
            };
            table.row([
                name.into(),
                prediction.replay.allocated.bytes.to_string().into(),
                prediction.replay.reserved.bytes.to_string().into(),
                Cell::styled(meaning, FAINT),
            ]);
        }
        table.render("  ")
    }

    fn json(&self) -> String {
        let predictions: Vec<Value> = self.predictions.iter().map(prediction).collect();
        let answer = json!({
            "name": self.name,
            "device": self.target.device,
            "alloc_conf": self.target.alloc_conf,
            "steps": self.history.steps.len(),
            "blocks": self.history.blocks.len(),
            "predictions": predictions,
            "need": self.verdict.need.0,
            "capacity": self.verdict.capacity.0,
            "verdict": self.verdict.verdict.name(),
        });
        format!("{answer:#}\n")
    }
}

fn categories(prediction: &Prediction) -> String {
    let sums = prediction.at_peak();
    let mut table = Table::new([Align::Right, Align::Right, Align::Left]);
    for (category, bytes) in sums.largest_first() {
        let percent = format!("{} %", bytes.parts_of(sums.total(), 100));
        let name = category.name().replace('_', " ");
        table.row([bytes.to_string().into(), percent.into(), name.into()]);
    }
    table.render("  ")
}

fn prediction(prediction: &Prediction) -> Value {
    let replay = &prediction.replay;
    let at_peak: serde_json::Map<_, _> = prediction
        .at_peak()
        .largest_first()
        .into_iter()
        .map(|(category, bytes)| (category.name().to_owned(), json!(bytes.0)))
        .collect();
    let iterations = replay.iterations.iter().map(|peaks| {
        json!({
            "requested": peaks.requested.0,
            "allocated": peaks.allocated.0,
            "reserved": peaks.reserved.0,
        })
    });
    json!({
        "rules": prediction.rules.name(),
        "allocated": replay.allocated.bytes.0,
        "reserved": replay.reserved.bytes.0,
        "segments": replay.segments,
        "iterations": iterations.collect::<Vec<_>>(),
        "at_peak": at_peak,
        "diagnostics": prediction.diagnostics.iter().map(diagnostic).collect::<Vec<_>>(),
    })
}

fn diagnostic(diagnostic: &Diagnostic) -> Value {
    json!({
        "severity": diagnostic.severity.name(),
        "code": diagnostic.code,
        "message": diagnostic.message.to_string(),
    })
}
