//! `fully_shard` (FSDP2): every parameter is cut along its first dimension, and a unit is gathered while it runs.
//!
//! A unit is a block of the model; what is in no block is the root's. The steps of a unit:
//!
//! - Before its forward its shards are gathered into one buffer, and copied into its parameters. The buffer stays until
//!   the next unit's is there, so that copies can overlap. Behind the forward the parameters are freed, but the root's.
//! - Before its backward they are gathered again, and those of the unit before it too.
//! - Behind its backward gradients are copied into one buffer, of which a part is kept: the gradients of the shards. The
//!   buffer stays until the next one is made.
//!
//! Buffers of gathered shards and reduced gradients are on streams of their own. Parameters of the model take no memory
//! here; what is gathered is held in addition.
//!
//! Sources: `torch/distributed/fsdp/_fully_shard/*.py`, `aten/src/ATen/native/cuda/TensorShape.cu`, PyTorch 2.15.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::units::{self, Buffers, Types, Units};
use crate::bytes::Bytes;
use crate::config::{Config, Ranks, Switch};
use crate::eager::autograd::Leaf;
use crate::eager::exchange::{Exchange, Group};
use crate::eager::hardware::Hardware;
use crate::eager::layout::contiguous_strides;
use crate::eager::{Runtime, Tensor, kernels};
use crate::recover::Program;
use crate::step::Parameter;
use crate::step::hooks::{Direction, Hooks};
use crate::step::modules::{ModuleId, Modules};
use crate::tensor::{DType, Dims, TensorType};
use crate::trace::{Category, Stream};

/// Where shards are copied to be gathered.
const GATHER: Stream = Stream(1);
/// Where gradients are reduced and scattered.
const SCATTER: Stream = Stream(2);

/// Where copies of the sharded model average their gradients.
const AVERAGE: Stream = Stream(3);
/// An event behind the newest copy out of a buffer: a stream that does nothing but wait.
const COPIED: Stream = Stream(5);

/// What `fully_shard` does around the step of one rank.
#[derive(Debug)]
pub(super) struct Fsdp {
    /// COUNT: parts that a parameter is cut into.
    parts: u64,
    /// The part of this rank.
    part: u64,
    /// Ranks that have the other parts.
    shares: Group,
    /// Ranks that have the same part (HSDP).
    copies: Group,
    /// Whether there are copies of the sharded model (HSDP).
    replicates: bool,
    types: Types,
    /// The type in which gradients are reduced, if it is stated.
    reduces_as: Option<DType>,
    reshards: Switch,
    /// Whether shards wait on the host.
    offloads: bool,
    /// Ranks whose norms are added, where gradients are clipped.
    clips: Option<Group>,
    /// COUNT: backward passes of a step that reduce nothing, each before the last.
    unreduced: u64,
    /// The root first, as in `all_states`.
    units: Vec<Unit>,
    names: Units,
    buffers: Buffers,
    /// Parts of layers are read onto the device, and are whole there before they are cut.
    placed: Option<RefCell<BTreeMap<String, Tensor>>>,
    /// The buffer of the unit that ran last, in a forward.
    kept: RefCell<Option<Tensor>>,
    /// Units in the order of the forward.
    order: RefCell<Vec<usize>>,
    /// The input of the newest reduction.
    reduced: RefCell<Option<Tensor>>,
    /// Outputs of reductions that all-reduces between copies of the model read.
    averaged: RefCell<Vec<Tensor>>,
    /// COUNT: backward passes since the last step.
    passes: Cell<u64>,
}

/// Where a unit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Backward,
    Done,
}

/// Parameters that are gathered together.
#[derive(Debug, Default)]
struct Unit {
    members: RefCell<Vec<Member>>,
    state: Cell<State>,
    /// What was gathered and not yet copied out.
    buffer: RefCell<Option<Tensor>>,
    /// The parameters while they are whole.
    gathered: RefCell<Vec<Tensor>>,
    is_whole: Cell<bool>,
    /// Its places in the order of the forward.
    places: RefCell<Vec<usize>>,
}

/// A parameter.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    dims: Dims,
    stored: DType,
    /// What is kept of it on the device.
    shard: Option<Tensor>,
    /// Where its gradient arrives, if it is trained.
    leaf: Option<Rc<Leaf>>,
    /// Where the shard's gradient is for the optimizer.
    own: Option<Rc<Leaf>>,
}

impl Member {
    /// COUNT: rows of the first dimension that each part has room for.
    fn rows(&self, parts: u64) -> u64 {
        self.dims.first().copied().unwrap_or(1).div_ceil(parts)
    }

    /// The dimensions of so many rows.
    fn of_rows(&self, rows: u64) -> Vec<u64> {
        std::iter::once(rows).chain(self.dims.iter().skip(1).copied()).collect()
    }

    /// COUNT: elements of a part, with its padding.
    fn padded(&self, parts: u64) -> u64 {
        self.of_rows(self.rows(parts)).iter().product()
    }

    /// The dimensions of the rank's part, without padding.
    fn local(&self, parts: u64, part: u64) -> Vec<u64> {
        let rows = self.rows(parts);
        let behind =
            self.dims.first().copied().unwrap_or(1).saturating_sub(part.saturating_mul(rows));
        self.of_rows(behind.min(rows))
    }
}

impl Fsdp {
    pub(super) fn of(program: &Program, config: &Config, ranks: Ranks) -> Self {
        let names = Units::of(program);
        let (part, parts) = units::part(config, ranks);
        let accumulated = config.accumulate.get().saturating_sub(1);
        // Ranks that divide layers are neighbours.
        let shares = Group { ranks: ranks.data, apart: ranks.tensor };
        Self {
            parts,
            part,
            shares,
            copies: Group { ranks: ranks.replicate, apart: ranks.data },
            replicates: ranks.replicate > 1,
            types: Types::of(config),
            reduces_as: config.reduce_type.dtype(),
            reshards: config.reshard,
            offloads: config.cpu_offload,
            clips: config.clips().then_some(shares),
            unreduced: if config.no_sync { accumulated } else { 0 },
            units: (0..names.count()).map(|_| Unit::default()).collect(),
            names,
            placed: (ranks.tensor > 1 && !config.cpu_offload).then(RefCell::default),
            buffers: Buffers::default(),
            kept: RefCell::default(),
            order: RefCell::default(),
            reduced: RefCell::default(),
            averaged: RefCell::default(),
            passes: Cell::new(0),
        }
    }

    fn unit(&self, modules: &Modules, module: ModuleId) -> Option<(usize, &Unit)> {
        let at = self.names.of_module(modules, module)?;
        self.units.get(at).map(|unit| (at, unit))
    }

    /// Whether a unit is freed behind its forward; the root is not unless that is asked for.
    fn reshards(&self, at: usize) -> bool {
        self.reshards.or(at > 0)
    }

    /// `fully_shard` of a unit: it comes to the device, and is cut before the whole parameters go.
    fn cut(&self, rt: &Runtime, at: usize, unit: &Unit) {
        let mut members = unit.members.borrow_mut();
        rt.enter_operator("fully_shard");
        let mut whole: Vec<Tensor> = Vec::new();
        for member in members.iter() {
            let placed = self.placed.as_ref();
            if let Some(placed) = placed.and_then(|all| all.borrow_mut().remove(&member.name)) {
                whole.push(placed);
                continue;
            }
            self.buffers.bring_statistics(rt, &member.name);
            let ty = TensorType::new(member.stored, member.dims.clone());
            whole.push(rt.place(&ty, Category::Communication, &member.name));
        }
        self.buffers.bring_unit(rt, at);
        for member in members.iter_mut() {
            let ty = TensorType::new(member.stored, member.of_rows(member.rows(self.parts)));
            let shard = rt.place(&ty, Category::Parameter, &member.name);
            member.shard = (!self.offloads).then_some(shard);
        }
        whole.into_iter().for_each(drop);
    }

    /// The all-gather of a unit, unless it is there or under way.
    fn gather(&self, rt: &Runtime, unit: &Unit) {
        if unit.is_whole.get() || unit.buffer.borrow().is_some() {
            return;
        }
        let members = unit.members.borrow();
        let buffer = rt.on_stream(GATHER, || {
            rt.enter_operator("fsdp::all_gather_copy_in");
            let mut parts = Vec::new();
            let mut cast = 0_u64;
            for member in members.iter() {
                let numel = member.padded(self.parts);
                let is_cast = self.types.gathered(member.stored) != member.stored;
                if self.offloads {
                    let part = rt.empty(member.stored, &[numel]);
                    let dtype = self.types.gathered(member.stored);
                    parts.push(if is_cast { rt.empty(dtype, part.sizes()) } else { part });
                } else if is_cast {
                    cast = cast.saturating_add(numel);
                }
            }
            if let Some(dtype) = self.types.gathers.filter(|_| cast > 0) {
                parts.push(rt.empty(dtype, &[cast]));
            }
            let (dtype, numel) = self.inputs(&members)?;
            let numel = if self.parts > 1 { numel.saturating_mul(self.parts) } else { 0 };
            let buffer = rt.empty_for(Category::Communication, dtype, &[numel]);
            rt.exchange(&[&buffer], Exchange::AllGather.of(buffer.nbytes(), self.shares));
            parts.into_iter().rev().for_each(drop);
            Some(buffer)
        });
        unit.buffer.replace(buffer);
    }

    /// The type and COUNT of what this rank puts into an all-gather; parts of several types go as bytes.
    fn inputs(&self, members: &[Member]) -> Option<(DType, u64)> {
        let parts = || {
            members
                .iter()
                .map(|member| (self.types.gathered(member.stored), member.padded(self.parts)))
        };
        let (first, _) = parts().next()?;
        if parts().all(|(dtype, _)| dtype == first) {
            return Some((first, parts().map(|(_, numel)| numel).sum()));
        }
        Some((DType::UInt8, parts().map(|(dtype, numel)| dtype.size().times(numel).0).sum()))
    }

    /// The copy of what was gathered into the unit's parameters.
    fn unpack(&self, rt: &Runtime, unit: &Unit, is_forward: bool) {
        let Some(buffer) = unit.buffer.take() else { return };
        if is_forward {
            drop(self.kept.take());
            rt.on_stream(GATHER, || rt.wait_for(COPIED));
        }
        let members = unit.members.borrow();
        rt.enter_operator("fsdp::split_with_sizes_copy");
        rt.wait_for(GATHER);
        let whole = members.iter().map(|member| {
            let numel = member.padded(self.parts).saturating_mul(self.parts);
            let dtype = self.types.gathered(member.stored);
            rt.empty_for(Category::Communication, dtype, &[numel])
        });
        unit.gathered.replace(whole.collect());
        if self.parts > 1 {
            let pieces = members.iter().map(|member| {
                self.types.gathered(member.stored).size().times(member.padded(self.parts)).0
            });
            let parts = self.parts;
            rt.workspace_by(&pieces.collect::<Vec<_>>(), move |hardware, pieces| {
                Some(split_table(hardware, pieces, parts))
            });
        }
        unit.is_whole.set(true);
        rt.on_stream(if is_forward { COPIED } else { GATHER }, || rt.wait_for(Stream::DEFAULT));
        if is_forward && self.parts > 1 {
            self.kept.replace(Some(buffer));
        }
    }

    fn free(unit: &Unit) {
        if unit.is_whole.replace(false) {
            unit.gathered.take().into_iter().for_each(drop);
        }
    }

    /// Before a unit's backward: the next one's shards are gathered too.
    fn before_backward(&self, rt: &Runtime, unit: &Unit) {
        if unit.state.replace(State::Backward) == State::Backward {
            return;
        }
        self.gather(rt, unit);
        self.unpack(rt, unit, false);
        let place = unit.places.borrow_mut().pop();
        let before = place.and_then(|place| place.checked_sub(1));
        let next = before.and_then(|place| self.order.borrow().get(place).copied());
        if let Some(next) = next.and_then(|at| self.units.get(at)) {
            self.gather(rt, next);
        }
    }

    /// Behind a unit's backward: its gradients are reduced, and each rank keeps its part.
    fn after_backward(&self, rt: &Runtime, unit: &Unit) {
        unit.state.set(State::Done);
        if self.passes.get() <= self.unreduced {
            self.widen(rt, unit);
            return Self::free(unit);
        }
        let members = unit.members.borrow();
        let mut reduced = Vec::new();
        for member in members.iter() {
            let Some(leaf) = &member.leaf else { continue };
            if let Some(grad) = leaf.grad() {
                leaf.clear();
                reduced.push((member, grad));
            }
        }
        Self::free(unit);
        if self.reduced.take().is_some() {
            rt.wait_for(SCATTER);
        }
        let Some(&(first, _)) = reduced.first() else { return };
        let stored = first.stored;
        let dtype = self.reduces_as.unwrap_or(stored);
        let padded = reduced.iter().map(|(member, _)| member.padded(self.parts));
        let padded = padded.collect::<Vec<_>>();
        let numel = padded.iter().sum::<u64>();
        rt.enter_operator("fsdp::chunk_cat");
        let input =
            rt.empty_for(Category::Communication, dtype, &[numel.saturating_mul(self.parts)]);
        let pieces: Vec<Bytes> = padded.iter().map(|numel| dtype.size().times(*numel)).collect();
        drop(rt.empty(DType::UInt8, &[concatenation_table(&pieces).0]));
        let mut members = Vec::new();
        for (member, grad) in reduced.into_iter().rev() {
            drop(grad);
            members.push(member);
        }
        rt.enter_operator("reduce_scatter");
        let output =
            rt.on_stream(SCATTER, || rt.empty_for(Category::Communication, dtype, &[numel]));
        rt.exchange_on(
            SCATTER,
            &[&output],
            Exchange::ReduceScatter.of(input.nbytes(), self.shares),
        );
        if self.replicates {
            let average = Exchange::AllReduce.of(output.nbytes(), self.copies);
            rt.on_stream(SCATTER, || rt.exchange_on(AVERAGE, &[], average));
            self.averaged.borrow_mut().push(output.clone());
        }
        let output = if dtype == stored {
            output
        } else {
            let last = if self.replicates { AVERAGE } else { SCATTER };
            rt.on_stream(last, || rt.empty_for(Category::Gradient, stored, &[numel]))
        };
        if !self.offloads {
            rt.becomes_gradient(&output, &first.name);
            for member in members.into_iter().rev() {
                let Some(own) = member.own.as_ref().filter(|own| own.grad().is_none()) else {
                    continue;
                };
                let local = member.local(self.parts, self.part);
                let strides = contiguous_strides(&local);
                own.set(output.alias(local, strides));
            }
        }
        drop(output);
        self.reduced.replace(Some(input));
    }

    /// Gradients that are not reduced yet are kept in the type in which they will be.
    fn widen(&self, rt: &Runtime, unit: &Unit) {
        for member in unit.members.borrow().iter() {
            let dtype = self.reduces_as.unwrap_or(member.stored);
            let Some(leaf) = &member.leaf else { continue };
            let Some(grad) = leaf.grad().filter(|grad| grad.dtype().size() < dtype.size()) else {
                continue;
            };
            let wide = kernels::cast(rt, &grad, dtype);
            rt.becomes_gradient(&wide, &member.name);
            leaf.set(wide);
        }
    }

    /// The backward is over: units that it did not come to by modules, and all that waits.
    fn finish(&self, rt: &Runtime) {
        for unit in &self.units {
            if unit.state.replace(State::Idle) != State::Done {
                self.after_backward(rt, unit);
                unit.state.set(State::Idle);
            }
            unit.places.borrow_mut().clear();
        }
        for stream in [SCATTER, AVERAGE] {
            rt.wait_for(stream);
        }
        for unit in &self.units {
            drop(unit.buffer.take());
        }
        self.averaged.take().into_iter().for_each(drop);
        drop(self.kept.take());
        self.order.borrow_mut().clear();
        drop(self.reduced.take());
    }
}

/// COUNT: bytes that a block of threads copies at a time.
const PER_BLOCK: u64 = 2048;
/// SIZE: of a number in tables for kernels.
const NUMBER: Bytes = Bytes(8);

/// COUNT: blocks of threads that a multiprocessor holds (CUDA C++ Programming Guide, technical specifications).
fn resident_blocks(hardware: &Hardware) -> u64 {
    match hardware.capability {
        (8, 6 | 7) => 16,
        _ => hardware.threads_per_multiprocessor.div_ceil(64),
    }
}

/// SIZE: the table of `split_with_sizes_copy`, which has four numbers for each piece and one for each block of threads.
/// Blocks copy more where there would be too many for the device.
fn split_table(hardware: &Hardware, pieces: &[u64], parts: u64) -> Bytes {
    const MOST: u64 = 1 << 20;
    let most = hardware.multiprocessors.saturating_mul(resident_blocks(hardware)).max(1);
    let blocks = |each: u64| {
        pieces.iter().map(|piece| piece.div_ceil(PER_BLOCK.saturating_mul(each))).sum::<u64>()
    };
    let whole: u64 = pieces.iter().sum::<u64>().div_ceil(PER_BLOCK);
    let each = whole.div_ceil(most).max(1);
    let all = whole.saturating_mul(parts);
    let each =
        (each..=MOST).find(|each| all <= most.saturating_mul(each * (each + 1))).unwrap_or(each);
    let count = u64::try_from(pieces.len()).unwrap_or_default();
    NUMBER.times(4 * count + 1 + blocks(each))
}

/// SIZE: the same of `_chunk_cat`.
fn concatenation_table(pieces: &[Bytes]) -> Bytes {
    let blocks: u64 = pieces.iter().map(|piece| piece.0.div_ceil(PER_BLOCK)).sum();
    let count = u64::try_from(pieces.len()).unwrap_or_default();
    NUMBER.times(6 * count + 2 + blocks)
}

impl Hooks for Fsdp {
    fn stored(&self, category: Category, dtype: DType) -> Option<DType> {
        let kept = if category == Category::Parameter { self.types.kept(dtype) } else { dtype };
        self.placed.is_some().then_some(kept)
    }

    fn load(&self, rt: &Runtime, name: &str, category: Category, tensor: Tensor) -> Tensor {
        if self.placed.is_some() && category != Category::Parameter {
            return tensor;
        }
        let of_parameter = self.names.of_name(name).filter(|_| category == Category::Parameter);
        let Some(unit) = of_parameter.and_then(|(unit, _)| self.units.get(unit)) else {
            self.buffers.wait(&self.names, name, &tensor);
            return tensor;
        };
        let TensorType { dtype: stored, dims } = self.types.stored(name, &tensor);
        let read = self.types.read(&tensor);
        let (shard, leaf, own) = (None, None, None);
        let member = Member { name: name.to_owned(), dims, stored, shard, leaf, own };
        unit.members.borrow_mut().push(member);
        let gathered = rt.without_memory(|| rt.empty(read, tensor.sizes()));
        if let Some(placed) = &self.placed {
            placed.borrow_mut().insert(name.to_owned(), tensor);
        }
        gathered
    }

    fn placed(&self, rt: &Runtime, parameters: &[Parameter], _state: &[Tensor]) {
        let place = |member: &Member| self.names.of_name(&member.name).map(|(_, place)| place);
        let leaves: BTreeMap<&str, &Rc<Leaf>> =
            parameters.iter().map(|one| (one.leaf.name(), &one.leaf)).into_map();
        for at in (0..self.units.len()).map(|at| (at + 1) % self.units.len()) {
            let Some(unit) = self.units.get(at) else { continue };
            let mut members = unit.members.borrow_mut();
            members.order_by_key(place);
            for member in members.iter_mut() {
                member.leaf = leaves.get(member.name.as_str()).map(|leaf| Rc::clone(leaf));
            }
            drop(members);
            self.cut(rt, at, unit);
        }
    }

    fn loaded(&self, rt: &Runtime, parameters: &[Parameter]) -> Option<Vec<Parameter>> {
        let mut given = Vec::new();
        for parameter in parameters {
            let Some((unit, _)) = self.names.of_name(parameter.leaf.name()) else { continue };
            let Some(unit) = self.units.get(unit) else { continue };
            let mut members = unit.members.borrow_mut();
            let Some(member) = members.iter_mut().find(|one| one.name == parameter.leaf.name())
            else {
                continue;
            };
            // What waits on the host is updated there.
            let Some(shard) = &member.shard else { continue };
            let local = member.local(self.parts, self.part);
            let strides = contiguous_strides(&local);
            let (tensor, leaf) = rt.parameter(&shard.alias(local, strides), &member.name);
            leaf.set_spread(parameter.leaf.is_spread());
            member.own = Some(Rc::clone(&leaf));
            given.push(Parameter { tensor, leaf });
        }
        Some(given)
    }

    fn before_module(
        &self,
        rt: &Runtime,
        modules: &Modules,
        module: ModuleId,
        direction: Direction,
    ) {
        let Some((at, unit)) = self.unit(modules, module) else { return };
        match direction {
            Direction::Backward => {
                if at == 0 {
                    self.passes.set(self.passes.get() + 1);
                }
                if unit.state.get() != State::Done {
                    self.before_backward(rt, unit);
                }
            }
            Direction::Forward if unit.state.get() == State::Backward => {}
            Direction::Forward => {
                if at == 0 {
                    // The optimizer's step comes first.
                    rt.on_stream(GATHER, || rt.wait_for(Stream::DEFAULT));
                }
                self.gather(rt, unit);
                self.unpack(rt, unit, true);
            }
        }
    }

    fn after_module(
        &self,
        rt: &Runtime,
        modules: &Modules,
        module: ModuleId,
        direction: Direction,
    ) {
        let Some((at, unit)) = self.unit(modules, module) else { return };
        match direction {
            Direction::Backward if at == 0 => self.finish(rt),
            Direction::Backward => {
                if unit.state.get() == State::Backward {
                    self.after_backward(rt, unit);
                }
            }
            Direction::Forward if unit.state.get() == State::Backward => {}
            Direction::Forward => {
                if self.reshards(at) {
                    Self::free(unit);
                }
                let mut order = self.order.borrow_mut();
                unit.places.borrow_mut().push(order.len());
                order.push(at);
                drop(order);
                if at == 0 {
                    drop(self.kept.take());
                }
            }
        }
    }

    fn before_optimizer(&self, rt: &Runtime, parameters: &[Parameter]) {
        if let Some(group) = self.clips {
            // A norm for each gradient, of its part.
            let count = u64::try_from(parameters.len()).unwrap_or(u64::MAX);
            let norms = DType::Float32.size().times(count);
            rt.exchange(&[], Exchange::AllReduce.of(norms, group));
        }
    }

    fn after_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {
        self.passes.set(0);
    }
}
