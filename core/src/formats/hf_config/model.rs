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
    /// `…ForImageClassification`.
    Images,
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
        }
    }

    /// An input of tokens; `length` is the longest that the model takes.
    pub(super) fn tokens(&mut self, name: &str, length: u64) -> Tensor {
        let [tokens, batch] = USUAL;
        self.dims.insert("batch".to_owned(), batch);
        self.dims.entry("seq".to_owned()).or_insert_with(|| length.min(tokens));
        let dims = vec![Dim::Named("batch".to_owned()), Dim::Named("seq".to_owned())];
        self.program.input(name, DType::Int64, dims)
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
            Task::Base => {}
            Task::Classification | Task::TokenClassification => {
                self.say(
                    "assumed-head",
                    "the head for classification is taken to score every token and to read the last",
                );
                self.program.new_linear("score", width, labels(c)?, false);
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
        match task {
            Task::Base => x,
            Task::Classification => {
                let scores = p.linear("score", x);
                let scores = p.bind("logits", scores);
                p.select(scores, 1, -1)
            }
            Task::TokenClassification => p.linear("score", x),
            _ => p.linear(name, x),
        }
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
