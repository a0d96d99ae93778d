//! `PYTORCH_CUDA_ALLOC_CONF`, as PyTorch reads it: `max_split_size_mb:128,roundup_power2_divisions:4`.
//!
//! Grammar and checks are those of `c10/core/AllocatorConfig.cpp`, PyTorch 2.15.

use super::{LARGE_BUFFER, Settings};
use crate::bytes::Bytes;
use crate::error::{Error, ErrorKind};

/// What a text of settings asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conf {
    /// What of it is modelled.
    pub settings: Settings,
    /// What of it changes what is reserved and is not modelled, as it was written.
    pub not_modelled: Vec<String>,
}

impl Conf {
    /// Reads the variable's value.
    ///
    /// # Errors
    /// When PyTorch would refuse it as well.
    ///
    /// ```
    /// use highwater_core::{Bytes, allocator::Conf};
    /// let conf = Conf::read("max_split_size_mb:128,expandable_segments:True")?;
    /// assert_eq!(conf.settings.max_split_size, Some(Bytes::mib(128)));
    /// assert_eq!(conf.not_modelled, ["expandable_segments:True"]);
    /// # Ok::<(), highwater_core::Error>(())
    /// ```
    pub fn read(text: &str) -> Result<Self, Error> {
        let mut conf = Self::default();
        for setting in split(text) {
            let (name, value) = setting.split_once(':').ok_or_else(|| {
                refuse(format!(
                    "the allocator's setting `{setting}` has no value; write NAME:VALUE"
                ))
            })?;
            conf.set(name.trim(), value.trim())?;
        }
        Ok(conf)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let number = || -> Result<u64, Error> {
            value.parse().map_err(|error| refuse(format!("{name}:{value}: {error}")))
        };
        let settings = &mut self.settings;
        match name {
            "max_split_size_mb" => {
                let size = Bytes::mib(number()?);
                if size <= LARGE_BUFFER {
                    return Err(refuse(format!("{name}:{value}: it must be more than 20")));
                }
                settings.max_split_size = Some(size);
            }
            "max_non_split_rounding_mb" => settings.max_non_split_rounding = Bytes::mib(number()?),
            "large_segment_size_mb" => settings.large_segment_size = Bytes::mib(number()?),
            "roundup_power2_divisions" => match value.strip_prefix('[') {
                None => settings.roundup_power2_divisions.fill(division(name, value)?),
                Some(list) => {
                    divisions(&mut settings.roundup_power2_divisions, name, list)?;
                }
            },
            "expandable_segments" | "graph_capture_record_stream_reuse"
                if value.eq_ignore_ascii_case("false") => {}
            "backend" if value == "native" => {}
            // These change who frees and how, not what is reserved.
            "release_lock_on_cudamalloc"
            | "pinned_use_cuda_host_register"
            | "pinned_use_background_threads"
            | "pinned_num_register_threads" => {}
            _ => self.not_modelled.push(format!("{name}:{value}")),
        }
        Ok(())
    }
}

/// Settings, apart at commas that are in no list.
fn split(text: &str) -> Vec<&str> {
    let mut in_list = false;
    let apart = |letter: char| {
        in_list = (in_list || letter == '[') && letter != ']';
        letter == ',' && !in_list
    };
    text.split(apart).map(str::trim).filter(|setting| !setting.is_empty()).collect()
}

/// `256:1,512:2,>:4]`: from the octave of so many MiB on.
fn divisions(octaves: &mut [u64], name: &str, list: &str) -> Result<(), Error> {
    let mut last = 0;
    let mut first = true;
    for entry in list.trim_end_matches(']').split(',') {
        let (from, count) = entry
            .split_once(':')
            .ok_or_else(|| refuse(format!("{name}: `{entry}` is no pair such as 256:4")))?;
        let count = division(name, count.trim())?;
        if from.trim() == ">" {
            octaves.iter_mut().skip(last).for_each(|octave| *octave = count);
            continue;
        }
        let mib: u64 =
            from.trim().parse().map_err(|error| refuse(format!("{name}: {from}: {error}")))?;
        if !mib.is_power_of_two() {
            return Err(refuse(format!("{name}: {mib} is no power of two")));
        }
        let place = usize::try_from(mib.ilog2()).unwrap_or(0);
        last = place.min(octaves.len().saturating_sub(1));
        if std::mem::take(&mut first) {
            octaves.iter_mut().take(last).for_each(|octave| *octave = count);
        }
        if let Some(octave) = octaves.get_mut(last) {
            *octave = count;
        }
    }
    Ok(())
}

fn division(name: &str, text: &str) -> Result<u64, Error> {
    let count: u64 = text.parse().map_err(|error| refuse(format!("{name}:{text}: {error}")))?;
    if count > 0 && !count.is_power_of_two() {
        return Err(refuse(format!("{name}: {count} is no power of two")));
    }
    Ok(count)
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::BadConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_divisions_read_as_pytorch_reads_them() {
        let check = |text: &str, expected: [u64; 16]| {
            let conf = Conf::read(&format!("roundup_power2_divisions:{text}")).ok();
            assert_eq!(conf.map(|conf| conf.settings.roundup_power2_divisions), Some(expected));
        };
        check("4", [4; 16]);
        check("[1:2,>:8]", [8; 16]);
        check("[4:1,16:4]", [1, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        check("[256:1,512:2,1024:4,>:8]", [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8]);
    }

    #[test]
    fn what_pytorch_refuses_is_refused() {
        for text in [
            "max_split_size_mb:20",
            "max_split_size_mb:many",
            "max_split_size_mb",
            "roundup_power2_divisions:3",
            "roundup_power2_divisions:[3:1]",
            "roundup_power2_divisions:[4]",
        ] {
            assert!(Conf::read(text).is_err(), "{text}");
        }
        for text in ["", " ", ",", "expandable_segments:False", "backend:native"] {
            assert_eq!(Conf::read(text), Ok(Conf::default()), "{text}");
        }
    }
}
