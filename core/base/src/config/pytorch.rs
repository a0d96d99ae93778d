//! [`PyTorch`]: the release whose rules a run follows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::choice::Named;
use super::setting::{Kind, Typed, Value};
use crate::error::{Error, ErrorKind};

/// A release of PyTorch. Each rule that changed states the release that changed it, by comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PyTorch {
    major: u64,
    minor: u64,
}

/// First releases, with year and month. Releases before the first follow its rules.
const RELEASES: [(PyTorch, u64, u64); 20] = [
    (PyTorch::OLDEST, 2021, 10),
    (PyTorch::new(1, 11), 2022, 3),
    (PyTorch::new(1, 12), 2022, 6),
    (PyTorch::new(1, 13), 2022, 10),
    (PyTorch::new(2, 0), 2023, 3),
    (PyTorch::new(2, 1), 2023, 10),
    (PyTorch::new(2, 2), 2024, 1),
    (PyTorch::new(2, 3), 2024, 4),
    (PyTorch::new(2, 4), 2024, 7),
    (PyTorch::new(2, 5), 2024, 10),
    (PyTorch::new(2, 6), 2025, 1),
    (PyTorch::new(2, 7), 2025, 4),
    (PyTorch::new(2, 8), 2025, 8),
    (PyTorch::new(2, 9), 2025, 10),
    (PyTorch::new(2, 10), 2026, 1),
    (PyTorch::new(2, 11), 2026, 3),
    (PyTorch::new(2, 12), 2026, 5),
    (PyTorch::new(2, 13), 2026, 7),
    (PyTorch::new(2, 14), 2026, 9),
    (PyTorch::new(2, 15), 2026, 10),
];

/// The last year in which the newest of these may still be the newest of all.
const LAST_YEAR: u64 = 2027;

/// COUNT: the month of a year that is given alone.
const MIDDLE_OF_YEAR: u64 = 7;

impl PyTorch {
    /// The newest release that was compared with.
    pub const LATEST: Self = Self::new(2, 15);

    /// The release of a major and a minor number.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// The oldest release that has rules of its own.
    pub const OLDEST: Self = Self::new(1, 10);

    /// Whether it lies within the releases whose rules are known.
    pub fn is_known(self) -> bool {
        (Self::OLDEST..=Self::LATEST).contains(&self)
    }

    /// Whether cuBLAS's workspaces stay once they are made. Since 2.15 each call makes its own.
    pub fn keeps_cublas_workspaces(self) -> bool {
        self < Self::new(2, 15)
    }

    /// Whether cuBLASLt uses cuBLAS's workspace; before, each call makes its own.
    pub fn shares_cublas_workspaces(self) -> bool {
        Self::new(2, 9) <= self && self.keeps_cublas_workspaces()
    }

    /// Whether `rms_norm` is one kernel.
    pub fn fuses_rms_norm(self) -> bool {
        self >= Self::new(2, 9)
    }

    /// Whether attention without a fused kernel computes half precision in single.
    pub fn raises_attention(self) -> bool {
        self >= Self::new(2, 5)
    }

    /// Whether it came with cuDNN 9.
    pub fn has_cudnn_9(self) -> bool {
        self >= Self::new(2, 4)
    }

    /// Whether matrix products of fp32 numbers are in TF32 (pytorch/pytorch#76509).
    pub fn multiplies_in_tf32(self) -> bool {
        self < Self::new(1, 12)
    }

    /// Whether softmax and its logarithm keep their input, and not only their result (pytorch/pytorch#65242).
    pub fn keeps_softmax_input(self) -> bool {
        self < Self::new(1, 11)
    }

    /// Whether updates of lists of parameters divide by new lists, where later ones write over the first
    /// (pytorch/pytorch#104898).
    pub fn updates_out_of_place(self) -> bool {
        self < Self::new(2, 1)
    }

    /// Whether optimizers walk over lists of parameters by themselves (`foreach`).
    pub fn prefers_foreach(self) -> bool {
        self >= Self::new(2, 0)
    }

    /// Whether there is `torch.compile`.
    pub fn compiles(self) -> bool {
        self >= Self::new(2, 0)
    }

    /// Whether `zero_grad` frees gradients (`set_to_none`) instead of writing zeros into them.
    pub fn frees_gradients(self) -> bool {
        self >= Self::new(2, 0)
    }

    /// Whether kernels are loaded when they are first used (`CUDA_MODULE_LOADING=LAZY`).
    pub fn loads_lazily(self) -> bool {
        self >= Self::new(1, 13)
    }

    /// The newest release of a month.
    fn by(year: u64, month: u64) -> Self {
        let until = RELEASES.iter().rev().find(|(_, y, m)| (*y, *m) <= (year, month));
        until.map_or(RELEASES[0].0, |(release, ..)| *release)
    }
}

said_plainly!(PyTorch);

impl fmt::Display for PyTorch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.major, self.minor))
    }
}

impl FromStr for PyTorch {
    type Err = Error;

    /// A version, as `torch.__version__` prints it, or a date: `2.6.0+cu124`, `2.6`, `2023-10`, `2023`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let numbers = |separator| {
            let mut parts = text.split(separator).map(str::parse::<u64>);
            (parts.next().and_then(Result::ok), parts.next().map(Result::ok))
        };
        match (numbers('.'), numbers('-')) {
            ((Some(major @ 1..=9), Some(Some(minor))), _) => Ok(Self::new(major, minor)),
            (_, (Some(year @ 2016..=LAST_YEAR), None)) => Ok(Self::by(year, MIDDLE_OF_YEAR)),
            (_, (Some(year @ 2016..=LAST_YEAR), Some(Some(month @ 1..=12)))) => {
                Ok(Self::by(year, month))
            }
            _ => {
                let message = say!(
                    "`{text}` is no version of PyTorch: write one such as 2.6, or a date such as 2023-10, up to {last}",
                    text,
                    last = LAST_YEAR
                );
                Err(Error::new(ErrorKind::BadConfig, message))
            }
        }
    }
}

impl Typed for PyTorch {
    const KIND: Kind = Kind::Suggestion(&[
        Named { name: "2.15", label: "2.15", about: "" },
        Named { name: "2.8", label: "2.8", about: "" },
        Named { name: "2.4", label: "2.4", about: "" },
        Named { name: "2.3", label: "2.3", about: "" },
        Named { name: "1.13", label: "1.13", about: "" },
    ]);

    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn read(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<String> for PyTorch {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<PyTorch> for String {
    fn from(release: PyTorch) -> Self {
        release.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_version_or_a_date() {
        for (text, release) in [
            ("2.6", "2.6"),
            ("2.6.0+cu124", "2.6"),
            ("2.10", "2.10"),
            ("1.13.1", "1.13"),
            ("2023", "2.0"),
            ("2023-10", "2.1"),
            ("2024-06", "2.3"),
            ("2019", "1.10"),
            ("2022-07", "1.12"),
            ("2027", "2.15"),
        ] {
            assert_eq!(
                text.parse::<PyTorch>().map(|it| it.to_string()),
                Ok(release.to_owned()),
                "{text}"
            );
        }
        for text in ["", "two", "2", "20.1", "2023-13", "2.x", "2030", "2099-01"] {
            assert!(text.parse::<PyTorch>().is_err(), "{text}");
        }
    }

    #[test]
    fn releases_are_in_order() {
        let dates: Vec<(u64, u64)> =
            RELEASES.iter().map(|(_, year, month)| (*year, *month)).collect();
        assert!(dates.is_sorted() && RELEASES.is_sorted_by_key(|(release, ..)| *release));
        assert_eq!(RELEASES.last().map(|(release, ..)| *release), Some(PyTorch::LATEST));
        assert!(PyTorch::new(2, 9) < PyTorch::new(2, 10));
    }
}
