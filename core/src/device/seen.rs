//! Which cards report which total memory: what identifies a card in a message.

use super::{Device, TABLE};
use crate::bytes::{Bytes, Printed};
use crate::sorted;

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
    /// Never seen, but between what was.
    Between,
}

impl Fit {
    /// What that says of the driver, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Newest => "as newer drivers report it",
            Self::Older => "as older drivers report it",
            Self::Windows => "as Windows reports it",
            Self::OtherEcc => "with error correction switched the unusual way",
            Self::Between => "between what drivers were seen to report",
        }
    }
}

/// Totals that one card was seen to report, in hundredths of GiB as messages print them.
struct Totals {
    name: &'static str,
    /// Under Linux, the oldest driver first.
    linux: &'static [u64],
    windows: Option<u64>,
    other_ecc: Option<u64>,
}

const fn totals(name: &'static str, linux: &'static [u64]) -> Totals {
    Totals { name, linux, windows: None, other_ecc: None }
}

/// By id of the device, else by name. From out-of-memory messages and device properties in public
/// logs, as the capacities of the table of devices.
const SEEN: &[Totals] = &[
    Totals { windows: Some(1600), ..totals("v100-16gb", &[1578, 1575]) },
    totals("v100-32gb", &[3175, 3174, 3173]),
    Totals { windows: Some(1583), ..totals("t4", &[1476, 1475, 1474, 1473, 1458, 1456]) },
    totals("rtx-8000", &[4745]),
    totals("a30", &[2360, 2353]),
    totals("a100-40gb", &[3959, 3956, 3950, 3949, 3939, 3938]),
    totals("a100-80gb", &[7935, 7925, 7915, 7914]),
    Totals { other_ecc: Some(2370), ..totals("a10", &[2205]) },
    totals("a10g", &[2219, 2206]),
    totals("rtx-3060", &[1173, 1166]),
    Totals { windows: Some(2400), ..totals("rtx-3090", &[2370, 2369, 2368, 2359, 2356]) },
    totals("rtx-a4000", &[1561, 1560]),
    totals("rtx-a5000", &[2357]),
    Totals { other_ecc: Some(4755), ..totals("a40", &[4435, 4434]) },
    Totals { other_ecc: Some(4455), ..totals("rtx-a6000", &[4754, 4740]) },
    totals("l4", &[2216, 2203]),
    Totals { windows: Some(2399), ..totals("rtx-4090", &[2365, 2364, 2361, 2352]) },
    totals("l20", &[4453]),
    totals("l40", &[4440]),
    totals("l40s", &[4453, 4452, 4443, 4442]),
    totals("rtx-6000-ada", &[4753, 4750, 4740, 4738]),
    totals("h100-pcie", &[7911]),
    totals("h100-80gb", &[7922, 7919, 7918, 7911, 7910]),
    totals("h100-nvl", &[9309, 9302]),
    totals("h20", &[9508]),
    totals("gh200-96gb", &[9450]),
    totals("h200", &[13981, 13980]),
    totals("b200", &[17836, 17835]),
    totals("gb200", &[18431]),
    totals("rtx-5090", &[3137, 3135]),
    totals("rtx-pro-6000", &[9498, 9497, 9496]),
    // Cards that cannot be estimated, so that nobody is told that they are others.
    totals("Tesla K80", &[1117]),
    totals("Tesla P100 16 GB", &[1590, 1589]),
    totals("Tesla P40", &[2238]),
    totals("AMD Instinct MI250X (one die)", &[6398]),
    totals("AMD Instinct MI300X", &[19198, 19169]),
    totals("AMD Instinct MI325X", &[25598, 25569]),
];

impl Totals {
    fn fit(&self, total: Printed) -> Option<Fit> {
        let is = |seen: u64| total.may_be(hundredths(seen));
        let (newest, older) = self.linux.split_last()?;
        let (most, least) = (hundredths(*self.linux.first()?), hundredths(*newest));
        let cases = [
            (is(*newest), Fit::Newest),
            (older.iter().any(|&seen| is(seen)), Fit::Older),
            (self.windows.is_some_and(is), Fit::Windows),
            (self.other_ecc.is_some_and(is), Fit::OtherEcc),
            (least < total.bytes && total.bytes < most, Fit::Between),
        ];
        cases.into_iter().find_map(|(fits, fit)| fits.then_some(fit))
    }
}

const fn hundredths(n: u64) -> Bytes {
    Bytes(Bytes::mib(1024).times(n).0.div_euclid(100))
}

/// Cards whose total memory is reported so, those that fit best first.
pub fn suspects(total: Printed) -> Vec<Suspect> {
    let mut suspects: Vec<Suspect> = SEEN
        .iter()
        .filter_map(|totals| {
            let device = TABLE.iter().find(|device| device.id == totals.name);
            let name = device.map_or(totals.name, |device| device.name);
            Some(Suspect { device, name, fit: totals.fit(total)? })
        })
        .collect();
    sorted::by_key(&mut suspects, |suspect| {
        (suspect.fit == Fit::Between, suspect.device.is_none())
    });
    if suspects.iter().any(|suspect| suspect.fit != Fit::Between) {
        suspects.retain(|suspect| suspect.fit != Fit::Between);
    }
    suspects
}

/// What tells a card in the names that the driver gives, and the totals that it lists.
struct Named {
    id: &'static str,
    /// Words that the name has, all of them.
    words: &'static [&'static str],
    /// MiB that `nvidia-smi` prints as total.
    totals: &'static [u64],
}

const fn named(id: &'static str, words: &'static [&'static str], totals: &'static [u64]) -> Named {
    Named { id, words, totals }
}

/// The more words tell a card, the earlier it stands.
const NAMED: &[Named] = &[
    named("rtx-pro-6000", &["pro", "6000"], &[97_887]),
    named("rtx-6000-ada", &["6000", "ada"], &[49_140]),
    named("rtx-2080-ti", &["2080", "ti"], &[11_019, 11_264]),
    named("h100-pcie", &["h100", "pcie"], &[81_559]),
    named("h100-nvl", &["h100", "nvl"], &[95_830]),
    named("v100-16gb", &["v100"], &[16_130, 16_160, 16_384]),
    named("v100-32gb", &["v100"], &[32_510, 32_768]),
    named("t4", &["t4"], &[15_109, 15_360, 16_384]),
    named("rtx-8000", &["8000"], &[48_601, 49_152]),
    named("a30", &["a30"], &[24_576]),
    named("a100-40gb", &["a100"], &[40_536, 40_960]),
    named("a100-80gb", &["a100"], &[81_251, 81_920]),
    named("a10", &["a10"], &[23_028, 24_564]),
    named("a10g", &["a10g"], &[23_028]),
    named("rtx-3060", &["3060"], &[12_288]),
    named("rtx-3090", &["3090"], &[24_268, 24_576]),
    named("rtx-a4000", &["a4000"], &[16_376]),
    named("rtx-a5000", &["a5000"], &[24_564]),
    named("a40", &["a40"], &[46_068, 48_688]),
    named("rtx-a6000", &["a6000"], &[49_140]),
    named("l4", &["l4"], &[23_034]),
    named("rtx-4090", &["4090"], &[24_564]),
    named("l20", &["l20"], &[46_068]),
    named("l40", &["l40"], &[46_068, 49_140]),
    named("l40s", &["l40s"], &[46_068]),
    named("h100-80gb", &["h100"], &[81_559]),
    named("h20", &["h20"], &[97_871]),
    named("gh200-96gb", &["gh200"], &[97_871]),
    named("h200", &["h200"], &[143_771]),
    named("b200", &["b200"], &[183_359]),
    named("gb200", &["gb200"], &[189_471]),
    named("rtx-5090", &["5090"], &[32_607]),
];

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
    let entry = NAMED.iter().find(|entry| {
        entry.words.iter().all(|word| words.contains(word)) && entry.totals.iter().any(near)
    })?;
    TABLE.iter().find(|device| device.id == entry.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_can_be_named_and_recognised() {
        for device in TABLE {
            let named = NAMED.iter().filter(|entry| entry.id == device.id).count();
            let seen = SEEN.iter().filter(|totals| totals.name == device.id).count();
            assert_eq!(named, 1, "{}", device.id);
            // Nobody was seen to print what is assumed of it.
            assert_eq!(seen, usize::from(device.id != "rtx-2080-ti"), "{}", device.id);
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
        check("39.45 GiB", &["A100 40 GB: between what drivers were seen to report"]);
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
