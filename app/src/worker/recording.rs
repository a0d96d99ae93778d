//! A recorded run that is open in place of a model.

use highwater_core::recorded::{Calls, WhatIf};
use highwater_core::report::{DeviceVerdict, Snapshot};
use highwater_core::{Config, Error, Report};

/// A recorded run, as the part of the program that read it keeps it.
pub(crate) trait Recording {
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

    /// What it reserves under one of the settings that are tried, `asked` among them, by its number.
    fn what_if(&self, asked: &str, number: usize) -> Option<WhatIf> {
        let calls = self.calls();
        let tried = calls.tried(asked);
        calls.what_if(tried.get(number)?)
    }
}
