//! Stages of a pipeline, against PyTorch's own allocations for one rank.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use expect_test::{expect, expect_file};
use highwater_core::config::{MicroBatches, Rank, Schedule};
use highwater_core::estimate::{RankLine, Stages};
use highwater_core::formats::catalogue;
use highwater_core::trace::Category;
use highwater_core::{Config, Model};

use crate::runs;

/// COUNT: hundredths of a percent that an answer may be off, allocated and reserved.
const WORST: [u64; 2] = [100, 500];

#[test]
fn peaks_are_those_of_a_stage() {
    let head = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes of a \
                    rank, each with\nthe error of ours (`=`: to the byte).\n\n";
    let (lines, errors) = runs::of_catalogue("ranks/pipeline.csv");
    expect_file!["../../../tests/fixtures/ranks/pipeline-errors.txt"]
        .assert_eq(&[head, &lines].concat());
    for (errors, worst) in errors.into_iter().zip(WORST) {
        let largest = errors.into_iter().map(i64::unsigned_abs).max();
        assert!(largest <= Some(worst), "{largest:?}");
    }
}

fn open(name: &str) -> Model {
    let entry = catalogue::find(name).expect("a name of the catalogue");
    highwater_core::open(&mut entry.configuration().as_bytes(), "config.json").unwrap()
}

/// A configuration of a batch of 8 short texts.
fn config(model: &Model, mesh: &str) -> Config {
    let dims = [("batch", 8), ("seq", 64)].map(|(name, size)| (name.to_owned(), size));
    let defaults = model.defaults().clone();
    Config { mesh: mesh.parse().unwrap(), dims: dims.into(), ..defaults }
}

#[test]
fn the_answer_is_that_of_the_fullest_stage() {
    let model = open("gpt2");
    let own = config(&model, "pp=4");
    let mut stages = Stages::default();
    let lines = model.ranks(&own, &mut stages).unwrap();
    let shown = |line: &RankLine| format!("{} to {}: {}", line.first, line.last, line.reserved);
    let shown: Vec<String> = lines.iter().map(shown).collect();
    let report = model.estimate(&own).unwrap();
    expect!["0 to 0: 1.22 GiB, 1 to 1: 648.00 MiB, 2 to 2: 476.00 MiB, 3 to 3: 1.16 GiB; 1.22 GiB is reserved at rank 0"].assert_eq(&format!(
        "{}; {} is reserved at rank {}",
        shown.join(", "),
        report.peak.reserved,
        String::from(report.config.rank)
    ));
    assert_eq!(Some(report.peak.reserved), lines.iter().map(|line| line.reserved).max());
    assert_eq!(report.config.dims["batch"], 8);
}

#[test]
fn the_blocks_of_all_stages_are_those_of_the_model() {
    for name in ["gpt2", "smollm2-135m", "qwen3-0.6b", "opt-125m", "gemma-3-1b"] {
        let model = open(name);
        let parameters = |config: &Config| {
            let trace = model.trace(config).unwrap();
            let storages = trace.storages.iter();
            let own = storages.filter(|storage| storage.category == Category::Parameter);
            let names = own.map(|storage| trace.label(storage.name).to_owned());
            names.collect::<Vec<String>>()
        };
        let mut of_stages: Vec<String> = (0..4)
            .flat_map(|stage| {
                let rank = Rank(Some(stage));
                parameters(&Config { rank, ..config(&model, "pp=4") })
            })
            .collect();
        let whole = parameters(&config(&model, ""));
        // A head that is tied to embeddings is in two stages.
        let all = of_stages.len();
        of_stages.sort();
        of_stages.dedup();
        assert!(all - of_stages.len() <= 1, "{name}: {all} {}", of_stages.len());
        let mut whole = whole;
        whole.sort();
        assert_eq!(of_stages, whole, "{name}");
    }
}

#[test]
fn what_cannot_be_a_pipeline_is_refused() {
    let check = |name: &str, mesh: &str, change: fn(&mut Config), expected: &str| {
        let model = open(name);
        let mut own = config(&model, mesh);
        change(&mut own);
        let error = model.estimate(&own).expect_err("a pipeline that cannot be");
        assert_eq!(error.to_string(), expected);
    };
    check(
        "gpt2",
        "pp=13",
        |config| {
            config.schedule = Schedule::GPipe;
            config.micro_batches = MicroBatches(NonZeroU64::new(8));
        },
        "13 stages are more than the 12 blocks of the model: choose a smaller `pp`",
    );
    check(
        "gpt2",
        "pp=4",
        |config| config.micro_batches = MicroBatches(NonZeroU64::new(2)),
        "PyTorch's 1F1B has as many micro-batches as stages, or more: 2 are fewer than 4",
    );
    check(
        "gpt2",
        "pp=3",
        |_| {},
        "a batch of 8 cannot be divided into 3 micro-batches of one size: choose a batch that 3 divides, and 256 at most",
    );
    check(
        "gpt2",
        "pp=2,dp=2",
        |_| {},
        "a pipeline together with data or tensor parallelism is not simulated yet: for pp=2 by itself, choose 2 GPUs",
    );
    check(
        "gpt2",
        "pp=2",
        |config| config.evaluation = true,
        "a pipeline is not simulated with this value of `evaluation`: leave `pp` out of the mesh, or the setting at its \
         default",
    );
    check(
        "gpt2",
        "pp=2",
        |config| config.rank = Rank(Some(2)),
        "there is no rank 2: 2 GPUs have the ranks 0 to 1",
    );
}

/// The first model of each family of the catalogue that reads texts: those that two stages cannot share.
#[test]
fn families_that_cannot_be_cut() {
    let mut uncut = BTreeSet::new();
    let mut families = BTreeSet::new();
    for entry in catalogue::entries().iter().filter(|entry| families.insert(entry.family())) {
        let model = open(entry.id);
        let own = Config { rank: Rank(Some(1)), freeze: Vec::new(), ..config(&model, "pp=2") };
        if !model.open_dims().iter().any(|dim| dim.name == "seq") {
            continue;
        }
        if let Err(error) = model.trace(&own) {
            let reason = error.to_string();
            let reason = reason.split_once(':').map_or(reason.as_str(), |(start, _)| start);
            uncut.insert(format!("{}: {reason}", entry.family()));
        }
    }
    expect![[r#"
        albert: 2 stages are more than the 0 blocks of the model
        bart: the model cannot be cut between its blocks, since more than the hidden states goes from one to the next
        clip: the model cannot be cut between its blocks, since more than the hidden states goes from one to the next
        modernbert: the model cannot be cut between its blocks, since more than the hidden states goes from one to the next
        mt5: the model cannot be cut between its blocks, since more than the hidden states goes from one to the next
        t5: the model cannot be cut between its blocks, since more than the hidden states goes from one to the next
        whisper: the model cannot be cut between its blocks, since more than the hidden states goes from one to the next"#]].assert_eq(&uncut.into_iter().collect::<Vec<_>>().join("\n"));
}
