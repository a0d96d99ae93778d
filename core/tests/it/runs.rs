//! Runs of training that somebody made, read from tables, and what we predict for them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;

use highwater_core::config::Transformers;
use highwater_core::estimators::scores;
pub(crate) use highwater_core::estimators::scores::{median, percent};
use highwater_core::formats::catalogue;
use highwater_core::{Bytes, Config, Error, Model, Report};
use serde_json::Value;

use crate::fixtures;

/// One line of a table, by the names in its head.
pub(crate) type Cells = BTreeMap<String, String>;

/// What was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Name of its export.
    pub(crate) model: String,
    pub(crate) batch: u64,
    pub(crate) seq: Option<u64>,
    /// Flags of `highwater estimate`, those of its defaults left out.
    pub(crate) settings: String,
}

/// The lines of a fixture such as `oracle/results.csv`.
pub(crate) fn table(name: &str) -> Vec<Cells> {
    let text = fixtures::read(name);
    let mut rows = csv::Reader::from_reader(text.as_slice());
    rows.deserialize().map(|row| row.expect("a line as the head")).collect()
}

impl Run {
    pub(crate) fn of(cells: &Cells) -> Self {
        Self {
            model: cells["model"].clone(),
            batch: cells["batch"].parse().expect("batch"),
            seq: cells["seq"].parse().ok(),
            settings: cells["settings"].clone(),
        }
    }

    /// The same, with settings that all runs of a source share.
    pub(crate) fn sharing(cells: &Cells, settings: &str) -> Self {
        let run = Self::of(cells);
        // What others ran had the libraries of its time.
        Self { settings: format!("--transformers auto {settings} {}", run.settings), ..run }
    }

    /// The batch goes into the dimension that is the batch, the recorded length into all others.
    /// An error says which setting is not modelled.
    pub(crate) fn configuration(&self, model: &Model) -> Result<Config, String> {
        self.configuration_over(model, &Config::default())
    }

    /// The same for a model that suggests settings of its own.
    pub(crate) fn configuration_over(
        &self,
        model: &Model,
        defaults: &Config,
    ) -> Result<Config, String> {
        let dims = model.open_dims().into_iter().filter(|dim| !dim.inputs.is_empty()).map(|dim| {
            let length = self.seq.filter(|_| dim.is_length()).unwrap_or(dim.default);
            (dim.name, if dim.batch { self.batch } else { length })
        });
        // The oracle's transformers is the newest under any PyTorch.
        let defaults = Config { transformers: Transformers::LATEST, ..defaults.clone() };
        Ok(Config { dims: dims.collect(), ..settings(&self.settings, &defaults)? })
    }
}

/// Flags become the fields of the same name, with values of the kind that the default has.
fn settings(flags: &str, defaults: &Config) -> Result<Config, String> {
    let mut config = serde_json::to_value(defaults).expect("a configuration is JSON");
    for flag in flags.split("--").map(str::trim).filter(|flag| !flag.is_empty()) {
        let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
        let name = if name == "loop" { "loop_style".to_owned() } else { name.replace('-', "_") };
        match config.get_mut(&name) {
            Some(Value::Bool(is)) => *is = true,
            Some(Value::Array(values)) => values.push(value.into()),
            Some(Value::String(text)) if value.is_empty() => "on".clone_into(text),
            Some(Value::String(text)) => value.clone_into(text),
            Some(number) => {
                let parsed = value.parse();
                *number = parsed.map_err(|error| format!("not modelled: --{flag}: {error}"))?;
            }
            None => return Err(format!("not modelled: --{flag}")),
        }
    }
    serde_json::from_value(config).ok().ok_or_else(|| format!("not modelled: {flags}"))
}

/// Runs of models of the catalogue under the settings of a table: a line for each with true allocated and reserved bytes
/// and the errors of ours, and these errors in hundredths of a percent, those of allocated bytes first.
pub(crate) fn of_catalogue(name: &str) -> (String, [Vec<i64>; 2]) {
    let (mut lines, mut errors) = (String::new(), [Vec::new(), Vec::new()]);
    for cells in &table(name) {
        let run = Run::of(cells);
        let entry = catalogue::find(&run.model).expect("a name of the catalogue");
        let model =
            highwater_core::open(&mut entry.configuration().as_bytes(), "config.json").unwrap();
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let report = model.estimate(&run.configuration_over(&model, &defaults).unwrap()).unwrap();
        let truth = |what: &str| -> u64 {
            (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max().unwrap()
        };
        let [allocated, reserved] = [
            (report.peak.allocated.0, truth("allocated")),
            (report.peak.reserved.0, truth("reserved")),
        ];
        for (errors, (ours, truth)) in errors.iter_mut().zip([allocated, reserved]) {
            errors.push(error(ours, truth));
        }
        let Run { model, batch, seq, settings } = run;
        writeln!(
            lines,
            "{model} {batch} {} {settings}\n    {} {}, {} {}",
            seq.unwrap_or_default(),
            allocated.1,
            signed(allocated.0, allocated.1),
            reserved.1,
            signed(reserved.0, reserved.1),
        )
        .unwrap();
    }
    (lines, errors)
}

/// Predictions of those runs of whose models there is an export in `tests/fixtures/zoo/FOLDER`, in
/// order, each with the run's index.
pub(crate) fn predict(folder: &str, runs: &[Run]) -> Vec<(usize, Result<Report, String>)> {
    of_each(folder, runs, Model::estimate)
}

/// What a function says of those runs. Runs of one model stand together; threads share the models.
pub(crate) fn of_each<T: Send>(
    folder: &str,
    runs: &[Run],
    say: impl Fn(&Model, &Config) -> Result<T, Error> + Sync,
) -> Vec<(usize, Result<T, String>)> {
    let indexed: Vec<(usize, &Run)> = runs.iter().enumerate().collect();
    let queue = Mutex::new(indexed.chunk_by(|(_, a), (_, b)| a.model == b.model));
    let predicted = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(chunk) = { queue.lock().unwrap().next() } {
                    let name = &chunk[0].1.model;
                    let path = format!("zoo/{folder}/{name}");
                    let formats = ["onnx", "pt2"].iter();
                    let mut files =
                        formats.filter_map(|f| fixtures::unpack(&format!("{path}.{f}.gz")));
                    let Some(bytes) = files.next() else { continue };
                    let model = highwater_core::open(&mut bytes.as_slice(), name).unwrap();
                    for &(index, run) in chunk {
                        let say = |config| say(&model, &config).map_err(|error| error.to_string());
                        let said = run.configuration(&model).and_then(say);
                        predicted.lock().unwrap().push((index, said));
                    }
                }
            });
        }
    });
    let mut predicted = predicted.into_inner().unwrap();
    predicted.sort_by_key(|(index, _)| *index);
    predicted
}

/// Hundredths of a percent by which the prediction is off, to the nearest.
pub(crate) fn error(predicted: u64, truth: u64) -> i64 {
    scores::error(Bytes(predicted), Bytes(truth))
}

/// `+0.61 %`; `=` where it is equal to the byte.
pub(crate) fn signed(predicted: u64, truth: u64) -> String {
    match error(predicted, truth) {
        _ if predicted == truth => "=".to_owned(),
        error if error < 0 => format!("-{}", percent(error.unsigned_abs())),
        error => format!("+{}", percent(error.unsigned_abs())),
    }
}

pub(crate) fn mib(bytes: u64) -> String {
    let unit = Bytes::mib(1).0;
    let tenths = (bytes * 10 + unit / 2) / unit;
    format!("{}.{}", tenths / 10, tenths % 10)
}
