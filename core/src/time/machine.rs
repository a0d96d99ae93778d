//! A GPU and the host that launches for it, with the constants of both.

use super::constants::Constants;
use super::host::Host;
use super::model::{Model, Time};
use super::{Bound, Gpu, Picoseconds, Use, network};
use crate::eager::exchange::Collective;
use crate::eager::launch::{Kernel, Launch};
use crate::tensor::DType;

/// What runs the kernels of a step.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    gpu: Gpu,
    constants: Constants,
    pub(super) model: Model,
    pub(super) host: Host,
    launched: Launched,
}

/// How kernels come to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Launched {
    /// Python launches one after another, as PyTorch without compilation does.
    #[default]
    ByPython,
    /// They are in a CUDA graph, as in servers: the host launches all of them at once, and none waits to start.
    InGraph,
}

impl Launched {
    /// The name in JSON: `python`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByPython => "python",
            Self::InGraph => "cuda_graph",
        }
    }
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
        Self { gpu, constants, model, host, launched: Launched::ByPython }
    }

    /// The same for a pass that reads each weight once: no weight is still in L2 from the pass before, because others
    /// were read since.
    #[must_use]
    pub(super) const fn of_passes(self, launched: Launched) -> Self {
        Self { model: self.model.with_cold_weights(), launched, ..self }
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
        match launch.kernel {
            Kernel::Collective(collective) => return self.exchange(launch, &collective),
            Kernel::Wait(_) => {
                let time = Time { us: 0.0, bound: Bound::Network, is_fitted: true };
                let (on_device, on_host) = Default::default();
                return Ran { time, uses: Use::NONE, on_device, on_host };
            }
            _ => {}
        }
        let (time, uses) = (self.model.time(launch), self.uses(&launch.kernel, launch.dtype));
        if self.launched == Launched::InGraph {
            // The gap and the shortest time were fitted to kernels that the host starts one by one.
            let time = self.model.work(launch.kernel, launch.dtype);
            let time = Time { us: time.us.max(uses.moving_us), ..time };
            let on_device = Picoseconds::of(time.us).times(launch.times);
            return Ran { time, uses, on_device, on_host: Picoseconds::default() };
        }
        let time = Time { us: self.host.at_least(time.us, &uses), ..time };
        let of = |us| Picoseconds::of(us).times(launch.times);
        // The host that was measured is fast.
        let host = self.host.microseconds(launch) * self.constants.host_typical;
        Ran { time, uses, on_device: of(time.us), on_host: of(host) }
    }

    /// Runs an exchange with other ranks.
    #[expect(clippy::float_arithmetic, reason = "times are estimates in floats")]
    fn exchange(&self, launch: &Launch, collective: &Collective) -> Ran {
        let time = network::time(collective, &self.gpu.rates, &self.constants);
        let host = self.host.microseconds(launch) * self.constants.host_typical;
        let of = |us| Picoseconds::of(us).times(launch.times);
        Ran { time, uses: Use::NONE, on_device: of(time.us), on_host: of(host) }
    }
}
