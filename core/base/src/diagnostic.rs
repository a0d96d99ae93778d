//! Diagnostics: assumptions and failures of an estimate, as structured data. They accumulate and are never
//! dropped.

use crate::order::InOrder as _;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sentence::Sentence;

/// Code of a size that neither the file nor the user gives; its node is the dimension's name.
pub const ASSUMED_DIMENSION: &str = "assumed-dimension";

/// Code of weights in integers, which do not train.
pub const QUANTIZED_WEIGHTS: &str = "quantized-weights";

/// Code of a value in a recipe that could not be read; its node is the setting that it decides, where that is one.
pub const RECIPE_UNREAD: &str = "recipe-unread";

/// How much a [`Diagnostic`] weighs on the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something was recovered or chosen, and the answer rests on it.
    Info,
    /// The answer may differ from what a run would show.
    Warning,
    /// Part of the model could not be estimated; the answer is a lower bound, or uncertain.
    Error,
}

impl Severity {
    /// The name in JSON: `warning`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One assumption, recovery or gap, as the user sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How much it weighs.
    pub severity: Severity,
    /// Stable kebab-case name that scripts may rely on, such as `assumed-dimension`.
    pub code: String,
    /// A sentence: what, where, and what to do.
    pub message: Sentence,
    /// Name of the graph node or the dimension it is about, where there is one.
    pub node: Option<String>,
}

/// Codes after which the truth may lie far above or below the answer, whatever their severity: a branch that data
/// decides, files that contradict themselves, recipes that state what could not be read, shapes that are stand-ins,
/// operators with assumed allocations.
const UNCERTAIN: [&str; 13] = [
    "assumed-branch",
    "data-size",
    "declared-output",
    "declared-value",
    "mixed-types",
    "pytorch-unknown",
    "recipe-not-simulated",
    "recipe-unknown-key",
    RECIPE_UNREAD,
    "shape-unknown",
    "unknown-layer",
    "unknown-operator",
    "unmodelled-operator",
];

impl Diagnostic {
    /// Whether the truth may lie far above or below the answer, so that the answer is no bound.
    pub fn is_uncertain(&self) -> bool {
        UNCERTAIN.contains(&self.code.as_str())
    }

    /// A diagnostic about the whole model.
    pub fn new(severity: Severity, code: &str, message: impl Into<Sentence>) -> Self {
        Self { severity, code: code.to_owned(), message: message.into(), node: None }
    }

    /// The same, about one node.
    #[must_use]
    pub fn at(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }
}

/// Where each stage of an estimate puts its diagnostics, as it meets their causes.
#[derive(Debug, Default)]
pub struct Diagnostics {
    found: RefCell<Vec<Diagnostic>>,
}

impl Diagnostics {
    /// One more.
    pub fn push(&self, diagnostic: Diagnostic) {
        self.found.borrow_mut().push(diagnostic);
    }

    /// More of them: those of a list, or the one that there may be.
    pub fn extend(&self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        diagnostics.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }

    /// All, in the order in which they were found.
    pub fn into_inner(self) -> Vec<Diagnostic> {
        self.found.into_inner()
    }

    /// All, the severest first, otherwise in the order in which they were found.
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        let mut found = self.into_inner();
        found.order_by_key(|diagnostic| Reverse(diagnostic.severity));
        found
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}] {}", self.severity.name(), self.code, self.message)
    }
}
