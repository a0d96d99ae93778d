//! Reads decimal fractions from text.

/// The number that a word begins with.
///
/// Up to sixteen digits and a power of ten that both are exact
/// leave one rounding, the same as in `strtod`; the standard library's reader brings tables of ten
/// kilobytes, which the page would have to carry for this alone.
#[expect(
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    clippy::as_conversions,
    reason = "whole numbers below 2^53, as PyTorch takes them"
)]
pub fn prefix(word: &str) -> Option<f64> {
    let (mut digits, mut places, mut is_behind, mut is_number) = (0_u64, 0_i32, false, false);
    let mut letters = word.chars();
    let mut last = letters.next();
    while let Some(letter) = last {
        match letter.to_digit(10) {
            Some(digit) => {
                is_number = true;
                let more = digits.saturating_mul(10).saturating_add(u64::from(digit));
                let fits = more < 1 << 53;
                digits = if fits { more } else { digits };
                // A digit that is left out counts where it stands before the point.
                places = places.saturating_add(i32::from(is_behind && fits));
                places = places.saturating_sub(i32::from(!is_behind && !fits));
            }
            None if letter == '.' && !is_behind => is_behind = true,
            None => break,
        }
        last = letters.next();
    }
    let exponent = letters.as_str().trim_start_matches('+');
    let exponent = exponent.split(|c: char| c != '-' && !c.is_ascii_digit()).next();
    if matches!(last, Some('e' | 'E')) {
        let exponent = exponent.and_then(|exponent| exponent.parse().ok()).unwrap_or(0);
        places = places.saturating_sub(exponent);
    }
    let power = (0..places.unsigned_abs().min(400)).fold(1.0, |power, _| power * 10.0);
    let number = if places < 0 { digits as f64 * power } else { digits as f64 / power };
    is_number.then_some(number)
}

/// The number that a word is: as [`str::parse`] reads it, but for the last place of those with more than
/// fifteen digits.
pub fn number(word: &str) -> Option<f64> {
    let (is_negative, size) = word.strip_prefix('-').map_or((false, word), |size| (true, size));
    let is_digit =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+');
    let number = match size {
        "inf" => f64::INFINITY,
        "nan" => f64::NAN,
        _ => prefix(size).filter(|_| size.bytes().all(is_digit))?,
    };
    Some(number.copysign(if is_negative { -1.0 } else { 1.0 }))
}

#[cfg(test)]
mod tests {
    use super::{number, prefix};

    #[test]
    fn numbers_read_as_the_standard_library_reads_them() {
        for word in
            ["0.8", "0", ".5", "1", "0.333333333333", "9e-1", "5E-1", "0.05e1", "1e-30", "12.75"]
        {
            assert_eq!(prefix(word), word.parse().ok(), "{word}");
        }
        assert_eq!(prefix("0.5x"), Some(0.5));
        assert_eq!(prefix("5."), Some(5.0));
        for word in ["", ".", "x", "e5", "-"] {
            assert_eq!(prefix(word), None, "{word}");
        }
    }

    #[test]
    fn whole_words_have_a_sign() {
        for word in ["-8.478373527526855", "1e-05", "0.1", "-inf", "3", "1e-30"] {
            assert_eq!(number(word), word.parse().ok(), "{word}");
        }
        for word in ["", "-", "0.5x", "five"] {
            assert_eq!(number(word), None, "{word}");
        }
    }
}
