//! [`Depth`]: activations over time, from the first modules that run to the last.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::alive::{by_module, module_of};
use super::owners::{Ledger, Owner, largest, prefix};
use crate::bytes::Bytes;
use crate::trace::{Category, StorageId, Trace};

/// COUNT: bands, at most.
const BANDS: usize = 6;
/// COUNT: modules that are merged pair by pair; of more, neighbours are taken together before.
const MODULES: usize = 64;
/// The least share of a band that makes a module one of its names: one part in so many.
const NAMED: u64 = 20;

/// What the activations of neighbouring modules have over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// Path of the last of its modules that has a part worth naming; the first is the owner's.
    pub last: String,
    /// The first of them, and the bytes of all.
    pub owner: Owner,
}

/// Neighbouring modules, with the bytes of their activations at the peak.
#[derive(Clone, Debug, Default)]
struct Run<'a> {
    modules: Vec<(&'a str, Bytes)>,
    bytes: Bytes,
}

impl Run<'_> {
    /// The first and the last module with a part worth naming.
    fn names(&self) -> (&str, &str) {
        let is_large = |&&(_, bytes): &&(&str, Bytes)| bytes.times(NAMED) >= self.bytes;
        let mut large = self.modules.iter().filter(is_large).map(|&(module, _)| module);
        let first = large.next().unwrap_or_default();
        (first, large.next_back().unwrap_or(first))
    }
}

/// The bands of a trace, of which these storages are alive at the peak, and a ledger for them.
pub(super) struct Bands {
    names: Vec<(String, String)>,
    pub(super) ledger: Ledger,
}

impl Bands {
    /// In the order in which modules first keep an activation; one band alone is none.
    pub(super) fn new(trace: &Trace, alive: &[(StorageId, usize)]) -> Self {
        let is_activation = |id: StorageId| {
            trace.storages.get(id.index()).is_some_and(|it| it.category == Category::Activation)
        };
        let alive: Vec<_> = alive.iter().copied().filter(|&(id, _)| is_activation(id)).collect();
        let (parts, _) = largest(&by_module(trace, &alive));
        let mut places = BTreeMap::<&str, usize>::new();
        let mut modules: Vec<(&str, Bytes)> = Vec::new();
        let mut of: Vec<Option<usize>> = Vec::with_capacity(trace.storages.len());
        for storage in &trace.storages {
            of.push((storage.category == Category::Activation).then(|| {
                let path = prefix(module_of(trace, storage), parts);
                *places.entry(path).or_insert_with(|| {
                    modules.push((path, Bytes::ZERO));
                    modules.len().saturating_sub(1)
                })
            }));
        }
        for (id, _) in &alive {
            let module = of.get(id.index()).copied().flatten().and_then(|at| modules.get_mut(at));
            if let (Some(module), Some(storage)) = (module, trace.storages.get(id.index())) {
                module.1 += storage.requested;
            }
        }
        let runs = runs(&modules);
        let runs = if runs.len() > 1 { runs } else { Vec::new() };
        let mut bands = Vec::with_capacity(modules.len());
        for (band, run) in runs.iter().enumerate() {
            bands.extend(run.modules.iter().map(|_| band));
        }
        for place in &mut of {
            *place = place.and_then(|module| bands.get(module).copied());
        }
        let names: Vec<_> = runs
            .iter()
            .map(|run| {
                let (first, last) = run.names();
                (first.to_owned(), last.to_owned())
            })
            .collect();
        let ledger = Ledger::of(of, names.iter().map(|(first, _)| first.clone()));
        Self { names, ledger }
    }

    /// The bands, from the first modules to the last.
    pub(super) fn close(self) -> Vec<Depth> {
        let lasts = self.names.into_iter().map(|(_, last)| last);
        let owners = self.ledger.into_owners().into_iter();
        owners.zip(lasts).map(|(owner, last)| Depth { last, owner }).collect()
    }
}

/// Modules in their order, as a few runs of neighbours: those with the least are merged first.
fn runs<'a>(modules: &[(&'a str, Bytes)]) -> Vec<Run<'a>> {
    let together = modules.len().div_ceil(MODULES).max(1);
    let run = |modules: &[(&'a str, Bytes)]| Run {
        modules: modules.to_vec(),
        bytes: modules.iter().map(|&(_, bytes)| bytes).sum(),
    };
    let mut runs: Vec<Run<'a>> = modules.chunks(together).map(run).collect();
    while runs.len() > BANDS {
        let pairs = runs.windows(2).map(|pair| pair.iter().map(|run| run.bytes).sum::<Bytes>());
        let Some((at, _)) = pairs.enumerate().min_by_key(|&(_, bytes)| bytes) else { break };
        let next = runs.remove(at.saturating_add(1));
        if let Some(run) = runs.get_mut(at) {
            run.modules.extend(next.modules);
            run.bytes += next.bytes;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(modules: &[(&str, u64)]) -> String {
        let modules: Vec<_> = modules.iter().map(|&(name, n)| (name, Bytes(n))).collect();
        let name = |run: &Run<'_>| match run.names() {
            (first, last) if first == last => format!("{first}={}", run.bytes.0),
            (first, last) => format!("{first}-{last}={}", run.bytes.0),
        };
        runs(&modules).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn neighbours_with_little_are_one_band() {
        let resnet = [
            ("conv1", 4),
            ("bn1", 4),
            ("relu", 4),
            ("maxpool", 1),
            ("layer1", 40),
            ("layer2", 28),
            ("layer3", 19),
            ("layer4", 6),
            ("avgpool", 0),
            ("fc", 0),
        ];
        assert_eq!(
            names(&resnet),
            "conv1-bn1=8 relu-maxpool=5 layer1=40 layer2=28 layer3=19 layer4=6"
        );
        let blocks: Vec<String> = (0..12).map(|n| format!("h.{n}")).collect();
        let mut gpt: Vec<(&str, u64)> = blocks.iter().map(|name| (name.as_str(), 5)).collect();
        gpt.push(("loss", 30));
        assert_eq!(names(&gpt), "h.0-h.3=20 h.4-h.5=10 h.6-h.7=10 h.8-h.9=10 h.10-h.11=10 loss=30");
        assert_eq!(names(&[]), "");
    }

    #[test]
    fn thousands_of_modules_are_few_bands() {
        let many: Vec<String> = (0..5000).map(|n| format!("m.{n}")).collect();
        let modules: Vec<(&str, Bytes)> =
            many.iter().map(|name| (name.as_str(), Bytes(1))).collect();
        let runs = runs(&modules);
        assert_eq!(runs.len(), BANDS);
        assert_eq!(runs.iter().map(|run| run.modules.len()).sum::<usize>(), 5000);
    }
}
