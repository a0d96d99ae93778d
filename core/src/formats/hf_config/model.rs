//! A model under construction: its program, its inputs, and the head that its class puts on top.

use std::collections::BTreeMap;

use super::parts::Implementation;
use super::program::{Program, Tensor};
use super::settings::Settings;
use crate::config::LossChoice;
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Error;
use crate::graph::Dim;
use crate::tensor::DType;

/// What a model is trained for, as the end of its class's name says: `GPT2LMHeadModel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// `…ForCausalLM`, `…LMHeadModel`.
    CausalLm,
    /// `…ForMaskedLM`.
    MaskedLm,
    /// `…ForConditionalGeneration`.
    Seq2Seq,
    /// `…ForSequenceClassification`.
    Classification,
    /// `…ForTokenClassification`.
    TokenClassification,
    /// `…ForQuestionAnswering`.
    Answers,
    /// `…ForImageClassification`.
    Images,
    /// `CLIPModel`: texts and pictures that belong together, which is a loss of its own.
    Contrastive,
    /// `…Model`: what all of these are built on, without a head.
    Base,
}

/// COUNT: tokens and batch where nobody says.
const USUAL: [u64; 2] = [512, 8];

/// A model under construction.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) program: Program,
    pub(super) task: Task,
    pub(super) implementation: Implementation,
    /// Whether anybody asked for that implementation.
    pub(super) is_asked: bool,
    pub(super) dims: BTreeMap<String, u64>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// What the model returns beside its scores: `encoder_last_hidden_state`.
    pub(super) returned: Vec<Tensor>,
    /// The last input of tokens.
    ids: Option<Tensor>,
    /// Probability at which what a head for tokens reads is dropped out.
    head_drop: f64,
    /// Modules whose parameters the class itself freezes: `requires_grad_(False)`.
    pub(super) frozen: Vec<String>,
}

impl Model {
    pub(super) fn new(name: &str, task: Task, implementation: Option<Implementation>) -> Self {
        Self {
            program: Program::new(name),
            task,
            implementation: implementation.unwrap_or(Implementation::Sdpa),
            is_asked: implementation.is_some(),
            dims: BTreeMap::new(),
            diagnostics: Vec::new(),
            returned: Vec::new(),
            ids: None,
            head_drop: 0.0,
            frozen: Vec::new(),
        }
    }

    /// An input of tokens; `length` is the longest that the model takes.
    pub(super) fn tokens(&mut self, name: &str, length: u64) -> Tensor {
        let [tokens, batch] = USUAL;
        self.dims.insert("batch".to_owned(), batch);
        self.dims.entry("seq".to_owned()).or_insert_with(|| length.min(tokens));
        let dims = vec![Dim::Named("batch".to_owned()), Dim::Named("seq".to_owned())];
        let ids = self.program.input(name, DType::Int64, dims);
        self.ids = Some(ids);
        ids
    }

    /// An input of numbers, whose batch is open.
    pub(super) fn numbers(&mut self, name: &str, sizes: &[u64]) -> Tensor {
        let [_, batch] = USUAL;
        self.dims.insert("batch".to_owned(), batch);
        let sizes = sizes.iter().map(|&size| Dim::Known(size));
        let dims = [Dim::Named("batch".to_owned())].into_iter().chain(sizes).collect();
        self.program.input(name, DType::Float32, dims)
    }

    /// Name of the model without its head, inside the class with one.
    pub(super) fn base(&self, name: &'static str) -> &'static str {
        if self.task == Task::Base { "" } else { name }
    }

    /// What a loss is computed of.
    pub(super) const fn loss(&self) -> LossChoice {
        match self.task {
            Task::CausalLm => LossChoice::CausalLm,
            Task::MaskedLm | Task::Seq2Seq => LossChoice::MaskedLm,
            Task::Classification | Task::TokenClassification | Task::Images => {
                LossChoice::CrossEntropy
            }
            Task::Answers | Task::Contrastive => LossChoice::Own,
            Task::Base => LossChoice::Auto,
        }
    }

    /// Registers the head of a decoder: its name, and the embedding whose weight it may share.
    pub(super) fn new_head(
        &mut self,
        c: Settings<'_>,
        name: &str,
        embedding: &str,
        [width, vocab]: [u64; 2],
        tied: bool,
    ) -> Result<(), Error> {
        match self.task {
            Task::Base | Task::Answers => {}
            Task::Classification => self.program.new_linear("score", width, labels(c)?, false),
            Task::TokenClassification => {
                self.head_drop = c.number(&["classifier_dropout", "hidden_dropout"], 0.1);
                self.program.new_linear("score", width, labels(c)?, true);
            }
            _ if c.flag(&["tie_word_embeddings"], tied) => {
                self.program.tie(&format!("{name}.weight"), embedding);
            }
            _ => self.program.new_linear(name, width, vocab, false),
        }
        Ok(())
    }

    /// The same for a family whose head has a bias.
    pub(super) fn new_biased_head(
        &mut self,
        c: Settings<'_>,
        name: &str,
        embedding: &str,
        [width, vocab]: [u64; 2],
    ) -> Result<(), Error> {
        let is_head =
            !matches!(self.task, Task::Base | Task::Classification | Task::TokenClassification);
        match c.flag(&["tie_word_embeddings"], false) {
            true if is_head => {
                self.program.tie(&format!("{name}.weight"), embedding);
                self.program.within(name, |p| p.parameter("bias", &[vocab]));
            }
            false if is_head => self.program.new_linear(name, width, vocab, true),
            _ => self.new_head(c, name, embedding, [width, vocab], false)?,
        }
        Ok(())
    }

    /// Runs that head.
    pub(super) fn head(&mut self, name: &str, x: Tensor) -> Tensor {
        let task = self.task;
        let p = &mut self.program;
        let x = p.bind("hidden_states", x);
        match (task, self.ids) {
            (Task::Base | Task::Answers, _) => x,
            (Task::Classification, Some(ids)) => {
                // Every token is scored, and the last that is no padding is read.
                let scores = p.linear("score", x);
                let scores = p.bind("logits", scores);
                p.op("torch.LastTokens", &[scores, ids])
            }
            (Task::TokenClassification, _) => {
                let x = p.dropout("dropout", x, self.head_drop);
                let x = p.bind("hidden_states", x);
                p.linear("score", x)
            }
            _ => p.linear(name, x),
        }
    }

    /// The head of `…ForQuestionAnswering`: where an answer begins and where it ends, and its loss, for
    /// which there are labels of both.
    pub(super) fn answers(&mut self, x: Tensor, width: u64, drop: f64) -> Tensor {
        let batch = || vec![Dim::Named("batch".to_owned())];
        let p = &mut self.program;
        p.new_linear("qa_outputs", width, 2, true);
        let places =
            ["start_positions", "end_positions"].map(|name| p.input(name, DType::Int64, batch()));
        let x = p.bind("sequence_output", x);
        let x = p.dropout("dropout", x, drop);
        let x = p.bind("sequence_output", x);
        let logits = p.linear("qa_outputs", x);
        let logits = p.bind("logits", logits);
        let halves: [Tensor; 2] = p.split(logits, [1, 1], -1);
        let scores = halves.map(|half| {
            let half = p.reshape(half, &[0, 0]);
            p.op("torch.Contiguous", &[half])
        });
        let places = places.map(|place| {
            let (least, most) = (p.int(0), p.int(1));
            p.op("Clip", &[place, least, most])
        });
        for (name, place) in ["start_positions", "end_positions"].into_iter().zip(places) {
            p.bind(name, place);
        }
        let [(start, first), (end, last)] = [(scores[0], places[0]), (scores[1], places[1])];
        let start_loss = p.op("SoftmaxCrossEntropyLoss", &[start, first]);
        p.bind("start_loss", start_loss);
        let end_loss = p.op("SoftmaxCrossEntropyLoss", &[end, last]);
        p.bind("end_loss", end_loss);
        let sum = p.add(start_loss, end_loss);
        let two = p.number();
        self.returned = vec![start, end];
        p.op("Div", &[sum, two])
    }

    /// The family has no attention but that which its file spells out.
    pub(super) fn spells_out(&mut self) {
        if self.implementation != Implementation::Eager && self.is_asked {
            self.say(
                "attention-setting",
                "transformers has no other attention for this family than that which it spells out",
            );
        }
        self.implementation = Implementation::Eager;
    }

    /// Tells what was assumed.
    pub(super) fn say(&mut self, code: &'static str, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(Severity::Info, code, message));
    }
}

/// COUNT: classes of a head, of which a configuration has names.
pub(super) fn labels(c: Settings<'_>) -> Result<u64, Error> {
    let named = c.part("id2label").map(|names| names.keys().count());
    let named = named.and_then(|count| u64::try_from(count).ok()).filter(|&count| count > 0);
    c.count(&["num_labels"], named.unwrap_or(2))
}
