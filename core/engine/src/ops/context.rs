//! [`Inference`]: a shape rule's access to its node and to its results.

use super::OpError;
use super::fold::LIMIT;
use crate::graph::{Elements, Node, ValueId};
use crate::sentence::Sentence;
use crate::tensor::{DType, TensorType};

/// One output as a rule found it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// Type; `None` while the rule has not set it.
    pub ty: Option<TensorType>,
    /// Elements, where they are few and follow from shapes and constants.
    pub elements: Option<Elements>,
}

/// A node during inference: inputs by position, attributes, and the outputs made so far.
#[derive(Debug)]
pub struct Inference<'a> {
    /// The node itself, for its attributes.
    pub node: &'a Node,
    /// Version of ONNX's default operator set.
    pub opset: i64,
    types: &'a [Option<TensorType>],
    elements: &'a [Option<Elements>],
    made: Vec<Made>,
    notes: Vec<Sentence>,
}

impl<'a> Inference<'a> {
    /// A node before its rule has run; `types` and `elements` are by [`ValueId`].
    pub fn new(
        node: &'a Node,
        opset: i64,
        types: &'a [Option<TensorType>],
        elements: &'a [Option<Elements>],
    ) -> Self {
        let made = vec![Made::default(); node.outputs.len()];
        Self { node, opset, types, elements, made, notes: Vec::new() }
    }

    /// Type of the input at this position.
    ///
    /// # Errors
    /// When the input is left out or its type is not known.
    pub fn input(&self, position: usize) -> Result<&'a TensorType, OpError> {
        self.optional(position).ok_or_else(|| {
            OpError::new(say!("input {position} is missing or has no shape", position))
        })
    }

    /// Type of the input at this position, where it is given and known.
    pub fn optional(&self, position: usize) -> Option<&'a TensorType> {
        let ValueId(id) = self.node.input(position)?;
        self.types.get(id)?.as_ref()
    }

    /// COUNT: inputs, those left out included.
    pub const fn n_inputs(&self) -> usize {
        self.node.inputs.len()
    }

    /// COUNT: outputs, those left out included.
    pub const fn n_outputs(&self) -> usize {
        self.made.len()
    }

    /// Elements of the input at this position, where they are known.
    pub fn elements(&self, position: usize) -> Option<&'a Elements> {
        let ValueId(id) = self.node.input(position)?;
        self.elements.get(id)?.as_ref()
    }

    /// Elements of an integer input, where they are known.
    pub fn ints(&self, position: usize) -> Option<&'a [i64]> {
        match self.elements(position)? {
            Elements::Ints(list) => Some(list),
            Elements::Floats(_) => None,
        }
    }

    /// Elements of an integer input on which the shape depends.
    ///
    /// # Errors
    /// When they are only known while the model runs.
    pub fn needed_ints(&self, position: usize) -> Result<&'a [i64], OpError> {
        self.ints(position).ok_or_else(|| {
            OpError::new(say!("the shape depends on the contents of input {position}", position))
        })
    }

    /// Integers that older operator sets state as an attribute and newer ones as an input.
    ///
    /// # Errors
    /// When the input is given but known only while the model runs.
    pub fn ints_from(&self, name: &str, position: usize) -> Result<Option<&'a [i64]>, OpError> {
        match self.node.ints(name) {
            Some(list) => Ok(Some(list)),
            None if self.node.input(position).is_some() => self.needed_ints(position).map(Some),
            None => Ok(None),
        }
    }

    /// Sets the type of an output; one that the node leaves out is ignored.
    pub fn set(&mut self, position: usize, ty: TensorType) {
        if let Some(made) = self.made.get_mut(position) {
            made.ty = Some(ty);
        }
    }

    /// Sets the type of an output from its parts.
    pub fn set_dims(&mut self, position: usize, dtype: DType, dims: impl AsRef<[u64]>) {
        self.set(position, TensorType::new(dtype, dims));
    }

    /// Sets the elements of an output whose type is set, where they are as many as it holds.
    pub fn set_elements(&mut self, position: usize, elements: Elements) {
        if let Some(made) = self.made.get_mut(position) {
            let expected = made.ty.as_ref().map(TensorType::numel);
            if expected == u64::try_from(elements.len()).ok() && elements.len() <= LIMIT {
                made.elements = Some(elements);
            }
        }
    }

    /// Type of an output that is already set.
    pub fn output(&self, position: usize) -> Option<&TensorType> {
        self.made.get(position)?.ty.as_ref()
    }

    /// Whether the output at this position is set and small enough to keep its elements.
    pub fn is_small(&self, position: usize) -> bool {
        let numel = self.output(position).map(TensorType::numel);
        numel.and_then(|n| usize::try_from(n).ok()).is_some_and(|n| n <= LIMIT)
    }

    /// Notes that a size was assumed which only a run would show; a sentence.
    pub fn assume(&mut self, note: Sentence) {
        self.notes.push(note);
    }

    /// The outputs and what was assumed for them.
    pub fn finish(self) -> (Vec<Made>, Vec<Sentence>) {
        (self.made, self.notes)
    }
}
