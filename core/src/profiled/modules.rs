//! The module of a block: the module whose call or backward was running.

use std::collections::BTreeMap;

use super::history::TracedBlock;
use super::{Profile, Time};
use crate::trace::Phase;

/// What the profiler calls a call of a module: `nn.Module: Linear_3`.
const HEAD: &str = "nn.Module: ";

/// What stands for a module where the optimizer steps.
pub(super) const OPTIMIZER: &str = "optimizer";

/// Modules by the times at which they are asked for, which only grow.
pub(super) struct Modules<'p> {
    profile: &'p Profile,
    /// Position in [`Profile::modules`] of the next to begin.
    next: usize,
    /// Calls that are running, outermost first: when they end, and the path of names to them.
    running: Vec<(Time, String)>,
    /// What ran when an operator got the sequence number that its backward shares.
    by_sequence: BTreeMap<u64, String>,
}

impl<'p> Modules<'p> {
    pub(super) const fn new(profile: &'p Profile) -> Self {
        Self { profile, next: 0, running: Vec::new(), by_sequence: BTreeMap::new() }
    }

    /// The path of the innermost call at a time: `ResNet_0.Sequential_1.Conv2d_7`; empty outside.
    fn at(&mut self, time: Time) -> &str {
        while let Some(call) = self.profile.modules.get(self.next).filter(|call| call.start <= time)
        {
            self.next = self.next.saturating_add(1);
            self.end(call.start);
            let name = self.profile.name(call.name);
            let name = name.strip_prefix(HEAD).unwrap_or(name);
            let path = match self.running.last() {
                Some((_, outer)) => [outer, ".", name].concat(),
                None => name.to_owned(),
            };
            self.running.push((call.end, path));
        }
        self.end(time);
        self.running.last().map_or("", |(_, path)| path)
    }

    fn end(&mut self, time: Time) {
        while self.running.pop_if(|(end, _)| *end < time).is_some() {}
    }

    /// An operator begins that has a sequence number. Those of backward have their forward's, and
    /// run outside all modules.
    pub(super) fn remember(&mut self, sequence: u64, start: Time) {
        let path = self.at(start).to_owned();
        if !path.is_empty() {
            self.by_sequence.insert(sequence, path);
        }
    }

    /// The module of a block; empty where it has none.
    pub(super) fn of(&mut self, block: &TracedBlock) -> &str {
        match block.phase {
            Phase::Backward => {}
            Phase::Optimizer => return OPTIMIZER,
            _ => return self.at(block.born),
        }
        let node = block.outermost.and_then(|at| self.profile.operators.get(at));
        let path = node.and_then(|node| self.by_sequence.get(&node.sequence?));
        path.map_or("", String::as_str)
    }
}
