//! How long a training step takes: the time of each kernel, by a model that was fitted to measured kernels.
//!
//! `tests/times` fits the constants and judges the model on whole steps in single precision: half of them are within
//! 5 %. Half precision, convolutions and batch norm have constants fitted to whole steps of networks on consumer GPUs.
//! On other GPUs they use the vendor's rates, which only published steps confirm. [`StepTime::unfitted`] has the share
//! of these, and of kernels for groups of channels and for optimizers.
//!
//! The host launches kernels while the device runs earlier ones, and a data loader works ahead of both, so a step takes
//! the longest of these times.

mod clock;
mod constants;
mod generation;
mod host;
mod interval;
mod machine;
mod model;
mod network;
mod runs;
mod timing;
mod utilisation;

use std::collections::BTreeMap;
use std::fmt;

use crate::bytes::Bytes;
use crate::config::Tf32;
use crate::device::{Device, Rates};
use crate::eager::Launches;
use crate::eager::launch::{Class, Kernel, Launch};
use crate::error::{Error, ErrorKind};
use crate::trace::{LabelId, Phase};

pub use self::clock::Clock;
pub use self::generation::{Generation, Paced};
use self::machine::Ran;
pub use self::machine::{Launched, Machine};
use self::model::Time;
pub use self::network::Network;
use self::network::Overlap;
pub use self::runs::Run;
pub use self::timing::{Timing, rate};
pub use self::utilisation::{Busy, Share, Use, Utilisation};

/// The facts about a GPU that decide over times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// COUNT: multiprocessors.
    pub multiprocessors: u64,
    /// COUNT: threads that can be resident on one multiprocessor.
    pub threads_per_multiprocessor: u64,
    /// How fast it is.
    pub rates: Rates,
    /// Which products of fp32 numbers its tensor cores compute, if they can.
    pub tf32: Tf32,
}

impl Gpu {
    /// The facts about a device.
    ///
    /// # Errors
    /// When its vendor has not published all of its rates.
    pub fn of(device: &Device) -> Result<Self, Error> {
        let Some(rates) = device.rates() else {
            let message = say!("no time: {device} has no published rates", device = device.name);
            return Err(Error::new(ErrorKind::BadConfig, message).about("device"));
        };
        Ok(Self::with(device, rates))
    }

    /// The same for a form of its board, such as `PCIe`.
    ///
    /// # Errors
    /// When there is no such form.
    pub fn of_form(device: &Device, form: &str) -> Result<Self, Error> {
        let found = device.forms().find(|rates| rates.form.eq_ignore_ascii_case(form));
        found.map(|rates| Self::with(device, rates)).ok_or_else(|| {
            let forms: Vec<_> = device.forms().map(|rates| rates.form).collect();
            let message = say!(
                "{device} has no form `{form}`; known are {forms}",
                device = device.name,
                form,
                forms = forms.join(", ")
            );
            Error::new(ErrorKind::BadConfig, message).about("form")
        })
    }

    fn with(device: &Device, rates: Rates) -> Self {
        Self {
            compute_capability: device.compute_capability,
            multiprocessors: device.multiprocessors,
            threads_per_multiprocessor: device.threads_per_multiprocessor,
            rates,
            tf32: Tf32::Convolutions,
        }
    }

    /// Whether tensor cores compute products of fp32 numbers: those of convolutions, or of matrices.
    fn has_tf32(&self, is_convolution: bool) -> bool {
        let is_wanted = match self.tf32 {
            Tf32::Off => false,
            Tf32::Auto | Tf32::Convolutions => is_convolution,
            Tf32::On => true,
        };
        is_wanted && self.compute_capability >= (8, 0)
    }
}

/// What a kernel or a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// Multiplications.
    Arithmetic,
    /// Memory.
    Bandwidth,
    /// The host.
    Launches,
    /// The data loader.
    Loader,
    /// Other ranks.
    Network,
}

impl Bound {
    /// The name in JSON: `arithmetic`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Bandwidth => "bandwidth",
            Self::Launches => "launches",
            Self::Loader => "loader",
            Self::Network => "network",
        }
    }
}

/// A duration in picoseconds: sums of them are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// A number of microseconds, rounded to the nearest.
    #[expect(
        clippy::float_arithmetic,
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time, not bytes; what is too large stops at the largest number"
    )]
    fn of(microseconds: f64) -> Self {
        Self((microseconds * 1e6 + 0.5) as u64)
    }

    /// A multiple of it.
    const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// What passed since an earlier moment.
    const fn since(self, Self(earlier): Self) -> Self {
        Self(self.0.saturating_sub(earlier))
    }

    /// COUNT: how many there are in a second, where so many take this time.
    pub fn per(self, count: u64) -> u64 {
        const SECOND: u128 = 1_000_000_000_000;
        let rate = (u128::from(count) * SECOND).div_euclid(u128::from(self.0.max(1)));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// PERCENT: how much longer it is than another time, rounded to the nearest.
    pub fn longer_than(self, Self(other): Self) -> Option<i64> {
        let (then, now) = (i128::from(self.0), i128::from(other));
        let percent = ((then - now) * 200 + now).div_euclid(now.max(1) * 2);
        i64::try_from(percent).ok()
    }

    /// COUNT: whole microseconds.
    pub const fn microseconds(self) -> u64 {
        self.0.div_euclid(1_000_000)
    }
}

/// With three digits: `85.0 µs`, `312 ms`, `4.21 s`; from 100 s on `3 min 20 s`, and from 2 h on `3 h 27 min`.
impl fmt::Display for Picoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000_000;
        const UNITS: [(u64, &str); 3] = [(1_000_000, "µs"), (1_000_000_000, "ms"), (SECOND, "s")];
        /// Digits behind the point, what a unit has of the last of them, and the most in units.
        const DIGITS: [(usize, u64, u64); 3] = [(2, 100, 10), (1, 10, 100), (0, 1, 1000)];
        let seconds = self.0.div_euclid(SECOND);
        let minutes = seconds.div_euclid(60);
        match seconds {
            7200.. => return write!(f, "{} h {} min", minutes.div_euclid(60), minutes % 60),
            100.. => return write!(f, "{minutes} min {} s", seconds % 60),
            _ => {}
        }
        for (unit, name) in UNITS {
            for (digits, scale, most) in DIGITS {
                let step = unit.div_euclid(scale);
                let parts = self.0.saturating_add(step.div_euclid(2)).div_euclid(step);
                let (whole, part) = (parts.div_euclid(scale), parts % scale);
                if whole >= most {
                    continue;
                }
                return match digits {
                    0 => write!(f, "{whole}\u{a0}{name}"),
                    digits => write!(f, "{whole}.{part:0digits$}\u{a0}{name}"),
                };
            }
        }
        write!(f, "{seconds}\u{a0}s")
    }
}

impl std::ops::AddAssign for Picoseconds {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// What a set of kernels takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Time on the device.
    pub device: Picoseconds,
    /// Time that the host takes to launch them.
    pub launch: Picoseconds,
    /// COUNT: kernels.
    pub kernels: u64,
    /// COUNT: multiplications followed by an addition, in products.
    pub multiply_adds: u64,
    /// SIZE: what is read and written.
    pub bytes: Bytes,
}

impl Part {
    fn add(&mut self, other: &Self) {
        self.device += other.device;
        self.launch += other.launch;
        self.kernels = self.kernels.saturating_add(other.kernels);
        self.multiply_adds = self.multiply_adds.saturating_add(other.multiply_adds);
        self.bytes += other.bytes;
    }
}

/// How long a step takes, and what of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTime {
    /// All kernels.
    pub all: Part,
    /// By the part of the iteration.
    pub by_phase: BTreeMap<Phase, Part>,
    /// By the kind of kernel.
    pub by_class: BTreeMap<Class, Part>,
    /// By the operator that launches them, in [`Launches::labels`].
    pub by_operator: BTreeMap<LabelId, Part>,
    /// By the module that runs, in [`Launches::labels`].
    pub by_module: BTreeMap<LabelId, Part>,
    /// What products would take at the published peak of the units that compute them.
    pub at_peak: Picoseconds,
    /// By what kernels wait for on the device.
    pub by_bound: BTreeMap<Bound, Part>,
    /// Kernels whose formula was not fitted to measurements of their kind and type.
    pub unfitted: Part,
    /// Kernels that no rule states: assumed from what operators allocate.
    pub assumed: Part,
    /// What the kernels use of the GPU.
    pub busy: Busy,
    /// How long the GPU at most counts as busy after kernels.
    pub linger: Picoseconds,
    /// Time that a data loader takes for the samples of a step, while earlier ones are computed.
    pub loader: Picoseconds,
    /// Exchanges with other ranks, which are not among the kernels above.
    pub network: Network,
}

impl StepTime {
    /// The time of a step's kernels on a GPU: those of a steady iteration.
    pub fn of(launches: &Launches, gpu: Gpu) -> Self {
        Self::of_kernels(launches.of_steady(), &Machine::of(gpu))
    }

    /// The time of some kernels.
    fn of_kernels<'a>(kernels: impl IntoIterator<Item = &'a Launch>, machine: &Machine) -> Self {
        let mut sum = Self::default();
        let mut overlap = Overlap::default();
        for launch in kernels {
            let ran = machine.run(launch);
            overlap.launch(launch, &ran);
            sum.add(launch, ran, machine);
        }
        sum.network.exposed = overlap.exposed();
        sum
    }

    /// The same where a data loader gives a step's samples at a rate, in samples per second.
    #[must_use]
    pub fn with_loader(self, samples: u64, rate: u64) -> Self {
        const SECOND: u128 = 1_000_000_000_000;
        let time = u128::from(samples).saturating_mul(SECOND).div_ceil(u128::from(rate.max(1)));
        Self { loader: Picoseconds(u64::try_from(time).unwrap_or(u64::MAX)), ..self }
    }

    /// What the step uses of the GPU, on average.
    pub fn utilisation(&self) -> Utilisation {
        let Picoseconds(idle) = self.all.launch;
        let idle = Picoseconds(idle.saturating_sub(self.all.device.0));
        let mut gpu = self.all.device;
        gpu += idle.min(self.linger);
        gpu += self.network.exposed;
        let of = |part| Share::of(part, self.step());
        Utilisation {
            gpu: of(gpu),
            sm_active: of(self.busy.sm_active),
            sm_occupancy: of(self.busy.sm_occupancy),
            tensor_active: of(self.busy.tensor_active),
            dram_active: of(self.busy.dram_active),
        }
    }

    /// The same in a loop about whose loader nothing is known: as of the idlest loop that was measured.
    pub fn least_utilisation(&self) -> Utilisation {
        let used = self.utilisation();
        if self.loader == Picoseconds::default() { used.in_idlest_loop() } else { used }
    }

    /// The time of the step: the host launches kernels while the device runs, computation waits for exchanges that it
    /// does not hide, and a loader works ahead.
    pub fn step(&self) -> Picoseconds {
        let mut step = self.all.device.max(self.all.launch);
        step += self.network.exposed;
        step.max(self.loader)
    }

    /// What most of the step waits for.
    pub fn bound(&self) -> Bound {
        let mut computing = self.all.device.max(self.all.launch);
        computing += self.network.exposed;
        if self.loader > computing {
            return Bound::Loader;
        }
        if self.network.exposed > self.all.device.max(self.all.launch) {
            return Bound::Network;
        }
        if self.all.launch > self.all.device {
            return Bound::Launches;
        }
        let of = |bound| self.by_bound.get(&bound).map(|part: &Part| part.device);
        if of(Bound::Arithmetic) > of(Bound::Bandwidth) {
            Bound::Arithmetic
        } else {
            Bound::Bandwidth
        }
    }

    fn add(&mut self, launch: &Launch, ran: Ran, machine: &Machine) {
        let times = launch.times;
        let Ran { time, uses, on_device, on_host } = ran;
        match &launch.kernel {
            Kernel::Collective(collective) => {
                self.all.launch += on_host;
                return self.network.add(collective, times, on_device);
            }
            Kernel::Wait(_) => return,
            _ => {}
        }
        self.busy.add(&uses, time.us, times);
        self.linger +=
            Picoseconds::of(machine.host.linger).times(uses.kernels.saturating_mul(times));
        let part = Part {
            device: on_device,
            launch: on_host,
            kernels: launch.kernel.kernels().saturating_mul(times),
            multiply_adds: launch.multiply_adds().saturating_mul(times),
            bytes: launch.bytes().times(times),
        };
        self.all.add(&part);
        self.by_phase.entry(launch.phase).or_default().add(&part);
        self.by_class.entry(launch.kernel.class()).or_default().add(&part);
        self.by_bound.entry(time.bound).or_default().add(&part);
        self.by_operator.entry(launch.operator).or_default().add(&part);
        self.by_module.entry(launch.module).or_default().add(&part);
        self.at_peak += Picoseconds::of(machine.model.at_peak(launch)).times(times);
        if !time.is_fitted {
            self.unfitted.add(&part);
        }
        if launch.is_assumed() {
            self.assumed.add(&part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device;

    /// Durations are as short as they can be read.
    #[test]
    fn durations_read_well() {
        for (picoseconds, text) in [
            (0, "0.00 µs"),
            (85_040_000, "85.0 µs"),
            (999_600_000, "1.00 ms"),
            (312_400_000_000, "312 ms"),
            (4_214_000_000_000, "4.21 s"),
            (99_940_000_000_000, "99.9 s"),
            (200_000_000_000_000, "3 min 20 s"),
            (12_420_000_000_000_000, "3 h 27 min"),
        ] {
            assert_eq!(Picoseconds(picoseconds).to_string().replace('\u{a0}', " "), text);
        }
    }

    /// A device has the forms of its board, and an error names them.
    #[test]
    fn forms_are_found_by_name() {
        let a100 = device::find("a100-40gb").expect("it is in the table");
        let of = |form| Gpu::of_form(a100, form).map(|gpu| gpu.rates.watts);
        assert_eq!((of("sxm"), of("PCIe")), (Ok(400), Ok(250)));
        assert_eq!(Gpu::of(a100).map(|gpu| gpu.rates.form), Ok("SXM"));
        let error = of("SXM5").expect_err("it has none");
        assert_eq!(error.to_string(), "A100 40 GB has no form `SXM5`; known are SXM, PCIe");
    }

    /// Convolutions use TF32 by default, products of matrices where it is asked for, and Turing has none.
    #[test]
    fn tf32_is_a_matter_of_setting_and_capability() {
        let of = |id, tf32| {
            let gpu = Gpu::of(device::find(id).expect("it is in the table")).expect("it has rates");
            let gpu = Gpu { tf32, ..gpu };
            (gpu.has_tf32(true), gpu.has_tf32(false))
        };
        assert_eq!(of("l4", Tf32::Convolutions), (true, false));
        assert_eq!(of("l4", Tf32::On), (true, true));
        assert_eq!(of("l4", Tf32::Off), (false, false));
        assert_eq!(of("t4", Tf32::On), (false, false));
    }

    /// Rates are those of the vendor: products in half precision at the boost clock, in TFLOP/s, rounded.
    #[test]
    fn rates_give_the_published_peaks() {
        for (id, peak) in [
            ("t4", 65),
            ("rtx-2080-ti", 53),
            ("a30", 165),
            ("a100-40gb", 311),
            ("a10", 124),
            ("rtx-3090", 71),
            ("rtx-a4000", 76),
            ("rtx-a5000", 111),
            ("a40", 149),
            ("rtx-a6000", 154),
            ("l4", 121),
            ("rtx-4090", 165),
            ("l40", 181),
            ("rtx-6000-ada", 364),
            ("rtx-5090", 209),
        ] {
            let device = device::find(id).expect("it is in the table");
            let rates = device.rates().expect("it has rates");
            let flop = u64::from(rates.half_flop) * u64::from(rates.boost_mhz);
            assert_eq!((device.multiprocessors * flop).div_euclid(1_000_000), peak, "{id}");
        }
    }
}
