//! What cuDNN's heuristics choose for a call: decision trees, learnt from its answers.
//!
//! `choices/8.0.txt` has those of compute capability 8.0 in single precision, `choices/8.0-half.txt` those in half
//! precision: one for each direction, and more for kinds of layers that most networks do not have:
//!
//! - `for forward` begins a tree, and `for forward line` one for a [`Kind`];
//! - `n 16` tests whether `n` is at most 16: the next subtree applies if it is, and the one after that if not;
//! - `=filled+4` is an answer: a [`Plan`].
//!
//! `highwater-pack` packs them, and describes how. Programs for the browser contain the choices that the page's
//! examples need (`choices/examples.txt`), and fetch a file when a run needs more of it.

use std::sync::OnceLock;

use super::plan::Plan;
use super::{Direction, Kind, Shape, product};

/// What a tree may ask of a layer, as `highwater-pack` numbers it.
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

/// The compute capability of which every program carries what the page's examples ask, in single precision.
const NEAR: (u32, u32) = (8, 0);

/// That a tree is needed which is in a file that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Apart;

/// The trees for a compute capability and a precision.
struct Part {
    capability: (u32, u32),
    half: bool,
    /// The file that the program fetches.
    #[cfg(target_arch = "wasm32")]
    file: &'static str,
    #[cfg(not(target_arch = "wasm32"))]
    bytes: &'static [u8],
    trees: OnceLock<Vec<Tree>>,
}

include!(concat!(env!("OUT_DIR"), "/choices.rs"));

impl Part {
    /// By the newest capability that is not newer than a device's, else by the oldest. Half precision was
    /// asked on one.
    fn nearest(capability: (u32, u32), half: bool) -> Option<&'static Self> {
        let known = || PARTS.iter().filter(|part| part.half == half);
        known()
            .filter(|part| part.capability <= capability)
            .max_by_key(|part| part.capability)
            .or_else(|| known().min_by_key(|part| part.capability))
    }

    /// `None` where they are in a file that cannot be had.
    fn trees(&'static self) -> Option<&'static [Tree]> {
        if let Some(trees) = self.trees.get() {
            return Some(trees);
        }
        let trees = read(self.packed()?)?;
        Some(self.trees.get_or_init(|| trees))
    }

    #[cfg(not(target_arch = "wasm32"))]
    #[expect(clippy::unnecessary_wraps, reason = "the page's programs have it in a file")]
    const fn packed(&self) -> Option<&'static [u8]> {
        Some(self.bytes)
    }

    #[cfg(target_arch = "wasm32")]
    fn packed(&self) -> Option<&'static [u8]> {
        crate::apart::bytes(self.file)
    }
}

/// Of the trees for [`NEAR`], what the page's examples ask.
fn near() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let part = include_bytes!(concat!(env!("OUT_DIR"), "/choices.near"));
    TREES.get_or_init(|| read(part).unwrap_or_default())
}

#[derive(Clone, Copy, Debug)]
enum Node {
    /// Goes on with the next node if the measure is within the limit.
    Split { measure: fn(&Shape) -> u64, limit: u16, otherwise: usize },
    /// `None` where only the [`Part`] tells.
    Answer(Option<Plan>),
}

#[derive(Clone, Debug)]
struct Tree {
    direction: Direction,
    kind: Kind,
    nodes: Vec<Node>,
}

impl Tree {
    fn answer(&self, shape: &Shape) -> Option<Plan> {
        let mut at = 0;
        loop {
            match *self.nodes.get(at)? {
                Node::Answer(plan) => return plan,
                Node::Split { measure, limit, otherwise } => {
                    let next = at.saturating_add(1);
                    at =
                        if measure(shape) <= u64::from(limit) { next } else { otherwise.max(next) };
                }
            }
        }
    }
}

/// The columns that `highwater-pack` made, each read from front to back.
struct Columns {
    plans: Vec<Option<Plan>>,
    nodes: std::slice::Iter<'static, u8>,
    rare: std::slice::Iter<'static, u8>,
    limits: std::iter::Zip<std::slice::Iter<'static, u8>, std::slice::Iter<'static, u8>>,
}

impl Columns {
    /// Reads one tree: `forward line 120`.
    fn tree(&mut self, heading: &str) -> Option<Tree> {
        let (heading, count) = heading.rsplit_once(' ')?;
        let (direction, kind) = heading.split_once(' ').unwrap_or((heading, "plain"));
        let direction = match direction {
            "forward" => Direction::Forward,
            "data" => Direction::BackwardData,
            "filter" => Direction::BackwardFilter,
            _ => return None,
        };
        let nodes = self.nodes(count.parse().ok()?)?;
        Some(Tree { direction, kind: Kind::named(kind)?, nodes })
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

/// The trees of a part, or nothing where it is none.
fn read(part: &'static [u8]) -> Option<Vec<Tree>> {
    let (lengths, mut rest) = part.split_at_checked(16)?;
    let mut columns = lengths.chunks_exact(4).map(|length| {
        let length = u32::from_le_bytes(length.try_into().ok()?);
        let (column, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        rest = behind;
        Some(column)
    });
    let mut next = || columns.next().flatten();
    let (head, nodes, rare, limits) = (next()?, next()?, next()?, next()?);
    let head = str::from_utf8(head).ok()?;
    let (low, high) = limits.split_at_checked(limits.len().div_euclid(2))?;
    let plans = head.lines().filter_map(|line| line.strip_prefix("plan "));
    let plans =
        plans.map(|plan| if plan == "?" { Some(None) } else { Plan::parse(plan).map(Some) });
    let mut columns = Columns {
        plans: plans.collect::<Option<_>>()?,
        nodes: nodes.iter(),
        rare: rare.iter(),
        limits: low.iter().zip(high),
    };
    let headings = head.lines().filter_map(|line| line.strip_prefix("for "));
    headings.map(|heading| columns.tree(heading)).collect()
}

/// The choice; `None` where no tree tells.
///
/// By the tree for plain layers where there is none for the kind, unless channels are innermost.
///
/// # Errors
/// The tree is in a file that cannot be had.
pub(super) fn choose(
    capability: (u32, u32),
    direction: Direction,
    shape: &Shape,
) -> Result<Option<Plan>, Apart> {
    #[cfg(test)]
    tests::ASKED.with_borrow_mut(|asked| asked.push(*shape));
    let Some(part) = Part::nearest(capability, shape.element <= 2) else { return Ok(None) };
    let is_near = part.capability == NEAR && !part.half;
    match is_near.then(|| answer(near(), direction, shape)).flatten() {
        Some(plan) => Ok(Some(plan)),
        None => Ok(answer(part.trees().ok_or(Apart)?, direction, shape)),
    }
}

fn answer(trees: &[Tree], direction: Direction, shape: &Shape) -> Option<Plan> {
    let of =
        |kind: Kind| trees.iter().find(|tree| tree.direction == direction && tree.kind == kind);
    let plain = || if shape.kind.is_innermost() { None } else { of(Kind::Plain) };
    of(shape.kind).or_else(plain)?.answer(shape)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use highwater_formats::formats;

    use super::*;
    use crate::config::Config;
    use crate::diagnostic::Diagnostics;
    use crate::ops::check::HARDWARE;
    use crate::{recover, step, unroll};

    /// Those with convolutions.
    const EXAMPLES: [&[u8]; 2] = [
        include_bytes!("../../../../../../examples/resnet50.onnx"),
        include_bytes!("../../../../../../examples/vit_b_16.onnx"),
    ];

    thread_local! {
        /// Layers that were asked about.
        pub(super) static ASKED: RefCell<Vec<Shape>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn programs_carry_what_the_examples_ask() {
        let batch = BTreeMap::from([("batch".to_owned(), 32)]);
        let config = Config::default();
        for mut example in EXAMPLES {
            let sink = Diagnostics::default();
            let graph = formats::open(&mut example, "example.onnx").unwrap().graph;
            let (graph, typed) = unroll::unroll(Arc::new(graph), &batch, &sink).unwrap();
            let program = recover::recover(&graph, &Arc::new(typed), &config, &sink);
            let loss = step::head_loss::choose(&program, &config, &sink).unwrap();
            step::record(&program, &loss, &config, HARDWARE, &(), &sink).unwrap();
        }
        let asked: BTreeSet<String> = ASKED.take().iter().map(line).collect();
        let mut text =
            "# Layers of the page's examples: kind, and measures as choice.rs has them.\n"
                .to_owned();
        for line in asked {
            text += &line;
        }
        expect_test::expect_file!["choices/examples.txt"].assert_eq(&text);
    }

    fn line(shape: &Shape) -> String {
        let kind = format!("{:?}", shape.kind).to_ascii_lowercase();
        let measures = MEASURES.map(|measure| measure(shape).to_string()).join(" ");
        format!("{kind} {measures}\n")
    }

    #[test]
    fn every_part_is_understood() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/aten/conv/workspace/choices");
        for part in &PARTS {
            let half = if part.half { "-half" } else { "" };
            let (major, minor) = part.capability;
            let text =
                std::fs::read_to_string(format!("{folder}/{major}.{minor}{half}.txt")).unwrap();
            let lines = |begins: &str| text.lines().filter(|line| line.starts_with(begins)).count();
            let trees = part.trees().unwrap();
            assert_eq!(trees.len(), lines("for "));
            assert_eq!(trees.iter().filter(|tree| tree.kind == Kind::Plain).count(), 3);
            for tree in trees {
                for (at, node) in tree.nodes.iter().enumerate() {
                    if let Node::Split { otherwise, .. } = *node {
                        assert!(at + 1 < otherwise && otherwise < tree.nodes.len());
                    }
                }
                assert!(matches!(tree.nodes.last(), Some(Node::Answer(Some(_)))));
            }
            let answers = trees.iter().flat_map(|tree| &tree.nodes);
            let answers = answers.filter(|node| matches!(node, Node::Answer(_))).count();
            assert_eq!(answers, lines("="));
        }
        assert_eq!(near().len(), Part::nearest(NEAR, false).unwrap().trees().unwrap().len());
    }
}
