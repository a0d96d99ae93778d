//! The only access to `highwater_core`: the worker's questions, with answers that can be posted.

use highwater_core::config::{Kind, SETTINGS, Scope};
use highwater_core::order::InOrder as _;
use highwater_core::{Config, device};

use crate::model::protocol::OpenDim;

pub(crate) use highwater_core::Model;
pub(crate) use highwater_core::estimate::{Match, Simulation};
pub(crate) use highwater_core::levers::{Facts, LEVERS, Search, Searched};

/// Ids of all devices, in the order in which the page wants to know about them: what is chosen, what most
/// people ask about, what the user has, the rest. Of those the ones that choose the same kernels stay together, since the run on one of
/// them answers for the others.
pub(crate) fn ids_by_interest(chosen: &str, mine: Option<&str>) -> Vec<String> {
    let mut rest: Vec<&device::Device> = device::all().iter().collect();
    rest.order_by_key(|device| device.compute_capability);
    let first = std::iter::once(chosen).chain(device::USUAL).chain(mine);
    let mut ids: Vec<String> = Vec::new();
    for id in first.chain(rest.into_iter().map(|device| device.id)) {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
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
    dims.order_by_key(|dim| !dim.batch);
    dims
}

/// Settings that an input suggests, with the machine of the page where it suggests none.
pub(crate) fn suggested(by: &Config, page: Config) -> Config {
    let usual = Config::default();
    let mut config = by.clone();
    let of_the_machine = |scope| matches!(scope, Scope::Machine | Scope::Card);
    for setting in SETTINGS.iter().filter(|setting| of_the_machine(setting.scope)) {
        if setting.kind == Kind::Device || setting.is_same(by, &usual) {
            setting.copy(&page, &mut config);
        }
    }
    Config { dims: page.dims, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::derived::Count;
    use crate::model::examples::EXAMPLES;
    use crate::words;
    use highwater_core::estimate::LargestBatch;
    use highwater_core::wording::Reach;

    #[test]
    fn every_example_opens_and_reads_as_a_sentence() {
        for example in EXAMPLES {
            let path = format!("{}/../examples/{}", env!("CARGO_MANIFEST_DIR"), example.file);
            let bytes = std::fs::read(&path).expect("the example is there");
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
            let largest = Reach::Found(LargestBatch {
                likely: Some(6),
                without_flush: Some(7),
                chance: 56,
                with_flush: Some(7),
            });
            let headline =
                words::headline(&report, Count { all: 2, known: 2, survive: 2, fail: 0 }, largest);
            assert!(
                headline.lead.contains(" fits on an A100 80 GB: it needs "),
                "{}",
                headline.lead
            );
            assert!(headline.rest.contains("\u{a0}% of the peak. "), "{}", headline.rest);
        }
    }
}
