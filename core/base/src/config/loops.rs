//! What the training loops of libraries do by themselves, and how a setting that is left to them is resolved.
//!
//! Sources: transformers 5.24 `trainer.py` (`_run_epoch`, `training_step`, `compute_loss`) and `training_args.py`,
//! accelerate 1.15 `accelerator.py`, Lightning 2.6 `loops/optimization/automatic.py`, torchtune 0.6.1
//! `recipes/lora_finetune_single_device.py`.

use std::num::NonZeroU64;

use super::{Batches, Config, Implementation, LoopStyle, Optimizer, PyTorch, Switch, ZeroGrad};

/// COUNT: batches of one step, at most; from the third on they are alike.
pub const MOST_BATCHES: u64 = 256;

/// When a loop lets go of what the model returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// When its variables are assigned again.
    NextStep,
    /// When the step returns.
    EndOfStep,
    /// When the loss is computed: the function that does so returns nothing else.
    Loss,
}

/// What a loop does if no setting says otherwise.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct Habits {
    /// How long the results of the forward stay.
    pub outputs: Outputs,
    /// Where gradients are cleared.
    zero_grad: ZeroGrad,
    /// When batches come.
    batches: Batches,
    /// Whether it clips.
    clips: bool,
    /// Whether all batches of a step come before its first forward.
    pub brings_all: bool,
    /// Whether labels are a tensor of their own where the model reads the same tokens.
    pub has_labels: bool,
    /// Whether outputs are cast to single precision under autocast (`convert_outputs_to_fp32`).
    pub raises_outputs: bool,
    /// Whether `AdamW` is fused, from PyTorch 2.8 on.
    fuses: bool,
}

/// A loop of one's own over one batch.
const OWN: Habits = Habits {
    outputs: Outputs::NextStep,
    zero_grad: ZeroGrad::Start,
    batches: Batches::Resident,
    clips: false,
    brings_all: false,
    has_labels: false,
    raises_outputs: false,
    fuses: false,
};

/// A library's, over batches with labels.
const LIBRARY: Habits = Habits {
    outputs: Outputs::Loss,
    zero_grad: ZeroGrad::End,
    batches: Batches::Moved,
    has_labels: true,
    ..OWN
};

impl LoopStyle {
    /// What it does by itself.
    pub const fn habits(self) -> Habits {
        match self {
            Self::Inline => OWN,
            Self::Function => Habits { outputs: Outputs::EndOfStep, ..OWN },
            Self::Trainer => Habits {
                clips: true,
                brings_all: true,
                raises_outputs: true,
                fuses: true,
                ..LIBRARY
            },
            Self::Lightning => Habits { zero_grad: ZeroGrad::BeforeBackward, ..LIBRARY },
            Self::Accelerate => {
                Habits { outputs: Outputs::NextStep, raises_outputs: true, ..LIBRARY }
            }
            Self::Torchtune => LIBRARY,
        }
    }
}

impl Config {
    /// Whether gradients are clipped.
    pub fn clips(&self) -> bool {
        self.clip_grad_norm.or(self.loop_style.habits().clips)
    }

    /// Where gradients are cleared: never [`ZeroGrad::Auto`].
    pub fn clears(&self) -> ZeroGrad {
        match self.zero_grad {
            ZeroGrad::Auto => self.loop_style.habits().zero_grad,
            chosen => chosen,
        }
    }

    /// The same with so few batches per step, where they may stand for more: from the second on they do the same, each
    /// on its own and in the same variables.
    pub fn with_fewer_batches(&self, most: u64) -> Option<Self> {
        let brings_all = self.loop_style.habits().brings_all && self.brings() == Batches::Moved;
        let is_alike = self.workload.trains() && !self.is_parallel() && !brings_all;
        let is_more = (most.saturating_add(1)..=MOST_BATCHES).contains(&self.accumulate.get());
        let is_alike = is_alike && self.keep_outputs == NonZeroU64::MIN;
        let accumulate = NonZeroU64::new(most).filter(|_| is_alike && is_more)?;
        Some(Self { accumulate, ..self.clone() })
    }

    /// When batches come to the device: never [`Batches::Auto`].
    pub fn brings(&self) -> Batches {
        match self.batches {
            Batches::Auto => self.loop_style.habits().batches,
            chosen => chosen,
        }
    }

    /// How the optimizer walks over parameters, as far as the loop decides over it.
    pub fn walks(&self) -> Implementation {
        const FUSED: PyTorch = PyTorch::new(2, 8);
        let is_new = self.pytorch >= FUSED && self.library().fuses_adamw();
        let fuses = self.loop_style.habits().fuses && is_new;
        match self.optimizer_impl {
            Implementation::Auto if fuses && self.optimizer == Optimizer::AdamW => {
                Implementation::Fused
            }
            chosen => chosen,
        }
    }
}

impl From<bool> for Switch {
    fn from(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }
}
