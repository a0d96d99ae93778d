//! Our answers beside the oracle's, for work on the rules. `tests/accuracy.txt` is the committed
//! table of the same errors.
//!
//! ```text
//! cargo run --release -p highwater-core --example tools -- oracle peaks RESULTS.jsonl FOLDER [MODEL…]
//! cargo run --release -p highwater-core --example tools -- oracle diff MODEL.onnx EVENTS.jsonl.gz [ITERATION:PHASE]
//! cargo run --release -p highwater-core --example tools -- oracle events MODEL.onnx EVENTS.jsonl.gz
//! cargo run --release -p highwater-core --example tools -- oracle survey INDEX
//! ```
//!
//! `peaks` compares totals of recorded runs (FOLDER has `MODEL.onnx` or `MODEL.onnx.gz`), `diff`
//! aligns event sequences and reports where they part, `events` prints ours, `survey` predicts what
//! `tests/oracle/oracle survey` has gathered. Files of events are
//! what the oracle's `--events` writes; their first line tells the configuration.
#![expect(clippy::disallowed_methods, reason = "an example reads files")]
#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]

mod diff;
mod peaks;
mod run;
mod survey;

use crate::Result;

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["peaks", results, folder, models @ ..] => peaks::compare(results, folder, models),
        ["diff", model, events] => diff::compare(model, events, None),
        ["diff", model, events, phase] => diff::compare(model, events, Some(phase)),
        ["events", model, events] => diff::print_ours(model, events),
        ["survey", index] => survey::compare(index),
        _ => Err(
            "give peaks RESULTS FOLDER [MODEL…], diff MODEL EVENTS [PHASE], events MODEL EVENTS, or \
             survey INDEX"
                .into(),
        ),
    }
}
