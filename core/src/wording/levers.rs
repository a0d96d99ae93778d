//! The smallest change that fits.

use super::Sentence;
use super::answer::with_article;
use crate::device::Verdict;
use crate::report::DeviceVerdict;

/// The sentence above a plan: how many steps it has, and whether the run fits on the device with them. The verdict is
/// that of the run without them.
pub fn plan(steps: usize, fits: bool, verdict: &DeviceVerdict) -> Sentence {
    let device = &verdict.name;
    let english = match (fits, steps) {
        (true, 0) => match verdict.verdict {
            Verdict::LikelyFits => "It likely fits on {device} ({chance} %) without changes.",
            Verdict::FitsAfterFlush => {
                "Without changes it fits on {device} only if PyTorch flushes its cache every step (slow)."
            }
            _ => "It fits on {device} without changes.",
        },
        (true, 1) => "The smallest change that fits on {device}:",
        (true, _) => "The smallest change that fits on {device} has {n} parts:",
        (false, 0) => "No known change lowers the need: it does not fit on {device}.",
        (false, _) => "No change tried makes it fit on {device}. The closest:",
    };
    let chance = verdict.chance.unwrap_or_default();
    Sentence::of(english)
        .with("device", with_article(device))
        .with("n", steps)
        .with("chance", chance)
}

/// How much longer a sample takes with a change, in percent.
pub fn time(percent: i64) -> Sentence {
    let sign = if percent < 0 { "\u{2212}" } else { "+" };
    let english = if percent == 0 { "as fast as now" } else { "{sign}{n} % time for each sample" };
    Sentence::of(english).with("sign", sign).with("n", percent.unsigned_abs())
}

/// How few GPUs are enough for a run, and in which way of sharing it; the verdict is that on each of them.
pub fn fewest(gpus: u64, way: &'static str, verdict: &DeviceVerdict) -> Sentence {
    let english = match (verdict.verdict, gpus) {
        (Verdict::LikelyFits, 1) => "It likely fits on one {gpu} ({chance} %).",
        (Verdict::LikelyFits, _) => "It likely fits on {n} × {gpu}, with {way} ({chance} %).",
        (Verdict::FitsAfterFlush, 1) => {
            "It fits on one {gpu} only if PyTorch flushes its cache every step (slow)."
        }
        (Verdict::FitsAfterFlush, _) => {
            "It fits on {n} × {gpu}, with {way}, only if PyTorch flushes its cache every step (slow)."
        }
        (_, 1) => "It fits on one {gpu}.",
        _ => "It needs {n} × {gpu}, with {way}.",
    };
    Sentence::of(english)
        .with("n", gpus)
        .with("gpu", &*verdict.name)
        .with("way", Sentence::of(way))
        .with("chance", verdict.chance.unwrap_or_default())
}

/// Above no plan: the need is a lower bound or uncertain, and smaller than the device.
pub fn unknown(device: &str) -> Sentence {
    Sentence::of("Not everything could be estimated: the verdict on {device} is unknown.")
        .with("device", with_article(device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use crate::device::Provenance;

    fn on_a_t4(verdict: Verdict) -> DeviceVerdict {
        DeviceVerdict {
            id: "t4".to_owned(),
            name: "T4".to_owned(),
            capacity: Bytes::gib(15),
            need: Bytes::gib(14),
            capacity_from: Provenance::Reported,
            context: Bytes::mib(100),
            context_high: None,
            context_from: Provenance::Fitted,
            other_processes: Bytes::ZERO,
            allowed: None,
            interval: None,
            chance: Some(53),
            verdict,
            out_of_memory: None,
        }
    }

    #[test]
    fn likely_is_not_certain() {
        let cases = [
            (
                Verdict::Fits,
                "It fits on a T4 without changes.",
                "It fits on one T4.",
                "It needs 4 × T4, with FSDP.",
            ),
            (
                Verdict::LikelyFits,
                "It likely fits on a T4 (53 %) without changes.",
                "It likely fits on one T4 (53 %).",
                "It likely fits on 4 × T4, with FSDP (53 %).",
            ),
            (
                Verdict::FitsAfterFlush,
                "Without changes it fits on a T4 only if PyTorch flushes its cache every step (slow).",
                "It fits on one T4 only if PyTorch flushes its cache every step (slow).",
                "It fits on 4 × T4, with FSDP, only if PyTorch flushes its cache every step (slow).",
            ),
        ];
        for (verdict, alone, one, four) in cases {
            let verdict = on_a_t4(verdict);
            assert_eq!(plan(0, true, &verdict).to_string(), alone);
            assert_eq!(fewest(1, "DDP", &verdict).to_string(), one);
            assert_eq!(fewest(4, "FSDP", &verdict).to_string(), four);
        }
    }
}
