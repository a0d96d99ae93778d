//! The differences between two runs, in words.

use highwater_core::Config;
use highwater_core::config::{Kind, SETTINGS, Setting};
use highwater_core::device::lookup;

use crate::words::language::tr;

/// Settings that changed, as in `optimizer AdamW → SGD`; empty where none did.
pub(crate) fn changed(before: &Config, after: &Config) -> String {
    let size =
        |config: &Config, dim| config.dims.get(dim).map_or_else(|| tr("none"), u64::to_string);
    let others = after.dims.keys().filter(|dim| !before.dims.contains_key(*dim));
    let dims = before.dims.keys().chain(others);
    let dims = dims.filter(|dim| before.dims.get(*dim) != after.dims.get(*dim));
    let dims = dims.map(|dim| change(dim, &size(before, dim), &size(after, dim)));
    let settings = SETTINGS.iter().filter(|setting| !setting.is_same(before, after));
    let settings = settings.map(|setting| {
        let name = setting.name.replace('-', " ");
        change(&name, &called(setting, before), &called(setting, after))
    });
    dims.chain(settings).collect::<Vec<_>>().join(", ")
}

fn change(name: &str, before: &str, after: &str) -> String {
    [name, " ", before, " → ", after].concat()
}

/// What people call the value of a setting.
fn called(setting: &Setting, config: &Config) -> String {
    let value = setting.value(config).to_string();
    match setting.kind {
        _ if value.is_empty() => tr("none"),
        Kind::Device => lookup(&value).map_or(value.as_str(), |device| device.name).to_owned(),
        kind => {
            let choice = kind.values().iter().find(|choice| choice.name == value);
            choice.map_or(value, |choice| tr(choice.label))
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::Optimizer;

    use super::*;

    #[test]
    fn settings_are_said_with_what_they_were() {
        let before = Config::default();
        let mut after = Config { optimizer: Optimizer::Sgd, ..Config::default() };
        after.freeze.push("layer1".to_owned());
        after.dims.insert("batch".to_owned(), 64);
        assert_eq!(
            changed(&before, &after),
            "batch none → 64, optimizer AdamW → SGD, freeze none → layer1"
        );
        assert_eq!(changed(&after, &after), "");
    }
}
