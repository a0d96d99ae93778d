//! The figures of a step on one GPU that people compare.

use super::{Gpu, Picoseconds, StepTime};
use crate::bytes::{Bytes, grouped};
use crate::device::Device;
use crate::trace::Phase;

/// A step on one kind of GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The GPU.
    pub device: &'static Device,
    /// What decides over times there.
    pub gpu: Gpu,
    /// How long the step takes, and what of it.
    pub time: StepTime,
    /// COUNT: GPUs of the run, each of which is such a one.
    pub gpus: u64,
    /// COUNT: those that read samples of their own.
    pub readers: u64,
    /// COUNT: samples of a step on all GPUs.
    pub samples: u64,
    /// COUNT: tokens of a step on all GPUs, where the model reads texts.
    pub tokens: Option<u64>,
}

impl Timing {
    /// The GPU's name, with its form where there are several: `H100 SXM`.
    pub fn name(&self) -> String {
        name(self.device, self.gpu)
    }

    /// The GPUs of the run: `H100 SXM`, `4 × H100 SXM`.
    pub fn place(&self) -> String {
        if self.gpus > 1 { format!("{} × {}", self.gpus, self.name()) } else { self.name() }
    }

    /// The same where the data loader of each GPU gives samples at a rate, in samples per second.
    #[must_use]
    pub fn with_loader(mut self, rate: u64) -> Self {
        let samples = self.samples.div_ceil(self.readers.max(1));
        self.time = self.time.with_loader(samples, rate);
        self
    }

    /// SIZE: what a rank sends to others in a step, by rings; none on one GPU.
    pub fn sent(&self) -> Bytes {
        self.time.network.sent()
    }

    /// COUNT: samples in a second on all GPUs, in hundredths.
    pub fn samples_per_second(&self) -> u64 {
        self.time.step().per(self.samples.saturating_mul(100))
    }

    /// The same with three digits: `0.25`, `82.4`, `1,049`.
    pub fn rate(&self) -> String {
        rate(self.samples_per_second())
    }

    /// COUNT: tokens in a second on all GPUs.
    pub fn tokens_per_second(&self) -> Option<u64> {
        Some(self.time.step().per(self.tokens?))
    }

    /// Time for so many samples; the last step may be a small one.
    pub fn epoch(&self, samples: u64) -> Picoseconds {
        self.time.step().times(samples.div_ceil(self.samples.max(1)))
    }

    /// PER MILLE: model FLOP utilisation, of the published peak of the units that compute the products.
    ///
    /// The model's products are three times those of its forward pass, or fewer where gradients are not computed.
    /// What is computed again for backward does not count.
    pub fn flop_utilisation(&self) -> u64 {
        let all = self.time.all.multiply_adds;
        let forward = self.time.by_phase.get(&Phase::Forward);
        let forward = forward.map_or(0, |part| part.multiply_adds);
        let counted = forward.saturating_mul(3).min(all);
        let share = Bytes(counted).parts_of(Bytes(all), 1000);
        let peak = Bytes(self.time.at_peak.0).parts_of(Bytes(self.time.step().0), 1000);
        peak.saturating_mul(share).div_euclid(1000)
    }

    /// COUNT: operations of products in a second, in tenths of 10^12.
    pub fn teraflops(&self) -> u64 {
        let operations = self.time.all.multiply_adds.saturating_mul(2);
        self.time.step().per(operations).div_euclid(100_000_000_000)
    }

    /// PERCENT: what memory moves, of what it could in this time.
    pub fn memory_percent(&self) -> u64 {
        let moved = self.time.step().per(self.time.all.bytes.0);
        let bandwidth = u64::from(self.gpu.rates.bandwidth).saturating_mul(1_000_000_000);
        Bytes(moved).parts_of(Bytes(bandwidth), 100)
    }
}

/// A rate in hundredths, with three digits: `0.25`, `82.4`, `1,049`.
pub fn rate(hundredths: u64) -> String {
    let (whole, part) = (hundredths.div_euclid(100), hundredths % 100);
    match whole {
        0..10 => format!("{whole}.{part:02}"),
        10..100 => format!("{whole}.{}", part.div_euclid(10)),
        _ => grouped(whole),
    }
}

/// The name of a GPU, with its form where there are several.
pub(super) fn name(device: &Device, gpu: Gpu) -> String {
    let (name, form) = (device.name, gpu.rates.form);
    if form.is_empty() || name.ends_with(form) {
        return name.to_owned();
    }
    [name, form].join(" ")
}
