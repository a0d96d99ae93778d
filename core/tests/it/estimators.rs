//! Published estimators, as we have written them. `cli/tests/it/scoreboard.rs` scores them over measured runs.

use std::collections::BTreeSet;

use expect_test::expect_file;
use highwater_core::estimate::Stages;
use highwater_core::estimators::{self, ALL, Evidence};
use highwater_core::{Config, Error, Model};

use crate::fixtures;
use crate::measured;
use crate::runs::{self, Cells, Run};

/// Sources of runs, their folders, and what people call them.
const SOURCES: [(&str, &str); 2] = [("carma", "CARMA, 2025"), ("xmem", "xMem, 2025")];
/// Those that learned.
const LEARNED: [&str; 4] = ["schedtune", "gpumemnet-mlp", "gpumemnet-transformer", "dnnperf"];

/// What all say of a run.
fn all(model: &Model, config: &Config) -> Result<Vec<Option<u64>>, Error> {
    let mut stages = Stages::default();
    let simulation = model.simulate(config, &mut stages)?;
    let run = estimators::Run::of(model, &simulation, &mut stages)?;
    let evidence = Evidence::of(&run);
    Ok(ALL.iter().map(|one| one.estimate(&evidence).ok().map(|said| said.bytes.0)).collect())
}

/// The same runs, by what tells them from others, for the answer to "and what was measured?".
#[test]
fn measured_runs_are_known_by_what_they_are() {
    let mut text = String::new();
    for (source, name) in SOURCES {
        let shared = measured::shared(source);
        let cells = runs::table(&format!("measured/{source}.csv"));
        let is_whole = |cells: &&Cells| cells.get("oom").is_none_or(|oom| oom == "no");
        let cells: Vec<Cells> = cells.iter().filter(is_whole).cloned().collect();
        let runs: Vec<Run> = cells.iter().map(|cells| Run::sharing(cells, &shared)).collect();
        let found = ["train", "measured"]
            .into_iter()
            .flat_map(|folder| runs::of_each(folder, &runs, identity))
            .filter_map(|(index, identity)| Some((index, identity.ok()?)));
        let device = shared
            .split_once("--device ")
            .and_then(|(_, rest)| rest.split(' ').next())
            .expect("a device");
        let mut lines: Vec<String> = found
            .map(|(index, identity)| {
                format!("{}\t{device}\t{name}\t{identity}\n", cells[index]["process"])
            })
            .collect();
        lines.sort();
        text.extend(lines);
    }
    expect_file!["../../src/estimators/measured.txt"].assert_eq(&text);
}

fn identity(model: &Model, config: &Config) -> Result<String, Error> {
    let mut stages = Stages::default();
    let simulation = model.simulate(config, &mut stages)?;
    let run = estimators::Run::of(model, &simulation, &mut stages)?;
    Ok(Evidence::of(&run).identity())
}

/// The weights mean here what they meant to the program that trained them.
#[test]
fn learned_estimators_answer_as_when_they_were_trained() {
    let cells = runs::table("learned/predictions.csv");
    let run = |cells: &Cells| Run {
        model: cells["model"].clone(),
        batch: cells["batch"].parse().expect("a batch"),
        seq: None,
        settings: String::new(),
    };
    let runs: Vec<Run> = cells.iter().map(run).collect();
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for folder in ["timm", "train", "measured"] {
        for (index, said) in runs::of_each(folder, &runs, all) {
            let said = said.expect("a model of images");
            // torchvision has models of the same name.
            if !seen.insert(index) {
                continue;
            }
            for id in LEARNED {
                let at = ALL.iter().position(|one| one.about().id == id).expect(id);
                let ours = said[at].expect(id) >> 20;
                let theirs: u64 = cells[index][id].parse().expect("MiB");
                // Sums of floats depend on their order; classes and trees do not.
                let tolerance = u64::from(id == "dnnperf");
                if ours.abs_diff(theirs) > tolerance {
                    wrong.push(format!("{} {id}: {ours}, not {theirs}", runs[index].model));
                }
            }
        }
    }
    assert_eq!((seen.len(), wrong), (runs.len(), Vec::new()));
}

/// What the authors' own programs said of twelve models, and ours: `tests/oracle/calculators.py` asked them.
#[test]
fn calculators_answer_as_their_authors_do() {
    let page = calculators("calculators/truth.csv");
    expect_file!["../../../tests/fixtures/calculators/errors.txt"].assert_eq(&page);
}

/// The same of one GPU of several.
#[test]
fn calculators_answer_about_several_gpus() {
    let page = calculators("calculators/ranks.csv");
    expect_file!["../../../tests/fixtures/calculators/ranks-errors.txt"].assert_eq(&page);
}

/// A line for each figure of a table, with the error of ours.
fn calculators(table: &str) -> String {
    let mut page = "Authors' own calculators: model, settings, calculator; the bytes that it states, and the error of \
                    ours in hundredths\nof a percent.\n\n"
        .to_owned();
    let mut wrong = Vec::new();
    for cells in &runs::table(table) {
        let entry = highwater_core::formats::catalogue::find(&cells["model"]).expect("a name");
        let model = highwater_core::open_named(&entry).expect("a model");
        let suggested = model.defaults();
        let defaults =
            Config { loss: suggested.loss, freeze: suggested.freeze.clone(), ..Config::default() };
        let config = Run::of(cells).configuration_over(&model, &defaults).expect("settings");
        let said = all(&model, &config).expect("a run");
        let id = cells["calculator"].as_str();
        let at = ALL.iter().position(|one| one.about().id == id).expect(id);
        let truth: u64 = cells["bytes"].parse().expect("bytes");
        let error = runs::error(said[at].expect(id), truth);
        let line = format!("{} {} {id}: {truth} {error}\n", cells["model"], cells["settings"]);
        page += &line;
        // EleutherAI's prints hundredths of a GiB, and Megatron's counts parameters by sizes, ours those that there are.
        // Of BERT, a weight that two modules share counts in both, and accelerate builds the class with a pooler.
        let most = match (id, cells["model"].as_str()) {
            ("eleuther", _) => 20,
            ("megatron", _) => 100,
            ("accelerate", "bert-base-uncased") => 60,
            (_, "bert-base-uncased") => 15,
            _ => 0,
        };
        wrong.extend((error.abs() > most).then_some(line));
    }
    assert_eq!(wrong, Vec::<String>::new());
    page
}

/// Those that need no transformer answer for any model, those for transformers where there is one, and those that
/// learned from images and perceptrons about no text; `VeritasEst` about convolutions alone.
#[test]
fn all_answer_where_they_can() {
    let answers = |name: &str| {
        let entry = highwater_core::formats::catalogue::find(name).expect(name);
        let model = highwater_core::open_named(&entry).expect(name);
        all(&model, model.defaults()).expect(name)
    };
    assert_eq!(answers("resnet50").iter().flatten().count(), ALL.len() - 3);
    assert_eq!(answers("gpt2").iter().flatten().count(), ALL.len() - LEARNED.len() - 1);
    let spec = fixtures::read("spec/mlp.yaml");
    let model = highwater_core::open(&mut spec.as_slice(), "mlp.yaml").unwrap();
    let said = all(&model, &Config::default()).unwrap();
    assert_eq!(said.iter().flatten().count(), ALL.len() - 4);
}

/// What all say of Llama 3.2 1B with 4 texts of 512 tokens.
fn of_llama(settings: &str) -> Vec<Option<u64>> {
    let (name, settings) = ("llama-3.2-1b".to_owned(), settings.to_owned());
    let entry = highwater_core::formats::catalogue::find(&name).expect("a name");
    let model = highwater_core::open_named(&entry).expect("a model");
    let run = Run { model: name, batch: 4, seq: Some(512), settings };
    let config = run.configuration_over(&model, model.defaults()).expect("settings");
    all(&model, &config).expect("a run")
}

/// Who answers about one GPU of several.
#[test]
fn those_that_know_several_gpus_answer_about_them() {
    let check = |settings: &str, expected: &[&str]| {
        let said = of_llama(settings);
        let rows = ALL.iter().zip(said).filter(|(_, bytes)| bytes.is_some());
        let ids: Vec<&str> = rows.map(|(one, _)| one.about().id).collect();
        assert_eq!(ids, expected, "{settings}");
    };
    let zero = ["zero-2", "zero-2-offload", "zero-3", "zero-3-offload-optimizer", "zero-3-offload"];
    let of_data = [&["highwater", "llmem", "eleuther", "megatron"], zero.as_slice()].concat();
    check("--gpus 2", &of_data);
    check("--gpus 4 --data-parallel fsdp --cpu-offload", &of_data);
    check("--mesh replicate=2,dp=2 --data-parallel fsdp", &of_data);
    check("--mesh tp=2", &of_data[..4]);
    check("--mesh dp=2,tp=2", &of_data[..4]);
    check("--mesh pp=2", &["highwater", "eleuther", "megatron"]);
}

/// By hand, in MiB and pages of 2. Parameters are a table of 128,256 × 2,048 and 59 chunks of 16 Mi for
/// the rest: 2,389 in half precision, 4,778 in single precision. The state of Adam is 11,432: the table and the head
/// have 2,004 each, a block 464. Hidden states, logits and the loss stay as they are. NCCL adds 560 to the base.
#[test]
fn llmem_divides_by_its_formulas() {
    let at = ALL.iter().position(|one| one.about().id == "llmem").expect("a row");
    let figure = |settings: &str| of_llama(settings)[at].expect("a figure") >> 20;
    let alone = figure("") - (7_168 + 11_432) + 560;
    let check = |settings: &str, states: u64, gathered: u64| {
        assert_eq!(figure(settings) - alone, states + gathered, "{settings}");
    };
    // Half precision, and a quarter of 4,778 + 11,432.
    check("--gpus 4 --data-parallel ddp", 2_390 + 4_054, 0);
    // A quarter of all, and of 128 of inputs what the three others have.
    check("--mesh tp=4", 4_650, 96);
    // Of half precision, what two of four have.
    check("--mesh dp=2,tp=2", 1_196 + 4_054, 64);
}
