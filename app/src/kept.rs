//! Short texts that the browser keeps for the next visit.

use web_sys::Storage;

/// What is kept under a name.
pub(crate) fn kept(name: &str) -> Option<String> {
    storage()?.get_item(name).ok()?
}

/// Keeps a text under a name; a browser that refuses storage just forgets it.
pub(crate) fn keep(name: &str, text: &str) {
    if let Some(storage) = storage() {
        drop(storage.set_item(name, text));
    }
}

fn storage() -> Option<Storage> {
    web_sys::window()?.local_storage().ok()?
}
