//! Files under `tests/fixtures` at the workspace's root.

use std::path::Path;

/// Contents of a fixture, such as `models/train/alexnet.onnx`.
#[expect(clippy::disallowed_methods, reason = "tests read fixtures; the library reads nothing")]
pub(crate) fn read(path: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    std::fs::read(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
