//! Asks other estimators about a run. It is a program of its own, because most visits never ask them.

use highwater_app::{Others, Said};
use highwater_core::device;
use highwater_core::estimators::{ALL, Estimator, Evidence, Measured, Run};
use wasm_bindgen::prelude::*;

fn main() {}

/// What all say of a packed [`Run`], as packed [`Others`].
#[wasm_bindgen]
pub fn compare(packed: &[u8]) -> Vec<u8> {
    highwater_app::serve_files();
    let Ok(run) = postcard::from_bytes::<Run<'_>>(packed) else { return Vec::new() };
    let evidence = Evidence::of(&run);
    let rows = ALL.iter().map(|estimator| said(*estimator, &evidence)).collect();
    let measured = Measured::of(&evidence);
    let measured = measured.into_iter().map(|run| {
        let name = device::find(run.device).map_or(run.device, |device| device.name);
        (run.process, name.to_owned(), run.source.to_owned())
    });
    let others = Others { rows, allocated: run.allocated(), measured: measured.collect() };
    postcard::to_stdvec(&others).unwrap_or_default()
}

fn said(estimator: &dyn Estimator, evidence: &Evidence<'_>) -> Said {
    let about = estimator.about();
    Said {
        id: about.id.to_owned(),
        name: about.name.to_owned(),
        source: about.source.to_owned(),
        needs: about.needs.name().to_owned(),
        means: about.means,
        counts: about.counts.to_owned(),
        leaves_out: about.leaves_out.to_owned(),
        answer: estimator.estimate(evidence).map_err(str::to_owned),
    }
}
