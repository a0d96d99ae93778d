//! Sizes of memory that people type.

use std::str::FromStr;

use crate::bytes::{Bytes, decimal};
use crate::error::{Error, ErrorKind};

/// A size as people write it: `23.6GiB`, `512 MiB`, or a plain number of bytes.
///
/// ```
/// use highwater_base::Bytes;
/// assert_eq!("1.5GiB".parse(), Ok(Bytes::mib(1536)));
/// assert_eq!("512 MiB".parse(), Ok(Bytes::mib(512)));
/// assert!("24GB".parse::<Bytes>().is_err());
/// ```
impl FromStr for Bytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        const UNITS: [(&str, u64); 6] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
            ("B", 1),
            ("", 1),
        ];
        let text = text.trim();
        let sized = UNITS.iter().find_map(|(name, unit)| {
            decimal(text.strip_suffix(name)?.trim_end(), *unit).map(|(bytes, _)| bytes)
        });
        sized.ok_or_else(|| {
            let message =
                say!("`{text}` is no size; write it as 23.6GiB, 512MiB or in bytes", text);
            Error::new(ErrorKind::BadConfig, message)
        })
    }
}
