//! Predicted against what others measured on real cards, beside the published systems that were
//! asked about the same runs.
//!
//! `tests/measured.txt` is the table, reviewed like code; `UPDATE_EXPECT=1 cargo test` rewrites it.
//! `tests/fixtures/measured/README.md` says where the numbers come from.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::estimators::scores::{Estimated, Measured, Scores};
use highwater_core::formats::catalogue;
use highwater_core::{Bytes, Report};

use crate::fixtures;
use crate::runs::{self, Cells, Run, error, median, mib, percent};

/// What holds for every run of a source, as `sources.toml` states it.
pub(crate) fn shared(source: &str) -> String {
    let list = String::from_utf8(fixtures::read("measured/sources.toml")).expect("text");
    let (_, about) = list.split_once(&format!("id = \"{source}\"")).expect(source);
    let (_, settings) = about.split_once("settings = \"").expect("settings");
    settings.split('"').next().unwrap_or_default().to_owned()
}

/// Estimates by other systems of xMem's runs, as published beside them.
const SYSTEMS: [&str; 4] = ["xmem", "dnnmem", "schedtune", "llmem"];

#[test]
fn predictions_are_as_near_to_real_cards_as_the_table_says() {
    let text = [
        "Peaks that others measured on real cards, in MiB. `process` is what the device had in use: \
         reserved\nmemory and the CUDA context. Predictions come twice: had no convolution taken a \
         workspace, and with\nthose of cuDNN 9.26. The error is that of the second.\n"
            .to_owned(),
        carma(),
        xmem(),
        memrun(),
    ];
    expect_file!["../../../tests/measured.txt"].assert_eq(&text.join("\n"));
}

/// One measured run and what we say of it.
struct Row {
    cells: Cells,
    predicted: Result<Predicted, String>,
}

/// Both ends of the band.
#[derive(Clone, Copy)]
struct Predicted {
    allocated: Bytes,
    reserved: Bytes,
    least_reserved: Bytes,
    context: Bytes,
}

impl Predicted {
    fn of(report: &Report) -> Self {
        let peak = &report.peak;
        Self {
            allocated: peak.allocated,
            reserved: peak.reserved,
            least_reserved: report.without_workspaces.map_or(peak.reserved, |band| band.reserved),
            context: report.verdict.context,
        }
    }

    fn process(self) -> u64 {
        (self.reserved + self.context).0
    }

    fn least_process(self) -> u64 {
        (self.least_reserved + self.context).0
    }
}

impl Row {
    fn number(&self, name: &str) -> Option<u64> {
        self.cells[name].parse().ok()
    }

    /// A number that every row has.
    fn measured(&self, name: &str) -> u64 {
        self.number(name).expect(name)
    }

    fn out_of_memory(&self) -> bool {
        self.cells.get("oom").is_some_and(|oom| oom == "yes")
    }

    /// The columns that say what was run.
    fn what(&self, settings: usize) -> String {
        let cell = |name: &str| match self.cells[name].as_str() {
            "" => "-",
            text => text,
        };
        format!(
            "{:<17} {:>5} {:>5} {:<settings$}",
            cell("model"),
            cell("batch"),
            cell("seq"),
            cell("settings")
        )
    }
}

/// The rows of a fixture with our predictions, and how wide their settings are.
fn rows(source: &str) -> (Vec<Row>, usize) {
    let shared = &shared(source);
    let cells = runs::table(&format!("measured/{source}.csv"));
    let runs: Vec<Run> = cells.iter().map(|cells| Run::sharing(cells, shared)).collect();
    let mut reports: Vec<Result<Predicted, String>> =
        runs.iter().map(|_| Err("not exported".to_owned())).collect();
    // The settings that are not modelled stand in the line already.
    let short = |error: String| error.split(':').next().unwrap_or_default().to_owned();
    for folder in ["train", "measured"] {
        for (index, report) in runs::predict(folder, &runs) {
            reports[index] = report.map(|report| Predicted::of(&report)).map_err(short);
        }
    }
    for (run, report) in runs.iter().zip(&mut reports) {
        let Some(entry) = catalogue::find(&run.model).filter(|_| report.is_err()) else { continue };
        let model = highwater_core::open_named(&entry).expect("an entry can be opened");
        let said = run
            .configuration_over(&model, model.defaults())
            .and_then(|config| model.estimate(&config).map_err(|error| error.to_string()));
        *report = said.map(|report| Predicted::of(&report)).map_err(short);
    }
    let rows = cells.into_iter().zip(reports);
    let rows: Vec<Row> = rows.map(|(cells, predicted)| Row { cells, predicted }).collect();
    let wide = rows.iter().map(|row| row.cells["settings"].len()).max().unwrap_or(0);
    (rows, wide.max("settings".len()))
}

fn head(wide: usize) -> String {
    format!("{:<17} {:>5} {:>5} {:<wide$}", "model", "batch", "seq", "settings")
}

/// A line for errors of a kind: how many, their median and the worst.
fn summary(name: &str, mut errors: Vec<u64>) -> String {
    errors.sort_unstable();
    format!(
        "{name}: {} rows, median {}, worst {}\n",
        errors.len(),
        percent(median(&errors)),
        percent(errors.last().copied().unwrap_or(0))
    )
}

fn carma() -> String {
    let (rows, wide) = rows("carma");
    let mut text = format!(
        "CARMA, {}\n{} {:>10} {:>10} {:>10} {:>9} {:>11}\n",
        shared("carma"),
        head(wide),
        "without",
        "predicted",
        "process",
        "error",
        "FakeTensor"
    );
    let (mut upper, mut lower, mut fake) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let truth = row.measured("process");
        let theirs = row.number("faketensor").map(|estimate| {
            fake.push(error(estimate, truth).unsigned_abs());
            runs::signed(estimate, truth)
        });
        let theirs = theirs.unwrap_or_else(|| "-".to_owned());
        match &row.predicted {
            Ok(predicted) => {
                let (with, without) = (predicted.process(), predicted.least_process());
                upper.push(error(with, truth).unsigned_abs());
                lower.push(error(without, truth).unsigned_abs());
                writeln!(
                    text,
                    "{} {:>10} {:>10} {:>10} {:>9} {theirs:>11}",
                    row.what(wide),
                    mib(without),
                    mib(with),
                    mib(truth),
                    runs::signed(with, truth)
                )
            }
            Err(reason) => writeln!(text, "{} {reason}", row.what(wide)),
        }
        .unwrap();
    }
    text + &summary("with workspaces", upper)
        + &summary("without", lower)
        + &summary("FakeTensor", fake)
}

fn memrun() -> String {
    let (rows, wide) = rows("memrun");
    let mut text = format!(
        "MemRun, {}\n{} {:>10} {:>10} {:>9} {:>10} {:>10} {:>10} {:>9}\n",
        shared("memrun"),
        head(wide),
        "allocated",
        "active",
        "error",
        "without",
        "reserved",
        "true",
        "error"
    );
    let (mut active, mut reserved) = (Vec::new(), Vec::new());
    for row in &rows {
        let truth = (row.measured("allocated"), row.measured("reserved"));
        match &row.predicted {
            Ok(predicted) => {
                active.push(error(predicted.allocated.0, truth.0).unsigned_abs());
                reserved.push(error(predicted.reserved.0, truth.1).unsigned_abs());
                writeln!(
                    text,
                    "{} {:>10} {:>10} {:>9} {:>10} {:>10} {:>10} {:>9}",
                    row.what(wide),
                    mib(predicted.allocated.0),
                    mib(truth.0),
                    runs::signed(predicted.allocated.0, truth.0),
                    mib(predicted.least_reserved.0),
                    mib(predicted.reserved.0),
                    mib(truth.1),
                    runs::signed(predicted.reserved.0, truth.1)
                )
            }
            Err(reason) => writeln!(text, "{} {reason}", row.what(wide)),
        }
        .unwrap();
    }
    text + &summary("allocated", active) + &summary("reserved", reserved)
}

fn xmem() -> String {
    let (rows, wide) = rows("xmem");
    let mut text = format!(
        "xMem, {}\n{} {:>10} {:>10} {:>10} {:>9}",
        shared("xmem"),
        head(wide),
        "without",
        "predicted",
        "process",
        "error"
    );
    for system in SYSTEMS {
        write!(text, " {system:>10}").unwrap();
    }
    text.push('\n');
    for row in &rows {
        let truth = row.measured("process");
        let said = |estimate: u64| {
            if row.out_of_memory() {
                let verdict = if estimate > row.measured("capacity") { "oom" } else { "fits" };
                return verdict.to_owned();
            }
            runs::signed(estimate, truth)
        };
        match &row.predicted {
            Ok(predicted) => write!(
                text,
                "{} {:>10} {:>10} {:>10} {:>9}",
                row.what(wide),
                mib(predicted.least_process()),
                mib(predicted.process()),
                if row.out_of_memory() { "oom".to_owned() } else { mib(truth) },
                said(predicted.process())
            ),
            Err(reason) => write!(text, "{} {reason}", row.what(wide)),
        }
        .unwrap();
        for system in SYSTEMS {
            let theirs = row.number(system).map_or_else(|| "-".to_owned(), said);
            write!(text, " {theirs:>10}").unwrap();
        }
        text.push('\n');
    }
    let predicted = |row: &Row| row.predicted.as_ref().ok().copied();
    text += &score("with workspaces", &rows, |row| Some(predicted(row)?.process()));
    text += &score("without", &rows, |row| Some(predicted(row)?.least_process()));
    for system in SYSTEMS {
        text += &score(system, &rows, |row| row.number(system));
    }
    text
}

/// What xMem's authors count of a system.
fn score(name: &str, rows: &[Row], estimate: impl Fn(&Row) -> Option<u64>) -> String {
    let pairs = (0..).zip(rows).filter_map(|(number, row)| {
        let (bytes, capacity) = (Bytes(estimate(row)?), Bytes(row.measured("capacity")));
        let need = Some(Bytes(row.measured("process")));
        let estimated = Estimated { bytes, survives: bytes <= capacity };
        let survived = !row.out_of_memory();
        Some((estimated, Measured { row: number, need, survived, capacity }))
    });
    let scores = Scores::of(pairs);
    format!(
        "{name:<15} {:>2} runs: median error {:>7}, worst {:>7}; estimation failure {:>7}; conserved {:>6} MiB\n",
        scores.runs,
        percent(scores.errors.median().unwrap_or(0)),
        percent(scores.errors.worst().unwrap_or(0)),
        percent(scores.failures.hundredths().unwrap_or(0)),
        mib(scores.conserved().0)
    )
}
