//! The smallest change that fits.

use super::Sentence;
use super::answer::with_article;

/// The sentence above a plan: how many steps it has, and whether the run fits on the device with them.
pub fn plan(steps: usize, fits: bool, device: &str) -> Sentence {
    let english = match (fits, steps) {
        (true, 0) => "It fits on {device} without changes.",
        (true, 1) => "The smallest change that fits on {device}:",
        (true, _) => "The smallest change that fits on {device} has {n} parts:",
        (false, 0) => "No known change lowers the need: it does not fit on {device}.",
        (false, _) => "No change tried makes it fit on {device}. The closest:",
    };
    Sentence::of(english).with("device", with_article(device)).with("n", steps)
}

/// Above no plan: the need is a lower bound or uncertain, and smaller than the device.
pub fn unknown(device: &str) -> Sentence {
    Sentence::of("Not everything could be estimated: the verdict on {device} is unknown.")
        .with("device", with_article(device))
}
