//! What a training run does to memory: allocations and frees in order, and what each was for.
//!
//! Made by `step`, replayed by `allocator`, read by `report`. Plain data.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::tensor::TensorType;

/// Position of an allocation in [`Trace::storages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StorageId(pub usize);

/// Position of a text in [`Trace::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelId(pub usize);

/// A stream, by a number; small ones, since the allocator keeps free blocks for each.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Stream(pub u32);

impl Stream {
    /// The default one.
    pub const DEFAULT: Self = Self(0);
}

/// One call to the allocator, on the stream of its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The storage is allocated.
    Alloc(StorageId),
    /// Its last holder let go, and no other stream uses it any more.
    Free(StorageId),
}

/// What a storage is for; the categories of PyTorch's memory profiler, and workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// A trained tensor of the model.
    Parameter,
    /// State of the model that is not trained: running statistics, masks.
    Buffer,
    /// What the data loader put on the device.
    Input,
    /// Made in a forward and alive after the operator that made it returned.
    Activation,
    /// Lives within a forward, a backward or an optimizer step.
    Temporary,
    /// Scratch of one kernel or library call.
    Workspace,
    /// A `.grad` of a parameter.
    Gradient,
    /// Moments, momentum buffers.
    OptimizerState,
}

impl Category {
    /// All categories, in the order in which the page stacks them from the bottom.
    pub const ALL: [Self; 8] = [
        Self::Parameter,
        Self::Buffer,
        Self::OptimizerState,
        Self::Input,
        Self::Gradient,
        Self::Activation,
        Self::Temporary,
        Self::Workspace,
    ];

    /// The name in JSON, style sheets and events: `optimizer_state`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::Input => "input",
            Self::Activation => "activation",
            Self::Temporary => "temporary",
            Self::Workspace => "workspace",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer_state",
        }
    }
}

/// Part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The model and the first batch are put on the device, before the first iteration.
    Setup,
    /// Gradients of the iteration before are dropped.
    ZeroGrad,
    /// The model and the loss.
    Forward,
    /// `loss.backward()`.
    Backward,
    /// `optimizer.step()`.
    Optimizer,
}

impl Phase {
    /// The name in JSON and on the page: `backward`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::ZeroGrad => "zero_grad",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
        }
    }
}

/// One allocation: its size and why it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// SIZE: bytes as the tensor asked for them, unrounded.
    pub requested: Bytes,
    /// What it is for.
    pub category: Category,
    /// The stream that it is allocated on.
    #[serde(default)]
    pub stream: Stream,
    /// Operator that made it, such as `aten::convolution`.
    pub operator: LabelId,
    /// Path of the module it belongs to; empty for what belongs to none.
    pub module: LabelId,
    /// Name of a parameter or buffer, or of the tensor in the graph; may be empty.
    pub name: LabelId,
    /// Type of the tensor it was made for; `None` for workspaces.
    pub tensor: Option<TensorType>,
}

/// A phase begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseMark {
    /// Index of its first event in [`Trace::events`].
    pub event: usize,
    /// 0 for set-up, then 1, 2, 3.
    pub iteration: usize,
    /// Which phase.
    pub phase: Phase,
}

/// Allocations and frees of a few training iterations, in program order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trace {
    /// Every call to the allocator.
    pub events: Vec<Event>,
    /// Operator that ran at each event: parallel to `events`.
    pub operators: Vec<LabelId>,
    /// Module that ran at each event: parallel to `events`.
    pub modules: Vec<LabelId>,
    /// Every allocation ever made.
    pub storages: Vec<Storage>,
    /// Texts that events and storages refer to.
    pub labels: Vec<String>,
    /// Where phases begin, in order.
    pub phases: Vec<PhaseMark>,
}

impl Trace {
    /// The text behind an id.
    pub fn label(&self, id: LabelId) -> &str {
        self.labels.get(id.0).map_or("", String::as_str)
    }

    /// What an event allocates or frees.
    pub fn storage(&self, event: Event) -> Option<&Storage> {
        let (Event::Alloc(id) | Event::Free(id)) = event;
        self.storages.get(id.0)
    }

    /// The same run without some of its allocations.
    #[must_use]
    pub fn without(&self, leave_out: impl Fn(&Storage) -> bool) -> Self {
        let gone: Vec<bool> = self.storages.iter().map(leave_out).collect();
        let mut kept = Self {
            storages: self.storages.clone(),
            labels: self.labels.clone(),
            ..Self::default()
        };
        let mut marks = self.phases.iter().peekable();
        for (index, event) in self.events.iter().enumerate() {
            while let Some(mark) = marks.next_if(|mark| mark.event <= index) {
                kept.phases.push(PhaseMark { event: kept.events.len(), ..*mark });
            }
            let (Event::Alloc(id) | Event::Free(id)) = event;
            if gone.get(id.0) == Some(&false) {
                kept.events.push(*event);
                kept.operators.extend(self.operators.get(index));
                kept.modules.extend(self.modules.get(index));
            }
        }
        for mark in marks {
            kept.phases.push(PhaseMark { event: kept.events.len(), ..*mark });
        }
        kept
    }

    /// Whether a storage is scratch of a convolution, which depends on cuDNN's version.
    pub fn is_convolution_workspace(&self, storage: &Storage) -> bool {
        storage.category == Category::Workspace
            && self.label(storage.operator).starts_with("aten::convolution")
    }

    /// Phase in which an event happens.
    pub fn phase_at(&self, event: usize) -> Option<PhaseMark> {
        let after = self.phases.partition_point(|mark| mark.event <= event);
        self.phases.get(after.checked_sub(1)?).copied()
    }
}
