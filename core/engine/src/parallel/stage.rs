//! One stage of a pipeline: the part of a program that runs some of its blocks.
//!
//! Blocks are divided as torchtitan divides them (`generate_llm_fqn_per_model_part`): what stands before the first
//! counts as a block, and so does what follows the last. A stage is given what the block before its own made. All else that it
//! reads, such as masks and tables of positions, it makes itself.

use crate::order::IntoOrdered as _;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::graph::{Node, ValueId};
use crate::recover::Program;
use crate::roles::{self, Role};
use crate::sentence::Sentence;
use crate::step::forward;

/// A stage.
#[derive(Debug)]
pub(super) struct Stage {
    /// Its nodes, and the parameters and buffers that they read.
    pub(super) program: Program,
    /// What it is given by the stage before it; `None` in the first.
    pub(super) given: Option<ValueId>,
    /// Whether it is the last, which computes the loss.
    pub(super) is_last: bool,
}

/// A refusal of a pipeline.
pub(super) fn refused(message: Sentence) -> Error {
    Error::new(ErrorKind::BadConfig, message).about("mesh")
}

/// The blocks of a stage; `None` where there are fewer than stages.
fn share(blocks: usize, stages: usize, stage: usize) -> Option<Range<usize>> {
    if stages > blocks {
        return None;
    }
    let (each, more) = ((blocks + 2).checked_div(stages)?, (blocks + 2).checked_rem(stages)?);
    let count = |stage: usize| {
        let ends = usize::from(stage == 0) + usize::from(stage + 1 == stages);
        (each + usize::from(stage < more)).saturating_sub(ends)
    };
    let start = (0..stage).map(count).sum();
    Some(start..start + count(stage))
}

/// Whether a node runs in a module.
fn is_within(node: &Node, module: &str) -> bool {
    node.module.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Operators that read the type, length or device of inputs alone, by positions of these. Where the model's own code
/// has embeddings or words there, that of a later stage has the hidden states that it is given.
const REFERENCES: [(&str, &[usize]); 7] = [
    ("AlibiMask", &[0, 1]),
    ("Arange", &[0]),
    ("CastLike", &[1]),
    ("CausalMask", &[0, 1]),
    ("Ones", &[0]),
    ("TypeOf", &[0]),
    ("VisiblePairs", &[0]),
];

/// The positions of such inputs.
fn references(node: &Node) -> &'static [usize] {
    REFERENCES.iter().find(|(op, _)| *op == node.op).map_or(&[], |(_, positions)| *positions)
}

/// A program whose blocks are known.
struct Whole<'a> {
    program: &'a Program,
    /// By node, the block that it is a part of.
    owners: Vec<Option<usize>>,
    /// By value, the node that makes it.
    makers: Vec<Option<usize>>,
    /// The first node of a block.
    first: usize,
    /// Words, and what is made of them.
    of_words: BTreeSet<ValueId>,
    /// Nodes that each stage runs for itself: before the first block, and neither of words nor of parameters.
    common: BTreeSet<usize>,
}

impl<'a> Whole<'a> {
    fn of(program: &'a Program) -> (Self, usize) {
        let blocks = forward::blocks(program);
        let owner = |node: &Arc<Node>| blocks.iter().position(|(path, _)| is_within(node, path));
        let owners: Vec<Option<usize>> = program.nodes.iter().map(owner).collect();
        let mut makers = vec![None; program.graph.values.len()];
        let roles = roles::roles(program, &program.typed);
        let is_weight = |(_, role): &(usize, Role)| *role == Role::Parameter;
        let weights = roles.into_iter().enumerate().filter(is_weight).map(|(id, _)| ValueId(id));
        let mut of_weights: BTreeSet<ValueId> = weights.into_set();
        let mut common = BTreeSet::new();
        let first = owners.iter().position(Option::is_some).unwrap_or(0);
        let mut of_words: BTreeSet<ValueId> = program.graph.inputs.iter().copied().into_set();
        for (at, node) in program.nodes.iter().enumerate() {
            let references = references(node);
            let inputs = node.inputs.iter().enumerate().filter(|(at, _)| !references.contains(at));
            let reads: Vec<ValueId> = inputs.filter_map(|(_, input)| *input).collect();
            let is_of = |known: &BTreeSet<ValueId>| reads.iter().any(|read| known.contains(read));
            let (is_of_words, is_of_weights) = (is_of(&of_words), is_of(&of_weights));
            common.extend((at < first && !is_of_words && !is_of_weights).then_some(at));
            for output in node.outputs.iter().flatten() {
                of_words.extend(is_of_words.then_some(*output));
                of_weights.extend(is_of_weights.then_some(*output));
                makers.get_mut(output.0).into_iter().for_each(|maker| *maker = Some(at));
            }
        }
        (Self { program, owners, makers, first, of_words, common }, blocks.len())
    }

    fn owner(&self, node: usize) -> Option<usize> {
        self.owners.get(node).copied().flatten()
    }

    /// A node as a stage runs it that is given hidden states.
    fn given(&self, at: usize, given: Option<ValueId>) -> Option<Arc<Node>> {
        let node = self.program.nodes.get(at)?;
        let is_outside = |value: &ValueId| {
            let maker = self.makers.get(value.0).copied().flatten();
            maker.is_none_or(|maker| self.owner(maker).is_none()) && self.of_words.contains(value)
        };
        let mut own = Arc::clone(node);
        for position in references(node) {
            if given.is_some()
                && node.input(*position).as_ref().is_some_and(is_outside)
                && let Some(input) = Arc::make_mut(&mut own).inputs.get_mut(*position)
            {
                *input = given;
            }
        }
        Some(own)
    }

    /// Whether a value is known before the run, such as a shape.
    fn is_known(&self, value: ValueId) -> bool {
        self.program.typed.elements.get(value.0).is_some_and(Option::is_some)
    }

    /// What a block makes for those behind it, if it is one tensor.
    fn result(&self, block: usize) -> Option<ValueId> {
        let mut results = BTreeSet::new();
        for (at, node) in self.program.nodes.iter().enumerate() {
            if self.owner(at) == Some(block) {
                continue;
            }
            for value in node.inputs.iter().flatten() {
                let maker = self.makers.get(value.0).copied().flatten();
                if maker.and_then(|maker| self.owner(maker)) == Some(block)
                    && !self.is_known(*value)
                {
                    results.insert(*value);
                }
            }
        }
        let only = results.first().copied().filter(|_| results.len() == 1)?;
        self.program
            .typed
            .ty(only)
            .filter(|ty| ty.dtype.is_floating() && ty.rank() > 1)
            .map(|_| only)
    }

    /// The nodes that make these values of what is given, in order.
    fn needed(
        &self,
        results: &[ValueId],
        own: &Range<usize>,
        given: Option<ValueId>,
    ) -> Vec<usize> {
        // A block runs as a whole, read or not, and so does what stands before the first.
        let is_own = |at: &usize| match self.owner(*at) {
            Some(owner) => own.contains(&owner),
            None if given.is_none() => *at < self.first,
            None => self.common.contains(at),
        };
        let mut nodes: BTreeSet<usize> = (0..self.program.nodes.len()).filter(is_own).into_set();
        let reads = |at: usize| {
            let inputs = self.given(at, given).map(|node| node.inputs.clone());
            inputs.into_iter().flatten().flatten()
        };
        let mut open = results.to_vec();
        open.extend(nodes.iter().flat_map(|at| reads(*at)));
        while let Some(value) = open.pop() {
            if Some(value) == given || self.is_known(value) {
                continue;
            }
            if let Some(maker) = self.makers.get(value.0).copied().flatten()
                && nodes.insert(maker)
            {
                open.extend(reads(maker));
            }
        }
        nodes.into_iter().collect()
    }

    /// The program of these nodes and of what they read.
    fn part(
        &self,
        kept: &BTreeSet<usize>,
        (nodes, reads): (Vec<Arc<Node>>, BTreeSet<ValueId>),
        given: Option<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Program {
        let whole = self.program;
        let mut program = whole.clone();
        let graph = Arc::make_mut(&mut program.graph);
        graph.outputs = outputs;
        if let Some(given) = given {
            graph.inputs = vec![given];
        }
        // What the first stage has too comes with the head.
        let others = whole.nodes.iter().enumerate().filter(|(at, _)| !kept.contains(at));
        let elsewhere: BTreeSet<ValueId> =
            others.flat_map(|(_, node)| node.inputs.iter().flatten()).copied().into_set();
        let modules: BTreeSet<&str> = nodes.iter().map(|node| node.module.as_str()).into_set();
        let is_idle = |id: &ValueId| {
            let module = whole.graph.value_name(*id).rsplit_once('.').map(|(module, _)| module);
            !elsewhere.contains(id) && module.is_some_and(|module| modules.contains(module))
        };
        let place = |order: &[ValueId]| {
            let own = order.iter().copied().filter(|id| reads.contains(id) || is_idle(id));
            let (shared, own): (Vec<_>, Vec<_>) =
                own.partition(|id| given.is_some() && elsewhere.contains(id));
            [own, shared].concat()
        };
        program.placement = place(&whole.placement);
        program.to_device = place(&whole.to_device);
        // A variable that is there until later is there until the model returns.
        let made: BTreeSet<ValueId> =
            nodes.iter().flat_map(|node| node.outputs.iter().flatten()).copied().into_set();
        let last = nodes.last().and_then(|node| node.output(0));
        for (value, until) in &mut program.names {
            if let Some(last) = last.filter(|_| made.contains(value) && !made.contains(until)) {
                *until = last;
            }
        }
        program.nodes = nodes;
        program
    }
}

/// The stage of this number.
///
/// # Errors
/// When the program cannot be cut into so many stages.
pub(super) fn cut(program: &Program, stages: u64, stage: u64) -> Result<Stage, Error> {
    let (whole, blocks) = Whole::of(program);
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let Some(own) = share(blocks, count(stages), count(stage)) else {
        return Err(refused(say!(
            "{stages} stages are more than the {blocks} blocks of the model: choose a smaller `pp`",
            stages,
            blocks
        )));
    };
    let is_last = stage + 1 == stages;
    let uncut = || {
        refused(say!(
            "the model cannot be cut between its blocks, since more than the hidden states goes from one to the next: \
             leave `pp` out of the mesh"
        ))
    };
    let result =
        |end: usize| end.checked_sub(1).and_then(|block| whole.result(block)).ok_or_else(uncut);
    let given = (stage > 0).then(|| result(own.start)).transpose()?;
    let outputs = if is_last { program.graph.outputs.clone() } else { vec![result(own.end)?] };
    let kept = whole.needed(&outputs, &own, given);
    let is_foreign = |at: &usize| whole.owner(*at).is_some_and(|owner| !own.contains(&owner));
    let nodes: Vec<Arc<Node>> = kept.iter().filter_map(|at| whole.given(*at, given)).collect();
    let reads: BTreeSet<ValueId> =
        nodes.iter().flat_map(|node| node.inputs.iter().flatten()).copied().into_set();
    let is_read = |input: &ValueId| reads.contains(input) && !whole.is_known(*input);
    let reads_words = given.is_some() && program.graph.inputs.iter().any(is_read);
    if kept.iter().any(is_foreign) || reads_words || !program.graph.folds.is_empty() {
        return Err(uncut());
    }
    let program = whole.part(&kept.into_iter().collect(), (nodes, reads), given, outputs);
    Ok(Stage { program, given, is_last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(blocks: usize, stages: usize, counts: &[usize]) {
        let shares = (0..stages).filter_map(|stage| share(blocks, stages, stage));
        assert_eq!(shares.map(|share| share.len()).collect::<Vec<_>>(), counts);
    }

    #[test]
    fn ends_count_as_a_block() {
        check(12, 2, &[6, 6]);
        check(12, 3, &[4, 5, 3]);
        check(30, 4, &[7, 8, 8, 7]);
        check(4, 4, &[1, 2, 1, 0]);
        check(3, 4, &[]);
    }
}
