//! What cuDNN's heuristics choose for a call: decision trees, learnt from its answers.
//!
//! `choices.txt` has one tree for each compute capability and direction, and more for kinds of
//! layers that are unlike those of most networks:
//!
//! - `for 8.0 forward` begins a tree, `for 8.0 forward half` one for half precision, and
//!   `for 8.0 forward half line` one for a [`Kind`];
//! - `n 16` asks whether `n` is at most 16: what follows answers if it is, and what follows that
//!   if not;
//! - `=filled+4` is an answer: a [`Plan`].
//!
//! `build.rs` packs them, and says how.

use std::sync::OnceLock;

use super::plan::Plan;
use super::{Direction, Kind, Shape, product};

/// What a tree may ask of a layer, as `build.rs` numbers it.
const MEASURES: [fn(&Shape) -> u64; 15] = [
    |s| s.batch,
    |s| s.in_channels,
    |s| s.input.0,
    |s| s.input.1,
    |s| s.out_channels,
    |s| s.groups,
    |s| s.kernel.0,
    |s| s.kernel.1,
    |s| s.output.0,
    |s| s.output.1,
    |s| s.stride,
    Shape::group_in,
    Shape::group_out,
    |s| s.dilation,
    // Of all results in the batch, in blocks of 32.
    |s| product(&[s.batch, s.out_area()]).div_euclid(32),
];
/// The code of the commonest plan; those below are splits.
const FIRST_PLAN: u8 = 16;
/// The code of a plan whose number stands elsewhere.
const RARE: u8 = 255;

#[derive(Clone, Copy, Debug)]
enum Node {
    /// Goes on with the next node if the measure is within the limit.
    Split {
        measure: fn(&Shape) -> u64,
        limit: u16,
        otherwise: usize,
    },
    Answer(Plan),
}

#[derive(Clone, Debug)]
struct Tree {
    capability: (u32, u32),
    direction: Direction,
    half: bool,
    kind: Kind,
    nodes: Vec<Node>,
}

impl Tree {
    fn answer(&self, shape: &Shape) -> Option<Plan> {
        let mut at = 0;
        loop {
            match *self.nodes.get(at)? {
                Node::Answer(plan) => return Some(plan),
                Node::Split { measure, limit, otherwise } => {
                    let next = at.saturating_add(1);
                    at =
                        if measure(shape) <= u64::from(limit) { next } else { otherwise.max(next) };
                }
            }
        }
    }
}

/// The columns that `build.rs` made, each read from front to back.
struct Columns {
    plans: Vec<Plan>,
    nodes: std::slice::Iter<'static, u8>,
    rare: std::slice::Iter<'static, u8>,
    limits: std::iter::Zip<std::slice::Iter<'static, u8>, std::slice::Iter<'static, u8>>,
}

impl Columns {
    /// Reads one tree: `8.0 forward half line 120`.
    fn tree(&mut self, heading: &str) -> Option<Tree> {
        let (heading, count) = heading.rsplit_once(' ')?;
        let mut words = heading.split(' ');
        let (major, minor) = words.next()?.split_once('.')?;
        let capability = (major.parse().ok()?, minor.parse().ok()?);
        let direction = match words.next()? {
            "forward" => Direction::Forward,
            "data" => Direction::BackwardData,
            "filter" => Direction::BackwardFilter,
            _ => return None,
        };
        let mut rest = words.peekable();
        let half = rest.next_if_eq(&"half").is_some();
        let kind = rest.next().map_or(Some(Kind::Plain), Kind::named)?;
        let nodes = self.nodes(count.parse().ok()?)?;
        Some(Tree { capability, direction, half, kind, nodes })
    }

    /// Reads the nodes of one tree.
    fn nodes(&mut self, count: usize) -> Option<Vec<Node>> {
        let mut nodes: Vec<Node> = Vec::with_capacity(count);
        // Splits whose other side has not begun.
        let mut open: Vec<usize> = Vec::new();
        for at in 0..count {
            let code = *self.nodes.next()?;
            if code < FIRST_PLAN {
                let (&low, &high) = self.limits.next()?;
                let measure = *MEASURES.get(usize::from(code))?;
                let limit = u16::from_le_bytes([low, high]);
                open.push(at);
                nodes.push(Node::Split { measure, limit, otherwise: usize::MAX });
                continue;
            }
            let number = match code {
                RARE => u16::from_le_bytes([*self.rare.next()?, *self.rare.next()?]),
                _ => u16::from(code.checked_sub(FIRST_PLAN)?),
            };
            nodes.push(Node::Answer(*self.plans.get(usize::from(number))?));
            if let Some(Node::Split { otherwise, .. }) =
                open.pop().and_then(|split| nodes.get_mut(split))
            {
                *otherwise = at.saturating_add(1);
            }
        }
        open.is_empty().then_some(nodes)
    }
}

/// The forest, or nothing where the columns do not belong together.
fn read() -> Option<Vec<Tree>> {
    let head = include_str!(concat!(env!("OUT_DIR"), "/choices.head"));
    let limits = include_bytes!(concat!(env!("OUT_DIR"), "/choices.limits"));
    let (low, high) = limits.split_at_checked(limits.len().div_euclid(2))?;
    let plans = head.lines().filter_map(|line| line.strip_prefix("plan ")).map(Plan::parse);
    let mut columns = Columns {
        plans: plans.collect::<Option<_>>()?,
        nodes: include_bytes!(concat!(env!("OUT_DIR"), "/choices.nodes")).iter(),
        rare: include_bytes!(concat!(env!("OUT_DIR"), "/choices.rare")).iter(),
        limits: low.iter().zip(high),
    };
    let headings = head.lines().filter_map(|line| line.strip_prefix("for "));
    headings.map(|heading| columns.tree(heading)).collect()
}

fn trees() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    TREES.get_or_init(|| read().unwrap_or_default())
}

/// By the newest capability recorded that is not newer than this one, else by the oldest; by its tree for
/// plain layers where it has none for the kind.
pub(super) fn choose(capability: (u32, u32), direction: Direction, shape: &Shape) -> Option<Plan> {
    let half = shape.element <= 2;
    let is_meant = |tree: &&Tree| tree.direction == direction && tree.half == half;
    let of_direction = || trees().iter().filter(is_meant);
    let plain = || of_direction().filter(|tree| tree.kind == Kind::Plain);
    let nearest = plain()
        .filter(|tree| tree.capability <= capability)
        .max_by_key(|tree| tree.capability)
        .or_else(|| plain().min_by_key(|tree| tree.capability))?;
    let is_of_kind =
        |tree: &&Tree| tree.kind == shape.kind && tree.capability == nearest.capability;
    of_direction().find(is_of_kind).unwrap_or(nearest).answer(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_is_understood() {
        let text = include_str!("choices.txt");
        let lines = |begins: &str| text.lines().filter(|line| line.starts_with(begins)).count();
        let trees = read().unwrap();
        assert_eq!(trees.len(), lines("for "));
        for tree in &trees {
            for (at, node) in tree.nodes.iter().enumerate() {
                if let Node::Split { otherwise, .. } = *node {
                    assert!(at + 1 < otherwise && otherwise < tree.nodes.len());
                }
            }
            assert!(matches!(tree.nodes.last(), Some(Node::Answer(_))));
        }
        let answers = trees.iter().flat_map(|tree| &tree.nodes);
        let answers = answers.filter(|node| matches!(node, Node::Answer(_))).count();
        assert_eq!(answers, lines("="));
    }
}
