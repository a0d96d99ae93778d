//! The loop itself: what the lines of a training script do, and what its names hold.

use super::forward::Forward;
use super::hooks::{Direction, Hooks, InBackward, Modules};
use super::{BatchPlan, Device, ITERATIONS, LOSS, Training};
use crate::config::{Config, LoopStyle, ZeroGrad};
use crate::eager::checkpoint::Region;
use crate::eager::{Mode, Runtime, Tensor};
use crate::trace::{LabelId, Phase, ReasonId};

/// COUNT: outputs of steps that are not simulated, at most.
const MOST_KEPT: u64 = 4096;

/// A training script at some line.
pub(super) struct Script<'a, 'f> {
    rt: &'a Runtime,
    config: &'a Config,
    plan: BatchPlan<'a>,
    forward: &'a Forward<'f>,
    hooks: &'a dyn Hooks,
    pub(super) device: Device,
    training: Training,
    loss_reason: Option<ReasonId>,
    loss_label: LabelId,
    optimizer_label: LabelId,
    /// The loss and the outputs, which names hold from one iteration to the next.
    bound: Option<(Tensor, Vec<Tensor>)>,
    /// Outputs of earlier steps that are kept.
    kept: Vec<Tensor>,
}

/// What a script holds at its end.
pub(super) struct Held {
    pub(super) training: Training,
    _device: Device,
    _bound: Option<(Tensor, Vec<Tensor>)>,
    _kept: Vec<Tensor>,
}

impl<'a, 'f> Script<'a, 'f> {
    pub(super) fn new(
        (rt, config): (&'a Runtime, &'a Config),
        plan: BatchPlan<'a>,
        forward: &'a Forward<'f>,
        hooks: &'a dyn Hooks,
        (device, training): (Device, Training),
    ) -> Self {
        Self {
            rt,
            config,
            plan,
            forward,
            hooks,
            device,
            training,
            loss_reason: plan.loss.reason().map(|reason| rt.reason(&reason)),
            loss_label: rt.label(LOSS),
            optimizer_label: rt.label("optimizer"),
            bound: None,
            kept: Vec::new(),
        }
    }

    /// One iteration, of so many batches.
    pub(super) fn iterate(&mut self, iteration: usize, batches: u64) {
        let Self { rt, config, hooks, .. } = *self;
        rt.enter_phase(iteration, Phase::ZeroGrad);
        self.device.next_batch(rt, &self.plan, config.batches);
        if config.zero_grad == ZeroGrad::Start {
            self.zero_grad();
        }
        for batch in 0..batches {
            rt.enter_phase(iteration, Phase::Forward);
            if batch > 0 {
                self.device.next_batch(rt, &self.plan, config.batches);
            }
            self.step(iteration, batch == 0);
        }
        rt.enter_phase(iteration, Phase::Optimizer);
        rt.enter_module(self.optimizer_label);
        rt.aside(|| hooks.before_optimizer(rt, &self.device.parameters));
        self.training.step(rt, config, &self.device.parameters);
        rt.aside(|| hooks.after_optimizer(rt, &self.device.parameters));
        if config.zero_grad == ZeroGrad::End {
            self.zero_grad();
        }
        if config.loop_style == LoopStyle::Function {
            unbind(self.bound.take());
        }
        if config.evaluation {
            rt.enter_phase(iteration, Phase::Forward);
            rt.without_launches(|| rt.in_mode(Mode::EVALUATION, || drop(self.compute(None))));
        }
    }

    /// Forward and backward of one batch.
    fn step(&mut self, iteration: usize, is_first: bool) {
        let rt = self.rt;
        let before = self.bound.take();
        let (value, outputs) = self.compute(before);
        rt.enter_phase(iteration, Phase::Backward);
        if self.config.zero_grad == ZeroGrad::BeforeBackward && is_first {
            self.zero_grad();
        }
        if let Some(value) = &value {
            self.backward(value);
        }
        self.kept.extend(kept_outputs(rt, self.config, iteration, &outputs));
        self.bound = value.map(|value| (value, outputs));
        self.device.end_batch();
    }

    /// The forward and the loss; names that held those of the last batch are bound to them.
    fn compute(&self, before: Option<(Tensor, Vec<Tensor>)>) -> (Option<Tensor>, Vec<Tensor>) {
        let rt = self.rt;
        let computed = rt.autocast(self.config.precision.autocast(), || {
            let outputs = self.forward.run(rt, &self.device.values, self.hooks);
            rt.enter_module(self.loss_label);
            rt.enter_reason(self.loss_reason);
            let value = self.plan.loss.run(rt, &outputs, self.device.target.as_ref());
            unbind(before);
            (value, outputs)
        });
        rt.enter_reason(None);
        computed
    }

    /// Before PyTorch 2.0, zeros are written into gradients, which stay.
    fn zero_grad(&self) {
        if self.config.pytorch.frees_gradients() {
            self.training.zero_grad(&self.device.parameters);
        }
    }

    fn backward(&mut self, value: &Tensor) {
        let Self { rt, hooks, forward, .. } = *self;
        let scaled = self.training.scaler.as_mut().map(|scaler| scaler.scale(rt, value));
        let modules = Modules::begin(rt, hooks, Direction::Backward);
        // Checkpointed regions run again under the autocast that they first ran under.
        let recompute = |region: &Region| {
            rt.autocast(self.config.precision.autocast(), || {
                forward.run_again(rt, &self.device.values, region, hooks);
            });
        };
        let observer = InBackward { modules, loss: self.loss_label, recompute };
        rt.backward(scaled.as_ref().unwrap_or(value), &observer);
        observer.modules.end();
    }

    /// The end of the script, which frees nothing: the process ends.
    pub(super) fn end(self) -> Held {
        let Self { device, training, bound, kept, .. } = self;
        Held { training, _device: device, _bound: bound, _kept: kept }
    }
}

/// What a loop keeps of a step for metrics: its outputs, detached. Steps that are not simulated are before the last.
fn kept_outputs(
    rt: &Runtime,
    config: &Config,
    iteration: usize,
    outputs: &[Tensor],
) -> Vec<Tensor> {
    let steps = config.keep_outputs.get();
    if steps == 1 {
        return Vec::new();
    }
    let simulated = u64::try_from(ITERATIONS).unwrap_or(u64::MAX);
    let earlier = if iteration + 1 == ITERATIONS { steps.saturating_sub(simulated) } else { 0 };
    rt.enter_operator("aten::detach");
    let others = (0..earlier.min(MOST_KEPT)).flat_map(|_| outputs.iter());
    let others = others.map(|output| rt.empty(output.dtype(), output.sizes()));
    let mut kept: Vec<Tensor> = others.collect();
    kept.extend(outputs.iter().map(Tensor::detach));
    kept
}

/// The loop's names are bound again, or go with their function: the loss, then the outputs.
fn unbind(names: Option<(Tensor, Vec<Tensor>)>) {
    if let Some((loss, outputs)) = names {
        drop(loss);
        outputs.into_iter().for_each(drop);
    }
}
