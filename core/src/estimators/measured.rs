//! Runs that somebody measured on a card, so that an open model can be compared with the truth.

use super::Evidence;
use crate::bytes::Bytes;
use crate::config::Scope;
use crate::trace::Category;

/// A line for each run: the process's bytes, the id of the card, the source, and [`Evidence::identity`], with tabs
/// between. `core/tests/it/estimators.rs` writes it from `tests/fixtures/measured`.
const RUNS: &str = include_str!("measured.txt");

/// What a run took on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// SIZE: what the process had in use at most.
    pub process: Bytes,
    /// Id of the card.
    pub device: &'static str,
    /// Who measured it.
    pub source: &'static str,
}

impl Measured {
    /// The measured runs of the same model and the same training.
    pub fn of(evidence: &Evidence<'_>) -> Vec<Self> {
        let identity = evidence.identity();
        let of_line = |line: &'static str| {
            let mut cells = line.splitn(4, '\t');
            let [process, device, source, of] = std::array::from_fn(|_| cells.next());
            let process = Bytes(process?.parse().ok()?);
            let (device, source) = (device?, source?);
            (of? == identity).then_some(Self { process, device, source })
        };
        RUNS.lines().filter_map(of_line).collect()
    }
}

impl Evidence<'_> {
    /// What tells a run from others, whatever the name of its file: parameters, bytes of its inputs, and the settings
    /// of training that are not the defaults.
    pub fn identity(&self) -> String {
        let inputs: Bytes = self.storages(Category::Input).map(|storage| storage.requested).sum();
        let mut identity = format!("{} {}", self.parameter_count(), inputs.0);
        for setting in self.config().changed().filter(|known| known.scope == Scope::Training) {
            let value = setting.value(self.config()).text();
            identity = [identity.as_str(), " ", setting.name, "=", &value].concat();
        }
        identity
    }
}
