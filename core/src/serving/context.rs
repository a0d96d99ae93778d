//! Numbers of tokens as people write them.

/// COUNT: the tokens that a text such as `16k` or `16384` states; `k` is 1024, `m` its square.
///
/// ```
/// use highwater_core::serving::tokens;
/// assert_eq!([tokens("16k"), tokens("8192"), tokens("1M")], [Some(16_384), Some(8192), Some(1 << 20)]);
/// assert_eq!([tokens("-1"), tokens("k"), tokens("0")], [None; 3]);
/// ```
pub fn tokens(text: &str) -> Option<u64> {
    let text = text.trim().replace([',', '_'], "").to_ascii_lowercase();
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('m').map_or((text.as_str(), 1), |digits| (digits, 1 << 20)),
    };
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let count = digits.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(unit)?;
    (count > 0).then_some(count)
}
