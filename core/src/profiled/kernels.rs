//! Allocations of CUDA's kernels that differ from the CPU's. Operators are run again on the runtime of
//! [`crate::eager`], by name and by the dimensions in the trace.

use std::rc::Rc;

use super::Inputs;
use super::annotations::numbers;
use crate::aten::conv::{self, Convolution};
use crate::aten::{attention, dropout, embedding, matmul};
use crate::bytes::Bytes;
use crate::config::PyTorch;
use crate::eager::{Hardware, Runtime, Tensor, kernels};
use crate::tensor::{DType, TensorType, numel};
use crate::trace::{Category, Event, Trace};

/// One call to the allocator on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Something is allocated that stays behind, in the place of the CPU's block of this number.
    Output { bytes: Bytes, instead_of: usize },
    /// Scratch, under a number of its own.
    Scratch { bytes: Bytes, number: usize },
    /// Scratch is freed.
    Free { number: usize },
}

/// Attention, of which the CPU runs one kernel or spells it out, and the GPU always runs one kernel.
pub(super) const ATTENTION: &str = "aten::scaled_dot_product_attention";
/// Its backward, which goes by no operator of its own.
pub(super) const ATTENTION_BACKWARD: &str = "aten::scaled_dot_product_attention_backward";
/// [`Call::Output`] that stands for no block of the CPU's.
pub(super) const NO_BLOCK: usize = usize::MAX;

/// COUNT: elements of the largest tensor that is taken for one: no CPU has trained with more.
const NUMEL_MAX: u64 = 1 << 36;

/// Operators that bring a tensor into another order, of which it is asked which.
pub(super) const COPIES: [&str; 3] = ["aten::clone", "aten::contiguous", "aten::reshape"];

/// Whether an operator's inputs are asked for.
pub(super) fn reads(operator: &str) -> bool {
    plays(operator) || COPIES.contains(&operator)
}

/// Whether an operator calls something else on the GPU.
pub(super) fn plays(operator: &str) -> bool {
    matches!(
        operator,
        "aten::addmm"
            | "aten::baddbmm"
            | "aten::bmm"
            | "aten::convolution"
            | "aten::convolution_backward"
            | "aten::dropout"
            | "aten::embedding_dense_backward"
            | "aten::mm"
            | "aten::sum"
            | ATTENTION
    )
}

/// What an operator calls on the GPU, where that differs from its outputs alone; `blocks` are those that
/// the CPU's kernel leaves behind.
pub(super) fn calls(
    (hardware, pytorch): (Hardware, PyTorch),
    operator: &str,
    inputs: &Inputs,
    blocks: &[Bytes],
) -> Option<Vec<Call>> {
    let rt = Runtime::new(hardware, pytorch);
    let given = Given { rt: &rt, inputs };
    if inputs.dims.iter().any(|dims| numel(dims) > NUMEL_MAX) {
        return None;
    }
    // What it holds is let go only once the trace is taken.
    let held = match operator {
        "aten::addmm" => given.addmm()?,
        "aten::mm" | "aten::bmm" => given.product(0, 1)?,
        "aten::baddbmm" => given.product(1, 2)?,
        "aten::convolution" => given.convolution()?,
        "aten::convolution_backward" => given.convolution_backward()?,
        "aten::dropout" => given.dropout()?,
        "aten::embedding_dense_backward" => given.embedding_backward()?,
        "aten::sum" => given.sum()?,
        ATTENTION => given.attention()?,
        ATTENTION_BACKWARD => given.attention_backward()?,
        _ => return None,
    };
    let trace = rt.into_trace();
    drop(held);
    let mut calls = calls_of(&trace);
    assign(&mut calls, operator, blocks);
    Some(calls)
}

/// Which block of the CPU's an output stands for: the next of its size, else the last. A mask of dropout is
/// noise there; attention's output is what the CPU makes last, and what else it keeps goes by no block.
fn assign(calls: &mut [Call], operator: &str, blocks: &[Bytes]) {
    let mut taken = vec![false; blocks.len()];
    let last = blocks.len().saturating_sub(1);
    let outputs = calls.iter_mut().filter_map(|call| match call {
        Call::Output { bytes, instead_of } => Some((*bytes, instead_of)),
        Call::Scratch { .. } | Call::Free { .. } => None,
    });
    for (at, (bytes, instead_of)) in outputs.enumerate() {
        let free = |(block, size): (usize, &Bytes)| {
            (*size == bytes && taken.get(block) == Some(&false)).then_some(block)
        };
        let found = match operator {
            "aten::dropout" => Some(at),
            ATTENTION => {
                let found = blocks.iter().rposition(|size| *size == bytes);
                Some(found.filter(|at| taken.get(*at) == Some(&false)).unwrap_or(NO_BLOCK))
            }
            _ => blocks.iter().enumerate().find_map(free),
        };
        *instead_of = found.unwrap_or(last);
        if let Some(taken) = taken.get_mut(*instead_of) {
            *taken = true;
        }
    }
}

/// The root of a gradient that the engine was given is not the operator's own.
fn calls_of(trace: &Trace) -> Vec<Call> {
    let mut is_freed = vec![false; trace.storages.len()];
    for event in &trace.events {
        if let Event::Free(id) = event
            && let Some(freed) = is_freed.get_mut(id.index())
        {
            *freed = true;
        }
    }
    let is_root = |id: usize| {
        let storage = trace.storages.get(id);
        storage.is_none_or(|storage| trace.label(storage.operator) == "aten::ones_like")
    };
    let call = |event: &Event| match *event {
        Event::Alloc(id) | Event::Free(id) if is_root(id.index()) => None,
        Event::Alloc(id) => {
            let bytes = trace.storages.get(id.index())?.requested;
            Some(match is_freed.get(id.index()) {
                Some(true) => Call::Scratch { bytes, number: id.index() },
                _ => Call::Output { bytes, instead_of: 0 },
            })
        }
        Event::Free(id) => Some(Call::Free { number: id.index() }),
    };
    trace.events.iter().filter_map(call).collect()
}

/// An operator's inputs on a runtime.
struct Given<'a> {
    rt: &'a Runtime,
    inputs: &'a Inputs,
}

/// What an operator leaves behind.
type Held = Vec<Rc<dyn std::any::Any>>;

fn held<T: 'static>(what: T) -> Held {
    vec![Rc::new(what)]
}

impl Given<'_> {
    fn dims(&self, at: usize) -> Option<&[u64]> {
        self.inputs.dims.get(at).map(Vec::as_slice)
    }

    fn value(&self, at: usize) -> &str {
        self.inputs.values.get(at).map_or("", String::as_str)
    }

    /// `[1, 1]`.
    fn list(&self, at: usize) -> Option<Vec<u64>> {
        numbers(self.value(at).strip_prefix('[')?.strip_suffix(']')?)
    }

    fn dtype(&self, at: usize) -> DType {
        match self.inputs.types.get(at).map(String::as_str) {
            Some("double") => DType::Float64,
            Some("c10::Half") => DType::Float16,
            Some("c10::BFloat16") => DType::BFloat16,
            Some("long int" | "long") => DType::Int64,
            Some("int") => DType::Int32,
            Some("bool") => DType::Bool,
            _ => DType::Float32,
        }
    }

    /// An input, which is there already.
    fn tensor(&self, at: usize) -> Option<Tensor> {
        let dims = self.dims(at)?;
        let ty = TensorType::new(self.dtype(at), dims);
        let tensor = self.rt.without_memory(|| self.rt.place(&ty, Category::Temporary, ""));
        let strides = self.inputs.strides.get(at).filter(|strides| strides.len() == dims.len());
        Some(match strides {
            Some(strides) => tensor.alias(dims, strides.clone()),
            None => tensor,
        })
    }

    /// An input that gets a gradient.
    fn trained(&self, at: usize) -> Option<(Tensor, Held)> {
        let (tensor, leaf) = self.rt.parameter(&self.tensor(at)?, "");
        Some((tensor, vec![leaf]))
    }

    fn addmm(&self) -> Option<Held> {
        let (&[rows, inner], &[_, columns]) = (self.dims(1)?, self.dims(2)?) else { return None };
        let y = self.rt.empty(self.dtype(1), &[rows, columns]);
        matmul::addmm_workspace(self.rt, columns, inner);
        Some(held(y))
    }

    fn product(&self, a: usize, b: usize) -> Option<Held> {
        let mut sizes = self.dims(a)?.to_vec();
        *sizes.last_mut()? = *self.dims(b)?.last()?;
        let y = self.rt.empty(self.dtype(a), &sizes);
        self.rt.cublas();
        Some(held(y))
    }

    fn sum(&self) -> Option<Held> {
        let x = self.tensor(0)?;
        let dims = match self.value(1) {
            "" => (0..x.rank()).collect(),
            _ => self
                .list(1)?
                .into_iter()
                .map(usize::try_from)
                .collect::<Result<Vec<_>, _>>()
                .ok()?,
        };
        let reduced: Vec<bool> = (0..x.rank()).map(|dim| dims.contains(&dim)).collect();
        Some(held(kernels::reduce(self.rt, &x, &reduced, self.dtype(0))))
    }

    fn dropout(&self) -> Option<Held> {
        if self.value(2) != "True" || matches!(self.value(1), "0" | "0." | "0.0") {
            return None;
        }
        let (x, leaf) = self.trained(0)?;
        Some([held(dropout::dropout(self.rt, &x)), leaf].concat())
    }

    /// What the attributes say that begin at an input's place.
    fn spec(&self, at: usize, output: Vec<u64>) -> Option<Convolution> {
        Some(Convolution {
            output: output.into(),
            stride: self.list(at)?.into(),
            dilation: self.list(at.saturating_add(2))?.into(),
            transposed: self.value(at.saturating_add(3)) == "True",
            groups: self.value(at.saturating_add(5)).parse().ok()?,
        })
    }

    fn convolution(&self) -> Option<Held> {
        let (x, weight) = (self.tensor(0)?, self.tensor(1)?);
        let mut spec = self.spec(3, Vec::new())?;
        let (padding, more) = (self.list(4)?, self.list(7)?);
        spec.output = output_sizes(&x, &weight, &spec, &padding, &more)?.into();
        // The bias is added without another tensor.
        Some(held(conv::convolution(self.rt, &x, &weight, None, &spec)))
    }

    fn convolution_backward(&self) -> Option<Held> {
        let spec = self.spec(4, self.dims(0)?.to_vec())?;
        let mut wanted = self.value(10).trim_matches(['[', ']']).split(',').map(str::trim);
        let mut wants = || wanted.next() == Some("True");
        let (for_input, for_weight, for_bias) = (wants(), wants(), wants());
        let (x, weight) = (self.trained(1)?, self.trained(2)?);
        let bias = for_bias.then(|| {
            let ty = TensorType::new(self.dtype(0), [self.dims(0)?.get(1).copied()?]);
            let bias = self.rt.without_memory(|| self.rt.place(&ty, Category::Temporary, ""));
            Some(self.rt.parameter(&bias, ""))
        });
        let bias = bias.flatten();
        let x_tensor = if for_input { x.0.clone() } else { x.0.detach() };
        let weight_tensor = if for_weight { weight.0.clone() } else { weight.0.detach() };
        let y = self.rt.without_memory(|| {
            let bias = bias.as_ref().map(|(bias, _)| bias);
            conv::convolution(self.rt, &x_tensor, &weight_tensor, bias, &spec)
        });
        self.rt.backward(&y, &());
        Some([x.1, weight.1, held(bias.map(|(_, leaf)| leaf))].concat())
    }

    fn embedding_backward(&self) -> Option<Held> {
        let rows: u64 = self.value(2).parse().ok()?;
        let width = *self.dims(0)?.last()?;
        let ty = TensorType::new(self.dtype(0), [rows, width]);
        let indices = self.tensor(1)?;
        let table = self.rt.without_memory(|| self.rt.place(&ty, Category::Parameter, ""));
        let (table, leaf) = self.rt.parameter(&table, "");
        let y = self.rt.without_memory(|| embedding::embedding(self.rt, &table, &indices));
        self.rt.backward(&y, &());
        Some(held(leaf))
    }

    fn attend(&self, operands: [&Tensor; 3]) -> Tensor {
        let mask = self.dims(3).filter(|dims| !dims.is_empty()).and_then(|_| self.tensor(3));
        let drops = !matches!(self.value(4), "" | "0" | "0." | "0.0");
        attention::attention(self.rt, operands, mask.as_ref(), [drops, self.value(5) == "True"])
    }

    fn attention(&self) -> Option<Held> {
        let (q, k, v) = (self.trained(0)?, self.trained(1)?, self.trained(2)?);
        let y = self.attend([&q.0, &k.0, &v.0]);
        Some([held(y), q.1, k.1, v.1].concat())
    }

    fn attention_backward(&self) -> Option<Held> {
        let (q, k, v) = (self.trained(0)?, self.trained(1)?, self.trained(2)?);
        let y = self.rt.without_memory(|| self.attend([&q.0, &k.0, &v.0]));
        self.rt.backward(&y, &());
        Some([q.1, k.1, v.1].concat())
    }

    /// SIZE: of an input.
    fn size(&self, at: usize) -> Option<Bytes> {
        Some(TensorType::new(self.dtype(at), self.dims(at)?).size())
    }
}

/// SIZE: query, key and value of attention over `[B, H, S, D]`, then the bias, if there is one.
pub(super) fn operands(
    (hardware, pytorch): (Hardware, PyTorch),
    inputs: &Inputs,
) -> Option<Vec<Bytes>> {
    let given = Given { rt: &Runtime::new(hardware, pytorch), inputs };
    let is_usual =
        |at: usize| given.dims(at).is_some_and(|dims| dims.len() == 4 && numel(dims) <= NUMEL_MAX);
    if !(0..3).all(is_usual) {
        return None;
    }
    let mut sizes = vec![given.size(0)?, given.size(1)?, given.size(2)?];
    // Of booleans a bias is made first.
    if is_usual(3) && given.dtype(3) != DType::Bool {
        sizes.extend(given.size(3));
    }
    Some(sizes)
}

/// Whether the queries of attention, `[B, H, S, D]`, lie by steps before they lie by samples.
pub(super) fn is_steps_first(inputs: &Inputs) -> bool {
    let query = inputs.dims.first().zip(inputs.strides.first());
    query.is_some_and(|(dims, strides)| match (dims.as_slice(), strides.as_slice()) {
        (&[batch, _, rows, _], &[of_sample, _, of_step, _]) => {
            batch > 1 && rows > 1 && of_step > of_sample
        }
        _ => false,
    })
}

/// Sizes of a convolution's output (`conv_output_size`, `native/ConvUtils.h`).
fn output_sizes(
    x: &Tensor,
    weight: &Tensor,
    spec: &Convolution,
    padding: &[u64],
    more: &[u64],
) -> Option<Vec<u64>> {
    let channels =
        if spec.transposed { weight.size(1).checked_mul(spec.groups)? } else { weight.size(0) };
    let mut sizes = vec![x.size(0), channels];
    for dim in 2..x.rank() {
        let at = dim.saturating_sub(2);
        let of = |list: &[u64]| list.get(at).or_else(|| list.first()).copied();
        let (step, pad, spacing) = (of(&spec.stride)?, of(padding)?, of(&spec.dilation)?);
        let kernel = spacing.checked_mul(weight.size(dim).checked_sub(1)?)?.checked_add(1)?;
        let pads = pad.checked_mul(2)?;
        sizes.push(if spec.transposed {
            let inner = x.size(dim).checked_sub(1)?.checked_mul(step)?;
            inner.checked_add(kernel)?.checked_add(of(more)?)?.checked_sub(pads)?
        } else {
            let room = x.size(dim).checked_add(pads)?.checked_sub(kernel)?;
            room.checked_div(step)?.checked_add(1)?
        });
    }
    Some(sizes)
}
