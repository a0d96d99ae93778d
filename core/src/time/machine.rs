//! A GPU and the host that launches for it, with the constants of both.

use super::constants::Constants;
use super::host::Host;
use super::model::{Model, Time};
use super::{Gpu, Picoseconds, Use};
use crate::eager::launch::{Kernel, Launch};
use crate::tensor::DType;

/// What runs the kernels of a step.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    gpu: Gpu,
    constants: Constants,
    pub(super) model: Model,
    pub(super) host: Host,
}

/// A launch there, as often as it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    /// A single run on the device.
    pub(super) time: Time,
    /// What it uses of the GPU.
    pub(super) uses: Use,
    pub(super) on_device: Picoseconds,
    pub(super) on_host: Picoseconds,
}

impl Machine {
    /// A GPU with the host that was measured.
    pub fn of(gpu: Gpu) -> Self {
        let (constants, model, host) = (Constants::read(), Model::new(gpu), Host::read());
        Self { gpu, constants, model, host }
    }

    /// Microseconds that a launch takes on the device by the formula of its kind, before any shortest time of kernels.
    pub fn microseconds(&self, launch: &Launch) -> f64 {
        self.model.time(launch).us
    }

    /// Microseconds that the host which was measured takes to launch it.
    pub fn host_microseconds(&self, launch: &Launch) -> f64 {
        self.host.microseconds(launch)
    }

    /// What a kernel of elements of this type uses.
    pub fn uses(&self, kernel: &Kernel, dtype: DType) -> Use {
        Use::of(kernel, dtype, self.gpu, &self.constants)
    }

    /// Runs a launch.
    #[expect(
        clippy::float_arithmetic,
        reason = "times are estimates in floats; no sum of bytes is"
    )]
    pub(super) fn run(&self, launch: &Launch) -> Ran {
        let (time, uses) = (self.model.time(launch), self.uses(&launch.kernel, launch.dtype));
        let time = Time { us: self.host.at_least(time.us, &uses), ..time };
        let of = |us| Picoseconds::of(us).times(launch.times);
        // The host that was measured is fast.
        let host = self.host.microseconds(launch) * self.constants.host_typical;
        Ran { time, uses, on_device: of(time.us), on_host: of(host) }
    }
}
