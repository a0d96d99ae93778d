//! Adapters, quantised weights and optimizers of bitsandbytes, against peft and bitsandbytes in PyTorch, and against
//! formulas.

use std::fmt::Write as _;
use std::thread;

use expect_test::expect_file;
use highwater_core::Config;
use highwater_core::config::{Checkpoint, Precision, Quantize};
use highwater_core::formats::catalogue;
use serde_json::Value;

use crate::fixtures;
use crate::runs::{self, Cells, Run, table};

/// COUNT: ours and two formulas.
const COLUMNS: usize = 3;

/// One run: what was recorded, and what is predicted.
struct Row {
    run: Run,
    /// Allocated and reserved.
    truth: [u64; 2],
    ours: [u64; 2],
    /// By [`by_parameters`] and by [`by_weights`].
    formulas: [Option<u64>; 2],
}

/// Every run that was recorded, with what is predicted for it, and with what formulas state.
#[test]
fn peaks_are_those_of_peft_and_bitsandbytes() {
    let known = table("hf_config/truth.csv");
    let development = |cells: &Cells| {
        let model = &cells["model"];
        let base = known.iter().find(|row| &row["model"] == model).expect("a model");
        let text = fixtures::read(&format!("hf_config/{model}.json"));
        (text, base["parameters"].parse().unwrap())
    };
    let held_out = |cells: &Cells| {
        let entry = catalogue::find(&cells["model"]).expect("a name of the catalogue");
        (entry.configuration().into_bytes(), entry.parameters)
    };
    let (developed, held_out) = thread::scope(|scope| {
        let developed = scope.spawn(|| rows("adapters/truth.csv", &development));
        let held_out = rows("adapters/held-out.csv", &held_out);
        (developed.join().unwrap(), held_out)
    });
    let mut page = String::new();
    for Row { run, truth: [allocated, reserved], ours, .. } in &developed {
        let Run { model, batch, seq, settings } = run;
        writeln!(
            page,
            "{model} {batch} {} {settings}\n    {allocated} {}, {reserved} {}",
            seq.unwrap_or_default(),
            runs::signed(ours[0], *allocated),
            runs::signed(ours[1], *reserved),
        )
        .unwrap();
    }
    let head = "Configurations: batch, length and settings; then true allocated and reserved bytes, each with the\n\
                error of ours (`=`: to the byte).\n";
    expect_file!["../../../tests/fixtures/adapters/errors.txt"]
        .assert_eq(&format!("{head}\n{page}"));
    expect_file!["../../../tests/fixtures/adapters/table.txt"]
        .assert_eq(&compare(&held_out, &developed));
    let off = |row: &Row| runs::error(row.ours[0], row.truth[0]).abs();
    let worst = developed.iter().map(off).max().unwrap();
    assert!(worst <= 100, "{worst} hundredths of a percent");
}

/// The runs of a table; `source` gives the text of a configuration and the model's own parameters.
fn rows(file: &str, source: &dyn Fn(&Cells) -> (Vec<u8>, u64)) -> Vec<Row> {
    let mut rows = Vec::new();
    for cells in &table(file) {
        let (text, base) = source(cells);
        let model = highwater_core::open(&mut text.as_slice(), "config.json").unwrap();
        let defaults = Config { loss: model.defaults().loss, ..Config::default() };
        let run = Run::of(cells);
        let config = run.configuration_over(&model, &defaults).unwrap();
        let report = model.estimate(&config).unwrap();
        let truth = |what: &str| -> u64 {
            (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max().unwrap()
        };
        let is_full = config.lora.is_empty();
        let trained = if is_full { base } else { report.model.parameters - base };
        let sizes: Value = serde_json::from_slice(&text).unwrap();
        let tokens = run.batch * run.seq.unwrap_or_default();
        rows.push(Row {
            truth: [truth("allocated"), truth("reserved")],
            ours: [report.peak.allocated.0, report.peak.reserved.0],
            formulas: [
                Some(by_parameters(&config, &sizes, tokens, [base, trained])),
                by_weights(&config, base),
            ],
            run,
        });
    }
    rows
}

/// Whether parameters are in 32 bits.
fn is_wide(config: &Config) -> bool {
    config.precision.converts_to().is_none()
}

/// Bytes per parameter as in "Transformer Math 101" (`EleutherAI`): weights as stored, gradients in their type, and 12
/// bytes for `AdamW` (copy in fp32, two moments; 8 where weights are in fp32) or 6 for an 8-bit one (2). Frozen weights
/// have neither. Activations follow Korthikanti et al.: `34 s b h L` bytes with fused attention, `2 s b h L` where
/// blocks are checkpointed, twice that in fp32.
fn by_parameters(config: &Config, sizes: &Value, tokens: u64, [base, trained]: [u64; 2]) -> u64 {
    let size = |keys: &[&str]| keys.iter().find_map(|key| sizes[key].as_u64());
    let hidden = size(&["hidden_size", "n_embd", "d_model"]).expect("a width");
    let stacks = if sizes["d_model"].is_u64() { 2 } else { 1 };
    let layers = size(&["num_hidden_layers", "n_layer", "num_layers"]).expect("layers") * stacks;
    let is_wide = is_wide(config);
    let own = if is_wide { 4 } else { 2 };
    let weights = match config.quantize {
        Quantize::None => base * own,
        Quantize::Int8 => base,
        Quantize::Nf4 | Quantize::Fp4 => base / 2,
    };
    let adapters = if config.lora.is_empty() { 0 } else { trained * own };
    let is_small = config.optimizer.to_string().ends_with("8bit");
    let state = if is_small { 6 } else { 12 } - if is_wide { 4 } else { 0 };
    let kept = if config.checkpoint == Checkpoint::None { 34 } else { 2 };
    let kept = if config.precision == Precision::Fp32 { 2 * kept } else { kept };
    weights + adapters + trained * (own + state) + kept * tokens * hidden * layers
}

/// `accelerate estimate-memory`, "training using Adam": four times the weights, in 16 bits under autocast too. It
/// knows no adapters, and has no answer for quantised weights.
fn by_weights(config: &Config, base: u64) -> Option<u64> {
    let bytes = if config.precision == Precision::Fp32 { 4 } else { 2 };
    (config.quantize == Quantize::None).then_some(4 * bytes * base)
}

impl Row {
    /// What each column states of allocated (0) or reserved (1) memory: a formula has one number for both.
    fn stated(&self, what: usize) -> [Option<u64>; COLUMNS] {
        let [parameters, weights] = self.formulas;
        [Some(self.ours[what]), parameters, weights]
    }
}

/// The table: a summary for each set, then its runs.
fn compare(held_out: &[Row], developed: &[Row]) -> String {
    let mut page = "Errors of ours, of bytes per parameter (Transformer Math 101 with activations of Korthikanti et \
        al.) and of\nfour times the weights (accelerate estimate-memory); `=`: to the byte; `-`: no answer.\n"
        .to_owned();
    let sets = [
        ("New runs, recorded when the rules were finished", held_out),
        ("Runs that the rules were written with", developed),
    ];
    for (title, rows) in sets {
        writeln!(page, "\n{title}: {}", rows.len()).unwrap();
        for (what, name) in ["allocated", "reserved"].iter().enumerate() {
            let columns = (0..COLUMNS).map(|column| summary(rows, what, column));
            let columns: Vec<String> = columns.collect();
            writeln!(page, "  {name:9}  {}", columns.join("; ")).unwrap();
        }
    }
    for (title, rows) in sets {
        writeln!(page, "\n{title}\n").unwrap();
        for row in rows {
            let Run { model, batch, seq, settings } = &row.run;
            let seq = seq.unwrap_or_default();
            writeln!(page, "{model} --batch {batch} --seq {seq} {settings}").unwrap();
            for (what, name) in ["allocated", "reserved"].iter().enumerate() {
                let truth = row.truth[what];
                let errors = row.stated(what).map(|stated| {
                    let error = stated.map(|stated| runs::signed(stated, truth));
                    format!("{:>10}", error.unwrap_or_else(|| "-".to_owned()))
                });
                writeln!(page, "    {name:9} {truth:>11} {}", errors.join(" ")).unwrap();
            }
        }
    }
    page
}

/// Median and worst error of one column, and how many runs it has an answer for.
fn summary(rows: &[Row], what: usize, column: usize) -> String {
    let answers = rows.iter().filter_map(|row| Some((row.stated(what)[column]?, row.truth[what])));
    let mut errors: Vec<u64> =
        answers.map(|(stated, truth)| runs::error(stated, truth).unsigned_abs()).collect();
    errors.sort_unstable();
    let (lower, upper) = (errors[(errors.len() - 1) / 2], errors[errors.len() / 2]);
    let median = runs::percent(u64::midpoint(lower, upper));
    let worst = runs::percent(errors[errors.len() - 1]);
    format!("median {median}, worst {worst} of {}", errors.len())
}

/// The summary of a model counts quantised weights as before packing, and adapters; its bytes are those of the peak.
#[test]
fn quantised_weights_are_parameters() {
    let text = fixtures::read("hf_config/mistral_small.json");
    let model = highwater_core::open(&mut text.as_slice(), "config.json").unwrap();
    let report = |quantize, double_quantize, lora_model_type| {
        let config = Config {
            lora: vec!["q_proj".to_owned()],
            precision: Precision::Bf16,
            quantize,
            double_quantize,
            lora_model_type,
            ..model.defaults().clone()
        };
        model.estimate(&config).unwrap()
    };
    let plain = report(Quantize::None, false, false).model;
    let mut sizes = Vec::new();
    let kinds = [Quantize::Nf4, Quantize::Fp4, Quantize::Int8].map(|kind| (kind, false));
    for (quantize, double) in kinds.into_iter().chain([(Quantize::Nf4, true)]) {
        for is_low in [false, true] {
            let report = report(quantize, double, is_low);
            let (summary, peak) = (&report.model, &report.at_peak);
            assert_eq!(summary.parameters, plain.parameters, "{quantize:?}");
            assert_eq!(summary.parameter_bytes, peak.parameter, "{quantize:?}");
            assert_eq!(summary.buffer_bytes, peak.buffer, "{quantize:?}");
            sizes.push((summary.parameter_bytes, summary.buffer_bytes));
        }
    }
    assert!(sizes.iter().all(|(own, _)| *own < plain.parameter_bytes), "{sizes:?}");
}
