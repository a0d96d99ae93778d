//! The answer for an example with the settings that it opens with: it travels with the page, which needs no worker for
//! it.

use highwater_core::Bytes;
use highwater_core::report::{DeviceVerdict, Timeline};
use highwater_core::trace::Category;
use serde::{Deserialize, Serialize};

use crate::model::protocol::{Estimate, OpenDim};

/// What the worker says of an example.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    /// Dimensions that it leaves open.
    pub(crate) dims: Vec<OpenDim>,
    /// The estimate, with the largest batch on every device.
    pub(crate) estimate: Estimate,
    /// How it ends on every device.
    pub(crate) verdicts: Vec<DeviceVerdict>,
}

impl Known {
    /// An answer that has travelled, as it was.
    pub(crate) fn unpacked(bytes: &[u8]) -> Option<Self> {
        let mut known: Self = postcard::from_bytes(bytes).ok()?;
        follow(&mut known.estimate.report.timeline, |last, difference| {
            let size = difference >> 1;
            let value =
                if difference & 1 == 0 { last.wrapping_add(size) } else { last.wrapping_sub(size) };
            (value, value)
        });
        Some(known)
    }

    /// The answer as it travels.
    #[cfg(test)]
    pub(crate) fn packed(mut self) -> Vec<u8> {
        follow(&mut self.estimate.report.timeline, |last, value| {
            (value.abs_diff(last) * 2 + u64::from(value < last), value)
        });
        postcard::to_stdvec(&self).expect("it packs")
    }
}

/// What follows the last value: what stands for it, and the value itself.
type Step = fn(u64, u64) -> (u64, u64);

/// Numbers along the timeline travel as differences: iterations repeat them, and gzip finds what is repeated.
fn follow(timeline: &mut Timeline, step: Step) {
    counts(&mut timeline.event, step);
    counts(&mut timeline.operator, step);
    counts(&mut timeline.module, step);
    sizes(timeline.allocated.iter_mut(), step);
    sizes(timeline.reserved.iter_mut(), step);
    for category in Category::ALL {
        sizes(timeline.categories.iter_mut().map(|sample| sample.get_mut(category)), step);
    }
    let owners = timeline.owners.iter_mut();
    for owner in owners.chain(timeline.depths.iter_mut().map(|depth| &mut depth.owner)) {
        counts(&mut owner.from, step);
        sizes(owner.bytes.iter_mut(), step);
    }
}

fn counts(values: &mut [usize], step: Step) {
    let mut last = 0;
    for value in values {
        let (stands, next) = step(last, u64::try_from(*value).unwrap_or_default());
        *value = usize::try_from(stands).unwrap_or_default();
        last = next;
    }
}

fn sizes<'a>(values: impl Iterator<Item = &'a mut Bytes>, step: Step) {
    let mut last = 0;
    for value in values {
        (value.0, last) = step(last, value.0);
    }
}
