//! Exchanges: what the ranks of a group send each other, next to the kernels of one of them.
//!
//! A stream that waits for another is recorded too, since communication runs next to computation.

use std::collections::BTreeMap;

use super::launch::{Kernel, Launches};
use super::{Runtime, Tensor};
use crate::bytes::Bytes;
use crate::tensor::DType;
use crate::trace::Stream;

/// COUNT: GPUs of a node, which is assumed.
pub const NODE: u64 = 8;

/// What ranks do with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exchange {
    /// Each rank gets the sum.
    AllReduce,
    /// Each rank gets the parts of all.
    AllGather,
    /// Each rank gets its part of the sum.
    ReduceScatter,
    /// All ranks get what one has.
    Broadcast,
    /// Each rank sends a part to each other one.
    AllToAll,
    /// One rank sends to another.
    Message,
}

impl Exchange {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Broadcast,
        Self::AllToAll,
        Self::Message,
    ];

    /// The name in JSON: `all_reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Broadcast => "broadcast",
            Self::AllToAll => "all_to_all",
            Self::Message => "send",
        }
    }

    /// The exchange of a tensor of this size, within a group.
    pub const fn of(self, whole: Bytes, group: Group) -> Collective {
        Collective { exchange: self, whole, group }
    }
}

/// Ranks that take part in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// COUNT: ranks.
    pub ranks: u64,
    /// COUNT: ranks from one of the group to the next; 1 where they are neighbours.
    pub apart: u64,
}

impl Group {
    /// COUNT: ranks of the group in each node, at most.
    pub fn in_node(self) -> u64 {
        NODE.div_euclid(self.apart.max(1)).max(1).min(self.ranks)
    }

    /// Whether one node has all of them.
    pub fn is_in_node(self) -> bool {
        self.in_node() == self.ranks
    }
}

/// An exchange between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Which one.
    pub exchange: Exchange,
    /// SIZE: the whole tensor: the sum, the parts of all ranks together, or what one rank has for all others.
    pub whole: Bytes,
    /// Between whom.
    pub group: Group,
}

impl Collective {
    /// SIZE: what a rank sends in a ring, on average.
    pub fn sent(&self) -> Bytes {
        let times: u64 = match self.exchange {
            Exchange::Message => return self.whole,
            Exchange::AllReduce => 2,
            _ => 1,
        };
        let ranks = self.group.ranks.max(1);
        let others = u128::from(times.saturating_mul(ranks.saturating_sub(1)));
        let all = u128::from(self.whole.0).saturating_mul(others);
        Bytes(u64::try_from(all.div_euclid(u128::from(ranks))).unwrap_or(u64::MAX))
    }
}

/// What a rank sends in exchanges of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// COUNT: exchanges.
    pub exchanges: u64,
    /// SIZE: what the rank sends, by rings.
    pub sent: Bytes,
}

impl Launches {
    /// What a rank sends in a steady iteration, by the kind of exchange; empty on one GPU.
    pub fn traffic(&self) -> BTreeMap<Exchange, Traffic> {
        let mut all: BTreeMap<Exchange, Traffic> = BTreeMap::new();
        for launch in self.of_steady() {
            if let Kernel::Collective(collective) = launch.kernel {
                let traffic = all.entry(collective.exchange).or_default();
                traffic.exchanges = traffic.exchanges.saturating_add(launch.times);
                traffic.sent += collective.sent().times(launch.times);
            }
        }
        all
    }

    /// SIZE: what a rank sends to others in a steady iteration, by rings.
    pub fn sent(&self) -> Bytes {
        self.traffic().values().map(|traffic| traffic.sent).sum()
    }
}

impl Runtime {
    /// An exchange on the current stream that writes new tensors. A group of one rank exchanges nothing.
    pub fn exchange(&self, writes: &[&Tensor], collective: Collective) {
        if collective.group.ranks > 1 && !self.is_tracing() {
            self.launch(writes, Kernel::Collective(collective), DType::UInt8);
        }
    }

    /// What follows on the current stream waits for all that was launched on another one.
    pub fn wait_for(&self, stream: Stream) {
        if !self.is_tracing() {
            self.launch(&[], Kernel::Wait(stream), DType::UInt8);
        }
    }

    /// An exchange on a stream of its own, which waits for what the current one has computed.
    pub fn exchange_on(&self, stream: Stream, writes: &[&Tensor], collective: Collective) {
        if collective.group.ranks > 1 && self.is_launching() {
            let before = self.stream();
            self.on_stream(stream, || {
                self.wait_for(before);
                self.exchange(writes, collective);
            });
        }
    }

    /// The current stream.
    fn stream(&self) -> Stream {
        self.recorder.borrow().stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(exchange: Exchange, ranks: u64, sent: u64) {
        let group = Group { ranks, apart: 1 };
        assert_eq!(exchange.of(Bytes(800), group).sent(), Bytes(sent), "{exchange:?}");
    }

    #[test]
    fn rings_send_each_part_to_the_next_rank() {
        check(Exchange::AllReduce, 8, 1400);
        check(Exchange::AllReduce, 2, 800);
        check(Exchange::AllReduce, 1, 0);
        check(Exchange::AllGather, 8, 700);
        check(Exchange::ReduceScatter, 4, 600);
        check(Exchange::Broadcast, 8, 700);
        check(Exchange::AllToAll, 8, 700);
        check(Exchange::Message, 2, 800);
    }

    #[test]
    fn a_node_has_eight_gpus() {
        let of = |ranks, apart| {
            let group = Group { ranks, apart };
            (group.in_node(), group.is_in_node())
        };
        assert_eq!(of(8, 1), (8, true));
        assert_eq!(of(16, 1), (8, false));
        assert_eq!(of(2, 4), (2, true));
        assert_eq!(of(4, 4), (2, false));
        assert_eq!(of(2, 8), (1, false));
        assert_eq!(of(1, 64), (1, true));
    }
}
