//! The joint graph of a compiled region: forward and backward as one list of operators, each with its class.
//!
//! Views have no node of their own: they are what they look at.

use std::collections::BTreeSet;

use crate::bytes::Bytes;
use crate::eager::Kernel;
use crate::eager::recorder::Place;
use crate::eager::tracer::Request;
use crate::tensor::{DType, TensorType};

/// The place of a node in the graph.
pub(super) type Id = usize;

/// What the planner of memory sees of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A parameter or a buffer, or a tensor of the batch.
    Input,
    /// A gradient that backward is given.
    Tangent,
    /// Fused into its readers: it has memory only where a kernel that is not fused reads it, or where it is kept.
    Point,
    /// The same, but computed once, and by a kernel of its own: random numbers, a gather, a copy in another layout.
    Once,
    /// A reduction: it has memory, and reads fused operands.
    Small,
    /// A kernel of its own: its result and all operands have memory, and it is never computed again.
    Solid,
    /// A product of matrices, likewise.
    Product,
    /// A kernel of its own that writes into its first operand.
    Scatter,
    /// A concatenation, which the kernels of its operands write.
    Join,
    /// One of several results of the solid operator that it reads.
    Part,
}

/// A call, or an input.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) class: Class,
    /// Operands, and the bytes of them that it sees.
    pub(super) reads: Vec<(Id, Bytes)>,
    /// What it makes; nothing for one of several results.
    pub(super) ty: Option<TensorType>,
    /// Whether it adds two gradients.
    pub(super) adds: bool,
    /// Whether it is computed in the pass that makes the next node.
    pub(super) is_statistic: bool,
    pub(super) place: Place,
    /// Scratch of its kernels, one after the other.
    pub(super) scratch: Vec<Request>,
    /// Its kernels, where it is not fused.
    pub(super) kernels: Vec<(Kernel, DType)>,
}

impl Node {
    /// SIZE: of what it makes.
    pub(super) fn bytes(&self) -> Bytes {
        self.ty.as_ref().map_or(Bytes::ZERO, TensorType::size)
    }

    /// Whether it stands for several results, which are nodes of their own.
    pub(super) const fn is_list(&self) -> bool {
        self.ty.is_none()
    }

    /// Whether it is there before forward or backward begins.
    pub(super) const fn is_given(&self) -> bool {
        matches!(self.class, Class::Input | Class::Tangent)
    }

    /// Whether it needs its operands in memory.
    pub(super) const fn must_have(&self) -> bool {
        matches!(self.class, Class::Solid | Class::Product | Class::Scatter)
    }

    /// Whether a kernel may compute it together with others.
    pub(super) const fn is_fusible(&self) -> bool {
        matches!(self.class, Class::Point | Class::Small | Class::Part)
    }
}

/// A joint graph with what follows from the classes.
#[derive(Debug)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    /// What forward returns.
    pub(super) outputs: Vec<Id>,
    /// What backward returns.
    pub(super) gradients: BTreeSet<Id>,
    users: Vec<Vec<Id>>,
    /// What no incoming gradient reaches.
    forward: Vec<bool>,
    /// Of this, what forward's outputs are made of.
    required: Vec<bool>,
}

impl Graph {
    /// `copies` are those of inputs in another layout, which forward makes in any case.
    pub(super) fn new(
        mut nodes: Vec<Node>,
        outputs: Vec<Id>,
        gradients: BTreeSet<Id>,
        copies: impl Iterator<Item = Id>,
    ) -> Self {
        join_products(&mut nodes, &gradients);
        let mut graph = Self {
            forward: vec![true; nodes.len()],
            required: Vec::new(),
            users: vec![Vec::new(); nodes.len()],
            nodes,
            outputs,
            gradients,
        };
        graph.find_users();
        for id in 0..graph.nodes.len() {
            let is_reached = graph.node(id).is_some_and(|node| {
                node.class == Class::Tangent
                    || node.reads.iter().any(|(operand, _)| !graph.is_forward(*operand))
            });
            graph.forward.get_mut(id).into_iter().for_each(|forward| *forward = !is_reached);
        }
        graph.required = graph.made_of(graph.outputs.iter().copied(), |_| false);
        for copy in copies {
            graph.required.get_mut(copy).into_iter().for_each(|required| *required = true);
        }
        graph
    }

    /// Who reads each node, of what anything is made of.
    fn find_users(&mut self) {
        let results = self.outputs.iter().chain(&self.gradients).copied();
        let is_live = self.made_of(results, |_| false);
        let nodes = self.nodes.iter().enumerate().zip(is_live).filter(|(_, is_live)| *is_live);
        for ((id, node), _) in nodes {
            for (operand, _) in &node.reads {
                self.users.get_mut(*operand).into_iter().for_each(|users| users.push(id));
            }
        }
    }

    pub(super) fn ids(&self) -> std::ops::Range<Id> {
        0..self.nodes.len()
    }

    pub(super) fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(super) fn users(&self, id: Id) -> &[Id] {
        self.users.get(id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_forward(&self, id: Id) -> bool {
        self.forward.get(id) == Some(&true)
    }

    pub(super) fn is_required(&self, id: Id) -> bool {
        self.required.get(id) == Some(&true)
    }

    pub(super) fn is(&self, id: Id, class: Class) -> bool {
        self.node(id).is_some_and(|node| node.class == class)
    }

    pub(super) fn bytes(&self, id: Id) -> Bytes {
        self.node(id).map_or(Bytes::ZERO, Node::bytes)
    }

    /// Which nodes these are made of, themselves among them; what is known is not followed.
    pub(super) fn made_of(
        &self,
        ids: impl IntoIterator<Item = Id>,
        is_known: impl Fn(Id) -> bool,
    ) -> Vec<bool> {
        let mut found = vec![false; self.nodes.len()];
        let mut ahead: Vec<Id> = ids.into_iter().collect();
        while let Some(id) = ahead.pop() {
            let Some(slot) = found.get_mut(id).filter(|found| !**found) else { continue };
            *slot = true;
            if !is_known(id)
                && let Some(node) = self.node(id)
            {
                ahead.extend(node.reads.iter().map(|(operand, _)| *operand));
            }
        }
        found
    }

    /// Whether backward must not compute it again.
    pub(super) fn is_banned(&self, id: Id) -> bool {
        let Some(node) = self.node(id) else { return false };
        match node.class {
            Class::Input => return true,
            Class::Part => {
                return node.reads.first().is_some_and(|(list, _)| self.is_banned(*list));
            }
            _ if !self.is_required(id) => return false,
            Class::Once | Class::Solid | Class::Product | Class::Scatter | Class::Join => {
                return true;
            }
            Class::Point | Class::Small | Class::Tangent => {}
        }
        // Statistics are much smaller than what they are made of.
        let read = node.reads.iter().map(|(_, bytes)| *bytes).sum::<Bytes>();
        let waits =
            |user: &Id| !self.is_forward(*user) && self.node(*user).is_some_and(Node::must_have);
        node.bytes().times(4) < read || self.users(id).iter().any(waits)
    }
}

/// A product that is added to another gradient of the same parameter is one `addmm` with it.
fn join_products(nodes: &mut [Node], gradients: &BTreeSet<Id>) {
    let users = |nodes: &[Node], id: Id| {
        nodes.iter().flat_map(|node| &node.reads).filter(|(operand, _)| *operand == id).count()
    };
    for &sum in gradients {
        let adds = |node: &&Node| node.adds;
        let Some(reads) = nodes.get(sum).filter(adds).map(|node| node.reads.clone()) else {
            continue;
        };
        let is_joined = |id: Id| {
            nodes.get(id).is_some_and(|node| node.class == Class::Product) && users(nodes, id) == 1
        };
        let Some(at) = reads.iter().position(|(id, _)| is_joined(*id)) else { continue };
        let product = reads.get(at).and_then(|(id, _)| nodes.get_mut(*id));
        let Some(product) = product else { continue };
        let (of_product, kernels) = (product.reads.clone(), std::mem::take(&mut product.kernels));
        let scratch = std::mem::take(&mut product.scratch);
        let others =
            reads.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, read)| *read);
        let reads = others.chain(of_product).collect();
        if let Some(node) = nodes.get_mut(sum) {
            (node.class, node.reads, node.kernels, node.scratch) =
                (Class::Solid, reads, kernels, scratch);
        }
    }
}
