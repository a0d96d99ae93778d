//! Which head a model has, and what else of its configuration may be chosen.

use super::choice::choice;
use super::{Config, LossChoice};

choice! {
    /// What a model of a configuration is trained for: the end of its class's name.
    pub enum Task ("head") {
        /// As the configuration has it.
        Auto = "auto", "automatic", "the one of the configuration",
        /// `ForCausalLM`, `LMHeadModel`.
        CausalLm = "causal-lm", "CausalLM", "the next token",
        /// `ForMaskedLM`.
        MaskedLm = "masked-lm", "MaskedLM", "tokens that are masked",
        /// `ForConditionalGeneration`.
        ConditionalGeneration = "conditional-generation", "ConditionalGeneration", "a text from another one",
        /// `ForSequenceClassification`.
        SequenceClassification = "sequence-classification", "SequenceClassification", "a class for each text",
        /// `ForTokenClassification`.
        TokenClassification = "token-classification", "TokenClassification", "a class for each token",
        /// `ForQuestionAnswering`.
        QuestionAnswering = "question-answering", "QuestionAnswering", "where an answer begins and ends",
        /// `ForImageClassification`.
        ImageClassification = "image-classification", "ImageClassification", "a class for each image",
        /// `ForSemanticSegmentation`.
        SemanticSegmentation = "semantic-segmentation", "SemanticSegmentation", "a class for each pixel",
        /// The model without a head.
        Bare = "bare", "Model", "no head: the hidden states",
    }
}

impl Task {
    /// The end of the class's name, without `For`.
    pub const fn class_end(self) -> &'static str {
        self.label()
    }

    /// The task that a class's name ends with.
    pub fn of_class_end(end: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|task| *task != Self::Auto && task.class_end() == end)
    }

    /// What a loss is computed of.
    pub const fn loss(self) -> LossChoice {
        match self {
            Self::CausalLm => LossChoice::CausalLm,
            Self::MaskedLm | Self::ConditionalGeneration => LossChoice::MaskedLm,
            Self::SequenceClassification
            | Self::TokenClassification
            | Self::ImageClassification => LossChoice::CrossEntropy,
            Self::QuestionAnswering => LossChoice::Own,
            Self::Auto | Self::SemanticSegmentation | Self::Bare => LossChoice::Auto,
        }
    }
}

/// Sizes of a configuration that the user chooses instead of it; `None` for its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// SIZE: pixels from top to bottom.
    pub height: Option<u64>,
    /// SIZE: pixels from left to right.
    pub width: Option<u64>,
    /// COUNT: classes of the head.
    pub classes: Option<u64>,
    /// COUNT: tokens of the decoder.
    pub target: Option<u64>,
}

impl Sizes {
    /// Name of the height among dimensions.
    pub const HEIGHT: &str = "height";
    /// Name of the width among dimensions.
    pub const WIDTH: &str = "width";
    /// Name of the number of classes among dimensions.
    pub const CLASSES: &str = "classes";
    /// Name of the dimension of tokens that were read before, whose keys and values are kept.
    pub const PAST: &str = "past";
    /// The same in layers that keep a window.
    pub const PAST_OF_WINDOW: &str = "past_of_window";
    /// Name of the decoder's length among dimensions.
    pub const TARGET: &str = "target";

    /// Those that are among a configuration's dimensions.
    pub(super) fn of(config: &Config) -> Self {
        let size = |name| config.dims.get(name).copied();
        Self {
            height: size(Self::HEIGHT),
            width: size(Self::WIDTH),
            classes: size(Self::CLASSES),
            target: size(Self::TARGET),
        }
    }
}
