//! Training recipes → settings, with the keys and defaults that they are from.

use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::config::PyTorch;
use highwater_core::recipe::{self, Origin, Recipe};

use crate::fixtures;

/// The texts of `recipes/recipes.txt`, with their titles.
fn texts() -> Vec<(String, String)> {
    let all = String::from_utf8(fixtures::read("recipes/recipes.txt")).unwrap();
    let mut texts: Vec<(String, String)> = Vec::new();
    for line in all.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            texts.push((title.to_owned(), String::new()));
        } else if let Some((_, text)) = texts.last_mut() {
            *text += line;
            text.push('\n');
        }
    }
    texts
}

fn text(title: &str) -> String {
    texts().into_iter().find(|(known, _)| known == title).unwrap().1
}

fn described(recipe: &Recipe) -> String {
    let mut lines = format!("{}\n", recipe.tool);
    match recipe.opened() {
        Ok(opened) => {
            let model = opened.configuration.unwrap_or_default();
            let model = model.lines().nth(1).unwrap_or_default().trim().to_owned();
            writeln!(lines, "model {} {model}", recipe.model.as_deref().unwrap_or_default())
                .unwrap();
        }
        Err(error) => writeln!(lines, "no model: {error}").unwrap(),
    }
    for choice in &recipe.choices {
        let from = match &choice.from {
            Origin::Key(key) => key.clone(),
            Origin::Default(tool) => format!("default of {tool}"),
        };
        writeln!(lines, "{} = {}  ({from})", choice.setting, choice.value).unwrap();
    }
    writeln!(lines, "no effect: {}", recipe.idle.join(", ")).unwrap();
    for note in &recipe.notes {
        writeln!(lines, "{note}").unwrap();
    }
    lines
}

#[test]
fn recipes_are_read() {
    let mut all = String::new();
    for (title, text) in texts() {
        let read = match recipe::read(&text, None) {
            Ok(Some(recipe)) => described(&recipe),
            Ok(None) => "no recipe\n".to_owned(),
            Err(error) => format!("error: {error}\n"),
        };
        writeln!(all, "== {title}\n{read}").unwrap();
    }
    expect_file!["recipes.txt"].assert_eq(&all);
}

/// Default values move with releases, stated in the text or by the user.
#[test]
fn defaults_follow_releases() {
    let script = "from trl import SFTConfig\nSFTTrainer('Qwen/Qwen2.5-0.5B', args=SFTConfig())\n";
    let value = |text: &str, pytorch: Option<&str>, setting: &str| {
        let pytorch = pytorch.map(|release| release.parse::<PyTorch>().unwrap());
        let recipe = recipe::read(text, pytorch).unwrap().unwrap();
        let found = recipe.choices.into_iter().find(|choice| choice.setting == setting);
        found.map(|choice| choice.value)
    };
    for (comment, pytorch, setting, expected) in [
        ("# trl 0.12", None, "checkpoint", Some("none")),
        ("# trl 0.22", None, "checkpoint", Some("blocks")),
        ("# trl 0.12", None, "precision", Some("fp32")),
        ("# trl 0.20", None, "precision", Some("amp-bf16")),
        ("# trl 0.12", None, "optimizer-impl", None),
        ("# trl 1.16", None, "optimizer-impl", Some("fused")),
        ("# trl 1.16", Some("2.7"), "optimizer-impl", None),
        ("# trl 1.16", Some("2.7"), "pytorch", Some("2.7")),
    ] {
        let text = format!("{comment}\n{script}");
        assert_eq!(value(&text, pytorch, setting).as_deref(), expected, "{comment} {setting}");
    }
}

/// The settings that follow run, and shares of a model need less than all of it.
#[test]
fn recipes_of_several_gpus_are_estimated() {
    let peak = |recipe: &str| {
        let text = format!(
            "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 1\nsequence_len: 64\n{recipe}"
        );
        let model = highwater_core::open(&mut text.as_bytes(), "recipe.yaml").unwrap();
        model.estimate(model.defaults()).unwrap().peak.allocated
    };
    let (one, ddp) = (peak(""), peak("# torchrun --nproc_per_node 4 -m axolotl.cli.train x.yml\n"));
    let two = peak("dp_shard_size: 2\nfsdp_config: {fsdp_version: 2}\n");
    let eight = peak("dp_shard_size: 8\nfsdp_config: {fsdp_version: 2}\n");
    let offloaded = peak("dp_shard_size: 8\nfsdp_config: {offload_params: true}\n");
    assert!(ddp > one && eight < two && offloaded < eight, "{one} {ddp} {two} {eight} {offloaded}");
}

/// A notebook is the script in its cells.
#[test]
fn a_notebook_is_a_script() {
    let script = text("unsloth");
    let lines: Vec<String> = script.lines().map(|line| format!("{line}\n")).collect();
    let notebook = serde_json::json!({
        "cells": [
            {"cell_type": "markdown", "source": ["SFTConfig(max_length=7)\n"]},
            {"cell_type": "code", "source": lines},
        ],
    });
    assert_eq!(recipe::read(&notebook.to_string(), None), recipe::read(&script, None));
}

/// Texts cut anywhere, and with any character left out or replaced, are read or refused.
#[test]
fn whatever_is_broken_ends() {
    for (_, text) in texts() {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for (step, &at) in places.iter().enumerate().step_by(3) {
            let (before, behind) = text.split_at(at);
            let mut rest = behind.chars();
            rest.next();
            let other = ["(", "\"", "[", "}", "\\", ":", "é", "'''"][step % 8];
            for broken in [
                before.to_owned(),
                behind.to_owned(),
                [before, rest.as_str()].concat(),
                [before, other, behind].concat(),
            ] {
                drop(recipe::read(&broken, None));
            }
        }
    }
}
