//! [`Versions`]: which release of each library a recipe is for. Defaults moved between releases.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A release: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release(pub(super) u16, pub(super) u16);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Release {
    type Err = ();

    /// `4.46`, `4.46.3`, `2.9.0+cu128`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let major = parts.next().and_then(|part| part.parse().ok()).ok_or(())?;
        let minor = parts.next().ok_or(())?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        let minor = minor.get(..digits).and_then(|part| part.parse().ok()).ok_or(())?;
        Ok(Self(major, minor))
    }
}

/// A library whose version decides about a default, and the newest whose defaults are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Library {
    Torch,
    Transformers,
    Trl,
    Peft,
    Axolotl,
    LlamaFactory,
    Torchtune,
    Unsloth,
    Accelerate,
    DeepSpeed,
    Lightning,
    Torchtitan,
}

/// The library, the words that stand for it in a text, what people call it, and its newest release that was read.
const LIBRARIES: [(Library, &[&str], &str, Release); 12] = [
    (Library::Torch, &["torch", "pytorch"], "PyTorch", Release(2, 15)),
    (
        Library::Transformers,
        &["transformers", "transformers_version"],
        "transformers",
        Release(5, 24),
    ),
    (Library::Trl, &["trl"], "TRL", Release(1, 16)),
    (Library::Peft, &["peft"], "PEFT", Release(0, 21)),
    (Library::Axolotl, &["axolotl"], "axolotl", Release(0, 18)),
    (Library::LlamaFactory, &["llamafactory", "llama-factory"], "LLaMA-Factory", Release(0, 9)),
    (Library::Torchtune, &["torchtune"], "torchtune", Release(0, 6)),
    (Library::Unsloth, &["unsloth"], "unsloth", Release(2026, 10)),
    (Library::Accelerate, &["accelerate"], "accelerate", Release(1, 15)),
    (Library::DeepSpeed, &["deepspeed"], "DeepSpeed", Release(0, 18)),
    (
        Library::Lightning,
        &["lightning", "pytorch-lightning", "pytorch_lightning"],
        "Lightning",
        Release(2, 6),
    ),
    (Library::Torchtitan, &["torchtitan"], "torchtitan", Release(0, 2)),
];

/// What one release requires of another library: from this release on, the newest that it can be installed with.
/// From the metadata of the packages: TRL 0.12 requires transformers below 4.47, axolotl 0.18 requires 5.14.
const REQUIRED: [(Library, Release, Library, Release); 7] = [
    (Library::Trl, Release(0, 0), Library::Transformers, Release(4, 46)),
    (Library::Trl, Release(0, 13), Library::Transformers, Release(4, 57)),
    (Library::Trl, Release(0, 27), Library::Transformers, Release(5, 24)),
    (Library::Axolotl, Release(0, 0), Library::Transformers, Release(4, 57)),
    (Library::Axolotl, Release(0, 18), Library::Transformers, Release(5, 14)),
    (Library::LlamaFactory, Release(0, 0), Library::Transformers, Release(4, 57)),
    (Library::LlamaFactory, Release(0, 9), Library::Transformers, Release(5, 6)),
];

impl Library {
    /// What people call it.
    pub(super) fn name(self) -> &'static str {
        LIBRARIES.iter().find(|row| row.0 == self).map_or("", |row| row.2)
    }

    fn newest(self) -> Release {
        LIBRARIES.iter().find(|row| row.0 == self).map_or(Release(0, 0), |row| row.3)
    }
}

/// The releases that a recipe states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    stated: BTreeMap<Library, Release>,
}

impl Versions {
    /// Those that a text states: `# trl 0.12, transformers 4.46`, `pip install trl==0.12`, `"transformers_version": "4.46"`.
    pub(super) fn of(text: &str) -> Self {
        let mut stated = BTreeMap::new();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        let mut words = text.split_inclusive(|c: char| !is_part(c)).peekable();
        while let Some(piece) = words.next() {
            let word = piece.trim_end_matches(|c: char| !is_part(c)).to_ascii_lowercase();
            let row = LIBRARIES.iter().find(|row| row.1.contains(&word.as_str()));
            let Some((library, ..)) = row else { continue };
            // `==`, `: "` and blanks may stand between the name and the number.
            let is_between = |piece: &str| piece.chars().all(|c| " =~<>\"':^".contains(c));
            if !piece.ends_with(|c: char| is_between(c.encode_utf8(&mut [0; 4]))) {
                continue;
            }
            while words.next_if(|piece| is_between(piece)).is_some() {}
            let Some(next) = words.peek() else { break };
            let number = next.trim_start_matches('v').trim_end_matches(|c: char| !is_part(c));
            if number.starts_with(|c: char| c.is_ascii_digit())
                && let Ok(release) = number.parse()
            {
                stated.entry(*library).or_insert(release);
            }
        }
        Self { stated }
    }

    /// The same, for a release of PyTorch that the user states.
    pub(super) fn with_torch(mut self, release: Option<Release>) -> Self {
        self.stated.extend(release.map(|release| (Library::Torch, release)));
        self
    }

    /// Whether the recipe states it.
    pub(super) fn states(&self, library: Library) -> bool {
        self.stated.contains_key(&library)
    }

    /// The release of a library: as stated, as another requires it, or the newest.
    pub(super) fn release(&self, library: Library, tool: Library) -> Release {
        if let Some(release) = self.stated.get(&library) {
            return *release;
        }
        if library != tool {
            let of_tool = self.release(tool, tool);
            let rows = REQUIRED.iter().filter(|row| row.0 == tool && row.2 == library);
            if let Some(row) = rows.rev().find(|row| row.1 <= of_tool) {
                return row.3;
            }
        }
        library.newest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_states_versions() {
        for (text, library, release) in [
            ("# trl 0.12, transformers 4.46", Library::Trl, Some(Release(0, 12))),
            ("# trl 0.12, transformers 4.46", Library::Transformers, Some(Release(4, 46))),
            ("pip install \"trl==1.4.0\" torch>=2.8", Library::Torch, Some(Release(2, 8))),
            ("{\"transformers_version\": \"4.46.3\"}", Library::Transformers, Some(Release(4, 46))),
            ("# unsloth 2026.10.9 + trl\n", Library::Unsloth, Some(Release(2026, 10))),
            ("from trl import SFTConfig\nx = 1.5", Library::Trl, None),
            ("import torch\n0.5", Library::Torch, None),
        ] {
            assert_eq!(Versions::of(text).stated.get(&library), release.as_ref(), "{text}");
        }
    }

    #[test]
    fn one_library_requires_another() {
        let of = |text: &str, tool| Versions::of(text).release(Library::Transformers, tool);
        assert_eq!(of("trl 0.12", Library::Trl), Release(4, 46));
        assert_eq!(of("trl 0.12, transformers 4.40", Library::Trl), Release(4, 40));
        assert_eq!(of("", Library::Axolotl), Release(5, 14));
        assert_eq!(of("", Library::Transformers), Release(5, 24));
    }
}
