//! How far a step's time may be off.

use super::constants::Constants;
use super::{Picoseconds, StepTime};

impl StepTime {
    /// The least and the most that the step takes, for nine of ten steps that nothing was fitted to.
    ///
    /// The factor grows with the part of the time by kernels whose formula no measurement confirms. The data loader
    /// and other GPUs are not part of it.
    #[expect(
        clippy::float_arithmetic,
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "a time, not bytes"
    )]
    pub fn interval(&self) -> (Picoseconds, Picoseconds) {
        const PER_MICROSECOND: f64 = 1e6;
        let constants = Constants::read();
        let all = self.all.device.0.max(1) as f64;
        let share = (self.unfitted.device.0 as f64 / all).min(1.0);
        let factor = 1.0 + constants.interval + constants.interval_unfitted * share;
        let step = self.step().0 as f64 / PER_MICROSECOND;
        (Picoseconds::of(step / factor), Picoseconds::of(step * factor))
    }
}
