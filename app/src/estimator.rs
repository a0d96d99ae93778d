//! The one door to `highwater_core`: what the worker may ask of it.

mod stand_in;

use highwater_core::report::DeviceVerdict;
use highwater_core::{Config, Error, Report, Source};
use serde::{Deserialize, Serialize};

/// A dimension that the file leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenDim {
    /// Its name in the file.
    pub(crate) name: String,
    /// What it is when nobody says otherwise.
    pub(crate) default: u64,
    /// Whether it counts samples.
    pub(crate) batch: bool,
    /// Inputs of the model that have it.
    pub(crate) inputs: Vec<String>,
}

/// A device that verdicts can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    /// Stable id.
    pub(crate) id: String,
    /// Name for people.
    pub(crate) name: String,
}

/// Every device.
pub(crate) fn devices() -> Vec<Device> {
    stand_in::devices()
}

/// Reads the structure of a model.
pub(crate) fn open(source: &mut dyn Source, name: &str) -> Result<Model, Error> {
    stand_in::open(source, name)
}

/// An open model.
pub(crate) struct Model {
    stand_in: stand_in::Net,
}

impl Model {
    /// Dimensions that the file leaves open, the batch first.
    pub(crate) fn open_dims(&self) -> Vec<OpenDim> {
        self.stand_in.open_dims()
    }

    /// The whole answer for one configuration.
    pub(crate) fn estimate(&self, config: &Config) -> Result<Report, Error> {
        Ok(self.stand_in.estimate(config))
    }

    /// How the run ends on a device.
    pub(crate) fn verdict(&self, config: &Config, device: &str) -> Result<DeviceVerdict, Error> {
        Ok(self.stand_in.verdict(config, device))
    }

    /// The largest batch that survives on a device; `None` if not even one sample does.
    pub(crate) fn largest_batch(
        &self,
        config: &Config,
        device: &str,
    ) -> Result<Option<u64>, Error> {
        Ok(self.stand_in.largest_batch(config, device))
    }
}
