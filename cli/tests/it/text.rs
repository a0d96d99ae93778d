//! What people read.

use expect_test::expect_file;
use highwater_core::{device, ops};

use crate::run::{highwater, model};

#[test]
fn the_report_of_one_model() {
    let model = model("train/alexnet");
    let outcome = highwater(&["estimate", &model, "--dim", "batch=64", "--optimizer", "adam"]);
    expect_file!["report.txt"].assert_eq(&outcome.stdout);
}

#[test]
fn every_operator_and_device_is_listed() {
    let first_words = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let listed = first_words(&highwater(&["operators"]).stdout);
    for operator in ops::all() {
        assert!(listed.iter().any(|name| name == operator.name), "{}", operator.name);
    }
    let listed = first_words(&highwater(&["devices"]).stdout);
    for device in device::all() {
        assert!(listed.iter().any(|id| id == device.id), "{}", device.id);
    }
}
