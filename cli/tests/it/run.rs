//! Runs the program.

use std::path::PathBuf;
use std::process::Command;

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program with these arguments.
pub(crate) fn highwater(arguments: &[&str]) -> Outcome {
    let program = env!("CARGO_BIN_EXE_highwater");
    let output = Command::new(program).args(arguments).output().unwrap();
    Outcome {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Path of a model under `tests/fixtures/models`.
pub(crate) fn model(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/models");
    format!("{root}/{name}.onnx")
}

/// Writes a file of the test's own.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Contents of a model under `tests/fixtures/models`.
#[expect(clippy::disallowed_methods, reason = "a test's model is small")]
pub(crate) fn contents(name: &str) -> Vec<u8> {
    std::fs::read(model(name)).unwrap()
}
