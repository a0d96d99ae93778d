//! What forward keeps for backward: the minimum cut of the joint graph.
//!
//! The network is that of `min_cut_rematerialization_partition` (`torch/_functorch/partitioners.py`): from the inputs and
//! from everything that must not be computed again to everything that backward needs. To keep a node costs its bytes,
//! more the farther it is from backward, and twice as much if nothing else gives it memory.

use crate::order::IntoOrdered as _;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use super::joint::{Class, Graph, Id, Node};

/// COUNT: steps away from backward that make a node dearer, at most.
const FARTHEST: usize = 100;
/// COUNT: nodes that may be computed again one after the other.
const CHAIN: usize = 100;
/// Room that is never used up.
const ENDLESS: u64 = u64::MAX;

/// A maximum flow (Dinic), and the cut next to its source.
struct Network {
    edges: Vec<Vec<usize>>,
    to: Vec<usize>,
    room: Vec<u64>,
}

impl Network {
    fn new(nodes: usize) -> Self {
        Self { edges: vec![Vec::new(); nodes], to: Vec::new(), room: Vec::new() }
    }

    /// Adds an edge, and its reverse next to it.
    fn edge(&mut self, start: usize, end: usize, room: u64) {
        for (here, there, much) in [(start, end, room), (end, start, 0)] {
            self.edges.get_mut(here).into_iter().for_each(|edges| edges.push(self.to.len()));
            self.to.push(there);
            self.room.push(much);
        }
    }

    fn edges(&self, node: usize) -> &[usize] {
        self.edges.get(node).map_or(&[], Vec::as_slice)
    }

    /// Where an edge leads, if there is room on it.
    fn open(&self, edge: usize) -> Option<usize> {
        (*self.room.get(edge)? > 0).then_some(*self.to.get(edge)?)
    }

    /// Which nodes are on the side of the source.
    fn cut(mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let mut levels = self.levels(source);
            if levels.get(sink).copied().flatten().is_none() {
                return levels.iter().map(Option::is_some).collect();
            }
            let mut tried = vec![0; self.edges.len()];
            while let Some(path) = self.path((source, sink), &mut levels, &mut tried) {
                let rooms = path.iter().filter_map(|edge| self.room.get(*edge));
                let flow = rooms.copied().min().unwrap_or_default();
                if flow == ENDLESS {
                    // Nothing could be kept instead: everything is.
                    return vec![true; self.edges.len()];
                }
                for edge in path {
                    if let Some(room) = self.room.get_mut(edge).filter(|room| **room < ENDLESS) {
                        *room -= flow;
                    }
                    if let Some(room) = self.room.get_mut(edge ^ 1) {
                        *room = room.saturating_add(flow);
                    }
                }
            }
        }
    }

    /// COUNT: edges with room that lead to each node.
    fn levels(&self, source: usize) -> Vec<Option<usize>> {
        let mut levels = vec![None; self.edges.len()];
        levels.get_mut(source).into_iter().for_each(|level| *level = Some(0));
        let mut reached = VecDeque::from([(source, 0_usize)]);
        while let Some((here, level)) = reached.pop_front() {
            for edge in self.edges(here) {
                let Some(there) = self.open(*edge) else { continue };
                if let Some(slot @ None) = levels.get_mut(there) {
                    *slot = Some(level + 1);
                    reached.push_back((there, level + 1));
                }
            }
        }
        levels
    }

    /// Edges with room to the sink, each one level on.
    fn path(
        &self,
        (source, sink): (usize, usize),
        levels: &mut [Option<usize>],
        tried: &mut [usize],
    ) -> Option<Vec<usize>> {
        let mut path: Vec<usize> = Vec::new();
        let mut here = source;
        while here != sink {
            let level = levels.get(here).copied().flatten()?;
            let next = tried.get_mut(here)?;
            let edges = self.edges(here);
            let leads = |edge: &usize| {
                self.open(*edge).is_some_and(|there| levels.get(there) == Some(&Some(level + 1)))
            };
            while edges.get(*next).is_some_and(|edge| !leads(edge)) {
                *next += 1;
            }
            if let Some(edge) = edges.get(*next) {
                path.push(*edge);
                here = *self.to.get(*edge)?;
            } else {
                levels.get_mut(here).into_iter().for_each(|level| *level = None);
                here = *self.to.get(path.pop()? ^ 1)?;
                *tried.get_mut(here)? += 1;
            }
        }
        Some(path)
    }
}

/// The nodes whose memory is kept, inputs among them.
pub(super) fn saved(graph: &Graph) -> BTreeSet<Id> {
    Cut::new(graph).answer()
}

/// The network of a joint graph: each node has a way in and a way out.
struct Cut<'a> {
    graph: &'a Graph,
    network: Network,
    is_source: Vec<bool>,
}

impl<'a> Cut<'a> {
    fn new(graph: &'a Graph) -> Self {
        let nodes = graph.ids().len();
        Self { graph, network: Network::new(2 * nodes + 2), is_source: vec![false; nodes] }
    }

    fn source(&self) -> usize {
        2 * self.graph.ids().len()
    }

    /// Whether a user reads a node without memory.
    fn fuses(&self, id: Id, user: Id) -> bool {
        self.graph.is(user, Class::Join)
            || [id, user].iter().all(|id| self.graph.node(*id).is_some_and(Node::is_fusible))
    }

    /// A node is not computed again.
    fn ban(&mut self, id: Id) {
        self.is_source.get_mut(id).into_iter().for_each(|is_source| *is_source = true);
        self.network.edge(self.source(), 2 * id, ENDLESS);
    }

    fn answer(mut self) -> BTreeSet<Id> {
        let graph = self.graph;
        let (source, sink) = (self.source(), self.source() + 1);
        let needed = graph.made_of(graph.gradients.iter().copied(), |_| false);
        let distances = self.distances();
        for id in graph.ids() {
            let Some(node) = graph.node(id) else { continue };
            if !graph.is_forward(id) {
                if needed.get(id) == Some(&true) {
                    self.network.edge(2 * id, sink, ENDLESS);
                }
                continue;
            }
            if node.class != Class::Part && graph.is_banned(id) {
                self.ban(id);
            }
            let cost = self.cost(id, node, distances.get(id).copied().unwrap_or_default());
            self.network.edge(2 * id, 2 * id + 1, cost);
            for user in graph.users(id) {
                self.network.edge(2 * id + 1, 2 * user, ENDLESS);
            }
        }
        self.ban_far_readers();
        self.ban_long_chains();
        let side = self.network.cut(source, sink);
        let is_cut =
            |id: &Id| side.get(2 * id) == Some(&true) && side.get(2 * id + 1) == Some(&false);
        graph.ids().filter(|id| graph.is_forward(*id)).filter(is_cut).collect()
    }

    /// COUNT: steps to the first user that is no part of forward.
    fn distances(&self) -> Vec<usize> {
        let graph = self.graph;
        let mut distances = vec![0_usize; graph.ids().len()];
        for id in graph.ids().rev() {
            let of = |user: &Id| distances.get(*user).map_or(FARTHEST, |distance| distance + 1);
            let nearest = graph.users(id).iter().map(of).min().unwrap_or(FARTHEST);
            if graph.is_required(id) {
                distances.get_mut(id).into_iter().for_each(|distance| *distance = nearest);
            }
        }
        distances
    }

    /// Of keeping what a node makes: a tenth more for each step.
    fn cost(&self, id: Id, node: &Node, distance: usize) -> u64 {
        if node.is_list() {
            return ENDLESS;
        }
        let dearer = |cost: u64, _| cost.saturating_mul(11).div_euclid(10);
        let cost = (0..distance.clamp(1, FARTHEST)).fold(node.bytes().0, dearer);
        let is_fused = self.graph.users(id).iter().all(|user| self.fuses(id, *user));
        if is_fused && !node.is_given() { cost.saturating_mul(2) } else { cost }
    }

    /// Of what has readers near and far, those are not computed again that come after the first operator that is not
    /// fused.
    fn ban_far_readers(&mut self) {
        let graph = self.graph;
        for id in graph.ids().filter(|id| graph.is_required(*id)) {
            let users = graph.users(id).iter().copied().filter(|user| graph.is_required(*user));
            let users: BTreeSet<Id> = users.into_set();
            let Some(&last) = users.last() else { continue };
            let mut first_apart = last;
            let mut ahead: BinaryHeap<Reverse<(Id, bool)>> =
                users.iter().map(|user| Reverse((*user, true))).collect();
            let mut seen = BTreeSet::new();
            while let Some(Reverse((here, is_fused))) = ahead.pop() {
                if !is_fused {
                    first_apart = here;
                    break;
                }
                for user in graph.users(here).iter().copied() {
                    if graph.is_required(user) && user <= last {
                        let entry = (user, self.fuses(here, user));
                        if seen.insert(entry) {
                            ahead.push(Reverse(entry));
                        }
                    }
                }
            }
            for user in users {
                let is_source = self.is_source.get(user) == Some(&true);
                if user > first_apart && self.fuses(id, user) && !is_source {
                    self.ban(user);
                }
            }
        }
    }

    /// Where too many fused operators follow each other, one of them is kept.
    fn ban_long_chains(&mut self) {
        let graph = self.graph;
        let required: Vec<Id> = graph.ids().filter(|id| graph.is_required(*id)).collect();
        // Numbers count what is required alone.
        let mut order = vec![0; graph.ids().len()];
        for (number, id) in required.iter().enumerate() {
            order.get_mut(*id).into_iter().for_each(|slot| *slot = number);
        }
        let number = |id: Id| order.get(id).copied().unwrap_or_default();
        let mut visited = vec![false; graph.ids().len()];
        for start in required {
            let mut ahead = BinaryHeap::from([Reverse(start)]);
            while let Some(Reverse(here)) = ahead.pop() {
                let Some(slot) = visited.get_mut(here).filter(|visited| !**visited) else {
                    continue;
                };
                *slot = true;
                if number(here) > number(start) + CHAIN && ahead.is_empty() {
                    self.ban(here);
                    break;
                }
                for user in graph.users(here).iter().copied() {
                    let is_source = self.is_source.get(user) == Some(&true);
                    if graph.is_required(user) && self.fuses(here, user) && !is_source {
                        ahead.push(Reverse(user));
                    }
                }
            }
        }
    }
}
