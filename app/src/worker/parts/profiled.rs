//! Reads traces of `PyTorch`'s profiler from a CPU, and answers questions about one.

use highwater_core::profiled::{self, History, Profile, Traced};
use highwater_core::recorded::Calls;
use highwater_core::report::{DeviceVerdict, Snapshot};
use highwater_core::{Config, Error, Report};
use wasm_split_helpers::wasm_split;

use crate::model::protocol::Fault;
use crate::worker::load::{Found, Opening};
use crate::worker::recording::Recording;

/// Reads a trace.
///
/// # Errors
/// It is none, or what reads traces did not arrive.
#[wasm_split(profiled, fallible)]
pub(crate) fn read(mut input: Opening, name: String, config: Config) -> Result<Found, Fault> {
    let file = input.read_by(|source| {
        let profile = profiled::open(source)?;
        let traced = Traced::of(&History::of(&profile)?, &config, 0)?;
        let calls = traced.calls();
        Ok(File { name, profile, traced, calls })
    });
    Ok(Found::recording(file.map_err(|error: Error| Fault::of(&error))?))
}

/// A trace, and what it comes to on one device.
struct File {
    name: String,
    profile: Profile,
    traced: Traced,
    calls: Calls,
}

impl Recording for File {
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
