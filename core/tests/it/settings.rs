//! The table of settings: documents name each, and layer specs have those that hold of any model.

use highwater_core::Config;
use highwater_core::config::{Attention, Kind, MemoryFormat, SETTINGS, Scope, Setting};
use highwater_core::formats::spec;

use crate::fixtures;

#[test]
fn documents_name_every_flag() {
    let page = String::from_utf8(fixtures::read("../../docs/command-line.md")).unwrap();
    for setting in SETTINGS {
        let flag = format!("`--{}", setting.name);
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
        let is_named = page.match_indices(&flag).any(|(at, _)| ends(&page[at + flag.len()..]));
        assert!(is_named, "docs/command-line.md does not name {flag}`");
    }
}

/// Each value of each setting that a spec may have is read from a spec, and written into one.
#[test]
fn specs_have_every_setting_of_training() {
    let texts = |setting: &Setting| match setting.kind {
        Kind::Choice(values) | Kind::Suggestion(values) => {
            values.iter().map(|value| value.name.to_owned()).collect()
        }
        Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
        Kind::Count => vec!["3".to_owned()],
        Kind::Device => vec!["t4".to_owned()],
        Kind::Text if !setting.example.is_empty() => vec![format!("\"{}\"", setting.example)],
        Kind::Names | Kind::Size | Kind::Text => vec!["\"a.b: c\"".to_owned()],
    };
    for setting in SETTINGS {
        let (key, is_known) =
            (setting.key(), matches!(setting.scope, Scope::Training | Scope::Machine));
        for text in texts(setting) {
            let text = format!("input: [N, 8]\nlayers: [relu]\ntrain: {{{key}: {text}}}");
            let Ok(read) = spec::read(&text) else {
                assert!(!is_known, "{text}");
                continue;
            };
            assert!(is_known, "{text}");
            let again = spec::read(&read.to_string()).unwrap();
            assert_eq!(again.train, read.train, "{read}");
        }
    }
}

#[test]
fn a_spec_lays_images_out_channels_last() {
    let text = "input: [N, 3, 8, 8]\nlayers: [relu]\ntrain: {memory_format: channels_last}";
    let spec = spec::read(text).unwrap();
    assert_eq!(spec.train.memory_format, MemoryFormat::ChannelsLast);
    assert!(spec.to_string().contains("memory_format: channels-last"), "{spec}");
    assert!(spec::schema().contains("\"memory_format\": {\"enum\": [\"contiguous\", "));
}

#[test]
fn attention_is_a_choice_like_others() {
    let setting = Setting::named("attention").unwrap();
    let names: Vec<_> = setting.kind.values().iter().map(|value| value.name).collect();
    assert_eq!(names, ["auto", "sdpa", "eager", "flash"]);
    let mut config = Config::default();
    config.set("attention", "eager").unwrap();
    assert_eq!(config.attention, Attention::Eager);
}
