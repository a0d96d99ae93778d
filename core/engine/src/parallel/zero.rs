//! `ZeroRedundancyOptimizer`: each rank's optimizer has some of the parameters, whole ones.
//!
//! Source: `torch/distributed/optim/zero_redundancy_optimizer.py`, PyTorch 2.15.

use crate::order::InOrder as _;
use std::cmp::Reverse;
use std::rc::Rc;

use crate::step::Parameter;

/// Which parameters a rank's optimizer has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// COUNT: ranks.
    pub(super) ranks: u64,
    /// The rank; by itself the one with the most elements.
    pub(super) rank: Option<u64>,
}

impl Shares {
    /// Parameters from the largest to the smallest go to the rank that has the fewest elements so far.
    pub(super) fn of(self, parameters: &[Parameter]) -> Vec<Parameter> {
        let mut sorted: Vec<&Parameter> = parameters.iter().collect();
        sorted.order_by_key(|parameter| Reverse(parameter.tensor.numel()));
        // Further ranks have nothing.
        let ranks = usize::try_from(self.ranks).unwrap_or(usize::MAX).min(sorted.len().max(1));
        let mut shares: Vec<(u64, Vec<&Parameter>)> = vec![(0, Vec::new()); ranks];
        for parameter in sorted {
            if let Some((elements, own)) = shares.iter_mut().min_by_key(|(elements, _)| *elements) {
                *elements += parameter.tensor.numel();
                own.push(parameter);
            }
        }
        let fullest = || {
            let all = shares.iter().enumerate();
            all.max_by_key(|(rank, (elements, _))| (*elements, Reverse(*rank)))
                .map(|(rank, _)| rank)
        };
        let asked = self.rank.map(|rank| usize::try_from(rank).unwrap_or(usize::MAX));
        let rank = asked.or_else(fullest).unwrap_or_default();
        let own = shares.get(rank).map(|(_, own)| own.as_slice()).unwrap_or_default();
        own.iter()
            .map(|one| Parameter { tensor: one.tensor.clone(), leaf: Rc::clone(&one.leaf) })
            .collect()
    }
}
