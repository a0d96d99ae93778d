//! Forward passes without gradients, and transformers' `generate`, against the same in PyTorch.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::formats::catalogue;
use highwater_core::{Config, Error, Model, Report, open_named};

use crate::fixtures;
use crate::runs::{self, Cells, Run, table};

/// What was recorded: its name, where the models come from, and the largest error of allocated bytes that half of the
/// runs, and that nine of ten, stay within: in hundredths of a percent.
const SETS: [(&str, &str, &str, i64, i64); 5] = [
    ("zoo, exported in training mode", "zoo", "train", 0, 10),
    ("zoo, exported for inference", "zoo", "eval", 0, 10),
    ("zoo, as programs (pt2)", "zoo", "pt2", 0, 200),
    ("families, from their configurations", "families", "", 0, 100),
    ("generate, from configurations", "generation", "", 1, 100),
];

#[test]
fn peaks_without_gradients_are_those_of_pytorch() {
    let mut page = String::from(
        "Peaks without gradients, in bytes: batch, length, settings; allocated by PyTorch and the error of ours in\n\
         hundredths of a percent, then reserved.\n",
    );
    for (title, truth, export, half, most) in SETS {
        let rows: Vec<Row> = rows(truth, export);
        writeln!(page, "\n{title}").unwrap();
        for row in &rows {
            writeln!(page, "{row}").unwrap();
        }
        let mut errors: Vec<i64> = rows.iter().map(|row| row.allocated.1.abs()).collect();
        errors.sort_unstable();
        let exact = errors.iter().filter(|&&error| error == 0).count();
        let at = |part: usize| errors[(errors.len() - 1) * part / 10];
        let (median, ninth, worst) = (at(5), at(9), at(10));
        writeln!(
            page,
            "{} runs, {exact} of them exact; allocated: median {median}, nine in ten {ninth}, worst {worst}",
            rows.len()
        )
        .unwrap();
        assert!(median <= half && ninth <= most, "{title}: {median}, {ninth}");
    }
    expect_file!["../../../tests/fixtures/inference/errors.txt"].assert_eq(&page);
}

/// A run, and each true peak with the error of ours.
struct Row {
    run: Run,
    allocated: (u64, i64),
    reserved: (u64, i64),
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Run { model, batch, seq, settings } = &self.run;
        let seq = seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
        let settings = settings.trim_start_matches("--workload inference").trim();
        let [(allocated, a), (reserved, r)] = [self.allocated, self.reserved];
        write!(
            f,
            "{model:<20} {batch:>3} {seq:>4} {settings:<66} {allocated:>12} {a:>5} {reserved:>12} {r:>5}"
        )
    }
}

fn rows(truth: &str, export: &str) -> Vec<Row> {
    let truths = table(&format!("inference/{truth}.csv"));
    if export.is_empty() {
        return truths.iter().map(|cells| Row::of(cells, &from_configuration(cells))).collect();
    }
    let asked: Vec<Run> = truths.iter().map(Run::of).collect();
    let predicted = runs::predict(export, &asked).into_iter();
    predicted.map(|(at, report)| Row::of(&truths[at], &report.unwrap())).collect()
}

fn from_configuration(cells: &Cells) -> Report {
    let name = &cells["model"];
    // Networks of torchvision are entries of the catalogue.
    let model = match catalogue::find(name) {
        Some(entry) if entry.family().starts_with("torchvision.") => open_named(&entry).unwrap(),
        _ => {
            let text = fixtures::read(&format!("hf_config/{name}.json"));
            highwater_core::open(&mut text.as_slice(), "config.json").unwrap()
        }
    };
    let config = Run::of(cells).configuration_over(&model, &Config::default()).unwrap();
    model.estimate(&config).unwrap()
}

impl Row {
    fn of(cells: &Cells, report: &Report) -> Self {
        let compare = |what: &str, ours: u64| {
            let peaks = (1..=3).filter_map(|n| cells[&format!("{what}_{n}")].parse().ok());
            let truth = peaks.max().unwrap();
            (truth, runs::error(ours, truth))
        };
        Self {
            run: Run::of(cells),
            allocated: compare("allocated", report.peak.allocated.0),
            reserved: compare("reserved", report.peak.reserved.0),
        }
    }
}

fn named(name: &str) -> Model {
    open_named(&catalogue::find(name).unwrap()).unwrap()
}

fn asked(name: &str, settings: &[(&str, &str)]) -> Result<Report, Error> {
    let model = named(name);
    let mut config = model.defaults().clone();
    for (name, value) in settings {
        config.set(name, value).unwrap();
    }
    model.estimate(&config)
}

#[test]
fn what_cannot_be_generated_is_refused_in_a_sentence() {
    for (name, settings, expected) in [
        ("resnet50", vec![], "choose the workload inference"),
        ("gpt2", vec![("new-tokens", "4000")], "more than the 1024 positions"),
        ("qwen2.5-0.5b", vec![("task", "token-classification")], "choose the workload inference"),
        ("qwen2.5-0.5b", vec![("compile", "inductor")], "leave that out"),
    ] {
        let settings = [vec![("workload", "generation")], settings].concat();
        let error = asked(name, &settings).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn settings_of_training_have_no_effect_without_it() {
    let plain = asked("gpt2", &[("workload", "inference")]).unwrap();
    let changed = [("workload", "inference"), ("optimizer", "sgd"), ("checkpoint", "blocks")];
    let report = asked("gpt2", &changed).unwrap();
    assert_eq!(report.peak.allocated, plain.peak.allocated);
    let idle = report.diagnostics.iter().filter(|d| d.code == "setting-without-effect").count();
    assert_eq!(idle, 2);
}

/// The cache has the bytes that its formula states: two for each layer, as long as prompt and new tokens.
#[test]
fn the_cache_grows_with_each_token() {
    for (name, layers, heads, width) in [("qwen2.5-0.5b", 24, 2, 64), ("smollm2-135m", 30, 3, 64)] {
        let settings = [("workload", "generation"), ("precision", "bf16"), ("new-tokens", "32")];
        let model = named(name);
        let mut config = model.defaults().clone();
        config.dims.extend([("batch".to_owned(), 2), ("seq".to_owned(), 96)]);
        for (name, value) in settings {
            config.set(name, value).unwrap();
        }
        let trace = model.trace(&config).unwrap();
        let cached = |storage: &&highwater_core::trace::Storage| {
            storage.category == highwater_core::trace::Category::Cache
        };
        let largest = trace.storages.iter().filter(cached).map(|storage| storage.requested.0).max();
        // The last token that is written is not read any more.
        assert_eq!(largest, Some(2 * heads * (96 + 32 - 1) * width * 2), "{name}");
        let count = trace.storages.iter().filter(cached).count();
        assert_eq!(count, 2 * layers * 32, "{name}");
    }
}
