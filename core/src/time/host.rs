//! The time that the host takes for a step: Python, PyTorch's dispatcher, autograd and the driver.
//!
//! `tests/times/utilisation.py` fits the constants to training steps of small perceptrons, whose device mostly waits
//! for the host. They are those of one machine; another may be twice as fast. What a loop does besides, such as
//! printing, is not counted.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "times are estimates in floats; no sum of bytes is"
)]

use super::Use;
use crate::decimal;
use crate::eager::launch::{Kernel, Launch};
use crate::trace::Phase;

/// Name, value, and in comments the meaning and the unit of each.
const TEXT: &str = include_str!("fitted/host.toml");

/// The constants by name; [`TEXT`] has their meaning and unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Host {
    pub(super) forward_operator: f64,
    pub(super) backward_operator: f64,
    pub(super) list_tensor: f64,
    pub(super) shortest_kernel: f64,
    pub(super) linger: f64,
}

impl Host {
    /// All of them.
    pub(super) fn read() -> Self {
        let mut all = Self::default();
        for (name, value) in TEXT.lines().filter_map(|line| line.split_once(" = ")) {
            let place = match name {
                "forward_operator" => &mut all.forward_operator,
                "backward_operator" => &mut all.backward_operator,
                "list_tensor" => &mut all.list_tensor,
                "shortest_kernel" => &mut all.shortest_kernel,
                "linger" => &mut all.linger,
                _ => continue,
            };
            *place = decimal::prefix(value).unwrap_or_default();
        }
        all
    }

    /// The time of kernels on the device: each takes the shortest time at least, and few multiprocessors move its
    /// bytes slowly.
    pub(super) fn at_least(&self, us: f64, uses: &Use) -> f64 {
        us.max(self.shortest_kernel * uses.kernels as f64).max(uses.moving_us)
    }

    /// Microseconds until the host has launched it.
    ///
    /// Of what an optimizer does, most is work in Python for each parameter, so an operator over lists counts by its
    /// tensors.
    pub(super) fn microseconds(&self, launch: &Launch) -> f64 {
        match (launch.kernel, launch.phase) {
            (Kernel::Foreach { tensors, .. }, _) => {
                self.backward_operator.max(self.list_tensor * tensors as f64)
            }
            (_, Phase::Forward) => self.forward_operator,
            _ => self.backward_operator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text has exactly the constants that the model uses.
    #[test]
    fn every_constant_is_written() {
        let host = Host::read();
        let all = [
            host.forward_operator,
            host.backward_operator,
            host.list_tensor,
            host.shortest_kernel,
            host.linger,
        ];
        assert!(all.iter().all(|value| *value > 0.0), "{host:?}");
        assert_eq!(TEXT.lines().filter(|line| line.contains(" = ")).count(), all.len());
    }
}
