//! Models by name: every entry of the catalogue, and how names are found.

use std::collections::BTreeSet;

use highwater_core::config::{Checkpoint, Optimizer, Precision};
use highwater_core::formats::catalogue::{self, Entry};
use highwater_core::graph::{Graph, Member};
use highwater_core::{Config, Error, Severity};

fn found(name: &str) -> Entry {
    catalogue::find(name).unwrap_or_else(|| panic!("{name} is not found"))
}

/// COUNT: elements of a program's parameters.
fn parameters(graph: &Graph) -> u64 {
    let names = graph.members.iter().filter(|(_, member)| *member == Member::Parameter);
    let names: BTreeSet<_> = names.map(|(name, _)| name).collect();
    let values = graph.values.iter().filter(|value| names.contains(&value.name));
    let literals = values.filter_map(|value| value.initializer.as_ref());
    literals.map(|literal| literal.dims.iter().product::<u64>()).sum()
}

/// Parameters are those that the library counts; no key is unread, and the settings that an entry opens with are those
/// of its model.
#[test]
fn every_entry_has_its_published_number_of_parameters() {
    let entries = catalogue::entries();
    assert!(entries.len() >= 120, "{} entries", entries.len());
    let mut wrong = Vec::new();
    for entry in &entries {
        let model = match highwater_core::open_named(entry) {
            Ok(model) => model,
            Err(error) => {
                wrong.push(format!("{}: {error}", entry.id));
                continue;
            }
        };
        let counted = parameters(model.graph());
        if counted != entry.parameters {
            wrong.push(format!("{}: {counted} instead of {}", entry.id, entry.parameters));
        }
        let warnings =
            model.graph().diagnostics.iter().filter(|found| found.severity != Severity::Info);
        wrong.extend(warnings.map(|found| format!("{}: {}", entry.id, found.message)));
        let known: BTreeSet<_> = model.open_dims().into_iter().map(|dim| dim.name).collect();
        let dims = &model.defaults().dims;
        wrong.extend(
            dims.keys()
                .filter(|name| !known.contains(*name))
                .map(|name| format!("{}: there is no dimension {name}", entry.id)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A model of every family can be estimated with the settings that it opens with.
#[test]
fn every_family_is_estimated() -> Result<(), Error> {
    let mut families = BTreeSet::new();
    for entry in catalogue::entries() {
        if families.insert(entry.family()) {
            let model = highwater_core::open_named(&entry)?;
            let report = model.estimate(model.defaults())?;
            assert_eq!(report.model.parameters, entry.parameters, "{}", entry.id);
            assert!(!report.lower_bound, "{}", entry.id);
        }
    }
    Ok(())
}

/// No two models share an id or a name, and ids are as people write them.
#[test]
fn names_are_unique() {
    let mut names = BTreeSet::new();
    for entry in catalogue::entries() {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        assert!(entry.id.chars().all(is_plain), "{}", entry.id);
        for name in [entry.id, entry.name].into_iter().chain(entry.hub()) {
            let is_new = names.insert(name.to_ascii_lowercase());
            assert!(is_new || name.eq_ignore_ascii_case(entry.id), "{name} stands twice");
            assert_eq!(found(name).id, entry.id, "{name}");
        }
    }
}

#[test]
fn names_are_found_as_people_write_them() {
    for (name, id) in [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("Llama 3.1 8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Llama-2-7b-chat-hf", "llama-2-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("gpt2", "gpt2"),
        ("openai/whisper-tiny.en", "whisper-tiny.en"),
        ("resnet50", "resnet50"),
        ("ResNet-50", "resnet50"),
        ("wide_resnet50_2", "wide-resnet50-2"),
        ("vgg16_bn", "vgg16-bn"),
        ("efficientnet_v2_s", "efficientnet-v2-s"),
        ("EfficientNet-B0", "efficientnet-b0"),
        ("regnet_y_1_6gf", "regnet-y-1-6gf"),
    ] {
        assert_eq!(found(name).id, id, "{name}");
    }
    for name in ["", "-", "models/llama-3.1-8b", "llama", "instruct", "\u{0}", "🦙"] {
        assert!(catalogue::find(name).is_none(), "{name}");
    }
}

#[test]
fn unknown_names_have_near_ones() {
    for (name, expected) in [
        ("lama-3.1-8b", "llama-3.1-8b"),
        ("llama3.1-8b", "llama-3.1-8b"),
        ("unsloth/Llama-3.2-1B", "llama-3.2-1b"),
        ("gtp2", "gpt2"),
        ("mistral", "mistral-7b-v0.1"),
        ("qwne", "qwen2-7b"),
        ("qwen-2.5-7b", "qwen2.5-7b"),
        ("bert-large", "bert-large-cased"),
        ("distil bert base uncased", "distilbert-base-uncased"),
    ] {
        let near = catalogue::nearest(name);
        let ids: Vec<_> = near.split(", ").collect();
        assert_eq!(ids.len(), 5);
        assert!(ids.contains(&expected), "{name}: {ids:?}");
    }
    let long = "a".repeat(100_000);
    assert_eq!(catalogue::nearest(&long).split(", ").count(), 5);
    let ids: Vec<_> = catalogue::search("Qwen2.5 coder").iter().map(|entry| entry.id).collect();
    assert!(ids.len() >= 4 && ids.iter().all(|id| id.starts_with("qwen2.5-coder-")), "{ids:?}");
    assert_eq!(catalogue::search("").len(), catalogue::entries().len());
    assert_eq!(catalogue::names().lines().count(), catalogue::entries().len());
}

/// Half precision for large models and where weights are published so, autocast elsewhere; checkpointing for large
/// models.
#[test]
fn entries_open_with_the_settings_of_their_users() {
    for (name, precision, checkpoint, dims) in [
        ("llama-3.1-8b", Precision::Bf16, Checkpoint::Blocks, &[("batch", 1), ("seq", 2048)][..]),
        ("llama-2-7b", Precision::Bf16, Checkpoint::Blocks, &[("batch", 1), ("seq", 2048)]),
        ("qwen2.5-0.5b", Precision::Bf16, Checkpoint::None, &[("batch", 1), ("seq", 2048)]),
        ("gpt2", Precision::AmpBf16, Checkpoint::None, &[("batch", 1), ("seq", 1024)]),
        ("gpt-j-6b", Precision::Bf16, Checkpoint::Blocks, &[("batch", 1), ("seq", 2048)]),
        ("bert-base-uncased", Precision::AmpBf16, Checkpoint::None, &[]),
        ("vit-base-patch16-224", Precision::AmpBf16, Checkpoint::None, &[]),
    ] {
        let dims = dims.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        let expected = Config { precision, checkpoint, dims, ..Config::default() };
        assert_eq!(found(name).settings(), expected, "{name}");
    }
}

/// torchvision's networks open with the defaults of its script, and have no name on the Hub.
#[test]
fn networks_open_with_the_settings_of_torchvision() {
    let entry = found("resnet50");
    let expected = Config {
        optimizer: Optimizer::SgdMomentum,
        weight_decay: true,
        dims: [("batch".to_owned(), 32)].into(),
        ..Config::default()
    };
    assert_eq!(entry.settings(), expected);
    assert_eq!(entry.hub().count(), 0);
    assert!(catalogue::names().contains("resnet50|ResNet-50|torchvision|25557032\n"));
}
