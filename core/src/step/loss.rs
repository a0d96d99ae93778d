//! Which loss a model is trained with, and the labels it takes.

use crate::aten;
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::{Runtime, Tensor};
use crate::graph::{Graph, ValueId};
use crate::infer::Typed;
use crate::tensor::{DType, TensorType};

/// A loss and where its labels come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    kind: Kind,
    /// Labels.
    pub target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `F.cross_entropy(logits [N, C], labels [N])`.
    Classes,
    /// Next-token cross-entropy over `[B, S, V]`, labels shifted by one.
    NextToken,
    /// Cross-entropy over `[B, S, V]` at every position.
    Tokens,
    /// The model computes its own loss.
    Own,
    /// The sum of the first output.
    Sum,
}

/// Labels of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// None are needed.
    None,
    /// An input of the model serves as labels too.
    SameAs(ValueId),
    /// A tensor of their own.
    New(TensorType),
}

impl Loss {
    /// Chooses by the shape of the first floating-point output and the type of the first input.
    pub fn choose(graph: &Graph, typed: &Typed) -> Self {
        let ty = |id: &ValueId| typed.types.get(id.0).and_then(Option::as_ref);
        let output = graph.outputs.iter().filter_map(ty).find(|ty| ty.dtype.is_floating());
        let Some(output) = output else { return Self { kind: Kind::Sum, target: Target::None } };
        let tokens = graph.inputs.iter().find(|id| ty(id).is_some_and(|t| t.dtype == DType::Int64));
        let labels = |dims: &[u64]| TensorType::new(DType::Int64, dims);
        match output.dims.as_slice() {
            [] | [1] => Self { kind: Kind::Own, target: Target::None },
            [batch, _] => Self { kind: Kind::Classes, target: Target::New(labels(&[*batch])) },
            [batch, length, _] => {
                let wanted = labels(&[*batch, *length]);
                // Encoder-decoders are taught the decoder's tokens: the last ids that fit.
                let is_mask = |id: &ValueId| graph.value_name(*id).contains("mask");
                let mut inputs = graph.inputs.iter().rev();
                let same = inputs.find(|id| ty(id) == Some(&wanted) && !is_mask(id));
                let target = match (same, tokens) {
                    (Some(input), Some(_)) => Target::SameAs(*input),
                    _ => Target::New(wanted),
                };
                let causal = is_causal(graph) && ids(graph, typed) == 1;
                Self { kind: if causal { Kind::NextToken } else { Kind::Tokens }, target }
            }
            _ => Self { kind: Kind::Sum, target: Target::None },
        }
    }

    /// What the user should know of the choice.
    pub fn diagnostic(&self) -> Diagnostic {
        let what = match self.kind {
            Kind::Classes => "cross-entropy with one class index per sample",
            Kind::NextToken => "next-token cross-entropy over all positions, labels shifted by one",
            Kind::Tokens => "cross-entropy with one label per position",
            Kind::Own => "the model's own loss, its first output",
            Kind::Sum => "the sum of the first output, since its shape suggests no loss",
        };
        let severity = if self.kind == Kind::Sum { Severity::Warning } else { Severity::Info };
        Diagnostic::new(severity, "assumed-loss", format!("the loss is taken to be {what}"))
    }

    /// Computes the loss; `None` for a model without a floating-point output.
    pub fn run(&self, rt: &Runtime, outputs: &[Tensor], target: Option<&Tensor>) -> Option<Tensor> {
        let logits = outputs.iter().find(|output| output.dtype().is_floating())?;
        Some(match (self.kind, target) {
            (Kind::Classes, Some(target)) => aten::loss::cross_entropy(rt, logits, target),
            (Kind::NextToken, Some(target)) => {
                aten::loss::causal_language_model(rt, logits, target)
            }
            (Kind::Tokens, Some(target)) => aten::loss::token_loss(rt, logits, target),
            (Kind::Own, _) => logits.clone(),
            _ => aten::loss::sum_of(rt, logits),
        })
    }
}

/// COUNT: inputs that are token ids, masks left aside.
fn ids(graph: &Graph, typed: &Typed) -> usize {
    let is_ids = |id: &&ValueId| {
        let name = graph.value_name(**id);
        typed.types.get(id.0).and_then(Option::as_ref).is_some_and(|ty| ty.dtype == DType::Int64)
            && !name.contains("mask")
            && name.contains("ids")
    };
    graph.inputs.iter().filter(is_ids).count()
}

/// Whether attention looks back only: its mask compares positions.
fn is_causal(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        matches!(node.op.as_str(), "Trilu" | "LessOrEqual" | "GreaterOrEqual" | "Less" | "Greater")
    })
}
