//! The explanation of a message about memory, or of a training recipe, as the page shows it.

use highwater_core::bytes::Printed;
use highwater_core::config::{Kind, Scope, Setting};
use highwater_core::observed::Message;
use highwater_core::wording::Sentence;
use highwater_core::{Bytes, Config};
use serde::{Deserialize, Serialize};

/// A message or the output of `nvidia-smi`, as the page shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Explained {
    /// What happened.
    pub(crate) title: Sentence,
    /// Its figures; may be empty.
    pub(crate) figures: Sentence,
    /// Why, in a sentence; may be empty.
    pub(crate) why: String,
    /// The card that it may be, and the versions of `PyTorch` that word it so.
    pub(crate) about: Vec<Sentence>,
    /// The memory of the card, from one end to the other; empty where it is unknown.
    pub(crate) parts: Vec<(Held, Bytes)>,
    /// What was asked for and not had.
    pub(crate) tried: Option<Bytes>,
    /// Settings that follow.
    pub(crate) settings: Vec<&'static Setting>,
    /// Name of the device among them; may be empty.
    pub(crate) device: String,
    /// A configuration that has them.
    pub(crate) known: Config,
    /// What helps, the best first.
    pub(crate) advice: Vec<String>,
    /// Assumptions, and facts that the text lacks.
    pub(crate) notes: Vec<Sentence>,
    /// What the allocation is found by in a simulated step.
    pub(crate) sought: Option<Sought>,
    /// Whether it is a recipe that waits for its model.
    pub(crate) is_waiting: bool,
}

/// Who holds a part of a card's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Held {
    /// This process's tensors.
    Allocated,
    /// `PyTorch`'s allocator, in no tensor.
    Unallocated,
    /// CUDA and its libraries in this process.
    Context,
    /// Other processes.
    Others,
    /// Nobody whom the message names.
    Unknown,
    /// Nobody.
    Free,
}

/// Figures of a message by which its allocation is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sought {
    pub(crate) tried: Option<Printed>,
    pub(crate) allocated: Option<Printed>,
    pub(crate) reserved: Option<Printed>,
    pub(crate) free: Option<Printed>,
}

impl Sought {
    /// The message again, as far as a search needs it.
    pub(crate) fn message(&self) -> Message {
        let Self { tried, allocated, reserved, free } = *self;
        Message { tried, allocated, reserved, free, ..Message::default() }
    }
}

impl Explained {
    /// Whether a configuration has one of the settings.
    pub(crate) fn is_applied(&self, setting: &Setting, config: &Config) -> bool {
        setting.is_same(&self.known, config)
            && (setting.scope != Scope::Card || self.is_card(config))
    }

    /// Whether a setting is none of a card that nobody knows: those of such a card are not those of the chosen one, unless
    /// the user puts them there.
    pub(crate) fn is_for_a_known_card(&self, setting: &Setting) -> bool {
        setting.scope != Scope::Card || self.names_card()
    }

    /// Puts a setting into a configuration; a figure of the card brings the card with it.
    pub(crate) fn apply(&self, setting: &Setting, config: &mut Config) {
        if self.names_card() && (setting.scope == Scope::Card || setting.kind == Kind::Device) {
            config.choose_device(&self.known.device);
        }
        setting.copy(&self.known, config);
    }

    /// Takes a setting out again, back to what was there before.
    pub(crate) fn undo(setting: &Setting, before: &Config, config: &mut Config) {
        if setting.kind == Kind::Device {
            config.choose_device(&before.device);
        } else if setting.scope == Scope::Card && before.device != config.device {
            setting.copy(&Config::default(), config);
        } else {
            setting.copy(before, config);
        }
    }

    fn names_card(&self) -> bool {
        self.settings.iter().any(|setting| setting.kind == Kind::Device)
    }

    fn is_card(&self, config: &Config) -> bool {
        !self.names_card() || self.known.device == config.device
    }
}
