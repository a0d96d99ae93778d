//! A process that runs the lines of a [`Script`]: the variables of Python's frame, and what each line does.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::forward::Forward;
use super::hooks::{Direction, Hooks, InBackward, Player, Walk};
use super::loss::Target;
use super::script::{Line, Script};
use super::{Batch, BatchPlan, Device, LOSS, Training};
use crate::compiled::Compiled;
use crate::config::{Compile, Config};
use crate::eager::autograd::{Edge, Leaf, Observer};
use crate::eager::checkpoint::Region;
use crate::eager::{Mode, Runtime, Tensor, kernels};
use crate::error::Error;
use crate::graph::{LossPlace, ValueId};
use crate::tensor::DType;
use crate::trace::{LabelId, ReasonId};

/// COUNT: outputs of rounds that are not simulated, at most.
const MOST_KEPT: u64 = 4096;

/// The variables `loss` and `out`.
type Results = (Option<Tensor>, Vec<Tensor>);

/// A batch under way.
#[derive(Debug, Default)]
struct Slot {
    batch: Batch,
    results: Option<Results>,
}

/// A process at some line of its script.
pub(super) struct Process<'a, 'f> {
    rt: &'a Runtime,
    config: &'a Config,
    plan: BatchPlan<'a>,
    forward: &'a Forward<'f>,
    hooks: &'a dyn Hooks,
    pub(super) held: Held,
    loss_reason: Option<ReasonId>,
    loss_label: LabelId,
    optimizer_label: LabelId,
    /// Parts of the model that are compiled.
    compiled: RefCell<BTreeMap<(usize, Mode), Rc<Compiled>>>,
    /// The round that runs, from 1; 0 before the first.
    round: usize,
    rounds: usize,
}

/// What the variables of the script hold.
pub(super) struct Held {
    pub(super) device: Device,
    /// Parameters and buffers of a frozen copy of the model, by value.
    reference: Option<Vec<Option<Tensor>>>,
    pub(super) training: Option<Training>,
    fetched: VecDeque<Batch>,
    slots: BTreeMap<usize, Slot>,
    /// Outputs of earlier rounds that are kept.
    kept: Vec<Tensor>,
}

impl<'a, 'f> Process<'a, 'f> {
    pub(super) fn new(
        (rt, config): (&'a Runtime, &'a Config),
        plan: BatchPlan<'a>,
        forward: &'a Forward<'f>,
        hooks: &'a dyn Hooks,
        device: Device,
    ) -> Self {
        let has_copy = config.objective.has_reference() && config.lora.is_empty();
        let reference = has_copy.then(|| device.frozen_copy(rt, plan.graph));
        Self {
            rt,
            config,
            plan,
            forward,
            hooks,
            held: Held {
                device,
                reference,
                training: None,
                fetched: VecDeque::new(),
                slots: BTreeMap::new(),
                kept: Vec::new(),
            },
            loss_reason: plan.loss.reason().map(|reason| rt.reason(&reason)),
            loss_label: rt.label(LOSS),
            optimizer_label: rt.label("optimizer"),
            compiled: RefCell::default(),
            round: 0,
            rounds: 0,
        }
    }

    /// Runs the whole script; `after` follows each round, with its number from 1.
    ///
    /// # Errors
    /// When a line cannot run with these settings, and those of `after`.
    pub(super) fn run(
        &mut self,
        script: &Script,
        mut after: impl FnMut(&Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.rounds = script.rounds;
        self.lines(&script.setup)?;
        for round in 1..=script.rounds {
            self.round = round;
            self.lines(&script.each)?;
            after(self, round)?;
        }
        Ok(())
    }

    fn lines(&mut self, lines: &[Line]) -> Result<(), Error> {
        lines.iter().try_for_each(|line| self.line(line))
    }

    fn line(&mut self, line: &Line) -> Result<(), Error> {
        let Self { rt, config, hooks, .. } = *self;
        match line {
            Line::Enter(phase) => rt.enter_phase(self.round, *phase),
            Line::Optimizer => {
                self.held.training = Some(Training::begin(rt, config, &self.held.device, hooks)?);
            }
            Line::Fetch => {
                let batch = self.held.device.new_batch(rt, &self.plan);
                self.held.fetched.push_back(batch);
            }
            Line::Batch { slot } => {
                if let Some(batch) = self.held.fetched.pop_front() {
                    self.slot(*slot).batch = batch;
                }
            }
            Line::ZeroGrad => self.zero_grad(),
            Line::Forward { of, slot, mode } => {
                let before = self.slot(*slot).results.take();
                let results = rt.in_mode(*mode, || self.compute(*of, before));
                self.slot(*slot).results = Some(results);
            }
            Line::Reference { of, slot } => {
                let outputs = self.refer(*of);
                if let Some((_, kept)) = &mut self.slot(*slot).results {
                    kept.extend(outputs);
                }
            }
            Line::Report { slot } => {
                let results = self.held.slots.get(slot).and_then(|slot| slot.results.as_ref());
                if let Some((_, outputs)) = results {
                    self.plan.loss.report(rt, outputs);
                }
            }
            Line::Return { slot } => {
                if let Some((_, outputs)) = &mut self.slot(*slot).results {
                    outputs.clear();
                }
            }
            Line::Backward { slot } => {
                let results = self.slot(*slot).results.as_ref();
                if let Some(loss) = results.and_then(|(loss, _)| loss.clone()) {
                    self.backward(&loss);
                }
            }
            Line::Keep { slot } => self.keep(*slot),
            Line::Schedule => hooks.play(rt, self, self.round),
            Line::Step => self.step(),
            Line::Unbind { slot } => unbind(self.slot(*slot).results.take()),
            Line::Untimed(lines) => return rt.without_launches(|| self.lines(lines)),
        }
        Ok(())
    }

    /// The slot of this number, which begins empty.
    fn slot(&mut self, slot: usize) -> &mut Slot {
        self.held.slots.entry(slot).or_default()
    }

    /// The forward and the loss; variables of the results before are assigned behind it.
    fn compute(&self, of: usize, before: Option<Results>) -> Results {
        let results = self.read(&self.held.device.values, of);
        unbind(before);
        results
    }

    /// What the model's frozen copy returns; with adapters, the model itself reads the batch again.
    fn refer(&self, of: usize) -> Vec<Tensor> {
        let Self { rt, .. } = *self;
        let (values, mode) = match &self.held.reference {
            Some(values) => (values, Mode::EVALUATION),
            None => (&self.held.device.values, Mode { gradients: false, ..Mode::TRAINING }),
        };
        let (loss, outputs) = rt.in_mode(mode, || self.read(values, of));
        drop(loss);
        outputs
    }

    /// What a model makes of a batch: the loss, and its outputs.
    fn read(&self, values: &[Option<Tensor>], of: usize) -> Results {
        let Self { rt, plan, .. } = *self;
        let nothing = Batch::default();
        let batch = self.held.slots.get(&of).map_or(&nothing, |slot| &slot.batch);
        let raises = self.config.loop_style.habits().raises_outputs;
        let results = rt.autocast(self.config.precision.autocast(), || {
            if self.config.compile == Compile::Inductor {
                let (loss, outputs) = self.read_compiled(values, batch);
                return (loss, if raises { raised(rt, outputs) } else { outputs });
            }
            let mut outputs = self.model(values, batch);
            let is_apart = plan.loss.is_apart();
            if raises && is_apart {
                outputs = raised(rt, outputs);
            }
            let mut loss = plan.loss.run(rt, &outputs, batch.target.as_ref());
            if plan.graph.loss_place != LossPlace::Script {
                self.forward.finish(rt, self.hooks);
                let has_loss = loss.is_some();
                let made = loss.into_iter().chain(outputs).collect();
                let mut made = rt.aside(|| self.hooks.returned(rt, made)).into_iter();
                loss = if has_loss { made.next() } else { None };
                outputs = made.collect();
            }
            if raises && !is_apart {
                outputs = raised(rt, outputs);
            }
            (loss, outputs)
        });
        rt.enter_reason(None);
        results
    }

    /// What the model returns; the loss is next.
    fn model(&self, values: &[Option<Tensor>], batch: &Batch) -> Vec<Tensor> {
        let outputs = self.forward.run(self.rt, (values, batch.inputs.clone()), self.hooks);
        if self.plan.graph.loss_place == LossPlace::Script {
            self.forward.finish(self.rt, self.hooks);
        }
        self.rt.enter_module(self.loss_label);
        self.rt.enter_reason(self.loss_reason);
        let outputs = self.plan.loss.outputs(self.rt, outputs);
        match self.plan.graph.loss_place {
            LossPlace::Script => self.rt.aside(|| self.hooks.returned(self.rt, outputs)),
            LossPlace::Model | LossPlace::BehindBreak => outputs,
        }
    }

    /// The same of a compiled model, which may have the loss in it.
    fn read_compiled(&self, values: &[Option<Tensor>], batch: &Batch) -> Results {
        let Self { rt, plan, .. } = *self;
        let target = batch.target.as_ref();
        let loss = |outputs: &[Tensor]| plan.loss.run(rt, outputs, target);
        let inputs = batch.inputs.iter().map(|(_, tensor)| tensor);
        let given: Vec<Tensor> = inputs.chain(target).cloned().collect();
        if plan.graph.loss_place == LossPlace::Model {
            let mut outputs = self.region(0, &given, |_| {
                let outputs = self.model(values, batch);
                let loss = loss(&outputs);
                outputs.into_iter().chain(loss).collect()
            });
            let has_loss = outputs.len() > plan.graph.outputs.len();
            let loss = if has_loss { outputs.pop() } else { None };
            return (loss, outputs);
        }
        let outputs = self.region(0, &given, |_| self.model(values, batch));
        rt.enter_module(self.loss_label);
        if plan.graph.loss_place == LossPlace::Script {
            return (loss(&outputs), outputs);
        }
        let given: Vec<Tensor> = outputs.iter().chain(target).cloned().collect();
        let found = self.region(1, &given, |given| loss(given).into_iter().collect());
        (found.into_iter().next(), outputs)
    }

    /// Runs a part of a model that is compiled the first time that it runs in a mode.
    fn region(
        &self,
        part: usize,
        given: &[Tensor],
        body: impl Fn(&[Tensor]) -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        let mut regions = self.compiled.borrow_mut();
        let compiled = regions
            .entry((part, self.rt.mode()))
            .or_insert_with(|| Rc::new(self.rt.compile(given, body)));
        compiled.run(self.rt, given)
    }

    fn backward(&mut self, loss: &Tensor) {
        let rt = self.rt;
        let scaler = self.held.training.as_mut().and_then(|training| training.scaler.as_mut());
        let scaled = scaler.map(|scaler| scaler.scale(rt, loss));
        self.walk_back(|observer| rt.backward(scaled.as_ref().unwrap_or(loss), observer));
    }

    /// A backward, followed by the hooks.
    fn walk_back(&self, backward: impl FnOnce(&dyn Observer)) {
        let Self { rt, hooks, forward, .. } = *self;
        let walk = Walk::of_model(rt, hooks, forward.modules(), Direction::Backward);
        // Checkpointed regions run again under the autocast that they first ran under.
        let recompute = |region: &Region| {
            rt.autocast(self.config.precision.autocast(), || {
                forward.run_again(rt, &self.held.device.values, region, hooks);
            });
        };
        let after_accumulation = |leaf: &Leaf| {
            let training = self.held.training.as_ref();
            if let Some(optimizers) = training.and_then(|training| training.at_gradient.as_ref()) {
                rt.aside(|| optimizers.step(rt, &self.held.device.parameters, leaf));
            }
        };
        let observer = InBackward { walk, recompute, after_accumulation };
        backward(&observer);
    }

    /// Before PyTorch 2.0, zeros are written into gradients, which stay.
    fn zero_grad(&self) {
        if let Some(training) = &self.held.training
            && self.config.pytorch.frees_gradients()
        {
            training.zero_grad(&self.held.device.parameters);
        }
    }

    fn step(&mut self) {
        let Self { rt, config, hooks, .. } = *self;
        let Some(training) = &mut self.held.training else { return };
        let parameters = &self.held.device.parameters;
        rt.enter_module(self.optimizer_label);
        rt.aside(|| hooks.before_optimizer(rt, parameters));
        training.step(rt, config, parameters);
        rt.aside(|| hooks.after_optimizer(rt, parameters));
    }

    /// Keeps the outputs, detached. Rounds that are not simulated are before the last.
    fn keep(&mut self, slot: usize) {
        let rt = self.rt;
        let Some((_, outputs)) = self.held.slots.get(&slot).and_then(|slot| slot.results.as_ref())
        else {
            return;
        };
        let simulated = u64::try_from(self.rounds).unwrap_or(u64::MAX);
        let is_before_last = self.round + 1 == self.rounds;
        let all = self.config.keep_outputs.get();
        let earlier = if is_before_last { all.saturating_sub(simulated) } else { 0 };
        rt.enter_operator("aten::detach");
        let others = (0..earlier.min(MOST_KEPT)).flat_map(|_| outputs.iter());
        self.held.kept.extend(others.map(|output| rt.empty(output.dtype(), output.sizes())));
        self.held.kept.extend(outputs.iter().map(Tensor::detach));
    }

    /// The end of the script, which frees nothing: the process ends.
    pub(super) fn end(self) -> Held {
        self.held
    }
}

impl Player for Process<'_, '_> {
    fn forward(
        &self,
        inputs: Vec<(ValueId, Tensor)>,
        is_last: bool,
        labels: Option<&Tensor>,
    ) -> (Option<Tensor>, Vec<Tensor>) {
        let Self { rt, plan, .. } = *self;
        let values = &self.held.device.values;
        rt.in_mode(Mode::TRAINING, || {
            rt.autocast(self.config.precision.autocast(), || {
                if is_last {
                    let outputs = self.model(values, &Batch { inputs, target: None });
                    return (plan.loss.run(rt, &outputs, labels), outputs);
                }
                (None, self.forward.run(rt, (values, inputs), self.hooks))
            })
        })
    }

    fn backward(&self, loss: &Tensor) {
        self.walk_back(|observer| self.rt.backward(loss, observer));
    }

    fn backward_along(&self, root: Edge, gradient: &Tensor) {
        self.walk_back(|observer| self.rt.backward_along(root, gradient, observer));
    }

    fn target(&self) -> &Target {
        &self.plan.loss.target
    }
}

/// `convert_outputs_to_fp32`, which accelerate puts around the forward where it uses autocast.
fn raised(rt: &Runtime, outputs: Vec<Tensor>) -> Vec<Tensor> {
    let is_low = |x: &Tensor| matches!(x.dtype(), DType::Float16 | DType::BFloat16);
    if rt.autocast_type().is_none() {
        return outputs;
    }
    let raise =
        |x: &Tensor| if is_low(x) { kernels::cast(rt, x, DType::Float32) } else { x.clone() };
    outputs.iter().map(raise).collect()
}

/// Variables are assigned again, or go with their function: the loss, then the outputs.
fn unbind(results: Option<Results>) {
    if let Some((loss, outputs)) = results {
        drop(loss);
        outputs.into_iter().for_each(drop);
    }
}
