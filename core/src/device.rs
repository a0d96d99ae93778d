//! GPUs: the memory of each that PyTorch may use, and the memory outside its allocator.
//!
//! - CUDA devices on which PyTorch 2.15 runs. Its default wheel (CUDA 13.2) has code for compute
//!   capability 7.5 and up. V100 (7.0) is still common, and needs a PyTorch built for CUDA 12.
//!   Older cards are left out: P40 and P100 need the same and are rarely trained on, K80 has no
//!   current build at all.
//! - GB10 and Jetson are left out, because they share their memory with the operating system. AMD GPUs are left
//!   out, because PyTorch runs other kernels on them.
//! - Capacity is the smallest *total capacity* that PyTorch was seen to report under Linux, not
//!   the figure in the name: the driver keeps some for itself, newer ones more, and where ECC is
//!   on by default it takes a sixteenth of GDDR memory.
//! - Multiprocessors and threads per multiprocessor are the vendor's.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::config::{Cudnn, PyTorch};
use crate::eager::Hardware;
use crate::error::{Error, ErrorKind};

mod confidence;
mod rates;
mod room;
mod seen;
mod slices;
mod table;
mod typed;

pub use self::confidence::{Doubt, Interval};
pub use self::rates::{Link, LinkKind, MemoryKind, Rates};
pub use self::room::Room;
pub use self::seen::{Fit, Suspect, Totals, named_as, suspects};
pub use self::slices::{Slice, placement, slices};
pub use self::typed::typed;

/// One model of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Stable id, `a100-80gb`.
    pub id: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// Words that the name which the driver gives it has, all of them.
    pub words: &'static [&'static str],
    /// Memory as the vendor sells it.
    pub nameplate: &'static str,
    /// SIZE: total memory as PyTorch sees it.
    pub capacity: Bytes,
    /// Where that comes from.
    pub capacity_from: Provenance,
    /// Totals that PyTorch was seen to report.
    pub totals: Totals,
    /// MiB that `nvidia-smi` prints as total.
    pub smi_totals: &'static [u64],
    /// How large the CUDA context was on this very card, where public out-of-memory messages tell: what
    /// *this process* has in use, less what of it the allocator holds. One process on one card,
    /// PyTorch 2.1 or later; each is within 15 MiB, because messages round.
    pub context_seen: Option<Seen>,
    /// Compute capability, major and minor; it selects kernels and workspaces.
    pub compute_capability: (u32, u32),
    /// COUNT: multiprocessors.
    pub multiprocessors: u64,
    /// COUNT: threads that can be resident on one multiprocessor.
    pub threads_per_multiprocessor: u64,
    /// Where it is a part of a card: which.
    pub slice: Option<Slice>,
}

impl Device {
    /// Whom it is made for, by the vendor's names: `GeForce` for consumers, `RTX` and `Quadro` for workstations.
    pub fn class(&self) -> Class {
        match self.name.split(' ').next() {
            Some("GeForce") => Class::Consumer,
            Some("RTX" | "Quadro") => Class::Workstation,
            _ => Class::DataCentre,
        }
    }

    /// What PyTorch's choice of kernels and workspaces depends on.
    pub fn hardware(&self, pytorch: PyTorch, cudnn: Cudnn) -> Hardware {
        Hardware {
            capability: self.compute_capability,
            multiprocessors: self.multiprocessors,
            threads_per_multiprocessor: self.threads_per_multiprocessor,
            cublas_workspace: self.cublas_workspace(pytorch),
            cudnn: cudnn.of(pytorch),
        }
    }

    /// The CUDA context and the libraries' own memory, for one process with lazy module loading:
    /// 100 MiB and 1.92 KiB for each thread that can be resident.
    ///
    /// The straight line that fits 14 models of GPU best (RMSE 46 MiB); the points are the medians
    /// of [`Device::context_seen`]. NCCL takes its own.
    pub const fn context(&self) -> Bytes {
        let threads = self.multiprocessors.saturating_mul(self.threads_per_multiprocessor);
        let per_thread = Bytes::kib(192).times(threads).0.div_euclid(100);
        Bytes(Bytes::mib(100).0.saturating_add(per_thread))
    }

    /// What the context may be: with lazy loading what messages tell of this card, or 100 MiB to either side.
    ///
    /// With eager loading (`CUDA_MODULE_LOADING=EAGER`, PyTorch before 1.13), 2.8 times as much, from 2.3 to 4.9
    /// times: 667 MB instead of 287 on the machine of <https://github.com/pytorch/pytorch/issues/86509>, 1,429 MiB on
    /// an A100 (`GPUMemNet`), 1,035 MiB on an RTX 2080 Ti and 1,644 MiB on an RTX 3090
    /// (<https://github.com/pytorch/pytorch/issues/49877>).
    pub fn context_range(&self, is_eager: bool) -> Context {
        let likely = self.context();
        let times = |tenths: u64| Bytes(likely.times(tenths).0.div_euclid(10));
        if is_eager {
            return Context { least: times(23), likely: times(28), most: times(49) };
        }
        let Context { least, most, .. } = Context::about(likely);
        let seen = self.context_seen.map_or((least, most), |seen| (seen.least, seen.most));
        Context { least: least.min(seen.0), likely, most: most.max(seen.1) }
    }

    /// What the context is on about one machine in ten, which no table can know: 2.8 to 3.5 times as large.
    ///
    /// On the A100 of `GPUMemNet`'s authors a process holds 1,429 to 1,800 MiB before it trains, and 515 MiB are usual.
    /// Reasons are eager loading of kernels, old drivers and other libraries. The share is a round number: the 14 models
    /// of GPU of the fit and the machines of three other [measured sources](../../docs/confidence.md) have usual
    /// contexts.
    pub fn high_context(&self) -> Context {
        let part = |hundredths: u64| Bytes(self.context().times(hundredths).0.div_euclid(100));
        Context { least: part(280), likely: part(315), most: part(350) }
    }

    /// Where [`Device::context`] comes from.
    pub const fn context_provenance(&self) -> Provenance {
        if self.context_seen.is_some() { Provenance::FittedThere } else { Provenance::Fitted }
    }

    /// The workspace that PyTorch gives cuBLAS: 32 MiB on Hopper, since 2.12 also on what came
    /// after, 8.125 MiB else. `getChosenWorkspaceSize`, `aten/src/ATen/cuda/CublasHandlePool.cpp`.
    pub fn cublas_workspace(&self, pytorch: PyTorch) -> Bytes {
        match (self.compute_capability, pytorch) {
            ((9, 0), _) => Bytes::mib(32),
            ((9..=12, _), pytorch) if pytorch >= PyTorch::new(2, 9) => Bytes::mib(32),
            _ => Bytes::kib(2 * 4096 + 8 * 16),
        }
    }
}

/// Whom a GPU is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// `GeForce` cards.
    Consumer,
    /// Cards of workstations.
    Workstation,
    /// Cards of servers.
    DataCentre,
}

impl Class {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Consumer, Self::Workstation, Self::DataCentre];

    /// In words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Workstation => "workstation",
            Self::DataCentre => "data centre",
        }
    }
}

/// SIZE: how far a context may be from the fit. The largest distance among the cards of the fit is 74 MiB, and the base
/// of `GPUMemNet`'s machine differs by 105 MiB to either side between models.
const CONTEXT_DOUBT: Bytes = Bytes::mib(100);

/// A size outside the allocator's memory, of which a range is known, such as the CUDA context and libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// SIZE: of a context, one process in twenty has less; of another size, the smallest that was seen.
    pub least: Bytes,
    /// SIZE: what is expected.
    pub likely: Bytes,
    /// SIZE: of a context, one process in twenty has more; of another size, the largest that was seen.
    pub most: Bytes,
}

impl Context {
    /// MiB: the least, what is expected, and the most.
    pub(crate) const fn mib(least: u64, likely: u64, most: u64) -> Self {
        Self { least: Bytes::mib(least), likely: Bytes::mib(likely), most: Bytes::mib(most) }
    }

    /// Of two processes, each of which has one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            least: self.least + other.least,
            likely: self.likely + other.likely,
            most: self.most + other.most,
        }
    }

    /// One that was measured, of this model or another: models differ in the kernels that they load.
    pub fn about(size: Bytes) -> Self {
        Self { least: size - CONTEXT_DOUBT, likely: size, most: size + CONTEXT_DOUBT }
    }
}

/// SIZE: what NCCL takes for a group of ranks, outside of PyTorch's allocator.
///
/// Seen: 0.39 GiB on H100 (pith-train), 544
/// and 688 MB on A100 (NVIDIA/nccl issue 964), 430 MiB more than on one GPU in vLLM's logs on H100, and 1.6 GB for a
/// first group (issue 864).
pub const NCCL: Context = Context::mib(400, 560, 1600);

/// The GPUs that most people ask about, the smallest first; answers name them before all others.
pub const USUAL: [&str; 5] = ["t4", "v100-16gb", "rtx-4090", "a100-80gb", "h100-80gb"];

/// What public out-of-memory messages say of one model of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// SIZE: the smallest.
    pub least: Bytes,
    /// SIZE: the median, which went into the fit.
    pub median: Bytes,
    /// SIZE: the largest.
    pub most: Bytes,
    /// COUNT: messages.
    pub messages: u64,
}

/// Where a device's figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// The configuration has it.
    Given,
    /// PyTorch reported it on this model of GPU, in a public log.
    Reported,
    /// A line through other cards and this one: its own measurements are known and near.
    FittedThere,
    /// A line through other cards: nobody is known to have measured this one.
    Fitted,
    /// No log names the card with certainty: from a card of the same kind, or from memory.
    Assumed,
}

impl Provenance {
    /// The name in JSON: `fitted-there`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Reported => "reported",
            Self::FittedThere => "fitted-there",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All cards, by architecture and then by memory; [`slices`] has the parts that MIG divides them into.
pub const fn all() -> &'static [Device] {
    table::DEVICES
}

/// All cards, and the slices of them.
pub fn every() -> impl Iterator<Item = &'static Device> {
    all().iter().chain(slices::SLICES)
}

/// The device with this id: a card, or a slice of one.
///
/// ```
/// use highwater_core::device;
/// assert_eq!(device::lookup("t4").map(|device| device.multiprocessors), Some(40));
/// assert_eq!(device::lookup("a100-80gb-1g.10gb").map(|device| device.multiprocessors), Some(14));
/// assert_eq!(device::lookup("abacus"), None);
/// ```
pub fn lookup(id: &str) -> Option<&'static Device> {
    every().find(|device| device.id == id)
}

/// A device of the table, by its id.
///
/// # Errors
/// When there is none; the message has those that there are.
pub fn find(id: &str) -> Result<&'static Device, Error> {
    lookup(id).ok_or_else(|| {
        let known: Vec<_> = all().iter().map(|device| device.id).collect();
        let message =
            say!("unknown device `{id}`; known are {known}", id, known = known.join(", "));
        Error::new(ErrorKind::BadConfig, message)
    })
}

/// Whether a device holds the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It fits, with a chance of 95 % or more.
    Fits,
    /// What is expected fits.
    LikelyFits,
    /// The allocator hits the limit, frees cached segments, retries and survives.
    FitsAfterFlush,
    /// What could be counted fits, and not everything could be counted.
    NotKnown,
    /// The allocator raises out of memory where the process needs what is expected.
    LikelyDoesNotFit,
    /// The same, and the chance that it fits is below 5 %.
    DoesNotFit,
}

impl Verdict {
    /// Percent: the chance from which a run fits without a word of caution.
    const SURE: u64 = 95;

    /// The verdict on a run that never has to give cached segments back, from the chance that it fits.
    pub const fn of_chance(chance: u64) -> Self {
        if chance >= Self::SURE { Self::Fits } else { Self::LikelyFits }
    }

    /// The verdict on a run that is expected to fail, from the chance that it fits.
    pub const fn of_failure(chance: u64) -> Self {
        if chance.saturating_add(Self::SURE) >= 100 {
            Self::LikelyDoesNotFit
        } else {
            Self::DoesNotFit
        }
    }

    /// The name in JSON: `fits-after-flush`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::LikelyFits => "likely-fits",
            Self::FitsAfterFlush => "fits-after-flush",
            Self::NotKnown => "not-known",
            Self::LikelyDoesNotFit => "likely-does-not-fit",
            Self::DoesNotFit => "does-not-fit",
        }
    }

    /// Whether the run is expected to run out of memory.
    pub const fn fails(self) -> bool {
        matches!(self, Self::LikelyDoesNotFit | Self::DoesNotFit)
    }

    /// Whether the run is expected to survive.
    pub const fn survives(self) -> bool {
        matches!(self, Self::Fits | Self::LikelyFits | Self::FitsAfterFlush)
    }

    /// The same of a lower bound or an uncertain answer, which do not prove that a run fits.
    #[must_use]
    pub const fn of_lower_bound(self) -> Self {
        match self {
            Self::Fits | Self::LikelyFits | Self::FitsAfterFlush | Self::NotKnown => Self::NotKnown,
            // How likely is not known of these.
            Self::LikelyDoesNotFit | Self::DoesNotFit => Self::DoesNotFit,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;

    use super::*;

    /// A lower bound proves that a run fails, and never that it fits: how likely either is, it cannot tell.
    #[test]
    fn a_lower_bound_is_never_likely() {
        for (verdict, expected) in [
            (Verdict::Fits, Verdict::NotKnown),
            (Verdict::LikelyFits, Verdict::NotKnown),
            (Verdict::FitsAfterFlush, Verdict::NotKnown),
            (Verdict::NotKnown, Verdict::NotKnown),
            (Verdict::LikelyDoesNotFit, Verdict::DoesNotFit),
            (Verdict::DoesNotFit, Verdict::DoesNotFit),
        ] {
            assert_eq!(verdict.of_lower_bound(), expected, "{verdict:?}");
        }
    }

    #[test]
    fn devices_are_distinct_and_leave_room_for_work() {
        let ids: BTreeSet<_> = all().iter().map(|device| device.id).collect();
        let names: BTreeSet<_> = all().iter().map(|device| device.name).collect();
        assert_eq!((ids.len(), names.len()), (all().len(), all().len()));
        for device in all() {
            assert!(device.capacity - device.context() > Bytes::mib(10 * 1024), "{device}");
            assert_eq!(lookup(device.id), Some(device));
        }
    }

    /// The fit is no better than its points: a card whose messages lie further off is not one to
    /// print the line for.
    #[test]
    fn contexts_lie_near_what_was_seen() {
        for device in all() {
            let Some(Seen { least, median, most, .. }) = device.context_seen else { continue };
            assert!(least <= median && median <= most, "{device}");
            assert!(device.context().0.abs_diff(median.0) <= Bytes::mib(100).0, "{device}");
        }
    }

    #[test]
    fn the_table_reads_as_pytorch_reports_it() {
        let row = |device: &Device| {
            let Device { id, capacity, .. } = device;
            let (context, workspace) = (device.context(), device.cublas_workspace(PyTorch::LATEST));
            format!("{id}: {capacity}, context {context}, cuBLAS {workspace}\n")
        };
        let table: String = all().iter().map(row).collect();
        expect![[r"
            v100-16gb: 15.75 GiB, context 407.20 MiB, cuBLAS 8.13 MiB
            v100-32gb: 31.73 GiB, context 407.20 MiB, cuBLAS 8.13 MiB
            t4: 14.56 GiB, context 176.80 MiB, cuBLAS 8.13 MiB
            rtx-2080-ti: 10.75 GiB, context 230.56 MiB, cuBLAS 8.13 MiB
            rtx-8000: 47.45 GiB, context 238.24 MiB, cuBLAS 8.13 MiB
            a30: 23.53 GiB, context 315.04 MiB, cuBLAS 8.13 MiB
            a100-40gb: 39.38 GiB, context 514.72 MiB, cuBLAS 8.13 MiB
            a100-80gb: 79.14 GiB, context 514.72 MiB, cuBLAS 8.13 MiB
            a10: 22.05 GiB, context 307.36 MiB, cuBLAS 8.13 MiB
            a10g: 22.06 GiB, context 330.40 MiB, cuBLAS 8.13 MiB
            rtx-3060: 11.66 GiB, context 180.64 MiB, cuBLAS 8.13 MiB
            rtx-3090: 23.56 GiB, context 336.16 MiB, cuBLAS 8.13 MiB
            rtx-a4000: 15.60 GiB, context 238.24 MiB, cuBLAS 8.13 MiB
            rtx-a5000: 23.57 GiB, context 284.32 MiB, cuBLAS 8.13 MiB
            a40: 44.34 GiB, context 341.92 MiB, cuBLAS 8.13 MiB
            rtx-a6000: 47.40 GiB, context 341.92 MiB, cuBLAS 8.13 MiB
            l4: 22.03 GiB, context 267.04 MiB, cuBLAS 8.13 MiB
            rtx-4090: 23.52 GiB, context 468.64 MiB, cuBLAS 8.13 MiB
            l20: 44.42 GiB, context 364.96 MiB, cuBLAS 8.13 MiB
            l40: 44.40 GiB, context 508.96 MiB, cuBLAS 8.13 MiB
            l40s: 44.42 GiB, context 508.96 MiB, cuBLAS 8.13 MiB
            rtx-6000-ada: 47.38 GiB, context 508.96 MiB, cuBLAS 8.13 MiB
            h100-pcie: 79.11 GiB, context 537.76 MiB, cuBLAS 32.00 MiB
            h100-80gb: 79.10 GiB, context 606.88 MiB, cuBLAS 32.00 MiB
            h100-nvl: 93.02 GiB, context 606.88 MiB, cuBLAS 32.00 MiB
            h20: 95.08 GiB, context 399.52 MiB, cuBLAS 32.00 MiB
            gh200-96gb: 94.50 GiB, context 606.88 MiB, cuBLAS 32.00 MiB
            h200: 139.80 GiB, context 606.88 MiB, cuBLAS 32.00 MiB
            b200: 178.35 GiB, context 668.32 MiB, cuBLAS 32.00 MiB
            gb200: 184.31 GiB, context 668.32 MiB, cuBLAS 32.00 MiB
            rtx-5090: 31.35 GiB, context 589.60 MiB, cuBLAS 32.00 MiB
            rtx-pro-6000: 94.96 GiB, context 641.44 MiB, cuBLAS 32.00 MiB
        "]]
        .assert_eq(&table);
    }
}
