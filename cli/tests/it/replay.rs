//! `highwater replay`, and the snapshots that `estimate` writes.

use std::io::Read as _;

use expect_test::expect_file;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::run::{file, highwater, model};

/// A snapshot that PyTorch recorded, unpacked.
fn recorded(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/snapshots");
    let packed = std::fs::File::open(format!("{folder}/{name}.pickle.gz")).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    file(&format!("{name}.pickle"), &bytes).to_string_lossy().into_owned()
}
