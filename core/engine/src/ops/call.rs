//! [`Call`]: a runtime rule's access to its node and to the tensors that it makes.

use smallvec::{SmallVec, smallvec};

use super::OpError;
use crate::basis::Reason;
use crate::eager::{Runtime, Tensor};
use crate::graph::{Elements, Node, ValueId};
use crate::tensor::TensorType;

/// An input as Python would see it.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor on the device.
    Tensor(Tensor),
    /// A number, or a shape, in Python.
    Host,
    /// Left out.
    Absent,
}

/// What an operator is given; most take few.
pub(crate) type Operands = SmallVec<[Operand; 4]>;

/// What an operator returns; most return one tensor.
pub(crate) type Outputs = SmallVec<[Option<Tensor>; 1]>;

/// A node about to run.
#[derive(Debug)]
pub struct Call<'a> {
    /// The process it runs in.
    pub rt: &'a Runtime,
    /// The node itself, for its attributes.
    pub node: &'a Node,
    /// Version of ONNX's default operator set.
    pub opset: i64,
    /// Whether activations may be overwritten: nothing else reads the first input.
    pub in_place: bool,
    types: &'a [Option<TensorType>],
    elements: &'a [Option<Elements>],
    operands: Operands,
    outputs: Outputs,
}

impl<'a> Call<'a> {
    /// A node and its operands; `types` and `elements` are by [`ValueId`].
    pub fn new(
        rt: &'a Runtime,
        node: &'a Node,
        opset: i64,
        (types, elements): (&'a [Option<TensorType>], &'a [Option<Elements>]),
        operands: Operands,
    ) -> Self {
        let outputs = smallvec![None; node.outputs.len()];
        Self { rt, node, opset, in_place: false, types, elements, operands, outputs }
    }

    /// Whether the operator overwrites its first input: it is marked so, and nothing else reads it.
    pub fn overwrites(&self) -> bool {
        self.in_place && self.node.attributes.contains_key("in_place")
    }

    /// For these arguments, nobody has confirmed what the rule does.
    pub fn is_unproven(&self) {
        self.is_unproven_as(&self.node.op);
    }

    /// The same of an operator under another name.
    pub fn is_unproven_as(&self, name: &str) {
        let reason = self.rt.reason(&Reason::Operator(name.to_owned()));
        self.rt.enter_reason(Some(reason));
    }

    /// The operand at this position.
    pub fn operand(&self, position: usize) -> &Operand {
        self.operands.get(position).unwrap_or(&Operand::Absent)
    }

    /// The tensor at this position, where there is one on the device.
    pub fn tensor(&self, position: usize) -> Option<Tensor> {
        match self.operand(position) {
            Operand::Tensor(tensor) => Some(tensor.clone()),
            Operand::Host | Operand::Absent => None,
        }
    }

    /// The tensor at this position; a host value is put on the device first.
    ///
    /// # Errors
    /// When the input is left out or its type is not known.
    pub fn need(&self, position: usize) -> Result<Tensor, OpError> {
        if let Some(tensor) = self.tensor(position) {
            return Ok(tensor);
        }
        let ty = self.input_type(position)?;
        Ok(self.rt.empty(ty.dtype, &ty.dims))
    }

    /// All operands that are tensors.
    pub fn tensors(&self) -> Vec<Tensor> {
        (0..self.operands.len()).filter_map(|position| self.tensor(position)).collect()
    }

    /// All operands that are tensors, and those that are known beforehand but have several elements:
    /// they are on the device all the same (`arange`).
    ///
    /// # Errors
    /// When the type of an operand is not known.
    pub fn tensors_and_lists(&self) -> Result<Vec<Tensor>, OpError> {
        let mut tensors = Vec::new();
        for position in 0..self.operands.len() {
            match self.operand(position) {
                Operand::Absent => {}
                Operand::Host if self.input_type(position)?.numel() <= 1 => {}
                Operand::Host | Operand::Tensor(_) => tensors.push(self.need(position)?),
            }
        }
        Ok(tensors)
    }

    /// Type of an input.
    ///
    /// # Errors
    /// When the input is left out or its type is not known.
    pub fn input_type(&self, position: usize) -> Result<&'a TensorType, OpError> {
        let id = self.node.input(position);
        id.and_then(|ValueId(id)| self.types.get(id)?.as_ref()).ok_or_else(|| {
            OpError::new(say!("input {position} is missing or has no shape", position))
        })
    }

    /// Type of an output.
    ///
    /// # Errors
    /// When the output is not asked for or its type is not known.
    pub fn output_type(&self, position: usize) -> Result<&'a TensorType, OpError> {
        let id = self.node.output(position);
        id.and_then(|ValueId(id)| self.types.get(id)?.as_ref())
            .ok_or_else(|| OpError::new(say!("output {position} has no shape", position)))
    }

    /// Integers of an input, where they are known.
    pub fn ints(&self, position: usize) -> Option<&'a [i64]> {
        let ValueId(id) = self.node.input(position)?;
        match self.elements.get(id)?.as_ref()? {
            Elements::Ints(list) => Some(list),
            Elements::Floats(_) => None,
        }
    }

    /// The number that an input is, where it is known.
    pub fn number(&self, position: usize) -> Option<f64> {
        let ValueId(id) = self.node.input(position)?;
        match self.elements.get(id)?.as_ref()? {
            Elements::Ints(list) => i32::try_from(*list.first()?).ok().map(f64::from),
            Elements::Floats(list) => list.first().copied(),
        }
    }

    /// Hands an output over; one that nobody reads dies here.
    pub fn set(&mut self, position: usize, tensor: Tensor) {
        if let Some(slot) = self.outputs.get_mut(position) {
            *slot = Some(tensor);
        }
    }

    /// Takes back an output that was handed over.
    pub(super) fn take(&mut self, position: usize) -> Option<Tensor> {
        self.outputs.get_mut(position)?.take()
    }

    /// The outputs made.
    pub fn finish(self) -> Outputs {
        self.outputs
    }
}
