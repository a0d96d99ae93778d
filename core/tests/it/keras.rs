//! Models that Keras itself wrote (`tests/fixtures/keras/make.py`).

use highwater_core::formats::{self, Fidelity};
use highwater_core::graph::Member;

use crate::fixtures;
use crate::runs::table;

fn open(name: &str) -> formats::Opened {
    let bytes = fixtures::read(&format!("keras/{name}"));
    formats::open(&mut bytes.as_slice(), name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every trained number is one of Keras's; PyTorch's recurrent layers have a second bias.
#[test]
fn parameters_are_those_that_keras_counts() {
    let rows = table("keras/parameters.csv");
    assert!(rows.len() >= 12, "{} rows", rows.len());
    for cells in rows {
        let name = &cells["model"];
        let opened = open(&format!("{name}.json"));
        assert_eq!(opened.recognised.fidelity, Fidelity::ExactGraph, "{name}");
        let count = |wanted: Member| -> u64 {
            let members = opened.graph.members.iter().filter(|(_, member)| *member == wanted);
            let sizes = members.map(|(name, _)| {
                let mut values = opened.graph.values.iter();
                let value = values.find(|value| value.name == *name).unwrap();
                value.initializer.as_ref().unwrap().dims.iter().product::<u64>()
            });
            sizes.sum()
        };
        let number = |column: &str| cells[column].parse::<u64>().unwrap();
        let expected = number("trainable") + number("recurrent_biases");
        assert_eq!(count(Member::Parameter), expected, "{name}");
        // What Keras counts besides are running statistics, and those that prepare data.
        let rest = number("parameters") - number("trainable");
        assert!(count(Member::Buffer) <= rest, "{name}");
        // What was translated is a spec that says the same.
        let text = opened.spec.unwrap();
        let again = formats::open(&mut text.as_bytes(), "spec").unwrap();
        assert_eq!(again.graph.nodes.len(), opened.graph.nodes.len(), "{name}");
    }
}

#[test]
fn an_archive_is_the_model_in_it() {
    assert_eq!(open("archive.keras").spec, open("residual.json").spec);
}

/// All that Keras wrote runs to the end.
#[test]
fn all_can_be_estimated() {
    for cells in table("keras/parameters.csv") {
        let name = format!("{}.json", cells["model"]);
        let bytes = fixtures::read(&format!("keras/{name}"));
        let model = highwater_core::open(&mut bytes.as_slice(), &name).unwrap();
        let report = model.estimate(model.defaults()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let refused = report
            .diagnostics
            .iter()
            .find(|d| d.severity == highwater_core::diagnostic::Severity::Error);
        assert!(refused.is_none(), "{name}: {refused:?}");
    }
}
