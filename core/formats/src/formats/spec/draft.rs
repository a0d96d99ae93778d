//! A model that is lowered during its translation, so that a translator knows the result of each layer before it
//! writes the next.

use super::lower::{Lowering, Tensor};
use super::{Join, Module, Spec};
use crate::error::{Error, ErrorKind, Place};

/// What flows between layers.
#[derive(Clone, Debug)]
pub(in crate::formats) struct Flow(Tensor);

impl Flow {
    /// Sizes, the batch first; `None` where a size is open.
    pub(in crate::formats) fn sizes(&self) -> Vec<Option<u64>> {
        self.0.shape.iter().map(|size| size.number).collect()
    }

    /// COUNT: dimensions.
    pub(in crate::formats) fn rank(&self) -> usize {
        self.0.shape.len()
    }

    /// One size.
    pub(in crate::formats) fn size(&self, axis: usize) -> Option<u64> {
        self.0.shape.get(axis)?.number
    }

    /// The last size.
    pub(in crate::formats) fn width(&self) -> Option<u64> {
        self.0.shape.last()?.number
    }

    /// The sizes, for messages: `[?, 64, 56, 56]`.
    pub(in crate::formats) fn shown(&self) -> String {
        self.0.shown()
    }
}

/// Layers that are tried one after the other; the graph that they make is not kept.
#[derive(Debug)]
pub(in crate::formats) struct Draft<'a> {
    lowering: Lowering<'a>,
    modules: usize,
}

impl<'a> Draft<'a> {
    /// A draft that begins with the inputs of a spec.
    pub(in crate::formats) fn new(spec: &'a Spec) -> Result<(Self, Vec<Flow>), Error> {
        let mut lowering = Lowering::new(spec);
        lowering.inputs()?;
        let mut flows = Vec::new();
        for input in &spec.inputs {
            flows.push(Flow(lowering.named(&input.name)?));
        }
        Ok((Self { lowering, modules: 0 }, flows))
    }

    /// What a module makes of what comes in.
    pub(in crate::formats) fn module(
        &mut self,
        module: &Module,
        x: &Flow,
        place: Place,
    ) -> Result<Flow, Error> {
        self.modules = self.modules.saturating_add(1);
        if self.modules > super::LAYERS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, say!("the model has too many layers")));
        }
        self.lowering.place = place;
        let name = self.modules.to_string();
        self.lowering.within(&name, |l| l.module(module, &x.0)).map(Flow)
    }

    /// Lets modules read a result under this name, as `cross_attention` does.
    pub(in crate::formats) fn name(&mut self, name: &str, flow: &Flow) {
        self.lowering.name(name, &flow.0);
    }

    /// Results that meet.
    pub(in crate::formats) fn join(
        &mut self,
        join: Join,
        operands: &[Flow],
        dim: i64,
        place: Place,
    ) -> Result<Flow, Error> {
        self.lowering.place = place;
        let operands: Vec<Tensor> = operands.iter().map(|flow| flow.0.clone()).collect();
        self.lowering.join(join, &operands, dim).map(Flow)
    }
}
