//! [`Tracer`]: what a compiler knows of a region that runs without memory.
//!
//! Autograd and kernels know this trait alone; [`crate::compiled`] is above them.

use std::fmt;
use std::rc::Rc;

use super::autograd::GradNode;
use super::hardware::Size;
use super::launch::{Class, Kernel};
use super::{Runtime, Tensor};
use crate::tensor::{DType, Dims};

/// Scratch that a kernel asks for.
#[derive(Clone)]
pub(crate) enum Request {
    /// Of cuBLAS.
    Product,
    /// As large as the device and some numbers have it.
    By(Dims, Size),
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Product) { "product" } else { "by the device" })
    }
}

/// What takes note of a region that runs.
pub(crate) trait Tracer: fmt::Debug {
    /// Whether convolutions are in channels last, however their operands lie.
    fn channels_last(&self) -> bool;

    /// An operator of forward has run, which read these inputs and saved these tensors.
    fn call(
        &mut self,
        rt: &Runtime,
        name: &str,
        given: (&[&Tensor], &[&Tensor]),
        outputs: &[&Tensor],
    );

    /// It has the function of this number in autograd.
    fn function(&mut self, number: usize, inputs: &[&Tensor]);

    /// A function of backward has run, of a name and a number.
    fn gradients(
        &mut self,
        rt: &Runtime,
        function: (&str, usize),
        operands: &[&Tensor],
        results: &[Option<Tensor>],
    );

    /// The engine has reduced a gradient; or it has cast one or added two.
    fn engine(&mut self, rt: &Runtime, is_sum: bool, operands: &[&Tensor], result: &Tensor);

    /// A gradient has come to its parameter, or none.
    fn leaf(&mut self, node: &Rc<GradNode>, grad: Option<&Tensor>);

    /// A kernel asks for scratch.
    fn scratch(&mut self, request: Request);

    /// A kernel that is not fused.
    fn kernel(&mut self, kernel: Kernel, dtype: DType);
}

impl Runtime {
    /// Has what runs from here on traced, or no longer.
    pub(crate) fn set_tracer(&self, tracer: Option<Box<dyn Tracer>>) {
        self.tracer.replace(tracer);
    }

    /// Whether what runs is traced.
    pub(super) fn is_tracing(&self) -> bool {
        self.tracer.borrow().is_some()
    }

    /// Whether convolutions of the region that runs are in channels last, however their operands lie.
    pub(crate) fn compiles_in_channels_last(&self) -> bool {
        self.tracer.borrow().as_ref().is_some_and(|tracer| tracer.channels_last())
    }

    /// The tensor that an in-place operator returns: the same memory, about to get a new history. A compiler makes a new
    /// one of it.
    pub(crate) fn overwritten(&self, x: &Tensor) -> Tensor {
        if self.is_tracing() { self.empty_like(x) } else { x.alias_in_place() }
    }

    /// Tells what traces the region.
    fn traced(&self, act: impl FnOnce(&mut dyn Tracer)) {
        // Taken out, since what it does may ask whether there is one.
        let taken = self.tracer.borrow_mut().take();
        if let Some(mut tracer) = taken {
            act(&mut *tracer);
            self.tracer.replace(Some(tracer));
        }
    }

    /// An operator of forward has run.
    pub(crate) fn trace_call(
        &self,
        name: &str,
        inputs: &[&Tensor],
        saved: &[&Tensor],
        outputs: &[&Tensor],
    ) {
        self.traced(|tracer| tracer.call(self, name, (inputs, saved), outputs));
    }

    /// It has this function in autograd.
    pub(super) fn trace_node(&self, number: usize, inputs: &[&Tensor]) {
        self.traced(|tracer| tracer.function(number, inputs));
    }

    /// A function of backward has run.
    pub(super) fn trace_gradients(
        &self,
        function: (&str, usize),
        grads: &[Option<Tensor>],
        saved: &[Tensor],
        results: &[Option<Tensor>],
    ) {
        self.traced(|tracer| {
            let operands: Vec<&Tensor> = grads.iter().flatten().chain(saved).collect();
            tracer.gradients(self, function, &operands, results);
        });
    }

    /// The engine has reduced or cast a gradient, or added two.
    pub(super) fn trace_engine(&self, is_sum: bool, operands: &[&Tensor], result: &Tensor) {
        self.traced(|tracer| tracer.engine(self, is_sum, operands, result));
    }

    /// A gradient has come to its parameter; whether the region that is traced takes it.
    pub(super) fn trace_leaf(&self, node: &Rc<GradNode>, grad: Option<&Tensor>) -> bool {
        self.traced(|tracer| tracer.leaf(node, grad));
        self.is_tracing()
    }

    /// A kernel asks for scratch; whether the region that is traced takes note of it.
    pub(super) fn trace_scratch(&self, request: impl FnOnce() -> Request) -> bool {
        self.traced(|tracer| tracer.scratch(request()));
        self.is_tracing()
    }

    /// A kernel that is not fused.
    pub(super) fn trace_kernel(&self, kernel: Kernel, dtype: DType) {
        let is_own = matches!(
            kernel.class(),
            Class::Gemm | Class::Convolution | Class::Attention | Class::Embedding
        );
        if is_own {
            self.traced(|tracer| tracer.kernel(kernel, dtype));
        }
    }
}
