//! What is different between two runs, in words.

use highwater_core::config::choices;
use highwater_core::device::lookup;
use highwater_core::{Bytes, Config};

use crate::words::language::tr;

/// Settings that changed, as in `optimizer AdamW → SGD`; empty where none did.
pub(crate) fn changed(before: &Config, after: &Config) -> String {
    let changes = before.differences(after).into_iter().map(|(name, before, after)| {
        let (before, after) = (said(&name, &before), said(&name, &after));
        [&name.replace('-', " "), " ", &before, " → ", &after].concat()
    });
    changes.collect::<Vec<_>>().join(", ")
}

/// What people call the value of a setting.
fn said(name: &str, value: &str) -> String {
    if value.is_empty() {
        return tr("none");
    }
    let choice = choices(name).iter().find(|choice| choice.name == value);
    match (name, value.parse()) {
        ("capacity" | "other-processes" | "context" | "allowed", Ok(bytes)) => {
            Bytes(bytes).to_string()
        }
        ("device", _) => lookup(value).map_or(value, |device| device.name).to_owned(),
        _ => choice.map_or_else(|| value.replace('\n', " "), |choice| tr(choice.label)),
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
        assert_eq!(changed(&before, &after), "optimizer AdamW → SGD, freeze none → layer1");
        assert_eq!(changed(&after, &after), "");
    }
}
