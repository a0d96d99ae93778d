//! Which loss a model is trained with, and the labels it takes.

use crate::order::IntoOrdered as _;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::aten::{loss, preference};
use crate::basis::Reason;
use crate::config::{Config, LossChoice, Objective, Transformers};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::eager::{Runtime, Tensor, kernels};
use crate::error::{Error, ErrorKind};
use crate::graph::{Graph, ValueId};
use crate::infer::Typed;
use crate::recover::Program;
use crate::sentence::Sentence;
use crate::tensor::{DType, Dims, TensorType};

/// A loss, how it reads the output, and where its labels come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is computed; nothing is automatic any more.
    choice: LossChoice,
    scores: Scores,
    /// Labels.
    pub target: Target,
    /// Whether nobody chose it.
    is_assumed: bool,
    /// Whose next-token loss it is.
    library: Transformers,
    /// What the model is trained on.
    objective: Objective,
    /// Whether anything is trained; else only what the model returns is of interest.
    is_computed: bool,
}

/// Where the classes of an output are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scores {
    /// In the second dimension: `[N, C]`, `[N, C, d…]`.
    Second,
    /// In the last of `[B, S, V]`, which is seen as `[B·S, V]`.
    Last,
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

/// Whether a choice means next-token cross-entropy of the first floating-point output.
pub(super) fn is_of_next_token(choice: LossChoice, graph: &Graph, typed: &Typed) -> bool {
    let Some(output) = Output::of(graph, typed) else { return false };
    let choice = stated(choice, graph);
    let chosen = if choice == LossChoice::Auto { output.suggests() } else { choice };
    chosen == LossChoice::CausalLm && output.check(chosen).is_ok()
}

/// The loss that is asked for, else that of the head that is.
fn stated(choice: LossChoice, graph: &Graph) -> LossChoice {
    if choice == LossChoice::Auto { graph.loss.unwrap_or(choice) } else { choice }
}

impl Loss {
    /// The loss that is asked for, or what the first floating-point output suggests.
    ///
    /// # Errors
    /// When the loss that is asked for cannot be computed of the model's output.
    pub fn choose(
        choice: LossChoice,
        graph: &Graph,
        typed: &Typed,
        sink: &Diagnostics,
    ) -> Result<Self, Error> {
        let choice = stated(choice, graph);
        let Some(output) = Output::of(graph, typed) else {
            return match choice {
                LossChoice::Auto => Ok(Self::without_output(sink)),
                _ => Err(refusal(choice, &say!("a floating-point output"), &say!("none"))),
            };
        };
        let is_chosen = choice != LossChoice::Auto;
        let choice = if is_chosen { choice } else { output.suggests() };
        output.check(choice)?;
        let scores = output.scores(choice);
        sink.push(diagnostic(choice, is_chosen, &output.describe(choice, scores)));
        let target = output.target(choice, scores);
        let is_assumed = !is_chosen && choice != LossChoice::Own;
        Ok(Self { scores, target, is_assumed, ..Self::new(choice) })
    }

    /// A loss without labels that somebody chose.
    const fn new(choice: LossChoice) -> Self {
        Self {
            choice,
            scores: Scores::Second,
            target: Target::None,
            is_assumed: false,
            library: Transformers::LATEST,
            objective: Objective::Supervised,
            is_computed: true,
        }
    }

    /// No loss, as in inference: only what the model's class does to its logits.
    pub(super) fn none(graph: &Graph, typed: &Typed, config: &Config) -> Self {
        let is_of_next_token = is_of_next_token(LossChoice::Auto, graph, typed);
        let choice = if is_of_next_token { LossChoice::CausalLm } else { LossChoice::Own };
        Self { library: config.library(), is_computed: false, ..Self::new(choice) }
    }

    /// The loss that the output head makes of these labels: [`super::head_loss`].
    pub(super) fn of_head(labels: ValueId, sink: &Diagnostics) -> Self {
        let message = say!(
            "the loss is next-token cross-entropy, computed with the output head: its logits never exist all at a time"
        );
        sink.push(Diagnostic::new(Severity::Info, "chosen-loss", message));
        Self { target: Target::SameAs(labels), ..Self::new(LossChoice::Own) }
    }

    fn without_output(sink: &Diagnostics) -> Self {
        let message = say!("no output is floating-point, so there is no loss and no backward");
        sink.push(Diagnostic::new(Severity::Warning, "assumed-loss", message));
        Self { is_assumed: true, ..Self::new(LossChoice::Sum) }
    }

    /// The same as the libraries of a configuration compute it.
    ///
    /// # Errors
    /// Where pairs of texts are to be compared by a model that guesses no next token.
    pub fn of_libraries(self, config: &Config, is_of_next_token: bool) -> Result<Self, Error> {
        let objective = config.objective;
        if objective.is_of_pairs() && !is_of_next_token {
            let message = say!(
                "{objective} compares texts by the chance of each next token, which this model does not guess: \
                 choose the objective supervised",
                objective
            );
            return Err(Error::new(ErrorKind::BadConfig, message).about("objective"));
        }
        Ok(Self { library: config.library(), objective, ..self })
    }

    /// Whether it is computed outside the model's forward, of what that returns.
    pub const fn is_apart(&self) -> bool {
        self.objective.is_of_pairs()
    }

    /// What a trainer reports of the outputs once the loss is there.
    pub fn report(&self, rt: &Runtime, outputs: &[Tensor]) {
        let logits =
            outputs.iter().find(|output| output.rank() == 3 && output.dtype().is_floating());
        if let Some(logits) = logits.filter(|_| self.is_apart()) {
            preference::report(rt, logits);
        }
    }

    /// What the model returns: its class may raise logits itself.
    pub fn outputs(&self, rt: &Runtime, mut outputs: Vec<Tensor>) -> Vec<Tensor> {
        let raises = self.choice == LossChoice::CausalLm && self.library.returns_single();
        let is_logits = |output: &&mut Tensor| raises && output.dtype().is_floating();
        if let Some(logits) = outputs.iter_mut().find(is_logits) {
            *logits = kernels::cast(rt, logits, DType::Float32);
        }
        outputs
    }

    /// Why what it takes is not simply proven.
    pub fn reason(&self) -> Option<Reason> {
        self.is_assumed.then_some(Reason::Loss)
    }

    /// Computes the loss; `None` in inference, and for a model without a floating-point output.
    pub fn run(&self, rt: &Runtime, outputs: &[Tensor], target: Option<&Tensor>) -> Option<Tensor> {
        if !self.is_computed {
            return None;
        }
        let causal = if self.objective.is_of_pairs() {
            preference::of_next_tokens
        } else if self.library.shifts_logits() {
            loss::shifted_language_model
        } else {
            loss::causal_language_model
        };
        let output = outputs.iter().find(|output| output.dtype().is_floating())?;
        let compute = match self.choice {
            LossChoice::Own => return Some(output.clone()),
            LossChoice::Auto | LossChoice::Sum => return Some(loss::sum_of(rt, output)),
            LossChoice::CrossEntropy => loss::cross_entropy,
            LossChoice::LabelSmoothing => loss::smoothed_cross_entropy,
            LossChoice::SoftTargets => loss::soft_cross_entropy,
            LossChoice::CausalLm => causal,
            LossChoice::MaskedLm => loss::token_loss,
            LossChoice::Mse => loss::mse_loss,
            LossChoice::BceWithLogits => loss::binary_cross_entropy_with_logits,
        };
        let target = target?;
        Some(match self.scores {
            Scores::Second => compute(rt, output, target),
            Scores::Last => {
                let rows = |tensor| loss::flat(rt, tensor);
                let labels = if target.rank() == output.rank() {
                    rows(target)
                } else {
                    crate::aten::view::reshape(rt, target, &[target.numel()])
                };
                compute(rt, &rows(output), &labels)
            }
        })
    }
}

/// Takes a loss that the model computes itself, and what is made for it alone, out of a program that returns more: its
/// class has labels in training only.
pub fn leave_out(program: &mut Program) {
    let (graph, typed) = (&program.graph, &program.typed);
    let Some(output) = Output::of(graph, typed).filter(Output::is_loss) else { return };
    let rest: Vec<ValueId> = graph.outputs.iter().copied().filter(|id| *id != output.id).collect();
    if rest.is_empty() {
        return;
    }
    let mut needed: BTreeSet<ValueId> = rest.iter().copied().into_set();
    let mut kept: Vec<bool> = Vec::with_capacity(program.nodes.len());
    for node in program.nodes.iter().rev() {
        // What makes nothing was not made for the loss.
        let made = node.outputs.iter().flatten();
        let is_needed = made.clone().next().is_none() || made.clone().any(|id| needed.contains(id));
        if is_needed {
            needed.extend(node.inputs.iter().flatten());
        }
        kept.push(is_needed);
    }
    let mut kept = kept.into_iter().rev();
    program.nodes.retain(|_| kept.next().unwrap_or(true));
    Arc::make_mut(&mut program.graph).outputs = rest;
}

fn diagnostic(choice: LossChoice, is_chosen: bool, what: &Sentence) -> Diagnostic {
    if is_chosen {
        return Diagnostic::new(Severity::Info, "chosen-loss", say!("the loss is {what}", what));
    }
    let (severity, message) = match choice {
        LossChoice::Sum => (
            Severity::Warning,
            say!("the loss is assumed to be {what}, since its shape suggests no loss", what),
        ),
        _ => (Severity::Info, say!("the loss is assumed to be {what}", what)),
    };
    Diagnostic::new(severity, "assumed-loss", message)
}

fn refusal(choice: LossChoice, wanted: &Sentence, found: &Sentence) -> Error {
    let message = say!(
        "the loss {choice} wants {wanted}, but there is {found}: choose another loss, or auto",
        choice,
        wanted,
        found
    );
    Error::new(ErrorKind::BadConfig, message).about("loss")
}

/// The first floating-point output, and what of the graph bears on its loss.
struct Output<'a> {
    graph: &'a Graph,
    typed: &'a Typed,
    id: ValueId,
    ty: &'a TensorType,
}

impl<'a> Output<'a> {
    fn of(graph: &'a Graph, typed: &'a Typed) -> Option<Self> {
        let typed_output = |&id: &ValueId| Some((id, typed.types.get(id.0)?.as_ref()?));
        let mut outputs = graph.outputs.iter().filter_map(typed_output);
        let (id, ty) = outputs.find(|(_, ty)| ty.dtype.is_floating())?;
        Some(Self { graph, typed, id, ty })
    }

    fn input_type(&self, id: ValueId) -> Option<&TensorType> {
        self.typed.types.get(id.0).and_then(Option::as_ref)
    }

    fn reads_tokens(&self) -> bool {
        let is_integer = |ty: &TensorType| ty.dtype == DType::Int64;
        self.graph.inputs.iter().any(|&id| self.input_type(id).is_some_and(is_integer))
    }

    fn suggests(&self) -> LossChoice {
        if self.is_loss() {
            return LossChoice::Own;
        }
        match self.ty.rank() {
            2 => LossChoice::CrossEntropy,
            3 if !self.reads_tokens() => LossChoice::CrossEntropy,
            3 if is_causal(self.graph) && self.count_ids() == 1 => LossChoice::CausalLm,
            3 => LossChoice::MaskedLm,
            4.. if self.is_like_input() => LossChoice::Mse,
            4.. if self.has_convolutions() => LossChoice::CrossEntropy,
            _ => LossChoice::Sum,
        }
    }

    /// A number, or what an operator of losses has made.
    fn is_loss(&self) -> bool {
        let is_number = self.ty.rank() < 2 && self.ty.numel() == 1;
        let made_by_loss = self.graph.nodes.iter().any(|node| {
            matches!(node.op.as_str(), "SoftmaxCrossEntropyLoss" | "NegativeLogLikelihoodLoss")
                && node.output(0) == Some(self.id)
        });
        is_number || made_by_loss && self.ty.rank() == 0
    }

    /// Autoencoders and their like give back what they were given.
    fn is_like_input(&self) -> bool {
        self.graph.inputs.iter().any(|&id| self.input_type(id) == Some(self.ty))
    }

    fn has_convolutions(&self) -> bool {
        self.graph.nodes.iter().any(|node| node.op == "Conv")
    }

    /// COUNT: inputs that are token ids, masks left aside.
    fn count_ids(&self) -> usize {
        let is_ids = |id: &&ValueId| {
            let name = self.graph.value_name(**id);
            self.input_type(**id).is_some_and(|ty| ty.dtype == DType::Int64)
                && !name.contains("mask")
                && name.contains("ids")
        };
        self.graph.inputs.iter().filter(is_ids).count()
    }

    fn check(&self, choice: LossChoice) -> Result<(), Error> {
        let rank = self.ty.rank();
        let (holds, wanted) = match choice {
            LossChoice::CrossEntropy | LossChoice::LabelSmoothing | LossChoice::SoftTargets => {
                (rank >= 2, say!("a score for each class: [N, C] or [N, C, d…]"))
            }
            LossChoice::CausalLm | LossChoice::MaskedLm => (
                rank == 3 && self.reads_tokens(),
                say!("logits [batch, length, vocabulary] of a model that reads token ids"),
            ),
            LossChoice::Own => (self.ty.numel() == 1, say!("an output that is one number")),
            LossChoice::Auto | LossChoice::Mse | LossChoice::BceWithLogits | LossChoice::Sum => {
                (true, Sentence::default())
            }
        };
        let name = self.graph.value_name(self.id);
        let found = || say!("the output `{name}`, {ty}", name, ty = self.ty);
        if holds { Ok(()) } else { Err(refusal(choice, &wanted, &found())) }
    }

    /// Three dimensions may be `[B, S, V]` or `[N, C, d]`: sequences are what most models of three have.
    fn scores(&self, choice: LossChoice) -> Scores {
        let has_classes = matches!(
            choice,
            LossChoice::CrossEntropy | LossChoice::LabelSmoothing | LossChoice::SoftTargets
        );
        if has_classes && self.ty.rank() == 3 { Scores::Last } else { Scores::Second }
    }

    fn target(&self, choice: LossChoice, scores: Scores) -> Target {
        let dims = self.ty.dims.as_slice();
        let labels = |dims: Dims| Target::New(TensorType::new(DType::Int64, dims));
        let without = |gone: usize| -> Dims {
            let kept = dims.iter().enumerate().filter(|(dim, _)| *dim != gone);
            kept.map(|(_, &size)| size).collect()
        };
        match choice {
            LossChoice::Auto | LossChoice::Sum | LossChoice::Own => Target::None,
            LossChoice::SoftTargets | LossChoice::Mse | LossChoice::BceWithLogits => {
                Target::New(self.ty.clone())
            }
            LossChoice::CausalLm | LossChoice::MaskedLm => {
                let wanted = TensorType::new(DType::Int64, without(2));
                // Encoder-decoders are taught the decoder's tokens: the last ids that fit.
                let is_mask = |id: ValueId| self.graph.value_name(id).contains("mask");
                let fits = |&&id: &&ValueId| self.input_type(id) == Some(&wanted) && !is_mask(id);
                match self.graph.inputs.iter().rev().find(fits) {
                    Some(input) => Target::SameAs(*input),
                    None => Target::New(wanted),
                }
            }
            LossChoice::CrossEntropy | LossChoice::LabelSmoothing => match scores {
                Scores::Second => labels(without(1)),
                Scores::Last => labels(without(2)),
            },
        }
    }

    fn describe(&self, choice: LossChoice, scores: Scores) -> Sentence {
        let labels = match (scores, self.ty.rank()) {
            (Scores::Last, _) => say!("label per position, classes in the last dimension"),
            (Scores::Second, 2) => say!("class index per sample"),
            (Scores::Second, _) => {
                say!("class index per position, classes in the second dimension")
            }
        };
        match choice {
            LossChoice::CrossEntropy => say!("cross-entropy with one {labels}", labels),
            LossChoice::LabelSmoothing => say!("smoothed cross-entropy with one {labels}", labels),
            LossChoice::SoftTargets => say!("cross-entropy with a probability for each class"),
            LossChoice::CausalLm => {
                say!("next-token cross-entropy over all positions, labels shifted by one")
            }
            LossChoice::MaskedLm => say!("cross-entropy with one label per position"),
            LossChoice::Mse => say!("the mean squared error"),
            LossChoice::BceWithLogits => say!("binary cross-entropy on logits"),
            LossChoice::Own => say!("the model's own loss, its first output"),
            LossChoice::Auto | LossChoice::Sum => {
                let name = self.graph.value_name(self.id);
                say!("the sum of the first output, `{name}`, {ty}", name, ty = self.ty)
            }
        }
    }
}

/// Whether attention looks back only: its mask compares positions.
fn is_causal(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        matches!(node.op.as_str(), "Trilu" | "LessOrEqual" | "GreaterOrEqual" | "Less" | "Greater")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{Node, Value};

    /// Chooses for a graph of one operator, and compares with the diagnostic or part of the error.
    #[track_caller]
    fn check(op: &str, input: &str, output: &str, choice: LossChoice, expected: &str) {
        let ty = |text: &str| {
            let (dtype, dims) = text.trim_end_matches(']').split_once('[').unwrap();
            let dtype = if dtype == "int64" { DType::Int64 } else { DType::Float32 };
            let dims = dims.split(',').filter(|size| !size.is_empty());
            Some(TensorType::new(dtype, dims.map(|size| size.parse().unwrap()).collect::<Vec<_>>()))
        };
        let value = |name: &str| Value { name: name.to_owned(), ..Value::default() };
        let (read, made) = (ValueId(0), ValueId(1));
        let node = Node {
            op: op.to_owned(),
            inputs: vec![Some(read)],
            outputs: vec![Some(made)],
            ..Node::default()
        };
        let graph = Graph {
            values: vec![value("input_ids"), value("logits")],
            nodes: vec![Arc::new(node)],
            inputs: vec![read],
            outputs: vec![made],
            ..Graph::default()
        };
        let typed = Typed { types: vec![ty(input), ty(output)], ..Typed::default() };
        let sink = Diagnostics::default();
        match (Loss::choose(choice, &graph, &typed, &sink), expected.strip_prefix("error: ")) {
            (Ok(_), None) => assert_eq!(sink.into_sorted()[0].message.to_string(), expected),
            (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{op} {input} {output}: {found:?}"),
        }
    }

    #[test]
    fn outputs_suggest_losses() {
        for (op, input, output, expected) in [
            (
                "Gemm",
                "float32[8,64]",
                "float32[8,10]",
                "cross-entropy with one class index per sample",
            ),
            (
                "Conv",
                "float32[2,3,64,64]",
                "float32[2,21,64,64]",
                "cross-entropy with one class index per position, classes in the second dimension",
            ),
            ("Conv", "float32[2,3,64,64]", "float32[2,3,64,64]", "the mean squared error"),
            (
                "MatMul",
                "int64[2,16]",
                "float32[2,16,99]",
                "cross-entropy with one label per position",
            ),
            (
                "Trilu",
                "int64[2,16]",
                "float32[2,16,99]",
                "next-token cross-entropy over all positions, labels shifted by one",
            ),
            (
                "MatMul",
                "float32[2,16,9]",
                "float32[2,16,99]",
                "cross-entropy with one label per position, classes in the last dimension",
            ),
            (
                "SoftmaxCrossEntropyLoss",
                "float32[8,64]",
                "float32[]",
                "the model's own loss, its first output",
            ),
            (
                "MatMul",
                "float32[2,3,4,5]",
                "float32[2,3,4,6]",
                "the sum of the first output, `logits`, float32[2, 3, 4, 6], since its shape suggests no loss",
            ),
        ] {
            let expected = format!("the loss is assumed to be {expected}");
            check(op, input, output, LossChoice::Auto, &expected);
        }
    }

    #[test]
    fn losses_that_do_not_fit_are_refused() {
        for (output, choice, expected) in [
            ("float32[8,1000]", LossChoice::CausalLm, "error: `logits`, float32[8, 1000]"),
            ("float32[8,7,99]", LossChoice::MaskedLm, "error: of a model that reads token ids"),
            ("float32[8]", LossChoice::CrossEntropy, "error: a score for each class"),
            ("float32[8,10]", LossChoice::Own, "error: an output that is one number"),
            ("int64[8]", LossChoice::Mse, "error: a floating-point output"),
            ("float32[8]", LossChoice::Mse, "the loss is the mean squared error"),
        ] {
            check("Gemm", "float32[8,64]", output, choice, expected);
        }
    }
}
