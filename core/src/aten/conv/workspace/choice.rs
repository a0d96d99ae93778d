//! What cuDNN's heuristics choose for a call: decision trees, learnt from its recorded answers.
//!
//! `choices.txt` has one tree for each compute capability and direction, a node on each line:
//!
//! - `for 8.0 forward` begins a tree, `for 8.0 forward half` one for half precision;
//! - `nhw 25088 17` goes on with the next line where `nhw` is at most 25088, and otherwise with
//!   the tree's line 17, counted from 0; only ever forwards;
//! - `= xyw+4` is the answer (the letters: [`workspace`](super)); `= raw+4` is `xyw+4` with
//!   channels not filled up.

use std::sync::OnceLock;

use super::{Direction, Shape, product};

/// The parts of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states")]
pub(super) struct Take {
    /// A copy of the input.
    pub(super) input: bool,
    /// A copy of the output.
    pub(super) output: bool,
    /// A copy of the weight.
    pub(super) weight: bool,
    /// COUNT: partial results.
    pub(super) partials: u64,
    /// Whether copies have channels in whole 16-byte groups.
    pub(super) padded: bool,
    /// Transformed weights, and nothing else.
    pub(super) winograd: bool,
}

impl Take {
    fn parse(text: &str) -> Option<Self> {
        let (copies, partials) = text.split_once('+').unwrap_or((text, "0"));
        let has = |letter| copies == "raw" || copies.contains(letter);
        if copies == "winograd" {
            return Some(Self { winograd: true, ..Self::default() });
        }
        Some(Self {
            input: has('x'),
            output: has('y'),
            weight: copies == "raw" || copies.ends_with('w'),
            partials: partials.parse().ok()?,
            padded: copies != "raw",
            winograd: false,
        })
    }
}

impl Take {
    /// In half precision with channels innermost tensor cores are the rule: all that does not suit
    /// is copied, and sums are split for the weight's gradient only.
    pub(super) fn in_order(self, direction: Direction) -> Self {
        let partials = if direction == Direction::BackwardFilter { self.partials } else { 0 };
        Self { input: true, output: true, weight: true, partials, padded: true, winograd: false }
    }
}

/// A measure of a layer that a tree asks for.
#[derive(Clone, Copy, Debug)]
struct Feature(fn(&Shape) -> u64);

impl Feature {
    fn parse(name: &str) -> Option<Self> {
        Some(Self(match name {
            "n" => |s| s.batch,
            "c" => |s| s.in_channels,
            "k" => |s| s.out_channels,
            "h" => |s| s.height,
            "hw" => |s| s.in_area,
            "pq" => |s| s.out_area,
            "r" => |s| s.kernel_height,
            "rs" => |s| s.kernel_area,
            "stride" => |s| s.stride,
            "dilation" => |s| s.dilation,
            "groups" => |s| s.groups,
            "cg" => Shape::group_in,
            "kg" => Shape::group_out,
            "calign" => |s| alignment(s.group_in()),
            "kalign" => |s| alignment(s.group_out()),
            "nhw" => in_positions,
            "npq" => out_positions,
            "crs" => |s| s.group_in().saturating_mul(s.kernel_area),
            "krs" => |s| s.group_out().saturating_mul(s.kernel_area),
            "x" => |s| s.in_channels.saturating_mul(in_positions(s)),
            "y" => |s| s.out_channels.saturating_mul(out_positions(s)),
            "w" => |s| product(&[s.out_channels, s.group_in(), s.kernel_area]),
            "tiles_fwd" => |s| tiles(s, out_positions(s), s.group_out()),
            "tiles_data" => |s| tiles(s, in_positions(s), s.group_in()),
            "tiles_filter" => {
                |s| tiles(s, s.group_out(), s.group_in().saturating_mul(s.kernel_area))
            }
            "widening" => |s| s.in_channels.saturating_mul(16).div_euclid(s.out_channels.max(1)),
            "work" => |s| {
                let inner = [out_positions(s), s.group_in(), s.kernel_area, s.group_out()];
                product(&inner).div_euclid(4096).saturating_mul(s.groups)
            },
            _ => return None,
        }))
    }
}

fn in_positions(s: &Shape) -> u64 {
    s.batch.saturating_mul(s.in_area)
}

fn out_positions(s: &Shape) -> u64 {
    s.batch.saturating_mul(s.out_area)
}

/// Largest power of two, at most 32, that divides it.
fn alignment(channels: u64) -> u64 {
    1_u64.checked_shl(channels.trailing_zeros().min(5)).unwrap_or(1)
}

/// COUNT: blocks of 128 x 128 in each group's result.
fn tiles(s: &Shape, rows: u64, columns: u64) -> u64 {
    product(&[rows.div_ceil(128), columns.div_ceil(128), s.groups])
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Split { feature: Feature, limit: u64, otherwise: usize },
    Answer(Take),
}

#[derive(Clone, Debug)]
struct Tree {
    capability: (u32, u32),
    direction: Direction,
    half: bool,
    nodes: Vec<Node>,
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
        Some(Self { capability, direction, half, nodes: Vec::new() })
    }

    fn answer(&self, shape: &Shape) -> Option<Take> {
        let mut line = 0;
        loop {
            match *self.nodes.get(line)? {
                Node::Answer(take) => return Some(take),
                Node::Split { feature: Feature(measure), limit, otherwise } => {
                    let next = line.saturating_add(1);
                    line = if measure(shape) <= limit { next } else { otherwise.max(next) };
                }
            }
        }
    }
}

fn node(line: &str) -> Option<Node> {
    if let Some(answer) = line.strip_prefix("= ") {
        return Take::parse(answer).map(Node::Answer);
    }
    let mut words = line.split(' ');
    let feature = Feature::parse(words.next()?)?;
    let limit = words.next()?.parse().ok()?;
    Some(Node::Split { feature, limit, otherwise: words.next()?.parse().ok()? })
}

/// The forest, or nothing where a line is not understood.
fn parse(text: &str) -> Option<Vec<Tree>> {
    let mut trees: Vec<Tree> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("for ") {
            Some(heading) => trees.push(Tree::parse(heading)?),
            None => trees.last_mut()?.nodes.push(node(line)?),
        }
    }
    Some(trees)
}

fn trees() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    TREES.get_or_init(|| parse(include_str!("choices.txt")).unwrap_or_default())
}

/// By the newest capability recorded that is not newer than this one, else by the oldest.
pub(super) fn choose(capability: (u32, u32), direction: Direction, shape: &Shape) -> Option<Take> {
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
            let count = tree.nodes.len();
            for (line, node) in tree.nodes.iter().enumerate() {
                if let Node::Split { otherwise, .. } = *node {
                    assert!(line + 1 < otherwise && otherwise < count, "{:?}", tree.capability);
                }
            }
            assert!(matches!(tree.nodes.last(), Some(Node::Answer(_))));
        }
    }
}
