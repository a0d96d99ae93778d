//! [`Bytes`]: the only type for sizes of memory.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A number of bytes.
///
/// Always 64 bits: `usize` ends at 4 GiB in the browser. Sums saturate, so that an absurd model
/// reads as "more than any device" and never wraps round to something that fits.
///
/// Displays as people read it: two decimals of the largest unit of which there is one.
///
/// ```
/// use highwater_base::Bytes;
/// assert_eq!(Bytes(1536 << 20).to_string(), "1.50 GiB");
/// assert_eq!(Bytes(3 << 19).to_string(), "1.50 MiB");
/// assert_eq!(Bytes(512).to_string(), "512 B");
/// assert_eq!(Bytes(3 << 39).to_string(), "1.50 TiB");
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

    /// Three significant digits, and their unit.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// assert_eq!(Bytes::mib(3942).digits(), ("3.85".to_owned(), "GiB"));
    /// ```
    pub fn digits(self) -> (String, &'static str) {
        const UNITS: [(u32, &str); 4] = [(10, "KiB"), (20, "MiB"), (30, "GiB"), (40, "TiB")];
        if self.0 < 1000 {
            return (self.0.to_string(), "B");
        }
        for (shift, unit) in UNITS {
            // In parts of the unit, rounded half up.
            let parts = |n: u128| (u128::from(self.0) * n + (1 << (shift - 1))) >> shift;
            let decimals = [(1000, 3), (100, 2), (10, 1), (1, 0)];
            let fits = decimals.into_iter().find(|&(n, _)| parts(n) < 1000);
            let Some((n, width)) = fits.or_else(|| (unit == "TiB").then_some((1, 0))) else {
                continue;
            };
            let (whole, rest) = (parts(n).div_euclid(n), parts(n).rem_euclid(n));
            let text =
                if width == 0 { whole.to_string() } else { format!("{whole}.{rest:0width$}") };
            return (text, unit);
        }
        (self.0.to_string(), "B")
    }

    /// With three significant digits, as sentences have it; tables show two decimals.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// let short = |mib| Bytes::mib(mib).short();
    /// assert_eq!(short(3942), "3.85 GiB");
    /// assert_eq!(short(12_390), "12.1 GiB");
    /// assert_eq!(short(514), "514 MiB");
    /// assert_eq!(short(1004), "0.980 GiB");
    /// assert_eq!(Bytes(999).short(), "999 B");
    /// assert_eq!(Bytes(1001).short(), "0.978 KiB");
    /// assert_eq!(Bytes(u64::MAX).short(), "16777216 TiB");
    /// ```
    pub fn short(self) -> String {
        let (digits, unit) = self.digits();
        format!("{digits} {unit}")
    }

    /// COUNT: its share of a whole, in this number of equal parts, rounded: 100 for per cent.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// let percent = |part, whole| Bytes(part).parts_of(Bytes(whole), 100);
    /// assert_eq!([percent(1, 3), percent(2, 3), percent(3, 3), percent(0, 0)], [33, 67, 100, 0]);
    /// ```
    pub fn parts_of(self, whole: Self, parts: u64) -> u64 {
        let (part, whole) = (u128::from(self.0), u128::from(whole.0.max(1)));
        let rounded = part.saturating_mul(parts.into()).saturating_add(whole.div_euclid(2));
        u64::try_from(rounded.div_euclid(whole)).unwrap_or(u64::MAX)
    }
}

/// A count with commas between thousands: `25,557,032`.
///
/// ```
/// use highwater_base::bytes::grouped;
/// assert_eq!([0, 999, 1_000].map(grouped), ["0", "999", "1,000"]);
/// assert_eq!(grouped(25_557_032), "25,557,032");
/// ```
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (position, digit) in digits.char_indices() {
        if position > 0 && digits.len().saturating_sub(position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
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

/// So many units, written as a decimal: the nearest number of bytes, and the bytes by which it may
/// be off if the last digit was rounded.
pub fn decimal(text: &str, unit: u64) -> Option<(Bytes, Bytes)> {
    const DIGITS_MAX: usize = 18;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part}");
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !plain || digits.len() > DIGITS_MAX {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let scaled = digits.parse::<u128>().ok()?.checked_mul(u128::from(unit))?;
    let nearest = scaled.checked_add(scale.div_euclid(2))?.div_euclid(scale);
    // A whole number of bytes is exact.
    let off = if unit == 1 { 0 } else { u128::from(unit).div_ceil(scale.checked_mul(2)?) };
    Some((Bytes(u64::try_from(nearest).ok()?), Bytes(u64::try_from(off).ok()?)))
}

/// A size as somebody printed it: the digits that are left out may have been any.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Printed {
    /// The size that the digits say.
    pub bytes: Bytes,
    /// SIZE: by how much the true size may differ, either way.
    pub within: Bytes,
}

impl Printed {
    /// Reads `23.64 GiB`, `512 bytes`, `15109MiB`: a number and its unit and nothing else. `GB` and
    /// `MB` are taken for what Metal's messages mean by them, which are binary units as well.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// use highwater_base::bytes::Printed;
    /// let free = Printed::read("8.26 GiB");
    /// assert!(free.is_some_and(|free| free.may_be(Bytes::mib(8455))));
    /// assert!(free.is_some_and(|free| !free.may_be(Bytes::mib(8500))));
    /// ```
    pub fn read(text: &str) -> Option<Self> {
        const UNITS: [(&str, u32); 14] = [
            ("tib", 40),
            ("gib", 30),
            ("mib", 20),
            ("kib", 10),
            ("tb", 40),
            ("gb", 30),
            ("mb", 20),
            ("kb", 10),
            ("bytes", 0),
            ("byte", 0),
            ("g", 30),
            ("m", 20),
            ("k", 10),
            ("b", 0),
        ];
        let text = text.trim().to_ascii_lowercase();
        UNITS.iter().find_map(|(name, shift)| {
            let number = text.strip_suffix(name)?.trim_end();
            let (bytes, within) = decimal(number, 1 << shift)?;
            Some(Self { bytes, within })
        })
    }

    /// A size that is known to the byte.
    pub const fn exactly(bytes: Bytes) -> Self {
        Self { bytes, within: Bytes::ZERO }
    }

    /// The least that it may be.
    pub const fn least(self) -> Bytes {
        self.bytes.saturating_sub(self.within)
    }

    /// The most that it may be.
    pub fn most(self) -> Bytes {
        self.bytes + self.within
    }

    /// Whether this size would have been printed so.
    pub fn may_be(self, bytes: Bytes) -> bool {
        self.least() <= bytes && bytes <= self.most()
    }

    /// The sum, as far as it is known.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, within: self.within + other.within }
    }

    /// The difference, as far as it is known; zero where the other is larger.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { bytes: self.bytes - other.bytes, within: self.within + other.within }
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}
