//! The basis of a part of an answer: a rule that PyTorch confirmed, restored structure, or an assumption.

use std::fmt;

use crate::sentence::Sentence;
use serde::{Deserialize, Serialize};

/// How certain a part of an answer is, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The file states it, and the rule gives what PyTorch gives.
    Proven,
    /// The exporter changed it, and it follows from what is left.
    Recovered,
    /// The file does not tell, and a convention decides.
    Assumed,
    /// The rule does not give what PyTorch gives for all arguments.
    Unproven,
}

impl Basis {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Proven, Self::Recovered, Self::Assumed, Self::Unproven];

    /// The name in JSON, and what people call it: `recovered`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Recovered => "recovered",
            Self::Assumed => "assumed",
            Self::Unproven => "unproven",
        }
    }
}

/// Declares [`Reason`] from a row for each: the variant, how certain it is, words.
macro_rules! reasons {
    ($($variant:ident, $basis:ident, $what:literal;)+) => {
        /// Why something is not simply proven.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason {
            $(#[doc = concat!("Of ", $what, ".")] $variant,)+
            /// Of the operator of this name.
            Operator(String),
        }

        impl Reason {
            /// Those that do not name an operator.
            pub const FIXED: &[Self] = &[$(Self::$variant),+];

            /// How certain it is.
            pub const fn basis(&self) -> Basis {
                match self {
                    $(Self::$variant => Basis::$basis,)+
                    Self::Operator(_) => Basis::Unproven,
                }
            }

            /// What was recovered or assumed, as people say it: no full stop.
            pub fn what(&self) -> Sentence {
                match self {
                    $(Self::$variant => Sentence::of($what),)+
                    Self::Operator(name) => say!("what `{name}` keeps and allocates", name),
                }
            }
        }
    };
}

reasons! {
    FoldedNormalisation, Recovered, "normalisation that the exporter folded into weights";
    SharedWeights, Recovered, "weights that layers share";
    TransposedWeights, Recovered, "weights that the exporter transposed";
    FoldedParameters, Recovered, "vectors of modules that the exporter stored without names";
    MergedMasks, Recovered, "masks that the exporter merged";
    TakenApart, Recovered, "operators that the exporter decomposed";
    MergedOperators, Recovered, "operators of several modules that the exporter wrote once";
    RemovedDropout, Assumed, "dropout where such models usually have it";
    Overwriting, Assumed, "activations assumed to overwrite their input";
    OrderOfPrint, Assumed, "modules assumed to run in the printed order";
    GuessedWorkspace, Assumed, "guessed workspaces of rare kinds of convolution";
    ControlFlow, Assumed, "branches and loops that depend on data";
    Loss, Assumed, "the loss that the output suggests";
    Unmodelled, Assumed, "operators that are not modelled";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.basis().name(), self.what())
    }
}
