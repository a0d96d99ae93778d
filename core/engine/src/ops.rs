//! The operators, one row each, and the first of their rules: the shapes of their results.
//!
//! A family is a file with a `TABLE`; adding an operator is adding a row there. Everything else
//! (lookup, coverage) is derived from the tables.

use crate::graph::Node;
use crate::sentence::{Part, Say, Sentence};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

mod call;
mod context;
mod fold;
mod formula;
mod run;
mod shape_math;

#[cfg(test)]
pub(crate) mod check;

mod activation;
mod adapted;
mod alibi;
mod attention;
mod binary;
mod cache;
mod contrib;
mod conv;
mod create;
mod dropout;
mod experts;
mod features;
mod head_loss;
mod index;
mod layout;
mod liger;
mod loss;
mod masks;
mod matmul;
mod norm;
mod pool;
mod quant;
mod recurrent;
mod reduce;
mod shape;
mod softmax;
mod spelled;
mod tensor_parallel;
mod vision;

pub(crate) use adapted::BLOCKS;
pub use call::{Call, Operand};
pub use context::{Inference, Made};
pub use fold::LIMIT;
pub(crate) use fold::narrow;
pub(crate) use head_loss::NAME as HEAD_LOSS;

/// One operator and its rules.
#[derive(Debug)]
pub struct Operator {
    /// Name, such as `Conv`.
    pub name: &'static str,
    /// Operator set; empty for ONNX's own.
    pub domain: &'static str,
    /// How many inputs it takes; those below the start must be given and have a type.
    pub inputs: RangeInclusive<usize>,
    /// Shape rule: types of the outputs from types of the inputs.
    pub infer: Rule,
    /// Runtime rule: what PyTorch does to memory in its place; `None` where nobody has said, so that
    /// the operator is assumed to keep its inputs.
    pub run: Option<RunRule>,
    /// Whether PyTorch's catalogue confirms the runtime rule, as far as the rule itself does not tell
    /// ([`Call::is_unproven`]): `tests/operators.txt`.
    pub is_proven: bool,
    /// Inputs from this position on are numbers that Python passes, and no tensors of the model;
    /// [`usize::MAX`] where there are none.
    pub numbers_from: usize,
}

/// A runtime rule: calls ATen operators on the inputs, sets outputs.
pub type RunRule = fn(&mut Call<'_>) -> Result<(), OpError>;

/// A row that still lacks its runtime rule, and is no [`Operator`] without one.
struct Shaped {
    name: &'static str,
    domain: &'static str,
    inputs: RangeInclusive<usize>,
    infer: Rule,
}

impl Shaped {
    /// Completes the row with what PyTorch runs.
    const fn runs(self, run: RunRule) -> Operator {
        let Self { name, domain, inputs, infer } = self;
        Operator {
            name,
            domain,
            inputs,
            infer,
            run: Some(run),
            is_proven: true,
            numbers_from: MANY,
        }
    }

    /// Completes the row with the admission that nobody looked at what PyTorch runs.
    const fn unmodelled(self) -> Operator {
        let Self { name, domain, inputs, infer } = self;
        Operator { name, domain, inputs, infer, run: None, is_proven: false, numbers_from: MANY }
    }
}

impl Operator {
    /// The same, with the admission that PyTorch does otherwise for some arguments.
    #[must_use]
    pub const fn unproven(self) -> Self {
        Self { is_proven: false, ..self }
    }

    /// The same, with numbers instead of tensors from this input on.
    const fn numbers_from(self, input: usize) -> Self {
        Self { numbers_from: input, ..self }
    }
}

/// A shape rule: reads inputs and attributes, sets outputs.
pub type Rule = fn(&mut Inference<'_>) -> Result<(), OpError>;

/// Why a shape rule could not say what its operator makes; a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpError(Sentence);

impl OpError {
    /// An error with this text; the caller adds the operator and the shapes it was given.
    pub fn new(message: Sentence) -> Self {
        Self(message)
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OpError {}

impl Say for OpError {
    fn part(&self) -> Part {
        Part::Sentence(self.0.clone())
    }
}

const FAMILIES: &[&[Operator]] = &[
    activation::TABLE,
    alibi::TABLE,
    attention::TABLE,
    binary::TABLE,
    cache::TABLE,
    contrib::TABLE,
    conv::TABLE,
    create::TABLE,
    dropout::TABLE,
    experts::TABLE,
    features::TABLE,
    head_loss::TABLE,
    index::TABLE,
    layout::TABLE,
    liger::TABLE,
    loss::TABLE,
    masks::TABLE,
    adapted::TABLE,
    matmul::TABLE,
    norm::TABLE,
    pool::TABLE,
    quant::TABLE,
    recurrent::TABLE,
    reduce::TABLE,
    shape::TABLE,
    softmax::TABLE,
    spelled::TABLE,
    tensor_parallel::TABLE,
    vision::TABLE,
];

static SORTED: LazyLock<Vec<&'static Operator>> = LazyLock::new(|| {
    let families = FAMILIES.iter().flat_map(|family| family.iter());
    let mut rows: Vec<_> = families.collect();
    rows.sort_by_key(|row| (row.name, row.domain));
    rows
});

/// All operators but those of [`formula`](crate::aten::formula), by name and domain.
pub fn all() -> &'static [&'static Operator] {
    &SORTED
}

/// The operator with this domain and name; `ai.onnx` is the long name of ONNX's own.
pub fn lookup(domain: &str, name: &str) -> Option<&'static Operator> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    if matches!(domain, "aten" | "torchvision") {
        return formula::lookup(name);
    }
    let found =
        SORTED.binary_search_by(|row| row.name.cmp(name).then_with(|| row.domain.cmp(domain)));
    found.ok().and_then(|position| SORTED.get(position).copied())
}

/// For each value, whether it is only ever passed as a number or a list of them: sizes, scales, pads.
pub fn only_numbers<'n>(nodes: impl IntoIterator<Item = &'n Node>, values: usize) -> Vec<bool> {
    let (mut numbers, mut tensors) = (vec![false; values], vec![false; values]);
    for node in nodes {
        let from = lookup(&node.domain, &node.op).map_or(MANY, |operator| operator.numbers_from);
        for (position, id) in node.inputs.iter().enumerate() {
            let flags = if position >= from { &mut numbers } else { &mut tensors };
            if let Some(flag) = id.and_then(|id| flags.get_mut(id.0)) {
                *flag = true;
            }
        }
    }
    numbers.iter().zip(tensors).map(|(number, tensor)| *number && !tensor).collect()
}

/// Any number of further inputs.
const MANY: usize = usize::MAX;

/// A row of ONNX's own operator set.
const fn op(name: &'static str, inputs: RangeInclusive<usize>, infer: Rule) -> Shaped {
    Shaped { name, domain: "", inputs, infer }
}

/// A row for an operator of PyTorch that `recover` finds in graphs whose shapes are known already.
const fn torch(name: &'static str, inputs: RangeInclusive<usize>) -> Shaped {
    Shaped { name, domain: "torch", inputs, infer: shape_math::like_first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_unique_and_found() {
        for pair in all().windows(2) {
            assert!((pair[0].name, pair[0].domain) < (pair[1].name, pair[1].domain), "{pair:?}");
        }
        for row in all().iter().copied().chain(formula::rows()) {
            assert_eq!(lookup(row.domain, row.name).map(|found| found.name), Some(row.name));
            assert!(row.inputs.start() <= row.inputs.end(), "{}", row.name);
        }
        assert!(lookup("ai.onnx", "Conv").is_some());
        assert!(lookup("", "Conv2").is_none());
        assert!(lookup("torch", "Conv").is_none());
    }

    /// Rules meet every mixture of inputs and attributes: they may refuse, and nothing else.
    #[test]
    fn rules_are_total() {
        let mut seed = check::Seed(1);
        for round in 0..400 {
            for row in all().iter().copied().chain(formula::rows()) {
                let sample = check::Sample::draw(&mut seed, row);
                let opset = if round % 2 == 0 { 20 } else { 6 };
                let check::Sample { node, types, elements } = &sample;
                let mut inference = Inference::new(node, opset, types, elements);
                let result = (row.infer)(&mut inference);
                assert!(!result.is_err_and(|error| error.to_string().is_empty()), "{node:?}");
            }
        }
    }
}
