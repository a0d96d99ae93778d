//! What is different between two runs, in words.

use highwater_core::Config;

use crate::language::tr;

/// Settings that changed, as in `optimizer adamw → sgd`; empty where none did.
pub(crate) fn changed(before: &Config, after: &Config) -> String {
    let differences = before.differences(after);
    let said = |text: String| if text.is_empty() { tr("none") } else { text.replace('\n', " ") };
    let changes = differences
        .into_iter()
        .map(|(name, before, after)| [&name, " ", &said(before), " → ", &said(after)].concat());
    changes.collect::<Vec<_>>().join(", ")
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
        assert_eq!(changed(&before, &after), "optimizer adamw → sgd, freeze none → layer1");
        assert_eq!(changed(&after, &after), "");
    }
}
