//! `optimizer.step()`, by optimizer and by the way it walks over the parameters.
//!
//! - State is made in the first step, parameter by parameter, for those that have a gradient. It has
//!   the parameter's type and layout. Step counters stay on the host unless a kernel is fused.
//! - `foreach` works on all parameters of a type at a time: its temporaries are lists, one tensor per
//!   parameter, all alive together.
//! - The loop over single parameters keeps the last one's variables until the next one assigns them again.
//! - Fused kernels allocate nothing.
//!
//! Each optimizer is one [`Rule`] in a module of its own; [`rules`] is the table. Source:
//! `torch/optim/*.py`, PyTorch 2.15.

mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod asgd;
mod eight_bit;
mod frame;
mod lion;
mod muon;
mod nadam;
mod radam;
mod rmsprop;
mod rprop;
mod rule;
mod sgd;

use self::frame::Frame;
use self::rule::{Rule, Slot, Update};
use super::Parameter;
use crate::config::{Config, Implementation, Optimizer, PyTorch};
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::{Runtime, Tensor};
use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;

/// The rules of an optimizer: one, or Muon's and that of its companion.
const fn rules(optimizer: Optimizer) -> &'static [Rule] {
    match optimizer {
        Optimizer::Sgd => &[sgd::PLAIN],
        Optimizer::SgdMomentum => &[sgd::MOMENTUM],
        Optimizer::SgdNesterov => &[sgd::NESTEROV],
        Optimizer::Adam => &[adam::ADAM],
        Optimizer::AdamAmsgrad => &[adam::ADAM_AMSGRAD],
        Optimizer::AdamW => &[adam::ADAMW],
        Optimizer::AdamWAmsgrad => &[adam::ADAMW_AMSGRAD],
        Optimizer::NAdam => &[nadam::NADAM],
        Optimizer::RAdam => &[radam::RADAM],
        Optimizer::Adamax => &[adamax::ADAMAX],
        Optimizer::RmsProp => &[rmsprop::PLAIN],
        Optimizer::RmsPropMomentum => &[rmsprop::MOMENTUM],
        Optimizer::RmsPropCentered => &[rmsprop::CENTERED],
        Optimizer::Adagrad => &[adagrad::ADAGRAD],
        Optimizer::Adadelta => &[adadelta::ADADELTA],
        Optimizer::Rprop => &[rprop::RPROP],
        Optimizer::Asgd => &[asgd::ASGD],
        Optimizer::Adafactor => &[adafactor::ADAFACTOR],
        Optimizer::Muon => &[muon::MUON, muon::COMPANION],
        Optimizer::Lion => &[lion::LION],
        Optimizer::Adam8bit => &[eight_bit::ADAM],
        Optimizer::AdamW8bit => &[eight_bit::ADAMW],
        Optimizer::PagedAdamW8bit => &[eight_bit::PAGED_ADAMW],
        Optimizer::PagedAdamW32bit => &[eight_bit::PAGED_ADAMW_32],
    }
}

/// The optimizer that profilers name by its class, of several the one whose state is nearest to so
/// many copies of the parameters.
pub fn of_class(class: &str, copies: u64, is_nesterov: bool) -> Option<Optimizer> {
    let known = Optimizer::ALL.iter().copied().filter_map(|optimizer| match rules(optimizer) {
        [rule] if rule.class == class => Some((optimizer, rule.copies())),
        _ => None,
    });
    let off = |kept: usize| u64::try_from(kept).unwrap_or(u64::MAX).abs_diff(copies);
    let nearest = known.min_by_key(|&(optimizer, kept)| {
        (off(kept), (optimizer == Optimizer::SgdNesterov) != is_nesterov)
    });
    nearest.map(|(optimizer, _)| optimizer)
}

/// COUNT: copies of a parameter that it keeps as its state, at least; less than a copy is none.
pub fn copies(optimizer: Optimizer) -> usize {
    rules(optimizer).iter().map(Rule::copies).min().unwrap_or_default()
}

/// Whether one kernel can do its step.
pub fn is_fusible(optimizer: Optimizer) -> bool {
    rules(optimizer).iter().all(|rule| rule.fused.is_some())
}

/// Whether PyTorch makes it walk over lists of parameters by itself.
pub fn is_foreach(optimizer: Optimizer) -> bool {
    rules(optimizer).iter().all(|rule| rule.usual == Implementation::Foreach)
}

/// How it is made in Python, with more arguments behind its own; nothing where it takes two objects.
pub fn constructor(optimizer: Optimizer, arguments: &str) -> Option<String> {
    let [rule] = rules(optimizer) else { return None };
    let Rule { module, class, arguments: own, .. } = rule;
    Some(format!("{module}.{class}(model.parameters(), lr=lr{own}{arguments})"))
}

/// An optimizer and the state it has made so far.
#[derive(Debug)]
pub struct State {
    parts: Vec<Part>,
    /// Those of the second group, where some parameters are spread over ranks and some are not.
    second: Vec<Part>,
    decays: bool,
}

/// One optimizer object of the loop.
#[derive(Debug)]
struct Part {
    rule: &'static Rule,
    walk: Walk,
    slots: &'static [Slot],
    /// COUNT: steps made.
    steps: usize,
    state: Vec<Tensor>,
}

/// How an optimizer walks over parameters.
#[derive(Clone, Copy, Debug)]
enum Walk {
    /// All of a type at a time.
    Foreach(Update),
    /// One at a time.
    ForLoop(Update),
    /// In one kernel.
    Fused,
}

impl State {
    /// An optimizer that has not stepped yet.
    ///
    /// # Errors
    /// When the optimizer has no such implementation.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let parts = || {
            let of_rule = |rule| Self::part(config, rule);
            rules(config.optimizer).iter().map(of_rule).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { parts: parts()?, second: parts()?, decays: config.weight_decay })
    }

    fn part(config: &Config, rule: &'static Rule) -> Result<Part, Error> {
        if config.weight_decay && !rule.has_decay {
            let message = say!("{class} knows no weight decay: leave it out", class = rule.class);
            return Err(Error::new(ErrorKind::BadConfig, message).about("weight-decay"));
        }
        let (walk, slots) = implementation(rule, config.walks(), usual(rule, config.pytorch))?;
        Ok(Part { rule, walk, slots, steps: 0, state: Vec::new() })
    }

    /// The constructor: some optimizers make their state there, for parameters with and without a
    /// gradient.
    pub fn construct(&mut self, rt: &Runtime, parameters: &[Parameter]) {
        let groups = groups(parameters.iter());
        for (parts, group) in [&mut self.parts, &mut self.second].into_iter().zip(groups) {
            for part in parts.iter_mut().filter(|part| part.rule.in_constructor) {
                part.make_state(rt, &group);
            }
        }
    }

    /// Whether one kernel does everything, and so can unscale gradients too
    /// (`_step_supports_amp_scaling`).
    pub fn is_fused(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.walk, Walk::Fused))
    }

    /// One step: state is made in the first, temporaries in each.
    pub fn step(&mut self, rt: &Runtime, parameters: &[Parameter]) {
        let trained = parameters.iter().filter(|parameter| parameter.leaf.grad().is_some());
        let [first, second] = groups(trained);
        let second = (!second.is_empty()).then_some((&mut self.second, second));
        for (parts, group) in std::iter::once((&mut self.parts, first)).chain(second) {
            for part in parts {
                let takes = part.rule.takes;
                let taken = group.iter().filter(|parameter| takes(parameter));
                part.step(rt, &taken.cloned().collect::<Vec<_>>(), self.decays);
            }
        }
        rt.enter_operator("");
    }

    /// What the user should know of the optimizer.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let about = self.parts.iter().flat_map(|part| {
            let of_loop = if part.is_for_loop() { part.rule.assumed_of_loop } else { "" };
            [part.rule.assumed, of_loop]
        });
        let about = about.filter(|about| !about.is_empty());
        about
            .map(|about| Diagnostic::new(Severity::Info, "assumed-optimizer", Sentence::of(about)))
            .collect()
    }
}

/// Those of the kind of the first parameter, and the others: spread over ranks, or not. One list of kernels cannot have
/// both, so that transformers' Trainer makes groups of them.
fn groups<'a>(parameters: impl Iterator<Item = &'a Parameter>) -> [Vec<Tensor>; 2] {
    let mut groups = [Vec::new(), Vec::new()];
    let mut is_first_spread = None;
    for Parameter { tensor, leaf } in parameters {
        let is_spread = leaf.is_spread();
        let is_of_first = *is_first_spread.get_or_insert(is_spread) == is_spread;
        let [first, second] = &mut groups;
        if is_of_first { first } else { second }.push(tensor.clone());
    }
    groups
}

/// What a version of PyTorch takes by itself.
fn usual(rule: &Rule, pytorch: PyTorch) -> Implementation {
    match rule.usual {
        Implementation::Foreach if !pytorch.prefers_foreach() => Implementation::ForLoop,
        usual => usual,
    }
}

/// What runs, and the state it works on; an error where PyTorch refuses.
fn implementation(
    rule: &Rule,
    chosen: Implementation,
    usual: Implementation,
) -> Result<(Walk, &'static [Slot]), Error> {
    let walk = match chosen {
        Implementation::Auto => return implementation(rule, usual, usual),
        Implementation::ForLoop => Some((Walk::ForLoop(rule.for_loop), rule.state)),
        Implementation::Foreach => rule.foreach.map(|update| (Walk::Foreach(update), rule.state)),
        Implementation::Fused => rule.fused.map(|slots| (Walk::Fused, slots)),
    };
    walk.ok_or_else(|| {
        let message = say!(
            "{class} has no {chosen} implementation: choose another, or auto for {usual}",
            class = rule.class,
            chosen,
            usual
        );
        Error::new(ErrorKind::BadConfig, message).about("optimizer-impl")
    })
}

impl Part {
    const fn is_for_loop(&self) -> bool {
        matches!(self.walk, Walk::ForLoop(_))
    }

    fn make_state(&mut self, rt: &Runtime, parameters: &[Tensor]) {
        let mut frame = Frame::new(rt, &mut self.state, 1);
        for parameter in parameters {
            frame.parameters = vec![parameter.clone()];
            self.slots.iter().for_each(|&slot| frame.make(slot));
        }
    }

    fn step(&mut self, rt: &Runtime, parameters: &[Tensor], decays: bool) {
        self.steps += 1;
        if self.steps == 1 && !self.rule.in_constructor {
            self.make_state(rt, parameters);
        }
        let (update, lists) = match self.walk {
            Walk::Fused => {
                for list in by_type(parameters) {
                    rt.launch_foreach(&list, self.rule.whole());
                }
                return;
            }
            Walk::Foreach(update) => (update, by_type(parameters)),
            Walk::ForLoop(update) => {
                (update, parameters.iter().map(|one| vec![one.clone()]).collect())
            }
        };
        let mut frame = Frame::new(rt, &mut self.state, self.steps);
        frame.decays = decays;
        for list in lists {
            frame.parameters = list;
            let passes = self.rule.passes;
            if passes.is_empty() {
                update(&mut frame);
                rt.launch_foreach(&frame.parameters, self.rule.whole());
                continue;
            }
            rt.without_launches(|| update(&mut frame));
            let decay = Some(self.rule.decay).filter(|decay| decays && decay.reads > 0);
            for &each in decay.iter().chain(passes) {
                rt.launch_foreach(&frame.parameters, each);
            }
        }
        frame.finish();
    }
}

/// `_group_tensors_by_device_and_dtype`: in the order in which types appear.
fn by_type(parameters: &[Tensor]) -> Vec<Vec<Tensor>> {
    let mut lists: Vec<Vec<Tensor>> = Vec::new();
    for parameter in parameters {
        let same = |list: &&mut Vec<Tensor>| {
            list.first().is_some_and(|first| first.dtype() == parameter.dtype())
        };
        match lists.iter_mut().find(same) {
            Some(list) => list.push(parameter.clone()),
            None => lists.push(vec![parameter.clone()]),
        }
    }
    lists
}
