//! Round sizes for the axis.

use highwater_core::Bytes;

/// Round sizes from zero up to `top`, at most `most` steps, and the unit they are labelled in.
pub fn ticks(top: Bytes, most: u64) -> Ticks {
    let unit = if top.0 >= 1 << 30 {
        Unit::Gib
    } else if top.0 >= 1 << 20 {
        Unit::Mib
    } else {
        Unit::Kib
    };
    let hundredth = unit.size().0 / 100;
    let mut step = 100_000;
    // 1, 2, 5, 10, … hundredths of the unit, until few enough fit below the top.
    'found: for decade in [1, 10, 100, 1_000, 10_000] {
        for factor in [1, 2, 5] {
            if top.0 / (hundredth.max(1) * decade * factor) <= most {
                step = decade * factor;
                break 'found;
            }
        }
    }
    let of = |n: u64| {
        let bytes = u128::from(n) * u128::from(step) * u128::from(unit.size().0) / 100;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    };
    let at = (0..=most).map(of).take_while(|&bytes| bytes <= top).collect();
    Ticks { at, step, unit }
}

/// Where ticks are and how they are labelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// The sizes, from zero.
    pub at: Vec<Bytes>,
    /// Hundredths of the unit from one to the next.
    step: u64,
    /// The unit.
    pub unit: Unit,
}

impl Ticks {
    /// The number next to the `n`th tick, with only the decimals that the step needs.
    pub fn label(&self, n: usize) -> String {
        let hundredths = self.step.saturating_mul(u64::try_from(n).unwrap_or(u64::MAX));
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        if self.step.is_multiple_of(100) {
            whole.to_string()
        } else if self.step.is_multiple_of(10) {
            format!("{whole}.{}", rest / 10)
        } else {
            format!("{whole}.{rest:02}")
        }
    }
}

/// A unit of the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 1024 bytes.
    Kib,
    /// 1024² bytes.
    Mib,
    /// 1024³ bytes.
    Gib,
}

impl Unit {
    /// SIZE: of one.
    pub const fn size(self) -> Bytes {
        match self {
            Self::Kib => Bytes(1 << 10),
            Self::Mib => Bytes(1 << 20),
            Self::Gib => Bytes(1 << 30),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kib => "KiB",
            Self::Mib => "MiB",
            Self::Gib => "GiB",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(top: Bytes) -> String {
        let ticks = ticks(top, 6);
        let labels: Vec<_> = (0..ticks.at.len()).map(|n| ticks.label(n)).collect();
        format!("{} {}", labels.join(" "), ticks.unit.name())
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(labels(Bytes::mib(14 << 10)), "0 5 10 GiB");
        assert_eq!(labels(Bytes::mib(3700)), "0 1 2 3 GiB");
        assert_eq!(labels(Bytes::mib(1300)), "0.0 0.2 0.4 0.6 0.8 1.0 1.2 GiB");
        assert_eq!(labels(Bytes::mib(640)), "0 100 200 300 400 500 600 MiB");
        assert_eq!(labels(Bytes::mib(80 << 10)), "0 20 40 60 80 GiB");
        assert_eq!(labels(Bytes(5000)), "0 1 2 3 4 KiB");
        assert_eq!(labels(Bytes(0)), "0.00 KiB");
        assert_eq!(ticks(Bytes(u64::MAX), 6).at.len(), 7);
    }
}
