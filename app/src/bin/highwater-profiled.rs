//! Reads traces of `PyTorch`'s profiler from a CPU, and answers questions about the newest one. It is a program of
//! its own, because most visits never drop a trace.

use highwater_app::Recording;
use highwater_core::profiled::{self, History, Profile, Traced};
use highwater_core::recorded::Calls;
use highwater_core::report::{DeviceVerdict, Snapshot};
use highwater_core::{Config, Error, Report, Source};
use wasm_bindgen::prelude::*;

highwater_app::keep!(File);

/// A trace, and what it comes to on one device.
struct File {
    name: String,
    profile: Profile,
    traced: Traced,
    calls: Calls,
}

impl Recording for File {
    fn read(source: &mut dyn Source, name: &str, config: &Config) -> Result<Self, Error> {
        let profile = profiled::open(source)?;
        let traced = Traced::of(&History::of(&profile)?, config, 0)?;
        let calls = traced.calls();
        Ok(Self { name: name.to_owned(), profile, traced, calls })
    }

    fn report(&self) -> Report {
        self.traced.report(&self.name)
    }

    fn change(&mut self, config: &Config, reading: usize) -> Result<(), Error> {
        self.traced = Traced::of(&History::of(&self.profile)?, config, reading)?;
        self.calls = self.traced.calls();
        Ok(())
    }

    fn look(&self, event: usize) -> Snapshot {
        self.traced.look(event)
    }

    fn judge(&self, config: &Config) -> Result<DeviceVerdict, Error> {
        profiled::verdict(&History::of(&self.profile)?, self.traced.rules(), config)
    }

    fn calls(&self) -> &Calls {
        &self.calls
    }
}
