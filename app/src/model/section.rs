//! The sections of an answer: one tab each.

/// What a tab shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Section {
    /// Memory over time, and the parts of the peak.
    #[default]
    Timeline,
    /// What sets the peak.
    Peak,
    /// Changes that would lower it.
    Suggestions,
    /// Every GPU.
    Gpus,
    /// Other numbers of GPUs.
    Scale,
    /// Several jobs on one GPU.
    Shared,
    /// What servers keep on each GPU.
    Servers,
    /// How long a step takes.
    Time,
    /// The need over the batch or the length.
    Growth,
    /// Tensors and segments at one moment.
    Allocator,
    /// What other estimators say.
    Others,
    /// Two answers next to each other.
    Compare,
    /// Assumptions and diagnostics.
    Assumptions,
}

impl Section {
    /// All of them, in the order of the tabs.
    pub(crate) const ALL: [Self; 13] = [
        Self::Timeline,
        Self::Peak,
        Self::Suggestions,
        Self::Gpus,
        Self::Scale,
        Self::Shared,
        Self::Servers,
        Self::Time,
        Self::Growth,
        Self::Allocator,
        Self::Others,
        Self::Compare,
        Self::Assumptions,
    ];

    /// Its name in the page's own addresses and style sheets.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Timeline => "timeline",
            Self::Peak => "peak",
            Self::Suggestions => "suggestions",
            Self::Gpus => "gpus",
            Self::Scale => "scale",
            Self::Shared => "shared",
            Self::Servers => "servers",
            Self::Time => "time",
            Self::Growth => "growth",
            Self::Allocator => "allocator",
            Self::Others => "others",
            Self::Compare => "compare",
            Self::Assumptions => "assumptions",
        }
    }

    /// Its name for people, in English.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Timeline => "Timeline",
            Self::Peak => "What sets the peak",
            Self::Suggestions => "Suggestions",
            Self::Gpus => "All GPUs",
            Self::Scale => "Several GPUs",
            Self::Shared => "Shared GPU",
            Self::Servers => "Servers",
            Self::Time => "Time",
            Self::Growth => "Growth",
            Self::Allocator => "Allocator",
            Self::Others => "Other estimators",
            Self::Compare => "Compare",
            Self::Assumptions => "Assumptions",
        }
    }

    /// Whether a recorded run has it: such a run has no model to vary.
    pub(crate) const fn has_recorded(self) -> bool {
        !matches!(
            self,
            Self::Peak
                | Self::Suggestions
                | Self::Scale
                | Self::Shared
                | Self::Servers
                | Self::Time
                | Self::Growth
                | Self::Others
        )
    }

    /// Whether only a model has it that was written of a configuration.
    pub(crate) const fn needs_configuration(self) -> bool {
        matches!(self, Self::Servers)
    }

    /// Whether a printed page has it.
    pub(crate) const fn is_printed(self) -> bool {
        matches!(self, Self::Timeline | Self::Gpus | Self::Assumptions)
    }
}
