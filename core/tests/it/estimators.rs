//! Published estimators, as we have written them, against measured runs.
//!
//! `tests/estimators.txt` is the table, reviewed like code; `UPDATE_EXPECT=1 cargo test` rewrites it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::estimate::Stages;
use highwater_core::estimators::{ALL, Evidence};
use highwater_core::{Config, Error, Model};

use crate::fixtures;
use crate::measured::{CARMA, XMEM};
use crate::runs::{self, Cells, Run, error, median, percent};

/// The measured runs of a source, and what holds for all of them.
const SOURCES: [(&str, &str); 2] = [("carma", CARMA), ("xmem", XMEM)];

/// Columns of those tables with estimates that were published beside the measurements, by our names.
const PUBLISHED: [(&str, &str); 5] = [
    ("fake-tensor", "faketensor"),
    ("xmem", "xmem"),
    ("dnnmem", "dnnmem"),
    ("llmem", "llmem"),
    ("schedtune", "schedtune"),
];

/// Those that learned.
const LEARNED: [&str; 4] = ["schedtune", "gpumemnet-mlp", "gpumemnet-transformer", "dnnperf"];

#[test]
fn estimators_score_as_the_table_says() {
    let mut text = "Published estimators as Highwater has them, against the process memory of measured runs. `under` \
                    is the\nshare of runs with an estimate below the truth; `published` is the median error of what \
                    the system's own\nauthors, or those of the measurements, published for the same runs.\n"
        .to_owned();
    for (source, shared) in SOURCES {
        text += &scores(source, shared);
    }
    expect_file!["../../../tests/estimators.txt"].assert_eq(&text);
}

fn scores(source: &str, shared: &str) -> String {
    let cells = runs::table(&format!("measured/{source}.csv"));
    let is_scored = |cells: &&Cells| cells.get("oom").is_none_or(|oom| oom == "no");
    let cells: Vec<&Cells> = cells.iter().filter(is_scored).collect();
    let runs: Vec<Run> = cells.iter().map(|cells| Run::sharing(cells, shared)).collect();
    let said: Vec<_> = ["train", "measured"]
        .into_iter()
        .flat_map(|folder| runs::of_each(folder, &runs, all))
        .filter_map(|(index, said)| Some((index, said.ok()?)))
        .collect();
    let truth = |index: usize| cells[index]["process"].parse::<u64>().expect("a size");
    let mut text = format!(
        "\n{source}, {shared}\n{:<26} {:>4} {:>9} {:>9} {:>6} {:>10}\n",
        "estimator", "runs", "median", "worst", "under", "published"
    );
    for (at, estimator) in ALL.iter().enumerate() {
        let id = estimator.about().id;
        let pairs = said.iter().filter_map(|(index, said)| Some((said[at]?, truth(*index))));
        let errors: Vec<i64> = pairs.map(|(ours, truth)| error(ours, truth)).collect();
        let published = PUBLISHED.iter().find(|(ours, _)| *ours == id);
        let published = published.map(|(_, column)| {
            let stated = said.iter().filter_map(|(index, _)| {
                let theirs: u64 = cells[*index].get(*column)?.parse().ok()?;
                Some(error(theirs, truth(*index)))
            });
            stated.collect::<Vec<_>>()
        });
        let line = line(id, &errors, published.filter(|stated| !stated.is_empty()));
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}

fn line(id: &str, errors: &[i64], published: Option<Vec<i64>>) -> String {
    let runs = errors.len();
    if runs == 0 {
        return format!("{id:<26} {runs:>4}");
    }
    let under = errors.iter().filter(|error| **error < 0).count() * 100 / runs;
    let published = published.map(|stated| percent(median(&sizes(&stated))));
    let sizes = sizes(errors);
    let worst = sizes.last().copied().unwrap_or(0);
    format!(
        "{id:<26} {runs:>4} {:>9} {:>9} {under:>4} % {:>10}",
        percent(median(&sizes)),
        percent(worst),
        published.unwrap_or_default()
    )
}

/// Sizes of errors, sorted.
fn sizes(errors: &[i64]) -> Vec<u64> {
    let mut sizes: Vec<u64> = errors.iter().map(|error| error.unsigned_abs()).collect();
    sizes.sort_unstable();
    sizes
}

/// What all say of a run.
fn all(model: &Model, config: &Config) -> Result<Vec<Option<u64>>, Error> {
    let simulation = model.simulate(config, &mut Stages::default())?;
    let evidence = Evidence::of(model, &simulation)?;
    Ok(ALL.iter().map(|one| one.estimate(&evidence).ok().map(|said| said.bytes.0)).collect())
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

/// Those that need no transformer answer for any model, those for transformers where there is one, and those that
/// learned from images and perceptrons about no text.
#[test]
fn all_answer_where_they_can() {
    let answers = |name: &str| {
        let entry = highwater_core::formats::catalogue::find(name).expect(name);
        let model = highwater_core::open_named(&entry).expect(name);
        all(&model, model.defaults()).expect(name)
    };
    assert_eq!(answers("resnet50").iter().flatten().count(), ALL.len() - 3);
    assert_eq!(answers("gpt2").iter().flatten().count(), ALL.len() - LEARNED.len());
    let spec = fixtures::read("spec/mlp.yaml");
    let model = highwater_core::open(&mut spec.as_slice(), "mlp.yaml").unwrap();
    let said = all(&model, &Config::default()).unwrap();
    assert_eq!(said.iter().flatten().count(), ALL.len() - 3);
}
