//! The memory of a training run: allocations and frees in order, with the purpose of each.
//!
//! Made by `step`, replayed by `allocator`, read by `report`. Plain data.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::basis::Reason;
use crate::bytes::Bytes;
use crate::tensor::TensorType;

/// Declares positions in lists of a [`Trace`]. Four bytes each, since a large run has millions.
macro_rules! positions {
    ($($(#[$about:meta])* $name:ident;)+) => {
        $(
            $(#[$about])*
            #[derive(
                Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            )]
            pub struct $name(u32);

            impl $name {
                /// The position; the last there can be for one that is too far.
                pub fn new(index: usize) -> Self {
                    Self(u32::try_from(index).unwrap_or(u32::MAX))
                }

                /// The position as an index.
                pub fn index(self) -> usize {
                    usize::try_from(self.0).unwrap_or(usize::MAX)
                }
            }
        )+
    };
}

positions! {
    /// Position of an allocation in [`Trace::storages`].
    StorageId;
    /// Position of a text in [`Trace::labels`]; the default is the empty one.
    LabelId;
    /// Position of a type in [`Trace::types`].
    TypeId;
    /// Position of a reason in [`Trace::reasons`].
    ReasonId;
}

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
    /// Its last reference was dropped, and no other stream uses it any more.
    Free(StorageId),
}

impl Event {
    /// What is allocated or freed.
    pub const fn storage(self) -> StorageId {
        match self {
            Self::Alloc(id) | Self::Free(id) => id,
        }
    }
}

/// Declares [`Category`] and [`ByCategory`] from one row for each: the variant, its key, its place in
/// stacks counted from the bottom, the name of its colour, and words.
macro_rules! categories {
    ($($variant:ident, $key:ident, $place:literal, $color:literal, $label:literal, $about:literal;)+) => {
        /// What a storage is for; the categories of PyTorch's memory profiler, and workspace.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Category {
            $(#[doc = concat!($about, ".")] $variant,)+
        }

        impl Category {
            /// COUNT: categories.
            pub const COUNT: usize = [$(Self::$variant),+].len();

            /// All categories, in the order in which they are stacked from the bottom.
            pub const ALL: [Self; Self::COUNT] = {
                let mut all = [Self::Parameter; Self::COUNT];
                $(all[$place] = Self::$variant;)+
                all
            };

            /// The key in JSON and events: `optimizer_state`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($key)),+ }
            }

            /// The class and the colour of style sheets: `category-optimizer-state`.
            pub const fn color(self) -> &'static str {
                match self { $(Self::$variant => concat!("category-", $color)),+ }
            }

            /// What people call them: `activations`.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }

            /// What belongs to it: no full stop.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about),+ }
            }
        }

        /// Bytes in each [`Category`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct ByCategory {
            $(#[doc = concat!("[`Category::", stringify!($variant), "`].")] pub $key: Bytes,)+
        }

        impl ByCategory {
            /// Bytes of one category.
            pub const fn get(&self, category: Category) -> Bytes {
                match category { $(Category::$variant => self.$key),+ }
            }

            /// Bytes of one category, to change.
            pub const fn get_mut(&mut self, category: Category) -> &mut Bytes {
                match category { $(Category::$variant => &mut self.$key),+ }
            }
        }
    };
}

// In the order in which JSON has them.
categories! {
    Parameter, parameter, 0, "parameter", "parameters", "Trained tensors of the model";
    Buffer, buffer, 1, "buffer", "buffers", "Running statistics, masks and other untrained state";
    Input, input, 4, "input", "inputs", "What the data loader put on the device";
    Activation, activation, 7, "activation", "activations",
        "Results of the forward pass, kept for the backward pass";
    Temporary, temporary, 8, "temporary", "temporaries",
        "Tensors that live only within a forward, a backward or a step";
    Workspace, workspace, 9, "workspace", "workspace", "Scratch memory of single kernels";
    Gradient, gradient, 5, "gradient", "gradients", "The .grad of each parameter";
    OptimizerState, optimizer_state, 2, "optimizer-state", "optimizer state",
        "Moments and momentum buffers";
    Cache, cache, 3, "cache", "KV cache", "Keys and values of the tokens so far";
    Communication, communication, 6, "communication", "communication",
        "Gathered weights, buckets of gradients and other buffers of collectives";
}

impl ByCategory {
    /// Takes note of an allocation or a free.
    pub fn apply(&mut self, trace: &Trace, event: Event) {
        let Some(storage) = trace.storage(event) else { return };
        let bytes = self.get_mut(storage.category);
        match event {
            Event::Alloc(_) => *bytes += storage.requested,
            Event::Free(_) => *bytes -= storage.requested,
        }
    }

    /// Bytes in all.
    pub fn total(&self) -> Bytes {
        Category::ALL.iter().map(|&category| self.get(category)).sum()
    }

    /// Categories that have any, the largest first.
    pub fn largest_first(&self) -> Vec<(Category, Bytes)> {
        let all = Category::ALL.map(|category| (category, self.get(category)));
        let mut present: Vec<_> =
            all.into_iter().filter(|(_, bytes)| *bytes > Bytes::ZERO).collect();
        present.order_by_key(|(_, bytes)| Reverse(*bytes));
        present
    }
}

/// Declares [`Phase`] from one row for each: the variant, its key, its heading, a short name, the class of style
/// sheets that colours it, and what runs in it.
macro_rules! phases {
    ($($variant:ident, $key:ident, $heading:literal, $short:literal, $class:literal, $about:literal;)+) => {
        /// Part of an iteration.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Phase {
            $(#[doc = concat!($about, ".")] $variant,)+
        }

        impl Phase {
            /// COUNT: phases.
            pub const COUNT: usize = [$(Self::$variant),+].len();

            /// All phases, in the order of a run.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant),+];

            /// The key in JSON and events: `zero_grad`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($key)),+ }
            }

            /// The name as a heading: `zero grad`.
            pub const fn heading(self) -> &'static str {
                match self { $(Self::$variant => $heading),+ }
            }

            /// A name for little room: `fwd`; empty for a phase that is too short to be named.
            pub const fn short(self) -> &'static str {
                match self { $(Self::$variant => $short),+ }
            }

            /// The class of style sheets: `timeline-phase-forward`.
            pub const fn class(self) -> &'static str {
                match self { $(Self::$variant => concat!("timeline-phase-", $class)),+ }
            }
        }
    };
}

// In the order of a run.
phases! {
    Setup, setup, "set-up", "set", "other",
        "The model and the first batch are put on the device, before the first iteration";
    ZeroGrad, zero_grad, "zero grad", "", "other",
        "Gradients of the iteration before are dropped";
    Forward, forward, "forward", "fwd", "forward", "The model and the loss";
    Prefill, prefill, "prefill", "pre", "forward", "The model reads the prompts";
    Decode, decode, "decode", "dec", "backward", "The model writes one token after another";
    Backward, backward, "backward", "bwd", "backward", "`loss.backward()`";
    Optimizer, optimizer, "optimizer step", "opt", "optimizer", "`optimizer.step()`";
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
    pub tensor: Option<TypeId>,
    /// Why its size or its life is not simply proven.
    #[serde(default)]
    pub reason: Option<ReasonId>,
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
    /// Types of the tensors that storages were made for; one may be there more than once.
    pub types: Vec<TensorType>,
    /// What storages rest on that is not simply proven.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// Where phases begin, in order.
    pub phases: Vec<PhaseMark>,
    /// What is alive only because a variable of Python is assumed to hold it, and from which event on.
    #[serde(default)]
    pub held: Vec<(StorageId, usize)>,
}

impl Trace {
    /// The text behind an id.
    pub fn label(&self, id: LabelId) -> &str {
        self.labels.get(id.index()).map_or("", String::as_str)
    }

    /// Type of the tensor that a storage was made for; `None` for workspaces.
    pub fn tensor(&self, storage: &Storage) -> Option<&TensorType> {
        self.types.get(storage.tensor?.index())
    }

    /// What an event allocates or frees.
    pub fn storage(&self, event: Event) -> Option<&Storage> {
        self.storages.get(event.storage().index())
    }

    /// SIZE: what only assumed variables of Python keep alive after an event.
    pub fn held_at(&self, event: usize) -> Bytes {
        let before = self.held.iter().filter(|(_, from)| *from <= event);
        let mut held: BTreeSet<StorageId> = before.map(|(id, _)| *id).into_set();
        if held.is_empty() {
            return Bytes::ZERO;
        }
        for event in self.events.iter().take(event.saturating_add(1)) {
            if let Event::Free(id) = event {
                held.remove(id);
            }
        }
        let sizes = held.iter().filter_map(|id| self.storages.get(id.index()));
        sizes.map(|storage| storage.requested).sum()
    }

    /// The same run without some of its allocations.
    #[must_use]
    pub fn without(&self, leave_out: impl Fn(&Storage) -> bool) -> Self {
        self.part(self.events.len(), |_, storage| !leave_out(storage))
    }

    /// The run without scratch of convolutions; `None` where there is none.
    pub fn without_workspaces(&self) -> Option<Self> {
        let is_workspace = |storage: &Storage| self.is_convolution_workspace(storage);
        self.storages.iter().any(is_workspace).then(|| self.without(is_workspace))
    }

    /// The run up to an event, of those storages that count, by their id.
    #[must_use]
    pub fn part(&self, events: usize, counts: impl Fn(StorageId, &Storage) -> bool) -> Self {
        let storages = self.storages.iter().enumerate();
        let counts: Vec<bool> = storages.map(|(at, one)| counts(StorageId::new(at), one)).collect();
        let mut kept = Self {
            storages: self.storages.clone(),
            labels: self.labels.clone(),
            types: self.types.clone(),
            reasons: self.reasons.clone(),
            ..Self::default()
        };
        let mut marks = self.phases.iter().peekable();
        for (index, event) in self.events.iter().enumerate().take(events) {
            while let Some(mark) = marks.next_if(|mark| mark.event <= index) {
                kept.phases.push(PhaseMark { event: kept.events.len(), ..*mark });
            }
            if counts.get(event.storage().index()) == Some(&true) {
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
