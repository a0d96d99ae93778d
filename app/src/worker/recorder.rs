//! Shared by the programs that read recorded runs: they read a file, keep it, and answer questions about it.

use std::cell::RefCell;

use highwater_core::recorded::{Calls, WhatIf};
use highwater_core::report::{DeviceVerdict, Snapshot};
use highwater_core::{Config, Error, Report, Source};
use serde::Serialize;
use wasm_bindgen::JsValue;

use crate::model::protocol::{Ask, Fault, Found, Read};
use crate::worker::load::Opening;

/// A recorded run, as its program keeps it.
pub trait Recording: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// When it is none.
    fn read(source: &mut dyn Source, name: &str, config: &Config) -> Result<Self, Error>;

    /// The answer with the newest configuration.
    fn report(&self) -> Report;

    /// Takes up another configuration, or another reading of the file; if that fails, nothing changes.
    ///
    /// # Errors
    /// When the configuration is none for such a run.
    fn change(&mut self, config: &Config, reading: usize) -> Result<(), Error>;

    /// One moment.
    fn look(&self, event: usize) -> Snapshot;

    /// How it ends with a configuration that names another device.
    ///
    /// # Errors
    /// When there is no such device.
    fn judge(&self, config: &Config) -> Result<DeviceVerdict, Error>;

    /// What it asks of the allocator.
    fn calls(&self) -> &Calls;
}

/// The recorded run that a program keeps.
#[derive(Debug)]
pub struct Keeper<R>(RefCell<Option<R>>);

impl<R: Recording> Keeper<R> {
    /// None yet.
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// Reads an input (a `File` or an `ArrayBuffer`, in a worker) with a packed [`Config`] into a
    /// packed [`Read`]; what was read before stays if that fails.
    pub fn read(&self, input: JsValue, name: &str, config: &[u8]) -> Vec<u8> {
        let config = postcard::from_bytes(config).unwrap_or_default();
        let read = Opening::of(input).read_by(|source| R::read(source, name, &config));
        let read: Read = match read {
            Ok(recording) => {
                let report = Box::new(recording.report());
                self.0.replace(Some(recording));
                Ok(Found { recorded: Some(report), ..Found::default() })
            }
            Err(error) => Err(Fault::of(&error)),
        };
        packed(&read)
    }

    /// Answers a packed [`Ask`]; with nothing, where there is no answer.
    pub fn answer(&self, ask: &[u8]) -> Vec<u8> {
        let mut kept = self.0.borrow_mut();
        let asked = kept.as_mut().zip(postcard::from_bytes(ask).ok());
        let Some((recording, ask)) = asked else { return Vec::new() };
        match ask {
            Ask::Answer(config, reading) => {
                let changed = recording.change(&config, reading);
                packed(&changed.map(|()| recording.report()).map_err(|error| error.to_string()))
            }
            Ask::Look(event) => packed(&recording.look(event)),
            Ask::Judge(mut config, device) => {
                config.device = device;
                recording.judge(&config).map_or_else(|_| Vec::new(), |verdict| packed(&verdict))
            }
            Ask::WhatIf(asked, number) => {
                let calls = recording.calls();
                let what_if = |conf: &String| -> Option<WhatIf> { calls.what_if(conf) };
                let outcome = calls.tried(&asked).get(number).and_then(what_if);
                outcome.map_or_else(Vec::new, |outcome| packed(&outcome))
            }
        }
    }

    /// Lets go of it.
    pub fn forget(&self) {
        self.0.replace(None);
    }
}

impl<R: Recording> Default for Keeper<R> {
    fn default() -> Self {
        Self::new()
    }
}

fn packed<T: Serialize>(answer: &T) -> Vec<u8> {
    postcard::to_stdvec(answer).unwrap_or_default()
}

/// The functions of a program that keeps recorded runs of a type, as `public/worker.js` calls them.
#[macro_export]
macro_rules! keep {
    ($recording:ty) => {
        thread_local! {
            static KEEPER: $crate::Keeper<$recording> = const { $crate::Keeper::new() };
        }

        fn main() {}

        /// [`highwater_app::Keeper::read`].
        #[wasm_bindgen]
        pub fn read(input: JsValue, name: &str, config: &[u8]) -> Vec<u8> {
            KEEPER.with(|keeper| keeper.read(input, name, config))
        }

        /// [`highwater_app::Keeper::answer`].
        #[wasm_bindgen]
        pub fn answer(ask: &[u8]) -> Vec<u8> {
            KEEPER.with(|keeper| keeper.answer(ask))
        }

        /// [`highwater_app::Keeper::forget`].
        #[wasm_bindgen]
        pub fn forget() {
            KEEPER.with($crate::Keeper::forget);
        }
    };
}
