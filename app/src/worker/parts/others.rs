//! Asks other estimators about a run.

use highwater_core::estimate::{Simulation, Stages};
use highwater_core::estimators::{ALL, Estimator, Evidence, Measured, Run};
use highwater_core::{Model, device};
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use crate::model::protocol::{Others, Said};

/// A model, its run, and what was computed of it → what others estimate.
pub(crate) type Ask = fn(&Model, &Simulation, &mut Stages) -> Others;

/// What asks all of them.
///
/// # Errors
/// It did not arrive.
#[wasm_split(compare, fallible)]
pub(crate) fn estimators() -> Result<Ask, SplitLoaderError> {
    Ok(ask)
}

fn ask(model: &Model, simulation: &Simulation, stages: &mut Stages) -> Others {
    let Ok(run) = Run::of(model, simulation, stages) else { return Others::default() };
    let evidence = Evidence::of(&run);
    let rows = ALL.iter().map(|estimator| said(*estimator, &evidence)).collect();
    let measured = Measured::of(&evidence);
    let measured = measured.into_iter().map(|run| {
        let name = device::find(run.device).map_or(run.device, |device| device.name);
        (run.process, name.to_owned(), run.source.to_owned())
    });
    Others { rows, allocated: run.allocated(), measured: measured.collect() }
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
