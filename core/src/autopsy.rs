//! What sets the peak: which tensors are alive, why, and what the next peak would be.
//!
//! [`Autopsy::of`] reads only a [`Report`]. The sentences are in [`wording`](crate::wording).

use crate::order::InOrder as _;
use std::cmp::Reverse;

use crate::bytes::Bytes;
use crate::report::{LiveTensor, Report, Timeline};
use crate::tensor::TensorType;
use crate::trace::{Category, Phase, PhaseMark};

/// COUNT: groups at most; the rest is summed.
const GROUPS_MAX: usize = 5;
/// Smallest share of the peak that makes a group: one in this number.
const GROUP_SHARE: u64 = 50;
/// Smallest dip between two peaks, as a share of the peak: one in this number.
const DIP_SHARE: u64 = 20;
/// Smallest share of the peak at which the logits are named: one in this number.
const SCORES_SHARE: u64 = 4;

/// What sets a run's peak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autopsy {
    /// Requested bytes alive at the peak.
    pub total: Bytes,
    /// Tensors alike, those with the most bytes first.
    pub groups: Vec<Group>,
    /// Bytes of what is in no group.
    pub others: Bytes,
    /// The scores that the loss is made of, where they are a large part.
    pub scores: Option<Scores>,
    /// The highest moment that is not on this peak's hill; `None` where the run has one hill only.
    pub next: Option<NextPeak>,
}

/// Tensors that are alive at the peak for the same reason; activations and temporaries of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Why they are alive.
    pub why: Why,
    /// COUNT: tensors.
    pub count: usize,
    /// Requested bytes of all together.
    pub bytes: Bytes,
    /// One of them: the oldest.
    pub example: LiveTensor,
}

/// Why a tensor is still alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A parameter: it is the model.
    Parameter,
    /// State of the model that is not trained, or a moving average.
    Buffer,
    /// The batch.
    Input,
    /// The optimizer keeps it from step to step.
    OptimizerState,
    /// Keys and values.
    Cache,
    /// A buffer of collectives between ranks.
    Communication,
    /// A gradient: until `zero_grad`.
    Gradient,
    /// Saved for backward, not used yet.
    Saved,
    /// A variable of the loop still references it; backward does not need it.
    Named,
    /// The forward pass is using it.
    InForward,
    /// An intermediate gradient of the backward pass.
    InBackward,
    /// The optimizer's step is using it.
    InStep,
    /// Workspace of the running kernel.
    Workspace,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Parameter,
        Self::Buffer,
        Self::Input,
        Self::OptimizerState,
        Self::Cache,
        Self::Communication,
        Self::Gradient,
        Self::Saved,
        Self::Named,
        Self::InForward,
        Self::InBackward,
        Self::InStep,
        Self::Workspace,
    ];

    /// The reason in words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Parameter => "the model itself",
            Self::Buffer => "state of the model that is not trained",
            Self::Input => "moved to the GPU by the data loader",
            Self::OptimizerState => "kept by the optimizer between steps",
            Self::Cache => "kept for the tokens to come",
            Self::Communication => "gathered from other ranks, or on its way to them",
            Self::Gradient => "kept until zero_grad",
            Self::Saved => "saved for backward, not used yet",
            Self::Named => "still referenced by a variable (output, loss)",
            Self::InForward => "in use by the forward pass",
            Self::InBackward => "intermediate gradients of the backward pass",
            Self::InStep => "in use by the optimizer",
            Self::Workspace => "needed while one kernel runs",
        }
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::Input => "input",
            Self::OptimizerState => "optimizer_state",
            Self::Cache => "cache",
            Self::Communication => "communication",
            Self::Gradient => "gradient",
            Self::Saved => "saved_for_backward",
            Self::Named => "held_by_name",
            Self::InForward => "in_forward",
            Self::InBackward => "in_backward",
            Self::InStep => "in_step",
            Self::Workspace => "workspace",
        }
    }

    /// Whether tensors of all shapes make one group.
    const fn is_one_group(self) -> bool {
        matches!(
            self,
            Self::Parameter
                | Self::Buffer
                | Self::Input
                | Self::OptimizerState
                | Self::Gradient
                | Self::InStep
                | Self::Workspace
        )
    }
}

/// Scores of classes, and all that the loss makes of the same size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scores {
    /// COUNT: tensors of that size.
    pub count: usize,
    /// Requested bytes of all together.
    pub bytes: Bytes,
    /// COUNT: classes: the size of the vocabulary.
    pub classes: u64,
    /// The largest of them.
    pub tensor: TensorType,
}

/// The moment that would be the peak without this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextPeak {
    /// Allocated bytes.
    pub allocated: Bytes,
    /// Iteration, from 1.
    pub iteration: usize,
    /// Phase.
    pub phase: Phase,
    /// Operator that ran.
    pub operator: String,
    /// Module that ran; may be empty.
    pub module: String,
}

impl Autopsy {
    /// Reads a report.
    pub fn of(report: &Report) -> Self {
        let total = report.at_peak.total();
        let marks = &report.timeline.phases;
        let mut groups: Vec<Group> = Vec::new();
        // Largest first, so that what is small finds its group at the front.
        for tensor in &report.live_at_peak {
            let why = why(tensor, marks, report.peak.phase);
            match groups.iter_mut().find(|group| group.takes(why, tensor)) {
                Some(group) => group.add(tensor),
                None => groups.push(Group {
                    why,
                    count: 1,
                    bytes: tensor.bytes,
                    example: tensor.clone(),
                }),
            }
        }
        groups.order_by_key(|group| Reverse(group.bytes));
        groups.truncate(GROUPS_MAX);
        groups.retain(|group| group.bytes.times(GROUP_SHARE) >= total);
        let told: Bytes = groups.iter().map(|group| group.bytes).sum();
        Self {
            total,
            groups,
            others: total - told,
            scores: Scores::of(report).filter(|s| s.bytes.times(SCORES_SHARE) >= total),
            next: NextPeak::of(report),
        }
    }
}

impl Group {
    fn takes(&self, why: Why, tensor: &LiveTensor) -> bool {
        let dtype = |tensor: &LiveTensor| tensor.tensor.as_ref().map(|ty| ty.dtype);
        let alike = || self.example.bytes == tensor.bytes && dtype(&self.example) == dtype(tensor);
        self.why == why && (why.is_one_group() || alike())
    }

    fn add(&mut self, tensor: &LiveTensor) {
        self.count = self.count.saturating_add(1);
        self.bytes += tensor.bytes;
        if tensor.bytes == self.example.bytes && tensor.born < self.example.born {
            self.example = tensor.clone();
        }
    }
}

/// Position among the marks of the phase in which an event happens.
fn phase_of(marks: &[PhaseMark], event: usize) -> usize {
    marks.partition_point(|mark| mark.event <= event)
}

fn why(tensor: &LiveTensor, marks: &[PhaseMark], running: Phase) -> Why {
    match tensor.category {
        Category::Parameter => Why::Parameter,
        Category::Buffer => Why::Buffer,
        Category::Input => Why::Input,
        Category::OptimizerState => Why::OptimizerState,
        Category::Cache => Why::Cache,
        Category::Communication => Why::Communication,
        Category::Gradient => Why::Gradient,
        Category::Workspace => Why::Workspace,
        Category::Activation => {
            let (born, dies) = (tensor.born, tensor.dies);
            let end = dies.map(|dies| phase_of(marks, dies));
            let begin = phase_of(marks, born);
            let ends_in = end.and_then(|end| marks.get(end.checked_sub(1)?));
            // Backward frees what it has used; a variable references what outlives it.
            let is_saved =
                end == Some(begin) || ends_in.is_some_and(|mark| mark.phase == Phase::Backward);
            if is_saved { Why::Saved } else { Why::Named }
        }
        Category::Temporary => match running {
            Phase::Optimizer => Why::InStep,
            Phase::Backward => Why::InBackward,
            Phase::Setup | Phase::ZeroGrad | Phase::Forward | Phase::Prefill | Phase::Decode => {
                Why::InForward
            }
        },
    }
}

impl Scores {
    /// The largest tensor of the loss has the number of classes in its last dimension. Other tensors of
    /// that size with the same last dimension are logits or made of them. A squared error has no classes.
    fn of(report: &Report) -> Option<Self> {
        let passing = |tensor: &&LiveTensor| {
            matches!(tensor.category, Category::Activation | Category::Temporary)
        };
        let live = || report.live_at_peak.iter().filter(passing);
        let largest = live().find(|tensor| tensor.module == "loss")?;
        if largest.operator == "aten::mse_loss" {
            return None;
        }
        let tensor = largest.tensor.clone()?;
        let classes = tensor.dims.last().copied().filter(|_| tensor.rank() > 1)?;
        let is_score = |live: &&LiveTensor| {
            live.tensor.as_ref().is_some_and(|ty| {
                ty.dims.last() == Some(&classes) && ty.numel().saturating_mul(2) > tensor.numel()
            })
        };
        let scores = || live().filter(is_score);
        let bytes = scores().map(|tensor| tensor.bytes).sum();
        Some(Self { count: scores().count(), bytes, classes, tensor })
    }
}

impl NextPeak {
    /// In each iteration the hill of the peak is left aside: whatever is on it is reached without going
    /// down by more than a little. What is highest beyond, over all iterations, comes next.
    fn of(report: &Report) -> Option<Self> {
        let data = &report.timeline;
        let dip = Bytes(report.peak.allocated.0.div_euclid(DIP_SHARE));
        let mut best: Option<(Bytes, usize)> = None;
        for iteration in 1..=report.iterations.len() {
            let (begin, end) = samples(data, iteration);
            let allocated = |at: usize| data.allocated.get(at).copied().unwrap_or_default();
            let Some(top) = hill(report, begin, end) else { continue };
            let rightwards = (top..end).collect::<Vec<_>>();
            let leftwards = (begin..=top).rev().collect::<Vec<_>>();
            for way in [rightwards, leftwards] {
                let mut lowest = allocated(top);
                for at in way {
                    let here = allocated(at);
                    lowest = lowest.min(here);
                    // A slope that belongs to the iteration before or behind is no peak.
                    let is_top = allocated(at.saturating_sub(1)) <= here
                        && allocated(at.saturating_add(1)) <= here;
                    let is_most = best.is_none_or(|(most, _)| here > most);
                    if is_top && is_most && here >= lowest + dip {
                        best = Some((here, at));
                    }
                }
            }
        }
        let (allocated, at) = best?;
        let event = *data.event.get(at)?;
        let mark = data.phases.get(phase_of(&data.phases, event).checked_sub(1)?)?;
        let label = |places: &[usize]| {
            places.get(at).and_then(|&place| data.labels.get(place)).cloned().unwrap_or_default()
        };
        Some(Self {
            allocated,
            iteration: mark.iteration,
            phase: mark.phase,
            operator: label(&data.operator),
            module: label(&data.module),
        })
    }
}

/// The samples of one iteration.
fn samples(data: &Timeline, iteration: usize) -> (usize, usize) {
    let starts = |iteration: usize| {
        let mark = data.phases.iter().find(|mark| mark.iteration >= iteration);
        mark.map_or(data.event.len(), |mark| {
            data.event.partition_point(|&event| event < mark.event)
        })
    };
    (starts(iteration), starts(iteration.saturating_add(1)))
}

/// The highest sample of an iteration that is where the peak is: in its phase, and in its module if there
/// is one there.
fn hill(report: &Report, begin: usize, end: usize) -> Option<usize> {
    let data = &report.timeline;
    let phase = |at: usize| {
        let event = *data.event.get(at)?;
        Some(data.phases.get(phase_of(&data.phases, event).checked_sub(1)?)?.phase)
    };
    let module = |at: usize| data.labels.get(*data.module.get(at)?).map(String::as_str);
    let in_phase = |at: &usize| phase(*at) == Some(report.peak.phase);
    let in_module = |at: &usize| in_phase(at) && module(*at) == Some(&report.peak.module);
    let highest = |at: &usize| (data.allocated.get(*at).copied(), Reverse(*at));
    let by_module = (begin..end).filter(in_module).max_by_key(highest);
    by_module.or_else(|| (begin..end).filter(in_phase).max_by_key(highest))
}
