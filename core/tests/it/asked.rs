//! What may be asked of a model by name: sizes of pictures, classes, heads and the decoder's length, against the same
//! classes in PyTorch.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::config::{LossChoice, Task};
use highwater_core::formats::catalogue;
use highwater_core::{Config, Error, Model, Report, open_named};

use crate::runs::{self, Run, table};

fn named(name: &str) -> Model {
    open_named(&catalogue::find(name).unwrap()).unwrap()
}

/// Adds what is asked of a model: `height=320`, `task=TokenClassification`.
fn ask<'a>(config: &mut Config, asked: impl Iterator<Item = &'a str>) {
    for (name, value) in asked.filter_map(|part| part.split_once('=')) {
        match name {
            "task" => config.set(name, value).unwrap(),
            _ => drop(config.dims.insert(name.to_owned(), value.parse().unwrap())),
        }
    }
}

/// Every run that was recorded, with what is predicted for it.
#[test]
fn peaks_are_those_of_the_libraries() {
    let mut page = String::new();
    let (mut exact, mut count) = (0, 0);
    for cells in &table("asked/truth.csv") {
        let mut asked = cells["model"].split('+');
        let model = named(asked.next().unwrap());
        let suggested = model.defaults();
        let defaults =
            Config { loss: suggested.loss, freeze: suggested.freeze.clone(), ..Config::default() };
        let mut config = Run::of(cells).configuration_over(&model, &defaults).unwrap();
        ask(&mut config, asked);
        if cells["seq"].is_empty() {
            // A length that the run does not state.
            config.dims.remove("seq");
        }
        let report = model.estimate(&config).unwrap();
        assert_eq!(report.model.parameters.to_string(), cells["parameters"], "{}", cells["model"]);
        let error = |ours: u64, what: &str| {
            let truth = (1..=3).map(|n| cells[&format!("{what}_{n}")].parse().unwrap()).max();
            (truth.unwrap(), runs::error(ours, truth.unwrap()))
        };
        let (true_allocated, allocated) = error(report.peak.allocated.0, "allocated");
        let (true_reserved, reserved) = error(report.peak.reserved.0, "reserved");
        exact += usize::from(report.peak.allocated.0 == true_allocated);
        count += 1;
        let run = ["model", "batch", "seq", "settings"].map(|column| cells[column].as_str());
        let run: Vec<&str> = run.into_iter().filter(|cell| !cell.is_empty()).collect();
        let run = run.join(" ");
        writeln!(page, "{run}\n    {true_allocated} {allocated}, {true_reserved} {reserved}")
            .unwrap();
        assert!(allocated.abs() <= 20, "{run}: {allocated} hundredths of a percent");
    }
    let head = "Models and what is asked of them: batch, length, settings; then true allocated and reserved bytes, \
                each\nwith the error of ours in hundredths of a percent.\n";
    expect_file!["../../../tests/fixtures/asked/errors.txt"].assert_eq(&format!("{head}\n{page}"));
    assert!(4 * exact >= 3 * count, "{exact} of {count} to the byte");
}

fn estimate(name: &str, asked: &str) -> Result<Report, Error> {
    let model = named(name);
    let mut config = model.defaults().clone();
    ask(&mut config, asked.split('+'));
    model.estimate(&config)
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    for (name, asked, part) in [
        ("vit-base-patch16-224", "height=320+width=224", "choose one size for both"),
        ("vit-base-patch16-224", "seq=12", "it has `batch`, `classes`, `height`, `width`"),
        ("gpt2", "height=320", "no dimension `height`"),
        ("gpt2", "classes=3", "no dimension `classes`"),
        ("gpt2", "target=3", "no dimension `target`"),
        ("t5-small", "target=0", "choose 1 to"),
        ("resnet50", "classes=0", "choose 1 to"),
        ("stable-diffusion-1.5", "height=512", "it has `batch`, `latent_height`, `latent_width`"),
        ("vit-base-patch16-224", "task=CausalLM", "its heads are image-classification, bare"),
        ("resnet50", "task=bare", "has no head `bare`"),
        ("t5-small", "task=QuestionAnswering", "its heads are conditional-generation, bare"),
        ("albert-base-v2", "task=TokenClassification", "ALBERT"),
    ] {
        let message = estimate(name, asked).err().map(|error| error.to_string());
        assert!(
            message.as_ref().is_some_and(|it| it.contains(part)),
            "{name} {asked}: {message:?}"
        );
    }
}

/// A size that is the model's own changes nothing, and another one is stated as an assumption.
#[test]
fn a_size_of_the_configuration_is_no_assumption() {
    let codes = |asked| {
        let report = estimate("vit-base-patch16-224", asked).unwrap();
        report.diagnostics.iter().any(|found| found.code == "assumed-image-size")
    };
    assert!(!codes("height=224+width=224"));
    assert!(codes("height=384+width=384"));
    // One side is enough where both are the same.
    assert!(codes("height=384"));
}

#[test]
fn another_head_has_another_loss() {
    let mut config = named("roberta-large").defaults().clone();
    assert_eq!(config.loss, LossChoice::MaskedLm);
    for text in ["SequenceClassification", "sequence-classification"] {
        config.set("task", text).unwrap();
        assert_eq!((config.task, config.loss), (Task::SequenceClassification, LossChoice::Auto));
    }
    assert!(config.set("task", "Classification").is_err());
    for (name, task, loss) in [
        (
            "roberta-large",
            "SequenceClassification",
            "cross-entropy with one class index per sample",
        ),
        ("roberta-large", "QuestionAnswering", "the model's own loss"),
        ("smollm2-135m", "TokenClassification", "cross-entropy with one label per position"),
        ("vit-base-patch16-224-in21k", "ImageClassification", "cross-entropy with one class index"),
    ] {
        let report = estimate(name, &format!("task={task}")).unwrap();
        let stated = report.diagnostics.iter().find(|found| found.code == "chosen-loss");
        let message = stated.map(|found| found.message.to_string()).unwrap_or_default();
        assert!(message.contains(loss), "{name} {task}: {message}");
    }
}
