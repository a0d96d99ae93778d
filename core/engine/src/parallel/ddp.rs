//! `DistributedDataParallel`: gradients go through buckets, which the process keeps.
//!
//! - At the start the first rank's parameters and buffers are sent to all others, in pieces that exist twice.
//! - The first backward has one bucket for each type. Before the next forward it is replaced by buckets in the order in
//!   which gradients arrived. Where unused parameters are looked for, there are small buckets from the start.
//! - Each gradient is copied into its bucket, and back; as a view of it, it takes no memory of its own.
//! - Buffers are sent to the other ranks before each forward.
//! - Where unused parameters are looked for, what the model returns is copied (`_DDPSink`), and a counter for each
//!   parameter is on the device.
//!
//! Sources: `torch/nn/parallel/distributed.py`, `torch/csrc/distributed/c10d/reducer.cpp` and `comm.cpp`, PyTorch 2.15.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use super::zero::Shares;
use crate::bytes::Bytes;
use crate::config::Config;
use crate::eager::autograd::Leaf;
use crate::eager::exchange::{Exchange, Group};
use crate::eager::{Runtime, Tensor};
use crate::step::Parameter;
use crate::step::hooks::{Direction, Hooks};
use crate::step::modules::{ModuleId, Modules};
use crate::tensor::DType;
use crate::trace::{Category, StorageId, Stream};

/// SIZE: of what is sent at a time, at the start and of buffers (`broadcast_bucket_size`).
const BROADCAST: Bytes = Bytes::mib(250);
/// SIZE: of the first bucket (`_DEFAULT_FIRST_BUCKET_BYTES`).
const FIRST: Bytes = Bytes::mib(1);
/// COUNT: MiB of a bucket, where nobody says otherwise.
const USUAL: u64 = 25;
/// COUNT: pieces that are sent at a time.
const IN_FLIGHT: usize = 2;
/// Where NCCL runs.
const NETWORK: Stream = Stream(4);

/// What DDP does around the step of one rank.
#[derive(Debug)]
pub(super) struct Ddp {
    /// Sizes of the first bucket and of all others.
    caps: [Bytes; 2],
    group: Group,
    views: bool,
    finds_unused: bool,
    /// COUNT: backward passes of a step that reduce nothing, each before the last.
    unreduced: u64,
    shares: Option<Shares>,
    buckets: RefCell<Vec<Bucket>>,
    /// Gradients in the order in which they arrived, until buckets were made of it.
    arrived: RefCell<Option<Vec<Slot>>>,
    parameters: RefCell<BTreeSet<StorageId>>,
    buffers: RefCell<Vec<Tensor>>,
    /// Which parameters a forward used.
    used: RefCell<Option<Tensor>>,
    /// COUNT: backward passes since the last step.
    passes: Cell<u64>,
}

/// Gradients that are reduced together.
#[derive(Debug)]
struct Bucket {
    whole: Tensor,
    slots: Vec<Slot>,
    /// COUNT: gradients that a backward has copied into it.
    filled: Cell<usize>,
}

/// A gradient's place.
#[derive(Clone, Debug)]
struct Slot {
    name: String,
    like: Tensor,
}

impl Ddp {
    pub(super) fn of(config: &Config, group: Group, shares: Option<Shares>) -> Self {
        let cap = Bytes::mib(config.bucket_cap.get());
        let first = if config.bucket_cap.get() == USUAL { FIRST } else { cap };
        let accumulated = config.accumulate.get().saturating_sub(1);
        Self {
            caps: [first, cap],
            group,
            views: config.bucket_view,
            finds_unused: config.find_unused,
            unreduced: if config.no_sync { accumulated } else { 0 },
            shares,
            buckets: RefCell::default(),
            arrived: RefCell::new((!config.find_unused).then(Vec::new)),
            parameters: RefCell::default(),
            buffers: RefCell::default(),
            used: RefCell::default(),
            passes: Cell::new(0),
        }
    }

    /// Whether the backward that runs, or comes next, reduces gradients.
    fn reduces(&self) -> bool {
        self.passes.get() >= self.unreduced
    }

    fn make_buckets(&self, rt: &Runtime, groups: Vec<Vec<Slot>>) {
        rt.enter_operator("bucket");
        let made = groups.into_iter().map(|slots| {
            let numel = slots.iter().map(|slot| slot.like.numel()).sum();
            let dtype = slots.first().map_or(DType::Float32, |slot| slot.like.dtype());
            let whole = rt.empty_for(Category::Communication, dtype, &[numel]);
            Bucket { whole, slots, filled: Cell::new(0) }
        });
        self.buckets.replace(made.collect());
    }

    /// A gradient is copied into its bucket; the bucket that is full then is reduced.
    fn fill(&self, rt: &Runtime, bucket: &Bucket, slot: &Slot) {
        rt.launch_copy(&slot.like, &slot.like);
        bucket.filled.set(bucket.filled.get().saturating_add(1));
        if bucket.filled.get() == bucket.slots.len() {
            self.reduce(rt, bucket);
        }
    }

    fn reduce(&self, rt: &Runtime, bucket: &Bucket) {
        let all = Exchange::AllReduce.of(bucket.whole.nbytes(), self.group);
        rt.exchange_on(NETWORK, &[], all);
    }

    /// The backward waits for all buckets, and copies them into gradients that are no views.
    fn finish(&self, rt: &Runtime) {
        rt.enter_operator("all_reduce");
        for bucket in self.buckets.borrow().iter() {
            if bucket.filled.replace(0) < bucket.slots.len() {
                self.reduce(rt, bucket);
            }
        }
        if let Some(used) = self.used.borrow().as_ref() {
            rt.exchange_on(NETWORK, &[], Exchange::AllReduce.of(used.nbytes(), self.group));
        }
        rt.wait_for(NETWORK);
        let copied = self.buckets.borrow();
        for slot in copied.iter().flat_map(|bucket| &bucket.slots).filter(|_| !self.views) {
            rt.launch_copy(&slot.like, &slot.like);
        }
    }

    /// Buckets in the order in which gradients arrived, once that is known.
    fn rebuild(&self, rt: &Runtime) {
        if self.arrived.borrow().as_ref().is_none_or(Vec::is_empty) {
            return;
        }
        let Some(arrived) = self.arrived.take() else { return };
        // The first rank's order is sent to the others.
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let all = count(arrived.len());
        let groups = grouped(arrived, self.caps, |slot| &slot.like);
        rt.enter_operator("sync_bucket_indices");
        let indices = rt.empty(DType::Int32, &[all.saturating_add(1)]);
        drop(rt.empty(DType::Int32, &[count(groups.len())]));
        drop(indices);
        drop(self.buckets.take());
        self.make_buckets(rt, groups);
    }
}

/// `compute_bucket_assignment_by_size`: a group of each type is closed by what makes it reach its size.
fn grouped<T>(
    all: Vec<T>,
    [first, other]: [Bytes; 2],
    tensor: impl Fn(&T) -> &Tensor,
) -> Vec<Vec<T>> {
    struct Open<T> {
        dtype: DType,
        size: Bytes,
        cap: Bytes,
        members: Vec<T>,
    }
    let mut open: Vec<Open<T>> = Vec::new();
    let mut closed = Vec::new();
    for one in all {
        let (dtype, size) = (tensor(&one).dtype(), tensor(&one).nbytes());
        let at = open.iter().position(|open| open.dtype == dtype).unwrap_or_else(|| {
            open.push(Open { dtype, size: Bytes::ZERO, cap: first, members: Vec::new() });
            open.len() - 1
        });
        let Some(group) = open.get_mut(at) else { continue };
        group.size += size;
        group.members.push(one);
        if group.size >= group.cap {
            (group.size, group.cap) = (Bytes::ZERO, other);
            closed.push(std::mem::take(&mut group.members));
        }
    }
    closed.extend(open.into_iter().map(|open| open.members).filter(|group| !group.is_empty()));
    closed
}

/// `broadcast_coalesced`: pieces are put together, sent, and copied back.
fn broadcast(rt: &Runtime, tensors: &[Tensor], group: Group) {
    rt.enter_operator("aten::flatten_dense_tensors");
    let mut flying: VecDeque<Tensor> = VecDeque::new();
    for piece in grouped(tensors.to_vec(), [BROADCAST; 2], |tensor| tensor) {
        if flying.len() >= IN_FLIGHT {
            flying.pop_front();
        }
        let numel = piece.iter().map(Tensor::numel).sum();
        let dtype = piece.first().map_or(DType::Float32, Tensor::dtype);
        let sent = rt.empty_for(Category::Communication, dtype, &[numel]);
        rt.exchange(&[], Exchange::Broadcast.of(sent.nbytes(), group));
        flying.push_back(sent);
    }
    flying.into_iter().for_each(drop);
}

impl Hooks for Ddp {
    fn load(&self, _rt: &Runtime, _name: &str, category: Category, tensor: Tensor) -> Tensor {
        if category == Category::Parameter {
            self.parameters.borrow_mut().insert(tensor.storage_id());
        }
        tensor
    }

    fn placed(&self, rt: &Runtime, parameters: &[Parameter], state: &[Tensor]) {
        let known = self.parameters.take();
        let is_parameter = |tensor: &Tensor| known.contains(&tensor.storage_id());
        let (whole, buffers): (Vec<Tensor>, Vec<Tensor>) =
            state.iter().map(Tensor::detach).partition(is_parameter);
        broadcast(rt, &[whole, buffers.clone()].concat(), self.group);
        self.buffers.replace(buffers);
        let slot = |parameter: &Parameter| Slot {
            name: parameter.leaf.name().to_owned(),
            like: parameter.tensor.detach(),
        };
        let mut groups = if self.finds_unused {
            grouped(parameters.iter().map(slot).collect(), self.caps, |slot| &slot.like)
        } else {
            grouped(parameters.iter().map(slot).collect(), [Bytes(u64::MAX); 2], |slot| &slot.like)
        };
        groups.reverse();
        self.make_buckets(rt, groups);
        if self.finds_unused {
            let count = u64::try_from(parameters.len()).unwrap_or(u64::MAX);
            let used = rt.empty_for(Category::Communication, DType::Int32, &[count]);
            self.used.replace(Some(used));
        }
    }

    fn loaded(&self, _rt: &Runtime, parameters: &[Parameter]) -> Option<Vec<Parameter>> {
        self.shares.map(|shares| shares.of(parameters))
    }

    fn follows_modules(&self) -> bool {
        false
    }

    fn before_module(&self, rt: &Runtime, _: &Modules, module: ModuleId, direction: Direction) {
        if module != ModuleId::MODEL {
            return;
        }
        if direction == Direction::Backward {
            return self.passes.set(self.passes.get() + 1);
        }
        if rt.mode().gradients && self.reduces() {
            self.rebuild(rt);
        }
        let buffers = self.buffers.borrow();
        if !buffers.is_empty() {
            broadcast(rt, &buffers, self.group);
        }
    }

    fn after_module(&self, rt: &Runtime, _: &Modules, module: ModuleId, direction: Direction) {
        let is_reduced = self.passes.get() > self.unreduced;
        if module == ModuleId::MODEL && direction == Direction::Backward && is_reduced {
            self.finish(rt);
        }
    }

    fn returned(&self, rt: &Runtime, outputs: Vec<Tensor>) -> Vec<Tensor> {
        let copies = self.finds_unused && rt.mode().gradients && self.reduces();
        if !copies {
            return outputs;
        }
        let copy = |output: &Tensor| {
            rt.enter_operator("_DDPSink");
            let copy = rt.empty_like(output);
            rt.launch_copy(output, &copy);
            rt.differentiable("_DDPSinkBackward", copy, &[output], &[], |pass| {
                vec![pass.grad().cloned()]
            })
        };
        outputs.iter().map(copy).collect()
    }

    fn after_accumulation(&self, rt: &Runtime, leaf: &Leaf) {
        if self.passes.get() <= self.unreduced {
            return;
        }
        let buckets = self.buckets.borrow();
        let places =
            buckets.iter().flat_map(|bucket| bucket.slots.iter().map(move |slot| (bucket, slot)));
        let Some((bucket, slot)) = places.into_iter().find(|(_, slot)| slot.name == leaf.name())
        else {
            return;
        };
        if let Some(arrived) = self.arrived.borrow_mut().as_mut() {
            arrived.push(slot.clone());
        }
        rt.enter_operator("all_reduce");
        self.fill(rt, bucket, slot);
        if self.views {
            leaf.set(bucket.whole.alias(slot.like.sizes(), slot.like.strides()));
        }
    }

    fn after_optimizer(&self, rt: &Runtime, _parameters: &[Parameter]) {
        self.passes.set(0);
        if self.shares.is_some() {
            // Each parameter comes from the rank that has updated it.
            rt.enter_operator("broadcast");
            for slot in self.buckets.borrow().iter().flat_map(|bucket| &bucket.slots) {
                let sent = Exchange::Broadcast.of(slot.like.nbytes(), self.group);
                rt.exchange_on(NETWORK, &[], sent);
            }
            rt.wait_for(NETWORK);
        }
    }
}
