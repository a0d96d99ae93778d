//! Ids of a graph's nodes as distances, for graphs that travel: then blocks that repeat are the same bytes, and gzip
//! finds them.
//!
//! An id is the distance to the last one of its kind. Values that nodes make are one kind, parameters and inputs the
//! other: in a block after the next, both have moved on, by different steps.

use highwater_core::graph::{Graph, ValueId};

/// The last ids of both kinds.
#[derive(Default)]
struct Last([usize; 2]);

impl Last {
    /// An id of a kind as a distance: twice its direction and four times its size, and the kind.
    #[cfg(test)]
    fn distance(&mut self, id: usize, kind: usize) -> usize {
        let [made, held] = &mut self.0;
        let last = std::mem::replace(if kind == 0 { made } else { held }, id);
        id.abs_diff(last) * 4 + usize::from(id < last) * 2 + kind
    }

    /// The id at a distance.
    fn id(&mut self, distance: usize) -> usize {
        let [made, held] = &mut self.0;
        let last = if distance.is_multiple_of(2) { made } else { held };
        let size = distance >> 2;
        let is_back = distance & 2 != 0;
        *last = if is_back { last.saturating_sub(size) } else { last.saturating_add(size) };
        *last
    }
}

/// The ids of all nodes, in order.
fn ids(graph: &mut Graph) -> impl Iterator<Item = &mut ValueId> {
    graph
        .nodes
        .iter_mut()
        .flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs).flatten())
}

/// A graph whose nodes have distances: with ids again.
pub(crate) fn restored(mut graph: Graph) -> Graph {
    let mut last = Last::default();
    ids(&mut graph).for_each(|id| id.0 = last.id(id.0));
    graph
}

/// The graph with distances.
#[cfg(test)]
pub(crate) fn taken(mut graph: Graph) -> Graph {
    let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    let made: std::collections::BTreeSet<ValueId> = made.copied().collect();
    let mut last = Last::default();
    ids(&mut graph).for_each(|id| id.0 = last.distance(id.0, usize::from(!made.contains(id))));
    graph
}
