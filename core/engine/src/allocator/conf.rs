//! `PYTORCH_CUDA_ALLOC_CONF`, as PyTorch reads it: `max_split_size_mb:128,roundup_power2_divisions:4`.
//!
//! Grammar and checks are those of `c10/core/AllocatorConfig.cpp` and `c10/cuda/CUDAAllocatorConfig.cpp`, PyTorch
//! 2.15. The text is split at `,`, `:`, `[` and `]`, and blanks are ignored. Any token in the place of a separator
//! is accepted, numbers end at the first letter, and the token after a value is another name.

use super::{MIN_LARGE_ALLOC, Settings};
use crate::bytes::Bytes;
use crate::decimal;
use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;

/// What a text of settings asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conf {
    /// What does not depend on the device.
    settings: Settings,
    /// `garbage_collection_threshold`: of what may be reserved.
    threshold: Option<f64>,
    /// `per_process_memory_fraction`: of the device.
    fraction: Option<f64>,
    /// `throw_on_cudamalloc_oom`.
    rejects: bool,
    /// What of it changes what is reserved and is not modelled, as it was written.
    pub not_modelled: Vec<String>,
}

impl Conf {
    /// Reads the variable's value; its name may stand before it.
    ///
    /// # Errors
    /// When PyTorch would refuse it as well.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// use highwater_engine::allocator::Conf;
    /// let conf = Conf::read("PYTORCH_ALLOC_CONF=max_split_size_mb:128,backend:cudaMallocAsync")?;
    /// let settings = conf.on(Some(Bytes::mib(24_000)), None);
    /// assert_eq!(settings.max_split_size, Some(Bytes::mib(128)));
    /// assert_eq!(conf.not_modelled, ["backend:cudaMallocAsync"]);
    /// # Ok::<(), highwater_base::Error>(())
    /// ```
    pub fn read(text: &str) -> Result<Self, Error> {
        let text: String = text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
        let tokens = tokens(value_of(&text));
        let mut conf = Self::default();
        // The size of segments comes first wherever it stands, because others are checked by it.
        for only_segments in [true, false] {
            let mut words = Words { tokens: &tokens, name: "" };
            while let Some(name) = words.next() {
                words.name = name;
                words.separator()?;
                if (name == "large_segment_size_mb") == only_segments {
                    conf.set(&mut words)?;
                } else {
                    words.pass()?;
                }
                words.next();
            }
        }
        Ok(conf)
    }

    /// The settings on a device of this capacity, where one is known, for a process that may
    /// reserve so much, where it is limited: by this, or else by `per_process_memory_fraction`.
    pub fn on(&self, capacity: Option<Bytes>, allowed: Option<Bytes>) -> Settings {
        let of = |whole: Option<Bytes>, part: Option<f64>| Some(share(whole?, part?));
        let allowed = allowed.or_else(|| of(capacity, self.fraction));
        Settings {
            allowed,
            collect_above: of(allowed, self.threshold),
            reject_above: of(capacity, self.rejects.then(|| self.fraction.unwrap_or(1.0))),
            address_space: capacity.map(|bytes| bytes + Bytes(bytes.0.div_euclid(8))),
            ..self.settings
        }
    }

    fn set(&mut self, words: &mut Words<'_>) -> Result<(), Error> {
        let name = words.name;
        let settings = &mut self.settings;
        match name {
            "large_segment_size_mb" => {
                let size = words.mib()?;
                if size <= MIN_LARGE_ALLOC {
                    return Err(words.refuse(&say!("it must be more than 10")));
                }
                (settings.large_segment_size, settings.max_non_split_rounding) = (size, size);
            }
            "max_split_size_mb" => {
                settings.max_split_size = Some(words.at_least(settings.large_segment_size)?);
            }
            "max_non_split_rounding_mb" => {
                settings.max_non_split_rounding = words.at_least(settings.large_segment_size)?;
            }
            "roundup_power2_divisions" => divisions(&mut settings.roundup_power2_divisions, words)?,
            "garbage_collection_threshold" => {
                let threshold = words.fraction()?;
                if !(threshold > 0.0 && threshold < 1.0) {
                    return Err(words.refuse(&say!("it must be more than 0 and less than 1")));
                }
                self.threshold = Some(threshold);
            }
            "per_process_memory_fraction" => {
                let fraction = words.fraction()?;
                if !(0.0..=1.0).contains(&fraction) {
                    return Err(words.refuse(&say!("it must be at least 0 and at most 1")));
                }
                self.fraction = Some(fraction);
            }
            "expandable_segments" => settings.expandable_segments = words.truth()?,
            "throw_on_cudamalloc_oom" => self.rejects = words.truth()?,
            "backend" => match words.value()? {
                "native" => {}
                value @ "cudaMallocAsync" => self.not_modelled.push(format!("{name}:{value}")),
                _ => return Err(words.refuse(&say!("it is native or cudaMallocAsync"))),
            },
            _ => self.set_other(words)?,
        }
        Ok(())
    }

    /// What changes who frees and how, or the host's memory, but not what is reserved; and what is
    /// not modelled.
    fn set_other(&mut self, words: &mut Words<'_>) -> Result<(), Error> {
        let name = words.name;
        match name {
            "release_lock_on_cudamalloc"
            | "release_lock_on_hipmalloc"
            | "pinned_use_cuda_host_register"
            | "pinned_use_hip_host_register"
            | "pinned_use_background_threads"
            | "pinned_free_catch_all" => {
                words.truth()?;
            }
            "graph_capture_record_stream_reuse" => {
                if words.truth()? {
                    self.not_modelled.push(format!("{name}:True"));
                }
            }
            "pinned_max_round_threshold_mb" | "pinned_max_cached_size_mb" => {
                words.number()?;
            }
            "pinned_num_register_threads" => {
                let threads = words.number()?;
                if !threads.is_power_of_two() || threads > 128 {
                    return Err(words.refuse(&say!("it must be a power of two, at most 128")));
                }
            }
            "pinned_reserve_segment_size_mb" => {
                if words.number()? == 0 {
                    return Err(words.refuse(&say!("it must be more than 0")));
                }
            }
            "expandable_segments_reserve" => {
                let value = words.value()?;
                self.not_modelled.push(format!("{name}:{value}"));
            }
            "expandable_segments_reserve_by_class" => {
                while words.value()? != "]" {}
                self.not_modelled.push(name.to_owned());
            }
            _ => return Err(refuse(say!("PyTorch knows no allocator setting `{name}`", name))),
        }
        Ok(())
    }
}

/// The text behind `PYTORCH_CUDA_ALLOC_CONF=`, as a shell takes it.
fn value_of(text: &str) -> &str {
    let text = text.strip_prefix("export").unwrap_or(text);
    let names = ["PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF="];
    let value = names.iter().find_map(|name| text.strip_prefix(name)).unwrap_or(text);
    value.trim_matches(['"', '\''])
}

/// Names, values and separators, apart.
fn tokens(text: &str) -> Vec<&str> {
    let is_separator = |letter: char| matches!(letter, ',' | ':' | '[' | ']');
    let parts = text.split_inclusive(is_separator).flat_map(|part| {
        let end = part.strip_suffix(is_separator).map_or(part.len(), str::len);
        let (word, separator) = part.split_at(end);
        [word, separator]
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// A share of so many bytes, in PyTorch's own arithmetic.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_arithmetic,
    reason = "PyTorch's own arithmetic: the result is what it computes, to the byte"
)]
fn share(whole: Bytes, part: f64) -> Bytes {
    Bytes((part * whole.0 as f64) as u64)
}

/// What is left to read, and of which setting.
struct Words<'a> {
    tokens: &'a [&'a str],
    name: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }
}

impl<'a> Words<'a> {
    fn value(&mut self) -> Result<&'a str, Error> {
        self.next().ok_or_else(|| {
            refuse(say!("the allocator's setting `{name}` has no value", name = self.name))
        })
    }

    fn separator(&mut self) -> Result<(), Error> {
        self.value().map(|_| ())
    }

    /// Passes over a value, or a list.
    fn pass(&mut self) -> Result<(), Error> {
        let mut word = self.value()?;
        let is_list = word == "[";
        while is_list && word != "]" {
            word = self.value()?;
        }
        Ok(())
    }

    /// `std::stoull`: digits up to the first letter; a minus counts from the largest number down.
    fn number(&mut self) -> Result<u64, Error> {
        let word = self.value()?;
        let digits = word.trim_start_matches(['-', '+']);
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        let number = digits.get(..end).and_then(|digits| digits.parse::<u64>().ok());
        match number {
            Some(number) if word.len().saturating_sub(digits.len()) <= 1 => {
                Ok(if word.starts_with('-') { 0_u64.wrapping_sub(number) } else { number })
            }
            _ => Err(self.refuse(&say!("`{word}` is no number", word))),
        }
    }

    fn mib(&mut self) -> Result<Bytes, Error> {
        const MOST: u64 = u64::MAX >> 20;
        Ok(Bytes::mib(self.number()?.min(MOST)))
    }

    /// So many MiB, and as large as a segment.
    fn at_least(&mut self, least: Bytes) -> Result<Bytes, Error> {
        let size = self.mib()?;
        if size < least {
            return Err(self.refuse(&say!("it must be at least {least}", least = least.0 >> 20)));
        }
        Ok(size)
    }

    /// `std::stod`: as much of the word as reads as a number.
    fn fraction(&mut self) -> Result<f64, Error> {
        let word = self.value()?;
        decimal::prefix(word).ok_or_else(|| self.refuse(&say!("`{word}` is no number", word)))
    }

    fn truth(&mut self) -> Result<bool, Error> {
        match self.value()? {
            "True" => Ok(true),
            "False" => Ok(false),
            word => Err(self.refuse(&say!("it is True or False, not `{word}`", word))),
        }
    }

    fn division(&mut self) -> Result<u64, Error> {
        let count = self.number()?;
        if count > 0 && !count.is_power_of_two() {
            return Err(self.refuse(&say!("{count} is no power of two", count)));
        }
        Ok(count)
    }

    fn refuse(&self, why: &Sentence) -> Error {
        refuse(say!("the allocator's setting `{name}`: {why}", name = self.name, why))
    }
}

/// `4`, or from the octave of so many MiB on: `[256:1,512:2,>:4]`.
fn divisions(octaves: &mut [u64], words: &mut Words<'_>) -> Result<(), Error> {
    if words.tokens.first() != Some(&"[") {
        let count = words.division()?;
        if count == 0 {
            return Err(words.refuse(&say!("0 is no power of two")));
        }
        octaves.fill(count);
        return Ok(());
    }
    words.value()?;
    let mut last = 0_usize;
    let mut first = true;
    while words.tokens.first().is_some_and(|word| *word != "]") {
        let mut from = Words { ..*words };
        words.value()?;
        words.separator()?;
        let count = words.division()?;
        if from.tokens.first() == Some(&">") {
            let behind = octaves.iter_mut().skip(last.saturating_add(1));
            behind.for_each(|octave| *octave = count);
        } else {
            let mib = from.number()?;
            if !mib.is_power_of_two() {
                return Err(words.refuse(&say!("{mib} is no power of two", mib)));
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
        if words.tokens.first().is_some_and(|word| *word != "]") {
            words.next();
        }
    }
    words.separator()
}

fn refuse(message: Sentence) -> Error {
    Error::new(ErrorKind::BadConfig, message).about("alloc-conf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_name_may_stand_before_its_value() {
        let conf = Conf::read("max_split_size_mb:64");
        assert!(conf.is_ok());
        for text in [
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64",
            "PYTORCH_ALLOC_CONF=max_split_size_mb:64",
            "export PYTORCH_CUDA_ALLOC_CONF='max_split_size_mb:64'",
            "PYTORCH_CUDA_ALLOC_CONF=\"max_split_size_mb: 64\"",
        ] {
            assert_eq!(Conf::read(text), conf, "{text}");
        }
    }

    #[test]
    fn lists_of_divisions_read_as_pytorch_reads_them() {
        let check = |text: &str, expected: [u64; 16]| {
            let conf = Conf::read(&format!("roundup_power2_divisions:{text}"));
            let settings = conf.map(|conf| conf.on(None, None).roundup_power2_divisions);
            assert_eq!(settings, Ok(expected), "{text}");
        };
        check("4", [4; 16]);
        check("[1:2,>:8]", [2, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]);
        check("[4:1,16:4]", [1, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        check("[256:1,512:2,1024:4,>:8]", [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8]);
    }

    #[test]
    fn shares_are_of_what_may_be_reserved() {
        let conf = Conf::read("garbage_collection_threshold:0.8,per_process_memory_fraction:0.5");
        let on = |allowed| {
            let settings = conf.clone().map(|conf| conf.on(Some(Bytes(1000)), allowed));
            settings.map(|settings| (settings.allowed, settings.collect_above))
        };
        assert_eq!(on(None), Ok((Some(Bytes(500)), Some(Bytes(400)))));
        assert_eq!(on(Some(Bytes(300))), Ok((Some(Bytes(300)), Some(Bytes(240)))));
    }
}
