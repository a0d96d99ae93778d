//! Both halves of a compiled region as steps: which buffers its kernels make, in which order, and when each is freed.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};

use super::cut;
use super::joint::{Class, Graph, Id, Node};
use crate::bytes::Bytes;

/// SIZE: operands that count where it is decided whether a value with several readers gets memory.
const LARGE: Bytes = Bytes(65_536);
/// COUNT: how many of them such a value reads at most without memory (`realize_reads_threshold`), and any value.
const READS: usize = 4;
const READS_OF_ANY: usize = 8;

/// What a half does to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A buffer is allocated.
    Make(Id),
    /// A result is written over an operand that nobody needs any more.
    Over(Id, Id),
    /// A kernel runs, which reads these.
    Run(Id, Vec<Id>),
    /// A buffer is freed.
    Free(Id),
}

/// The steps of a region.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) forward: Vec<Step>,
    pub(super) backward: Vec<Step>,
    /// What forward keeps for backward, inputs among it.
    pub(super) saved: BTreeSet<Id>,
}

impl Plan {
    pub(super) fn of(graph: &Graph) -> Self {
        let saved = if graph.gradients.is_empty() { BTreeSet::new() } else { cut::saved(graph) };
        let returned: BTreeSet<Id> = graph.outputs.iter().copied().into_set();
        let is_input = |id: &Id| graph.is(*id, Class::Input);
        let inputs: BTreeSet<Id> = graph.ids().filter(is_input).into_set();
        let keep: BTreeSet<Id> = saved.union(&returned).copied().into_set();
        let wanted = graph.made_of(keep.iter().copied(), |_| false);
        let program = graph.ids().filter(|id| {
            let is_wanted = wanted.get(*id) == Some(&true) || graph.is_required(*id);
            is_wanted && graph.node(*id).is_some_and(|node| !node.is_given())
        });
        let forward = Half::new(graph, program.collect(), &keep, inputs.clone()).steps(&[]);
        let tangents: Vec<Id> = graph.ids().filter(|id| graph.is(*id, Class::Tangent)).collect();
        let freed = saved.iter().filter(|id| !inputs.contains(id) && !returned.contains(id));
        let given: Vec<Id> = freed.chain(&tangents).copied().collect();
        let stays: BTreeSet<Id> = inputs.union(&returned).copied().into_set();
        let order = Order::new(graph, &saved);
        let [traced, sooner] = [false, true].map(|weights_first| {
            let half =
                Half::new(graph, order.program(weights_first), &graph.gradients, stays.clone());
            (half.estimate(&given, &tangents), half)
        });
        // Of equals, the order in which it was traced.
        let half = if sooner.0 < traced.0 { sooner.1 } else { traced.1 };
        let backward = half.steps(&given);
        Self { forward, backward, saved }
    }
}

/// Forward or backward as a list of kernels with their buffers.
struct Half<'a> {
    graph: &'a Graph,
    program: Vec<Id>,
    /// What is there when it ends.
    keep: &'a BTreeSet<Id>,
    /// What is never freed.
    stays: BTreeSet<Id>,
    /// Results that have memory, with what their kernels read of it.
    real: BTreeMap<Id, BTreeSet<Id>>,
    /// By what is read: the last kernel that does.
    last: BTreeMap<Id, Id>,
}

impl<'a> Half<'a> {
    fn new(
        graph: &'a Graph,
        program: Vec<Id>,
        keep: &'a BTreeSet<Id>,
        stays: BTreeSet<Id>,
    ) -> Self {
        let (real, last) = (BTreeMap::new(), BTreeMap::new());
        let mut half = Self { graph, program, keep, stays, real, last };
        half.find_buffers();
        half
    }

    /// Which results have memory, what each kernel reads of it, and who reads it last.
    fn find_buffers(&mut self) {
        let inside: BTreeSet<Id> = self.program.iter().copied().into_set();
        let mut fused: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
        for &id in &self.program {
            let Some(node) = self.graph.node(id) else { continue };
            let mut read = BTreeSet::new();
            for (operand, _) in &node.reads {
                match fused.get(operand).filter(|_| inside.contains(operand)) {
                    Some(operands) if !self.real.contains_key(operand) => read.extend(operands),
                    _ => drop(read.insert(*operand)),
                }
            }
            let is_fused = matches!(node.class, Class::Point | Class::Once);
            if !is_fused || self.is_realized(id, &read, &inside) {
                self.last.extend(read.iter().map(|source| (*source, id)));
                self.real.insert(id, read);
            } else {
                fused.insert(id, read);
            }
        }
    }

    /// Whether a fused value gets memory nevertheless.
    fn is_realized(&self, id: Id, read: &BTreeSet<Id>, inside: &BTreeSet<Id>) -> bool {
        let readers = || self.graph.users(id).iter().filter(|user| inside.contains(user));
        let must_have = |user: &Id| self.graph.node(*user).is_some_and(Node::must_have);
        if self.keep.contains(&id) || readers().any(must_have) || read.len() > READS_OF_ANY {
            return true;
        }
        let large = read.iter().filter(|source| self.graph.bytes(**source) >= LARGE);
        readers().count() > 1 && large.count() > READS
    }

    /// SIZE: the most above what is there at the beginning, as Inductor estimates it: without overwriting.
    fn estimate(&self, given: &[Id], tangents: &[Id]) -> u64 {
        let steps = self.walk(given, |id| tangents.contains(&id), false);
        let (mut live, mut most) = (0_i128, 0_i128);
        for step in steps {
            match step {
                Step::Make(id) => live += i128::from(self.graph.bytes(id).0),
                Step::Free(id) => live -= i128::from(self.graph.bytes(id).0),
                Step::Over(..) | Step::Run(..) => {}
            }
            most = most.max(live);
        }
        u64::try_from(most).unwrap_or_default()
    }

    fn steps(&self, given: &[Id]) -> Vec<Step> {
        self.walk(given, |_| false, true)
    }

    /// The steps, where `given` is there at the beginning.
    fn walk(&self, given: &[Id], is_constant: impl Fn(Id) -> bool, overwrites: bool) -> Vec<Step> {
        let mut alive: BTreeSet<Id> = given.iter().copied().into_set();
        let mut steps = Vec::new();
        for &id in &self.program {
            let (Some(read), Some(node)) = (self.real.get(&id), self.graph.node(id)) else {
                continue;
            };
            let dies = |source: &Id| {
                self.last.get(source) == Some(&id)
                    && alive.contains(source)
                    && !self.keep.contains(source)
                    && !self.stays.contains(source)
                    && !is_constant(*source)
            };
            let mut dead: Vec<Id> = read.iter().copied().filter(dies).collect();
            let is_written_over = match node.class {
                Class::Point | Class::Once | Class::Small => overwrites,
                class => class == Class::Scatter,
            };
            let fits = |source: &Id| {
                is_written_over
                    && node.bytes() > Bytes::ZERO
                    && self.graph.bytes(*source) == node.bytes()
                    && !self.graph.is(*source, Class::Tangent)
            };
            let over = dead.iter().position(fits).map(|at| dead.remove(at));
            if let Some(source) = over {
                alive.remove(&source);
                alive.insert(id);
                steps.push(Step::Over(id, source));
            } else {
                let made = self.made(id, node);
                alive.extend(made.iter().copied());
                steps.extend(made.into_iter().map(Step::Make));
            }
            if node.class != Class::Part {
                let mut read: Vec<Id> = read.iter().copied().collect();
                if let Some(source) = over {
                    read.retain(|id| *id != source);
                    read.push(id);
                }
                steps.push(Step::Run(id, read));
            }
            if !self.last.contains_key(&id) && !self.keep.contains(&id) {
                dead.push(id);
            }
            for id in dead {
                if alive.remove(&id) {
                    steps.push(Step::Free(id));
                }
            }
        }
        steps
    }

    /// What a kernel allocates: several results at once.
    fn made(&self, id: Id, node: &Node) -> Vec<Id> {
        if node.class == Class::Part {
            return Vec::new();
        }
        if !node.is_list() {
            return vec![id];
        }
        let parts = self.graph.users(id).iter().copied();
        parts
            .filter(|user| self.graph.is(*user, Class::Part) && self.real.contains_key(user))
            .collect()
    }
}

/// Backward's operators in the orders that Inductor compares.
struct Order<'a> {
    graph: &'a Graph,
    saved: &'a BTreeSet<Id>,
    /// What backward's results are made of.
    live: Vec<bool>,
    /// Products that are added to something: one `addmm`, called where the other term is ready.
    late: BTreeSet<Id>,
}

impl<'a> Order<'a> {
    fn new(graph: &'a Graph, saved: &'a BTreeSet<Id>) -> Self {
        let live = graph.made_of(graph.gradients.iter().copied(), |id| saved.contains(&id));
        let is_live = |id: &Id| live.get(*id) == Some(&true);
        let is_addend = |id: &Id| {
            let mut users = graph.users(*id).iter().filter(|user| is_live(user));
            let (first, second) = (users.next(), users.next());
            graph.is(*id, Class::Product)
                && second.is_none()
                && first.and_then(|id| graph.node(*id)).is_some_and(|node| node.adds)
        };
        let late = graph.ids().filter(is_addend).collect();
        Self { graph, saved, live, late }
    }

    fn is_live(&self, id: Id) -> bool {
        self.live.get(id) == Some(&true)
    }

    /// In the traced order; with `weights_first` a weight's gradient comes before that of the layer's input.
    fn program(&self, weights_first: bool) -> Vec<Id> {
        let (mut order, mut done) = (Vec::new(), self.saved.clone());
        for id in self.graph.ids() {
            let Some(node) = self.graph.node(id) else { continue };
            let is_called = !node.is_given() && self.is_live(id) && !self.graph.is_forward(id);
            if !is_called || self.late.contains(&id) {
                continue;
            }
            if weights_first && node.class == Class::Product {
                for weight in self.weights_of(node) {
                    self.emit(weight, &mut order, &mut done);
                }
            }
            self.emit(id, &mut order, &mut done);
        }
        order
    }

    /// Products that give a parameter's gradient from the same incoming gradient.
    fn weights_of(&self, node: &Node) -> Vec<Id> {
        let graph = self.graph;
        let of_gradients = node.reads.iter().map(|(operand, _)| *operand);
        let of_gradients = of_gradients.filter(|operand| !graph.is_forward(*operand));
        let users = of_gradients.flat_map(|operand| graph.users(operand)).copied();
        let is_weight = |id: &Id| {
            graph.is(*id, Class::Product)
                && graph.gradients.contains(id)
                && self.is_live(*id)
                && !self.late.contains(id)
        };
        users.filter(is_weight).collect()
    }

    /// An operator, behind those that it needs.
    fn emit(&self, id: Id, order: &mut Vec<Id>, done: &mut BTreeSet<Id>) {
        let mut ahead = vec![(id, false)];
        while let Some((here, is_ready)) = ahead.pop() {
            let Some(node) = self.graph.node(here) else { continue };
            if done.contains(&here) {
                continue;
            }
            if is_ready || node.is_given() {
                done.insert(here);
                if is_ready {
                    order.push(here);
                }
                continue;
            }
            ahead.push((here, true));
            ahead.extend(node.reads.iter().rev().map(|(operand, _)| (*operand, false)));
        }
    }
}
