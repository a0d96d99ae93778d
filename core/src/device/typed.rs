//! Devices as people type them: `3090`, `RTX4090`, `A100-SXM4-80GB`.

use super::{Device, all, lookup, slices};
use crate::error::{Error, ErrorKind};
use crate::near::distance;
use crate::order::InOrder as _;
use crate::sentence::Sentence;

/// Words that tell no model of GPU from another.
const EMPTY: [&str; 8] = ["nvidia", "geforce", "tesla", "quadro", "rtx", "gtx", "gpu", "gb"];

/// Forms of a board, which names of the table have only where they matter.
const FORMS: [&str; 5] = ["pcie", "sxm", "sxm2", "sxm4", "sxm5"];

/// What is no GPU of NVIDIA: how its words begin, and why it is not modelled.
const OTHERS: [(&[&str], Sentence); 5] = [
    (
        &["apple", "mps", "m1", "m2", "m3", "m4", "m5"],
        Sentence::of(
            "Apple GPUs are not modelled: PyTorch's mps backend has kernels and an allocator of its own, and shares the \
             memory with the system",
        ),
    ),
    (
        &["amd", "mi", "instinct", "radeon", "rx", "7900", "9070", "gfx"],
        Sentence::of(
            "AMD GPUs are not modelled: ROCm runs other kernels, whose workspaces nobody has recorded",
        ),
    ),
    (
        &["tpu", "v2", "v3", "v4", "v5", "v5e", "v5p", "v6e"],
        Sentence::of("TPUs are not modelled: XLA compiles the whole step and plans its memory"),
    ),
    (
        &["intel", "arc", "gaudi", "hpu", "xpu", "max"],
        Sentence::of(
            "Intel's GPUs and Gaudi are not modelled: their backends run other kernels, whose workspaces nobody has \
             recorded",
        ),
    ),
    (
        &["cpu"],
        Sentence::of("a CPU is not modelled: the answer is about the memory of a CUDA device"),
    ),
];

/// The device that people call so; its id works in any case.
///
/// ```
/// use highwater_core::device;
/// let id = |text| device::typed(text).map(|device| device.id).ok();
/// assert_eq!(id("3090"), Some("rtx-3090"));
/// assert_eq!(id("NVIDIA A100-SXM4-80GB"), Some("a100-80gb"));
/// assert_eq!(id("H100 SXM 3g.40gb"), Some("h100-80gb-3g.40gb"));
/// assert_eq!(id("a100"), None);
/// ```
///
/// # Errors
/// When it is the name of several devices, which the message lists, or of none.
pub fn typed(text: &str) -> Result<&'static Device, Error> {
    let text = text.trim();
    if let Some(device) = lookup(text) {
        return Ok(device);
    }
    if let Some((card, profile)) =
        text.rsplit_once([':', ' ', '-']).filter(|(_, end)| is_profile(end))
    {
        return slice(typed(card)?, profile);
    }
    let wanted = words(text);
    let known = |device: &&Device| {
        let own = words_of(device);
        wanted.iter().all(|word| own.contains(word) || FORMS.contains(&word.as_str()))
    };
    let candidates: Vec<&Device> =
        all().iter().filter(|device| !wanted.is_empty() && known(device)).collect();
    // All that tells a device from others has to be there; more of it is better: an H100 PCIe is an H100.
    let is_whole = |device: &&&Device| {
        device.words.iter().all(|word| wanted.iter().any(|wanted| wanted == word))
    };
    let most = candidates.iter().filter(is_whole).map(|device| device.words.len()).max();
    let whole: Vec<&Device> = candidates
        .iter()
        .filter(is_whole)
        .filter(|device| Some(device.words.len()) == most)
        .copied()
        .collect();
    match (whole.as_slice(), candidates.as_slice()) {
        ([one], _) | ([], [one]) => Ok(one),
        ([], []) => Err(Error::new(ErrorKind::BadConfig, unknown(text, &wanted))),
        ([], several) | (several, _) => {
            let ids: Vec<_> = several.iter().map(|device| device.id).collect();
            let message =
                say!("`{text}` may be any of {ids}: choose one", text, ids = ids.join(", "));
            Err(Error::new(ErrorKind::BadConfig, message))
        }
    }
}

/// Whether it is the name of a profile of MIG, such as `3g.40gb`.
fn is_profile(text: &str) -> bool {
    let parts = text.split_once(['g', 'G']);
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|one| one.is_ascii_digit());
    parts.is_some_and(|(compute, memory)| is_number(compute) && memory.starts_with('.'))
}

/// The slice of a card that has this profile.
fn slice(card: &Device, profile: &str) -> Result<&'static Device, Error> {
    let named = |device: &&Device| device.nameplate.eq_ignore_ascii_case(profile);
    slices(card.id).find(named).ok_or_else(|| {
        let known: Vec<_> = slices(card.id).map(|device| device.nameplate).collect();
        let message = if known.is_empty() {
            say!("MIG does not divide {card}, so it has no `{profile}`", card = card.name, profile)
        } else {
            let known = known.join(", ");
            say!(
                "{card} has no profile `{profile}`; it has {known}",
                card = card.name,
                profile,
                known
            )
        };
        Error::new(ErrorKind::BadConfig, message)
    })
}

/// That there is no such device, and why, or which are nearest.
fn unknown(text: &str, wanted: &[String]) -> Sentence {
    /// COUNT: devices that are offered.
    const OFFERED: usize = 3;
    let is_of = |starts: &[&str]| {
        wanted.iter().any(|word| {
            // `mi300x` is of the kind `mi`.
            let kind = word.split(|letter: char| letter.is_ascii_digit()).next();
            starts.iter().any(|start| word == start || kind == Some(start))
        })
    };
    if let Some((_, why)) = OTHERS.iter().find(|(starts, _)| is_of(starts)) {
        return say!("unknown device `{text}`: {why}", text, why = why.clone());
    }
    let squeezed = wanted.concat();
    let mut near: Vec<&Device> = all().iter().collect();
    near.order_by_key(|device| distance(&squeezed, &device.words.concat()));
    let near: Vec<_> = near.iter().take(OFFERED).map(|device| device.id).collect();
    say!(
        "unknown device `{text}`; near are {near}, and `highwater devices` lists all. For another NVIDIA GPU, choose one \
         of its generation and set `--capacity`",
        text,
        near = near.join(", ")
    )
}

/// The words of a name: `RTX4090-24G` is `4090` and `24gb`, and `2080ti` is `2080` and `ti`.
fn words(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let parts = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut words: Vec<String> = Vec::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let part = ["rtx", "gtx"].iter().find_map(|start| part.strip_prefix(start)).unwrap_or(part);
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match (part.strip_suffix("ti"), part.strip_suffix('g')) {
            (Some(number), _) if is_number(number) => {
                words.extend([number.to_owned(), "ti".to_owned()]);
            }
            (_, Some(number)) if is_number(number) => words.push(format!("{number}gb")),
            _ => words.push(part.to_owned()),
        }
    }
    words.retain(|word| !word.is_empty() && !EMPTY.contains(&word.as_str()));
    words
}

/// The words that a device may be called by: of its id and name, and its memory.
fn words_of(device: &Device) -> Vec<String> {
    let memory = device.nameplate.replace(' ', "");
    words(&format!("{} {} {} {memory}", device.id, device.name, device.nameplate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_as_people_type_them() {
        let check = |text: &str, expected: Result<&str, &str>| match (typed(text), expected) {
            (Ok(device), Ok(id)) => assert_eq!(device.id, id, "{text}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{text}: {error}");
            }
            (found, _) => panic!("{text}: {found:?}"),
        };
        for (text, id) in [
            ("a100-80gb", "a100-80gb"),
            ("3090", "rtx-3090"),
            ("rtx4090", "rtx-4090"),
            ("RTX 4090 24GB", "rtx-4090"),
            ("2080ti", "rtx-2080-ti"),
            ("A100 80GB", "a100-80gb"),
            ("a100-80g", "a100-80gb"),
            ("A100_40", "a100-40gb"),
            ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
            ("A100 PCIe 80GB", "a100-80gb"),
            ("Tesla T4", "t4"),
            ("h100", "h100-80gb"),
            ("H100 PCIe", "h100-pcie"),
            ("a6000", "rtx-a6000"),
            ("6000 ada", "rtx-6000-ada"),
            ("gh200", "gh200-96gb"),
        ] {
            check(text, Ok(id));
        }
        for (text, part) in [
            ("a100", "any of a100-40gb, a100-80gb"),
            ("V100", "any of v100-16gb, v100-32gb"),
            ("rtx 6000", "any of rtx-6000-ada, rtx-pro-6000"),
            ("3080", "near are rtx-"),
            ("", "unknown device"),
            ("Apple M2", "Apple GPUs are not modelled"),
            ("m1", "Apple GPUs are not modelled"),
            ("MI300X", "AMD GPUs are not modelled"),
            ("mi250", "AMD GPUs are not modelled"),
            ("tpu-v4", "TPUs are not modelled"),
            ("Gaudi2", "Intel's GPUs and Gaudi are not modelled"),
            ("Arc A770", "Intel's GPUs and Gaudi are not modelled"),
            ("cpu", "a CPU is not modelled"),
        ] {
            check(text, Err(part));
        }
    }

    /// No two devices answer to one name.
    #[test]
    fn every_device_is_found_by_its_name() {
        for device in all() {
            assert_eq!(typed(device.name).ok(), Some(device), "{device}");
        }
    }
}
