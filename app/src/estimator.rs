//! The one door to `highwater_core`: what the worker may ask of it, in values that can be posted.

use highwater_core::config::MachineField;
use highwater_core::sorted;
use highwater_core::{Config, Error, Source, device, formats};
use serde::{Deserialize, Serialize};

pub(crate) use highwater_core::Model;
pub(crate) use highwater_core::estimate::{Match, Simulation};
use highwater_core::formats::Opened;
pub(crate) use highwater_core::levers::{Facts, LEVERS, Pulled, Search, Searched};

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
    /// Memory as the vendor sells it.
    pub(crate) nameplate: String,
}

/// Every device.
pub(crate) fn devices() -> Vec<Device> {
    let device = |known: &device::Device| Device {
        id: known.id.to_owned(),
        name: known.name.to_owned(),
        nameplate: known.nameplate.to_owned(),
    };
    device::all().iter().map(device).collect()
}

/// Reads the structure of an ONNX file; nothing where the input is something else.
pub(crate) fn open_onnx(source: &mut dyn Source, name: &str) -> Result<Option<Opened>, Error> {
    formats::open_onnx(source, name)
}

/// Reads ONNX that was text.
pub(crate) fn open_written(bytes: &[u8]) -> Result<Opened, Error> {
    formats::open_written(bytes)
}

/// Dimensions that the file leaves open, the batch first.
pub(crate) fn open_dims(model: &Model) -> Vec<OpenDim> {
    let mut dims: Vec<_> = model
        .open_dims()
        .into_iter()
        .map(|dim| OpenDim {
            name: dim.name,
            default: dim.default,
            batch: dim.batch,
            inputs: dim.inputs,
        })
        .collect();
    sorted::by_key(&mut dims, |dim| !dim.batch);
    dims
}

/// Settings that an input suggests, with the machine of the page where it suggests none.
pub(crate) fn suggested(by: &Config, page: Config) -> Config {
    let usual = Config::default();
    let mut config = by.clone();
    for field in MachineField::ALL {
        if *field == MachineField::Device || field.same(by, &usual) {
            field.copy(&page, &mut config);
        }
    }
    Config { dims: page.dims, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::EXAMPLES;
    use crate::text::{self, Count};
    use highwater_core::estimate::LargestBatch;

    #[test]
    fn every_example_opens_and_reads_as_a_sentence() {
        for example in EXAMPLES {
            let path = format!("{}/../public/{}", env!("CARGO_MANIFEST_DIR"), example.path);
            let bytes = std::fs::read(&path).expect("the example travels with the page");
            let model =
                highwater_core::open(&mut bytes.as_slice(), example.file).expect("it opens");
            let dims = open_dims(&model);
            assert!(dims.first().is_some_and(|dim| dim.batch), "{}: {dims:?}", example.file);
            let report = model
                .estimate(&Config { dims: example.dims(), ..Config::default() })
                .expect("it is estimated");
            let report: highwater_core::Report =
                postcard::from_bytes(&postcard::to_stdvec(&report).expect("it packs"))
                    .expect("it unpacks");
            let largest = Some(LargestBatch { without_flush: Some(7), with_flush: Some(7) });
            let headline = text::headline(&report, Count { all: 2, known: 2, survive: 2 }, largest);
            assert!(headline.lead.starts_with("Peaks at "), "{}", headline.lead);
            assert!(headline.rest.contains(" is activations."), "{}", headline.rest);
        }
    }
}
