//! How a program for the browser has its files.

use std::sync::OnceLock;

/// How a file is read: its bytes, by its name.
pub type Loader = fn(&str) -> Option<Vec<u8>>;

static LOADER: OnceLock<Loader> = OnceLock::new();

/// Sets how files are read that a program does not carry: the function gets a file's name.
pub fn set_loader(load: Loader) {
    // A second one would be the same.
    let _is_first = LOADER.set(load).is_ok();
}

/// A file's bytes, which stay; `None` where it cannot be had.
pub fn bytes(file: &str) -> Option<&'static [u8]> {
    LOADER.get().and_then(|load| load(file)).map(|bytes| &*bytes.leak())
}
