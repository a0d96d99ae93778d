//! Files next to the programs for the browser: what a run needs now and then, and what would make a program too
//! heavy for a first visit. Native programs carry all of it.

#[cfg(target_arch = "wasm32")]
mod loader;

#[cfg(target_arch = "wasm32")]
pub use loader::bytes;
#[cfg(target_arch = "wasm32")]
pub use loader::{Loader, set_loader};

/// Declares a function for the text of `FETCHED` in `highwater-pack` with a stem: native programs carry it, programs
/// for the browser fetch it. It is `None` where it cannot be had.
#[macro_export]
macro_rules! text {
    ($name:ident, $stem:literal) => {
        #[cfg(not(target_arch = "wasm32"))]
        const fn $name() -> Option<&'static str> {
            Some(include_str!(concat!(env!("OUT_DIR"), "/", $stem, ".txt")))
        }

        #[cfg(target_arch = "wasm32")]
        fn $name() -> Option<&'static str> {
            static TEXT: std::sync::OnceLock<&str> = std::sync::OnceLock::new();
            TEXT.get().copied().or_else(|| {
                let file = include_str!(concat!(env!("OUT_DIR"), "/", $stem, ".file"));
                let text = str::from_utf8($crate::apart::bytes(file)?).ok()?;
                Some(*TEXT.get_or_init(|| text))
            })
        }
    };
}

pub use text;
