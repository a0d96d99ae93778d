//! The kernels of a step one by one, for whoever replays them next to those of other jobs.

use super::machine::Machine;
use super::{Gpu, Picoseconds};
use crate::eager::Launches;
use crate::eager::launch::Kernel;

/// A kernel of a step: how long it runs alone, and how long the host takes to launch it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Time on the device.
    pub device: Picoseconds,
    /// Time of the host.
    pub host: Picoseconds,
    /// COUNT: thousandths of the multiprocessors that have a block of it.
    pub share: u32,
}

/// COUNT: kernels of a step beyond which later ones are left out, so that memory stays bounded.
const MOST: usize = 1 << 20;

impl Run {
    /// The kernels of a steady step on a GPU, in the order of their launches. Exchanges with other ranks and waits for
    /// them are not among them.
    pub fn of_step(launches: &Launches, gpu: Gpu) -> Vec<Self> {
        let machine = Machine::of(gpu);
        let mut runs = Vec::new();
        for launch in launches.of_steady() {
            if matches!(launch.kernel, Kernel::Collective(_) | Kernel::Wait(_)) {
                continue;
            }
            let ran = machine.run(launch);
            let times = launch.times.max(1).saturating_mul(ran.uses.kernels.max(1));
            let of = |Picoseconds(all)| Picoseconds(all.div_euclid(times));
            let run = Self {
                device: of(ran.on_device),
                host: of(ran.on_host),
                share: per_mille(ran.uses.share),
            };
            let left = MOST.saturating_sub(runs.len());
            let times = usize::try_from(times).unwrap_or(usize::MAX).min(left);
            runs.extend(std::iter::repeat_n(run, times));
        }
        runs
    }
}

#[expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share, not bytes; it is between 0 and 1"
)]
fn per_mille(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 1000.0) as u32
}
