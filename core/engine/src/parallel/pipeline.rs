//! `torch.distributed.pipelining`: a rank runs one stage of the model for one micro-batch after another.
//!
//! - A batch lies on the device as a whole; micro-batches are views of it.
//! - A stage receives what the stage before it made into a buffer, which it keeps until the backward of that
//!   micro-batch. What it sends goes when it was sent; its gradient starts at the function that made it.
//! - The gradient of the output is received just before a backward. That of the input is sent behind it.
//! - The last stage computes the loss of each micro-batch, and keeps logits until its backward.
//!
//! What a schedule's variables hold beyond that stands with each of the two below.
//!
//! Sources: `torch/distributed/pipelining/{stage,schedules,_backward,_recv_buffers}.py`, PyTorch 2.15.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::stage::{Stage, cut, refused};
use crate::config::{Config, LoopStyle, Outputs, SETTINGS, Schedule, ZeroGrad};
use crate::eager::autograd::{Edge, Leaf};
use crate::eager::{Runtime, Tensor};
use crate::error::{Error, ErrorKind};
use crate::graph::ValueId;
use crate::infer;
use crate::recover::Program;
use crate::roles::{self, Role};
use crate::sentence::Sentence;
use crate::step::Parameter;
use crate::step::hooks::{Hooks, Player};
use crate::step::loss::Target;
use crate::step::script::{Line, ROUNDS, Script};
use crate::tensor::TensorType;
use crate::trace::{Category, Phase};

/// COUNT: micro-batches of one step, at most.
const MOST: u64 = 256;

/// What a pipeline does in the place of one stage.
#[derive(Debug)]
pub(super) struct Pipeline {
    stage: Stage,
    schedule: Schedule,
    /// COUNT: forwards before the first backward in 1F1B.
    warm_up: usize,
    /// COUNT: micro-batches.
    micro_batches: usize,
    clears: ZeroGrad,
    /// Whether losses end with the step.
    forgets_losses: bool,
    /// What a data loader brings, in the sizes of a micro-batch.
    inputs: Vec<(ValueId, TensorType)>,
    /// The batch on the device, and labels that are none of it.
    batch: RefCell<Vec<(Option<ValueId>, Tensor)>>,
    /// The losses of a step. What was received stays with them, since the function that collected its gradient has it.
    losses: RefCell<Vec<(Tensor, Option<Tensor>)>>,
}

/// A micro-batch between its forward and its backward.
#[derive(Debug, Default)]
struct Chunk {
    /// What was received, and where its gradient arrives.
    received: Option<(Tensor, Rc<Leaf>)>,
    outputs: Vec<Tensor>,
    /// Where the gradient of the output goes.
    root: Option<Edge>,
    loss: Option<Tensor>,
}

impl Pipeline {
    /// # Errors
    /// When the program or the settings are not those of a pipeline that is simulated.
    pub(super) fn of(program: &Program, config: &Config, stages: u64) -> Result<Self, Error> {
        check(program, config, stages)?;
        let number = config.rank.0.unwrap_or(0);
        let micro_batches = config.micro_batches();
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let roles = roles::roles(program, &program.typed);
        let inputs = program.graph.inputs.iter().filter(|id| roles.get(id.0) == Some(&Role::Input));
        let inputs = inputs.filter_map(|id| Some((*id, program.typed.ty(*id)?.clone())));
        Ok(Self {
            stage: cut(program, stages, number)?,
            schedule: config.schedule,
            warm_up: count(micro_batches.min(stages.saturating_sub(number))),
            micro_batches: count(micro_batches),
            clears: config.clears(),
            forgets_losses: config.loop_style.habits().outputs == Outputs::EndOfStep,
            inputs: inputs.collect(),
            batch: RefCell::default(),
            losses: RefCell::default(),
        })
    }

    /// The whole batch comes to the device.
    fn bring(&self, rt: &Runtime, player: &dyn Player) {
        let whole = |ty: &TensorType| {
            let rows = u64::try_from(self.micro_batches).unwrap_or(u64::MAX);
            let mut ty = ty.clone();
            ty.dims.first_mut().into_iter().for_each(|first| *first = first.saturating_mul(rows));
            ty
        };
        let program = &self.stage.program;
        let mut batch = Vec::new();
        for (id, ty) in &self.inputs {
            let name = program.graph.value_name(*id);
            batch.push((Some(*id), rt.place(&whole(ty), Category::Input, name)));
        }
        if let Target::New(ty) = player.target() {
            batch.push((None, rt.place(&whole(ty), Category::Input, "labels")));
        }
        self.batch.replace(batch);
    }

    /// A micro-batch's part of what lies on the device; for labels of their own, of `None`.
    fn part(&self, id: Option<ValueId>) -> Option<Tensor> {
        let batch = self.batch.borrow();
        let (_, whole) = batch.iter().find(|(own, _)| *own == id)?;
        let mut sizes = whole.sizes().to_vec();
        let parts = u64::try_from(self.micro_batches).unwrap_or(u64::MAX);
        let first = sizes.first_mut()?;
        *first = first.checked_div(parts)?;
        Some(whole.alias(sizes, whole.strides()))
    }

    /// A buffer for what the stage before sends, or for the gradient of what this one sent.
    fn buffer(&self, rt: &Runtime, of: Option<ValueId>) -> Option<Tensor> {
        let ty = self.stage.program.typed.ty(of?)?;
        rt.enter_operator("recv");
        let buffer = rt.empty(ty.dtype, &ty.dims);
        rt.enter_operator("");
        Some(buffer)
    }

    fn receive(&self, rt: &Runtime) -> Option<Tensor> {
        self.buffer(rt, self.stage.given)
    }

    fn receive_gradient(&self, rt: &Runtime) -> Option<Tensor> {
        let of = self.stage.program.graph.outputs.first().copied();
        self.buffer(rt, of.filter(|_| !self.stage.is_last))
    }

    /// `forward_one_chunk`, and the loss.
    fn forward(&self, now: &Now<'_>, received: Option<&Tensor>) -> Chunk {
        now.rt.enter_phase(now.round, Phase::Forward);
        let received = received.map(|received| now.rt.parameter(received, "received activations"));
        let inputs = if let (Some(given), Some((tensor, _))) = (self.stage.given, &received) {
            vec![(given, tensor.clone())]
        } else {
            let parts = self.inputs.iter().map(|(id, _)| Some((*id, self.part(Some(*id))?)));
            parts.flatten().collect()
        };
        let labels = match now.player.target() {
            Target::None => None,
            Target::SameAs(id) => self.part(Some(*id)),
            Target::New(_) => self.part(None),
        };
        let (loss, outputs) = now.player.forward(inputs, self.stage.is_last, labels.as_ref());
        let root = outputs.first().and_then(Tensor::edge).cloned();
        let held = || received.as_ref().map(|(tensor, _)| tensor.detach());
        self.losses.borrow_mut().extend(loss.clone().map(|loss| (loss, held())));
        Chunk { received, outputs, root, loss }
    }

    /// `backward_one_chunk`: the gradient of what was received.
    fn backward(now: &Now<'_>, chunk: Chunk, gradient: Option<Tensor>) -> Option<Tensor> {
        now.rt.enter_phase(now.round, Phase::Backward);
        let Chunk { received, outputs, root, loss } = chunk;
        match (&loss, root, &gradient) {
            (Some(loss), _, _) => now.player.backward(loss),
            (None, Some(root), Some(gradient)) => now.player.backward_along(root, gradient),
            _ => {}
        }
        let sent = received.as_ref().and_then(|(_, leaf)| {
            let sent = leaf.grad();
            leaf.clear();
            sent
        });
        // Locals of the frame, in their order.
        drop((outputs, received));
        drop(gradient);
        sent
    }

    /// `losses = []`, which frees the last of the list first.
    fn forget_losses(&self) {
        self.losses.take().into_iter().rev().for_each(drop);
    }

    /// `ScheduleGPipe`: what is sent stays until all forwards are done, and gradients until all backwards are.
    fn all_forwards_first(&self, now: &Now<'_>) {
        let mut chunks: VecDeque<Chunk> = VecDeque::new();
        for _ in 0..self.micro_batches {
            let received = self.receive(now.rt);
            chunks.push_back(self.forward(now, received.as_ref()));
        }
        if !self.stage.is_last {
            for chunk in &mut chunks {
                chunk.outputs.clear();
            }
        }
        let mut sent = Vec::new();
        while let Some(chunk) = chunks.pop_front() {
            let gradient = self.receive_gradient(now.rt);
            sent.extend(Self::backward(now, chunk, gradient));
        }
    }

    /// `Schedule1F1B`: a variable holds what was received last, and another the gradient that was sent last.
    fn one_by_one(&self, now: &Now<'_>) {
        let mut chunks: VecDeque<Chunk> = VecDeque::new();
        let (mut received, mut sent) = (None, None);
        let release = |chunk: Option<&mut Chunk>| {
            chunk
                .filter(|_| !self.stage.is_last)
                .into_iter()
                .for_each(|chunk| chunk.outputs.clear());
        };
        for _ in 0..self.warm_up {
            received = self.receive(now.rt);
            let chunk = self.forward(now, received.as_ref());
            release(chunks.back_mut());
            chunks.push_back(chunk);
        }
        for _ in self.warm_up..self.micro_batches {
            let gradient = self.receive_gradient(now.rt);
            release(chunks.back_mut());
            if let Some(chunk) = chunks.pop_front() {
                sent = Self::backward(now, chunk, gradient);
            }
            received = self.receive(now.rt);
            chunks.push_back(self.forward(now, received.as_ref()));
        }
        // Of the backwards that are left, all but the first have a variable that holds the gradient.
        let mut held = None;
        let mut is_first = true;
        while !chunks.is_empty() {
            let gradient = self.receive_gradient(now.rt);
            release(chunks.back_mut());
            if !is_first {
                held.clone_from(&gradient);
            }
            is_first = false;
            if let Some(chunk) = chunks.pop_front() {
                sent = Self::backward(now, chunk, gradient);
            }
        }
        drop((received, sent, held));
    }
}

/// A step that runs.
struct Now<'a> {
    rt: &'a Runtime,
    player: &'a dyn Player,
    round: usize,
}

impl Hooks for Pipeline {
    fn program(&self) -> Option<&Program> {
        Some(&self.stage.program)
    }

    fn script(&self) -> Option<Script> {
        let mut each = vec![Line::Enter(Phase::ZeroGrad)];
        let clears_last = self.clears == ZeroGrad::End;
        each.extend((!clears_last).then_some(Line::ZeroGrad));
        each.extend([Line::Enter(Phase::Forward), Line::Schedule]);
        each.extend([Line::Enter(Phase::Optimizer), Line::Step]);
        each.extend(clears_last.then_some(Line::ZeroGrad));
        let setup = vec![Line::Schedule, Line::Optimizer];
        Some(Script { setup, each, rounds: ROUNDS, steady: ROUNDS })
    }

    fn play(&self, rt: &Runtime, player: &dyn Player, round: usize) {
        if round == 0 {
            return self.bring(rt, player);
        }
        self.forget_losses();
        let now = Now { rt, player, round };
        match self.schedule {
            Schedule::GPipe => self.all_forwards_first(&now),
            Schedule::OneForwardOneBackward | Schedule::Interleaved => self.one_by_one(&now),
        }
    }

    fn follows_modules(&self) -> bool {
        false
    }

    fn after_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {
        if self.forgets_losses {
            self.forget_losses();
        }
    }
}

/// Settings that are not simulated next to a pipeline.
const OTHERS: [&str; 8] = [
    "objective",
    "accumulate",
    "optimizer-in-backward",
    "compile",
    "batches",
    "keep-outputs",
    "evaluation",
    "checkpoint-offload",
];

/// # Errors
/// When settings are not those of a pipeline that is simulated.
fn check(program: &Program, config: &Config, stages: u64) -> Result<(), Error> {
    let about = |name: &'static str, message: Sentence| {
        Err(Error::new(ErrorKind::BadConfig, message).about(name))
    };
    if config.schedule == Schedule::Interleaved {
        return about(
            "schedule",
            say!(
                "several parts of a model on each GPU are not simulated yet: choose the schedule 1f1b or gpipe"
            ),
        );
    }
    let micro_batches = config.micro_batches();
    if config.schedule == Schedule::OneForwardOneBackward && micro_batches < stages {
        return about(
            "micro-batches",
            say!(
                "PyTorch's 1F1B has as many micro-batches as stages, or more: {micro_batches} are fewer than {stages}",
                micro_batches,
                stages
            ),
        );
    }
    let batch = infer::open_dims(&program.graph).into_iter().find(|dim| dim.batch);
    let name = batch.map(|batch| batch.name).unwrap_or_default();
    let texts = program.typed.dims.get(&name).copied().unwrap_or(1);
    if micro_batches > MOST || !texts.is_multiple_of(micro_batches) {
        return about(
            "micro-batches",
            say!(
                "a batch of {texts} cannot be divided into {micro_batches} micro-batches of one size: choose a batch \
                 that {micro_batches} divides, and {most} at most",
                texts,
                micro_batches,
                most = MOST
            ),
        );
    }
    let is_other = |name: &&str| {
        SETTINGS.iter().any(|setting| setting.name == *name && setting.is_changed(config))
    };
    let own = [LoopStyle::Inline, LoopStyle::Function];
    let other = OTHERS.into_iter().find(is_other);
    let other = other.or_else(|| (!own.contains(&config.loop_style)).then_some("loop"));
    let other = other.or_else(|| config.precision.scales_gradients().then_some("precision"));
    match other {
        Some(setting) => Err(refused(say!(
            "a pipeline is not simulated with this value of `{setting}`: leave `pp` out of the mesh, or the setting at \
             its default",
            setting
        ))),
        None => Ok(()),
    }
}
