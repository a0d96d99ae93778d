//! Files under `tests/fixtures` at the workspace's root.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// Contents of a fixture, such as `models/train/alexnet.onnx`.
#[expect(clippy::disallowed_methods, reason = "tests read fixtures; the library reads nothing")]
pub(crate) fn read(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Contents of a fixture that is packed with gzip; `None` if there is no such file.
pub(crate) fn unpack(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path(name)).ok()?;
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(bytes)
}

/// The files of a folder, by their names below the fixtures, in order.
pub(crate) fn names(folder: &str) -> Vec<String> {
    let entries = path(folder).read_dir().unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    let mut names: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    names.sort();
    names
}

/// Contents of a fixture, unpacked where its name ends in `.gz`.
pub(crate) fn unpack_or_read(name: &str) -> Vec<u8> {
    let is_packed = Path::new(name).extension().is_some_and(|ending| ending == "gz");
    if is_packed { unpack(name).unwrap_or_else(|| panic!("{name} is missing")) } else { read(name) }
}
