//! The total memory that each GPU reports, which identifies the GPU in a message.

use crate::order::InOrder as _;
use std::cmp::Reverse;

use super::table::OTHERS;
use super::{Device, all};
use crate::bytes::{Bytes, Printed};

/// A card that a message's total capacity fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The card, where it is one that can be estimated.
    pub device: Option<&'static Device>,
    /// Its name.
    pub name: &'static str,
    /// How well it fits.
    pub fit: Fit,
}

/// How a total capacity fits a card, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The least that was seen, which is what the newest drivers leave.
    Newest,
    /// Seen, with an older driver.
    Older,
    /// Seen under Windows, which reports the card's whole memory.
    Windows,
    /// Seen where error correction was the other way round than usual.
    OtherEcc,
    /// Never seen, but between what was, or nearly.
    Near,
}

impl Fit {
    /// What that says of the driver, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Newest => "as newer drivers report it",
            Self::Older => "as older drivers report it",
            Self::Windows => "as Windows reports it",
            Self::OtherEcc => "with error correction switched the unusual way",
            Self::Near => "near what drivers were seen to report",
        }
    }
}

/// Totals that one card was seen to report, in hundredths of GiB as messages print them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Under Linux, the oldest driver first.
    pub linux: &'static [u64],
    /// Under Windows.
    pub windows: Option<u64>,
    /// Where error correction was the other way round than usual.
    pub other_ecc: Option<u64>,
}

impl Totals {
    /// SIZE: hundredths of GiB.
    pub(super) const fn bytes(hundredths: u64) -> Bytes {
        Bytes(Bytes::mib(1024).times(hundredths).0.div_euclid(100))
    }

    /// Part of a total, one in so many, by which another driver's may lie beyond what was seen.
    const NEAR: u64 = 400;

    fn fit(&self, total: Printed) -> Option<Fit> {
        let is = |seen: u64| total.may_be(Self::bytes(seen));
        let is_near = || {
            let (least, most) =
                (Self::bytes(*self.linux.last()?), Self::bytes(*self.linux.first()?));
            let slack = |seen: Bytes| Bytes(seen.0.div_euclid(Self::NEAR));
            Some(least - slack(least) <= total.bytes && total.bytes <= most + slack(most))
        };
        let cases = [
            (self.linux.last().copied().is_some_and(is), Fit::Newest),
            (self.linux.iter().any(|&seen| is(seen)), Fit::Older),
            (self.windows.is_some_and(is), Fit::Windows),
            (self.other_ecc.is_some_and(is), Fit::OtherEcc),
            (is_near() == Some(true), Fit::Near),
        ];
        cases.into_iter().find_map(|(fits, fit)| fits.then_some(fit))
    }
}

/// Cards whose total memory is reported so, those that fit best first.
pub fn suspects(total: Printed) -> Vec<Suspect> {
    let devices = all().iter().map(|device| (Some(device), device.name, device.totals));
    let others = OTHERS.iter().map(|&(name, totals)| (None, name, totals));
    let mut suspects: Vec<Suspect> = devices
        .chain(others)
        .filter_map(|(device, name, totals)| {
            Some(Suspect { device, name, fit: totals.fit(total)? })
        })
        .collect();
    suspects.order_by_key(|suspect| (suspect.fit == Fit::Near, suspect.device.is_none()));
    if suspects.iter().any(|suspect| suspect.fit != Fit::Near) {
        suspects.retain(|suspect| suspect.fit != Fit::Near);
    }
    suspects
}

/// The card that the driver calls so, with so much memory in all. A name that is cut short is not
/// guessed at.
///
/// ```
/// use highwater_core::{Bytes, device};
/// let id = |name, mib| device::named_as(name, Bytes::mib(mib)).map(|device| device.id);
/// assert_eq!(id("NVIDIA A100-SXM4-80GB", 81_920), Some("a100-80gb"));
/// assert_eq!(id("NVIDIA A100-SXM4-40GB", 40_960), Some("a100-40gb"));
/// assert_eq!(id("NVIDIA GeForce ...", 24_564), None);
/// ```
pub fn named_as(name: &str, total: Bytes) -> Option<&'static Device> {
    /// Percent by which a total may differ: drivers change it a little, error
    /// correction takes a sixteenth.
    const TOLERANCE_PERCENT: u64 = 7;
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    let near = |mib: &u64| {
        let off = Bytes::mib(*mib).0.abs_diff(total.0);
        total == Bytes::ZERO
            || off.saturating_mul(100) <= Bytes::mib(*mib).times(TOLERANCE_PERCENT).0
    };
    let named = all().iter().filter(|device| {
        device.words.iter().all(|word| words.contains(word)) && device.smi_totals.iter().any(near)
    });
    // More words tell a card better: an H100 PCIe is an H100.
    named.min_by_key(|device| Reverse(device.words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_can_be_named_and_recognised() {
        for device in all() {
            let name = device.words.join(" ");
            assert!(!name.is_empty() && !device.smi_totals.is_empty(), "{device}");
            let total = device.smi_totals.first().map_or(Bytes::ZERO, |&mib| Bytes::mib(mib));
            assert_eq!(named_as(&name, total), Some(device), "{name}");
            assert!(!device.totals.linux.is_empty(), "{device}");
        }
    }

    #[test]
    fn totals_tell_cards() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<_> = Printed::read(text)
                .map(suspects)
                .unwrap_or_default()
                .iter()
                .map(|suspect| format!("{}: {}", suspect.name, suspect.fit.about()))
                .collect();
            assert_eq!(found, expected, "{text}");
        };
        check("14.56 GiB", &["T4: as newer drivers report it"]);
        check("14.76 GiB", &["T4: as older drivers report it"]);
        check("23.99 GiB", &["GeForce RTX 4090: as Windows reports it"]);
        check(
            "79.11 GiB",
            &["H100 PCIe: as newer drivers report it", "H100 SXM: as older drivers report it"],
        );
        check("39.45 GiB", &["A100 40 GB: near what drivers were seen to report"]);
        check("139.60 GiB", &["H200: near what drivers were seen to report"]);
        check("10.73 GiB", &["GeForce RTX 2080 Ti: as newer drivers report it"]);
        check("16.00 GiB", &["GeForce RTX 4060 Ti 16 GB: as Windows reports it"]);
        check("11.17 GiB", &["Tesla K80: as newer drivers report it"]);
        check("1.95 GiB", &[]);
    }

    #[test]
    fn names_tell_cards() {
        let cases = [
            ("Tesla T4", 15_360, Some("t4")),
            ("NVIDIA A100-PCIE-40GB", 40_960, Some("a100-40gb")),
            ("NVIDIA A100 80GB PCIe", 81_920, Some("a100-80gb")),
            ("NVIDIA H100 80GB HBM3", 81_559, Some("h100-80gb")),
            ("NVIDIA H100 PCIe", 81_559, Some("h100-pcie")),
            ("NVIDIA H100 NVL", 95_830, Some("h100-nvl")),
            ("NVIDIA GeForce RTX 3060", 12_288, Some("rtx-3060")),
            ("NVIDIA GeForce RTX 3060", 8_192, None),
            ("NVIDIA RTX 6000 Ada Generation", 49_140, Some("rtx-6000-ada")),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, Some("rtx-pro-6000")),
            ("NVIDIA L40S", 46_068, Some("l40s")),
            ("Tesla V100-SXM2-16GB", 16_160, Some("v100-16gb")),
            ("NVIDIA A10G", 23_028, Some("a10g")),
            ("NVIDIA GeForce ...", 24_564, None),
            ("Tesla K80", 11_441, None),
        ];
        for (name, mib, expected) in cases {
            let found = named_as(name, Bytes::mib(mib)).map(|device| device.id);
            assert_eq!(found, expected, "{name}");
        }
    }
}
