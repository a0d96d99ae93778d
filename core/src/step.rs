//! Training iterations: set-up, then three times `zero_grad`, forward, loss, backward, optimizer.
//!
//! The loop is the plain one, with the batch on the device beforehand, `optimizer.zero_grad()` first
//! and `out` and `loss` bound until they are assigned again:
//!
//! ```python
//! for _ in range(3):
//!     optimizer.zero_grad()
//!     out = model(x)
//!     loss = criterion(out, y)
//!     loss.backward()
//!     optimizer.step()
//! ```

pub mod average;
pub mod clip;
pub mod forward;
pub mod loss;
pub mod optimizer;

use std::rc::Rc;

use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::eager::autograd::Leaf;
use crate::eager::{Hardware, Runtime, Tensor};
use crate::error::Error;
use crate::graph::{Graph, ValueId};
use crate::infer::Typed;
use crate::recover::Program;
use crate::roles::{self, Role};
use crate::tensor::{DType, TensorType};
use crate::trace::{Category, Phase, Trace};

use self::forward::Forward;
use self::loss::{Loss, Target};

/// COUNT: iterations; the first has no optimizer state and an empty cache, the third is steady.
pub const ITERATIONS: usize = 3;

/// A parameter on the device.
#[derive(Debug)]
pub struct Parameter {
    /// The leaf as operators see it.
    pub tensor: Tensor,
    /// Its `.grad`.
    pub leaf: Rc<Leaf>,
}

/// What the iterations did, and what had to be assumed of operators.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Allocations and frees.
    pub trace: Trace,
    /// Operators without a memory rule.
    pub diagnostics: Vec<Diagnostic>,
}

/// Runs the iterations and returns what they did to memory.
///
/// # Errors
/// When the optimizer has no implementation of the kind that is asked for.
pub fn record(
    program: &Program<'_>,
    typed: &Typed,
    loss: &Loss,
    config: &Config,
    hardware: Hardware,
) -> Result<Recorded, Error> {
    let rt = Runtime::new(hardware);
    let mut device = Device::load(&rt, program, typed);
    let target = device.load_batch(&rt, program.graph, typed, loss);
    let forward = Forward::plan(&rt, program, typed, &device.roles);
    let (loss_label, optimizer_label) = (rt.label("loss"), rt.label("optimizer"));
    let mut optimizer = optimizer::State::new(config)?;
    optimizer.construct(&rt, &device.parameters);
    let mut average = config.ema.then(|| average::Model::of(&rt, &device.state));
    // What Python's names hold from one iteration to the next.
    let mut bound: Option<(Tensor, Vec<Tensor>)> = None;
    for iteration in 1..=ITERATIONS {
        rt.enter_phase(iteration, Phase::ZeroGrad);
        device.parameters.iter().for_each(|parameter| parameter.leaf.clear());
        rt.enter_phase(iteration, Phase::Forward);
        let outputs = forward.run(&rt, &device.values);
        rt.enter_module(loss_label);
        let value = loss.run(&rt, &outputs, target.as_ref());
        if let Some((old_loss, old_outputs)) = bound.take() {
            drop(old_loss);
            old_outputs.into_iter().for_each(drop);
        }
        rt.enter_phase(iteration, Phase::Backward);
        if let Some(value) = &value {
            rt.backward(value);
        }
        bound = value.map(|value| (value, outputs));
        rt.enter_phase(iteration, Phase::Optimizer);
        rt.enter_module(optimizer_label);
        if config.clip_grad_norm {
            clip::grad_norm(&rt, &device.parameters);
        }
        optimizer.step(&rt, &device.parameters);
        if let Some(average) = &mut average {
            average.update(&rt);
        }
    }
    let diagnostics = [forward.diagnostics(), optimizer.diagnostics()].concat();
    Ok(Recorded { diagnostics, trace: rt.into_trace() })
}

/// What lies on the device throughout.
#[derive(Debug)]
struct Device {
    roles: Vec<Role>,
    /// By [`ValueId`]: parameters, buffers and inputs.
    values: Vec<Option<Tensor>>,
    parameters: Vec<Parameter>,
    /// Parameters and buffers, those that no operator of the graph reads among them.
    state: Vec<Tensor>,
}

impl Device {
    /// `model.to("cuda")`: parameters and buffers in the order of the file, which is the module's.
    fn load(rt: &Runtime, program: &Program<'_>, typed: &Typed) -> Self {
        let graph = program.graph;
        rt.enter_phase(0, Phase::Setup);
        let roles = roles::roles(program, typed);
        let mut values = vec![None; graph.values.len()];
        let mut parameters = Vec::new();
        let mut state = Vec::new();
        for (index, value) in graph.values.iter().enumerate() {
            let Some(literal) = &value.initializer else { continue };
            let ty = TensorType::new(literal.dtype, literal.dims.clone());
            let Some(slot) = values.get_mut(index) else { continue };
            match roles.get(index) {
                Some(Role::Parameter) => {
                    let tensor = rt.place(&ty, Category::Parameter, &value.name);
                    let (tensor, leaf) = rt.parameter(&tensor, &value.name);
                    *slot = Some(tensor.clone());
                    state.push(tensor.clone());
                    parameters.push(Parameter { tensor, leaf });
                }
                Some(Role::Buffer) => {
                    let tensor = rt.place(&ty, Category::Buffer, &value.name);
                    *slot = Some(tensor.clone());
                    state.push(tensor);
                    if value.name.ends_with("running_var") {
                        let name = value.name.replace("running_var", "num_batches_tracked");
                        let counter = TensorType::new(DType::Int64, []);
                        state.push(rt.place(&counter, Category::Buffer, &name));
                    }
                }
                _ => {}
            }
        }
        Self { roles, values, parameters, state }
    }

    /// The batch: the model's inputs, then labels where the loss needs their own.
    fn load_batch(
        &mut self,
        rt: &Runtime,
        graph: &Graph,
        typed: &Typed,
        loss: &Loss,
    ) -> Option<Tensor> {
        for input in &graph.inputs {
            let ty = typed.types.get(input.0).and_then(Option::as_ref);
            if self.roles.get(input.0) != Some(&Role::Input) {
                continue;
            }
            if let (Some(ty), Some(slot)) = (ty, self.values.get_mut(input.0)) {
                *slot = Some(rt.place(ty, Category::Input, graph.value_name(*input)));
            }
        }
        match &loss.target {
            Target::None => None,
            Target::SameAs(ValueId(input)) => self.values.get(*input).cloned().flatten(),
            Target::New(ty) => Some(rt.place(ty, Category::Input, "labels")),
        }
    }
}
