//! The script of a run as lines, written by a function for each workload; `Process` runs lines in order.

use crate::config::{Batches, Config, MOST_BATCHES, Outputs, Workload, ZeroGrad};
use crate::eager::Mode;
use crate::error::{Error, ErrorKind};
use crate::trace::Phase;

/// The only batch of the training loop, and the variables of its results. A loop that brings all batches of a step
/// first has the others in the slots behind it.
const ONLY: usize = 0;
/// Variables of the function that validates.
const VALIDATION: usize = usize::MAX;

/// A line of a script. A slot has the inputs of a batch, and the variables of its results; several batches may be under
/// way at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The phase of the lines that follow.
    Enter(Phase),
    /// `optimizer = …`, and what stands beside it: master weights, a scaler, an average of the model.
    Optimizer,
    /// A batch is moved to the device; no variable has it before [`Line::Batch`].
    Fetch,
    /// `x, y = …`: the batch that was fetched first takes the place of the slot's.
    Batch {
        /// Whose inputs change.
        slot: usize,
    },
    /// `optimizer.zero_grad()`.
    ZeroGrad,
    /// `loss, out = forward(x, y)`, the model and its loss, under autocast where the configuration has it.
    Forward {
        /// The slot of the inputs.
        of: usize,
        /// The slot whose variables are assigned.
        slot: usize,
        /// What the model and autograd do.
        mode: Mode,
    },
    /// A model that is not trained reads the batch too, without gradients, as the reference of preferences.
    Reference {
        /// The slot of the inputs.
        of: usize,
        /// The slot whose outputs it adds to.
        slot: usize,
    },
    /// A trainer reports numbers of what the model returned.
    Report {
        /// Whose outputs.
        slot: usize,
    },
    /// The function that computed the loss returns: what the model returned goes, and the loss stays.
    Return {
        /// Whose outputs.
        slot: usize,
    },
    /// `loss.backward()`.
    Backward {
        /// Whose loss.
        slot: usize,
    },
    /// `kept.append(out.detach())`, for metrics.
    Keep {
        /// Whose outputs.
        slot: usize,
    },
    /// `optimizer.step()`, with clipping and the scaler around it.
    Step,
    /// `del loss, out`, as at the end of a function.
    Unbind {
        /// Whose variables.
        slot: usize,
    },
    /// Micro-batches in an order that stands elsewhere: [`Hooks::play`](super::hooks::Hooks::play).
    Schedule,
    /// Lines whose kernels are not part of the time of a round.
    Untimed(Vec<Line>),
}

/// What a process runs: lines once, then lines again in each round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Lines before the first round, behind the model's move to the device.
    pub setup: Vec<Line>,
    /// Lines of a round, in training those of an optimizer step.
    pub each: Vec<Line>,
    /// COUNT: rounds.
    pub rounds: usize,
    /// The round, from 1, that stands for all later ones. The first has no optimizer state; the second begins with an
    /// allocator that has not seen that state.
    pub steady: usize,
}

impl Script {
    /// What a configuration runs.
    ///
    /// # Errors
    /// As [`Script::training`].
    pub fn of(config: &Config) -> Result<Self, Error> {
        match config.workload {
            Workload::Training => Self::training(config),
            // Generation has passes of its own sizes: `generate`.
            Workload::Inference | Workload::Generation => Ok(Self::inference(config)),
        }
    }

    /// The model reads one batch after another.
    ///
    /// ```python
    /// model.eval()
    /// with torch.inference_mode():
    ///     for _ in range(3):
    ///         out = model(x)
    /// ```
    fn inference(config: &Config) -> Self {
        let bring = [Line::Fetch, Line::Batch { slot: ONLY }];
        let brings = config.batches != Batches::Auto && config.batches != Batches::Resident;
        let mut each = vec![Line::Enter(Phase::Forward)];
        if brings {
            each.extend_from_slice(&bring);
        }
        each.push(Line::Forward { of: ONLY, slot: ONLY, mode: Mode::EVALUATION });
        if config.keep_outputs.get() > 1 {
            each.push(Line::Keep { slot: ONLY });
        }
        if config.loop_style.habits().outputs != Outputs::NextStep {
            each.push(Line::Unbind { slot: ONLY });
        }
        let setup = if brings { Vec::new() } else { bring.to_vec() };
        Self { setup, each, rounds: ROUNDS, steady: ROUNDS }
    }

    /// The training loop of a configuration.
    ///
    /// ```python
    /// for _ in range(3):
    ///     optimizer.zero_grad()
    ///     for _ in range(accumulate):
    ///         out = model(x)
    ///         loss = criterion(out, y)
    ///         loss.backward()
    ///     optimizer.step()
    /// ```
    ///
    /// # Errors
    /// When a step has more batches than are simulated.
    fn training(config: &Config) -> Result<Self, Error> {
        let batches = batches(config)?;
        let (brings, clears) = (config.brings(), config.clears());
        let habits = config.loop_style.habits();
        let brings_all = habits.brings_all && brings == Batches::Moved;
        let fetch: &[Line] = match brings {
            Batches::Moved => &[Line::Fetch, Line::Batch { slot: ONLY }],
            Batches::Prefetched => &[Line::Fetch],
            Batches::Auto | Batches::Resident => &[],
        };
        let mut each = vec![Line::Enter(Phase::ZeroGrad)];
        if brings_all {
            each.extend((0..batches).map(|_| Line::Fetch));
            each.extend((ONLY..batches).map(|slot| Line::Batch { slot }));
        } else {
            each.extend_from_slice(fetch);
        }
        if clears == ZeroGrad::Start {
            each.push(Line::ZeroGrad);
        }
        for batch in 0..batches {
            each.push(Line::Enter(Phase::Forward));
            if batch > 0 && !brings_all {
                each.extend_from_slice(fetch);
            }
            let of = if brings_all { batch } else { ONLY };
            each.push(Line::Forward { of, slot: ONLY, mode: Mode::TRAINING });
            if config.objective.has_reference() {
                each.push(Line::Reference { of, slot: ONLY });
            }
            if config.objective.is_of_pairs() {
                each.push(Line::Report { slot: ONLY });
            }
            let returns = habits.outputs == Outputs::Loss || config.objective.is_of_pairs();
            if returns && config.keep_outputs.get() == 1 {
                each.push(Line::Return { slot: ONLY });
            }
            each.push(Line::Enter(Phase::Backward));
            if clears == ZeroGrad::BeforeBackward && batch == 0 {
                each.push(Line::ZeroGrad);
            }
            each.push(Line::Backward { slot: ONLY });
            if config.keep_outputs.get() > 1 {
                each.push(Line::Keep { slot: ONLY });
            }
            if brings == Batches::Prefetched {
                each.push(Line::Batch { slot: ONLY });
            }
        }
        each.extend([Line::Enter(Phase::Optimizer), Line::Step]);
        if clears == ZeroGrad::End {
            each.push(Line::ZeroGrad);
        }
        if habits.outputs != Outputs::NextStep {
            each.push(Line::Unbind { slot: ONLY });
        }
        if config.evaluation {
            let mode = Mode::EVALUATION;
            let forward = Line::Forward { of: ONLY, slot: VALIDATION, mode };
            let validate = vec![forward, Line::Unbind { slot: VALIDATION }];
            each.extend([Line::Enter(Phase::Forward), Line::Untimed(validate)]);
        }
        // A library's loop begins without a batch.
        let mut setup = vec![Line::Fetch, Line::Batch { slot: ONLY }, Line::Optimizer];
        if habits.has_labels && brings == Batches::Moved {
            setup = vec![Line::Optimizer];
        }
        Ok(Self { setup, each, rounds: ROUNDS, steady: ROUNDS })
    }
}

/// COUNT: rounds of a loop, of which the last is steady.
pub const ROUNDS: usize = 3;

fn batches(config: &Config) -> Result<usize, Error> {
    let batches = config.accumulate.get();
    if batches > MOST_BATCHES {
        let message = say!(
            "{batches} batches per step are more than the {most_batches} that are simulated",
            batches,
            most_batches = MOST_BATCHES
        );
        return Err(Error::new(ErrorKind::BadConfig, message).about("accumulate"));
    }
    Ok(usize::try_from(batches).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::config::{LoopStyle, Objective};

    /// A line as Python has it.
    fn shown(line: &Line) -> String {
        match line {
            Line::Enter(phase) => format!("# {}", phase.name()),
            Line::Optimizer => "optimizer = …".to_owned(),
            Line::Fetch => "fetched = batch.cuda()".to_owned(),
            Line::Batch { slot } => format!("x{slot} = fetched"),
            Line::ZeroGrad => "zero_grad()".to_owned(),
            Line::Forward { of, slot, mode } => {
                let Mode { training, gradients } = mode;
                let slot = if *slot == VALIDATION { "V".to_owned() } else { slot.to_string() };
                format!("loss{slot} = forward(x{of}, train={training}, grad={gradients})")
            }
            Line::Reference { of, slot } => format!("out{slot} += reference(x{of})"),
            Line::Report { slot } => format!("report(out{slot})"),
            Line::Return { slot } => format!("del out{slot}"),
            Line::Backward { slot } => format!("loss{slot}.backward()"),
            Line::Keep { slot } => format!("kept += out{slot}"),
            Line::Schedule => "schedule.step()".to_owned(),
            Line::Step => "step()".to_owned(),
            Line::Unbind { slot: VALIDATION } => "del lossV".to_owned(),
            Line::Unbind { slot } => format!("del loss{slot}"),
            Line::Untimed(lines) => lines.iter().map(shown).collect::<Vec<_>>().join("; "),
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Config), each: &[&str]) {
        let mut config = Config::default();
        change(&mut config);
        let script = Script::training(&config).expect("a script");
        let shown: Vec<String> = script.each.iter().map(shown).collect();
        assert_eq!(shown, each);
    }

    #[test]
    fn settings_of_the_loop_are_lines() {
        const FORWARD: &str = "loss0 = forward(x0, train=true, grad=true)";
        let two = NonZeroU64::new(2).expect("it is above 0");
        check(
            |_| {},
            &[
                "# zero_grad",
                "zero_grad()",
                "# forward",
                FORWARD,
                "# backward",
                "loss0.backward()",
                "# optimizer",
                "step()",
            ],
        );
        check(
            |config| {
                (config.zero_grad, config.loop_style) = (ZeroGrad::End, LoopStyle::Function);
                (config.batches, config.evaluation) = (Batches::Moved, true);
            },
            &[
                "# zero_grad",
                "fetched = batch.cuda()",
                "x0 = fetched",
                "# forward",
                FORWARD,
                "# backward",
                "loss0.backward()",
                "# optimizer",
                "step()",
                "zero_grad()",
                "del loss0",
                "# forward",
                "lossV = forward(x0, train=false, grad=false); del lossV",
            ],
        );
        check(
            |config| {
                (config.zero_grad, config.batches) =
                    (ZeroGrad::BeforeBackward, Batches::Prefetched);
                (config.accumulate, config.keep_outputs) = (two, two);
            },
            &[
                "# zero_grad",
                "fetched = batch.cuda()",
                "# forward",
                FORWARD,
                "# backward",
                "zero_grad()",
                "loss0.backward()",
                "kept += out0",
                "x0 = fetched",
                "# forward",
                "fetched = batch.cuda()",
                FORWARD,
                "# backward",
                "loss0.backward()",
                "kept += out0",
                "x0 = fetched",
                "# optimizer",
                "step()",
            ],
        );
    }

    #[test]
    fn a_reference_reads_the_batch_behind_the_model() {
        check(
            |config| {
                (config.loop_style, config.objective) = (LoopStyle::Torchtune, Objective::Dpo);
            },
            &[
                "# zero_grad",
                "fetched = batch.cuda()",
                "x0 = fetched",
                "# forward",
                "loss0 = forward(x0, train=true, grad=true)",
                "out0 += reference(x0)",
                "report(out0)",
                "del out0",
                "# backward",
                "loss0.backward()",
                "# optimizer",
                "step()",
                "zero_grad()",
                "del loss0",
            ],
        );
    }

    #[test]
    fn the_trainer_brings_all_batches_and_drops_logits() {
        let two = NonZeroU64::new(2).expect("it is above 0");
        check(
            |config| (config.loop_style, config.accumulate) = (LoopStyle::Trainer, two),
            &[
                "# zero_grad",
                "fetched = batch.cuda()",
                "fetched = batch.cuda()",
                "x0 = fetched",
                "x1 = fetched",
                "# forward",
                "loss0 = forward(x0, train=true, grad=true)",
                "del out0",
                "# backward",
                "loss0.backward()",
                "# forward",
                "loss0 = forward(x1, train=true, grad=true)",
                "del out0",
                "# backward",
                "loss0.backward()",
                "# optimizer",
                "step()",
                "zero_grad()",
                "del loss0",
            ],
        );
    }
}
