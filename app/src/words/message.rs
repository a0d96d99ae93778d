//! Where in the step a message's allocation is, and the parts of the GPU's memory, in words.

use std::fmt::Display;

use super::names::{place, sentence, with_article};
use crate::model::explained::Held;
use crate::model::protocol::{Finding, Spot};
use crate::words::format;
use crate::words::language::{fill, tr};

/// Who holds a part of a card.
pub(crate) fn held(held: Held) -> String {
    tr(match held {
        Held::Allocated => "tensors",
        Held::Unallocated => "cached by PyTorch",
        Held::Context => "CUDA context",
        Held::Others => "other processes",
        Held::Unknown => "not accounted for",
        Held::Free => "free",
    })
}

/// What that means, for those who ask.
pub(crate) fn held_meaning(held: Held) -> String {
    tr(match held {
        Held::Allocated => "Allocated in PyTorch's terms: blocks in use by tensors",
        Held::Unallocated => "Reserved but unused: holes between blocks in use",
        Held::Context => "CUDA, its libraries and kernels in this process",
        Held::Others => "Memory in use by other processes on this GPU",
        Held::Unknown => "The message does not name the owner",
        Held::Free => "Memory that the driver could still provide",
    })
}

/// Where the allocation is, as far as that is known.
pub(crate) fn lead(finding: Option<&Finding>) -> String {
    match finding {
        None => tr("Looking for it in this step…"),
        Some(Finding { place: Some(spot), .. }) => at(spot),
        Some(finding) if finding.is_searching => tr("Not with this batch; trying others…"),
        Some(_) => tr("This step has no such allocation at that moment."),
    }
}

/// How that is known, or what it means that it was not found; `fits_on` names the device that the run
/// fits on here.
pub(crate) fn detail(finding: Option<&Finding>, fits_on: Option<&str>) -> String {
    let Some(finding) = finding else { return String::new() };
    let Some(spot) = &finding.place else {
        if finding.is_searching {
            return String::new();
        }
        return fill(
            "At most {size} is allocated here: the run had another batch, other settings or \
             another model.",
            &[("size", &finding.peak)],
        );
    };
    let why = tr(&sentence(&spot.why));
    match fits_on.filter(|_| !spot.is_certain) {
        None => why,
        Some(device) => fill(
            "{why} But here the run fits on {gpu}: its batch, its settings or the model differ.",
            &[("why", &why), ("gpu", &with_article(device))],
        ),
    }
}

/// That another batch fits the message.
pub(crate) fn other_batch(batch: u64, spot: &Spot) -> String {
    let place = place(spot.phase, &spot.module, &spot.operator);
    let batch = format::grouped(batch);
    fill("With a batch of {batch} it would fail {place}.", &[("batch", &batch), ("place", &place)])
}

/// `In forward of bn1 (aten::batch_norm), iteration 2: 392.00 MiB for float32[…], with 14.02 GiB allocated.`
fn at(spot: &Spot) -> String {
    let mut there = place(spot.phase, &spot.module, &spot.operator);
    if !spot.operator.is_empty() && !spot.module.is_empty() {
        there = [&*there, " (", &spot.operator, ")"].concat();
    }
    let iterations: Vec<_> = spot.iterations.iter().map(ToString::to_string).collect();
    let n = iterations.join(", ");
    let parts: [(&str, &dyn Display); 2] = [("place", &there), ("n", &n)];
    let there = match spot.iterations.as_slice() {
        [] | [0] => there,
        [_] => fill("{place}, iteration {n}", &parts),
        _ => fill("{place}, iterations {n}", &parts),
    };
    let tensor = spot.tensor.as_deref().unwrap_or_default();
    let parts: [(&str, &dyn Display); 4] = [
        ("place", &there),
        ("size", &spot.requested),
        ("tensor", &tensor),
        ("allocated", &spot.allocated),
    ];
    sentence(&match (spot.is_certain, spot.tensor.is_some()) {
        (true, true) => fill("{place}: {size} for {tensor}, with {allocated} allocated.", &parts),
        (true, false) => fill("{place}: {size} of workspace, with {allocated} allocated.", &parts),
        (false, true) => {
            fill("Likely {place}: {size} for {tensor}, with {allocated} allocated.", &parts)
        }
        (false, false) => {
            fill("Likely {place}: {size} of workspace, with {allocated} allocated.", &parts)
        }
    })
}

#[cfg(test)]
mod tests {
    use highwater_core::Bytes;
    use highwater_core::trace::Phase;

    use super::*;

    #[test]
    fn a_place_is_a_sentence() {
        let spot = Spot {
            phase: Phase::Forward,
            operator: "aten::relu".to_owned(),
            module: "relu1".to_owned(),
            iterations: vec![1, 2],
            tensor: None,
            requested: Bytes::mib(392),
            allocated: Bytes::mib(98),
            event: 7,
            is_certain: false,
            why: "the same size".to_owned(),
        };
        let finding = Finding { place: Some(spot), ..Finding::default() };
        assert_eq!(
            lead(Some(&finding)),
            "Likely in the forward pass of relu1 (aten::relu), iterations 1, 2: 392.00\u{a0}MiB of workspace, with \
             98.00\u{a0}MiB allocated."
        );
        assert_eq!(
            detail(Some(&finding), Some("A100")),
            "The same size. But here the run fits on an A100: its batch, its settings or the model \
             differ."
        );
        assert_eq!(lead(None), "Looking for it in this step…");
    }
}
