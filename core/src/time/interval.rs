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
        // What exchanges add is not measured here, either.
        let exposed = self.network.exposed.0;
        let all = self.all.device.0.saturating_add(exposed).max(1) as f64;
        let share = (self.unfitted.device.0.saturating_add(exposed) as f64 / all).min(1.0);
        let factor = 1.0 + constants.interval + constants.interval_unfitted * share;
        let step = self.step().0 as f64 / PER_MICROSECOND;
        // No step is shorter than the loader takes for its samples.
        let least = Picoseconds::of(step / factor).max(self.loader);
        (least, Picoseconds::of(step * factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Part;

    /// Kernels that are not fitted widen the interval, to both sides.
    #[test]
    fn what_is_not_fitted_widens_the_interval() {
        let part = |device| Part { device: Picoseconds(device), ..Part::default() };
        let all = part(1_000_000_000);
        let of = |unfitted| StepTime { all, unfitted: part(unfitted), ..StepTime::default() };
        let [(least, most), (less, more)] = [0, 1_000_000_000].map(|one| of(one).interval());
        assert!(less < least && least < all.device && all.device < most && most < more);
        assert_eq!(StepTime::default().interval(), Default::default());
    }
}
