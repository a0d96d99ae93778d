//! Losses that never hold all logits: the output head's node gives way to one that makes the loss
//! ([`crate::aten::head_loss`]).

use std::sync::Arc;

use super::LOSS;
use super::loss::{Loss, is_of_next_token};
use crate::config::{Config, LossKernel};
use crate::diagnostic::Diagnostics;
use crate::error::{Error, ErrorKind};
use crate::graph::{Attribute, Node, ValueId};
use crate::ops::HEAD_LOSS;
use crate::recover::{DOMAIN, Program, add_value};
use crate::sentence::Sentence;
use crate::tensor::{DType, TensorType};

/// Operators between the head and what the model returns that work on one number at a time: soft caps and scales.
const POINTWISE: [&str; 6] = ["Cast", "Div", "Identity", "Mul", "Reshape", "Tanh"];

/// Position of the labels among the inputs.
const LABELS: usize = 2;

/// Puts the chosen loss in the place of the output head.
///
/// # Errors
/// Where the model guesses no next token by a head of its own, or the head has adapters.
pub fn fuse(program: &mut Program, config: &Config) -> Result<(), Error> {
    if config.loss_kernel == LossKernel::Torch {
        return Ok(());
    }
    if !is_of_next_token(config.loss, &program.graph, &program.typed) {
        return Err(refusal(
            config,
            &say!("the model has no output head that guesses the next token"),
        ));
    }
    let Some(head) = Head::find(program) else {
        let why = say!("the output head is no linear layer of its own, as where it has adapters");
        return Err(refusal(config, &why));
    };
    let ty = TensorType::new(DType::Float32, []);
    let loss = add_value(&mut program.graph, &mut program.typed, LOSS.to_owned(), ty, None);
    let node = program.nodes.get(head.at).map(|node| Node::clone(node)).unwrap_or_default();
    let mut inputs = vec![node.input(0), node.input(1), Some(head.labels)];
    inputs.extend(node.input(2).map(Some));
    let kernel = Attribute::String(config.loss_kernel.name().to_owned());
    let chunk = i64::try_from(config.loss_chunk.get()).unwrap_or(i64::MAX);
    let attributes = [("kernel".to_owned(), kernel), ("chunk".to_owned(), Attribute::Int(chunk))];
    let fused = Node {
        op: HEAD_LOSS.to_owned(),
        domain: DOMAIN.to_owned(),
        inputs,
        outputs: vec![Some(loss)],
        module: LOSS.to_owned(),
        attributes: attributes.into_iter().collect(),
        ..node
    };
    if let Some(slot) = program.nodes.get_mut(head.at) {
        *slot = Arc::new(fused);
    }
    program
        .nodes
        .retain(|node| !node.outputs.iter().flatten().any(|made| head.behind.contains(made)));
    let graph = Arc::make_mut(&mut program.graph);
    for output in &mut graph.outputs {
        if *output == head.logits {
            *output = loss;
        }
    }
    Ok(())
}

/// Whether a loss without all logits could take the place of the model's.
pub fn is_possible(program: &Program, config: &Config) -> bool {
    is_of_next_token(config.loss, &program.graph, &program.typed) && Head::find(program).is_some()
}

/// The loss of a run: none in inference, the output head's own, or what the configuration and the outputs choose.
///
/// # Errors
/// Those of [`Loss::choose`].
pub fn choose(program: &Program, config: &Config, sink: &Diagnostics) -> Result<Loss, Error> {
    if !config.workload.trains() {
        return Ok(Loss::none(&program.graph, &program.typed, config));
    }
    let fused = program.nodes.iter().rfind(|node| node.op == HEAD_LOSS && node.domain == DOMAIN);
    match fused.and_then(|node| node.input(LABELS)) {
        Some(labels) => Loss::of_head(labels, sink).of_libraries(config, true),
        None => Loss::choose(config.loss, &program.graph, &program.typed, sink)?
            .of_libraries(config, is_of_next_token(config.loss, &program.graph, &program.typed)),
    }
}

fn refusal(config: &Config, why: &Sentence) -> Error {
    let message = say!(
        "the loss kernel {kernel} is for language models that guess the next token: {why}. Choose torch",
        kernel = config.loss_kernel,
        why
    );
    Error::new(ErrorKind::BadConfig, message).about("loss-kernel")
}

/// The output head of a language model.
struct Head {
    /// Position of its node.
    at: usize,
    /// What the model returns.
    logits: ValueId,
    /// What nodes between the head and the logits make.
    behind: Vec<ValueId>,
    /// The tokens that the model reads, which are its labels.
    labels: ValueId,
}

impl Head {
    fn find(program: &Program) -> Option<Self> {
        let ty = |id: ValueId| program.typed.ty(id);
        let is_logits = |id: &&ValueId| ty(**id).is_some_and(|ty| ty.dtype.is_floating());
        let logits = *program.graph.outputs.iter().find(is_logits)?;
        let is_tokens = |id: &&ValueId| ty(**id).is_some_and(|ty| ty.dtype == DType::Int64);
        let labels = *program.graph.inputs.iter().find(is_tokens)?;
        let maker =
            |id: ValueId| program.nodes.iter().position(|node| node.outputs.contains(&Some(id)));
        let (mut behind, mut value) = (Vec::new(), logits);
        loop {
            let at = maker(value)?;
            let node = program.nodes.get(at)?;
            let weight = node.input(1).and_then(|weight| program.graph.value(weight));
            let is_state = weight.is_some_and(|weight| weight.initializer.is_some());
            let is_linear = (node.op == "Linear" && node.domain == DOMAIN) || node.op == "Gemm";
            if is_linear && is_state {
                return Some(Self { at, logits, behind, labels });
            }
            if !POINTWISE.contains(&node.op.as_str()) {
                return None;
            }
            behind.push(value);
            value = node.input(0)?;
        }
    }
}
