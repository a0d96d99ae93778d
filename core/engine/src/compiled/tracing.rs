//! What a region does, as a joint graph: operators of forward as they run, and functions of backward as the engine calls
//! them.

use crate::order::InOrder as _;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::joint::{Class, Id, Node};
use crate::bytes::Bytes;
use crate::eager::tracer::{Request, Tracer};
use crate::eager::{GradNode, Kernel, Runtime, Tensor};
use crate::tensor::{DType, Dims, TensorType};
use crate::trace::StorageId;

/// How an operator splits into classes.
#[derive(Clone, Copy)]
enum Split {
    /// Of one class.
    Whole(Class),
    /// Several results of one kernel.
    Several,
    /// Statistics of the operands, and a result that is fused.
    Statistics,
    /// Random numbers, a mask made of them, and a result that is fused.
    Random,
}

/// The classes of an operator, forward and backward, by the name of its function in autograd. What is not here is
/// pointwise.
const CLASSES: &[(&str, Split, Split)] = {
    use Class::{Join, Once, Point, Product, Scatter, Small, Solid};
    use Split::{Random, Several, Statistics, Whole};
    const POINT: Split = Whole(Point);
    &[
        ("AdaptiveAvgPool2DBackward0", Whole(Solid), Whole(Small)),
        ("AddmmBackward0", Whole(Product), Whole(Product)),
        ("AvgPool2DBackward0", Whole(Solid), Whole(Small)),
        ("BaddbmmBackward0", Whole(Product), Whole(Product)),
        ("BinaryCrossEntropyWithLogitsBackward0", Whole(Small), POINT),
        ("BmmBackward0", Whole(Product), Whole(Product)),
        ("CatBackward0", Whole(Join), POINT),
        ("ConvolutionBackward0", Whole(Solid), Several),
        ("CudnnBatchNormBackward0", Statistics, Statistics),
        ("CumsumBackward0", Whole(Solid), Whole(Solid)),
        ("DotBackward0", Whole(Product), POINT),
        ("EmbeddingBackward0", Whole(Once), Whole(Solid)),
        ("FusedRmsNormBackward0", Statistics, Statistics),
        ("GatherBackward0", POINT, Whole(Scatter)),
        ("GroupedMmBackward0", Whole(Product), Whole(Product)),
        ("IndexBackward0", POINT, Whole(Scatter)),
        ("LogSoftmaxBackward0", Statistics, POINT),
        ("MaxPool2DWithIndicesBackward0", Several, Whole(Scatter)),
        ("MeanBackward1", Whole(Small), POINT),
        ("MmBackward0", Whole(Product), Whole(Product)),
        ("MseLossBackward0", Whole(Small), POINT),
        ("MvBackward0", Whole(Product), Whole(Product)),
        ("NativeBatchNormBackward0", Statistics, Statistics),
        ("NativeDropoutBackward0", Random, POINT),
        ("NativeGroupNormBackward0", Statistics, Statistics),
        ("NativeLayerNormBackward0", Statistics, Statistics),
        ("NllLoss2DBackward0", Whole(Small), POINT),
        ("NllLossBackward0", Whole(Small), POINT),
        ("ReduceBackward0", Whole(Small), POINT),
        ("SafeSoftmaxBackward0", Statistics, POINT),
        ("ScaledDotProductEfficientAttentionBackward0", Several, Several),
        ("ScaledDotProductFlashAttentionBackward0", Several, Several),
        ("ScatterBackward0", Whole(Scatter), POINT),
        ("SoftmaxBackward0", Statistics, POINT),
        ("SumBackward1", Whole(Small), POINT),
        ("ValueSelectingBackward0", Whole(Small), Whole(Scatter)),
    ]
};

/// Functions whose gradient is a mask of the input or the result, times the incoming gradient.
const MASKED: &[&str] = &["aten::relu", "HardtanhBackward0", "aten::threshold"];

fn classes(name: &str) -> (Split, Split) {
    let found = CLASSES.binary_search_by(|(known, ..)| known.cmp(&name)).ok();
    let found = found.and_then(|at| CLASSES.get(at));
    found.map_or((Split::Whole(Class::Point), Split::Whole(Class::Point)), |row| (row.1, row.2))
}

/// A region that is traced.
#[derive(Debug, Default)]
pub(super) struct Tracing {
    /// Storages from here on are the region's own.
    first: usize,
    pub(super) nodes: Vec<Node>,
    pub(super) known: BTreeMap<StorageId, Id>,
    /// What forward read, by the number of the function in autograd.
    pub(super) calls: BTreeMap<usize, Vec<StorageId>>,
    /// Of the operator that runs.
    pub(super) scratch: Vec<Request>,
    pub(super) kernels: Vec<(Kernel, DType)>,
    /// COUNT: operators, views among them.
    operators: usize,
    convolutions: Convolutions,
    /// Where gradients of parameters go, and which they are.
    pub(super) gradients: Vec<(Rc<GradNode>, Tensor)>,
    /// Whether convolutions run in channels last, with copies of what does not lie so.
    pub(super) channels_last: bool,
    /// By what they copy.
    pub(super) copies: BTreeMap<Id, Id>,
    /// Results of calls that are merged with equal ones.
    merged: BTreeMap<Call, Id>,
}

/// A call of an operator: its name, the type of its result, and how it reads what.
type Call = (String, DType, Vec<(Id, Dims, Dims)>);

/// What decides over the layout of convolutions.
#[derive(Clone, Copy, Debug, Default)]
struct Convolutions {
    /// COUNT: calls, of forward and backward.
    calls: usize,
    /// Whether one is better left as it is.
    is_refused: bool,
    /// Whether one has more than 64 channels.
    is_wide: bool,
}

/// The trace of a region, while the runtime writes it.
#[derive(Clone, Debug)]
pub(super) struct Shared(Rc<RefCell<Tracing>>);

impl Shared {
    /// An empty one, of what is made behind so many storages.
    pub(super) fn new(first: usize, channels_last: bool) -> Self {
        Self(Rc::new(RefCell::new(Tracing::new(first, channels_last))))
    }

    /// A gradient that backward is given.
    pub(super) fn tangent(&self, rt: &Runtime, tensor: &Tensor) -> Id {
        let mut tracing = self.0.borrow_mut();
        let id = tracing.push(rt, Class::Tangent, Vec::new(), Some(type_of(tensor)));
        tracing.make(tensor, id);
        id
    }

    /// What was written.
    pub(super) fn into_inner(self) -> Tracing {
        self.0.take()
    }
}

impl Tracer for Shared {
    fn channels_last(&self) -> bool {
        self.0.borrow().channels_last
    }

    fn call(
        &mut self,
        rt: &Runtime,
        name: &str,
        given: (&[&Tensor], &[&Tensor]),
        outputs: &[&Tensor],
    ) {
        self.0.borrow_mut().call(rt, name, given, outputs);
    }

    fn function(&mut self, number: usize, inputs: &[&Tensor]) {
        let inputs = inputs.iter().map(|input| input.storage_id()).collect();
        self.0.borrow_mut().calls.insert(number, inputs);
    }

    fn gradients(
        &mut self,
        rt: &Runtime,
        function: (&str, usize),
        operands: &[&Tensor],
        results: &[Option<Tensor>],
    ) {
        self.0.borrow_mut().gradients(rt, function, operands, results);
    }

    fn engine(&mut self, rt: &Runtime, is_sum: bool, operands: &[&Tensor], result: &Tensor) {
        let class = if is_sum { Class::Small } else { Class::Point };
        self.0.borrow_mut().engine(rt, class, operands, result);
    }

    fn leaf(&mut self, node: &Rc<GradNode>, grad: Option<&Tensor>) {
        let found = grad.map(|grad| (Rc::clone(node), grad.clone()));
        self.0.borrow_mut().gradients.extend(found);
    }

    fn scratch(&mut self, request: Request) {
        self.0.borrow_mut().scratch.push(request);
    }

    fn kernel(&mut self, kernel: Kernel, dtype: DType) {
        self.0.borrow_mut().kernels.push((kernel, dtype));
    }
}

impl Tracing {
    fn new(first: usize, channels_last: bool) -> Self {
        Self {
            first,
            nodes: Vec::new(),
            known: BTreeMap::new(),
            calls: BTreeMap::new(),
            scratch: Vec::new(),
            kernels: Vec::new(),
            operators: 0,
            convolutions: Convolutions::default(),
            gradients: Vec::new(),
            channels_last,
            copies: BTreeMap::new(),
            merged: BTreeMap::new(),
        }
    }

    /// A node of one result; what the operator asked for is its.
    pub(super) fn push(
        &mut self,
        rt: &Runtime,
        class: Class,
        reads: Vec<(Id, Bytes)>,
        ty: Option<TensorType>,
    ) -> Id {
        let place = rt.whereabouts();
        let (scratch, kernels) = (Vec::new(), Vec::new());
        let (adds, is_statistic) = (false, false);
        self.nodes.push(Node { class, reads, ty, adds, is_statistic, place, scratch, kernels });
        self.nodes.len() - 1
    }

    /// The node behind a tensor: one that no operator made is an input, or computed from nothing.
    pub(super) fn id(&mut self, rt: &Runtime, tensor: &Tensor) -> Id {
        let storage = tensor.storage_id();
        if let Some(id) = self.known.get(&storage) {
            return *id;
        }
        let (class, ty) = (self.class_of(storage), type_of(tensor));
        // Masks that nothing is known of are alike.
        let is_mask = class == Class::Point && ty.dtype == DType::Bool;
        let call =
            is_mask.then(|| (String::new(), ty.dtype, vec![(0, ty.dims.clone(), Dims::new())]));
        let id = self.once(call, |this| this.push(rt, class, Vec::new(), Some(ty)));
        self.known.insert(storage, id);
        id
    }

    /// An input, or something that was computed from nothing.
    fn class_of(&self, storage: StorageId) -> Class {
        if storage.index() < self.first { Class::Input } else { Class::Point }
    }

    /// The node of a call, which is that of an equal call where there is one.
    fn once(&mut self, call: Option<Call>, make: impl FnOnce(&mut Self) -> Id) -> Id {
        if let Some(id) = call.as_ref().and_then(|call| self.merged.get(call)) {
            return *id;
        }
        let id = make(self);
        self.merged.extend(call.map(|call| (call, id)));
        id
    }

    /// A call that equals any with the same operands, each of which it reads as a whole: others may differ in numbers.
    fn mergeable(
        &mut self,
        rt: &Runtime,
        name: &str,
        dtype: DType,
        operands: &[&Tensor],
    ) -> Option<Call> {
        const MERGED: [&str; 5] = [
            "CloneBackward0",
            "EmbeddingBackward0",
            "ToCopyBackward0",
            "WhereBackward0",
            "aten::where",
        ];
        if !MERGED.contains(&name) {
            return None;
        }
        let mut reads = Vec::new();
        for operand in operands {
            let id = self.id(rt, operand);
            let whole = self.nodes.get(id)?.ty.as_ref()?.numel();
            if type_of(operand).numel() != whole {
                return None;
            }
            let dims = |list: &[u64]| Dims::from_slice(list);
            reads.push((id, dims(operand.sizes()), dims(operand.strides())));
        }
        Some((name.to_owned(), dtype, reads))
    }

    fn is_known(&self, tensor: &Tensor) -> bool {
        self.known.contains_key(&tensor.storage_id())
    }

    /// Nodes behind tensors, each once, and the bytes of them that are seen.
    fn read<'t>(
        &mut self,
        rt: &Runtime,
        tensors: impl IntoIterator<Item = &'t Tensor>,
    ) -> Vec<(Id, Bytes)> {
        let mut reads: Vec<(Id, Bytes)> = Vec::new();
        for tensor in tensors {
            let id = self.id(rt, tensor);
            let bytes = type_of(tensor).size();
            match reads.iter_mut().find(|(known, _)| *known == id) {
                Some((_, seen)) => *seen += bytes,
                None => reads.push((id, bytes)),
            }
        }
        reads
    }

    pub(super) fn make(&mut self, tensor: &Tensor, id: Id) {
        self.known.insert(tensor.storage_id(), id);
    }

    /// Gives a node what its operator asked for.
    fn equip(&mut self, id: Id) {
        let (scratch, kernels) =
            (std::mem::take(&mut self.scratch), std::mem::take(&mut self.kernels));
        let Some(node) = self.nodes.get_mut(id) else { return };
        match node.class {
            Class::Product => node.scratch = vec![Request::Product],
            Class::Solid | Class::Scatter => node.scratch = scratch,
            _ => {}
        }
        node.kernels = kernels;
    }

    /// An operator of forward.
    pub(super) fn call(
        &mut self,
        rt: &Runtime,
        name: &str,
        (inputs, saved): (&[&Tensor], &[&Tensor]),
        outputs: &[&Tensor],
    ) {
        self.operators += 1;
        let (split, _) = classes(name);
        let is_view = |tensor: &Tensor| is_in(inputs, tensor) || self.is_known(tensor);
        let made: Vec<&Tensor> =
            outputs.iter().copied().filter(|tensor| !is_view(tensor)).collect();
        if made.is_empty() {
            return self.forget();
        }
        let is_new = |tensor: &&Tensor| {
            tensor.storage_id().index() >= self.first
                && !self.is_known(tensor)
                && !is_in(&made, tensor)
        };
        // What a kernel makes besides its results.
        let is_split = !matches!(split, Split::Whole(_));
        let extras: Vec<&Tensor> =
            saved.iter().copied().filter(|tensor| is_split && is_new(tensor)).collect();
        let is_operand = |tensor: &&Tensor| !is_in(&made, tensor) && !is_in(&extras, tensor);
        let mut seen = BTreeSet::new();
        let operands = inputs.iter().chain(saved).copied().filter(is_operand).filter(|tensor| {
            seen.insert((tensor.storage_id(), tensor.sizes().to_vec(), tensor.strides().to_vec()))
        });
        let operands: Vec<&Tensor> = operands.collect();
        let mut reads = self.read(rt, operands.iter().copied());
        if name == "ConvolutionBackward0"
            && let [image, weight, ..] = inputs
        {
            self.convolution(rt, [image, weight], &mut reads);
        }
        match split {
            Split::Whole(class) => {
                for tensor in &made {
                    let ty = type_of(tensor);
                    let call = self.mergeable(rt, name, ty.dtype, &operands);
                    let reads = reads.clone();
                    let id = self.once(call, |this| this.push(rt, class, reads, Some(ty)));
                    self.make(tensor, id);
                    self.equip(id);
                }
            }
            Split::Several => {
                let list = self.push(rt, Class::Solid, reads, None);
                self.equip(list);
                for tensor in made.iter().copied().chain(extras) {
                    self.part(rt, list, tensor, offsets(name, type_of(tensor)));
                }
            }
            Split::Statistics => self.statistics(rt, &made, &extras, reads),
            Split::Random => self.random(rt, &made, &extras, reads),
        }
        self.forget();
    }

    /// One of several results.
    fn part(&mut self, rt: &Runtime, list: Id, tensor: &Tensor, ty: TensorType) {
        let part = self.push(rt, Class::Part, vec![(list, Bytes::ZERO)], Some(ty));
        self.make(tensor, part);
    }

    /// Numbers of each row, and a result that is computed with them.
    fn statistics(
        &mut self,
        rt: &Runtime,
        made: &[&Tensor],
        extras: &[&Tensor],
        mut reads: Vec<(Id, Bytes)>,
    ) {
        let operand: Vec<(Id, Bytes)> = reads.first().copied().into_iter().collect();
        for extra in extras {
            let id = self.push(rt, Class::Small, operand.clone(), Some(type_of(extra)));
            self.make(extra, id);
        }
        for result in made {
            let ty = type_of(result);
            if extras.is_empty() {
                // The largest of each row, and the sum.
                let width = ty.dims.last().copied().unwrap_or(1).max(1);
                let rows = TensorType::new(DType::Float32, [ty.numel().div_euclid(width), 2]);
                self.push(rt, Class::Small, operand.clone(), Some(rows));
            }
            let rows = self.nodes.len() - 1;
            let bytes = self.nodes.last_mut().map_or(Bytes::ZERO, |node| {
                node.is_statistic = true;
                node.bytes()
            });
            reads.push((rows, bytes));
            let id = self.push(rt, Class::Point, reads.clone(), Some(ty));
            self.make(result, id);
        }
    }

    /// Random numbers, masks that are made of them, and a result that they select.
    fn random(
        &mut self,
        rt: &Runtime,
        made: &[&Tensor],
        extras: &[&Tensor],
        mut reads: Vec<(Id, Bytes)>,
    ) {
        for mask in extras {
            let numbers = TensorType::new(DType::Float32, mask.sizes());
            let numbers = self.push(rt, Class::Once, Vec::new(), Some(numbers));
            let ty = type_of(mask);
            let size = ty.size();
            let id = self.push(rt, Class::Point, vec![(numbers, size)], Some(ty));
            self.make(mask, id);
            reads.push((id, size));
        }
        for result in made {
            let id = self.push(rt, Class::Point, reads.clone(), Some(type_of(result)));
            self.make(result, id);
        }
    }

    /// What an operator asked for that has no memory.
    fn forget(&mut self) {
        self.scratch.clear();
        self.kernels.clear();
    }

    /// A convolution: whether it bears channels last; if so, images and weights that do not lie so are copied.
    fn convolution(&mut self, rt: &Runtime, operands: [&Tensor; 2], reads: &mut [(Id, Bytes)]) {
        let [image, weight] = operands;
        let (out, channels) = (weight.size(0), weight.size(1));
        let window = weight.sizes().get(2).copied().unwrap_or(1);
        let about = &mut self.convolutions;
        about.calls += 1;
        about.is_refused |= weight.rank() != 4
            || channels > 1 && image.size(1) != channels
            || out.saturating_mul(2) <= channels && window > 1;
        about.is_wide |= out > 64 || channels > 64;
        if !self.channels_last {
            return;
        }
        for tensor in operands {
            let id = self.id(rt, tensor);
            let lies_so = tensor.strides().get(1) == Some(&1);
            let positions: u64 = tensor.sizes().iter().skip(2).product();
            let is_input = self.nodes.get(id).is_some_and(|node| node.class == Class::Input);
            if !is_input || lies_so || tensor.size(1) <= 1 || positions <= 1 {
                continue;
            }
            let copy = self.copies.get(&id).copied().unwrap_or_else(|| {
                let ty = type_of(tensor);
                self.push(rt, Class::Once, vec![(id, ty.size())], Some(ty))
            });
            self.copies.insert(id, copy);
            reads.iter_mut().filter(|(read, _)| *read == id).for_each(|(read, _)| *read = copy);
        }
    }

    /// Gradients that a function of backward has made.
    pub(super) fn gradients(
        &mut self,
        rt: &Runtime,
        (name, number): (&str, usize),
        operands: &[&Tensor],
        results: &[Option<Tensor>],
    ) {
        self.operators += 1;
        let (_, split) = classes(name);
        let mut reads = self.read(rt, operands.iter().copied());
        if name == "ConvolutionBackward0" {
            self.convolutions.calls += 1;
            for (read, _) in &mut reads {
                *read = self.copies.get(read).copied().unwrap_or(*read);
            }
        }
        let list = matches!(split, Split::Several).then(|| {
            let list = self.push(rt, Class::Solid, reads.clone(), None);
            self.equip(list);
            let is_convolution = name == "ConvolutionBackward0";
            let operator =
                rt.label(if is_convolution { "aten::convolution_backward" } else { name });
            self.nodes.last_mut().into_iter().for_each(|node| node.place.operator = operator);
            list
        });
        // In the order in which they were made.
        let made =
            results.iter().enumerate().filter_map(|(at, result)| Some((at, result.as_ref()?)));
        let mut made: Vec<(usize, &Tensor)> = made.collect();
        made.order_by_key(|(_, result)| result.storage_id());
        for (at, result) in made {
            if self.is_known(result) {
                continue;
            }
            let ty = type_of(result);
            let class = match (list, split) {
                (Some(list), _) => {
                    self.part(rt, list, result, ty);
                    continue;
                }
                (_, Split::Statistics) if at > 0 => Class::Small,
                (_, Split::Whole(class)) => class,
                _ => Class::Point,
            };
            let mut read = reads.clone();
            if matches!(class, Class::Product | Class::Scatter | Class::Small) {
                // Its own operand has no part in its gradient but for its shape.
                let own = self.calls.get(&number).and_then(|inputs| inputs.get(at));
                let own = own.and_then(|own| self.known.get(own)).copied();
                let others = reads.iter().filter(|(id, _)| Some(*id) != own).count();
                read.retain(|(id, _)| others == 0 || Some(*id) != own);
            }
            let id = self.gradient(rt, name, class, read, ty);
            self.make(result, id);
        }
        self.forget();
    }

    /// The node of a gradient, and those of the steps to it.
    fn gradient(
        &mut self,
        rt: &Runtime,
        name: &str,
        class: Class,
        mut read: Vec<(Id, Bytes)>,
        ty: TensorType,
    ) -> Id {
        let is_half = ty.dtype.size() < DType::Float32.size();
        if name == "EmbeddingBackward0" {
            // Nothing is sorted.
            self.scratch.clear();
        }
        match class {
            Class::Solid if name == "EmbeddingBackward0" && is_half => {
                // Added up in single precision, then cast.
                let single = TensorType::new(DType::Float32, ty.dims.clone());
                let bytes = single.size();
                let sum = self.push(rt, Class::Solid, read, Some(single));
                self.equip(sum);
                self.push(rt, Class::Point, vec![(sum, bytes)], Some(ty))
            }
            Class::Solid | Class::Product => {
                let id = self.push(rt, class, read, Some(ty));
                self.equip(id);
                id
            }
            Class::Scatter => {
                let bytes = ty.size();
                let zeros = self.push(rt, Class::Point, Vec::new(), Some(ty.clone()));
                read.insert(0, (zeros, bytes));
                let filled = self.push(rt, Class::Scatter, read, Some(ty.clone()));
                self.push(rt, Class::Point, vec![(filled, bytes)], Some(ty))
            }
            Class::Point if MASKED.contains(&name) => {
                let mask = TensorType::new(DType::Bool, ty.dims.clone());
                let bytes = mask.size();
                let (gradient, saved) = (read.first().copied(), read.last().copied());
                let mask = self.push(rt, Class::Point, saved.into_iter().collect(), Some(mask));
                let operands = gradient.into_iter().chain([(mask, bytes)]).collect();
                self.push(rt, Class::Point, operands, Some(ty))
            }
            class => self.push(rt, class, read, Some(ty)),
        }
    }

    /// A result of the engine itself.
    pub(super) fn engine(
        &mut self,
        rt: &Runtime,
        class: Class,
        operands: &[&Tensor],
        result: &Tensor,
    ) {
        if self.is_known(result) {
            return;
        }
        self.operators += 1;
        let reads = self.read(rt, operands.iter().copied());
        let id = self.push(rt, class, reads, Some(type_of(result)));
        self.nodes.get_mut(id).into_iter().for_each(|node| node.adds = operands.len() > 1);
        self.make(result, id);
        self.forget();
    }

    /// Whether Inductor runs its convolutions in channels last (`decide_layout_opt`).
    pub(super) fn wants_channels_last(&self) -> bool {
        const NODES_FOR_EACH: usize = 300;
        let Convolutions { calls, is_refused, is_wide } = self.convolutions;
        // A joint graph has both halves.
        calls > 0 && !is_refused && is_wide && self.operators < 2 * NODES_FOR_EACH * calls
    }
}

/// Whether a tensor's memory is that of one of these.
fn is_in(tensors: &[&Tensor], tensor: &Tensor) -> bool {
    tensors.iter().any(|other| other.storage_id() == tensor.storage_id())
}

/// A tensor's type: its elements, those of stretched dimensions once.
pub(super) fn type_of(tensor: &Tensor) -> TensorType {
    let pairs = tensor.sizes().iter().zip(tensor.strides());
    let dims = pairs.map(|(size, stride)| if *stride == 0 { (*size).min(1) } else { *size });
    TensorType::new(tensor.dtype(), dims.collect::<Dims>())
}

/// A pool's offsets within its window, which take a byte each instead of eight.
fn offsets(name: &str, ty: TensorType) -> TensorType {
    let is_index = name == "MaxPool2DWithIndicesBackward0" && ty.dtype == DType::Int64;
    if is_index { TensorType::new(DType::Int8, ty.dims) } else { ty }
}

#[cfg(test)]
mod tests {
    use super::CLASSES;

    /// They are looked up by halves.
    #[test]
    fn operators_are_in_order() {
        assert!(CLASSES.is_sorted_by_key(|(name, ..)| *name));
    }
}
