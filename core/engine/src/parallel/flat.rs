//! `FullyShardedDataParallel`, the first version: the parameters of a unit are one flat parameter, cut into even parts.
//!
//! A unit is a block of the model, a layer of an adapter (peft's `fsdp_auto_wrap_policy`), or the root with all else.
//!
//! - Before its forward a unit is gathered into one buffer, of which its parameters are views; behind the forward the
//!   buffer is freed, but the root's. With mixed precision a copy of the shard in the lower type is gathered.
//! - Before its backward it is gathered again, and then the unit that ran before it in the forward.
//! - Behind its backward its gradients are joined to a flat one. That is padded where it must be, reduced, and freed;
//!   the rank keeps its part.
//!
//! Nothing waits for a stream here, so that `record_stream` changes nothing: the allocator finds every event done.
//!
//! Sources: `torch/distributed/fsdp/{_flat_param,_runtime_utils,_init_utils}.py`, PyTorch 2.15.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::units::{self, Buffers, ROOT, Types, Units};
use crate::adapt::is_adapter;
use crate::config::{Config, Ranks, Switch};
use crate::eager::autograd::Leaf;
use crate::eager::exchange::{Exchange, Group};
use crate::eager::{Runtime, Tensor};
use crate::recover::Program;
use crate::step::Parameter;
use crate::step::hooks::{Direction, Hooks};
use crate::step::modules::{ModuleId, Modules};
use crate::tensor::{DType, Dims, TensorType};
use crate::trace::{Category, Stream};

/// Where units are gathered.
const UNSHARD: Stream = Stream(1);
/// Where gradients are reduced.
const POST_BACKWARD: Stream = Stream(2);
/// Where shards are cast or copied from the host.
const PRE_UNSHARD: Stream = Stream(3);

/// SIZE: where each parameter begins at a multiple of, with `use_orig_params`.
const ALIGNMENT: u64 = 16;

/// What `FullyShardedDataParallel` does around the step of one rank.
#[derive(Debug)]
pub(super) struct Flat {
    parts: u64,
    part: u64,
    /// Ranks that have the other parts.
    shares: Group,
    types: Types,
    reduces_as: Option<DType>,
    /// Whether units are freed behind their forward (`FULL_SHARD`).
    reshards: Switch,
    offloads: bool,
    /// Whether the optimizer is given views for each parameter.
    keeps_parameters: bool,
    /// COUNT: backward passes of a step that reduce nothing, each before the last.
    unreduced: u64,
    /// The root first, then blocks, then layers of adapters.
    units: Vec<Unit>,
    names: Units,
    /// Layers of adapters by the module around them, in the order of their forward.
    around: BTreeMap<String, Vec<usize>>,
    /// Which unit of an adapter a parameter belongs to.
    apart: BTreeMap<String, usize>,
    buffers: Buffers,
    /// Units in the order of the forward's ends.
    order: RefCell<Vec<usize>>,
    is_ready: Cell<bool>,
    /// COUNT: backward passes since the last step.
    passes: Cell<u64>,
}

/// A flat parameter.
#[derive(Debug)]
struct Unit {
    members: RefCell<Vec<Member>>,
    stored: Cell<DType>,
    /// COUNT: elements without padding to the ranks.
    numel: Cell<u64>,
    shard: RefCell<Option<Tensor>>,
    /// While it is gathered.
    whole: RefCell<Option<Tensor>>,
    is_in_backward: Cell<bool>,
    is_done: Cell<bool>,
    is_prefetched: Cell<bool>,
    /// Its place in the order of the forward.
    place: Cell<Option<usize>>,
    /// Gradients of several batches that are not reduced yet.
    unreduced: RefCell<Option<Tensor>>,
    /// This rank's part of the gradient.
    reduced: RefCell<Option<Tensor>>,
    /// What the optimizer has of it.
    owned: RefCell<Vec<Piece>>,
}

impl Default for Unit {
    fn default() -> Self {
        Self {
            members: RefCell::default(),
            stored: Cell::new(DType::Float32),
            numel: Cell::default(),
            shard: RefCell::default(),
            whole: RefCell::default(),
            is_in_backward: Cell::default(),
            is_done: Cell::default(),
            is_prefetched: Cell::default(),
            place: Cell::default(),
            unreduced: RefCell::default(),
            reduced: RefCell::default(),
            owned: RefCell::default(),
        }
    }
}

/// A parameter in a unit.
#[derive(Debug)]
struct Member {
    name: String,
    place: usize,
    stored: DType,
    dims: Dims,
    /// COUNT: elements before it.
    offset: u64,
    leaf: Option<Rc<Leaf>>,
}

impl Member {
    fn numel(&self) -> u64 {
        self.dims.iter().product()
    }
}

/// Part of a shard, as the optimizer has it.
#[derive(Debug)]
struct Piece {
    numel: u64,
    leaf: Rc<Leaf>,
}

impl Unit {
    /// COUNT: elements of each rank's part.
    fn part(&self, parts: u64) -> u64 {
        self.numel.get().div_ceil(parts)
    }

    /// Whether something of it is trained.
    fn is_trained(&self) -> bool {
        self.members.borrow().iter().any(|member| member.leaf.is_some())
    }

    fn name(&self) -> String {
        self.members.borrow().first().map(|member| member.name.clone()).unwrap_or_default()
    }

    /// Places of its members; returns COUNT of all elements.
    fn lay_out(&self, alignment: u64, parts: u64) -> u64 {
        let mut members = self.members.borrow_mut();
        members.order_by_key(|member| member.place);
        let mut end: u64 = 0;
        for member in members.iter_mut() {
            member.offset = end.next_multiple_of(alignment);
            end = member.offset.saturating_add(member.numel());
        }
        if alignment > 1 { end.next_multiple_of(parts) } else { end }
    }
}

impl Flat {
    pub(super) fn of(program: &Program, config: &Config, ranks: Ranks) -> Self {
        let names = Units::of(program);
        let mut around: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let (mut by_layer, mut apart) = (BTreeMap::new(), BTreeMap::new());
        for &value in &program.placement {
            let name = program.graph.value_name(value);
            let Some((layer, _)) = name.rsplit_once('.').filter(|_| is_adapter(name)) else {
                continue;
            };
            let next = names.count().saturating_add(by_layer.len());
            let unit = *by_layer.entry(layer.to_owned()).or_insert(next);
            apart.insert(name.to_owned(), unit);
            let host = [".lora_", ".modules_to_save"].iter().find_map(|end| layer.find(end));
            let host = host.and_then(|end| layer.get(..end)).unwrap_or(layer);
            let layers = around.entry(host.to_owned()).or_default();
            if !layers.contains(&unit) {
                layers.push(unit);
            }
        }
        let accumulated = config.accumulate.get().saturating_sub(1);
        let (part, parts) = units::part(config, ranks);
        let count = names.count().saturating_add(by_layer.len());
        Self {
            parts,
            part,
            shares: Group { ranks: parts, apart: 1 },
            types: Types::of(config),
            reduces_as: config.reduce_type.dtype().or_else(|| config.param_type.dtype()),
            reshards: config.reshard,
            offloads: config.cpu_offload,
            keeps_parameters: config.use_orig_params,
            unreduced: if config.no_sync { accumulated } else { 0 },
            units: (0..count).map(|_| Unit::default()).collect(),
            names,
            around,
            apart,
            buffers: Buffers::default(),
            order: RefCell::default(),
            is_ready: Cell::default(),
            passes: Cell::default(),
        }
    }

    /// The type in which a unit is gathered.
    fn gathers(&self, unit: &Unit) -> DType {
        self.types.gathered(unit.stored.get())
    }

    /// The constructor: parameters come to the device, are joined, and the rank's part is copied.
    fn flatten(&self, rt: &Runtime, at: usize, unit: &Unit) {
        let Some(stored) = unit.members.borrow().first().map(|member| member.stored) else {
            return self.buffers.bring_unit(rt, at);
        };
        rt.enter_operator("FullyShardedDataParallel");
        unit.stored.set(stored);
        let element = self.types.gathered(stored).size().0.max(1);
        let alignment = if self.keeps_parameters { ALIGNMENT.div_ceil(element) } else { 1 };
        unit.numel.set(unit.lay_out(alignment, self.parts));
        let members = unit.members.borrow();
        let mut arrivals: Vec<&Member> = members.iter().collect();
        arrivals.order_by_key(|member| (member.name.matches('.').count(), member.place));
        let mut whole = Vec::new();
        for member in arrivals {
            self.buffers.bring_statistics(rt, &member.name);
            let ty = TensorType::new(member.stored, member.dims.clone());
            whole.push(rt.place(&ty, Category::Communication, &member.name));
        }
        self.buffers.bring_unit(rt, at);
        let name = members.first().map_or("", |member| &member.name);
        let place = |numel| rt.place(&TensorType::new(stored, [numel]), Category::Parameter, name);
        let flat = place(unit.numel.get());
        let numel = unit.part(self.parts);
        let start = self.part.saturating_mul(numel);
        let own = unit.numel.get().saturating_sub(start).min(numel);
        let mut shard = place(own);
        if own < numel {
            shard = place(numel);
        }
        drop(flat);
        whole.into_iter().for_each(drop);
        unit.shard.replace((!self.offloads).then_some(shard));
    }

    /// `_lazy_init`: buffers are made once, to be freed at once.
    fn prepare(&self, rt: &Runtime) {
        if self.is_ready.replace(true) {
            return;
        }
        rt.enter_operator("FullyShardedDataParallel");
        for unit in self.units.iter().filter(|unit| unit.numel.get() > 0) {
            let numel = unit.part(self.parts);
            let (low, stored) = (self.gathers(unit), unit.stored.get());
            if low != stored {
                drop(rt.empty(low, &[numel]));
            }
            drop(rt.empty(low, &[numel.saturating_mul(self.parts)]));
            if low != stored {
                drop(rt.empty(stored, &[numel.saturating_mul(self.parts)]));
            }
        }
    }

    /// `_unshard`.
    fn gather(&self, rt: &Runtime, unit: &Unit) {
        let numel = unit.part(self.parts);
        let (low, stored) = (self.gathers(unit), unit.stored.get());
        let is_whole = unit.whole.borrow().is_some();
        if numel == 0 || is_whole && !self.offloads {
            return;
        }
        rt.enter_operator("FullyShardedDataParallel");
        let part = rt.on_stream(PRE_UNSHARD, || {
            let part = (low != stored).then(|| rt.empty(low, &[numel]));
            let copy = self.offloads.then(|| rt.empty(stored, &[numel]));
            part.or(copy)
        });
        if !is_whole {
            let numel = numel.saturating_mul(self.parts);
            let whole = rt.on_stream(UNSHARD, || {
                let whole = rt.empty_for(Category::Communication, low, &[numel]);
                rt.exchange(&[&whole], Exchange::AllGather.of(whole.nbytes(), self.shares));
                whole
            });
            unit.whole.replace(Some(whole));
        }
        drop(part);
    }

    fn before_forward(&self, rt: &Runtime, at: usize) {
        let Some(unit) = self.units.get(at).filter(|unit| !unit.is_in_backward.get()) else {
            return;
        };
        if at == ROOT {
            self.prepare(rt);
        }
        if !unit.is_prefetched.get() {
            self.gather(rt, unit);
        }
        rt.wait_for(UNSHARD);
    }

    fn after_forward(&self, at: usize) {
        let Some(unit) = self.units.get(at).filter(|unit| !unit.is_in_backward.get()) else {
            return;
        };
        if unit.place.get().is_none() {
            let mut order = self.order.borrow_mut();
            unit.place.set(Some(order.len()));
            order.push(at);
        }
        if at != ROOT && self.reshards.or(true) {
            drop(unit.whole.take());
        }
        unit.is_prefetched.set(false);
    }

    fn before_backward(&self, rt: &Runtime, at: usize) {
        let Some(unit) = self.units.get(at) else { return };
        if unit.is_in_backward.replace(true) || unit.is_done.get() {
            return;
        }
        if !unit.is_prefetched.replace(false) {
            self.gather(rt, unit);
        }
        rt.wait_for(UNSHARD);
        let before = unit.place.get().and_then(|place| place.checked_sub(1));
        let next = before.and_then(|place| self.order.borrow().get(place).copied());
        let next = next.and_then(|at| self.units.get(at));
        if let Some(next) = next.filter(|next| !next.is_in_backward.get() && !next.is_done.get())
            && !next.is_prefetched.replace(true)
        {
            self.gather(rt, next);
        }
    }

    /// Behind a unit's backward.
    fn after_backward(&self, rt: &Runtime, unit: &Unit) {
        if unit.is_done.replace(true) {
            return;
        }
        unit.is_in_backward.set(false);
        let is_reduced = self.passes.get() > self.unreduced;
        let (grad, pieces) = rt.on_stream(UNSHARD, || self.join(rt, unit)).unzip();
        if is_reduced || self.reshards.or(true) {
            drop(unit.whole.take());
        }
        pieces.into_iter().flatten().for_each(drop);
        let Some(mut grad) = grad else { return };
        if let Some(before) = unit.unreduced.take() {
            drop(grad);
            grad = before;
        }
        if !is_reduced {
            rt.becomes_gradient(&grad, &unit.name());
            unit.unreduced.replace(Some(grad));
            return;
        }
        self.reduce(rt, unit, grad);
    }

    /// The backward of the views, on the stream on which they were made: gradients become one; missing ones are zero.
    /// Returns them, too, since they are freed only when the next memory is allocated.
    fn join(&self, rt: &Runtime, unit: &Unit) -> Option<(Tensor, Vec<Tensor>)> {
        if !unit.is_trained() {
            return None;
        }
        let members = unit.members.borrow();
        let mut pieces = Vec::new();
        let mut end = 0;
        rt.enter_operator("SplitWithSizesBackward0");
        for member in members.iter() {
            let gap = member.offset.saturating_sub(end);
            if gap > 0 {
                pieces.push(rt.empty(self.gathers(unit), &[gap]));
            }
            end = member.offset.saturating_add(member.numel());
            let grad = member.leaf.as_ref().and_then(|leaf| {
                let grad = leaf.grad();
                leaf.clear();
                grad
            });
            pieces.push(grad.unwrap_or_else(|| rt.empty(self.gathers(unit), &member.dims)));
        }
        let gap = unit.numel.get().saturating_sub(end);
        if gap > 0 {
            pieces.push(rt.empty(self.gathers(unit), &[gap]));
        }
        let dtype = pieces.first().map_or_else(|| self.gathers(unit), Tensor::dtype);
        let flat = rt.empty_for(Category::Gradient, dtype, &[unit.numel.get()]);
        Some((flat, pieces))
    }

    /// `_reduce_grad`: the rank keeps its part of a flat gradient.
    fn reduce(&self, rt: &Runtime, unit: &Unit, grad: Tensor) {
        let (numel, stored) = (unit.part(self.parts), unit.stored.get());
        let dtype = self.reduces_as.unwrap_or(stored);
        let output = rt.on_stream(POST_BACKWARD, || {
            rt.wait_for(Stream::DEFAULT);
            rt.enter_operator("reduce_scatter");
            let cast = (grad.dtype() != dtype).then(|| rt.empty(dtype, grad.sizes()));
            let all = numel.saturating_mul(self.parts);
            let is_padded = all > unit.numel.get();
            let padded = is_padded.then(|| rt.empty_for(Category::Communication, dtype, &[all]));
            let output = rt.empty_for(Category::Gradient, dtype, &[numel]);
            let whole = dtype.size().times(all);
            rt.exchange(&[&output], Exchange::ReduceScatter.of(whole, self.shares));
            let output = if dtype == stored {
                output
            } else {
                rt.empty_for(Category::Gradient, stored, &[numel])
            };
            drop(padded);
            drop(cast);
            output
        });
        drop(grad);
        if self.offloads || unit.reduced.borrow().is_some() {
            return;
        }
        rt.becomes_gradient(&output, &unit.name());
        for piece in unit.owned.borrow().iter() {
            piece.leaf.set(output.alias([piece.numel], [1]));
        }
    }

    /// The backward is over.
    fn finish(&self, rt: &Runtime) {
        for unit in &self.units {
            self.after_backward(rt, unit);
        }
        rt.wait_for(POST_BACKWARD);
        for unit in &self.units {
            unit.is_in_backward.set(false);
            unit.is_done.set(false);
            unit.is_prefetched.set(false);
            unit.place.set(None);
        }
        self.order.borrow_mut().clear();
    }

    /// Units that begin and end with a module, in the order of the forward.
    fn units_of(&self, modules: &Modules, module: ModuleId) -> Vec<usize> {
        let own = self.names.of_module(modules, module);
        let inner = self.around.get(modules.path(module)).into_iter().flatten().copied();
        own.into_iter().chain(inner).collect()
    }
}

impl Hooks for Flat {
    fn stored(&self, _category: Category, _dtype: DType) -> Option<DType> {
        None
    }

    fn load(&self, rt: &Runtime, name: &str, category: Category, tensor: Tensor) -> Tensor {
        let known = self.names.of_name(name).filter(|_| category == Category::Parameter);
        let Some((unit, place)) = known else {
            self.buffers.wait(&self.names, name, &tensor);
            return tensor;
        };
        let unit = self.apart.get(name).copied().unwrap_or(unit);
        let TensorType { dtype: stored, dims } = self.types.stored(name, &tensor);
        let read = self.types.read(&tensor);
        let (offset, leaf, name) = (0, None, name.to_owned());
        if let Some(unit) = self.units.get(unit) {
            unit.members.borrow_mut().push(Member { name, place, stored, dims, offset, leaf });
        }
        rt.without_memory(|| rt.empty(read, tensor.sizes()))
    }

    fn placed(&self, rt: &Runtime, parameters: &[Parameter], _state: &[Tensor]) {
        let leaves: BTreeMap<&str, &Rc<Leaf>> =
            parameters.iter().map(|one| (one.leaf.name(), &one.leaf)).into_map();
        for unit in &self.units {
            for member in unit.members.borrow_mut().iter_mut() {
                let leaf = leaves.get(member.name.as_str()).map(|leaf| Rc::clone(leaf));
                if let Some(leaf) = &leaf {
                    leaf.set_stream(UNSHARD);
                }
                member.leaf = leaf;
            }
        }
        let blocks = self.names.count();
        let layers = blocks..self.units.len();
        // Layers of a block come before it; they are small, and so all come first.
        for at in layers.chain(1..blocks).chain([ROOT]) {
            if let Some(unit) = self.units.get(at) {
                self.flatten(rt, at, unit);
            }
        }
    }

    fn loaded(&self, rt: &Runtime, _parameters: &[Parameter]) -> Option<Vec<Parameter>> {
        let mut given = Vec::new();
        for unit in self.units.iter().filter(|unit| unit.is_trained()) {
            let shard = unit.shard.borrow();
            let Some(shard) = shard.as_ref() else { continue };
            let part = unit.part(self.parts);
            let start = self.part.saturating_mul(part);
            let mut pieces = vec![(part, unit.name())];
            if self.keeps_parameters {
                let members = unit.members.borrow();
                let own = members.iter().filter(|member| member.leaf.is_some()).map(|member| {
                    let from = member.offset.max(start);
                    let to = member.offset.saturating_add(member.numel());
                    let to = to.min(start.saturating_add(part));
                    (to.saturating_sub(from), member.name.clone())
                });
                pieces = own.filter(|(numel, _)| *numel > 0).collect();
            }
            for (numel, name) in pieces {
                let (tensor, leaf) = rt.parameter(&shard.alias([numel], [1]), &name);
                let piece = Piece { numel, leaf: Rc::clone(&leaf) };
                unit.owned.borrow_mut().push(piece);
                given.push(Parameter { tensor, leaf });
            }
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
        let units = self.units_of(modules, module);
        match direction {
            Direction::Backward => {
                if module == ModuleId::MODEL {
                    self.passes.set(self.passes.get().saturating_add(1));
                }
                units.into_iter().rev().for_each(|at| self.before_backward(rt, at));
            }
            Direction::Forward => units.into_iter().for_each(|at| self.before_forward(rt, at)),
        }
    }

    fn after_module(
        &self,
        rt: &Runtime,
        modules: &Modules,
        module: ModuleId,
        direction: Direction,
    ) {
        let units = self.units_of(modules, module);
        match direction {
            Direction::Backward if module == ModuleId::MODEL => self.finish(rt),
            Direction::Backward => {
                for unit in units.into_iter().rev().filter_map(|at| self.units.get(at)) {
                    if unit.is_in_backward.get() {
                        self.after_backward(rt, unit);
                    }
                }
            }
            Direction::Forward => units.into_iter().for_each(|at| self.after_forward(at)),
        }
    }

    fn after_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {
        self.passes.set(0);
    }
}
