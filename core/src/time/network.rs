//! How long exchanges with other ranks take, and how long computation waits for them.
//!
//! An exchange takes the shortest time that was measured, and what a ring sends at the bandwidth that rings reach. A
//! ring over several nodes leaves each node through the network of all of its GPUs in a node.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "times are estimates in floats; no sum of bytes is"
)]

use std::collections::BTreeMap;

use super::constants::Constants;
use super::machine::Ran;
use super::{Picoseconds, Time};
use crate::bytes::Bytes;
use crate::device::{LinkKind, Rates};
use crate::eager::exchange::{Collective, Exchange, Traffic};
use crate::eager::launch::{Kernel, Launch};
use crate::time::Bound;
use crate::trace::Stream;

/// GB/s into bytes per microsecond.
const MEGA: f64 = 1000.0;

/// The time of an exchange.
pub(super) fn time(collective: &Collective, rates: &Rates, constants: &Constants) -> Time {
    let group = collective.group;
    let share = match rates.link.kind {
        LinkKind::NvLink => constants.nvlink_share,
        LinkKind::Pcie => constants.pcie_share,
    };
    let near = f64::from(rates.link.bandwidth) / 2.0 * share;
    let out = group.in_node() as f64 * constants.nic_gbs * constants.nic_share;
    let (least, bandwidth) = if group.is_in_node() {
        (constants.exchange_near, near)
    } else {
        (constants.exchange_far, near.min(out))
    };
    // All but the last rank of a ring send on the whole of a broadcast.
    let sent = match collective.exchange {
        Exchange::Broadcast => collective.whole,
        _ => collective.sent(),
    };
    let us = least + sent.0 as f64 / (bandwidth * MEGA);
    Time { us, bound: Bound::Network, is_fitted: false }
}

/// What a step sends to other ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Time of all exchanges.
    pub time: Picoseconds,
    /// The part of it that computation does not hide: how much longer the step takes than without exchanges.
    pub exposed: Picoseconds,
    /// Whether any goes between nodes.
    pub leaves_node: bool,
    /// By the kind of exchange, with its time.
    pub by_exchange: BTreeMap<Exchange, (Traffic, Picoseconds)>,
}

impl Network {
    /// SIZE: what the rank sends in a step.
    pub fn sent(&self) -> Bytes {
        self.by_exchange.values().map(|(traffic, _)| traffic.sent).sum()
    }

    pub(super) fn add(&mut self, collective: &Collective, times: u64, on_device: Picoseconds) {
        self.time += on_device;
        self.leaves_node |= !collective.group.is_in_node();
        let (traffic, time) = self.by_exchange.entry(collective.exchange).or_default();
        traffic.exchanges = traffic.exchanges.saturating_add(times);
        traffic.sent += collective.sent().times(times);
        *time += on_device;
    }
}

/// The host, the streams of the device and its links, each with its own time.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    host: Picoseconds,
    streams: BTreeMap<Stream, Picoseconds>,
    /// Exchanges over the same link come one after another: within a node, and between nodes.
    links: BTreeMap<bool, Picoseconds>,
}

/// How long a stream waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// For the host.
    pub(super) host: Picoseconds,
    /// For other ranks, where it is the stream that computes.
    pub(super) network: Picoseconds,
}

impl Queues {
    /// The host launches a kernel, which begins when its stream is free.
    pub(super) fn launch(&mut self, launch: &Launch, ran: &Ran) -> Waits {
        self.host += ran.on_host;
        let computes = launch.stream == Stream::DEFAULT;
        let of = |stream| self.streams.get(&stream).copied().unwrap_or_default();
        let before = of(launch.stream);
        if let Kernel::Wait(other) = launch.kernel {
            let after = before.max(of(other));
            self.streams.insert(launch.stream, after);
            let network = if computes { after.since(before) } else { Picoseconds::default() };
            return Waits { network, ..Waits::default() };
        }
        let begin = before.max(self.host);
        let host = begin.since(before);
        let mut end = begin;
        let mut network = Picoseconds::default();
        if let Kernel::Collective(collective) = launch.kernel {
            let link = self.links.entry(collective.group.is_in_node()).or_default();
            end = end.max(*link);
            end += ran.on_device;
            *link = end;
            network = if computes { end.since(begin) } else { network };
        } else {
            end += ran.on_device;
        }
        self.streams.insert(launch.stream, end);
        Waits { host, network }
    }

    /// When all that was launched has run.
    pub(super) fn now(&self) -> Picoseconds {
        self.streams.values().copied().max().unwrap_or_default()
    }
}

/// A step with its exchanges, and the same step if they took no time.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlap {
    real: Queues,
    free: Queues,
}

impl Overlap {
    pub(super) fn launch(&mut self, launch: &Launch, ran: &Ran) {
        self.real.launch(launch, ran);
        let is_free = matches!(launch.kernel, Kernel::Collective(_));
        let on_device = if is_free { Picoseconds::default() } else { ran.on_device };
        self.free.launch(launch, &Ran { on_device, ..*ran });
    }

    /// How much longer the step takes than without exchanges.
    pub(super) fn exposed(&self) -> Picoseconds {
        self.real.now().since(self.free.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PyTorch};
    use crate::device;
    use crate::eager::exchange::Group;
    use crate::eager::{Launches, Runtime};
    use crate::tensor::DType;
    use crate::time::{Gpu, StepTime};
    use crate::trace::Phase;

    const OTHER: Stream = Stream(1);

    /// A gather of a GiB on A100 takes about 4 ms.
    fn exchange(rt: &Runtime) {
        let gather = Exchange::AllGather.of(Bytes::mib(1024), Group { ranks: 8, apart: 1 });
        rt.exchange_on(OTHER, &[], gather);
    }

    /// About 7 ms of computation.
    fn compute(rt: &Runtime) {
        let kernel = Kernel::Elementwise { read: Bytes::mib(5120), written: Bytes::mib(5120) };
        rt.launch(&[], kernel, DType::Float32);
    }

    /// PERCENT: the part of all exchanges that computation does not hide.
    #[track_caller]
    fn check(run: impl Fn(&Runtime), expected: u64) {
        let device = device::find("a100-80gb").expect("it is in the table");
        let hardware = device.hardware(PyTorch::LATEST, Config::default().cudnn);
        let rt = Runtime::new(hardware, PyTorch::LATEST);
        rt.record_launches(1);
        rt.enter_phase(1, Phase::Forward);
        run(&rt);
        let launches = Launches { list: rt.take_launches(), steady: 1, ..Launches::default() };
        let time = StepTime::of(&launches, Gpu::of(device).expect("it has rates"));
        let Network { time: all, exposed, .. } = time.network;
        // While the host launches, a little is hidden.
        let found = Bytes(exposed.0).parts_of(Bytes(all.0), 100);
        assert!(found.abs_diff(expected) <= 2, "{exposed} of {all}");
        let mut step = time.all.device.max(time.all.launch);
        step += exposed;
        assert_eq!(time.step(), step);
    }

    #[test]
    fn computation_hides_what_it_does_not_wait_for() {
        // Nothing follows: the step ends with the exchange.
        check(|rt| (compute(rt), exchange(rt)).1, 100);
        // It runs next to what follows.
        check(|rt| (exchange(rt), compute(rt), rt.wait_for(OTHER)).2, 0);
        // What follows waits for it.
        check(|rt| (exchange(rt), rt.wait_for(OTHER), compute(rt)).2, 100);
        // Two come one after another, and the first is hidden.
        check(|rt| (exchange(rt), compute(rt), exchange(rt), rt.wait_for(OTHER)).3, 50);
    }

    /// Microseconds of an exchange of a GiB by ranks that are so far apart.
    fn microseconds(id: &str, exchange: Exchange, group: Group) -> f64 {
        let rates = device::find(id).expect("it is in the table").rates().expect("it has rates");
        time(&exchange.of(Bytes::mib(1024), group), &rates, &Constants::read()).us
    }

    /// What `nccl-tests` print for 1 GiB: 370 GB/s on 8 H100 by rings, and 46 to 48 GB/s for each GPU between nodes.
    #[test]
    fn rings_reach_the_bandwidth_that_was_measured() {
        let bus = |id, exchange, group: Group| {
            let factor = if exchange == Exchange::AllReduce { 2.0 } else { 1.0 };
            let ranks = group.ranks as f64;
            let sent = factor * (ranks - 1.0) / ranks * Bytes::mib(1024).0 as f64;
            sent / microseconds(id, exchange, group) / MEGA
        };
        let near = |ranks| Group { ranks, apart: 1 };
        for (id, exchange, group, least, most) in [
            ("h100-80gb", Exchange::AllReduce, near(8), 360.0, 372.0),
            ("h100-80gb", Exchange::AllGather, near(8), 355.0, 372.0),
            ("a100-80gb", Exchange::AllReduce, near(4), 240.0, 250.0),
            ("rtx-5090", Exchange::AllReduce, near(8), 26.0, 30.0),
            ("h100-80gb", Exchange::AllReduce, near(16), 340.0, 376.0),
            ("h100-80gb", Exchange::AllReduce, Group { ranks: 4, apart: 8 }, 46.0, 48.0),
        ] {
            let found = bus(id, exchange, group);
            assert!((least..=most).contains(&found), "{id} {exchange:?} {group:?}: {found}");
        }
    }
}
