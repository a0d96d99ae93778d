//! Exit statuses, and messages on bad use or input.

use expect_test::{Expect, expect};

use crate::run::{Outcome, file, highwater, model};

/// Bad input: status 2, nothing on stdout, and a message on stderr.
fn check(arguments: &[&str], expected: Expect) {
    let Outcome { status, stdout, stderr } = highwater(arguments);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
    // Folders are the machine's own.
    let folders = [env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR")];
    let stderr = folders.iter().fold(stderr, |text, folder| text.replace(folder, ""));
    expected.assert_eq(&stderr);
}

#[test]
fn files_that_are_no_models_are_refused() {
    let check_file = |name: &str, bytes: &[u8], expected: Expect| {
        check(&["estimate", &file(name, bytes).to_string_lossy()], expected);
    };
    check(&["estimate", "no-such.onnx"], expect![[""]]);
    check(&["estimate", env!("CARGO_TARGET_TMPDIR")], expect![[""]]);
    check_file("empty.onnx", b"", expect![[""]]);
    check_file("picture.onnx", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01", expect![[""]]);
    let whole = std::fs::read(model("train/alexnet")).unwrap();
    check_file("truncated.onnx", &whole[..whole.len() / 2], expect![[""]]);
}

#[test]
fn unknown_names_are_refused_with_those_that_are_known() {
    let model = model("train/alexnet");
    let refused = |flag: &str, value: &str, expected: Expect| {
        check(&["estimate", &model, flag, value], expected);
    };
    refused("--dim", "bacth=8", expect![[""]]);
    refused("--dim", "batch", expect![[""]]);
    refused("--dim", "batch=many", expect![[""]]);
    refused("--dim", "batch=0", expect![[""]]);
    refused("--optimizer", "adamm", expect![[""]]);
    let device = highwater(&["estimate", &model, "--device", "t5"]);
    assert_eq!(device.status, Some(2));
    assert!(device.stderr.contains("tip: a similar value exists: 't4'"), "{}", device.stderr);
}

#[test]
fn what_is_required_decides_the_status() {
    let model = model("train/alexnet");
    let ask = |batch: &str, devices: &[&str]| {
        let mut arguments = vec!["estimate", &model, "--dim", batch];
        arguments.extend(devices.iter().flat_map(|device| ["--require", device]));
        highwater(&arguments)
    };
    assert_eq!(ask("batch=8", &["t4"]).status, Some(0));
    assert_eq!(ask("batch=8000", &[]).status, Some(0));
    assert_eq!(ask("batch=8000", &["h200"]).status, Some(0));
    let refused = ask("batch=8000", &["h200", "t4"]);
    assert_eq!(refused.status, Some(1));
    assert!(refused.stdout.contains("does not fit"), "the report is printed all the same");
    let message = refused.stderr;
    assert!(message.starts_with("error: does not fit on T4: needs "), "{message}");
    assert!(message.contains("the largest batch that fits is "), "{message}");
    assert!(message.contains("CUDA out of memory. Tried to allocate "), "{message}");
}

#[test]
fn a_plain_file_shows_no_colours() {
    for arguments in [&["operators"][..], &["devices"], &["estimate", &model("train/alexnet")]] {
        assert!(!highwater(arguments).stdout.contains('\x1b'), "{arguments:?}");
    }
}
