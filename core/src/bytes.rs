//! [`Bytes`], the only way sizes of memory are counted.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A number of bytes.
///
/// Always 64 bits: `usize` ends at 4 GiB in the browser. Sums saturate, so that an absurd model
/// reads as "more than any device" and never wraps round to something that fits.
///
/// Displays as people read it: `GiB` with two decimals, `MiB` below one GiB.
///
/// ```
/// use highwater_core::Bytes;
/// assert_eq!(Bytes(1536 << 20).to_string(), "1.50 GiB");
/// assert_eq!(Bytes(3 << 19).to_string(), "1.50 MiB");
/// assert_eq!(Bytes(512).to_string(), "512 B");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// So many KiB (1024 bytes).
    pub const fn kib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 10))
    }

    /// So many MiB (1024² bytes).
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 20))
    }

    /// Rounds up to a multiple of `unit`; a zero unit leaves the size as it is.
    #[must_use]
    pub const fn round_up(self, unit: Self) -> Self {
        match self.0.checked_next_multiple_of(unit.0) {
            Some(n) => Self(n),
            None => self,
        }
    }

    /// `self - other`, or zero where `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The size `n` times over.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in UNITS {
            if self.0 >> shift > 0 {
                // Hundredths, rounded half up, in integers: `core` has no floats in byte sums.
                let hundredths = (u128::from(self.0) * 100 + (1 << (shift - 1))) >> shift;
                let (whole, rest) = (hundredths.div_euclid(100), hundredths.rem_euclid(100));
                return write!(f, "{whole}.{rest:02} {unit}");
            }
        }
        write!(f, "{} B", self.0)
    }
}
