//! Numbers as people read them.

use highwater_core::Bytes;
pub(crate) use highwater_core::bytes::grouped;
use highwater_core::report::Verdict;
use highwater_core::wording::{self, Part, Sentence};
use highwater_draw::float;

use super::language::{fill, spoken, tr};

/// A batch that a search found; no line breaks behind its sign.
pub(crate) fn batch(size: u64) -> String {
    wording::answer::batch(size).replace(' ', "\u{a0}")
}

/// A count in thousands, millions or billions, three digits long: `25.6 M`.
pub(crate) fn short_count(n: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "B"), (1_000_000, "M"), (1_000, "K")];
    for (unit, letter) in UNITS {
        if n >= unit {
            let tenths = (u128::from(n) * 10 + u128::from(unit) / 2) / u128::from(unit);
            return if tenths >= 1000 {
                format!("{} {letter}", tenths / 10)
            } else {
                format!("{}.{} {letter}", tenths / 10, tenths % 10)
            };
        }
    }
    n.to_string()
}

/// The exact number behind a size: `3,768,320,000 bytes`.
pub(crate) fn exact(bytes: Bytes) -> String {
    fill("{n} bytes", &[("n", &grouped(bytes.0))])
}

/// `larger - smaller` with its sign: `+2.10 GiB`, `−819 MiB`.
pub(crate) fn difference(larger: Bytes, smaller: Bytes) -> String {
    if larger >= smaller {
        ["+", &(larger - smaller).short()].concat()
    } else {
        ["\u{2212}", &(smaller - larger).short()].concat()
    }
}

/// A need and what there is: `12.1 of 14.6 GiB`.
pub(crate) fn of(part: Bytes, whole: Bytes) -> String {
    spoken(&Sentence::of("{need}").with("need", Part::Of(part, whole)))
}

/// Whole per cent, with a space as in print: `61 %`; `<1 %` for a trace of something.
pub(crate) fn percent(part: Bytes, whole: Bytes) -> String {
    match part.parts_of(whole, 100) {
        0 if part > Bytes::ZERO => "<1\u{a0}%".to_owned(),
        percent => format!("{percent}\u{a0}%"),
    }
}

/// Share of a whole for drawing, in per cent.
pub(crate) fn share(part: Bytes, whole: Bytes) -> f64 {
    if whole.0 == 0 { 0.0 } else { 100.0 * float(part) / float(whole) }
}

/// A length as style sheets and pictures take it.
pub(crate) fn length(length: f64) -> String {
    format!("{length:.2}")
}

/// A verdict in words.
pub(crate) fn verdict(verdict: Verdict) -> String {
    tr(match verdict {
        Verdict::Fits => "fits",
        Verdict::LikelyFits => "likely fits",
        Verdict::FitsAfterFlush => "fits after cache flush",
        Verdict::NotKnown => "unknown",
        Verdict::LikelyDoesNotFit => "likely does not fit",
        Verdict::DoesNotFit => "does not fit",
    })
}

/// A verdict in one word.
pub(crate) fn verdict_short(verdict: Verdict) -> String {
    tr(match verdict {
        Verdict::FitsAfterFlush => "flushes",
        Verdict::LikelyDoesNotFit | Verdict::DoesNotFit => "too big",
        _ => return self::verdict(verdict),
    })
}

/// A verdict as a sign that needs no colour.
pub(crate) const fn verdict_symbol(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fits => "✓",
        Verdict::LikelyFits => "≈",
        Verdict::FitsAfterFlush => "↻",
        Verdict::NotKnown => "?",
        Verdict::LikelyDoesNotFit | Verdict::DoesNotFit => "✕",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(25_557_032), "25,557,032");
        assert_eq!(short_count(950), "950");
        assert_eq!(short_count(25_557_032), "25.6 M");
        assert_eq!(short_count(124_439_808), "124 M");
        assert_eq!(short_count(1_235_814_400), "1.2 B");
        assert_eq!(difference(Bytes::mib(1024), Bytes::mib(2048)), "\u{2212}1.00 GiB");
        assert_eq!(difference(Bytes::mib(20), Bytes::mib(10)), "+10.0 MiB");
        assert_eq!(percent(Bytes(0), Bytes(10)), "0\u{a0}%");
        assert_eq!(percent(Bytes(1), Bytes(1000)), "<1\u{a0}%");
        assert_eq!(percent(Bytes(615), Bytes(1000)), "62\u{a0}%");
        assert_eq!(percent(Bytes(1), Bytes(0)), "100\u{a0}%");
    }
}
