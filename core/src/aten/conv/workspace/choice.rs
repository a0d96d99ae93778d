//! What cuDNN's heuristics choose for a call: decision trees, learnt from its answers.
//!
//! `choices.txt` has one tree for each compute capability and direction:
//!
//! - `for 8.0 forward` begins a tree, `for 8.0 forward half` one for half precision;
//! - `n 16` asks whether `n` is at most 16: what follows answers if it is, and what follows that
//!   if not;
//! - `=filled+4` is an answer: a [`Plan`].

use std::sync::OnceLock;

use super::plan::Plan;
use super::{Direction, Shape};

/// A measure of a layer that a tree asks for.
#[derive(Clone, Copy, Debug)]
struct Measure(fn(&Shape) -> u64);

impl Measure {
    fn parse(name: &str) -> Option<Self> {
        Some(Self(match name {
            "n" => |s| s.batch,
            "c" => |s| s.in_channels,
            "h" => |s| s.input.0,
            "w" => |s| s.input.1,
            "k" => |s| s.out_channels,
            "g" => |s| s.groups,
            "r" => |s| s.kernel.0,
            "s" => |s| s.kernel.1,
            "p" => |s| s.output.0,
            "q" => |s| s.output.1,
            "stride" => |s| s.stride,
            "cg" => Shape::group_in,
            "kg" => Shape::group_out,
            _ => return None,
        }))
    }
}

#[derive(Clone, Copy, Debug)]
enum Node {
    /// Goes on with the next node if the measure is within the limit.
    Split {
        measure: Measure,
        limit: u64,
        otherwise: usize,
    },
    Answer(Plan),
}

#[derive(Clone, Debug)]
struct Tree {
    capability: (u32, u32),
    direction: Direction,
    half: bool,
    nodes: Vec<Node>,
    /// Splits whose other side has not begun.
    open: Vec<usize>,
}

impl Tree {
    fn parse(heading: &str) -> Option<Self> {
        let (capability, direction) = heading.split_once(' ')?;
        let (major, minor) = capability.split_once('.')?;
        let (direction, half) = match direction.strip_suffix(" half") {
            Some(direction) => (direction, true),
            None => (direction, false),
        };
        let direction = match direction {
            "forward" => Direction::Forward,
            "data" => Direction::BackwardData,
            "filter" => Direction::BackwardFilter,
            _ => return None,
        };
        let capability = (major.parse().ok()?, minor.parse().ok()?);
        Some(Self { capability, direction, half, nodes: Vec::new(), open: Vec::new() })
    }

    /// Takes one more line.
    fn read(&mut self, line: &str) -> Option<()> {
        if let Some(plan) = line.strip_prefix('=') {
            self.nodes.push(Node::Answer(Plan::parse(plan)?));
            let next = self.nodes.len();
            if let Some(Node::Split { otherwise, .. }) =
                self.open.pop().and_then(|split| self.nodes.get_mut(split))
            {
                *otherwise = next;
            }
            return Some(());
        }
        let (measure, limit) = line.split_once(' ')?;
        let (measure, limit) = (Measure::parse(measure)?, limit.parse().ok()?);
        self.open.push(self.nodes.len());
        self.nodes.push(Node::Split { measure, limit, otherwise: usize::MAX });
        Some(())
    }

    fn answer(&self, shape: &Shape) -> Option<Plan> {
        let mut at = 0;
        loop {
            match *self.nodes.get(at)? {
                Node::Answer(plan) => return Some(plan),
                Node::Split { measure: Measure(measure), limit, otherwise } => {
                    let next = at.saturating_add(1);
                    at = if measure(shape) <= limit { next } else { otherwise.max(next) };
                }
            }
        }
    }
}

/// The forest, or nothing where a line is not understood.
fn parse(text: &str) -> Option<Vec<Tree>> {
    let mut trees: Vec<Tree> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("for ") {
            Some(heading) => trees.push(Tree::parse(heading)?),
            None => trees.last_mut()?.read(line)?,
        }
    }
    Some(trees)
}

fn trees() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    TREES.get_or_init(|| parse(include_str!("choices.txt")).unwrap_or_default())
}

/// By the newest capability recorded that is not newer than this one, else by the oldest.
pub(super) fn choose(capability: (u32, u32), direction: Direction, shape: &Shape) -> Option<Plan> {
    let half = shape.element <= 2;
    let is_meant = |tree: &&Tree| tree.direction == direction && tree.half == half;
    let of_direction = || trees().iter().filter(is_meant);
    let tree = of_direction()
        .filter(|tree| tree.capability <= capability)
        .max_by_key(|tree| tree.capability)
        .or_else(|| of_direction().min_by_key(|tree| tree.capability))?;
    tree.answer(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let trees = parse(include_str!("choices.txt")).unwrap();
        assert!(!trees.is_empty());
        for tree in trees {
            assert!(tree.open.is_empty(), "{:?}: a side is missing", tree.capability);
            for (at, node) in tree.nodes.iter().enumerate() {
                if let Node::Split { otherwise, .. } = *node {
                    assert!(at + 1 < otherwise && otherwise < tree.nodes.len());
                }
            }
            assert!(matches!(tree.nodes.last(), Some(Node::Answer(_))));
        }
    }
}
