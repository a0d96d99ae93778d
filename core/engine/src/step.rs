//! A run: the model is put on the device, then a process runs the lines of a [`Script`].

mod at_gradient;
pub mod average;
pub mod clip;
mod compile;
pub mod flat_weights;
pub mod forward;
mod freeze;
pub mod generate;
pub mod head_loss;
pub mod hooks;
pub mod loss;
pub mod masters;
pub mod modules;
pub mod optimizer;
mod process;
pub mod quantized;
mod repeat;
pub mod scaler;
pub mod script;
mod unproven;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::adapt::{is_lora, quantized_weights};
use crate::config::{Checkpoint, Config, MemoryFormat, Quantize};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::eager::autograd::Leaf;
use crate::eager::launch::Passes;
use crate::eager::{Asked, Hardware, Launches, Runtime, Tensor};
use crate::error::{Error, ErrorKind};
use crate::graph::{Graph, ValueId};
use crate::infer::Typed;
use crate::recover::Program;
use crate::roles::{self, Role};
use crate::tensor::{DType, TensorType};
use crate::trace::{Category, Phase, Trace};

use self::forward::Forward;
use self::freeze::Frozen;
use self::hooks::Hooks;
use self::loss::{Loss, Target};
use self::masters::Masters;
use self::process::Process;
use self::scaler::Scaler;
use self::script::Script;

/// The module of what the loss allocates.
pub const LOSS: &str = "loss";

/// A parameter on the device.
#[derive(Debug)]
pub struct Parameter {
    /// The leaf as operators see it.
    pub tensor: Tensor,
    /// Its `.grad`.
    pub leaf: Rc<Leaf>,
}

/// Runs the iterations and returns what they did to memory, and what of it depends on the device.
///
/// # Errors
/// When the optimizer has no implementation of the kind that is asked for, or a step is of absurdly
/// many batches.
pub fn record(
    program: &Program,
    loss: &Loss,
    config: &Config,
    hardware: Hardware,
    hooks: &dyn Hooks,
    sink: &Diagnostics,
) -> Result<(Trace, Asked), Error> {
    let rt = Runtime::new(hardware, config.pytorch);
    run(rt, program, loss, config, hooks, sink).map(|(trace, asked, _)| (trace, asked))
}

/// What a process did to memory, what of it depends on the device, and its kernels.
pub type Recorded = (Trace, Asked, Launches);

/// The same in a process that may have been asked to record kernels, and these: memory and time come from one run.
///
/// # Errors
/// As [`record`].
pub fn run(
    rt: Runtime,
    program: &Program,
    loss: &Loss,
    config: &Config,
    hooks: &dyn Hooks,
    sink: &Diagnostics,
) -> Result<Recorded, Error> {
    let program = hooks.program().unwrap_or(program);
    let typed = &*program.typed;
    compile::check(program, config)?;
    let script = hooks.script().map_or_else(|| Script::of(config), Ok)?;
    rt.expect_operators(program.nodes.len());
    let device = Device::load(&rt, program, config, hooks, sink)?;
    rt.set_reentry(config.reenters(program.graph.level.is_program()));
    let has_labels = config.loop_style.habits().has_labels;
    let format = config.memory_format;
    let plan = BatchPlan { graph: &program.graph, typed, loss, format, has_labels };
    let forward = Forward::plan(&rt, program, typed, &device.roles, config);
    let mut process = Process::new((&rt, config), plan, &forward, hooks, device);
    process.run(&script, |process, round| match round {
        1 if config.workload.trains() => {
            freeze::check_gradients(&process.held.device.parameters, config, sink)
        }
        _ => Ok(()),
    })?;
    let held = process.end();
    diagnose(&rt, program, config, (&forward, held.training.as_ref()), sink);
    let mut list = rt.take_launches();
    repeat::count(&mut list, &forward.trips(), &program.graph.folds);
    let (mut trace, mut asked) = rt.into_parts();
    let labels = if list.is_empty() { Vec::new() } else { trace.labels.clone() };
    sink.extend(repeat::all(&mut trace, &mut asked, &forward.trips(), &program.graph.folds)?);
    sink.extend(unproven::mark(program, typed, &mut trace));
    Ok((trace, asked, Launches { list, labels, steady: script.steady, passes: Vec::new() }))
}

/// What the user should know of the run.
fn diagnose(
    rt: &Runtime,
    program: &Program,
    config: &Config,
    (forward, training): (&Forward<'_>, Option<&Training>),
    sink: &Diagnostics,
) {
    sink.extend(forward.diagnostics());
    sink.extend(checkpoint_diagnostic(config.checkpoint, forward.regions()));
    sink.extend(compile::diagnostic(config));
    if let Some(training) = training {
        sink.extend(training.optimizer.diagnostics());
        sink.extend(training.masters.is_some().then(Masters::diagnostic));
    }
    sink.extend(format_diagnostic(program, config));
    sink.extend(rt.lacking_gradients().into_iter().map(lacking_gradient));
    sink.extend(rt.lacks_workspaces().then(missing_workspaces));
}

/// That convolutions ran without their workspaces.
fn missing_workspaces() -> Diagnostic {
    let message = say!(
        "what cuDNN chooses for these convolutions could not be fetched: their workspaces are \
                   missing, so the truth can only be higher; open the page again when there is a network"
    );
    Diagnostic::new(Severity::Error, "missing-workspaces", message)
}

/// That the gradient of an operator is a guess.
fn lacking_gradient(operator: &str) -> Diagnostic {
    let message = say!(
        "the gradient of `{operator}` is unknown for its arguments here: gradients are assumed to be as large \
         as its inputs",
        operator
    );
    Diagnostic::new(Severity::Error, "unmodelled-operator", message).at(operator)
}

/// What a training loop holds besides the model.
struct Training {
    /// What the optimizer is given instead of the model's parameters.
    substitutes: Option<Vec<Parameter>>,
    optimizer: optimizer::State,
    /// Those that have done the step before it comes.
    at_gradient: Option<at_gradient::Optimizers>,
    masters: Option<Masters>,
    scaler: Option<Scaler>,
    average: Option<average::Model>,
}

impl Training {
    /// Constructors, in the order of the script: the scaler makes its numbers at its first use.
    fn begin(
        rt: &Runtime,
        config: &Config,
        device: &Device,
        hooks: &dyn Hooks,
    ) -> Result<Self, Error> {
        let substitutes = rt.aside(|| hooks.loaded(rt, &device.parameters));
        let given = substitutes.as_ref().unwrap_or(&device.parameters);
        let mut optimizer = optimizer::State::new(config)?;
        let at_gradient = config.optimizer_in_backward;
        let at_gradient =
            at_gradient.then(|| at_gradient::Optimizers::of(rt, config, given)).transpose()?;
        let masters = config.precision.has_masters().then(|| Masters::of(rt, given));
        let updated = masters.as_ref().map_or(given, |masters| &masters.parameters);
        if at_gradient.is_none() {
            optimizer.construct(rt, updated);
        }
        let average = config.ema.then(|| average::Model::of(rt, &device.state));
        let scaler = config.precision.scales_gradients().then(Scaler::default);
        Ok(Self { substitutes, optimizer, at_gradient, masters, scaler, average })
    }

    fn zero_grad(&self, parameters: &[Parameter]) {
        let masters = self.masters.iter().flat_map(|masters| &masters.parameters);
        let substitutes = self.substitutes.iter().flatten();
        for parameter in parameters.iter().chain(substitutes).chain(masters) {
            parameter.leaf.clear();
        }
    }

    /// What stands between `backward` and the next `zero_grad`.
    fn step(&mut self, rt: &Runtime, config: &Config, parameters: &[Parameter]) {
        let Self { substitutes, optimizer, at_gradient, masters, scaler, average } = self;
        let parameters = substitutes.as_deref().unwrap_or(parameters);
        if let Some(masters) = masters {
            masters.take_gradients(rt, parameters);
        }
        let updated = masters.as_ref().map_or(parameters, |masters| &masters.parameters);
        if config.clips() {
            if let Some(scaler) = scaler {
                scaler.unscale(rt);
            }
            clip::grad_norm(rt, updated);
        }
        if let Some(scaler) = scaler {
            // One operator scales gradients and looks for what is not finite.
            rt.launch_foreach(&gradients(rt, updated), Passes { reads: 1, writes: 1 });
            scaler.step(rt, optimizer.is_fused(), || optimizer.step(rt, updated));
            scaler.update();
        } else if at_gradient.is_none() {
            optimizer.step(rt, updated);
        }
        if let Some(masters) = masters {
            masters.hand_back(rt, parameters);
        }
        if let Some(average) = average {
            average.update(rt);
        }
    }
}

/// Gradients that there are; none where launches are not recorded, which alone ask for them.
fn gradients(rt: &Runtime, parameters: &[Parameter]) -> Vec<Tensor> {
    let parameters = if rt.is_launching() { parameters } else { &[] };
    parameters.iter().filter_map(|parameter| parameter.leaf.grad()).collect()
}

/// Which part of the model was checkpointed.
fn checkpoint_diagnostic(checkpoint: Checkpoint, regions: usize) -> Option<Diagnostic> {
    let (severity, message) = match (checkpoint, regions) {
        (Checkpoint::None, _) => return None,
        (_, 0) => (
            Severity::Warning,
            say!(
                "no repeated blocks were found by the names of modules, so that nothing is checkpointed"
            ),
        ),
        (Checkpoint::Every(n), 1) if n.get() > 1 => (
            Severity::Warning,
            say!(
                "only the first block is run again in backward: there are no {n} more behind it",
                n
            ),
        ),
        (_, count) => (
            Severity::Info,
            say!("{count} blocks are run again in backward, each by itself", count),
        ),
    };
    Some(Diagnostic::new(severity, "checkpointed-blocks", message))
}

/// What is not known of channels last.
fn format_diagnostic(program: &Program, config: &Config) -> Option<Diagnostic> {
    if config.memory_format == MemoryFormat::Contiguous {
        return None;
    }
    let normalises = program.nodes.iter().any(|node| node.op == "BatchNormalization");
    let convolves = program.nodes.iter().any(|node| node.op == "Conv");
    let message = match (normalises, convolves) {
        (true, _) => {
            say!(
                "in channels last, workspaces of convolutions are estimated from what cuDNN answers for \
             contiguous ones; its scratch for batch norm is unknown and counted as none"
            )
        }
        (false, true) => {
            say!(
                "in channels last, workspaces of convolutions are estimated from what cuDNN answers for \
             contiguous ones"
            )
        }
        (false, false) => return None,
    };
    Some(Diagnostic::new(Severity::Info, "channels-last", message))
}

/// A parameter or a buffer on the device.
struct Loaded<'a> {
    id: ValueId,
    name: &'a str,
    category: Category,
    tensor: Tensor,
    /// Buffers that no operator reads.
    unread: Vec<Tensor>,
}

/// `model.to(memory_format=…)` of a model on the device: a copy of each parameter and buffer of four
/// dimensions, before the old one goes.
fn convert(rt: &Runtime, loaded: &mut [Loaded<'_>], format: MemoryFormat) -> Result<(), Error> {
    if format == MemoryFormat::Contiguous {
        return Ok(());
    }
    if let Some(volume) = loaded.iter().find(|loaded| loaded.tensor.rank() == 5) {
        let message = say!(
            "channels last is for images: PyTorch refuses to convert `{name}`, which has five dimensions",
            name = volume.name
        );
        return Err(Error::new(ErrorKind::BadConfig, message).about("memory-format"));
    }
    rt.enter_operator("aten::to");
    for Loaded { tensor, category, name, .. } in loaded {
        if tensor.rank() == 4 {
            let ty = TensorType::new(tensor.dtype(), tensor.sizes());
            *tensor = rt.place_in(&ty, format, *category, name);
        }
    }
    rt.enter_operator("");
    Ok(())
}

/// Next to layers of 4 bits, adapters come to the device in the type of computation, and then are cast up.
fn is_raised(config: &Config, name: &str, dtype: DType) -> bool {
    let is_packed = matches!(config.quantize, Quantize::Nf4 | Quantize::Fp4);
    let is_cast = config.gathers_as().is_some();
    is_packed && !config.lora_model_type && !is_cast && is_lora(name) && dtype != DType::Float32
}

fn raise_adapters(rt: &Runtime, hooks: &dyn Hooks, loaded: &mut [Loaded<'_>], config: &Config) {
    let low = |one: &&mut Loaded<'_>| is_raised(config, one.name, one.tensor.dtype());
    for Loaded { tensor, category, name, .. } in loaded.iter_mut().filter(low) {
        let ty = TensorType::new(DType::Float32, tensor.sizes());
        *tensor = place(rt, hooks, ty, *category, name);
    }
}

/// A weight that is quantised, with its statistics, on the device or on the host where it waits.
fn quantize(
    rt: &Runtime,
    hooks: &dyn Hooks,
    ty: &TensorType,
    config: &Config,
    name: &str,
    is_first: bool,
) -> (Tensor, Vec<Tensor>) {
    if hooks.stored(Category::Parameter, ty.dtype).is_some() {
        return quantized::load(rt, ty, config, name, is_first);
    }
    let (packed, statistics) = quantized::waiting(ty, config);
    let wait = |ty: &TensorType| rt.without_memory(|| rt.place(ty, Category::Parameter, name));
    (wait(&packed), statistics.iter().map(wait).collect())
}

/// A parameter or buffer on its way to the device, unless it waits on the host.
fn place(
    rt: &Runtime,
    hooks: &dyn Hooks,
    ty: TensorType,
    category: Category,
    name: &str,
) -> Tensor {
    let stored = hooks.stored(category, ty.dtype);
    let own = TensorType { dtype: stored.unwrap_or(ty.dtype), ..ty };
    let place = || rt.place(&own, category, name);
    if stored.is_some() { place() } else { rt.without_memory(place) }
}

/// The weights of a recurrent layer, the last of which has come, become one piece.
fn flatten(rt: &Runtime, last: &str, weights: &[ValueId], loaded: &mut [Loaded<'_>]) {
    let module = last.rsplit_once('.').map_or("", |(module, _)| module);
    let is_first = |one: &Loaded<'_>| weights.first() == Some(&one.id);
    let from = loaded.iter().rposition(is_first).unwrap_or(loaded.len());
    let own = loaded.iter_mut().skip(from).filter(|one| weights.contains(&one.id));
    flat_weights::flatten(rt, module, own.map(|one| &mut one.tensor).collect());
}

/// Buffers that no operator reads, which come to the device after a value of this type.
fn unread_buffers(
    rt: &Runtime,
    program: &Program,
    hooks: &dyn Hooks,
    id: ValueId,
    own: DType,
) -> Vec<Tensor> {
    let unread = program.unread_buffers.get(&id).into_iter().flatten();
    let unread = unread.map(|(name, ty)| {
        let dtype = if ty.dtype.is_floating() { own } else { ty.dtype };
        place(rt, hooks, TensorType::new(dtype, ty.dims.clone()), Category::Buffer, name)
    });
    unread.collect()
}

/// What a batch is made of.
#[derive(Clone, Copy)]
struct BatchPlan<'a> {
    graph: &'a Graph,
    typed: &'a Typed,
    loss: &'a Loss,
    format: MemoryFormat,
    /// Whether labels are a tensor of their own in any case.
    has_labels: bool,
}

/// A batch on the device.
#[derive(Debug, Default)]
struct Batch {
    inputs: Vec<(ValueId, Tensor)>,
    /// What the outputs are compared with.
    target: Option<Tensor>,
}

/// What lies on the device.
#[derive(Debug)]
struct Device {
    roles: Vec<Role>,
    /// By [`ValueId`]: parameters and buffers.
    values: Vec<Option<Tensor>>,
    parameters: Vec<Parameter>,
    /// Parameters and buffers, those that no operator of the graph reads among them.
    state: Vec<Tensor>,
}

impl Device {
    /// `model.to("cuda")`: parameters and buffers in the order of the module.
    ///
    /// # Errors
    /// When PyTorch would refuse to convert a parameter, or to train where all are frozen.
    fn load(
        rt: &Runtime,
        program: &Program,
        config: &Config,
        hooks: &dyn Hooks,
        sink: &Diagnostics,
    ) -> Result<Self, Error> {
        let typed = &*program.typed;
        let graph = &program.graph;
        rt.enter_phase(0, Phase::Setup);
        let roles = roles::roles(program, typed);
        let mut loaded: Vec<Loaded<'_>> = Vec::new();
        let recurrent = flat_weights::modules(program);
        let quantized = quantized_weights(program);
        let mut is_first = true;
        for &id in &program.to_device {
            let Some(value) = graph.value(id) else { continue };
            let Some(literal) = &value.initializer else { continue };
            let dtype = typed.ty(id).map(|ty| ty.dtype);
            let ty = TensorType::new(dtype.unwrap_or(literal.dtype), literal.dims.clone());
            let category = match roles.get(id.0) {
                Some(Role::Parameter) => Category::Parameter,
                Some(Role::Buffer) => Category::Buffer,
                _ => continue,
            };
            rt.enter_operator(if is_raised(config, &value.name, ty.dtype) {
                "aten::to"
            } else {
                ""
            });
            let (tensor, statistics) = if quantized.contains(&id) {
                quantize(rt, hooks, &ty, config, &value.name, std::mem::take(&mut is_first))
            } else {
                (place(rt, hooks, ty, category, &value.name), Vec::new())
            };
            let unread = unread_buffers(rt, program, hooks, id, tensor.dtype());
            loaded.push(Loaded {
                id,
                name: &value.name,
                category,
                unread: unread.into_iter().chain(statistics).collect(),
                tensor,
            });
            if let Some(weights) = recurrent.get(&id) {
                flatten(rt, &value.name, weights, &mut loaded);
            }
        }
        rt.enter_operator("");
        convert(rt, &mut loaded, config.memory_format)?;
        raise_adapters(rt, hooks, &mut loaded, config);
        let mut values = vec![None; graph.values.len()];
        let mut trained = BTreeMap::new();
        let mut placed: BTreeMap<ValueId, Vec<Tensor>> = BTreeMap::new();
        let mut frozen = Frozen::new(config);
        for Loaded { id, name, category, tensor, unread } in loaded {
            let bring = |one| rt.aside(|| hooks.load(rt, name, Category::Buffer, one));
            let unread: Vec<Tensor> = unread.into_iter().map(bring).collect();
            let mut tensor = rt.aside(|| hooks.load(rt, name, category, tensor));
            if category == Category::Parameter && !frozen.has(name) {
                let leaf;
                (tensor, leaf) = rt.parameter(&tensor, name);
                leaf.set_spread(graph.spread.contains(name));
                trained.insert(id, Parameter { tensor: tensor.clone(), leaf });
            }
            if let Some(slot) = values.get_mut(id.0) {
                *slot = Some(tensor.clone());
            }
            placed.insert(id, std::iter::once(tensor).chain(unread).collect());
        }
        let order = &program.placement;
        let parameters: Vec<Parameter> = order.iter().filter_map(|id| trained.remove(id)).collect();
        let state = order.iter().filter_map(|id| placed.remove(id)).flatten();
        let state: Vec<Tensor> = state.collect();
        rt.aside(|| hooks.placed(rt, &parameters, &state));
        frozen.check(config.workload.trains() && parameters.is_empty(), sink)?;
        Ok(Self { roles, values, parameters, state })
    }

    /// Another model of the same weights, none of which is trained.
    fn frozen_copy(&self, rt: &Runtime, graph: &Graph) -> Vec<Option<Tensor>> {
        let values = self.values.iter().enumerate().map(|(id, value)| {
            let value = value.as_ref()?;
            let ty = TensorType::new(value.dtype(), value.sizes());
            Some(rt.place(&ty, Category::Buffer, graph.value_name(ValueId(id))))
        });
        values.collect()
    }

    /// A batch: the model's inputs, then labels where the loss needs their own.
    fn new_batch(&self, rt: &Runtime, plan: &BatchPlan<'_>) -> Batch {
        let mut inputs = Vec::new();
        for &input in &plan.graph.inputs {
            let ty = plan.typed.types.get(input.0).and_then(Option::as_ref);
            if self.roles.get(input.0) != Some(&Role::Input) {
                continue;
            }
            if let Some(ty) = ty {
                let format = if ty.rank() == 4 { plan.format } else { MemoryFormat::Contiguous };
                let name = plan.graph.value_name(input);
                inputs.push((input, rt.place_in(ty, format, Category::Input, name)));
            }
        }
        let target = match &plan.loss.target {
            Target::None => None,
            Target::SameAs(source) => {
                let same = inputs.iter().find(|(id, _)| id == source).map(|(_, tensor)| tensor);
                same.map(|same| {
                    let ty = TensorType::new(same.dtype(), same.sizes());
                    let own = plan.has_labels.then(|| rt.place(&ty, Category::Input, "labels"));
                    own.unwrap_or_else(|| same.clone())
                })
            }
            Target::New(ty) => Some(rt.place(ty, Category::Input, "labels")),
        };
        Batch { inputs, target }
    }
}
